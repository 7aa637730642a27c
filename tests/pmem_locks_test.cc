// Locks in persistent memory, and recoveries that wait for one that nobody will release.
#include "tests/pmem_fixture.h"

namespace crashcut {
namespace {

using Outcomes = std::map<std::string, int>;

class PmemLocksTest : public PmemTest {
 protected:
  Ran run(const std::string& source, std::vector<std::string> options = {}) {
    return pmem(with(with({"--outcomes"}, options), {source}));
  }
};

// A lock guards two words. `recovery` is done before the lock is taken after the crash.
std::string pair_program(const std::string& type, const std::string& lock, const std::string& unlock,
                         const std::string& setup, const std::string& recovery) {
  return R"(#include <immintrin.h>
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>
struct Pair { )" +
         type + R"( lock; char pad[128 - sizeof()" + type + R"()]; long a; char pad2[56]; long b; };
static struct Pair* pair(void) { return crashcut_pmem("pair", sizeof(struct Pair)); }
int main(void) {
  struct Pair* p = pair();
  )" + setup +
         R"(
  crashcut_barrier();
  )" + lock +
         R"((&p->lock);
  p->a = 1;
  _mm_clflush(&p->a);
  p->b = 1;
  _mm_clflush(&p->b);
  )" + unlock +
         R"((&p->lock);
  return 0;
}
void crashcut_recover(void) {
  struct Pair* p = pair();
  )" + recovery +
         lock + R"((&p->lock);
  printf("%ld%ld\n", p->a, p->b);
  )" + unlock +
         R"((&p->lock);
}
)";
}

struct Kind {
  const char *type, *lock, *unlock, *setup, *again;
  const char* name;  // as the report has it
};
constexpr Kind kKinds[] = {
    {"pthread_mutex_t", "pthread_mutex_lock", "pthread_mutex_unlock", "", "pthread_mutex_init(&p->lock, NULL);",
     "mutex"},
    {"mtx_t", "mtx_lock", "mtx_unlock", "mtx_init(&p->lock, mtx_recursive);", "mtx_init(&p->lock, mtx_plain);",
     "mutex"},
    {"pthread_spinlock_t", "pthread_spin_lock", "pthread_spin_unlock", "pthread_spin_init(&p->lock, 0);",
     "pthread_spin_init(&p->lock, 0);", "spin lock"},
    {"pthread_rwlock_t", "pthread_rwlock_wrlock", "pthread_rwlock_unlock", "", "memset(&p->lock, 0, sizeof p->lock);",
     "reader-writer lock"},
    {"sem_t", "sem_wait", "sem_post", "sem_init(&p->lock, 0, 1);", "sem_init(&p->lock, 0, 1);", "semaphore"},
};

TEST_F(PmemLocksTest, ALockThatSurvivesItsOwnerHangsTheRecoveryAndIsNamed) {
  for (const Kind& kind : kKinds) {
    const Ran ran = run(program("pair.c", pair_program(kind.type, kind.lock, kind.unlock, kind.setup, "")));
    EXPECT_EQ(ran.exit_code, 1) << kind.type << ran.out << ran.err;
    EXPECT_TRUE(ran.says("recovery never ends: it waits at pair.c:")) << kind.type << ran.out;
    EXPECT_TRUE(
        ran.says(std::string("for the ") + kind.name + " pair+0x0 (as main() left it by a locked instruction at"))
        << kind.type << ran.out;
    EXPECT_TRUE(ran.says(": a lock whose owner is gone), and nobody is left who would release it")) << ran.out;
  }
}

TEST_F(PmemLocksTest, ALockThatIsMadeAnewWorksAfterEveryCrash) {
  for (const Kind& kind : kKinds) {
    const Ran ran = run(program("pair.c", pair_program(kind.type, kind.lock, kind.unlock, kind.setup, kind.again)));
    EXPECT_EQ(ran.exit_code, 0) << kind.type << ran.out << ran.err;
    EXPECT_EQ(outcomes_of(ran), (Outcomes{{"00", 1}, {"10", 1}, {"11", 1}})) << kind.type << ran.out;
  }
}

