/* A row that two machines count in, in memory that no hardware keeps coherent (--incoherent rows): the programs keep it
 * coherent, as Tigon does. Its lock and what says where it is lie in coherent memory. Who has the lock first drops the
 * copies in its own cache, and writes the row back before it gives the lock away. A row has two places. A machine
 * writes the place that is not in use, writes it back, and then says that this one is in use. So a machine that fails
 * on the way leaves a whole row.
 *
 * Argument: how often each machine counts (2).
 *
 * MISTAKE_NO_WRITE_BACK   the row is not written back before another machine is told
 * MISTAKE_NO_INVALIDATE   a machine that has got the lock reads its old copy
 * MISTAKE_CLWB            it uses clwb to drop the copy, which keeps it
 * MISTAKE_LATE            the row is written back after the new place is in use
 * MISTAKE_IN_PLACE        the place that is in use is written: a part of it is written back when its machine fails */
#include <immintrin.h>

#include "machines.h"

struct row {
  volatile uint64_t counts[2], sum;
} __attribute__((aligned(64)));
struct shared {
  struct guard guard;
  volatile uint64_t in_use __attribute__((aligned(64)));
};

static struct shared* the_shared(void) { return (struct shared*)crashcut_cxl("shared", sizeof(struct shared)); }
static struct row* the_rows(void) { return (struct row*)crashcut_cxl("rows", 2 * sizeof(struct row)); }

void crashcut_setup(void) { make_guard(&the_shared()->guard); }

static void repair(void) {}

static void drop_copy(struct row* row) {
#ifdef MISTAKE_CLWB
  _mm_clwb((void*)row);
#elif !defined(MISTAKE_NO_INVALIDATE)
  _mm_clflush((void*)row);
#endif
  _mm_mfence();
}
static void write_back(struct row* row) {
#ifndef MISTAKE_NO_WRITE_BACK
  _mm_clwb((void*)row);
#endif
  _mm_mfence();
}

static struct row read_row(const struct row* row) {
  const struct row copy = {{row->counts[0], row->counts[1]}, row->sum};
  assert(copy.counts[0] + copy.counts[1] == copy.sum);
  return copy;
}

static void set_in_use(struct shared* shared, uint64_t place) {
  shared->in_use = place;
  persist((void*)&shared->in_use, 8);
}

static void count(struct shared* shared, struct row* rows, uint64_t expected) {
  const int machine = crashcut_machine();
  enter(&shared->guard, repair);
  struct row* old = &rows[shared->in_use];
  drop_copy(old);
  struct row copy = read_row(old);
  assert(copy.counts[machine] == expected);
#ifdef MISTAKE_IN_PLACE
  struct row* new = old;
#else
  struct row* new = &rows[1 - shared->in_use];
#endif
  new->counts[machine] = copy.counts[machine] + 1;
  new->counts[1 - machine] = copy.counts[1 - machine];
  new->sum = copy.sum + 1;
#ifndef MISTAKE_LATE
  write_back(new);
#endif
  set_in_use(shared, (uint64_t)(new - rows));
#ifdef MISTAKE_LATE
  write_back(new);
#endif
  leave(&shared->guard);
}

int main(int argc, char** argv) {
  const uint64_t times = argc > 1 ? strtoul(argv[1], NULL, 10) : 2;
  struct shared* shared = the_shared();
  struct row* rows = the_rows();
  for (uint64_t n = 0; n < times; ++n) count(shared, rows, n);
  enter(&shared->guard, repair);
  struct row* last = &rows[shared->in_use];
  drop_copy(last);
  assert(read_row(last).counts[crashcut_machine()] == times);
  leave(&shared->guard);
  return 0;
}
