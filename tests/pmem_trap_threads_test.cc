// crashcut pmem --trap: programs with threads that were compiled without instrumentation.
#include <set>

#include "tests/pmem_fixture.h"

namespace crashcut {
namespace {

using Outcomes = std::map<std::string, int>;

// Three threads that each add to two counters, one after the other, in a critical section. FLUSH follows the first.
const std::string kCounters = R"(
#include <immintrin.h>
#include <pthread.h>
#include <stdatomic.h>
static volatile long* counters(void) { return crashcut_pmem("counters", 128); }
static atomic_int spin, turns;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void add(void) {
  counters()[0]++;
  FLUSH;
  atomic_fetch_add(&turns, 1);
  counters()[8]++;
  _mm_clflush((void*)&counters()[8]);
}
static void* work(void* uses_mutex) {
  if (uses_mutex) {
    pthread_mutex_lock(&mutex);
    add();
    pthread_mutex_unlock(&mutex);
    return NULL;
  }
  while (atomic_exchange(&spin, 1)) {
  }
  add();
  atomic_store_explicit(&spin, 0, memory_order_release); /* a plain instruction */
  return NULL;
}
int main(int argc, char** argv) {
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, work, argc > 1 ? argv : NULL);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  return 0;
}
void crashcut_recover(void) {
  const long first = counters()[0], second = counters()[8];
  printf("%ld %ld\n", first, second);
  assert(second <= first && first <= second + 1);
}
)";

class PmemTrapThreadsTest : public PmemTest {
 protected:
  Ran trap(std::vector<std::string> words) { return pmem(with({"--trap"}, words)); }
  std::string counters(const std::string& flush) {
    return program("counters.c", "#define FLUSH " + flush + "\n" + kCounters);
  }
};

TEST_F(PmemTrapThreadsTest, CriticalSectionsAreVerifiedUnderSeveralSchedules) {
  const std::string right = counters("_mm_clflush((void*)counters())");
  const Outcomes expected = {{"0 0", 1}, {"1 0", 1}, {"1 1", 1}, {"2 1", 1}, {"2 2", 1}, {"3 2", 1}, {"3 3", 1}};
  for (const char* seed : {"0", "1", "2", "5"}) {
    for (const bool uses_mutex : {false, true}) {
      std::vector<std::string> words = {"--outcomes", "--seed", seed, right};
      if (uses_mutex) words.emplace_back("mutex");
      const Ran run = trap(words);
      EXPECT_EQ(run.exit_code, 0) << seed << run.out << run.err;
      EXPECT_EQ(outcomes_of(run), expected) << seed << run.out;
      EXPECT_TRUE(run.says("verified for trapped code, for one schedule of the threads")) << run.last_line();
    }
  }
}

TEST_F(PmemTrapThreadsTest, AMissingFlushIsFoundAndReplays) {
  const Ran wrong = trap({counters("(void)0")});
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out << wrong.err;
  EXPECT_TRUE(wrong.says("store of 8 bytes to counters+0x40 at counters.c:")) << wrong.out;
  EXPECT_TRUE(wrong.says("mend: A flush of counters+0x0 after counters.c:")) << wrong.out;
  const Ran again = crashcut(with(replay_of(wrong), {"--print"}));
  EXPECT_EQ(again.exit_code, 1) << again.out << again.err;
  EXPECT_TRUE(again.says("Assertion `second <= first")) << again.out;
}

// Neither a step nor a call tells that a thread waits.
TEST_F(PmemTrapThreadsTest, ThreadsWaitByPlainLoads) {
  const std::string source = program("waits.c", R"(
#include <immintrin.h>
#include <pthread.h>
static volatile long* words(void) { return crashcut_pmem("words", 192); }
static volatile int is_ready;
static void* first(void* unused) {
  words()[0] = 1;
  _mm_clflush((void*)words());
  is_ready = 1;
  return unused;
}
static void* second(void* unused) {
  while (!is_ready) {
  }
  words()[8] = 1;
  return unused;
}
static void* third(void* unused) {
  while (words()[8] == 0) {
  }
  words()[16] = 1;
  return unused;
}
int main(void) {
  void* (*const functions[])(void*) = {third, second, first};
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, functions[i], NULL);
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  return 0;
}
void crashcut_recover(void) { printf("%ld%ld%ld\n", words()[0], words()[8], words()[16]); }
)");
  for (const char* seed : {"0", "1"}) {
    const Ran run = trap({"--outcomes", "--seed", seed, source});
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    EXPECT_EQ(outcomes_of(run), (Outcomes{{"000", 1}, {"100", 1}, {"101", 1}, {"110", 1}, {"111", 1}})) << run.out;
  }
}

