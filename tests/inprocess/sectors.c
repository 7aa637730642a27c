/* argv[1] sectors of one file, each old or new: 2^n recoveries, decided in one read. For speed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../include/crashcut.h"

int main(int argc, char** argv) {
  int count = argc > 1 ? atoi(argv[1]) : 10;
  char text[64];
  int fd = open("f", O_CREAT | O_RDWR, 0600);
  memset(text, 'o', sizeof text);
  pwrite(fd, text, count, 0);
  fsync(fd);
  crashcut_barrier();
  for (int i = 0; i < count; ++i) pwrite(fd, "n", 1, i);
  return 0;
}

void crashcut_recover(void) {
  char text[64];
  int fd = open("f", O_RDONLY);
  int count = (int)read(fd, text, sizeof text);
  printf("%.*s\n", count, text);
}
