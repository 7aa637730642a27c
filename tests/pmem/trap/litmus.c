/* The rows of the litmus table that have one thread, for a compiler without instrumentation. main() takes the row's
 * name; recovery prints all. */
#include <immintrin.h>
#include <stdio.h>
#include <string.h>

#include "crashcut.h"

struct Memory {
  volatile long x, beside_x; /* one line */
  long pad0[6];
  volatile long y, pad1[7];
  volatile long z, pad2[7];
  long wide[8];
};

static struct Memory* memory(void) { return crashcut_pmem("memory", sizeof(struct Memory)); }

static int run(const char* row, struct Memory* m) {
  static long dram;
  long expected = 5;
#define ROW(name) if (strcmp(row, name) == 0)
#define CLFLUSH(at) _mm_clflush((const void*)&(at))
#define CLFLUSHOPT(at) _mm_clflushopt((void*)&(at))
#define CLWB(at) _mm_clwb((void*)&(at))
#define SET(at) (void)((at) = 1)
  ROW("two lines") return SET(m->x), SET(m->y), 0;
  ROW("one line") return SET(m->x), SET(m->beside_x), 0;
  ROW("clflush") return SET(m->x), CLFLUSH(m->x), SET(m->y), 0;
  ROW("clflushopt") return SET(m->x), CLFLUSHOPT(m->x), SET(m->y), 0;
  ROW("clflushopt sfence") return SET(m->x), CLFLUSHOPT(m->x), _mm_sfence(), SET(m->y), 0;
  ROW("clwb mfence") return SET(m->x), CLWB(m->x), _mm_mfence(), SET(m->y), 0;
  ROW("clflushopt xchg") return SET(m->x), CLFLUSHOPT(m->x), (void)__atomic_exchange_n(&m->y, 1, __ATOMIC_SEQ_CST), 0;
  ROW("clwb seq_cst store") return SET(m->x), CLWB(m->x), __atomic_store_n(&m->y, 1, __ATOMIC_SEQ_CST), 0;
  ROW("clwb release store") return SET(m->x), CLWB(m->x), __atomic_store_n(&m->y, 1, __ATOMIC_RELEASE), 0;
  ROW("clwb failed cmpxchg") {
    SET(m->x), CLWB(m->x);
    const int done = __atomic_compare_exchange_n(&m->z, &expected, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    SET(m->y);
    return done || expected != 0;
  }
  ROW("clwb cmpxchg") {
    expected = 0;
    SET(m->x), CLWB(m->x);
    return !__atomic_compare_exchange_n(&m->y, &expected, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  }
  ROW("clwb cmpxchg without lock") {
    expected = 0;
    SET(m->x), CLWB(m->x);
    __asm__ volatile("cmpxchgq %2, %0" : "+m"(m->y), "+a"(expected) : "r"(1L) : "cc");
    return expected != 0;
  }
  ROW("clwb locked in dram") {
    SET(m->x), CLWB(m->x);
    __atomic_fetch_add(&dram, 3, __ATOMIC_SEQ_CST);
    SET(m->y);
    return dram != 3;
  }
  ROW("clwb locked in dram by a register") {
    long* local = &expected;
    SET(m->x), CLWB(m->x);
    __asm__ volatile("lock xaddq %0, (%1)" : "+r"(dram) : "r"(local) : "memory");
    SET(m->y);
    return dram != 5 || expected != 5;
  }
  ROW("sfence") return SET(m->x), _mm_sfence(), SET(m->y), 0;
  ROW("clflush of another") return SET(m->x), CLFLUSHOPT(m->x), SET(m->y), CLFLUSH(m->y), SET(m->z), 0;
  ROW("two clflushopts")
  return SET(m->x), CLFLUSHOPT(m->x), SET(m->y), CLFLUSHOPT(m->y), _mm_sfence(), SET(m->z), 0;
  ROW("clflush mark") return SET(m->x), CLFLUSH(m->x), crashcut_mark("m"), 0;
  ROW("clflushopt mark") return SET(m->x), CLFLUSHOPT(m->x), crashcut_mark("m"), 0;
  ROW("commit store") return SET(m->x), CLFLUSH(m->x), SET(m->y), CLFLUSH(m->y), 0;
  ROW("commit store too early") return SET(m->x), SET(m->y), CLFLUSH(m->y), 0;
  ROW("nt sfence") return _mm_stream_si64((long long*)&m->x, 1), _mm_sfence(), SET(m->y), 0;
  ROW("nt") return _mm_stream_si64((long long*)&m->x, 1), SET(m->y), 0;
  ROW("store of 16") return _mm_store_si128((__m128i*)m->wide, _mm_set1_epi64x(1)), 0;
  ROW("nt store of 16") return _mm_stream_si128((__m128i*)m->wide, _mm_set1_epi64x(1)), 0;
  ROW("masked store") {
    static const long mask[4] = {-1, 0, -1, 0}, ones[4] = {1, 1, 1, 1};
    __asm__ volatile("vmovdqu (%0), %%ymm0\n\t vmovdqu (%1), %%ymm1\n\t vmaskmovpd %%ymm1, %%ymm0, (%2)" ::"r"(mask),
                     "r"(ones), "r"(m->wide)
                     : "memory", "xmm0", "xmm1");
    return 0;
  }
  ROW("rep movs of 24") {
    static const long ones[3] = {1, 1, 1};
    void* to = m->wide;
    const void* from = ones;
    long count = 3;
    __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(count)::"memory");
    return count != 0 || to != m->wide + 3 || from != ones + 3;
  }
  ROW("rep stos of 16") {
    void* to = m->wide;
    long count = 16;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(1) : "memory");
    return count != 0 || to != m->wide + 2;
  }
  ROW("barrier") return SET(m->x), crashcut_barrier(), SET(m->y), 0;
  return 2;
}

int main(int argc, char** argv) { return run(argc > 1 ? argv[1] : "", memory()); }

void crashcut_recover(void) {
  const struct Memory* m = memory();
  printf("%d%d%d%d %d%d%d %d\n", (int)m->x, (int)m->beside_x, (int)m->y, (int)m->z, m->wide[0] != 0, m->wide[1] != 0,
         m->wide[2] != 0, crashcut_reached("m"));
}
