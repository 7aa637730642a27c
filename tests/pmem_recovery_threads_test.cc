// Recoveries of persistent memory that have threads: main() that runs again, and a crashcut_recover() that starts some.
#include <algorithm>

#include "tests/pmem_fixture.h"

namespace crashcut {
namespace {

// Two threads add to a log under a lock. There is no crashcut_recover(): main() runs again and looks first.
const char kLog[] = R"(#include <immintrin.h>
#include <pthread.h>
struct Log { long count; char pad[56]; struct { long value; char pad[56]; } entries[64]; };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct Log* the_log(void) { return crashcut_pmem("log", sizeof(struct Log)); }
static void* add(void* value) {
  struct Log* log = the_log();
  pthread_mutex_lock(&lock);
  log->entries[log->count].value = (long)value;
  if (FLUSHES) { _mm_clwb(&log->entries[log->count]); _mm_sfence(); }
  log->count++;
  _mm_clwb(&log->count);
  _mm_sfence();
  pthread_mutex_unlock(&lock);
  return NULL;
}
int main(void) {
  struct Log* log = the_log();
  long found = log->count;
  for (long i = 0; i < found; ++i) assert(log->entries[i].value != 0);
  pthread_t threads[2];
  for (long i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, add, (void*)(i + 1));
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  assert(log->count == found + 2);
  printf("%ld\n", found);
  return 0;
}
)";

// main() stores twice to each of three lines. The recovery reads them, by one thread each or one after the other.
const char kLines[] = R"(#include <pthread.h>
struct Line { long first, second; char pad[48]; };
static struct Line* lines(void) { return crashcut_pmem("lines", 3 * sizeof(struct Line)); }
int main(void) {
  for (int i = 0; i < 3; ++i) {
    lines()[i].first = 1;
    lines()[i].second = 1;
  }
  return 0;
}
static long found[3];
static void* look(void* number) {
  const struct Line* line = &lines()[(long)number];
  found[(long)number] = line->first + line->second;
  CHECK_FOUND
  return NULL;
}
void crashcut_recover(void) {
  pthread_t threads[3];
  for (long i = 0; i < 3; ++i) {
    if (THREADS) pthread_create(&threads[i], NULL, look, (void*)i);
    else look((void*)i);
  }
  for (int i = 0; THREADS && i < 3; ++i) pthread_join(threads[i], NULL);
  printf("%ld%ld%ld\n", found[0], found[1], found[2]);
}
)";

// A recovery as it says. main() stores one word.
std::string recovering(const std::string& recovery) {
  return "#include <immintrin.h>\n#include <pthread.h>\n#include <sched.h>\n#include <stdatomic.h>\n"
         "static long* words(void) { return crashcut_pmem(\"words\", 256); }\n"
         "int main(void) { words()[0] = 1; return 0; }\n" +
         recovery;
}

class PmemRecoveryThreadsTest : public PmemTest {
 protected:
  std::string logging(bool flushes) {
    return program("log.c", "#define FLUSHES " + std::to_string(flushes ? 1 : 0) + "\n" + kLog);
  }
  std::string looking(bool threads, const std::string& check = "") {
    return program(threads ? "threads.c" : "sequence.c", "#define CHECK_FOUND " + check + "\n#define THREADS " +
                                                             std::to_string(threads ? 1 : 0) + "\n" + kLines);
  }
};

TEST_F(PmemRecoveryThreadsTest, MainWithThreadsRunsAgain) {
  const Ran right = pmem({"--outcomes", logging(true)});
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_EQ(outcomes_of(right), (std::map<std::string, int>{{"0", 1}, {"1", 1}, {"2", 1}})) << right.out;
  EXPECT_TRUE(right.says("for one schedule of the threads, and one schedule of the threads of recoveries"))
      << right.last_line();
  const Ran wrong = pmem({logging(false)});
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out << wrong.err;
  EXPECT_TRUE(wrong.says("Assertion `log->entries[i].value != 0' failed")) << wrong.out;
  const Ran all = pmem({"--schedules", "all", logging(true)});
  EXPECT_EQ(all.exit_code, 0) << all.out << all.err;
  EXPECT_TRUE(all.says("for all schedules, and one schedule of the threads of recoveries")) << all.last_line();
}

