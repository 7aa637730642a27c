/* The litmus of memory that no hardware keeps coherent: x and y are one line of the memory "data", for which
 * --incoherent is given; z lies in coherent memory. Machine 0 stores, machine 1 observes and prints what it sees. The
 * argument is the row; tests/cxl_litmus_test.cc has the same rows for the model. */
#include <immintrin.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "crashcut.h"

struct data {
  volatile long x, y;
};

static struct data* data;
static volatile long* z;
static const char* row;

static int is(const char* name) { return strcmp(row, name) == 0; }

/* So that the next load sees what the device holds. */
static void invalidate(void) {
  _mm_clflush((void*)data);
  _mm_mfence();
}

static struct data* other_line(void) { return data + 64 / sizeof *data; }

static void act(void) {
  if (is("whole-line")) {
    data->x = 1;
    _mm_clflush((void*)data);
  } else if (is("two-lines")) {
    data->x = 1;
    other_line()->x = 1;
  } else if (is("fails")) {
    data->x = 1;
    data->y = 1;
    _mm_clflush((void*)data);
  } else if (is("locked")) {
    __sync_val_compare_and_swap(&data->x, 0, 1);
    invalidate();
    *z = 1;
  } else if (is("mutex")) {
    pthread_mutex_lock((pthread_mutex_t*)(data + 1));
  } else {
    data->x = 1;
    if (is("clwb-of-writer")) {
      _mm_clwb((void*)data);
      _mm_mfence();
    } else if (!is("unflushed")) {
      invalidate();
    }
    *z = 1;
  }
}

static void observe(void) {
  if (is("waits") || is("waits-stale") || is("fails")) {
    crashcut_wait_machine(0);
    if (!is("waits-stale")) invalidate();
    const long x = data->x;
    printf("%ld%ld", x, is("fails") ? data->y : 0);
    return;
  }
  if (is("two-lines")) {
    crashcut_wait_machine(0);
    const long x = data->x;
    printf("%ld%ld", x, other_line()->x);
    return;
  }
  if (is("whole-line")) {
    data->y = 1;
    _mm_clflush((void*)data);
    crashcut_wait_machine(0);
    invalidate();
    const long x = data->x;
    printf("%ld%ld", x, data->y);
    return;
  }
  const long seen = *z;
  if (is("locked")) {
    printf("%ld%ld", seen, __sync_val_compare_and_swap(&data->x, 0, 2));
    return;
  }
  if (is("clwb-of-reader")) {
    _mm_clwb((void*)data);
    _mm_mfence();
  } else if (!is("uninvalidated")) {
    invalidate();
  }
  printf("%ld%ld", seen, data->x);
}

int main(int argc, char** argv) {
  row = argc > 1 ? argv[1] : "flag";
  data = crashcut_cxl("data", 4096);
  z = crashcut_cxl("flag", 64);
  if (crashcut_machine() == 0) {
    act();
  } else {
    observe();
  }
  fflush(stdout);
  return 0;
}
