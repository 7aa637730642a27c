/* What threads may see of each other's calls of several blocks. Recovery shows what was seen, which is durable by then.
 */
#undef NDEBUG
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "crashcut.h"

static int file, seen;

static void see(const char* text, long length) {
  assert(ftruncate(seen, 0) == 0);
  assert(pwrite(seen, text, (size_t)length, 0) == length);
  crashcut_barrier();
}

static void* write_ones(void* unused) {
  (void)unused;
  assert(pwrite(file, "1111", 4, 0) == 4);
  return NULL;
}
static void* write_twos(void* unused) {
  (void)unused;
  assert(pwrite(file, "2222", 4, 0) == 4);
  return NULL;
}
static void* append_ones(void* unused) {
  (void)unused;
  assert(write(file, "1111", 4) == 4);
  return NULL;
}
static void* append_twos(void* unused) {
  (void)unused;
  assert(write(file, "2222", 4) == 4);
  return NULL;
}
static void* ask_size(void* size) {
  int other = open("file", O_RDONLY);
  assert(other >= 0);
  *(char*)size = (char)('0' + lseek(other, 0, SEEK_END));
  return NULL;
}
static void* read_all(void* text) {
  assert(pread(file, text, 4, 0) == 4);
  return NULL;
}

static void run_two(void* (*one)(void*), void* (*other)(void*), void* argument) {
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, one, NULL);
  pthread_create(&threads[1], NULL, other, argument);
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
}

int main(int argc, char** argv) {
  char text[8];
  assert(argc == 2);
  file = open("file", O_RDWR | O_CREAT, 0644);
  seen = open("seen", O_RDWR | O_CREAT, 0644);
  if (strcmp(argv[1], "append-size") == 0) {
    run_two(append_ones, ask_size, text);
    see(text, 1);
  } else if (strcmp(argv[1], "overwrite-read") == 0) {
    assert(write(file, "0000", 4) == 4);
    run_two(write_ones, read_all, text);
    see(text, 4);
  } else if (strcmp(argv[1], "write-write") == 0) {
    assert(write(file, "0000", 4) == 4);
    run_two(write_ones, write_twos, NULL);
    see(text, pread(file, text, 4, 0));
  } else {
    run_two(append_ones, append_twos, NULL);
    see(text, pread(file, text, 8, 0));
  }
  return 0;
}

void crashcut_recover(void) {
  char text[9] = "";
  int fd = open("seen", O_RDONLY);
  crashcut_assume(fd >= 0);
  assert(pread(fd, text, 8, 0) >= 0);
  printf("%s\n", text);
}
