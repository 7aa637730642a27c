/* The rows of the litmus table that have one thread, and some more. main() takes the row's name; recovery prints all.
 */
#include <string.h>

#include "tests/pmem/by_hand.h"

struct Memory {
  uint64_t x, beside_x; /* one line */
  uint64_t pad0[6];
  uint64_t y, pad1[7];
  uint64_t z, pad2[7];
  uint64_t wide[8];
};

static struct Memory* memory(void) { return crashcut_pmem("memory", sizeof(struct Memory)); }

static void add(uint64_t* at, int operation, uint64_t operand) {
  uint64_t old;
  __crashcut_rmw(operation, at, &operand, &old, sizeof old, __ATOMIC_SEQ_CST);
}

static int run(const char* row, struct Memory* m) {
  const uint64_t ones[4] = {1, 1, 1, 1};
  uint64_t expected = 5, dram = 0;
#define ROW(name) if (strcmp(row, name) == 0)
  ROW("two lines") return set(&m->x, 1), set(&m->y, 1), 0;
  ROW("one line") return set(&m->x, 1), set(&m->beside_x, 1), 0;
  ROW("clflush") return set(&m->x, 1), __crashcut_clflush(&m->x), set(&m->y, 1), 0;
  ROW("clflushopt") return set(&m->x, 1), __crashcut_clflushopt(&m->x), set(&m->y, 1), 0;
  ROW("clflushopt sfence")
  return set(&m->x, 1), __crashcut_clflushopt(&m->x), __crashcut_sfence(), set(&m->y, 1), 0;
  ROW("clwb mfence") return set(&m->x, 1), __crashcut_clwb(&m->x), __crashcut_mfence(), set(&m->y, 1), 0;
  ROW("clflushopt xchg") return set(&m->x, 1), __crashcut_clflushopt(&m->x), add(&m->y, __CRASHCUT_XCHG, 1), 0;
  ROW("clwb seq_cst store")
  return set(&m->x, 1), __crashcut_clwb(&m->x), __crashcut_atomic_store(&m->y, ones, 8, __ATOMIC_SEQ_CST), 0;
  ROW("clwb release store")
  return set(&m->x, 1), __crashcut_clwb(&m->x), __crashcut_atomic_store(&m->y, ones, 8, __ATOMIC_RELEASE), 0;
  ROW("clwb failed cmpxchg")
  return set(&m->x, 1), __crashcut_clwb(&m->x),
         __crashcut_cmpxchg(&m->z, &expected, ones, 8, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST), set(&m->y, 1),
         expected == 0 ? 0 : 1;
  ROW("clwb locked in dram")
  return set(&m->x, 1), __crashcut_clwb(&m->x), add(&dram, __CRASHCUT_ADD, 3), set(&m->y, 1), dram == 3 ? 0 : 1;
  ROW("sfence") return set(&m->x, 1), __crashcut_sfence(), set(&m->y, 1), 0;
  ROW("clflush of another")
  return set(&m->x, 1), __crashcut_clflushopt(&m->x), set(&m->y, 1), __crashcut_clflush(&m->y), set(&m->z, 1), 0;
  ROW("two clflushopts")
  return set(&m->x, 1), __crashcut_clflushopt(&m->x), set(&m->y, 1), __crashcut_clflushopt(&m->y), __crashcut_sfence(),
         set(&m->z, 1), 0;
  ROW("clflush mark") return set(&m->x, 1), __crashcut_clflush(&m->x), crashcut_mark("m"), 0;
  ROW("clflushopt mark") return set(&m->x, 1), __crashcut_clflushopt(&m->x), crashcut_mark("m"), 0;
  ROW("commit store")
  return set(&m->x, 1), __crashcut_clflush(&m->x), set(&m->y, 1), __crashcut_clflush(&m->y), 0;
  ROW("commit store too early") return set(&m->x, 1), set(&m->y, 1), __crashcut_clflush(&m->y), 0;
  ROW("nt sfence") return __crashcut_store_nt(&m->x, ones, 8, 0), __crashcut_sfence(), set(&m->y, 1), 0;
  ROW("nt") return __crashcut_store_nt(&m->x, ones, 8, 0), set(&m->y, 1), 0;
  ROW("store of 16") return __crashcut_store(m->wide, ones, 16), 0;
  ROW("memcpy of 24") return __crashcut_memcpy(m->wide, ones, 24), 0;
  ROW("memset of 16") return __crashcut_memset(m->wide, 1, 16), 0;
  ROW("movdir64b") return __crashcut_store_nt(m->wide, ones, 32, 1), 0;
  ROW("lanes") return __crashcut_store_lanes(m->wide, ones, 8, 5), 0;
  ROW("barrier") return set(&m->x, 1), crashcut_barrier(), set(&m->y, 1), 0;
  ROW("copy within") {
    set(m->wide, 1);
    crashcut_barrier();
    __crashcut_memmove(m->wide + 1, m->wide, 16);
    return get(m->wide + 1) == 1 && get(m->wide + 2) == 0 ? 0 : 1;
  }
  return 2;
}

int main(int argc, char** argv) { return run(argc > 1 ? argv[1] : "", memory()); }

void crashcut_recover(void) {
  const struct Memory* m = memory();
  const uint64_t x = get(&m->x), beside_x = get(&m->beside_x), y = get(&m->y), z = get(&m->z);
  uint64_t wide[3];
  __crashcut_load(m->wide, wide, sizeof wide);
  printf("%d%d%d%d %d%d%d %d\n", (int)x, (int)beside_x, (int)y, (int)z, wide[0] != 0, wide[1] != 0, wide[2] != 0,
         crashcut_reached("m"));
}
