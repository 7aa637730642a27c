/* Two threads that may deadlock, each with a file on disk that it removes once it has both locks: only where they met
 * can a crash leave both files. */
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "crashcut.h"

static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void work(int first, const char* name) {
  pthread_mutex_lock(&locks[first]);
  const int fd = open(name, O_CREAT | O_WRONLY, 0644);
  fsync(fd);
  close(fd);
  pthread_mutex_lock(&locks[1 - first]);
  unlink(name);
  pthread_mutex_unlock(&locks[1 - first]);
  pthread_mutex_unlock(&locks[first]);
}
static void* one(void* unused) { return work(0, "a"), unused; }
static void* other(void* unused) { return work(1, "b"), unused; }

int main(void) {
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, one, NULL);
  pthread_create(&threads[1], NULL, other, NULL);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  return 0;
}

void crashcut_recover(void) {
  const int has_a = access("a", F_OK) == 0, has_b = access("b", F_OK) == 0;
  printf("%d %d\n", has_a, has_b);
  assert(!has_a || !has_b);
}
