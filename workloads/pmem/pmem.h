/* What the programs of this folder share: flushing, an allocator that never frees, and the frame of main() and
 * crashcut_recover().
 *
 * Each program inserts N keys (its argument, 4 without one) into a structure in persistent memory and marks each as
 * promised. After a crash it must find every key that was promised, with its value, and nothing that was never
 * inserted. -DMISTAKE_... builds it with one mistake. */
#ifndef WORKLOADS_PMEM_H
#define WORKLOADS_PMEM_H

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "crashcut.h"

enum { kLineBytes = 64 };

static inline void flush(const volatile void* at, size_t bytes) {
  const uintptr_t end = (uintptr_t)at + bytes;
  for (uintptr_t line = (uintptr_t)at & ~(uintptr_t)(kLineBytes - 1); line < end; line += kLineBytes)
    __asm__ volatile("clwb %0" : "+m"(*(volatile char*)line));
}
static inline void fence(void) { __asm__ volatile("sfence" : : : "memory"); }
static inline void persist(const volatile void* at, size_t bytes) {
  flush(at, bytes);
  fence();
}

/* Keys are unique up to 10,007 and come in no order. A value tells its key. */
static inline uint64_t key_of(unsigned i) { return i * 7919ULL % 10007 + 1; }
static inline uint64_t value_of(uint64_t key) { return key * 3 + 1; }

/* A pool of cache lines: all zero, handed out once. What was handed out and is not reachable after a crash is lost. */
struct pool {
  volatile uint64_t used; /* bytes */
  char pad[kLineBytes - 8];
  char lines[];
};
enum { kPoolBytes = 1 << 20 };
static inline struct pool* the_pool(void) {
  static struct pool* pool; /* asked for once a run */
  if (pool == NULL) pool = (struct pool*)crashcut_pmem("pool", kPoolBytes);
  assert(pool != NULL);
  return pool;
}
/* Machines and threads that share the pool allocate at the same time. What a dead machine took and did not flush is
 * handed out again: that machine has not touched it. */
#ifdef SHARED_BY_MACHINES
static inline uint64_t take_bytes(struct pool* pool, size_t bytes) {
  return __atomic_fetch_add(&pool->used, bytes, __ATOMIC_SEQ_CST);
}
#else
static inline uint64_t take_bytes(struct pool* pool, size_t bytes) {
  const uint64_t at = pool->used;
  pool->used = at + bytes;
  return at;
}
#endif
static inline void* allocate(struct pool* pool, size_t bytes) {
  bytes = (bytes + kLineBytes - 1) / kLineBytes * kLineBytes;
  const uint64_t at = take_bytes(pool, bytes);
  assert(sizeof *pool + at + bytes <= kPoolBytes);
  persist(&pool->used, sizeof pool->used); /* before anybody points to it: else it is handed out again */
  return pool->lines + at;
}
static inline int is_in_pool(struct pool* pool, const volatile void* at) {
  return (const volatile char*)at >= pool->lines && (const volatile char*)at < (char*)pool + kPoolBytes;
}

/* How many keys; kept for the run after the crash, which has no arguments. Each machine has arguments of its own. */
static inline volatile uint64_t* kept_count(void) {
#ifdef SHARED_BY_MACHINES
  static volatile uint64_t own;
  static volatile uint64_t* count = &own;
#else
  static volatile uint64_t* count;
#endif
  if (count == NULL) count = (volatile uint64_t*)crashcut_pmem("count of keys", 8);
  return count;
}
static inline unsigned begin(int argc, char** argv) {
  volatile uint64_t* count = kept_count();
  *count = argc > 1 ? strtoul(argv[1], NULL, 10) : 4;
  crashcut_barrier();
  return (unsigned)*count;
}
static inline const char* promise(unsigned i) {
  static char text[32];
  snprintf(text, sizeof text, "key %u", i);
  return text;
}

#endif
