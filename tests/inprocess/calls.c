/* Many calls, all answers printed by main through the real stdout: compared with a run without crashcut. */
#define _GNU_SOURCE
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "../../include/crashcut.h"

static void say(const char* what, long result) {
  printf("%s %ld %s\n", what, result, result < 0 ? strerror(errno) : "");
}

static long open_how(const char* path, unsigned long long flags, unsigned long long mode, size_t bytes) {
  struct {
    struct open_how how;
    long more;
  } all = {{.flags = flags, .mode = mode}, 0};
  return syscall(SYS_openat2, AT_FDCWD, path, &all, bytes);
}

/* Newer variants, which libc's own functions do not use. */
static void call_newer_ones(void) {
  char buffer[64] = "";
  struct iovec out[2] = {{"one", 3}, {"two", 3}};
  struct iovec in[2] = {{buffer, 4}, {buffer + 10, 20}};
  say("openat2 bad flag", open_how("new", 1ull << 40, 0, sizeof(struct open_how)));
  say("openat2 bad mode", open_how("new", O_RDWR, 0600, sizeof(struct open_how)));
  say("openat2 short", open_how("new", O_RDWR, 0, 8));
  say("openat2 missing", open_how("new", O_RDWR, 0, sizeof(struct open_how)));
  long fd = open_how("new", O_RDWR | O_CREAT, 0600, sizeof(struct open_how) + sizeof(long));
  say("openat2", fd < 0 ? -1 : 0);
  say("pwritev2", pwritev2(fd, out, 2, 0, 0));
  say("offset", lseek(fd, 0, SEEK_CUR));
  say("pwritev2 here", pwritev2(fd, out, 1, -1, 0));
  say("pwritev2 here, dsync", pwritev2(fd, out, 1, -1, RWF_DSYNC));
  say("offset", lseek(fd, 0, SEEK_CUR));
  say("pwritev2 append", pwritev2(fd, out, 2, 0, RWF_APPEND));
  say("pwritev2 bad flag", pwritev2(fd, out, 2, 0, 0x40000000));
  say("preadv2", preadv2(fd, in, 2, 1, 0));
  printf("%.4s %.7s\n", buffer, buffer + 10);
  say("preadv2 here", preadv2(fd, in, 2, -1, 0));
  say("preadv2 bad flag", preadv2(fd, in, 2, 0, 0x40000000));
  say("size", lseek(fd, 0, SEEK_END));
  say("close", close(fd));
  say("remove", remove("new"));
}

