// A data race, and then another failure of the same execution: `race_then CASE`.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static int raced_for;
static const char* name = "";

static void fail(void) {
  if (strcmp(name, "abort") == 0) abort();
  if (strcmp(name, "exit") == 0) exit(3);
}

static void* one(void* x) {
  raced_for += 1;
  pthread_mutex_lock(&a);
  if (strcmp(name, "locks_twice") == 0) pthread_mutex_lock(&a);
  pthread_mutex_unlock(&a);
  return x;
}
static void* two(void* x) {
  raced_for += 2;
  pthread_mutex_lock(&b);
  pthread_mutex_unlock(&b);
  fail();
  return x;
}

int main(int argc, char** argv) {
  if (argc > 1) name = argv[1];
  pthread_t t, u;
  pthread_create(&t, NULL, one, NULL);
  pthread_create(&u, NULL, two, NULL);
  pthread_join(t, NULL);
  pthread_join(u, NULL);
  return 0;
}
