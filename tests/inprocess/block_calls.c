/* Calls on the blocks of a file, each an argument: the same on the model and on a real disk (kernel_states_test).
 *   block_calls KIB CALL...   makes `f` of so many KiB 'o', durable, then does the calls; MARK in the environment names
 *   a file
 *                             that is written to where the starting state ends
 *   block_calls               prints what it finds: which directories there are, the size of `f`, and a letter a KiB
 * A call is a letter and a range in KiB: w0,4 writes 4 KiB at 0, d with O_DIRECT, p punches a hole, z zeroes (Z: and
 * grows), a preallocates (A: and grows), c collapses, i inserts, t4 truncates to 4 KiB. Without a range: m makes a
 * directory, s is fsync, f fdatasync, D fsync of the directory, r sync_file_range that waits. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../include/crashcut.h"

enum { kKib = 1024, kMost = 64 * kKib };

static void show(void) {
  static char bytes[kMost];
  struct stat found;
  int fd = open("f", O_RDONLY);
  for (char name[] = "1"; *name <= '9'; ++*name) {
    if (access(name, F_OK) == 0) putchar(*name);
  }
  fstat(fd, &found);
  printf(" %ld ", (long)found.st_size);
  long count = pread(fd, bytes, sizeof bytes, 0);
  for (long at = 0; at < count; at += kKib) putchar(bytes[at] ? bytes[at] : '.');
  putchar('\n');
  close(fd);
}

static char* letters(char letter) {
  static char* bytes;
  if (!bytes && posix_memalign((void**)&bytes, 4096, kMost) != 0) abort();
  return memset(bytes, letter, kMost);
}

static void must(long result) {
  if (result >= 0) return;
  perror("block_calls: a call failed");
  exit(1);
}

static char next_letter = 'a', next_name = '1';

static void do_call(int fd, int directory, const char* call) {
  char* rest;
  const long offset = strtol(call + 1, &rest, 10) * kKib, length = *rest ? strtol(rest + 1, 0, 10) * kKib : 0;
  const char name[] = {next_name, '\0'};
  int direct;
  switch (*call) {
    case 'w':
      must(pwrite(fd, letters(next_letter++), (size_t)length, offset));
      return;
    case 'd':
      must(direct = open("f", O_WRONLY | O_DIRECT));
      must(pwrite(direct, letters(next_letter++), (size_t)length, offset));
      close(direct);
      return;
    case 'p':
      must(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length));
      return;
    case 'z':
      must(fallocate(fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, offset, length));
      return;
    case 'Z':
      must(fallocate(fd, FALLOC_FL_ZERO_RANGE, offset, length));
      return;
    case 'a':
      must(fallocate(fd, FALLOC_FL_KEEP_SIZE, offset, length));
      return;
    case 'A':
      must(fallocate(fd, 0, offset, length));
      return;
    /* These two may fail: the range is not inside the file. */
    case 'c':
      fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, offset, length);
      return;
    case 'i':
      fallocate(fd, FALLOC_FL_INSERT_RANGE, offset, length);
      return;
    case 't':
      must(ftruncate(fd, offset));
      return;
    case 'm':
      ++next_name;
      must(mkdir(name, 0755));
      return;
    case 's':
      must(fsync(fd));
      return;
    case 'f':
      must(fdatasync(fd));
      return;
    case 'D':
      must(fsync(directory));
      return;
    case 'r':
      must(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER));
      return;
    default:
      fprintf(stderr, "block_calls: no call %s\n", call);
      exit(1);
  }
}

static void mark_the_start(void) {
  if (!getenv("MARK")) return;
  int mark = open(getenv("MARK"), O_WRONLY);
  if (write(mark, "start", 5) != 5) abort();
  close(mark);
}

int main(int argc, char** argv) {
  if (argc < 2) return show(), 0;
  int fd = open("f", O_RDWR | O_CREAT, 0644), directory = open(".", O_RDONLY);
  must(pwrite(fd, letters('o'), (size_t)atol(argv[1]) * kKib, 0));
  syncfs(directory);
  mark_the_start();
  crashcut_barrier();
  for (int i = 2; i < argc; ++i) do_call(fd, directory, argv[i]);
  return 0;
}

void crashcut_recover(void) { show(); }
