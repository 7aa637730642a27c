/* Main reads 12 bytes in batches of 4 and hands each to a worker; all three make (and empty) one shared result and
 * write their batch to it. No result, an empty one, or one of 39 mixtures: a batch overwrites another from the start
 * of the block, as far as it has got.
 * threads: --profile paper --sector 1 --block 4
 * outcome-count: 41
 * executions: 324
 * recoveries: 927
 * paper-count: 12888
 */
#include "threads.h"

enum { kWorkers = 3 };
static char batches[kWorkers][5];
static sem_t is_ready[kWorkers];

static void* work(void* number) {
  sem_wait(&is_ready[(long)number]);
  int fd = open_to("result", O_WRONLY | O_CREAT | O_TRUNC);
  write_text(fd, batches[(long)number]);
  must(close(fd));
  return NULL;
}

int main(void) {
  pthread_t threads[kWorkers];
  put("input", "aaaabbbbcccc");
  crashcut_barrier();
  for (long i = 0; i < kWorkers; ++i) {
    sem_init(&is_ready[i], 0, 0);
    must(-pthread_create(&threads[i], NULL, work, (void*)i));
  }
  int fd = open_to("input", O_RDONLY);
  for (int i = 0; i < kWorkers; ++i) {
    if (must(read(fd, batches[i], 4)) != 4) abort();
    sem_post(&is_ready[i]);
  }
  for (int i = 0; i < kWorkers; ++i) must(-pthread_join(threads[i], NULL));
  return 0;
}

void crashcut_recover(void) { show_text("result"); }
