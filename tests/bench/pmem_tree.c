/* The B+-tree of workloads/pmem, timed by itself: inserts all keys, then finds all of them. scripts/pmem_figures.py
 * runs it: plain, instrumented with the tree in ordinary memory (-DDRAM), and under crashcut pmem. */
#define _GNU_SOURCE
#include "crashcut.h"
#ifdef DRAM
#define crashcut_pmem(name, bytes) dram_region(name, bytes)
static void* some_region(void) { return (crashcut_pmem)("not used", 64); } /* crashcut pmem wants one */
static void* dram_region(const char* name, size_t bytes) {
  static struct crashcut_region* regions;
  return crashcut_plain_region(&regions, name, bytes);
}
#endif
#include "workloads/pmem/pmem.h"
#ifdef UNFLUSHED /* the stores alone */
#define persist(at, bytes) ((void)(at))
#endif
#define main unused_main
#define crashcut_recover unused_recover
#include "workloads/pmem/btree.c"
#undef main
#undef crashcut_recover
#include <time.h>

void crashcut_recover(void) {}

static double now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

#ifdef COUNT /* pmem_count.c */
void print_counts(const char* phase);
#else
static void print_counts(const char* phase) { (void)phase; }
#endif

int main(int argc, char** argv) {
  const unsigned keys = argc > 1 ? (unsigned)atoi(argv[1]) : 10000;
  struct tree* tree = the_tree();
  the_pool();
#ifdef DRAM
  some_region();
#endif
  crashcut_barrier();
  const double begin = now_ns();
  for (unsigned i = 0; i < keys; ++i) insert(tree, key_of(i));
  const double inserted = now_ns();
  print_counts("insert");
  uint64_t sum = 0;
  const double search = now_ns();
  for (unsigned i = 0; i < keys; ++i) sum += find(tree, key_of(i));
  const double found = now_ns();
  print_counts("find");
  printf("insert_ns %.0f find_ns %.0f bytes %llu sum %llu\n", inserted - begin, found - search,
         (unsigned long long)the_pool()->used, (unsigned long long)sum);
  return 0;
}
