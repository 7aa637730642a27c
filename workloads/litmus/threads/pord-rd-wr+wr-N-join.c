/* Main reads 8 bytes in batches of 2 and hands each to a worker, which writes it to a file of its own; main waits for
 * them and glues the files together. When it has said so, the result is whole.
 * threads: --profile paper --sector 1 --block 4
 * outcomes: -,"" | -,aa | -,aa.. | -,aab. | -,aabb | -,aabbcc | -,aabbcc.. | -,aabbccd. | -,aabbccdd | glued,aabbccdd
 * executions: 1
 * recoveries: 10
 * paper-count: 216
 */
#include "join.h"

static char batches[4][3];
static sem_t is_ready[4];

static void* work(void* number) {
  sem_wait(&is_ready[(long)number]);
  put(kParts[(long)number], batches[(long)number]);
  return NULL;
}

int main(void) {
  pthread_t threads[4];
  put("input", "aabbccdd");
  int result = open_to("result", O_WRONLY | O_CREAT | O_TRUNC);
  crashcut_barrier();
  for (long i = 0; i < 4; ++i) {
    sem_init(&is_ready[i], 0, 0);
    must(-pthread_create(&threads[i], NULL, work, (void*)i));
  }
  int fd = open_to("input", O_RDONLY);
  for (int i = 0; i < 4; ++i) {
    if (must(read(fd, batches[i], 2)) != 2) abort();
    sem_post(&is_ready[i]);
  }
  for (int i = 0; i < 4; ++i) must(-pthread_join(threads[i], NULL));
  glue(result);
  return 0;
}

void crashcut_recover(void) { check_result(); }
