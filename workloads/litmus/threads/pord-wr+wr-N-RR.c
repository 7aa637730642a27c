/* Four writers take turns, four rounds: each seeks to the end of the one file and writes 2 bytes there. What survives
 * is a prefix of the 16 writes, in order. Turns are passed on by semaphores.
 * threads: --profile paper --sector 1 --block 2
 * outcome-count: 17
 * executions: 1
 * recoveries: 17
 * paper-count: 17
 */
#include "threads.h"

enum { kWriters = 4, kRounds = 4 };
static sem_t turns[kWriters];
static int file;

static void* work(void* argument) {
  long number = (long)argument;
  char text[3] = {(char)('a' + number), (char)('a' + number), 0};
  for (int round = 0; round < kRounds; ++round) {
    sem_wait(&turns[number]);
    must(lseek(file, 0, SEEK_END));
    write_text(file, text);
    sem_post(&turns[(number + 1) % kWriters]);
  }
  return NULL;
}

int main(void) {
  file = open_to("file", O_WRONLY | O_CREAT);
  crashcut_barrier();
  for (int i = 0; i < kWriters; ++i) sem_init(&turns[i], 0, i == 0);
  run_threads(kWriters, work);
  return 0;
}

void crashcut_recover(void) {
  char text[TEXT_MOST + 1];
  read_text("file", text);
  for (int i = 0; text[i]; ++i) assert(text[i] == 'a' + i / 2 % kWriters);
  show("%s", text);
}
