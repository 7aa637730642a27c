/* Does the operations of its arguments, "kind,word,halves,value,expected,is_loaded" as tests/cxl_program.h has them,
 * and prints what each thread saw. "@1" begins the operations of a thread of machine 1. The accesses of instrumented
 * code are written by hand. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/pmem/by_hand.h"

enum { kLines = 3, kThreads = 4, kSeenBytes = 512 };
enum Kind {
  kStore,
  kStoreBoth,
  kNonTemporal,
  kFill,
  kLoad,
  kXchg,
  kCas,
  kMfence,
  kSfence,
  kClflush,
  kClflushopt,
  kClwb,
  kLock,
  kUnlock,
  kWaitMachine,
  kJoin,
  kEnd
};

struct thread {
  char** words;
  pthread_t id;
  char seen[kSeenBytes];
};
static struct thread threads[kThreads];
static int thread_count;

static __thread unsigned char loaded;
static __thread sigjmp_buf access_fails;

/* Each line is a region. */
static unsigned char* at(int word) {
  static const char* const kNames[kLines] = {"line0", "line1", "line2"};
  if (word / 2 >= kLines) abort();
  return (unsigned char*)crashcut_cxl(kNames[word / 2], 64) + word % 2 * 8;
}
static pthread_mutex_t* mutex(void) { return crashcut_cxl("mutex", sizeof(pthread_mutex_t)); }

void crashcut_setup(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(mutex(), &attributes);
}

static void on_bus_error(int signal) {
  (void)signal;
  siglongjmp(access_fails, 1);
}

static void note(struct thread* self, const char* what) {
  if (strlen(self->seen) + strlen(what) + 2 > kSeenBytes) abort();
  strcat(strcat(self->seen, what), " ");
}
static void note_value(struct thread* self, const unsigned char* value) {
  char text[16];
  snprintf(text, sizeof text, "%d,%d", value[0], value[4]);
  note(self, text);
  loaded = value[0];
}

/* A load of a word, or a locked instruction. */
static void look(struct thread* self, const int* op) {
  unsigned char value[8], old[8];
  memset(value, op[3], 8);
  switch (op[0]) {
    case kXchg:
      __crashcut_rmw(__CRASHCUT_XCHG, at(op[1]), value, old, 8, __ATOMIC_SEQ_CST);
      break;
    case kCas:
      memset(old, op[4], 8);
      __crashcut_cmpxchg(at(op[1]), old, value, 8, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
      break;
    default:
      __crashcut_load(at(op[1]), old, 8);
      break;
  }
  note_value(self, old);
}

static void store(const int* op) {
  unsigned char data[64];
  memset(data, op[5] ? loaded + op[3] : op[3], sizeof data);
  switch (op[0]) {
    case kStoreBoth:
      return __crashcut_store(at(op[1] / 2 * 2), data, 16);
    case kNonTemporal:
      return __crashcut_store_nt(at(op[1]), data, 8, 0);
    case kFill:
      return __crashcut_store_nt(at(op[1] / 2 * 2), data, 64, 1);
    default:
      return __crashcut_store(at(op[1]) + (op[2] == 2 ? 4 : 0), data, op[2] == 3 ? 8 : 4);
  }
}

static void lock(struct thread* self) {
  const int error = pthread_mutex_lock(mutex());
  if (error == EOWNERDEAD) pthread_mutex_consistent(mutex());
  note(self, error == EOWNERDEAD ? "died" : "locked");
}

/* An access that raises SIGBUS does nothing. */
static void execute(struct thread* self, const int* op) {
  if (sigsetjmp(access_fails, 1) != 0) return note(self, "P");
  switch (op[0]) {
    case kLoad:
    case kXchg:
    case kCas:
      return look(self, op);
    case kMfence:
      return __crashcut_mfence();
    case kSfence:
      return __crashcut_sfence();
    case kClflush:
      return __crashcut_clflush(at(op[1]));
    case kClflushopt:
      return __crashcut_clflushopt(at(op[1]));
    case kClwb:
      return __crashcut_clwb(at(op[1]));
    case kLock:
      return lock(self);
    case kUnlock:
      pthread_mutex_unlock(mutex());
      return;
    case kWaitMachine:
      return note(self, crashcut_wait_machine(op[1]) == 0 ? "ended" : "failed");
    case kJoin:
      for (int i = 1; i < thread_count; ++i) pthread_join(threads[i].id, NULL);
      return;
    case kEnd:
      return;
    default:
      return store(op);
  }
}

static void* run(void* argument) {
  struct thread* self = argument;
  for (char** word = self->words; *word != NULL && **word != '@'; ++word) {
    int op[6];
    if (sscanf(*word, "%d,%d,%d,%d,%d,%d", op, op + 1, op + 2, op + 3, op + 4, op + 5) != 6) abort();
    execute(self, op);
  }
  return NULL;
}

int main(int argc, char** argv) {
  const int machine = crashcut_machine();
  signal(SIGBUS, on_bus_error);
  for (int i = 1; i < argc; ++i) {
    if (argv[i][0] != '@' || atoi(argv[i] + 1) != machine) continue;
    if (thread_count == kThreads) abort();
    threads[thread_count++].words = argv + i + 1;
  }
  for (int i = 1; i < thread_count; ++i) pthread_create(&threads[i].id, NULL, run, &threads[i]);
  run(&threads[0]);
  for (int i = 0; i < thread_count; ++i) printf("%s|", threads[i].seen);
  fflush(stdout);
  return 0;
}
