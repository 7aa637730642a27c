// crashcut pmem with threads, end to end: one schedule, random ones, all of them.
#include <gtest/gtest.h>

#include "tests/pmem_fixture.h"
#include "tests/pmem_machine.h"
#include "tests/pmem_random.h"
#include "tests/seeds.h"

namespace crashcut {
namespace {

using tests::PmemProgram;

class PmemThreadsTest : public PmemTest {
 protected:
  static std::string made(const std::string& name) { return std::string(CRASHCUT_PMEM_PROGRAMS) + "/" + name; }

  static std::vector<std::string> words_of(const PmemProgram& program, const std::string& schedules) {
    std::vector<std::string> words = {"--outcomes", "--jobs", "1", "--schedules", schedules, made("random")};
    tests::add_program(words, program);
    return words;
  }
  static std::set<std::string> keys_of(const std::map<std::string, int>& outcomes) {
    std::set<std::string> keys;
    for (const auto& [outcome, count] : outcomes) keys.insert(outcome);
    return keys;
  }

  // All schedules have exactly the machine's outcomes; one schedule and random ones have no others.
  void compare(const PmemProgram& program) {
    const tests::MachineResult machine = run_machine(program, tests::MachineKind::kPx86, 300'000);
    ASSERT_TRUE(machine.is_complete) << program.to_text();
    const std::set<std::string> expected = printed_outcomes(program, machine.outcomes);
    const Ran all = pmem(words_of(program, "all"));
    EXPECT_EQ(all.exit_code, 0) << program.to_text() << all.out << all.err;
    EXPECT_TRUE(all.says("verified for all schedules")) << all.out;
    EXPECT_EQ(keys_of(outcomes_of(all)), expected) << program.to_text() << all.out << all.err;
    for (const char* schedules : {"one", "random:3"}) {
      const Ran some = pmem(words_of(program, schedules));
      const std::set<std::string> found = keys_of(outcomes_of(some));
      EXPECT_FALSE(found.empty()) << some.out << some.err;
      EXPECT_TRUE(std::includes(expected.begin(), expected.end(), found.begin(), found.end()))
          << schedules << "\n"
          << program.to_text() << some.out;
    }
  }
};

struct Row {
  const char* layout;
  const char* program;
};

// The rows of several threads of px86.md, store buffering, and waits in ordinary memory.
TEST_F(PmemThreadsTest, LitmusHasTheOutcomesOfTheMachine) {
  for (const Row& row : {
           Row{"x y", "x=1 || wait x; clflushopt x; sfence; y=1"},
           Row{"x y", "x=1 || wait x; y=1"},
           Row{"x y", "x=1 || y=1; clflush y"},
           Row{"a,b c,d", "a=1; c=1 || d=1; b=1"},
           Row{"x y", "x=1; load y; x=r+10 || y=1; load x; y=r+10"},
           Row{"x y", "x=1; mfence; load y; x=r+10 || y=1; mfence; load x; y=r+10"},
           Row{"p q @x @y", "x=1; load y; p=r+10 || y=1; load x; q=r+10"},
           Row{"x y @f", "x=1; clflush x; f=1 || wait f; y=1"},
           Row{"x y @f", "x=1; clflushopt x; f=1 || wait f; y=1"},
           Row{"x y @f", "x=1; clflushopt x; xchg f,1 || wait f; y=1"},
           Row{"x y", "cas x,0,1; clflush x || cas x,0,2; y=1"},
       }) {
    SCOPED_TRACE(row.program);
    compare(tests::parse_pmem_program(row.layout, row.program));
  }
}

TEST_F(PmemThreadsTest, RandomProgramsOfTwoThreadsHaveTheOutcomesOfTheMachine) {
  tests::for_each_seed(60, [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    tests::PmemShape shape{.threads = 2, .ops_max = 3, .lines_max = 2, .dram_words_max = 1};
    shape.has_parts = shape.has_non_temporal = seed % 3 == 0;
    shape.is_communicating = seed % 2 == 0;
    PmemProgram program = random_pmem_program(random, shape);
    // Nobody may store what a wait is for.
    for (auto& ops : program.threads) {
      for (tests::PmemOp& op : ops) {
        if (op.kind == tests::PmemOp::kWait) op = {.kind = tests::PmemOp::kLoad, .address = op.address};
      }
    }
    SCOPED_TRACE("seed " + std::to_string(seed));
    const bool has_marks = program.marks > 0;  // crashcut_mark() waits until the store buffer is empty
    if (!has_marks && program.atomic_bytes == 8) compare(program);
    return !HasFailure();
  });
}

// Each order of the additions once: what a compare-exchange finds is all that tells executions apart.
TEST_F(PmemThreadsTest, LoopsOfCompareExchangesHaveTheLeastExecutions) {
  const std::string source = program("adding.c", R"(
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
static _Atomic long* number(void) { return crashcut_pmem("number", 8); }
static void* add(void* unused) {
  long found = atomic_load(number());
  while (!atomic_compare_exchange_strong(number(), &found, found + 1)) {
  }
  return unused;
}
int main(int argc, char** argv) {
  const int count = atoi(argv[argc - 1]);
  pthread_t threads[8];
  for (int i = 0; i < count; ++i) pthread_create(&threads[i], NULL, add, NULL);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
  return 0;
}
void crashcut_recover(void) { printf("%ld\n", *number()); }
)");
  const Ran two = pmem({"--schedules", "all", source, "2"});
  EXPECT_TRUE(two.says("verified for all schedules: all 4 executions and 12 recoveries")) << two.out << two.err;
  const Ran three = pmem({"--schedules", "all", "--outcomes", source, "3"});
  EXPECT_TRUE(three.says("verified for all schedules: all 48 executions and 192 recoveries")) << three.out << three.err;
  EXPECT_EQ(outcomes_of(three), (std::map<std::string, int>{{"0", 48}, {"1", 48}, {"2", 48}, {"3", 48}}));
}

// Stopped again and again, a search of schedules and crashes has in the end all that it has in one go.
TEST_F(PmemThreadsTest, AStoppedSearchGoesOn) {
  const PmemProgram program = tests::parse_pmem_program("x y z", "x=1; clflush x; y=1 || z=1; load x; y=r+10");
  const Ran whole = pmem(words_of(program, "all"));
  ASSERT_EQ(whole.exit_code, 0) << whole.out << whole.err;
  std::vector<std::string> words = {"--max-recoveries", "9", "--out", "kept"};
  for (const std::string& word : words_of(program, "all")) words.push_back(word);
  Ran run = pmem(words);
  int stops = 0;
  for (; run.exit_code == 3 && stops < 100; ++stops) {
    EXPECT_TRUE(run.says("pmem --resume kept")) << run.out;
    run = pmem({"--resume", "kept", "--outcomes", "--max-recoveries", std::to_string(20 + 10 * stops)});
  }
  EXPECT_GT(stops, 0);
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_EQ(keys_of(outcomes_of(run)), keys_of(outcomes_of(whole))) << run.out;
  EXPECT_FALSE(std::filesystem::exists(directory_ / "kept" / "rest"));
  EXPECT_EQ(crashcut({"threads", "--resume", "kept"}).exit_code, 2);
}

}  // namespace
}  // namespace crashcut
