/* Random calls on two files, by a seed: the same on the model and on a real disk (kernel_states_test).
 *   random_calls SEED         does them; MARK in the environment names a file that is written to where the starting
 *   state ends random_calls SEED told    also says on stderr what it does
 *   random_calls              prints what it finds
 * Every second seed has more of the calls that work on blocks: punch, zero, preallocate, collapse, insert. Directories
 * are made between the calls, so that it shows how far the journal was. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../include/crashcut.h"

enum { kUnit = 700, kBlock = 4096, kMost = 64 * 1024, kLastName = 'I' };
static const char* const kNames[2] = {"a", "b"};

static unsigned long long state;
static unsigned pick(unsigned count) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (unsigned)(state >> 33) % count;
}

/* A file's size, and a letter a unit. */
static void show(void) {
  static char bytes[kMost];
  for (int i = 0; i < 2; ++i) {
    int fd = open(kNames[i], O_RDONLY);
    if (fd < 0) {
      printf("- ");
      continue;
    }
    struct stat found;
    fstat(fd, &found);
    long count = pread(fd, bytes, sizeof bytes, 0);
    printf("%ld[", (long)found.st_size);
    for (long at = 0; at < count; at += kUnit) putchar(bytes[at] ? bytes[at] : '.');
    printf("] ");
    close(fd);
  }
  for (char name[] = "C"; *name <= kLastName; ++*name) putchar(access(name, F_OK) == 0 ? *name : '-');
  putchar('\n');
}

static int is_told;
#define TELL(...) (is_told ? fprintf(stderr, __VA_ARGS__) : 0)

static char* letters(char letter) {
  static char* bytes;
  if (!bytes && posix_memalign((void**)&bytes, kBlock, kMost) != 0) abort();
  return memset(bytes, letter, kMost);
}

static void write_with(int flags, const char* name, char letter, long length, long offset) {
  int fd = open(name, O_RDWR | flags);
  pwrite(fd, letters(letter), (size_t)length, offset);
  close(fd);
}

static void do_one(int fds[2], char letter, int is_about_blocks) {
  const int i = (int)pick(2);
  const int fd = fds[i];
  long offset = pick(12) * kUnit, length = (1 + pick(6)) * kUnit;
  const int is_aligned = (int)pick(2);
  const long block_offset = offset / kBlock * kBlock, blocks = (length + kBlock - 1) / kBlock * kBlock;
  if (is_aligned) offset = block_offset, length = blocks;
  struct stat found;
  const unsigned what = is_about_blocks && pick(2) ? 7 + pick(5) : pick(22);
  TELL("call %u on %s: offset %ld length %ld letter %c\n", what, kNames[i], offset, length, letter);
  switch (what) {
    case 0:
    case 1:
    case 2:
    case 3:
      pwrite(fd, letters(letter), (size_t)length, offset);
      break;
    case 4:
    case 5:
      fstat(fd, &found);
      pwrite(fd, letters(letter), (size_t)length, found.st_size);
      break;
    case 6:
      ftruncate(fd, offset);
      break;
    case 7:
      fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length);
      break;
    case 8:
      fallocate(fd, FALLOC_FL_ZERO_RANGE | (pick(2) ? FALLOC_FL_KEEP_SIZE : 0), offset, length);
      break;
    case 9:
      fallocate(fd, pick(2) ? FALLOC_FL_KEEP_SIZE : 0, offset, length);
      break;
    case 10:
      fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, block_offset, kBlock);
      break;
    case 11:
      fallocate(fd, FALLOC_FL_INSERT_RANGE, block_offset, kBlock);
      break;
    case 12:
      sync_file_range(fd, offset, length,
                      SYNC_FILE_RANGE_WRITE | (pick(2) ? SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER : 0));
      break;
    case 13:
      pick(2) ? fsync(fd) : fdatasync(fd);
      break;
    case 14:
      write_with(O_DIRECT, kNames[i], letter, blocks, block_offset);
      break;
    case 15:
      write_with(O_TRUNC, kNames[i], letter, length, 0);
      break;
    case 16:
      write_with(O_SYNC, kNames[i], letter, length, offset);
      break;
    case 17:
      write_with(O_DSYNC, kNames[i], letter, length, offset);
      break;
    case 18:
      if (rename(kNames[i], kNames[1 - i]) == 0) fds[1 - i] = fd;
      break;
    case 19:
      renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE);
      break;
    case 20: {
      int directory = open(".", O_RDONLY);
      fsync(directory);
      close(directory);
      break;
    }
    default:
      unlink(kNames[i]);
      fds[i] = open(kNames[i], O_RDWR | O_CREAT, 0644);
      pwrite(fds[i], letters(letter), (size_t)length, 0);
  }
}

static void mark_the_start(void) {
  if (!getenv("MARK")) return;
  int mark = open(getenv("MARK"), O_WRONLY);
  if (write(mark, "start", 5) != 5) abort();
  close(mark);
}

/* Some of what was done is put out: the journal without the data that waits for writeback, or data without the journal.
 * */
static void put_out(int fds[2], int directory) {
  const unsigned what = pick(8), i = pick(2);
  if (what > 2) return;
  TELL("put out: %s %s\n",
       what == 0   ? "fsync"
       : what == 1 ? "sync_file_range"
                   : "fdatasync",
       what == 0 ? "." : kNames[i]);
  switch (what) {
    case 0:
      fsync(directory);
      break;
    case 1:
      sync_file_range(fds[i], 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
      break;
    default:
      fdatasync(fds[i]);
  }
}

static void make_directory(char letter) {
  const char name[] = {letter, '\0'};
  TELL("mkdir %s\n", name);
  mkdir(name, 0755);
}

int main(int argc, char** argv) {
  if (argc < 2) return show(), 0;
  state = strtoull(argv[1], 0, 10);
  is_told = argc > 2;
  for (int i = 0; i < 3; ++i) pick(2);
  int fds[2];
  for (int i = 0; i < 2; ++i) {
    fds[i] = open(kNames[i], O_CREAT | O_RDWR, 0644);
    pwrite(fds[i], letters((char)('A' + i)), pick(4) ? pick(10) * kUnit : 0, 0);
  }
  int directory = open(".", O_RDONLY);
  syncfs(directory);
  mark_the_start();
  crashcut_barrier();
  const unsigned count = 2 + pick(5);
  for (unsigned i = 0; i < count; ++i) {
    if (pick(3) == 0) make_directory((char)('C' + i));
    do_one(fds, (char)('C' + i), strtoull(argv[1], 0, 10) % 2 == 0);
    put_out(fds, directory);
  }
  make_directory(kLastName);
  const unsigned last = pick(4);
  TELL("the last sync: %s\n", last == 0 ? "fsync a" : last == 1 ? "fdatasync b" : "fsync .");
  switch (last) {
    case 0:
      fsync(fds[0]);
      break;
    case 1:
      fdatasync(fds[1]);
      break;
    default:
      fsync(directory);
  }
  return 0;
}

void crashcut_recover(void) { show(); }
