/* Leaves nothing as it was: argv[1] says what. Each recovery prints what it finds first, so one that is not in a
 * fresh image of the program gives itself away. Recoveries read the choice from a file of main's. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "../../include/crashcut.h"

static int initialised = 42;
static int zeroed;
static char far_away[256 * 1024]; /* pages that nobody touched before */
static __thread int of_thread = 7;
static __thread char more_of_thread[8192];
static char* block;
static char environment_before[] = "as it was";

__attribute__((constructor)) static void before_main(void) {
  block = malloc(3000);
  strcpy(block, "before main");
  setenv("DIRTY", environment_before, 1);
  srand(5);
}

int main(int argc, char** argv) {
  char text[8];
  int fd = open("what", O_CREAT | O_WRONLY, 0600);
  write(fd, argv[1], argc > 1 ? strlen(argv[1]) : 0);
  fsync(fd);
  close(fd);
  fd = open("f", O_CREAT | O_RDWR, 0600);
  memset(text, 'o', sizeof text);
  pwrite(fd, text, sizeof text, 0);
  fsync(fd);
  crashcut_barrier();
  for (int i = 0; i < 6; ++i) pwrite(fd, "n", 1, i);
  return 0;
}

static void count_calls(void) {
  static int calls = 100;
  printf("static local %d\n", calls++);
}

static int use_stack(int depth) {
  char room[4000];
  memset(room, 'S', sizeof room);
  return depth == 0 ? room[17] : use_stack(depth - 1) + room[depth];
}

/* Whether use_stack() was here. */
static int peek_at_stack(void) {
  char unset[20000];
  char* volatile hidden = unset;
  int in_a_row = 0;
  for (int i = 0; i < 20000 && in_a_row < 16; ++i) in_a_row = hidden[i] == 'S' ? in_a_row + 1 : 0;
  return in_a_row == 16;
}

static void say_at_exit(void) { puts("at exit"); }
static void* in_thread(void* p) {
  zeroed += 5;
  return p;
}
static void on_signal(int s) { zeroed += s; }

/* The alarm waits until we wait for it: pause() might come too late. */
static void wait_for_alarm(void) {
  sigset_t alarm, before;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  sigprocmask(SIG_BLOCK, &alarm, &before);
  signal(SIGALRM, on_signal);
  ualarm(1000, 0);
  sigsuspend(&before);
  sigprocmask(SIG_SETMASK, &before, NULL);
}

static void print_state(void) {
  sigset_t mask;
  struct sigaction action;
  sigprocmask(SIG_BLOCK, NULL, &mask);
  sigaction(SIGUSR1, NULL, &action);
  printf("globals %d %d %d %d\n", initialised, zeroed, far_away[0], far_away[200000]);
  printf("thread %d %d errno %d\n", of_thread, more_of_thread[5000], errno);
  printf("heap %s env %s %s\n", block, getenv("DIRTY"), getenv("DIRTIER") ? "dirtier" : "clean");
  printf("rand %d round %d stack %d\n", rand(), fegetround(), peek_at_stack());
  printf("mask %d handler %d umask %d\n", sigismember(&mask, SIGUSR2), action.sa_handler != SIG_DFL, access("/", F_OK));
  count_calls();
}

static void dirty_memory(void) {
  initialised = zeroed = of_thread = 1;
  memset(far_away, 1, sizeof far_away);
  memset(more_of_thread, 1, sizeof more_of_thread);
  strcpy(block, "after");
  block = malloc(20000);
  memset(block, 'x', 20000);
  strcpy(getenv("DIRTY"), "dirty");
  setenv("DIRTIER", "1", 1);
  fesetround(FE_UPWARD);
  use_stack(20);
  errno = 77;
  ungetc('z', stdin);
  strtok((char[]){"a b"}, " ");
  atexit(say_at_exit);
}

