/* Calls on a few files and directories, each an argument: the same on the model and on the kernel's filesystem
 * (crashcut conform).
 *   calls CALL...   does them; those before "barrier" make the starting state
 *   calls           prints what it finds, one line
 * A call is its name and its arguments with colons between them: creat:foo, mkdir:A, write:foo:OFFSET:LENGTH,
 * dwrite (O_DIRECT), mmapwrite (makes room, stores through a shared mapping, msync of what it stored), msyncwrite (the
 * same by a write with RWF_DSYNC, where there are no shared mappings), falloc:foo:MODE:OFFSET:LENGTH (MODE: z zero, Z
 * zero and keep the size, p punch, k keep the size, a plain), truncate:foo:LENGTH, link:foo:bar, rename:foo:bar,
 * unlink:foo, remove:foo, symlink:foo:bar, setxattr:foo, removexattr:foo, fsync:foo, fdatasync:foo, sync (of this
 * disk), barrier. A call that fails does nothing, as on the other side. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "../../include/crashcut.h"

enum { kMost = 64 * 1024, kUnit = 1024 };

static const char* const kPaths[] = {"foo",     "bar", "A",     "A/foo", "A/bar", "A/C",    "A/C/foo",
                                     "A/C/bar", "B",   "B/foo", "B/bar", "B/C",   "B/C/bar"};

static void show_file(const char* path, const struct stat* found) {
  static char bytes[kMost];
  int fd = open(path, O_RDONLY);
  long count = fd < 0 ? -1 : pread(fd, bytes, sizeof bytes, 0);
  if (fd >= 0) close(fd);
  printf("%ld[", (long)found->st_size);
  if (count < 0) printf("?");
  for (long at = 0; at < count; at += kUnit) {
    /* A letter for each unit: the first byte, and the last one if that differs. */
    long last = at + kUnit <= count ? at + kUnit - 1 : count - 1;
    putchar(bytes[at] ? bytes[at] : '.');
    if (bytes[last] != bytes[at]) putchar(bytes[last] ? bytes[last] : '.');
  }
  putchar(']');
}

static void show(void) {
  for (unsigned i = 0; i < sizeof kPaths / sizeof *kPaths; ++i) {
    struct stat found;
    if (lstat(kPaths[i], &found) != 0) continue;
    printf("%s:", kPaths[i]);
    if (S_ISDIR(found.st_mode)) {
      printf("dir ");
      continue;
    }
    if (S_ISREG(found.st_mode)) show_file(kPaths[i], &found);
    if (S_ISLNK(found.st_mode)) printf("link");
    printf("x%d", (int)found.st_nlink);
    if (S_ISREG(found.st_mode) && getxattr(kPaths[i], "user.test", 0, 0) >= 0) putchar('+');
    putchar(' ');
  }
  putchar('\n');
}

static char next_letter = 'a';

static char* letters(char letter) {
  static char* bytes;
  if (!bytes && posix_memalign((void**)&bytes, 4096, kMost) != 0) abort();
  return memset(bytes, letter, kMost);
}

static long number(const char* text) { return text ? strtol(text, 0, 10) : 0; }

static int mode_of(char letter) {
  switch (letter) {
    case 'z':
      return FALLOC_FL_ZERO_RANGE;
    case 'Z':
      return FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
    case 'p':
      return FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    case 'k':
      return FALLOC_FL_KEEP_SIZE;
    default:
      return 0;
  }
}

static int write_mapped(int fd, char letter, long offset, size_t length) {
  if (fallocate(fd, 0, offset, (off_t)length) != 0) return -1;
  char* bytes = mmap(0, (size_t)offset + length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (bytes == MAP_FAILED) return -1;
  memset(bytes + offset, letter, length);
  const long page = offset / 4096 * 4096;
  int result = msync(bytes + page, (size_t)(offset - page) + length, MS_SYNC);
  return munmap(bytes, (size_t)offset + length) | result;
}

static int write_as_mapped(int fd, char letter, long offset, size_t length) {
  if (fallocate(fd, 0, offset, (off_t)length) != 0) return -1;
  struct iovec part = {letters(letter), length};
  return (int)pwritev2(fd, &part, 1, offset, RWF_DSYNC); /* as msync(), it waits for these blocks alone */
}

static void do_call(char* call, char letter) {
  char* words[5] = {0};
  int count = 0;
  for (char* word = strtok(call, ":"); word && count < 5; word = strtok(0, ":")) words[count++] = word;
  const char *name = words[0], *path = words[1] ? words[1] : ".", *to = words[2] ? words[2] : "";
  int fd = -1, result = 0;
  if (!strcmp(name, "creat")) {
    fd = open(path, O_RDWR | O_CREAT, 0644);
  } else if (!strcmp(name, "mkdir")) {
    result = mkdir(path, 0755);
  } else if (!strcmp(name, "write") || !strcmp(name, "dwrite")) {
    fd = open(path, O_RDWR | (*name == 'd' ? O_DIRECT : 0));
    if (fd >= 0) result = (int)pwrite(fd, letters(letter), (size_t)number(words[3]), number(to));
  } else if (!strcmp(name, "mmapwrite") || !strcmp(name, "msyncwrite")) {
    fd = open(path, O_RDWR);
    if (fd >= 0)
      result = (name[1] == 'm' ? write_mapped : write_as_mapped)(fd, letter, number(to), (size_t)number(words[3]));
  } else if (!strcmp(name, "falloc")) {
    fd = open(path, O_RDWR);
    if (fd >= 0) result = fallocate(fd, mode_of(*to), number(words[3]), number(words[4]));
  } else if (!strcmp(name, "truncate")) {
    result = truncate(path, number(to));
  } else if (!strcmp(name, "link")) {
    result = link(path, to);
  } else if (!strcmp(name, "symlink")) {
    result = symlink(path, to);
  } else if (!strcmp(name, "rename")) {
    result = rename(path, to);
  } else if (!strcmp(name, "unlink")) {
    result = unlink(path);
  } else if (!strcmp(name, "remove")) {
    result = remove(path);
  } else if (!strcmp(name, "setxattr")) {
    result = setxattr(path, "user.test", "value", 5, 0);
  } else if (!strcmp(name, "removexattr")) {
    result = removexattr(path, "user.test");
  } else if (!strcmp(name, "fsync") || !strcmp(name, "fdatasync")) {
    fd = open(path, O_RDONLY);
    if (fd >= 0) result = name[1] == 's' ? fsync(fd) : fdatasync(fd);
  } else if (!strcmp(name, "sync")) {
    /* sync() would wait for all other disks of the machine, too. */
    fd = open(".", O_RDONLY);
    if (fd >= 0) result = syncfs(fd);
  } else if (!strcmp(name, "barrier")) {
    crashcut_barrier();
  } else {
    fprintf(stderr, "calls: there is no call %s\n", name);
    exit(2);
  }
  (void)result;
  if (fd >= 0) close(fd);
}

void crashcut_recover(void) { show(); }

int main(int argc, char** argv) {
  if (argc == 1) show();
  int is_started = 0;
  for (int i = 1; i < argc; ++i) {
    if (!strcmp(argv[i], "barrier")) is_started = 1;
    do_call(argv[i], is_started ? next_letter++ : 'o');
  }
  return 0;
}
