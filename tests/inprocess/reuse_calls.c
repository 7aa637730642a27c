/* Calls that free blocks and write others, the same on the model and on a disk that is nearly full (kernel_reuse_test).
 *   reuse_calls NAME|SEED   does them; with IMAGE and COPY in the environment, copies the disk's image after each call
 *   reuse_calls             prints what it finds
 * Each file has at most two blocks, so that a disk with eight free blocks is never full. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../include/crashcut.h"

enum { kBlock = 4096, kMost = 2 * kBlock, kUnit = 1024, kFiles = 3 };
static const char* const kNames[kFiles] = {"a", "b", "c"};

static void must(long result, const char* what) {
  if (result >= 0) return;
  perror(what);
  exit(1);
}

/* A file's size, and a letter a unit. */
static void show(void) {
  static char bytes[kMost];
  for (int i = 0; i < kFiles; ++i) {
    int fd = open(kNames[i], O_RDONLY);
    if (fd < 0) {
      printf("- ");
      continue;
    }
    long count = pread(fd, bytes, sizeof bytes, 0);
    printf("%ld[", (long)lseek(fd, 0, SEEK_END));
    for (long at = 0; at < count; at += kUnit) putchar(bytes[at] ? bytes[at] : '.');
    printf("] ");
    close(fd);
  }
  printf("\n");
}

/* Before anything else is done to the disk. */
static int is_begun;
static void copy_image(void) {
  static int copies;
  if (!getenv("IMAGE") || !is_begun) return;
  char to[4096];
  snprintf(to, sizeof to, "%s.%d", getenv("COPY"), copies++);
  if (fork() == 0) {
    execlp("cp", "cp", "--sparse=always", getenv("IMAGE"), to, (char*)0);
    _exit(1);
  }
  wait(0);
}

static void write_with(const char* name, int flags, char letter, long length, long offset) {
  static char* bytes;
  if (!bytes && posix_memalign((void**)&bytes, kBlock, kMost) != 0) abort();
  memset(bytes, letter, kMost);
  int fd = open(name, O_RDWR | O_CREAT | flags, 0644);
  must(fd, "open");
  must(pwrite(fd, bytes, (size_t)length, offset), "pwrite");
  close(fd);
  copy_image();
}

/* The data goes to the disk, and nothing is committed. */
static void write_out(const char* name) {
  int fd = open(name, O_RDWR);
  if (fd < 0) return;
  const unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  must(sync_file_range(fd, 0, 0, all), "sync_file_range");
  close(fd);
  copy_image();
}

static void sync_name(const char* name) {
  int fd = open(name, O_RDONLY);
  if (fd < 0) return;
  must(fsync(fd), "fsync");
  close(fd);
  copy_image();
}

static void change_blocks(const char* name, int mode) {
  int fd = open(name, O_RDWR);
  must(fallocate(fd, mode, 0, kBlock), "fallocate");
  close(fd);
  copy_image();
}

static void unlink_name(const char* name) {
  unlink(name);
  copy_image();
}

static void truncate_name(const char* name, long size) {
  if (truncate(name, size) == 0) copy_image();
}

static void rename_name(const char* from, const char* to) {
  if (rename(from, to) == 0) copy_image();
}

/* ---- programs --------------------------------------------------------------------------------------------------- */

