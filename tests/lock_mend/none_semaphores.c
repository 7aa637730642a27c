// Each waits for what the other does later.
#include <pthread.h>
#include <semaphore.h>

static sem_t one, other;

static void* run(void* arg) {
  (void)arg;
  sem_wait(&one);
  sem_post(&other);
  return NULL;
}

int main(void) {
  pthread_t thread;
  sem_init(&one, 0, 0);
  sem_init(&other, 0, 0);
  pthread_create(&thread, NULL, run, NULL);
  sem_wait(&other);
  sem_post(&one);
  return pthread_join(thread, NULL);
}