TEST_F(PmemLocksTest, TriesTimedLocksAndRecursionAnswerAsPosixHasIt) {
  const Ran ran = run(program("tries.c", R"(#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
struct Locks { pthread_mutex_t plain, recursive, checking; pthread_rwlock_t rw; sem_t sem; pthread_cond_t cond;
               pthread_barrier_t barrier; };
int main(void) {
  struct Locks* l = crashcut_pmem("locks", sizeof(struct Locks));
  struct timespec past = {0, 0};
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&l->recursive, &attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&l->checking, &attributes);
  assert(pthread_mutex_lock(&l->plain) == 0 && pthread_mutex_trylock(&l->plain) == EBUSY);
  assert(pthread_mutex_timedlock(&l->plain, &past) == ETIMEDOUT);
  assert(pthread_cond_timedwait(&l->cond, &l->plain, &past) == ETIMEDOUT);
  assert(pthread_mutex_unlock(&l->plain) == 0 && pthread_mutex_trylock(&l->plain) == 0);
  assert(pthread_mutex_lock(&l->recursive) == 0 && pthread_mutex_lock(&l->recursive) == 0);
  assert(pthread_mutex_unlock(&l->recursive) == 0 && pthread_mutex_unlock(&l->recursive) == 0);
  assert(pthread_mutex_unlock(&l->recursive) == EPERM);
  assert(pthread_mutex_lock(&l->checking) == 0 && pthread_mutex_lock(&l->checking) == EDEADLK);
  assert(pthread_rwlock_rdlock(&l->rw) == 0 && pthread_rwlock_tryrdlock(&l->rw) == 0);
  assert(pthread_rwlock_trywrlock(&l->rw) == EBUSY && pthread_rwlock_unlock(&l->rw) == 0);
  assert(pthread_rwlock_unlock(&l->rw) == 0 && pthread_rwlock_wrlock(&l->rw) == 0);
  assert(pthread_rwlock_tryrdlock(&l->rw) == EBUSY && pthread_rwlock_timedrdlock(&l->rw, &past) == ETIMEDOUT);
  assert(sem_init(&l->sem, 0, 2) == 0 && sem_wait(&l->sem) == 0 && sem_wait(&l->sem) == 0);
  assert(sem_trywait(&l->sem) == -1 && errno == EAGAIN && sem_post(&l->sem) == 0);
  assert(pthread_cond_signal(&l->cond) == 0 && pthread_cond_broadcast(&l->cond) == 0);
  assert(pthread_barrier_init(&l->barrier, NULL, 1) == 0);
  assert(pthread_barrier_wait(&l->barrier) == PTHREAD_BARRIER_SERIAL_THREAD);
  return 0;
}
void crashcut_recover(void) {}
)"));
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  const Ran stuck = run(program("self.c", R"(#include <pthread.h>
int main(void) {
  pthread_mutex_t* m = crashcut_pmem("m", sizeof *m);
  pthread_mutex_lock(m);
  pthread_mutex_lock(m);
  return 0;
}
void crashcut_recover(void) {}
)"));
  EXPECT_EQ(stuck.exit_code, 2) << stuck.out;
  EXPECT_TRUE(stuck.says("main() waits for the mutex at m+0x0 in persistent memory")) << stuck.err;
}

// Mutex, condition variable and what they guard are on the persistent heap, and so are the threads' handles.
constexpr const char* kThreads = R"(#include <immintrin.h>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>
struct Pair { std::mutex mutex; std::condition_variable turn; char pad[128 - 40 - 48]; long a; char pad2[56]; long b; };
static void add(Pair* p) {
  p->a++;
  _mm_clflush(&p->a);
  p->b++;
  _mm_clflush(&p->b);
}
int main() {
  Pair* p = new (std::align_val_t(64)) Pair();
  *crashcut_root("pair") = p;
  _mm_clflush(crashcut_root("pair"));
  crashcut_barrier();
  std::vector<std::thread> threads;
  threads.emplace_back([=] { std::lock_guard<std::mutex> lock(p->mutex); add(p); p->turn.notify_one(); });
  threads.emplace_back([=] {
    std::unique_lock<std::mutex> lock(p->mutex);
    while (p->a == 0) p->turn.wait(lock);
    add(p);
  });
  for (std::thread& thread : threads) thread.join();
  assert(p->a == 2 && p->b == 2);
}
extern "C" void crashcut_recover() {
  Pair* p = static_cast<Pair*>(*crashcut_root("pair"));
  new (&p->mutex) std::mutex;
  std::lock_guard<std::mutex> lock(p->mutex);
  printf("%ld%ld\n", p->a, p->b);
}
)";

TEST_F(PmemLocksTest, ThreadsShareLocksOfThePersistentHeapUnderAllSchedules) {
  const std::string source = program("pair.cpp", kThreads);
  for (const char* schedules : {"one", "random:5", "all"}) {
    const Ran ran = run(source, {"--malloc", "--schedules", schedules});
    EXPECT_NE(ran.exit_code, 1) << schedules << ran.out << ran.err;
    EXPECT_NE(ran.exit_code, 2) << schedules << ran.out << ran.err;
    std::string outcomes;
    for (const auto& [outcome, count] : outcomes_of(ran)) outcomes += outcome + " ";
    EXPECT_EQ(outcomes, "00 10 11 21 22 ") << schedules << ran.out;
  }
}

