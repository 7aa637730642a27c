/* What the programs of this folder share: a pool of libpmemobj, and the frame of main() and crashcut_recover().
 *
 * Each program inserts N keys (its argument, 1 without one) in transactions of libpmemobj and marks each as promised.
 * After a crash it opens the pool, which makes the library roll back or finish what was under way, and must find every
 * key that was promised and nothing that was half inserted. -DMISTAKE_... builds it with one mistake.
 * Compiled by any compiler and run by `crashcut pmem --trap`: the library is as it comes. */
#ifndef WORKLOADS_PMEMOBJ_POOL_H
#define WORKLOADS_PMEMOBJ_POOL_H

#include <assert.h>
#include <libpmemobj.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "crashcut.h"

#define POOL_FILE "pmem/pool"

static PMEMobjpool* pool;

static inline uint64_t key_of(uint64_t i) { return i * 7919 % 10007 + 1; }

static inline void check(int is_good, const char* what) {
  if (is_good) return;
  fprintf(stderr, "%s: %s\n", what, pmemobj_errormsg());
  abort();
}

/* The pool is made before anything can crash; pool.c is about its making. */
static inline void* make_pool(size_t root_bytes) {
  mkdir("pmem", 0755);
  pool = pmemobj_create(POOL_FILE, "crashcut", PMEMOBJ_MIN_POOL, 0600);
  check(pool != NULL, "pmemobj_create");
  void* root = pmemobj_direct(pmemobj_root(pool, root_bytes));
  crashcut_barrier();
  return root;
}
static inline void* open_pool(size_t root_bytes) {
  pool = pmemobj_open(POOL_FILE, "crashcut");
  check(pool != NULL, "pmemobj_open");
  return pmemobj_direct(pmemobj_root(pool, root_bytes));
}

static inline unsigned count_of_keys(int argc, char** argv) { return argc > 1 ? (unsigned)atoi(argv[1]) : 1; }
static inline const char* promise(unsigned i) {
  static char text[32];
  snprintf(text, sizeof text, "key %u", i);
  return text;
}
/* How many keys were promised. */
static inline unsigned count_promised(void) {
  unsigned promised = 0;
  while (crashcut_reached(promise(promised))) ++promised;
  return promised;
}

#endif
