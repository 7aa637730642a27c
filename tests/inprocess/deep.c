/* A recovery that reads four bytes, each old or new, and writes three of them anew: crashed too, 16 + 16 * 8
   recoveries. argv[1] "slow": it computes before it reads, so that it is forked at its choices; "fails": where it finds
   "noon". */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../include/crashcut.h"

int main(int argc, char** argv) {
  int fd = open("f", O_CREAT | O_RDWR, 0600);
  if (pwrite(fd, "oooo", 4, 0) != 4) return 1;
  fsync(fd);
  int how = open("how", O_CREAT | O_RDWR, 0600);
  if (argc > 1 && write(how, argv[1], strlen(argv[1])) < 0) return 1;
  fsync(how);
  crashcut_barrier();
  for (int i = 0; i < 4; ++i) {
    if (pwrite(fd, "n", 1, i) != 1) return 1;
  }
  return 0;
}

void crashcut_recover(void) {
  char text[8] = "", how[8] = "";
  int fd = open("how", O_RDONLY);
  if (read(fd, how, 5) < 0) exit(2);
  close(fd);
  volatile long sum = 0;
  for (long i = 0; how[0] == 's' && i < 1000000; ++i) sum += i;
  fd = open("f", O_RDWR);
  for (int i = 0; i < 4; ++i) {
    if (pread(fd, text + i, 1, i) != 1) exit(2);
  }
  printf("%s\n", text);
  for (int i = 0; i < 3; ++i) {
    if (pwrite(fd, "r", 1, i) != 1) exit(2);
  }
  if (how[0] == 'f' && strcmp(text, "noon") == 0) abort();
}