/* What a copy, an advice and a file without a name refuse. */
static void call_with_wrong_arguments(void) {
  int fd = open("wrong", O_RDWR | O_CREAT, 0600);
  int dir = open(".", O_RDONLY | O_DIRECTORY);
  write(fd, "0123456789", 10);
  say("copy onto itself", copy_file_range(fd, &(loff_t){0}, fd, &(loff_t){2}, 5, 0));
  say("copy behind itself", copy_file_range(fd, &(loff_t){0}, fd, &(loff_t){20}, 5, 0));
  say("copy past the end", copy_file_range(fd, &(loff_t){90}, fd, &(loff_t){20}, 5, 0));
  say("copy the end", copy_file_range(fd, &(loff_t){20}, fd, &(loff_t){23}, 50, 0));
  say("copy from a directory", copy_file_range(dir, NULL, fd, NULL, 5, 0));
  say("copy to a directory", copy_file_range(fd, NULL, dir, NULL, 5, 0));
  int end = open("wrong", O_WRONLY | O_APPEND);
  say("copy to the end", copy_file_range(fd, &(loff_t){0}, end, NULL, 5, 0));
  say("copy, flags", copy_file_range(fd, NULL, fd, NULL, 5, 1));
  say("copy out", copy_file_range(fd, &(loff_t){0}, open("/dev/shm", O_TMPFILE | O_RDWR, 0600), NULL, 5, 0));
  printf("advice %d %d\n", posix_fadvise(fd, 0, 0, 77), posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED));
  char path[64];
  for (int exclusive = 0; exclusive < 2; ++exclusive) {
    int nameless = open(".", O_TMPFILE | O_RDWR | (exclusive ? O_EXCL : 0), 0600);
    sprintf(path, "/proc/self/fd/%d", nameless);
    say("link nameless", linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    unlink("named");
    say("link again", linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    close(nameless);
  }
  close(end);
  close(dir);
  close(fd);
}

/* Other users, where this one may become one. */
static void change_users(void) {
  if (geteuid() != 0) return;
  say("chmod", chmod(".", 0755));
  say("mkdir", mkdir("users", 0777));
  say("chmod", chmod("users", 0777));
  say("own", close(open("users/own", O_RDWR | O_CREAT, 0600)));
  say("seteuid", seteuid(1000));
  say("open", open("users/own", O_RDWR));
  say("access by the real one", access("users/own", R_OK));
  say("access", faccessat(AT_FDCWD, "users/own", R_OK, AT_EACCESS));
  say("create", close(open("users/other", O_RDWR | O_CREAT, 0600)));
  say("seteuid", seteuid(0));
  struct stat st;
  stat("users/other", &st);
  printf("owner %d\n", (int)st.st_uid);
  say("open", close(open("users/own", O_RDWR)));
  say("setegid", setegid(1000));
  say("create", close(open("users/group", O_RDWR | O_CREAT, 0600)));
  stat("users/group", &st);
  printf("group %d\n", (int)st.st_gid);
  say("setegid", setegid(0));
}

/* Addresses that lead nowhere, or to what may not be written. */
static void pass_bad_addresses(void) {
  void* volatile bad = (void*)8;
  void* volatile constant = (void*)"constant";
  char* edge = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(edge + 4096, 4096, PROT_NONE);
  char buffer[64];
  struct stat st;
  int fd = open("bad", O_RDWR | O_CREAT, 0600);
  int dir = open(".", O_RDONLY | O_DIRECTORY);
  write(fd, "0123456789", 10);
  symlink("target", "bad_link");
  setxattr("bad", "user.a", "value", 5, 0);
  say("write", write(fd, bad, 3));
  say("write at the edge", pwrite(fd, edge + 4093, 10, 20));
  say("pwrite", pwrite(fd, bad, 3, 0));
  say("writev", pwritev(fd, (struct iovec[]){{"ab", 2}, {bad, 3}}, 2, 30));
  say("writev parts", writev(fd, bad, 1));
  lseek(fd, 0, SEEK_SET);
  say("read", read(fd, bad, 3));
  say("read constant", read(fd, constant, 3));
  say("read at the edge", read(fd, edge + 4093, 10));
  say("offset", lseek(fd, 0, SEEK_CUR));
  say("pread", pread(fd, bad, 3, 0));
  say("pread past the end", pread(fd, buffer, 3, 5000));
  say("readv", preadv(fd, (struct iovec[]){{buffer, 2}, {bad, 3}}, 2, 0));
  say("readv parts", readv(fd, bad, 1));
  say("open", open(bad, O_RDWR));
  say("stat", syscall(SYS_stat, "bad", bad));
  say("stat path", stat(bad, &st));
  say("stat missing", syscall(SYS_stat, "missing", bad));
  say("fstat", syscall(SYS_fstat, fd, bad));
  say("fstatat", syscall(SYS_newfstatat, AT_FDCWD, "bad", bad, 0));
  say("statx", syscall(SYS_statx, AT_FDCWD, "bad", 0, 0x7ff, bad));
  say("statfs", syscall(SYS_statfs, ".", bad));
  say("fstatfs", syscall(SYS_fstatfs, fd, bad));
  say("getdents64", syscall(SYS_getdents64, dir, bad, 1000));
  say("getcwd", syscall(SYS_getcwd, bad, 1000));
  say("chdir", chdir(bad));
  say("readlink", readlink("bad_link", bad, 10));
  say("readlink path", readlink(bad, buffer, 10));
  say("symlink", symlink(bad, "no_link"));
  say("rename", rename("bad", bad));
  say("rename from", rename(bad, "bad"));
  say("link", link("bad", bad));
  say("unlink", unlink(bad));
  say("mkdir", mkdir(bad, 0700));
  say("access", access(bad, F_OK));
  say("truncate", truncate(bad, 0));
  say("setxattr", setxattr("bad", "user.a", bad, 3, 0));
  say("setxattr name", setxattr("bad", bad, "x", 1, 0));
  say("getxattr", getxattr("bad", "user.a", bad, 10));
  say("getxattr name", getxattr("bad", bad, buffer, 10));
  say("listxattr", listxattr("bad", bad, 100));
  say("removexattr", removexattr("bad", bad));
  say("lock", fcntl(fd, F_SETLK, bad));
  say("getlk", fcntl(fd, F_GETLK, bad));
  say("utimensat", utimensat(AT_FDCWD, "bad", bad, 0));
  say("utimensat path", utimensat(AT_FDCWD, bad, NULL, 0));
  say("openat2", syscall(SYS_openat2, AT_FDCWD, "bad", bad, sizeof(struct open_how)));
  say("sendfile", sendfile(fd, fd, bad, 1));
  say("copy_file_range", copy_file_range(fd, bad, fd, NULL, 1, 0));
  close(dir);
  close(fd);
}

/* The same, asked for of the kernel: a handler of its own stands in the way of ours. */
static void nothing(int signal) { (void)signal; }
static void pass_bad_addresses_with_a_handler(void) {
  struct sigaction own = {.sa_handler = nothing}, old;
  say("default", sigaction(SIGSEGV, NULL, &old));
  printf("%d\n", old.sa_handler == SIG_DFL);
  sigaction(SIGSEGV, &own, &old);
  printf("%d\n", old.sa_handler == SIG_DFL);
  pass_bad_addresses();
  sigaction(SIGSEGV, &old, &own);
  printf("%d\n", own.sa_handler == nothing);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &all);
  say("blocked", open((char*)8, O_RDWR));
  sigprocmask(SIG_SETMASK, &all, NULL);
}