TEST_F(PmemLocksTest, ThreadsMarkWhatTheyPromise) {
  const Ran ran = run(program("marks.c", R"(#include <immintrin.h>
#include <pthread.h>
struct Words { long word[2][8]; };
static struct Words* words(void) { return crashcut_pmem("words", sizeof(struct Words)); }
static void* put(void* number) {
  long i = (long)number;
  words()->word[i][0] = 1;
  _mm_clflush(&words()->word[i][0]);
  crashcut_mark(i == 0 ? "first" : "second");
  return NULL;
}
int main(void) {
  pthread_t threads[2];
  for (long i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, put, (void*)i);
  for (long i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  return 0;
}
void crashcut_recover(void) {
  assert(!crashcut_reached("first") || words()->word[0][0] == 1);
  assert(!crashcut_reached("second") || words()->word[1][0] == 1);
}
)"),
                      {"--schedules", "all"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
}

TEST_F(PmemLocksTest, CodeWithoutInstrumentationIsRefusedWhereThreadsAreScheduledToo) {
  const Ran ran = run(program("write.c", R"(#include <pthread.h>
static void* nothing(void* p) { return p; }
int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, nothing, NULL);
  pthread_join(thread, NULL);
  snprintf(crashcut_pmem("text", 64), 64, "%d", 1);
  return 0;
}
void crashcut_recover(void) {}
)"));
  EXPECT_EQ(ran.exit_code, 2) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("touched persistent memory (text+0x0) in main() without instrumentation")) << ran.err;
}

// Without a lock of libc's: by registers, stack and memory.
std::string loop_program(const std::string& loop) {
  return R"(#include <sched.h>
#include <time.h>
static long* words(void) { return crashcut_pmem("words", 128); }
static long rounds;
int main(void) {
  words()[0] = 1;
  words()[1] = 1;
  return 0;
}
void crashcut_recover(void) {
  long* w = words();
  )" + loop +
         R"(
}
)";
}

TEST_F(PmemLocksTest, ALoopInWhichNothingChangesIsAHangAtOnceAndNoOtherIs) {
  const std::vector<std::string> patient = {"--recovery-limit", "60", "--time", "40"};
  for (const char* loop : {"while (w[0] != 0) {}", "while (w[0] != 0 && w[1] == w[1]) sched_yield();",
                           "for (int i = 0; w[i] != 0; i = 1 - i) {}"}) {
    const Ran ran = run(program("loop.c", loop_program(loop)), patient);
    EXPECT_EQ(ran.exit_code, 1) << loop << ran.out << ran.err;
    EXPECT_TRUE(ran.says("recovery never ends")) << loop << ran.out;
  }
  for (const char* loop :
       {"for (long i = 0; i < 300000 && w[0] != 0; ++i) {}", "while (w[0] != 0 && ++rounds < 300000) {}",
        "long end = clock() + CLOCKS_PER_SEC / 20; while (w[0] != 0 && clock() < end) {}",
        "unsigned long end = __builtin_ia32_rdtsc() + 200000000; "
        "while (w[0] != 0 && __builtin_ia32_rdtsc() < end) {}"}) {
    const Ran ran = run(program("loop.c", loop_program(loop)), patient);
    EXPECT_EQ(ran.exit_code, 0) << loop << ran.out << ran.err;
  }
}

TEST_F(PmemLocksTest, ClocksWriteToPersistentMemory) {
  const Ran ran = run(program("clock.c", R"(#include <sys/time.h>
#include <time.h>
int main(void) {
  struct timespec* now = crashcut_pmem("now", sizeof *now);
  struct timeval* day = crashcut_pmem("day", sizeof *day);
  assert(clock_gettime(CLOCK_REALTIME, now) == 0 && gettimeofday(day, NULL) == 0);
  assert(now->tv_sec > 1000 && day->tv_sec >= now->tv_sec);
  return 0;
}
void crashcut_recover(void) {}
)"));
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
}

TEST_F(PmemLocksTest, HashesOfTheStandardLibraryReadPersistentMemory) {
  const Ran ran = run(program("hash.cpp", R"(#include <functional>
#include <string_view>
int main() {
  char* text = static_cast<char*>(crashcut_pmem("text", 512));
  memset(text, 'a', 300);
  return 0;
}
extern "C" void crashcut_recover() {
  const char* text = static_cast<const char*>(crashcut_pmem("text", 512));
  if (crashcut_reached("never") || text[0] != 'a' || text[8] != 'a') return;
  const std::hash<std::string_view> hash;
  assert(hash(std::string_view(text, 16)) == hash("aaaaaaaaaaaaaaaa"));
}
)"));
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
}

}  // namespace
}  // namespace crashcut
