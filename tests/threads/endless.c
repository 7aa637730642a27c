// Programs with threads that loop for good: `endless CASE [COUNT COUNT]`.
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static sem_t ping, pong;
static long done[4], count, ready, finished;

typedef void* (*Routine)(void*);
static void run_two(Routine one, Routine two) {
  pthread_t t, u;
  pthread_create(&t, NULL, one, NULL);
  pthread_create(&u, NULL, two, NULL);
  pthread_join(t, NULL);
  pthread_join(u, NULL);
}
static void run_detached(Routine routine) {
  pthread_t t;
  pthread_create(&t, NULL, routine, NULL);
  pthread_detach(t);
}

// Two locks, in one order or in both.
static void both(pthread_mutex_t* first, pthread_mutex_t* second, long* counter) {
  pthread_mutex_lock(first);
  pthread_mutex_lock(second);
  ++*counter;
  pthread_mutex_unlock(second);
  pthread_mutex_unlock(first);
}
static void* a_then_b(void* x) {
  for (;;) both(&a, &b, &done[0]);
  return x;
}
static void* b_then_a(void* x) {
  for (;;) both(&b, &a, &done[1]);
  return x;
}

// The same, and nothing in between.
static void* idle_a_then_b(void* x) {
  for (;;) {
    pthread_mutex_lock(&a);
    pthread_mutex_lock(&b);
    pthread_mutex_unlock(&b);
    pthread_mutex_unlock(&a);
  }
  return x;
}
static void* idle_b_then_a(void* x) {
  for (;;) {
    pthread_mutex_lock(&b);
    pthread_mutex_lock(&a);
    pthread_mutex_unlock(&a);
    pthread_mutex_unlock(&b);
  }
  return x;
}

// Readers and writers in the order of their tickets; a writer forgets to call the next one.
static long next_ticket, served, readers, writers;
static void* reads(void* x) {
  for (;;) {
    pthread_mutex_lock(&a);
    const long ticket = next_ticket++;
    while (writers > 0 || ticket != served) pthread_cond_wait(&changed, &a);
    ++readers;
    ++served;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&a);
    pthread_mutex_lock(&a);
    --readers;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&a);
  }
  return x;
}
static void* writes(void* x) {
  for (;;) {
    pthread_mutex_lock(&a);
    const long ticket = next_ticket++;
    while (readers > 0 || writers > 0 || ticket != served) pthread_cond_wait(&changed, &a);
    ++writers;
    pthread_mutex_unlock(&a);
    pthread_mutex_lock(&a);
    --writers;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&a);
  }
  return x;
}

// Several readers and writers in the order in which they came. All who came are counted, and of these all who wait. A
// writer does not let the next one in.
static struct { long came, wait; } queue_readers, queue_writers;
static void wait_in_queue(long* waiting) {
  ++*waiting;
  pthread_cond_wait(&changed, &a);
  --*waiting;
}
static void leave_queue(long* came) {
  pthread_mutex_unlock(&a);
  pthread_mutex_lock(&a);
  --*came;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&a);
}
static void* reads_in_queue(void* x) {
  for (;;) {
    pthread_mutex_lock(&a);
    const long ticket = next_ticket++;
    ++queue_readers.came;
    while (queue_writers.came > 0 || ticket != served) wait_in_queue(&queue_readers.wait);
    ++served;
    leave_queue(&queue_readers.came);
  }
  return x;
}
static void* writes_in_queue(void* x) {
  for (;;) {
    pthread_mutex_lock(&a);
    const long ticket = next_ticket++;
    ++queue_writers.came;
    while (queue_readers.came > queue_readers.wait || queue_writers.came - queue_writers.wait != 1 || ticket != served)
      wait_in_queue(&queue_writers.wait);
    leave_queue(&queue_writers.came);
  }
  return x;
}

// A consumer that does not look again when it wakes up.
static void* produces(void* x) {
  for (;;) {
    pthread_mutex_lock(&a);
    ++count;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&a);
  }
  return x;
}
static void* consumes(void* x) {
  for (;;) {
    pthread_mutex_lock(&a);
    if (count == 0) pthread_cond_wait(&changed, &a);
    assert(count > 0);
    --count;
    pthread_mutex_unlock(&a);
  }
  return x;
}

