/* Makes one watched system call, named by its arguments, and prints what came back: its result, or -errno.
 *   calls NAME [FILE or TEXT]
 * A name that ends in 32 is made by int 0x80, through the 32-bit table; in x32, with that table's bit.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "include/crashcut.h"

static long call32(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  /* ebp is the sixth argument and cannot be named as an operand. */
  __asm__ volatile(
      "push %%rbp\n\t"
      "mov %[sixth], %%rbp\n\t"
      "int $0x80\n\t"
      "pop %%rbp"
      : "=a"(result)
      : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e), [sixth] "r"(f)
      : "memory", "r8", "r9", "r10", "r11");
  return (int)result;
}

static long kernel_result(long result) { return result == -1 ? -errno : result; }

/* Memory that a 32-bit pointer reaches. */
static char* low_memory(void) {
  return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
}

static long map_result(void* at) { return at == MAP_FAILED ? -errno : 0; }

/* Calls under way while signals rain on us: a notification that signals interrupt may never get through. */
static void on_alarm(int signal) { (void)signal; }
static long sync_in_the_rain(void) {
  struct itimerval every = {{0, 500}, {0, 500}};
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  setitimer(ITIMER_REAL, &every, NULL);
  return kernel_result(syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_BARRIER));
}

/* Nanoseconds a call, of a call that is answered without the kernel's part. */
static long time_barriers(void) {
  struct timespec from, to;
  const long count = 20000;
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (long i = 0; i < count; ++i) crashcut_barrier();
  clock_gettime(CLOCK_MONOTONIC, &to);
  return ((to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec) / count;
}

/* Of one that the filter lets pass. */
static long time_unwatched(void) {
  struct timespec from, to;
  const long count = 2000000;
  clock_gettime(CLOCK_MONOTONIC, &from);
  for (long i = 0; i < count; ++i) syscall(SYS_getppid);
  clock_gettime(CLOCK_MONOTONIC, &to);
  return ((to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec) / count;
}

static long make_call(const char* name, const char* argument) {
  const int fd = argument != NULL ? open(argument, O_RDWR) : -1;
  const long length = argument != NULL ? (long)strlen(argument) : 0;
  const int shared = PROT_READ | PROT_WRITE;
  char* low = low_memory();
  if (low == MAP_FAILED) return -errno;
  if (argument != NULL) strncpy(low, argument, 4095);

  if (strcmp(name, "sync") == 0) return kernel_result(syscall(SYS_sync));
  if (strcmp(name, "sync32") == 0) return call32(36, 0, 0, 0, 0, 0, 0);
  if (strcmp(name, "sync_x32") == 0) return kernel_result(syscall(0x40000000 + SYS_sync));
  if (strcmp(name, "syncfs") == 0) return kernel_result(syncfs(fd));
  if (strcmp(name, "syncfs32") == 0) return call32(344, fd, 0, 0, 0, 0, 0);
  if (strcmp(name, "range") == 0) return kernel_result(sync_file_range(fd, 0x100002000, 0x200001000, 2));
  if (strcmp(name, "range32") == 0) return call32(314, fd, 0x2000, 1, 0x1000, 2, 2);
  if (strcmp(name, "map") == 0) return map_result(mmap(NULL, 4096, shared, MAP_SHARED, fd, 0));
  if (strcmp(name, "map_validate") == 0) return map_result(mmap(NULL, 4096, shared, MAP_SHARED_VALIDATE, fd, 0));
  if (strcmp(name, "map_private") == 0) return map_result(mmap(NULL, 4096, shared, MAP_PRIVATE, fd, 0));
  if (strcmp(name, "map_anonymous") == 0)
    return map_result(mmap(NULL, 4096, shared, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (strcmp(name, "map32") == 0) {
    const long at = call32(192, 0, 4096, shared, MAP_SHARED, fd, 0);
    return at < 0 && at > -4096 ? at : 0;
  }
  if (strcmp(name, "oldmap32") == 0 || strcmp(name, "oldmap_private32") == 0) {
    const unsigned flags = strcmp(name, "oldmap32") == 0 ? MAP_SHARED : MAP_PRIVATE;
    const unsigned arguments[6] = {0, 4096, (unsigned)shared, flags, (unsigned)fd, 0};
    memcpy(low, arguments, sizeof arguments);
    const long at = call32(90, (long)low, 0, 0, 0, 0, 0);
    return at < 0 && at > -4096 ? at : 0;
  }
  if (strcmp(name, "uring") == 0) {
    struct io_uring_params parameters;
    memset(&parameters, 0, sizeof parameters);
    const long made = syscall(SYS_io_uring_setup, 1, &parameters);
    return made < 0 ? -errno : 0;
  }
  if (strcmp(name, "uring32") == 0) {
    memset(low, 0, 4096);
    const long made = call32(425, 1, (long)low, 0, 0, 0, 0);
    return made < 0 ? made : 0;
  }
  if (strcmp(name, "barrier") == 0) return kernel_result(syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_BARRIER));
  if (strcmp(name, "assume") == 0) return kernel_result(syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_ASSUME));
  if (strcmp(name, "mark") == 0)
    return kernel_result(syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_MARK, argument, length));
  if (strcmp(name, "mark32") == 0) return call32(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_MARK, (long)low, length, 0, 0, 0);
  if (strcmp(name, "mark_nowhere") == 0)
    return kernel_result(syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_MARK, 16L, 5L));
  if (strcmp(name, "mark_long") == 0)
    return kernel_result(syscall(CRASHCUT_SYSCALL_NUMBER, CRASHCUT_OP_MARK, low, 1L << 40));
  if (strcmp(name, "reached") == 0) return crashcut_reached(argument);
  if (strcmp(name, "unknown") == 0) return kernel_result(syscall(CRASHCUT_SYSCALL_NUMBER, 99L));
  if (strcmp(name, "rain") == 0) return sync_in_the_rain();
  if (strcmp(name, "time_barriers") == 0) return time_barriers();
  if (strcmp(name, "time_unwatched") == 0) return time_unwatched();
  fprintf(stderr, "no call %s\n", name);
  exit(2);
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  printf("%ld", make_call(argv[1], argc > 2 ? argv[2] : NULL));
  return 0;
}
