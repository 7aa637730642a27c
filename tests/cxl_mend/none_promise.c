// A machine expects that another one has done all that it does, which may die before: no flush helps, though stores are
// lost.
#include <assert.h>

#include "crashcut.h"

int main(void) {
  volatile long* done = crashcut_cxl("done", 64);
  if (crashcut_machine() == 0) {
    *done = 1;
  } else {
    crashcut_wait_machine(0);
    assert(*done == 1);
  }
  return 0;
}
