/* One program, many ways to go wrong: argv[1] says which. Recoveries read the choice from a file of main's. */
#define _GNU_SOURCE
#include <assert.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/crashcut.h"

static char mode[32];

/* Uses what it got after the call, so that no compiler makes a loop of it. */
static int use_up_stack(volatile int* depth) {
  volatile int room[1000];
  room[0] = ++*depth;
  return room[0] < 0 ? 0 : use_up_stack(depth) + room[0];
}

/* Of all mappings only crashcut's own are that large; its code then dies of it. */
static void take_models_memory(void) {
  char line[512];
  FILE* maps = fopen("/proc/self/maps", "r");
  while (fgets(line, sizeof line, maps)) {
    unsigned long begin, end;
    char how[8];
    if (sscanf(line, "%lx-%lx %7s", &begin, &end, how) != 3 || end - begin < 1ul << 34 || strcmp(how, "rw-p")) continue;
    mprotect((void*)begin, end - begin, PROT_NONE);
  }
  fclose(maps);
  close(open("flag", O_WRONLY));
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  int fd = open("mode", O_CREAT | O_WRONLY, 0600);
  write(fd, what, strlen(what));
  fsync(fd);
  close(fd);
  crashcut_barrier();
  close(open("flag", O_CREAT | O_WRONLY, 0600));
  if (!strcmp(what, "fork")) {
    if (fork() == 0) _exit(0);
    wait(NULL);
  }
  if (!strcmp(what, "system")) system("true");
  if (!strcmp(what, "exec")) execlp("true", "true", NULL);
  if (!strcmp(what, "loop"))
    for (;;)
      ;
  if (!strcmp(what, "sleep"))
    for (;;) pause();
  if (!strcmp(what, "segv")) raise(SIGSEGV);
  if (!strcmp(what, "abort")) abort();
  if (!strcmp(what, "exit3")) exit(3);
  if (!strcmp(what, "big")) {
    static char block[1 << 20];
    int big = open("big", O_CREAT | O_WRONLY, 0600);
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 10240; ++i) {
      block[0] = (char)i;
      if (write(big, block, sizeof block) < 0) {
        perror("write");
        return 1;
      }
    }
  }
  if (!strcmp(what, "flock")) {
    flock(open("m", O_CREAT | O_RDWR, 0600), LOCK_EX);
    flock(open("m", O_RDWR), LOCK_SH);
  }
  if (!strcmp(what, "lock")) {
    struct flock lock = {.l_type = F_WRLCK};
    fcntl(open("m", O_CREAT | O_RDWR, 0600), F_OFD_SETLK, &lock);
    fcntl(open("m", O_RDWR), F_OFD_SETLKW, &lock);
  }
  if (!strcmp(what, "bind")) {
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "socket"};
    bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr*)&name, sizeof name);
  }
  if (!strcmp(what, "connect")) {
    struct sockaddr_un name = {.sun_family = AF_UNIX, .sun_path = "/crashcut/socket"};
    connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr*)&name, sizeof name);
  }
  if (!strcmp(what, "setfsuid")) setfsuid(1);
  if (!strcmp(what, "getdents")) {
    char entries[1024];
    syscall(SYS_getdents, open(".", O_RDONLY | O_DIRECTORY), entries, sizeof entries);
  }
  if (!strcmp(what, "openat2")) {
    struct open_how how = {.flags = O_RDONLY, .resolve = RESOLVE_IN_ROOT};
    syscall(SYS_openat2, AT_FDCWD, "mode", &how, sizeof how);
  }
  if (!strncmp(what, "map", 3)) {
    int m = open("m", O_CREAT | O_RDWR, 0600);
    ftruncate(m, 4096);
    void* map = mmap(NULL, 4096, strcmp(what, "map") ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, m, 0);
    if (!strcmp(what, "map_protect")) mprotect(map, 4096, PROT_READ | PROT_WRITE);
    if (!strcmp(what, "map_move")) mremap(map, 4096, 8192, MREMAP_MAYMOVE);
    if (!strcmp(what, "map_sync")) msync(map, 4096, MS_SYNC);
  }
  return 0;
}

void crashcut_recover(void) {
  int fd = open("mode", O_RDONLY);
  read(fd, mode, sizeof mode - 1);
  if (access("flag", F_OK) != 0) {
    puts("no flag");
    return;
  }
  fputs("partial", stdout);
  if (!strcmp(mode, "r-loop"))
    for (;;)
      ;
  if (!strcmp(mode, "r-abort")) abort();
  if (!strcmp(mode, "r-assert")) assert(!"broken");
  if (!strcmp(mode, "r-exit3")) exit(3);
  if (!strcmp(mode, "r-exit0")) exit(0);
  if (!strcmp(mode, "r-segv")) *(volatile int*)0 = 0;
  if (!strcmp(mode, "r-stack")) printf("%d", use_up_stack(&(volatile int){0}));
  if (!strcmp(mode, "r-fork")) fork();
  if (!strcmp(mode, "r-wild")) take_models_memory();
  if (!strcmp(mode, "r-short")) {
    /* The file is longer than the buffer, and the call is told otherwise. */
    char* edge = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(edge + 2 * 4096, 4096, PROT_NONE);
    int big = open("big", O_CREAT | O_RDWR, 0600);
    write(big, edge, 2 * 4096);
    write(big, edge, 2 * 4096);
    pread(big, edge, 3 * 4096, 0);
  }
  if (!strcmp(mode, "r-assume")) crashcut_assume(0);
  if (!strcmp(mode, "r-much"))
    for (int i = 0; i < 100000; ++i) puts("much");
  if (!strcmp(mode, "r-close")) {
    dup2(1, 9);
    close(1);
    dprintf(9, "through 9");
  }
  puts(" flag");
}