/* What a shared mapping shows is the file as it is, also when nothing else has it open. */
static void look_through_maps(void) {
  int fd = open("mapped", O_RDWR | O_CREAT, 0600);
  write(fd, "old", 3);
  char* map = mmap(NULL, 3 * 4096, PROT_READ, MAP_SHARED, fd, 0);
  pwrite(fd, "new", 3, 0);
  printf("written %.3s\n", map);
  ftruncate(fd, 1);
  printf("cut %.3s\n", map);
  pwrite(fd, "far", 3, 5000);
  printf("far %.3s\n", map + 5000);
  say("munmap", munmap(map, 4096));
  pwrite(fd, "FAR", 3, 5000);
  printf("rest %.3s\n", map + 5000);
  say("hide", mprotect(map + 4096, 4096, PROT_NONE));
  pwrite(fd, "Far", 3, 5000);
  say("show", mprotect(map + 4096, 4096, PROT_READ));
  printf("shown %.3s\n", map + 5000);
  say("give up", madvise(map + 4096, 4096, MADV_DONTNEED));
  printf("again %.3s\n", map + 5000);
  char* over = mmap(map + 4096, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  strcpy(over + 904, "own");
  pwrite(fd, "FAR", 3, 5000);
  printf("own %.3s\n", map + 5000);
  munmap(map, 3 * 4096);
  int reader = open("mapped", O_RDONLY);
  map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, reader, 0);
  close(reader);
  unlink("mapped");
  pwrite(fd, "last", 4, 0);
  close(fd);
  printf("closed %.4s\n", map);
  say("writable", mprotect(map, 4096, PROT_READ | PROT_WRITE));
  munmap(map, 4096);
}

static void list(const char* path) {
  char* names[64];
  int count = 0;
  DIR* d = opendir(path);
  struct dirent* e;
  while ((e = readdir(d))) names[count++] = strdup(e->d_name);
  closedir(d);
  for (int i = 0; i < count; ++i)
    for (int j = i + 1; j < count; ++j)
      if (strcmp(names[i], names[j]) > 0) {
        char* t = names[i];
        names[i] = names[j];
        names[j] = t;
      }
  for (int i = 0; i < count; ++i) printf("  %s\n", names[i]);
}

