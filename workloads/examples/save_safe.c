/* save_lossy.c, mended: the new version is durable before the rename, and the rename before anybody is told. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "crashcut.h"

static void write_file(const char* name, const char* text) {
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  assert(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  assert(fsync(fd) == 0); /* the data, before the name */
  close(fd);
}

static void save(const char* text) {
  write_file("notes.tmp", text);
  rename("notes.tmp", "notes.txt");
  int dir = open(".", O_RDONLY | O_DIRECTORY);
  assert(fsync(dir) == 0); /* the name, before the promise */
  close(dir);
}

int main(void) {
  write_file("notes.txt", "old notes");
  crashcut_barrier();
  save("new notes");
  crashcut_mark("saved"); /* from here on, losing the new version is a bug too */
  return 0;
}

void crashcut_recover(void) {
  char text[64] = "";
  int fd = open("notes.txt", O_RDONLY);
  ssize_t length = read(fd, text, sizeof text - 1);
  puts(length < 0 ? "missing" : length == 0 ? "empty" : text[0] == 0 ? "NULs" : text);
  assert(strcmp(text, "new notes") == 0 || (strcmp(text, "old notes") == 0 && !crashcut_reached("saved")));
}
