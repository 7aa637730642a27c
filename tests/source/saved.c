// A save without fsync, by the C library: its system calls are made in there, for these lines.
#include <assert.h>
#include <stdio.h>

#include "crashcut.h"

static void save(const char* text) {
  FILE* file = fopen("new", "w");  // line: open
  fputs(text, file);
  fclose(file);          // line: write
  rename("new", "old");  // line: rename
}

int main(void) {
  save("contents");
  crashcut_mark("saved");
  return 0;
}

void crashcut_recover(void) {
  char text[16] = "";
  FILE* file = fopen("old", "r");  // line: read
  if (file != NULL) assert(fgets(text, sizeof text, file) != NULL);
}