// main() runs again after a second crash too, on what the first recovery's threads left.
TEST_F(PmemRecoveryThreadsTest, MainWithThreadsRunsAgainAfterTwoCrashes) {
  const Ran right = pmem({"--depth", "2", "--outcomes", logging(true)});
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  // After the first crash 0, 1 or 2 entries; each recovery adds two, of which a second crash leaves 0, 1 or 2.
  EXPECT_EQ(outcomes_of(right), (std::map<std::string, int>{{"0", 2}, {"1", 3}, {"2", 4}, {"3", 2}, {"4", 1}}))
      << right.out;
  EXPECT_EQ(pmem({"--depth", "2", logging(false)}).exit_code, 1);
}

TEST_F(PmemRecoveryThreadsTest, ThreadsThatReadLinesFindAllCombinations) {
  const Ran sequence = pmem({"--outcomes", looking(false)});
  const std::map<std::string, int> expected = outcomes_of(sequence);
  EXPECT_EQ(expected.size(), 27u) << sequence.out << sequence.err;
  for (const char* jobs : {"1", "2"}) {
    const Ran threads = pmem({"--jobs", jobs, "--outcomes", looking(true)});
    EXPECT_EQ(threads.exit_code, 0) << threads.out << threads.err;
    EXPECT_EQ(outcomes_of(threads), expected) << threads.out;
    EXPECT_TRUE(threads.says("all 1 execution and 27 recoveries, none failed")) << threads.last_line();
  }
}

// Long recoveries are forked at their choices, with all their threads.
TEST_F(PmemRecoveryThreadsTest, LongRecoveriesFindAllCombinations) {
  const Ran run = pmem({"--outcomes", looking(true, "for (volatile int i = 0; i < 200000; ++i) {}")});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_EQ(outcomes_of(run).size(), 27u) << run.out;
  EXPECT_TRUE(run.says("all 1 execution and 27 recoveries, none failed")) << run.last_line();
}

TEST_F(PmemRecoveryThreadsTest, ViolationsOfThreadsReplay) {
  const Ran run = pmem({looking(true, "assert(!(number == (void*)1 && found[1] == 1));")});
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  // Three fail, before the third line is read: 27 - 9 + 3.
  EXPECT_TRUE(run.says("1 execution and 21 recoveries: 1 crash")) << run.last_line();
  EXPECT_TRUE(run.says("thread 2: load of 8 bytes from lines+0x40")) << run.out;
  const Ran again = crashcut({"replay", token_of(run)});
  EXPECT_EQ(again.exit_code, 1) << again.out << again.err;
  EXPECT_TRUE(again.says("Assertion")) << again.out;
}

