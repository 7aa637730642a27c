/* Counts the accesses of an instrumented program instead of modelling them, and the failure points that a search as
 * Jaaru's would have: one before each flush or fence, and one at the end, if anything was stored since the last one.
 *
 * Linked with the program, these functions stand before those of libcrashcut_pmem.so and libc. Counted is what comes
 * after crashcut_barrier(). The counts go to stderr when the program ends. Compiled without instrumentation. */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crashcut.h"
#include "inject/instrument/abi.h"

enum { kRegionsMost = 64 };
static struct {
  char name[64];
  uintptr_t begin, bytes;
} regions[kRegionsMost];
static unsigned region_count;

static unsigned long loads, stores, dram, flushes, fences, failure_points;
static int has_stored = 1;

static void fail_here(void) {
  failure_points += (unsigned long)has_stored;
  has_stored = 0;
}

void print_counts(const char* phase) {
  fprintf(stderr, "%s loads %lu stores %lu dram %lu flushes %lu fences %lu failure_points %lu\n", phase, loads, stores,
          dram, flushes, fences, failure_points);
  loads = stores = dram = flushes = fences = failure_points = 0;
}
__attribute__((destructor)) static void end_counting(void) {
  fail_here();
  print_counts("all");
}

static long open_region(const char* name, size_t bytes) {
  unsigned i = 0;
  while (i < region_count && strcmp(regions[i].name, name) != 0) ++i;
  if (i < region_count) return (long)regions[i].begin;
  if (i == kRegionsMost || strlen(name) >= sizeof regions[i].name) abort();
  strcpy(regions[i].name, name);
  regions[i].bytes = (bytes + 63) / 64 * 64;
  regions[i].begin = (uintptr_t)aligned_alloc(64, regions[i].bytes);
  memset((void*)regions[i].begin, 0, regions[i].bytes);
  ++region_count;
  return (long)regions[i].begin;
}

/* Calls of crashcut.h. */
long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  const long operation = va_arg(list, long);
  const char* const name = va_arg(list, const char*);
  (void)va_arg(list, long);
  const size_t bytes = va_arg(list, size_t);
  va_end(list);
  if (number != CRASHCUT_SYSCALL_NUMBER) abort();
  if (operation == CRASHCUT_OP_PMEM) return open_region(name, bytes);
  if (operation == CRASHCUT_OP_BARRIER) {
    loads = stores = dram = flushes = fences = failure_points = 0;
    has_stored = 1;
  }
  errno = ENOSYS;
  return -1;
}

static int is_persistent(const void* at) {
  for (unsigned i = 0; i < region_count; ++i) {
    if ((uintptr_t)at - regions[i].begin < regions[i].bytes) return 1;
  }
  return 0;
}
static void count_load(const void* at) { ++*(is_persistent(at) ? &loads : &dram); }
static void count_store(const void* at) {
  const int is_ours = is_persistent(at);
  ++*(is_ours ? &stores : &dram);
  has_stored |= is_ours;
}
static void count_flush(const void* at) {
  if (!is_persistent(at)) return;
  fail_here();
  ++flushes;
}
static void count_fence(void) {
  fail_here();
  ++fences;
}

#define WIDTH(bits, bytes)                                       \
  uint##bits##_t __crashcut_load##bytes(const void* at) {        \
    uint##bits##_t value;                                        \
    count_load(at);                                              \
    memcpy(&value, at, bytes);                                   \
    return value;                                                \
  }                                                              \
  void __crashcut_store##bytes(void* at, uint##bits##_t value) { \
    count_store(at);                                             \
    memcpy(at, &value, bytes);                                   \
  }
WIDTH(8, 1)
WIDTH(16, 2)
WIDTH(32, 4)
WIDTH(64, 8)
void __crashcut_load(const void* at, void* to, size_t bytes) {
  count_load(at);
  memcpy(to, at, bytes);
}
void __crashcut_store(void* at, const void* from, size_t bytes) {
  count_store(at);
  memcpy(at, from, bytes);
}
void* __crashcut_memcpy(void* to, const void* from, size_t bytes) {
  count_load(from);
  count_store(to);
  return memcpy(to, from, bytes);
}
void* __crashcut_memset(void* to, int value, size_t bytes) {
  count_store(to);
  return memset(to, value, bytes);
}
void __crashcut_atomic_load(const void* at, void* to, size_t bytes, int order) {
  (void)order;
  __crashcut_load(at, to, bytes);
}
void __crashcut_atomic_store(void* at, const void* from, size_t bytes, int order) {
  if (order == __ATOMIC_SEQ_CST) count_fence();
  __crashcut_store(at, from, bytes);
}
/* What the programs use: additions and exchanges. */
void __crashcut_rmw(int operation, void* at, const void* operand, void* old, size_t bytes, int order) {
  uint64_t value = 0, other = 0;
  (void)order;
  if (bytes > 8 || (operation != __CRASHCUT_XCHG && operation != __CRASHCUT_ADD)) abort();
  count_fence();
  __crashcut_load(at, &value, bytes);
  memcpy(&other, operand, bytes);
  memcpy(old, &value, bytes);
  value = operation == __CRASHCUT_ADD ? value + other : other;
  __crashcut_store(at, &value, bytes);
}
int __crashcut_cmpxchg(void* at, void* expected, const void* desired, size_t bytes, int order, int failure_order) {
  (void)order, (void)failure_order;
  count_fence();
  count_load(at);
  if (memcmp(at, expected, bytes) != 0) {
    memcpy(expected, at, bytes);
    return 0;
  }
  __crashcut_store(at, desired, bytes);
  return 1;
}
void __crashcut_clflush(const void* at) { count_flush(at); }
void __crashcut_clflushopt(const void* at) { count_flush(at); }
void __crashcut_clwb(const void* at) { count_flush(at); }
void __crashcut_sfence(void) { count_fence(); }
void __crashcut_mfence(void) { count_fence(); }
