/* litmus.h: the words that the litmus programs share.
 *
 * main() does what a crash may interrupt; crashcut_recover() says on one line what it found: the outcome. What it
 * shows goes there comma by comma: "-" for what is not there, "" for an empty file, '.' for a NUL byte.
 * Sizes are asked by lseek and never by stat, whose answer holds modes and times too: recovery decides only what
 * it looks at, and the number of recoveries is part of what a litmus claims.
 *
 * The comment that opens a program says what it shows, and is what tests/litmus_test.cc checks:
 *   run: OPTIONS [-- ARGUMENTS]   options of `crashcut run`; {a,b} stands for both, as in a shell
 *   outcomes: A | B | C           exactly these, for each run above
 *   recoveries: N                 exactly so many
 *   paper-count: N                what PerSeVerE's authors count, for their own tests; recoveries are never more
 *   violation: yes                an assert of the recovery fails for some outcome; without it, for none
 */
#ifndef CRASHCUT_LITMUS_H
#define CRASHCUT_LITMUS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#undef NDEBUG
#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "crashcut.h"

#define WORD static inline

/* ---- main: calls that must succeed ---------------------------------------------------------------------------- */

/* The result of a call that has no reason to fail. */
WORD long must(long result) {
  if (result >= 0) return result;
  perror("litmus: a call failed");
  exit(1);
}

WORD int open_to(const char* name, int flags) { return (int)must(open(name, flags, 0644)); }

WORD void write_text(int fd, const char* text) {
  if (must(write(fd, text, strlen(text))) != (long)strlen(text)) abort();
}

WORD void pwrite_text(int fd, const char* text, off_t offset) {
  if (must(pwrite(fd, text, strlen(text), offset)) != (long)strlen(text)) abort();
}

/* A file that holds `text`, made or overwritten as an editor would: no sync. */
WORD void put(const char* name, const char* text) {
  int fd = open_to(name, O_WRONLY | O_CREAT | O_TRUNC);
  write_text(fd, text);
  must(close(fd));
}

WORD void put_synced(const char* name, const char* text) {
  int fd = open_to(name, O_WRONLY | O_CREAT | O_TRUNC);
  write_text(fd, text);
  must(fsync(fd));
  must(close(fd));
}

/* fsync of whatever has that name: a file or a directory. */
WORD void sync_name(const char* name) {
  int fd = open_to(name, O_RDONLY);
  must(fsync(fd));
  must(close(fd));
}

/* Blocks of 4096 bytes, each filled with a letter of `letters`. */
WORD void write_blocks(int fd, const char* letters) {
  char block[4096];
  for (; *letters; ++letters) {
    memset(block, *letters, sizeof block);
    if (must(write(fd, block, sizeof block)) != (long)sizeof block) abort();
  }
}

/* ---- recovery: what is there ---------------------------------------------------------------------------------- */

WORD void show(const char* format, ...) {
  static int shown;
  va_list arguments;
  va_start(arguments, format);
  if (shown++) putchar(',');
  vprintf(format, arguments);
  va_end(arguments);
  fflush(stdout); /* an assert that fails leaves the line on the screen */
}

WORD int exists(const char* name) { return access(name, F_OK) == 0; }

/* The name itself, or "-". */
WORD void show_name(const char* name) { show("%s", exists(name) ? name : "-"); }

/* -1 where the name is not there. */
WORD long size_of(const char* name) {
  long size = -1;
  int fd = open(name, O_RDONLY);
  if (fd >= 0) {
    size = lseek(fd, 0, SEEK_END);
    close(fd);
  }
  return size;
}

WORD void show_size(const char* name) {
  long size = size_of(name);
  if (size < 0)
    show("-");
  else
    show("%ld", size);
}

#define TEXT_MOST 64

/* Up to `count` bytes from `offset` on, with '.' for NUL; "-" where the name is not there. The text lies in `text`. */
WORD const char* read_bytes(const char* name, off_t offset, size_t count, char text[TEXT_MOST + 1]) {
  ssize_t got;
  int fd = open(name, O_RDONLY);
  if (fd < 0) return strcpy(text, "-");
  got = pread(fd, text, count < TEXT_MOST ? count : TEXT_MOST, offset);
  close(fd);
  if (got < 0) abort();
  text[got] = '\0';
  while (got-- > 0) {
    if (text[got] == '\0') text[got] = '.';
  }
  return text;
}

/* The whole of a small file. */
WORD const char* read_text(const char* name, char text[TEXT_MOST + 1]) { return read_bytes(name, 0, TEXT_MOST, text); }

WORD int holds(const char* name, const char* wanted) {
  char text[TEXT_MOST + 1];
  return strcmp(read_text(name, text), wanted) == 0;
}

WORD void show_bytes(const char* name, off_t offset, size_t count) {
  char text[TEXT_MOST + 1];
  read_bytes(name, offset, count, text);
  show("%s", *text ? text : "\"\"");
}

WORD void show_text(const char* name) { show_bytes(name, 0, TEXT_MOST); }

/* What write_blocks() wrote: a letter for each block, 0 for one of NULs. */
WORD void show_blocks(const char* name) {
  char text[TEXT_MOST + 1] = "", block[4096];
  size_t count = 0;
  int fd = open(name, O_RDONLY);
  while (fd >= 0 && count < TEXT_MOST && read(fd, block, sizeof block) > 0) {
    if (memcmp(block, block + 1, sizeof block - 1) != 0) abort(); /* a torn block: none of these programs has one */
    text[count++] = *block ? *block : '0';
  }
  show("%s", fd < 0 ? "-" : count ? text : "\"\"");
}

/* Whether main() had said it: "said" or "-". */
WORD int show_mark(const char* mark) {
  int reached = crashcut_reached(mark);
  show("%s", reached ? mark : "-");
  return reached;
}

#endif