TEST_F(PmemRecoveryThreadsTest, EveryWayToFailIsTold) {
  const std::pair<const char*, const char*> ways[] = {
      {"exit(3)", "status 3"},
      {"abort()", "SIGABRT"},
      {"raise(SIGTERM)", "SIGTERM"},
      {"*(volatile int*)0 = 1", "SIGSEGV"},
      {"kill(getpid(), SIGKILL)", "SIGKILL"},
      {"pthread_mutex_unlock(&m)", "SIGABRT): unlocks a lock that another thread holds"},
  };
  for (const auto& [how, told] : ways) {
    SCOPED_TRACE(how);
    const Ran run = pmem({program("fails.c", recovering(R"(
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static void* fail(void* unused) {
  if (words()[0] != 0) )" + std::string(how) + R"(;
  return unused;
}
void crashcut_recover(void) {
  pthread_t t;
  pthread_mutex_lock(&m);
  pthread_create(&t, NULL, fail, NULL);
  pthread_join(t, NULL);
}
)"))});
    EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
    EXPECT_TRUE(run.says("1 violation in 1 execution and 2 recoveries: 1 crash")) << run.last_line();
    EXPECT_TRUE(run.says(told)) << run.out;
  }
}

TEST_F(PmemRecoveryThreadsTest, DeadlocksAreTold) {
  const Ran run = pmem({"--recovery-limit", "300", program("deadlock.c", recovering(R"(
static pthread_mutex_t locks[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_barrier_t both;
static void* take(void* first) {
  long i = (long)first;
  pthread_mutex_lock(&locks[i]);
  pthread_barrier_wait(&both);
  if (words()[0] != 0) pthread_mutex_lock(&locks[1 - i]);  /* each has the other's */
  return NULL;
}
void crashcut_recover(void) {
  pthread_t threads[2];
  pthread_barrier_init(&both, NULL, 2);
  for (long i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, take, (void*)i);
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
}
)"))});
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_TRUE(run.says("1 violation in 1 execution and 2 recoveries: 1 crash")) << run.last_line();
  EXPECT_TRUE(run.says("recovery never ends: none of its threads can go on: main (join, thread)")) << run.out;
  const std::string source = read_file(directory_ / "deadlock.c");
  const auto end = source.begin() + static_cast<std::ptrdiff_t>(source.find("/* each has the other's */"));
  const std::string place = "deadlock.c:" + std::to_string(1 + std::count(source.begin(), end, '\n'));
  EXPECT_TRUE(run.says("thread 1 (lock, mutex) at " + place + ", thread 2 (lock, mutex) at " + place)) << run.out;
}

// A loop that changes nothing is found at once. One that counts its rounds ends by its limit.
TEST_F(PmemRecoveryThreadsTest, LoopsWithoutAnEndAreTold) {
  const std::pair<const char*, const char*> loops[] = {{"", "recovery never ends"},
                                                       {"++rounds", "did not end within the limit of 2 seconds"}};
  for (const auto& [body, told] : loops) {
    const Ran run = pmem({"--recovery-limit", "2", program("loop.c", recovering(R"(
static volatile int stop;
static unsigned long rounds;
static void* loop(void* unused) {
  while (words()[0] != 0 && !stop) )" + std::string(body) + R"(;
  return unused;
}
void crashcut_recover(void) {
  pthread_t t;
  pthread_create(&t, NULL, loop, NULL);
  pthread_join(t, NULL);
}
)"))});
    EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
    EXPECT_TRUE(run.says(told)) << run.out;
  }
}

// They wait for each other by variables, plain and atomic, by calls, and by locks in persistent memory.
TEST_F(PmemRecoveryThreadsTest, ThreadsWaitForEachOther) {
  const Ran run = pmem({"--outcomes", program("waits.c", recovering(R"(
static volatile int plain;
static atomic_int started, answered;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int is_told;
static pthread_mutex_t* durable(void) { return (pthread_mutex_t*)(words() + 16); }
static void* answer(void* unused) {
  long rounds = 0;
  atomic_store(&started, 1);
  while (!plain) ++rounds;
  atomic_store(&answered, 1);
  pthread_mutex_lock(durable());
  words()[1] = words()[0] + (rounds > 0 ? 1 : 0);
  pthread_mutex_unlock(durable());
  pthread_mutex_lock(&m);
  is_told = 1;
  pthread_cond_signal(&c);
  pthread_mutex_unlock(&m);
  return unused;
}
void crashcut_recover(void) {
  pthread_t t;
  pthread_mutex_init(durable(), NULL);
  pthread_create(&t, NULL, answer, NULL);
  pthread_mutex_lock(durable());
  while (!atomic_load(&started)) {}
  plain = 1;
  while (!atomic_load(&answered)) {}
  pthread_mutex_unlock(durable());
  pthread_mutex_lock(&m);
  while (!is_told) pthread_cond_wait(&c, &m);
  pthread_mutex_unlock(&m);
  printf("%ld\n", words()[1]);
  pthread_detach(t);
}
)"))});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_EQ(outcomes_of(run), (std::map<std::string, int>{{"1", 1}, {"2", 1}})) << run.out;
}

// What threads of a recovery store is no longer in one order: a flush of one says nothing of the other's store.
TEST_F(PmemRecoveryThreadsTest, WhatTheirThreadsStoreMayBeCrashed) {
  const char* kStores = R"(
static void* store(void* line) {
  words()[8 * (long)line] = 1;
  _mm_clwb(&words()[8 * (long)line]);
  _mm_sfence();
  return NULL;
}
void crashcut_recover(void) {
  printf("%ld%ld\n", words()[8], words()[16]);
  if (words()[8] != 0 || words()[16] != 0) return;
  pthread_t threads[2];
  for (long i = 0; i < 2; ++i) {
    if (THREADS) pthread_create(&threads[i], NULL, store, (void*)(i + 1));
    else store((void*)(i + 1));
  }
  for (int i = 0; THREADS && i < 2; ++i) pthread_join(threads[i], NULL);
}
)";
  const Ran threads =
      pmem({"--depth", "2", "--outcomes", program("store.c", "#define THREADS 1\n" + recovering(kStores))});
  EXPECT_EQ(threads.exit_code, 0) << threads.out << threads.err;
  EXPECT_EQ(outcomes_of(threads), (std::map<std::string, int>{{"00", 2}, {"01", 1}, {"10", 1}, {"11", 1}}))
      << threads.out;
  const Ran sequence =
      pmem({"--depth", "2", "--outcomes", program("sequence.c", "#define THREADS 0\n" + recovering(kStores))});
  EXPECT_EQ(outcomes_of(sequence), (std::map<std::string, int>{{"00", 2}, {"10", 1}, {"11", 1}})) << sequence.out;
}

}  // namespace
}  // namespace crashcut
