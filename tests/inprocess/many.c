/* argv[1] files, each old or new: 2^n recoveries. For speed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../include/crashcut.h"

static int count = 10;

int main(int argc, char** argv) {
  char name[16];
  if (argc > 1) count = atoi(argv[1]);
  for (int i = 0; i < count; ++i) {
    snprintf(name, sizeof name, "f%d", i);
    int fd = open(name, O_CREAT | O_RDWR, 0600);
    pwrite(fd, "o", 1, 0);
    fsync(fd);
    close(fd);
  }
  int fd = open("count", O_CREAT | O_RDWR, 0600);
  dprintf(fd, "%d", count);
  fsync(fd);
  close(fd);
  crashcut_barrier();
  for (int i = 0; i < count; ++i) {
    snprintf(name, sizeof name, "f%d", i);
    fd = open(name, O_RDWR);
    pwrite(fd, "n", 1, 0);
  }
  return 0;
}

void crashcut_recover(void) {
  char name[16], text[64] = "";
  int fd = open("count", O_RDONLY);
  read(fd, text, 8);
  count = atoi(text);
  for (int i = 0; i < count; ++i) {
    snprintf(name, sizeof name, "f%d", i);
    fd = open(name, O_RDONLY);
    read(fd, text + i, 1);
    close(fd);
  }
  text[count] = '\n';
  write(1, text, count + 1);
}
