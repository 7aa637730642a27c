/* A recovery that computes for long before it reads: forked at its choices instead of run again. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "../../include/crashcut.h"

int main(void) {
  int fd = open("f", O_CREAT | O_RDWR, 0600);
  pwrite(fd, "ooooo", 5, 0);
  fsync(fd);
  crashcut_barrier();
  for (int i = 0; i < 5; ++i) pwrite(fd, "n", 1, i);
  return 0;
}

void crashcut_recover(void) {
  char text[8];
  volatile long sum = 0;
  for (long i = 0; i < 10000000; ++i) sum += i;
  int fd = open("f", O_RDONLY);
  for (int i = 0; i < 5; ++i) pread(fd, text + i, 1, i);
  printf("%.5s\n", text);
}
