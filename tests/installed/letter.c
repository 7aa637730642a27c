/* letter [flushed]: machine 0 writes a letter and says so. Machine 1 reads it. If machine 0 fails, the letter can be
 * lost. */
#include <assert.h>
#include <immintrin.h>

#include "crashcut.h"

struct letter {
  volatile long text;
  char rest_of_line[56];
  volatile long is_there;
};

int main(int argc, char** argv) {
  (void)argv;
  struct letter* letter = crashcut_cxl("letter", sizeof *letter);
  if (crashcut_machine() == 0) {
    letter->text = 42;
    if (argc > 1) {
      _mm_clflush((void*)&letter->text);
      _mm_sfence();
    }
    letter->is_there = 1;
  } else if (letter->is_there == 1) {
    assert(letter->text == 42);
  }
  return 0;
}