// The same, and it lets go of the lock before it takes something.
static void* consumes_later(void* x) {
  for (;;) {
    pthread_mutex_lock(&a);
    if (count == 0) pthread_cond_wait(&changed, &a);
    pthread_mutex_unlock(&a);
    pthread_mutex_lock(&a);
    if (count <= 0) raise(SIGUSR2);
    --count;
    pthread_mutex_unlock(&a);
    ++done[0];
  }
  return x;
}

// The one that loops may come before the other has made things ready.
static void* loops_when_ready(void* x) {
  pthread_mutex_lock(&a);
  assert(ready);
  pthread_mutex_unlock(&a);
  for (;;) {
    pthread_mutex_lock(&a);
    ++count;
    pthread_mutex_unlock(&a);
  }
  return x;
}
static void* makes_ready(void* x) {
  pthread_mutex_lock(&a);
  ready = 1;
  pthread_mutex_unlock(&a);
  return loops_when_ready(x);
}

// Polls, and counts how often, until the other has done its work, which takes some time.
static void* polls(void* x) {
  for (;;) {
    pthread_mutex_lock(&a);
    const long is = finished;
    pthread_mutex_unlock(&a);
    if (is) return x;
    ++count;
  }
}
static void* works(void* x) {
  for (int i = 0; i < 300; ++i) {
    pthread_mutex_lock(&b);
    ++done[0];
    pthread_mutex_unlock(&b);
  }
  pthread_mutex_lock(&a);
  finished = 1;
  pthread_mutex_unlock(&a);
  return x;
}

// Two that take turns for good, and one beside them.
static void* pings(void* x) {
  for (;; ++done[0]) {
    sem_wait(&ping);
    sem_post(&pong);
  }
  return x;
}
static void* pongs(void* x) {
  for (;; ++done[1]) {
    sem_wait(&pong);
    sem_post(&ping);
  }
  return x;
}
static void* fails(void* x) {
  pthread_mutex_lock(&a);
  assert(!"reached");
  return x;
}

static void* beats(void* x) {
  for (;; ++count) usleep(1000);
  return x;
}
static void* adds_up(void* x) {
  for (int i = 0; i < 2; ++i) {
    pthread_mutex_lock(&a);
    ++done[0];
    pthread_mutex_unlock(&a);
  }
  return x;
}
static void* serves(void* x) {
  pthread_mutex_lock(&a);
  for (;;) {
    while (count == 0) pthread_cond_wait(&changed, &a);
    --count;
    ++done[0];
  }
  return x;
}

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "";
  pthread_t t;
  sem_init(&ping, 0, 1);
  sem_init(&pong, 0, 0);
  if (strcmp(name, "both_orders") == 0) {
    run_two(a_then_b, b_then_a);
  } else if (strcmp(name, "idle_both_orders") == 0) {
    run_two(idle_a_then_b, idle_b_then_a);
  } else if (strcmp(name, "one_order") == 0) {
    run_two(a_then_b, a_then_b);
  } else if (strcmp(name, "tickets") == 0) {
    run_two(reads, writes);
  } else if (strcmp(name, "queue") == 0 && argc == 4) {
    pthread_t threads[8];
    const int reading = atoi(argv[2]), writing = atoi(argv[3]);
    if (reading < 0 || writing < 0 || reading + writing > 8) return 2;
    for (int i = 0; i < reading + writing; ++i)
      pthread_create(&threads[i], NULL, i < reading ? reads_in_queue : writes_in_queue, NULL);
    for (int i = 0; i < reading + writing; ++i) pthread_join(threads[i], NULL);
  } else if (strcmp(name, "if_not_while_later") == 0) {
    run_two(produces, consumes_later);
  } else if (strcmp(name, "if_not_while") == 0) {
    run_two(produces, consumes);
  } else if (strcmp(name, "early") == 0) {
    run_two(makes_ready, loops_when_ready);
  } else if (strcmp(name, "after_polling") == 0) {
    run_two(polls, works);
    assert(!"reached");
  } else if (strcmp(name, "third") == 0) {
    run_detached(pings);
    run_detached(pongs);
    pthread_create(&t, NULL, fails, NULL);
    pthread_join(t, NULL);
  } else if (strcmp(name, "background") == 0) {
    run_detached(a_then_b);
    pthread_create(&t, NULL, adds_up, NULL);
    pthread_join(t, NULL);
  } else if (strcmp(name, "beats") == 0) {
    run_two(beats, adds_up);
  } else if (strcmp(name, "serves") == 0) {
    run_detached(serves);
    pthread_mutex_lock(&a);
    count = 2;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&a);
  } else {
    return 2;
  }
  return 0;
}
