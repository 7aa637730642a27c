#include "atomic_save.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int write_file(const char* name, const void* bytes, size_t length, int is_synced) {
  const int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (fd < 0) return -1;
  const int is_written = write(fd, bytes, length) == (ssize_t)length && (!is_synced || fsync(fd) == 0);
  return close(fd) == 0 && is_written ? 0 : -1;
}

static int sync_here(void) {
  const int fd = open(".", O_RDONLY | O_DIRECTORY);
  if (fd < 0) return -1;
  const int result = fsync(fd);
  close(fd);
  return result;
}

int atomic_save(const char* name, const void* bytes, size_t length, SaveForm form) {
  char temporary[256];
  if (form == kSaveInPlace) return write_file(name, bytes, length, 1);
  if (snprintf(temporary, sizeof temporary, "%s.tmp", name) >= (int)sizeof temporary) return -1;
  if (write_file(temporary, bytes, length, form != kSaveRenameOnly) != 0) return -1;
  if (rename(temporary, name) != 0) return -1;
  return form == kSaveNoDirectorySync ? 0 : sync_here();
}
