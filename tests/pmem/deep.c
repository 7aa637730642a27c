/* Recovery writes too. "deep right": an undo log of one entry, cleared after it was applied. */
#include <assert.h>
#include <string.h>

#include "tests/pmem/by_hand.h"

struct Cell {
  uint64_t value, pad[7];
};
struct Memory {
  struct Cell a, b, saved, is_saved;
};

static struct Memory* memory(void) { return crashcut_pmem("memory", sizeof(struct Memory)); }
static void persist(struct Cell* cell, uint64_t value) {
  set(&cell->value, value);
  __crashcut_clwb(cell);
  __crashcut_sfence();
}

/* a and b are to be equal. */
int main(int argc, char** argv) {
  struct Memory* m = memory();
  if (argc > 1 && strcmp(argv[1], "wrong") == 0) crashcut_mark("wrong");
  crashcut_barrier();
  persist(&m->saved, get(&m->a.value));
  persist(&m->is_saved, 1);
  persist(&m->a, 7);
  persist(&m->b, 7);
  persist(&m->is_saved, 0);
  return 0;
}

void crashcut_recover(void) {
  struct Memory* m = memory();
  if (get(&m->is_saved.value)) {
    const uint64_t saved = get(&m->saved.value);
    if (crashcut_reached("wrong")) {
      persist(&m->is_saved, 0); /* too early */
      persist(&m->a, saved);
      persist(&m->b, saved);
    } else {
      persist(&m->a, saved);
      persist(&m->b, saved);
      persist(&m->is_saved, 0);
    }
  }
  assert(get(&m->a.value) == get(&m->b.value));
  printf("%d\n", (int)get(&m->a.value));
}
