/* fopen, fprintf, fclose over an old file: the classic save that can lose it. */
#include <assert.h>
#include <stdio.h>

#include "../../include/crashcut.h"

int main(void) {
  FILE* f = fopen("notes", "w");
  assert(f);
  fprintf(f, "old");
  fclose(f);
  crashcut_barrier();
  f = fopen("notes", "w");
  assert(f);
  fprintf(f, "new");
  assert(fclose(f) == 0);
  crashcut_mark("saved");
  return 0;
}

void crashcut_recover(void) {
  char text[16] = "";
  FILE* f = fopen("notes", "r");
  assert(f);
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  printf("%d [%.*s]\n", (int)n, (int)n, text);
}
