/* The litmus of machines that share memory: machine 0 stores, machine 1 waits for its end or failure and prints what it
 * finds. The argument is the row. */
#include <errno.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "crashcut.h"

struct memory {
  long x, y;
  char pad[48];
  long z;
  char pad_after[56];
  pthread_mutex_t mutex;
};

static struct memory* m;
static struct memory* memory(void) { return crashcut_cxl("memory", sizeof(struct memory)); }

void crashcut_setup(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&memory()->mutex, &attributes);
}

static void* store_x(void* unused) {
  m->x = 1;
  return unused;
}
static void* pass_x_on(void* unused) {
  m->z = m->x;
  _mm_clflush(&m->z);
  return unused;
}

static void act(const char* row) {
  if (strcmp(row, "one") == 0) {
    m->x = 1;
  } else if (strcmp(row, "line") == 0) {
    m->x = 1;
    m->y = 1;
  } else if (strcmp(row, "lines") == 0) {
    m->x = 1;
    m->z = 1;
  } else if (strcmp(row, "flushed") == 0) {
    m->x = 1;
    _mm_clflush(&m->x);
    _mm_sfence();
    m->z = 1;
    _mm_clflush(&m->z);
  } else if (strcmp(row, "half-flushed") == 0) {
    m->x = 1;
    m->z = 1;
    _mm_clflush(&m->z);
  } else if (strcmp(row, "optimised") == 0) {
    m->x = 1;
    _mm_clflushopt(&m->x);
    _mm_sfence();
    m->z = 1;
    _mm_clflush(&m->z);
  } else if (strcmp(row, "seven") == 0) {
    m->y = 1;
    m->x = 2;
    _mm_clflush(&m->x);
    m->y = 3;
    m->x = 4;
    m->y = 5;
    m->x = 6;
  } else if (strcmp(row, "before-x") == 0) {
    m->x = 1;
  } else if (strcmp(row, "before-y") == 0) {
    m->y = 1;
    m->x = 1;
  } else if (strcmp(row, "threads") == 0) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, store_x, NULL);
    pthread_create(&threads[1], NULL, pass_x_on, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
  } else if (strcmp(row, "lock") == 0) {
    pthread_mutex_lock(&m->mutex);
    m->x = 1;
    _mm_clflush(&m->x);
    m->z = 1;
    _mm_clflush(&m->z);
    pthread_mutex_unlock(&m->mutex);
  }
}

static void observe(const char* row) {
  const int is_before = strncmp(row, "before", 6) == 0;
  const long before = is_before ? m->x : 0;
  crashcut_wait_machine(0);
  if (strcmp(row, "lock") == 0) {
    const int has_died = pthread_mutex_lock(&m->mutex) == EOWNERDEAD;
    const long x = m->x, z = m->z;
    printf("%d%ld%ld", has_died, x, z);
  } else if (is_before) {
    printf("%ld%ld", before, strcmp(row, "before-x") == 0 ? m->x : m->y);
  } else if (strcmp(row, "one") == 0) {
    printf("%ld", m->x);
  } else if (strcmp(row, "line") == 0 || strcmp(row, "lines") == 0) {
    const long x = m->x, other = strcmp(row, "line") == 0 ? m->y : m->z;
    printf("%ld%ld", x, other);
  } else {
    const long first = strcmp(row, "seven") == 0 ? m->y : m->z, x = m->x;
    printf("%ld%ld", first, x);
  }
  fflush(stdout);
}

int main(int argc, char** argv) {
  const char* row = argc > 1 ? argv[1] : "one";
  m = memory();
  if (crashcut_machine() == 0) {
    act(row);
  } else {
    observe(row);
  }
  return 0;
}
