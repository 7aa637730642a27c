/* As pord-wr+wr-N-join-main, but a fifth thread does the gluing: it looks at the writers' flags in two rounds, and
 * gives up where one is not set after the second. A flag is set before its first look, between the two or after both:
 * 81 ways.
 * threads: --profile paper --sector 1 --block 4
 * outcomes: -,"" | -,aa | -,aa.. | -,aab. | -,aabb | -,aabbcc | -,aabbcc.. | -,aabbccd. | -,aabbccdd | glued,aabbccdd
 * executions: 81
 * recoveries: 11
 * paper-count: 2052
 */
#include "join.h"

static sem_t flags[4];

static void* write_and_say(void* number) {
  write_part(number);
  sem_post(&flags[(long)number]);
  return NULL;
}

static void* join(void* result) {
  int seen[4] = {0, 0, 0, 0}, count = 0;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 4; ++i) {
      if (!seen[i] && sem_trywait(&flags[i]) == 0) {
        seen[i] = 1;
        ++count;
      }
    }
  }
  if (count == 4) glue((int)(long)result);
  return NULL;
}

int main(void) {
  pthread_t joiner;
  int result = open_to("result", O_WRONLY | O_CREAT | O_TRUNC);
  crashcut_barrier();
  for (int i = 0; i < 4; ++i) sem_init(&flags[i], 0, 0);
  must(-pthread_create(&joiner, NULL, join, (void*)(long)result));
  run_threads(4, write_and_say);
  must(-pthread_join(joiner, NULL));
  return 0;
}

void crashcut_recover(void) { check_result(); }
