/* What the programs of this directory have in common. Each is broken, and says in its first line what mends it: the
 * test tries that too, by taking the comment away from the lines that have it. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crashcut.h"

static CRASHCUT_UNUSED int open_new(const char* name) {
  const int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
  assert(fd >= 0);
  return fd;
}

static CRASHCUT_UNUSED void put(int fd, const char* text) {
  assert(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
}

static CRASHCUT_UNUSED void write_file(const char* name, const char* text) {
  const int fd = open_new(name);
  put(fd, text);
  close(fd);
}

static CRASHCUT_UNUSED void sync_path(const char* name) {
  const int fd = open(name, O_RDONLY);
  assert(fsync(fd) == 0);
  close(fd);
}

static CRASHCUT_UNUSED int exists(const char* name) { return access(name, F_OK) == 0; }

static CRASHCUT_UNUSED int holds(const char* name, const char* text) {
  char found[256] = "";
  const int fd = open(name, O_RDONLY);
  if (fd < 0) return 0;
  const ssize_t length = read(fd, found, sizeof found - 1);
  close(fd);
  return length == (ssize_t)strlen(text) && memcmp(found, text, strlen(text)) == 0;
}