int main(void) {
  struct stat st;
  char buffer[64];
  int fd = open("f", O_RDWR | O_CREAT | O_TRUNC, 0644);
  say("open", fd);
  say("write", write(fd, "hello world", 11));
  say("pwrite", pwrite(fd, "J", 1, 0));
  say("lseek", lseek(fd, 2, SEEK_SET));
  struct iovec parts[2] = {{buffer, 3}, {buffer + 10, 20}};
  say("readv", readv(fd, parts, 2));
  printf("%.3s %.6s\n", buffer, buffer + 10);
  say("fstat", fstat(fd, &st));
  printf("%ld %o %ld\n", (long)st.st_size, st.st_mode, (long)st.st_nlink);
  int copy = dup(fd);
  say("dup", copy);
  say("lseek", lseek(copy, 0, SEEK_CUR));
  say("dup2", dup2(fd, 17));
  say("pwritev", pwritev(17, (struct iovec[]){{"ab", 2}, {"cd", 2}}, 2, 3));
  say("close", close(17));
  say("write closed", write(17, "x", 1));
  say("pread", pread(copy, buffer, 20, 0));
  printf("%.11s\n", buffer);
  say("mkdir", mkdir("d", 0755));
  say("mkdir", mkdir("d", 0755));
  say("rename", rename("f", "d/g"));
  say("link", link("d/g", "h"));
  say("symlink", symlink("h", "s"));
  say("readlink", readlink("s", buffer, sizeof buffer));
  say("stat s", stat("s", &st));
  printf("nlink %ld\n", (long)st.st_nlink);
  say("open missing", open("nothing", O_RDONLY));
  say("unlink d", unlink("d"));
  say("rmdir d", rmdir("d"));
  say("access", access("h", R_OK));
  say("truncate", truncate("h", 3));
  say("pread", pread(fd, buffer, 20, 0));
  say("fallocate", fallocate(fd, 0, 0, 100));
  say("ftruncate", ftruncate(fd, 5));
  say("fsync", fsync(fd));
  say("fdatasync", fdatasync(fd));
  say("chmod", chmod("h", 0600));
  stat("h", &st);
  printf("%o\n", st.st_mode);
  list(".");
  list("d");
  int dir = open("d", O_RDONLY | O_DIRECTORY);
  int at = openat(dir, "x", O_CREAT | O_WRONLY, 0600);
  say("openat", at < 0 ? -1 : 0);
  say("fstatat", fstatat(dir, "x", &st, 0));
  say("fsync dir", fsync(dir));
  say("flock", flock(at, LOCK_EX | LOCK_NB));
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  say("lock", fcntl(at, F_SETLK, &lock));
  say("getfl", fcntl(at, F_GETFL) & O_ACCMODE);
  say("isatty", isatty(at));
  struct pollfd p = {at, POLLOUT, 0};
  say("poll", poll(&p, 1, 0));
  char* map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
  printf("map %.3s\n", map);
  munmap(map, 4096);
  off_t from = 1;
  say("sendfile", sendfile(at, fd, &from, 2));
  say("copy_file_range", copy_file_range(fd, &(loff_t){0}, at, NULL, 3, 0));
  fstat(at, &st);
  printf("size %ld\n", (long)st.st_size);
  say("setxattr", setxattr("h", "user.a", "value", 5, 0));
  say("getxattr", getxattr("h", "user.a", buffer, sizeof buffer));
  say("chdir", chdir("d"));
  say("access x", access("x", F_OK));
  say("access ../h", access("../h", F_OK));
  say("chdir", chdir(".."));
  char* where = getcwd(NULL, 0);
  printf("%s\n", strrchr(where, '/') ? "cwd" : where);
  struct timespec times[2] = {{1, 2}, {3, 4}};
  say("utimensat", utimensat(AT_FDCWD, "h", times, 0));
  stat("h", &st);
  printf("%ld.%ld\n", (long)st.st_mtim.tv_sec, (long)st.st_mtim.tv_nsec);
  /* The real system beside it. */
  int real = open("/dev/null", O_WRONLY);
  say("real", write(real, "x", 1));
  say("dup2 real over modelled", dup2(real, copy) == copy ? 0 : -1);
  say("write", write(copy, "xx", 2));
  say("lseek modelled", lseek(fd, 0, SEEK_END));
  FILE* passwd = fopen("/etc/passwd", "r");
  printf("%s\n", passwd ? "passwd" : "none");
  say("closed", close_range(20, ~0U, 0));
  FILE* f = fopen("stdio", "w+");
  setvbuf(f, NULL, _IOFBF, 16);
  fprintf(f, "%050d", 7);
  rewind(f);
  say("fread", (long)fread(buffer, 1, 60, f));
  fclose(f);
  say("remove", remove("stdio"));
  f = tmpfile();
  printf("tmpfile %d\n", f != NULL);
  call_newer_ones();
  look_through_maps();
  call_with_wrong_arguments();
  change_users();
  pass_bad_addresses();
  pass_bad_addresses_with_a_handler();
  sync();
  return 0;
}

void crashcut_recover(void) {}
