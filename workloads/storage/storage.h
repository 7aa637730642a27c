/* storage.h: what the storage programs share. Each has a right form and wrong ones, chosen by its first argument:
 *
 *   crashcut run build/release/storage/atomic_save FORM                              in-process
 *   crashcut check --check 'build/release/storage/atomic_save FORM recover' -- build/release/storage/atomic_save FORM
 *
 * main() makes the starting state, works, and marks what it promises; crashcut_recover() asserts. The form changes what
 * main() does, never what recovery does.
 */
#ifndef CRASHCUT_STORAGE_H
#define CRASHCUT_STORAGE_H

#undef NDEBUG /* the assertions are the checks, in a release build too */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crashcut.h"

/* A call of the program that must not fail. */
static CRASHCUT_UNUSED long must_(long result, const char* what) {
  if (result < 0) {
    perror(what);
    exit(3);
  }
  return result;
}
#define must(call) must_((call), #call)

static CRASHCUT_UNUSED void write_all(int fd, const void* bytes, size_t length) {
  if (must(write(fd, bytes, length)) != (long)length) exit(3);
}

static CRASHCUT_UNUSED void sync_directory(void) {
  const int fd = (int)must(open(".", O_RDONLY | O_DIRECTORY));
  must(fsync(fd));
  must(close(fd));
}

/* The length, or -1 where there is no such file. */
static CRASHCUT_UNUSED ssize_t read_file(const char* name, void* bytes, size_t capacity) {
  const int fd = open(name, O_RDONLY);
  if (fd < 0) return -1;
  const ssize_t length = read(fd, bytes, capacity);
  close(fd);
  return length;
}

/* FNV-1a: proves that a record is whole. */
static CRASHCUT_UNUSED uint64_t checksum_of(const void* bytes, size_t length) {
  uint64_t sum = 14695981039346656037u;
  for (size_t i = 0; i < length; ++i) sum = (sum ^ ((const unsigned char*)bytes)[i]) * 1099511628211u;
  return sum;
}

/* Runs the recovery as the checker of crashcut check, or says that main() is to work. */
static CRASHCUT_UNUSED int is_recovery(int argc, char** argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s FORM [recover]\n", argv[0]);
    exit(2);
  }
  if (argc < 3 || strcmp(argv[2], "recover") != 0) return 0;
  crashcut_recover();
  return 1;
}

/* An unknown form must not pass for a right one. */
static CRASHCUT_UNUSED void refuse_form(const char* form) {
  fprintf(stderr, "no form '%s'\n", form);
  exit(2);
}

#endif
