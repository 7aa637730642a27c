/* join.h: parts that threads write, and a result that somebody glues together from them. */
#ifndef CRASHCUT_LITMUS_JOIN_H
#define CRASHCUT_LITMUS_JOIN_H

#include "threads.h"

static const char* const kParts[] = {"a", "b", "c", "d"};
static const char kPartTexts[][3] = {"aa", "bb", "cc", "dd"};

WORD void* write_part(void* number) {
  int fd = open_to(kParts[(long)number], O_WRONLY | O_CREAT | O_TRUNC);
  write_text(fd, kPartTexts[(long)number]);
  must(close(fd));
  return NULL;
}

/* Appends the parts in order, and waits until they are durable. */
WORD void glue(int result) {
  for (int i = 0; i < 4; ++i) {
    char text[3] = "";
    int fd = open_to(kParts[i], O_RDONLY);
    if (must(read(fd, text, 2)) != 2) abort();
    must(close(fd));
    write_text(result, text);
  }
  must(fsync(result));
  crashcut_mark("glued");
}

WORD void check_result(void) {
  int glued = show_mark("glued");
  show_text("result");
  if (glued) assert(holds("result", "aabbccdd"));
}

#endif
