// Which calls each access becomes: widths, vectors, atomics, copies, flushes, fences.
#include "tests/instrument/fixture.h"

namespace crashcut {
namespace {

const std::vector<Row> kWidths = {
    {"store1", "*(uint8_t*)p = n;", "store1 +0 7"},
    {"store2", "*(uint16_t*)(p + 2) = n;", "store2 +2 7"},
    {"store4", "*(uint32_t*)(p + 4) = n;", "store4 +4 7"},
    {"store8", "*(uint64_t*)(p + 8) = n;", "store8 +8 7"},
    {"store_pointer", "*(char**)p = (char*)n;", "store8 +0 7"},
    {"store_float", "*(float*)p = n;", "store4 +0 1088421888"},
    {"store_double", "*(double*)p = n;", "store8 +0 4619567317775286272"},
    {"store_bool", "*(_Bool*)p = n == 7;", "store1 +0 1"},
    {"store_16", "*(unsigned __int128*)p = n;", "store +0 07000000000000000000000000000000"},
    {"store_long_double", "*(long double*)p = n;", "store +0 00000000000000e00140"},
    {"store_vector8", "typedef int v __attribute__((vector_size(8))); *(v*)p = (v){n, 0};", "store8 +0 7"},
    {"store_vector16", "_mm_store_si128((__m128i*)p, _mm_set_epi64x(0, n));",
     "store +0 07000000000000000000000000000000"},
    {"load1", "result = *(uint8_t*)p;", "load1 +0"},
    {"load2", "result = *(uint16_t*)p;", "load2 +0"},
    {"load4", "result = *(uint32_t*)p;", "load4 +0"},
    {"load8", "result = *(uint64_t*)p;", "load8 +0"},
    {"load_double", "result = *(double*)p;", "load8 +0"},
    {"load_long_double", "result = *(long double*)p;", "load +0 10 bytes"},
    {"load_16", "__int128 x = *(__int128*)p; result = x; result = x >> 64;", "load +0 16 bytes"},
    {"load_vector16", "wide = _mm_loadu_si128((__m128i*)(p + 1));", "load +1 16 bytes"},
    {"volatile_store", "*(volatile int*)p = 1; *(volatile int*)p = 2;", "store4 +0 1\nstore4 +0 2"},
    {"bit_field", "struct { unsigned a : 3, b : 5; }* s = (void*)p; s->b = n;", "load1 +0\nstore1 +0 56"},
    {"local_structure", "struct { long a[4]; } x = {{n}}; result = x.a[n & 3];", ""},
    {"local", "int x[4]; x[n & 3] = 1; result = x[n & 3];", ""},
    {"constant", "static const int table[] = {1, 2, 3, 4}; result = table[n & 3];", ""},
};

TEST_F(InstrumentTest, Widths) {
  for (const std::string& way : kAllWays) {
    std::vector<Row> rows = kWidths;
    // At -O0 clang reads the byte's whole unit.
    if (way.ends_with("-O0")) std::erase_if(rows, [](const Row& row) { return std::string(row.name) == "bit_field"; });
    expect_rows(rows, way);
  }
}

const std::vector<Row> kAtomics = {
    {"load_relaxed", "result = atomic_load_explicit((_Atomic int*)p, memory_order_relaxed);",
     "atomic_load4 +0 relaxed"},
    {"load_acquire", "result = atomic_load_explicit((_Atomic long*)p, memory_order_acquire);",
     "atomic_load8 +0 acquire"},
    {"load_seq_cst", "result = *(_Atomic char*)p;", "atomic_load1 +0 seq_cst"},
    {"store_relaxed", "atomic_store_explicit((_Atomic short*)p, n, memory_order_relaxed);",
     "atomic_store2 +0 7 relaxed"},
    {"store_release", "atomic_store_explicit((_Atomic int*)p, n, memory_order_release);", "atomic_store4 +0 7 release"},
    {"store_seq_cst", "*(_Atomic long*)p = n;", "atomic_store8 +0 7 seq_cst"},
    {"exchange", "result = atomic_exchange((_Atomic long*)p, n);", "rmw8 xchg +0 7 seq_cst"},
    {"fetch_add", "result = atomic_fetch_add((_Atomic int*)p, n);", "rmw4 add +0 7 seq_cst"},
    {"fetch_sub", "result = atomic_fetch_sub_explicit((_Atomic int*)p, n, memory_order_relaxed);",
     "rmw4 sub +0 7 relaxed"},
    {"fetch_and", "result = atomic_fetch_and((_Atomic int*)p, n);", "rmw4 and +0 7 seq_cst"},
    {"fetch_or", "result = atomic_fetch_or((_Atomic char*)p, n);", "rmw1 or +0 7 seq_cst"},
    {"fetch_xor", "result = atomic_fetch_xor((_Atomic short*)p, n);", "rmw2 xor +0 7 seq_cst"},
    {"fetch_nand", "result = __sync_fetch_and_nand((int*)p, n);", "rmw4 nand +0 7 seq_cst"},
    {"fetch_max", "result = __atomic_fetch_max((int*)p, n, __ATOMIC_ACQ_REL);", "rmw4 max +0 7 acq_rel"},
    {"compare_fails", "long e = 1; result = atomic_compare_exchange_strong((_Atomic long*)p, &e, n); result = e;",
     "cmpxchg8 +0 1 7 seq_cst seq_cst -> 0"},
    {"compare_stores",
     "int e = 0; result = atomic_compare_exchange_weak_explicit((_Atomic int*)p, &e, n, memory_order_acq_rel, "
     "memory_order_acquire);",
     "cmpxchg4 +0 0 7 acq_rel acquire -> 1"},
    {"cmpxchg16b", "__int128 e = 0; result = __sync_bool_compare_and_swap((__int128*)p, e, n);",
     "cmpxchg16 +0 00000000000000000000000000000000 07000000000000000000000000000000 seq_cst seq_cst -> 1"},
    {"fence_seq_cst", "atomic_thread_fence(memory_order_seq_cst);", "mfence"},
    {"fence_release", "atomic_thread_fence(memory_order_release);", ""},
    {"fence_of_signals", "atomic_signal_fence(memory_order_seq_cst);", ""},
    {"synchronize", "__sync_synchronize();", "mfence"},
    {"elsewhere", "static _Atomic int m; m++;", "rmw4 add elsewhere 1 seq_cst"},
};

TEST_F(InstrumentTest, AtomicsAndTheirOrders) {
  for (const std::string& way : kFewWays) expect_rows(kAtomics, way + " -mcx16");
}

// Without -mcx16 clang leaves 16 bytes, and all sizes that no instruction has, to libatomic.
TEST_F(InstrumentTest, CallsOfLibatomic) {
  const std::vector<Row> rows = {
      {"generic_load", "struct s x; __atomic_load((struct s*)p, &x, __ATOMIC_SEQ_CST); result = x.a[2];",
       "mfence\nmemmove elsewhere +0 24\nmfence"},
      {"generic_store", "struct s x = {{n, n, n}}; __atomic_store((struct s*)p, &x, __ATOMIC_RELEASE);",
       "mfence\nmemmove +0 elsewhere 24\nmfence"},
      {"generic_exchange",
       "struct s x = {{n}}, y; __atomic_exchange((struct s*)p, &x, &y, __ATOMIC_SEQ_CST); result = y.a[0];",
       "mfence\nmemmove elsewhere +0 24\nmemmove +0 elsewhere 24\nmfence"},
      {"generic_compare",
       "struct s x = {{n}}, y = {{0}}; result = __atomic_compare_exchange((struct s*)p, &y, &x, 0, __ATOMIC_SEQ_CST, "
       "__ATOMIC_SEQ_CST);",
       "mfence\nload8 +0\nload8 +8\nload8 +16\nmemmove +0 elsewhere 24\nmfence"},
      {"sized_load", "result = __atomic_load_n((__int128*)p, __ATOMIC_ACQUIRE);", "atomic_load16 +0 acquire"},
      {"sized_store", "__atomic_store_n((__int128*)p, n, __ATOMIC_RELEASE);",
       "atomic_store16 +0 07000000000000000000000000000000 release"},
      {"sized_add", "result = __atomic_fetch_add((__int128*)p, n, __ATOMIC_SEQ_CST);",
       "rmw16 add +0 07000000000000000000000000000000 seq_cst"},
      {"sized_compare",
       "__int128 e = 1; result = __atomic_compare_exchange_n((__int128*)p, &e, n, 0, __ATOMIC_SEQ_CST, "
       "__ATOMIC_ACQUIRE); result = e;",
       "cmpxchg16 +0 01000000000000000000000000000000 07000000000000000000000000000000 seq_cst acquire -> 0"},
  };
  for (const std::string& way : kFewWays)
    expect_rows(rows, way + " -Wno-atomic-alignment", "struct s { long a[3]; };\n");
}

const std::vector<Row> kFlushes = {
    {"clflush", "_mm_clflush(p + 70);", "clflush +70"},
    {"clflushopt", "_mm_clflushopt(p);", "clflushopt +0"},
    {"clwb", "_mm_clwb(p);", "clwb +0"},
    {"sfence", "_mm_sfence();", "sfence"},
    {"mfence", "_mm_mfence();", "mfence"},
    {"lfence", "_mm_lfence();", ""},
    {"pause", "_mm_pause();", ""},
    {"prefetch", "__builtin_prefetch(p, 1); _mm_prefetch(p, _MM_HINT_T0);", ""},
    {"movnti4", "_mm_stream_si32((int*)p, n);", "store_nt +0 4 bytes: 7"},
    {"movnti8", "_mm_stream_si64((long long*)p, n);", "store_nt +0 8 bytes: 7"},
    {"movntdq", "_mm_stream_si128((__m128i*)p, _mm_set_epi64x(0, n));",
     "store_nt +0 16 bytes: 07000000000000000000000000000000"},
    {"movntps", "_mm_stream_ps((float*)p, _mm_setzero_ps());",
     "store_nt +0 16 bytes: 00000000000000000000000000000000"},
    {"movntdqa", "wide = _mm_stream_load_si128((__m128i*)p);", "load +0 16 bytes"},
    {"movdiri4", "_directstoreu_u32(p, n);", "store_nt +0 4 bytes: 7"},
    {"movdiri8", "_directstoreu_u64(p, n);", "store_nt +0 8 bytes: 7"},
    {"movdir64b", "_movdir64b(p + 64, p);",
     "load +0 64 bytes\n"
     "store_nt_whole +64 64 bytes: 0000000000000000000000000000000000000000000000000000000000000000"
     "0000000000000000000000000000000000000000000000000000000000000000"},
    {"nontemporal", "__builtin_nontemporal_store((int)n, (int*)p);", "store_nt +0 4 bytes: 7"},
    {"nontemporal_byte", "__builtin_nontemporal_store((char)n, p);", "store1 +0 7"},
};

TEST_F(InstrumentTest, FlushesAndFences) {
  for (const std::string& way : kAllWays)
    expect_rows(kFlushes, way + " -mclwb -mclflushopt -msse4.1 -mmovdiri -mmovdir64b");
}

const std::vector<Row> kLanes = {
    {"mask_store", "_mm512_mask_storeu_epi64(p, n, _mm512_set1_epi64(1));", "store_lanes +0 8 bytes each, lanes 7"},
    {"mask_load", "result = _mm512_reduce_add_epi64(_mm512_maskz_loadu_epi64(n, p));",
     "load_lanes +0 8 bytes each, lanes 7"},
    {"maskstore_avx2", "_mm256_maskstore_epi64((long long*)p, _mm256_set_epi64x(0, -1, 0, -n), _mm256_set1_epi64x(n));",
     "store_lanes +0 8 bytes each, lanes 5"},
    {"maskload_avx", "__m128 x = _mm_maskload_ps((float*)p, _mm_set_epi32(-n, 0, 0, 0)); result = x[3];",
     "load_lanes +0 4 bytes each, lanes 8"},
    {"scatter",
     "_mm512_mask_i64scatter_epi64(p, 5, _mm512_set_epi64(0, 0, 0, 0, 0, 8, 4, n), _mm512_set1_epi64(n), 8);",
     "scatter +56 8 bytes\nscatter +64 8 bytes"},
    {"gather", "__m256i x = _mm256_i64gather_epi64((long long*)p, _mm256_set_epi64x(3, 2, 1, n), 8); result = x[0];",
     "load_lanes +56 8 bytes each, lanes 1\nload_lanes +8 8 bytes each, lanes 1\n"
     "load_lanes +16 8 bytes each, lanes 1\nload_lanes +24 8 bytes each, lanes 1"},
    {"compress", "_mm512_mask_compressstoreu_epi64(p, n << 1, _mm512_set1_epi64(n));",
     "store_lanes +0 8 bytes each, lanes 7"},
    {"expand", "result = _mm512_reduce_add_epi64(_mm512_maskz_expandloadu_epi64(n << 1, p));",
     "load_lanes +0 8 bytes each, lanes 7"},
    {"maskmovdqu", "_mm_maskmoveu_si128(_mm_set1_epi8(n), _mm_set_epi64x(0, 0x80008000), p);",
     "store_nt +1 1 bytes: 7\nstore_nt +3 1 bytes: 7"},
};

TEST_F(InstrumentTest, MasksScattersAndGathers) {
  for (const std::string way : {"-O0", "-O2", "--late -O2"})
    expect_rows(kLanes, std::string(way) + " -mavx2 -mavx512f -mavx512vl");
}

const std::vector<Row> kCopies = {
    {"memcpy", "memcpy(p, p + 64, n);", "memcpy +0 +64 7"},
    {"memmove", "memmove(p, p + 1, n);", "memmove +0 +1 7"},
    {"memset", "memset(p, n, 2 * n);", "memset +0 7 14"},
    {"mempcpy", "void* mempcpy(void*, const void*, size_t); result = (char*)mempcpy(p, p + 64, n) - p;",
     "memcpy +0 +64 7"},
    {"bcopy", "bcopy(p, p + 64, n);", "memmove +64 +0 7"},
    {"memcmp", "result = memcmp(p, p + 64, n + 1);", "load8 +0\nload8 +64"},
    {"memchr", "result = memchr(p, 0, n) == p;", "load1 +0"},
    {"strlen", "p[0] = 'a'; result = strlen(p);", "store1 +0 97\nload1 +0\nload1 +1"},
    {"strcpy", "strcpy(p, unknown ? \"ab\" : \"c\");", "store1 +0 97\nstore1 +1 98\nstore1 +2 0"},
    {"strncpy", "strncpy(p, unknown ? \"a\" : \"c\", n);", "store1 +0 97\nstore1 +1 0\nmemset +1 0 6"},
    {"strcmp", "result = strcmp(p, p + 64);", "load1 +0\nload1 +64"},
    {"strchr", "result = strchr(p, 'x') == 0;", "load1 +0"},
    {"structure", "struct s { long a[6]; }; *(struct s*)p = *(struct s*)(p + 64);", "memcpy +0 +64 48"},
    {"by_pointer", "void* (*volatile f)(void*, const void*, size_t) = memcpy; f(p, p + 8, 8);", "memcpy +0 +8 8"},
};

TEST_F(InstrumentTest, CopiesAndStrings) {
  for (const std::string way : {"-O0", "-O2"}) expect_rows(kCopies, way);
}

TEST_F(InstrumentTest, CallsOfLibpmem) {
  const std::vector<Row> rows = {
      {"persist", "pmem_persist(p + 60, 8);", "clwb +0\nclwb +64\nsfence"},
      {"flush", "pmem_flush(p, 64);", "clwb +0"},
      {"drain", "pmem_drain();", "sfence"},
      {"memcpy_persist", "pmem_memcpy_persist(p + 4, p + 64, 8);",
       "memmove elsewhere +64 8\nstore_nt +4 4 bytes: 0\nstore_nt +8 4 bytes: 0\nsfence"},
      {"memset_nodrain", "pmem_memset_nodrain(p, 1, 8);", "store_nt +0 8 bytes: 72340172838076673"},
      {"memmove_noflush", "pmem_memmove(p, p + 64, 8, 2);", "memmove +0 +64 8"},
      {"memcpy_nodrain", "pmem_memcpy(p, p + 64, 8, 1);", "memmove elsewhere +64 8\nstore_nt +0 8 bytes: 0"},
      {"empty", "pmem_persist(p, 0);", "sfence"},
  };
  const char* const declarations =
      "void pmem_persist(const void*, size_t); void pmem_flush(const void*, size_t); void pmem_drain(void);\n"
      "void* pmem_memcpy_persist(void*, const void*, size_t); void* pmem_memset_nodrain(void*, int, size_t);\n"
      "void* pmem_memmove(void*, const void*, size_t, unsigned); void* pmem_memcpy(void*, const void*, size_t, "
      "unsigned);\n";
  for (const std::string& way : kFewWays) expect_rows(rows, way, declarations);
}

// A structure of more than 16 bytes that is passed by value is copied by the caller.
TEST_F(InstrumentTest, ArgumentsByValue) {
  const std::vector<Row> rows = {{"by_value", "result = sum(*(struct s*)p);", "memcpy elsewhere +0 24"}};
  const char* const head =
      "struct s { long a[3]; };\n__attribute__((noinline)) long sum(struct s x) { return x.a[0] + x.a[2]; }\n";
  for (const std::string way : {"-O0", "-O2"}) expect_rows(rows, way, head);
}

// Early sees the source's stores; late sees what the optimiser left of them.
TEST_F(InstrumentTest, EarlyAndLateDiffer) {
  const Row twice = {"twice", "*(long*)p = 1; *(long*)p = n;", "store8 +0 1\nstore8 +0 7"};
  const Row pair = {"pair", "((long*)p)[0] = 1; ((long*)p)[1] = 2;", "store8 +0 1\nstore8 +8 2"};
  for (const std::string way : {"-O0", "-O1", "-O2", "-O3", "--late -O0"}) expect_rows({twice, pair}, way);
  expect_rows({{"twice", twice.body, "store8 +0 7"}, {"pair", pair.body, "store +0 01000000000000000200000000000000"}},
              "--late -O2");
}

TEST_F(InstrumentTest, ModulesSayWhenTheyWereInstrumented) {
  write("m.c", "int main(void) { return 0; }\n");
  ASSERT_EQ(shell(cc() + "-O2 m.c -o m").exit_code, 0);
  EXPECT_EQ(shell("LOG_MODULE=1 " + logged("./m")).out, "module 2 early\n");
  ASSERT_EQ(shell(cc() + "--late -O2 m.c -o m").exit_code, 0);
  EXPECT_EQ(shell("LOG_MODULE=1 " + logged("./m")).out, "module 2 late\n");
}

}  // namespace
}  // namespace crashcut
