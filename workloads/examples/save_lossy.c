/* Saves a file the way many programs do: write a new one, rename it over the old one. Under ext4's default
 * options a crash can leave neither version, but the new one's length in NUL bytes: nobody called fsync. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "crashcut.h"

static void write_file(const char* name, const char* text) {
  int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  assert(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
  close(fd);
}

static void save(const char* text) {
  write_file("notes.tmp", text);
  rename("notes.tmp", "notes.txt");
}

int main(void) {
  write_file("notes.txt", "old notes");
  crashcut_barrier(); /* the old version is on the disk; the crash comes after this */
  save("new notes");
  return 0;
}

void crashcut_recover(void) {
  char text[64] = "";
  int fd = open("notes.txt", O_RDONLY);
  ssize_t length = read(fd, text, sizeof text - 1);
  puts(length < 0 ? "missing" : length == 0 ? "empty" : text[0] == 0 ? "NULs" : text);
  assert(strcmp(text, "old notes") == 0 || strcmp(text, "new notes") == 0);
}