static void do_unlink(void) {
  unlink_name("a");
  write_with("b", 0, 'n', 6000, 0);
  write_out("b");
  sync_name("b");
}
static void do_truncate(void) {
  truncate_name("a", 0);
  write_with("b", 0, 'n', 100, 0);
  write_out("b");
  sync_name("b");
}
static void do_truncate_middle(void) {
  truncate_name("a", kBlock);
  write_with("b", 0, 'n', kBlock, 0);
  write_out("b");
}
static void do_rewrite(void) {
  write_with("a", O_TRUNC, 'n', 100, 0);
  write_out("a");
  write_with("a", 0, 'm', 1904, kBlock);
  write_out("a");
  sync_name("a");
}
static void do_punch(void) {
  change_blocks("a", FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
  write_with("b", 0, 'n', kBlock, 0);
  write_out("b");
}
static void do_collapse(void) {
  change_blocks("a", FALLOC_FL_COLLAPSE_RANGE);
  write_with("b", 0, 'n', kBlock, 0);
  write_out("b");
}
static void do_rename(void) {
  write_with("b", 0, 'B', kBlock, 0);
  sync_name("b");
  rename_name("b", "a");
  write_with("c", 0, 'n', kMost, 0);
  write_out("c");
}
static void do_open_unlinked(void) {
  int fd = open("a", O_RDWR);
  unlink_name("a");
  write_with("b", 0, 'n', kBlock, 0);
  write_out("b");
  close(fd);
  write_with("c", 0, 'm', kMost, 0);
  write_out("c");
}
static void do_direct(void) {
  unlink_name("a");
  write_with("b", O_DIRECT, 'n', kMost, 0);
}
static void do_fallocate(void) {
  unlink_name("a");
  int fd = open("b", O_RDWR | O_CREAT, 0644);
  must(fallocate(fd, 0, 0, kBlock), "fallocate");
  close(fd);
  copy_image();
  write_with("b", 0, 'n', 100, 0);
  write_out("b");
}
static void do_chain(void) {
  unlink_name("a");
  write_with("b", 0, 'n', 6000, 0);
  write_out("b");
  unlink_name("b");
  write_with("c", 0, 'm', 100, 0);
  write_out("c");
}
static void do_stale(void) {
  unlink_name("a");
  write_with("b", 0, 'n', 6000, 0);
  int fd = open(".", O_RDONLY);
  must(fsync(fd), "fsync");
  copy_image();
}

static unsigned long long state;
static unsigned pick(unsigned count) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (unsigned)(state >> 33) % count;
}

static void do_random(void) {
  char letter = 'n';
  for (unsigned i = 0, count = 3 + pick(4); i < count; ++i) {
    const unsigned f = pick(kFiles);
    const char* name = kNames[f];
    const long length = (1 + pick(8)) * kUnit;
    switch (pick(9)) {
      case 0:
      case 1:
      case 2:
        write_with(name, pick(2) ? O_TRUNC : 0, letter++, length, 0);
        break;
      case 3:
        truncate_name(name, pick(2) ? 0 : kBlock);
        break;
      case 4:
        unlink_name(name);
        break;
      case 5: {
        const unsigned to = pick(kFiles);
        if (to != f) rename_name(name, kNames[to]);
        break;
      }
      case 6:
        sync_name(name);
        break;
      default:
        for (int j = 0; j < kFiles; ++j) {
          if (pick(2)) write_out(kNames[j]);
        }
    }
  }
  for (int j = 0; j < kFiles; ++j) write_out(kNames[j]);
}

static const struct {
  const char* name;
  void (*run)(void);
} kPrograms[] = {{"unlink", do_unlink},
                 {"truncate", do_truncate},
                 {"truncate_middle", do_truncate_middle},
                 {"rewrite", do_rewrite},
                 {"punch", do_punch},
                 {"collapse", do_collapse},
                 {"rename", do_rename},
                 {"open_unlinked", do_open_unlinked},
                 {"direct", do_direct},
                 {"fallocate", do_fallocate},
                 {"chain", do_chain},
                 {"stale", do_stale}};

int main(int argc, char** argv) {
  if (argc < 2) return show(), 0;
  write_with("a", 0, 'A', 6000, 0);
  int directory = open(".", O_RDONLY);
  must(syncfs(directory), "syncfs");
  crashcut_barrier();
  is_begun = 1;
  copy_image();
  for (size_t i = 0; i < sizeof kPrograms / sizeof *kPrograms; ++i) {
    if (strcmp(argv[1], kPrograms[i].name) == 0) return kPrograms[i].run(), 0;
  }
  state = strtoull(argv[1], 0, 10);
  for (int i = 0; i < 3; ++i) pick(2);
  do_random();
  return 0;
}

void crashcut_recover(void) { show(); }
