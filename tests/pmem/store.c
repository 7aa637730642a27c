/* Files and persistent memory in one program: a log in a file, its length in persistent memory. */
#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tests/pmem/by_hand.h"

static uint64_t* words(void) { return crashcut_pmem("words", 256); }

int main(int argc, char** argv) {
  uint64_t* w = words();
  const char* how = argc > 1 ? argv[1] : "";
  const int fd = open("log", O_CREAT | O_RDWR, 0644);
  assert(fsync(fd) == 0);
  crashcut_barrier();
  if (strcmp(how, "file first") == 0 || strcmp(how, "file without fsync") == 0) {
    assert(write(fd, "entry", 5) == 5);
    if (strcmp(how, "file first") == 0) assert(fsync(fd) == 0);
    set(w, 1);
  } else if (strcmp(how, "memory first") == 0 || strcmp(how, "memory without flush") == 0) {
    set(w, 1);
    if (strcmp(how, "memory first") == 0) __crashcut_clflush(w);
    assert(write(fd, "entry", 5) == 5);
    assert(fsync(fd) == 0);
  } else if (strcmp(how, "from memory") == 0) {
    set(w + 8, 0x797274ull << 16 | 0x6e65); /* "entry" */
    assert(write(fd, w + 8, 5) == 5);
    assert(fsync(fd) == 0);
    assert(pread(fd, w + 16, 5, 0) == 5);
    __crashcut_clflush(w + 16);
    set(w, 1);
  }
  return 0;
}

void crashcut_recover(void) {
  uint64_t* w = words();
  char text[6] = "";
  const int fd = open("log", O_RDONLY);
  const ssize_t got = read(fd, text, 5);
  const uint64_t word = get(w), copy = get(w + 16);
  printf("%d %s", (int)word, got == 5 ? text : "-");
  if (copy != 0) printf(" %d", write(1, w + 16, 5) == 5);
  printf("\n");
}