TEST_F(PmemTrapThreadsTest, MainWithThreadsRunsAgain) {
  const auto source = [&](const std::string& flush) {
    return program("again.c", "#define FLUSH " + flush + R"(
#include <immintrin.h>
#include <pthread.h>
static volatile long* words(void) { return crashcut_pmem("words", 256); }
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void* append(void* unused) {
  pthread_mutex_lock(&mutex);
  const long count = words()[0];
  words()[8 + count] = count + 1;
  FLUSH;
  words()[0] = count + 1;
  _mm_clflush((void*)words());
  pthread_mutex_unlock(&mutex);
  return unused;
}
int main(void) {
  const long count = words()[0];
  printf("%ld\n", count);
  for (long i = 0; i < count; ++i) assert(words()[8 + i] == i + 1);
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, append, NULL);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  return 0;
}
)");
  };
  const Ran right = trap({"--outcomes", source("_mm_clflush((void*)&words()[8 + count])")});
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_EQ(outcomes_of(right), (Outcomes{{"0", 1}, {"1", 1}, {"2", 1}})) << right.out;
  EXPECT_TRUE(right.says("and one schedule of the threads of recoveries")) << right.last_line();
  const Ran wrong = trap({source("(void)0")});
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out << wrong.err;
  EXPECT_TRUE(wrong.says("Assertion `words()[8 + i] == i + 1' failed")) << wrong.out;
}

TEST_F(PmemTrapThreadsTest, FailuresOfThreadsAreTold) {
  const std::string source = program("fails.c", R"(
#include <pthread.h>
#include <string.h>
static volatile long* words(void) { return crashcut_pmem("words", 64); }
static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static void* work(void* how) {
  words()[0] = 1;
  if (strcmp(how, "null") == 0) return (void*)*(volatile long*)words()[1];
  pthread_mutex_lock(&a);
  pthread_mutex_lock(&a);
  return NULL;
}
int main(int argc, char** argv) {
  pthread_t thread;
  pthread_create(&thread, NULL, work, argv[argc - 1]);
  pthread_join(thread, NULL);
  return 0;
}
void crashcut_recover(void) {}
)");
  const Ran null = trap({source, "null"});
  EXPECT_EQ(null.exit_code, 1) << null.out << null.err;
  EXPECT_TRUE(null.says("thread 1 died by SIGSEGV")) << null.out;
  const Ran deadlock = trap({source, "deadlock"});
  EXPECT_EQ(deadlock.exit_code, 1) << deadlock.out << deadlock.err;
  EXPECT_TRUE(deadlock.says("deadlock")) << deadlock.out;
}

// Two threads do a row of the table each. Words: two of one line, two of another.
const std::string kRows = R"(
#include <immintrin.h>
#include <pthread.h>
#include <string.h>
static const char* row;
static volatile long* words(void) { return crashcut_pmem("words", 128); }
#define ROW(name) if (strcmp(row, name) == 0)
#define FLUSH(at) __asm__ volatile("clflushopt %0" ::"m"(*(at)) : "memory")
static void* first(void* unused) {
  volatile long *a = words(), *b = a + 8;
  ROW("apart") a[0] = 1;
  ROW("crosswise") a[0] = 1, b[0] = 1;
  ROW("read") a[0] = 1;
  ROW("read and fenced") a[0] = 1;
  ROW("fence of another") {
    a[0] = 1;
    FLUSH(a);
    b[0] = 1;
    _mm_sfence();
  }
  return unused;
}
static void* second(void* unused) {
  volatile long *a = words(), *b = a + 8;
  ROW("apart") b[0] = 1, _mm_clflush((void*)b);
  ROW("crosswise") b[1] = 1, a[1] = 1;
  ROW("read") b[0] = a[0];
  ROW("read and fenced") if (a[0] == 1) {
    FLUSH(a);
    _mm_sfence();
    b[0] = 1;
  }
  ROW("fence of another") if (b[0] == 1) b[1] = 1;
  return unused;
}
int main(int argc, char** argv) {
  pthread_t thread;
  row = argv[argc - 1];
  pthread_create(&thread, NULL, first, NULL);
  second(NULL);
  pthread_join(thread, NULL);
  return 0;
}
void crashcut_recover(void) {
  volatile long* w = words();
  printf("%ld%ld %ld%ld\n", w[0], w[1], w[8], w[9]);
}
)";

std::set<std::string> names_of(const Outcomes& outcomes) {
  std::set<std::string> names;
  for (const auto& [name, count] : outcomes) names.insert(name);
  return names;
}

