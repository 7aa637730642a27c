/* No crashcut_recover(): main() runs again on what survived, with the same arguments. */
#include <stdlib.h>
#include <string.h>

#include "tests/pmem/by_hand.h"

struct Counter {
  uint64_t low, pad[7];
  uint64_t high, pad1[7];
};

int main(int argc, char** argv) {
  struct Counter* c = crashcut_pmem("counter", sizeof *c);
  const char* how = argc > 1 ? argv[1] : "";
  const uint64_t low = get(&c->low), high = get(&c->high);
  printf("%d%d\n", (int)low, (int)high);
  if (strcmp(how, "fails") == 0 && low < high) return 3;
  set(&c->low, low + 1);
  __crashcut_clwb(&c->low);
  if (strcmp(how, "right") == 0) __crashcut_sfence();
  set(&c->high, high + 1);
  return 0;
}
