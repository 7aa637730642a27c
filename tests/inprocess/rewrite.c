/* Recovery finishes an interrupted save, and may be interrupted itself (--depth 2). argv[1] "wrong": without fsync. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../include/crashcut.h"

static void put(const char* name, const char* text, int safe) {
  int fd = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0600);
  write(fd, text, strlen(text));
  if (safe) fsync(fd);
  close(fd);
}

int main(int argc, char** argv) {
  if (argc > 1) put("wrong", "", 1);
  put("data", "old", 1);
  crashcut_barrier();
  put("journal", "new", 1);
  return 0;
}

void crashcut_recover(void) {
  char text[8] = "";
  int fd = open("journal", O_RDONLY);
  int n = fd < 0 ? 0 : (int)read(fd, text, sizeof text - 1);
  if (n == 3 && !strcmp(text, "new")) {
    put("data", "new", access("wrong", F_OK) != 0);
    unlink("journal");
  } else {
    memset(text, 0, sizeof text);
    fd = open("data", O_RDONLY);
    read(fd, text, sizeof text - 1);
    printf("[%s]\n", text);
    assert(!strcmp(text, "old") || !strcmp(text, "new"));
  }
}