TEST_F(PmemTrapThreadsTest, AllOrdersOfWhatIsSeenHaveExactlyTheOutcomes) {
  std::set<std::string> all_but_one;
  for (int i = 0; i < 16; ++i) {
    const auto bit = [i](int at) { return std::to_string(i >> at & 1); };
    if (i != 6) all_but_one.insert(bit(3) + bit(2) + " " + bit(1) + bit(0));
  }
  const std::pair<const char*, std::set<std::string>> kExpected[] = {
      {"apart", {"00 00", "00 10", "10 00", "10 10"}},
      {"crosswise", all_but_one},
      {"read", {"00 00", "00 10", "10 00", "10 10"}},
      {"read and fenced", {"00 00", "10 00", "10 10"}},
      // What the second thread does may come before the fence.
      {"fence of another", {"00 00", "00 10", "00 11", "10 00", "10 10", "10 11"}},
  };
  const std::string source = program("rows.c", kRows);
  for (const auto& [row, expected] : kExpected) {
    const Ran run = trap({"--outcomes", "--schedules", "all", source, row});
    EXPECT_EQ(run.exit_code, 3) << row << run.out << run.err;
    EXPECT_EQ(names_of(outcomes_of(run)), expected) << row << run.out;
    EXPECT_TRUE(run.says("bounded (unseen_atomics)")) << run.last_line();
    EXPECT_TRUE(
        run.says("every order of the calls, locked instructions, fences, and accesses to persistent memory was tried"))
        << run.last_line();
  }
}

TEST_F(PmemTrapThreadsTest, SchedulesFindWhatOneDoesNot) {
  const std::string source = program("race.c", R"(
#include <immintrin.h>
#include <pthread.h>
static volatile long* words(void) { return crashcut_pmem("words", 192); }
static void* enter(void* own) {
  volatile long *gate = words(), *mine = own;
  if (*gate != 0) return NULL;
  *mine = 1;
  *gate = 1;
  _mm_clflush((void*)gate);
  return NULL;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, enter, (void*)&words()[8]);
  enter((void*)&words()[16]);
  pthread_join(thread, NULL);
  return 0;
}
void crashcut_recover(void) { assert(words()[8] + words()[16] < 2); }
)");
  EXPECT_EQ(trap({source}).exit_code, 0);
  for (const char* schedules : {"all", "random:100"}) {
    const Ran run = trap({"--schedules", schedules, source});
    EXPECT_EQ(run.exit_code, 1) << schedules << run.out << run.err;
    EXPECT_TRUE(run.says("Assertion `words()[8] + words()[16] < 2' failed")) << run.out;
    const Ran again = crashcut(with(replay_of(run), {"--print"}));
    EXPECT_EQ(again.exit_code, 1) << again.out << again.err;
    EXPECT_TRUE(again.says("Assertion `words()[8] + words()[16] < 2' failed")) << again.out;
  }
}

// Threads that wait by plain loads, for locks, and in libc come to their ends under each schedule.
TEST_F(PmemTrapThreadsTest, RandomSchedulesOfCriticalSections) {
  const std::string right = counters("_mm_clflush((void*)counters())");
  for (const bool uses_mutex : {false, true}) {
    std::vector<std::string> words = {"--outcomes", "--schedules", "random:5", right};
    if (uses_mutex) words.emplace_back("mutex");
    const Ran run = trap(words);
    EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
    EXPECT_TRUE(run.says("bounded (max_executions)")) << run.last_line();
    EXPECT_EQ(names_of(outcomes_of(run)), (std::set<std::string>{"0 0", "1 0", "1 1", "2 1", "2 2", "3 2", "3 3"}))
        << run.out;
  }
  const Ran wrong = trap({"--schedules", "random:5", counters("(void)0"), "mutex"});
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out << wrong.err;
}

// No crash tears a word of them, and they persist in any order.
TEST_F(PmemTrapThreadsTest, MaskedStoresOfThreadsAreMadeOfWords) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "the processor has no AVX2";
  const Ran run = trap({"--outcomes", program("masked.c", R"(
#include <immintrin.h>
#include <pthread.h>
static void* words(void) { return crashcut_pmem("words", 64); }
__attribute__((target("avx2"))) static void* store(void* unused) {
  _mm256_maskstore_epi64(words(), _mm256_set_epi64x(-1, 0, -1, 0), _mm256_set1_epi8(1));
  return unused;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, store, NULL);
  pthread_join(thread, NULL);
  return 0;
}
void crashcut_recover(void) {
  volatile long* w = words();
  printf("%lx %lx %lx %lx\n", w[0], w[1], w[2], w[3]);
}
)")});
  const std::string one = "101010101010101";
  EXPECT_EQ(outcomes_of(run),
            (Outcomes{{"0 0 0 0", 1}, {"0 " + one + " 0 0", 1}, {"0 0 0 " + one, 1}, {"0 " + one + " 0 " + one, 1}}))
      << run.out << run.err;
}

TEST_F(PmemTrapThreadsTest, OneThreadHasOneSchedule) {
  const Ran run = trap({"--schedules", "all", program("alone.c", R"(
int main(void) { return *(volatile long*)crashcut_pmem("word", 8) = 1, 0; }
void crashcut_recover(void) {}
)")});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_TRUE(run.says("verified for trapped code, for all schedules")) << run.last_line();
}

}  // namespace
}  // namespace crashcut
