/* Random calls on two files, by a seed: the same on the model and on a real disk (kernel_states_test).
 *   random_calls SEED         does them; with IMAGE and COPY in the environment, copies the disk's image where the plug is pulled
 *   random_calls SEED told    also says on stderr what it does
 *   random_calls              prints what it finds
 * A plug is pulled after an fsync that commits more or less of what was done. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/crashcut.h"

enum { kUnit = 700, kBlock = 4096, kMost = 64 * 1024 };
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
  printf("%s\n", access("later", F_OK) == 0 ? "later" : "-");
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

static void do_one(int fds[2], char letter) {
  const int i = (int)pick(2);
  const int fd = fds[i];
  long offset = pick(12) * kUnit, length = (1 + pick(6)) * kUnit;
  const int is_aligned = (int)pick(2);
  const long block_offset = offset / kBlock * kBlock, blocks = (length + kBlock - 1) / kBlock * kBlock;
  if (is_aligned) offset = block_offset, length = blocks;
  struct stat found;
  const unsigned what = pick(22);
  TELL("call %u on %s: offset %ld length %ld letter %c\n", what, kNames[i], offset, length, letter);
  switch (what) {
    case 0:
    case 1:
    case 2:
    case 3: pwrite(fd, letters(letter), (size_t)length, offset); break;
    case 4:
    case 5:
      fstat(fd, &found);
      pwrite(fd, letters(letter), (size_t)length, found.st_size);
      break;
    case 6: ftruncate(fd, offset); break;
    case 7: fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length); break;
    case 8: fallocate(fd, FALLOC_FL_ZERO_RANGE | (pick(2) ? FALLOC_FL_KEEP_SIZE : 0), offset, length); break;
    case 9: fallocate(fd, pick(2) ? FALLOC_FL_KEEP_SIZE : 0, offset, length); break;
    case 10: fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, block_offset, kBlock); break;
    case 11: fallocate(fd, FALLOC_FL_INSERT_RANGE, block_offset, kBlock); break;
    case 12: sync_file_range(fd, offset, length, SYNC_FILE_RANGE_WRITE | (pick(2) ? SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WAIT_AFTER : 0)); break;
    case 13: pick(2) ? fsync(fd) : fdatasync(fd); break;
    case 14: write_with(O_DIRECT, kNames[i], letter, blocks, block_offset); break;
    case 15: write_with(O_TRUNC, kNames[i], letter, length, 0); break;
    case 16: write_with(O_SYNC, kNames[i], letter, length, offset); break;
    case 17: write_with(O_DSYNC, kNames[i], letter, length, offset); break;
    case 18:
      if (rename(kNames[i], kNames[1 - i]) == 0) fds[1 - i] = fd;
      break;
    case 19: renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE); break;
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

/* Before anything else is done to the disk, be it by the end of this process. */
static void copy_image(void) {
  if (!getenv("IMAGE")) return;
  if (fork() == 0) {
    execlp("cp", "cp", "--sparse=always", getenv("IMAGE"), getenv("COPY"), (char*)0);
    _exit(1);
  }
  wait(0);
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
  crashcut_barrier();
  const unsigned count = 2 + pick(5);
  for (unsigned i = 0; i < count; ++i) do_one(fds, (char)('C' + i));
  mkdir("later", 0755);
  switch (pick(4)) {
    case 0: fsync(fds[0]); break;
    case 1: fdatasync(fds[1]); break;
    default: fsync(directory);
  }
  copy_image();
  return 0;
}

void crashcut_recover(void) { show(); }