static void dirty_system(const char* what) {
  if (!strcmp(what, "brk"))
    for (int i = 0; i < 40; ++i) memset(malloc(50000), 'h', 50000);
  if (!strcmp(what, "gigabytes"))
    for (int i = 0; i < 3; ++i) memset(malloc((size_t)1 << 30), 1, 10000);
  if (!strcmp(what, "deep")) printf("%d\n", use_stack(700) != 0);
  if (!strcmp(what, "mask")) {
    sigset_t s;
    sigemptyset(&s);
    sigaddset(&s, SIGUSR2);
    sigprocmask(SIG_BLOCK, &s, NULL);
  }
  if (!strcmp(what, "handler")) {
    signal(SIGUSR1, on_signal);
    raise(SIGUSR1);
    printf("handled %d\n", zeroed);
  }
  if (!strcmp(what, "leak"))
    for (int i = 0; i < 5; ++i) printf("fd %d\n", open("f", O_RDONLY));
  if (!strcmp(what, "dup")) printf("dup %d %d\n", dup(1), dup2(1, 9));
  if (!strcmp(what, "over")) {
    int fd = open("f", O_RDONLY);
    printf("over %d %d\n", dup2(fd, 20), dup2(fd, 0));
  }
  if (!strcmp(what, "close")) {
    close(2);
    printf("fd %d\n", open("f", O_RDONLY));
  }
  if (!strcmp(what, "real")) {
    printf("fd %d\n", open("/dev/null", O_RDONLY));
    printf("fd %d\n", open("/etc/passwd", O_RDONLY));
  }
  if (!strcmp(what, "chdir")) {
    printf("%d", chdir("/"));
    printf("%d\n", open("f", O_RDONLY));
  }
  if (!strcmp(what, "umask")) printf("umask %o\n", umask(0777));
  if (!strcmp(what, "map")) printf("%d\n", mmap(NULL, 8, PROT_READ, MAP_PRIVATE, open("f", O_RDONLY), 0) == MAP_FAILED);
  if (!strcmp(what, "unmap")) munmap((void*)((long)(far_away + 8192) & -4096), 4096);
  if (!strcmp(what, "thread")) {
    pthread_t t;
    pthread_create(&t, NULL, in_thread, NULL);
    pthread_join(t, NULL);
    printf("%d\n", zeroed);
  }
  if (!strcmp(what, "alarm")) {
    wait_for_alarm();
    printf("%d\n", zeroed);
  }
  if (!strcmp(what, "shut")) {
    fputs("last words", stdout);
    fclose(stdout);
  }
  if (!strcmp(what, "unflushed")) {
    setvbuf(stdout, NULL, _IOFBF, 1024);
    fputs("unflushed", stdout);
  }
  if (!strcmp(what, "files")) {
    FILE* f = fopen("new", "w");
    fputs("text", f);
    rename("f", "g");
    mkdir("d", 0700);
    puts(fopen("f", "r") ? "f" : "no f");
  }
  if (!strcmp(what, "much"))
    for (int i = 0; i < 30000; ++i) puts("much");
}

static void end_by(const char* what, const char* text) {
  if (!strcmp(what, "exit")) exit(0);
  if (!strcmp(what, "_exit")) _exit(0);
  if (!strcmp(what, "assume")) crashcut_assume(text[1] == 'n');
  if (!strcmp(what, "some-exit") && text[2] == 'n') exit(3);
  if (!strcmp(what, "some-abort") && text[0] == 'n' && text[3] == 'o') abort();
  if (!strcmp(what, "abort")) abort();
  if (!strcmp(what, "some-segv") && text[0] == 'n' && text[3] == 'o') *(volatile int*)0 = 0;
  if (!strcmp(what, "some-hang") && !memcmp(text, "nonono", 6))
    for (;;)
      ;
  if (!strcmp(what, "two-hang") && (!memcmp(text, "nonono", 6) || !memcmp(text, "ononon", 6)))
    for (;;)
      ;
  if (!strcmp(what, "some-fork") && !memcmp(text, "nonono", 6)) fork();
  if (!strcmp(what, "some-brk") && text[3] == 'n') sbrk(1 << 20);
  if (!strcmp(what, "some-map") && text[3] == 'n')
    munmap(mmap(NULL, 9999, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 9999);
}

void crashcut_recover(void) {
  char what[32] = "";
  char text[9] = "";
  int error = errno;
  int fd = open("what", O_RDONLY);
  read(fd, what, sizeof what - 1);
  if (strcmp(what, "leak") != 0) close(fd);
  errno = error;
  print_state();
  fd = open("f", O_RDONLY);
  read(fd, text, 8);
  printf("%d %s\n", fd, text);
  fprintf(stderr, "errors of %s\n", text);
  dirty_memory();
  dirty_system(what);
  end_by(what, text);
}
