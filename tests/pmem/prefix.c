/* A counter and its double, for --expect prefix. "right"; "early": the mark comes before the flush; "torn": the two
 * words are not updated together; "twins": all marks have one text. */
#include <stdlib.h>
#include <string.h>

#include "tests/pmem/by_hand.h"

struct Word {
  uint64_t value, pad[7];
};
struct Memory {
  struct Word count, twice;
};

static struct Memory* memory(void) { return crashcut_pmem("memory", sizeof(struct Memory)); }
static void persist(uint64_t* at, uint64_t value) {
  set(at, value);
  __crashcut_clwb(at);
  __crashcut_sfence();
}

int main(int argc, char** argv) {
  struct Memory* m = memory();
  const char* how = argc > 1 ? argv[1] : "right";
  const int count = argc > 2 ? atoi(argv[2]) : 3;
  for (int i = 1; i <= count; ++i) {
    char mark[16];
    snprintf(mark, sizeof mark, "%d", strcmp(how, "twins") == 0 ? 0 : i);
    if (strcmp(how, "early") == 0) {
      set(&m->count.value, (uint64_t)i);
      crashcut_mark(mark);
    }
    if (strcmp(how, "torn") == 0) persist(&m->twice.value, 2 * (uint64_t)i);
    persist(&m->count.value, (uint64_t)i);
    if (strcmp(how, "early") != 0) crashcut_mark(mark);
  }
  return 0;
}

void crashcut_recover(void) {
  struct Memory* m = memory();
  printf("%d %d\n", (int)get(&m->count.value), (int)get(&m->twice.value));
}
