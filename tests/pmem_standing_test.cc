// Recoveries of persistent memory that begin where a server stands, in the middle of a recovery: all records are those
// of recoveries that each begin anew in a forked image. And recoveries that never end are found without waiting.
#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include "recovery/inprocess/session.h"
#include "recovery/result/path.h"
#include "tests/pmem_fixture.h"
#include "tests/pmem_random.h"
#include "tests/seeds.h"

namespace crashcut {
namespace {

using inprocess::FreshImages;
using inprocess::Recovery;
using inprocess::Session;

std::string made(const std::string& name) { return std::string(CRASHCUT_PMEM_PROGRAMS) + "/" + name; }

using Row =
    std::tuple<std::vector<std::uint32_t>, inprocess::RecordKind, std::string, std::string, int, int, std::uint32_t>;

struct Way {
  FreshImages images = FreshImages::kRestored;
  std::chrono::nanoseconds stand_after{0};  // at each choice
  std::uint32_t jobs = 1;
  std::uint64_t seed = 0;
  std::uint64_t recoveries_max = 0;
};

// How many servers stood at a choice since the last question.
std::uint64_t g_stood = 0;
std::uint64_t take_stood() { return std::exchange(g_stood, 0); }

// In pieces of at most recoveries_max.
std::vector<Row> explore(const std::vector<std::string>& words, const Way& way) {
  Session::Setup setup;
  setup.program = words[0];
  setup.arguments.assign(words.begin() + 1, words.end());
  setup.runtime = CRASHCUT_RUNTIME;
  setup.memory = pmem::MemoryModel{};
  setup.jobs = way.jobs;
  setup.seed = way.seed;
  setup.fresh_images = way.images;
  setup.stand_after = way.stand_after;
  setup.recovery_limit = std::chrono::seconds(120);
  std::vector<Row> rows;
  auto session = Session::start(setup);
  EXPECT_TRUE(session) << session.error().sentence;
  if (!session) return rows;
  std::vector<persist::Path> left;
  do {
    const auto explored = (*session)->explore(
        left,
        [&](const Recovery& r) {
          rows.emplace_back(r.path, r.kind, std::string(r.output), std::string(r.errors), r.exit_code, r.signal,
                            r.events_in);
        },
        way.recoveries_max);
    EXPECT_TRUE(explored) << explored.error().sentence;
    EXPECT_FALSE((*session)->is_lost());
    left = (*session)->left();
  } while (!left.empty() && !testing::Test::HasFailure());
  g_stood += (*session)->stood_count();
  std::sort(rows.begin(), rows.end());
  return rows;
}

void expect_same(const std::vector<Row>& rows, const std::vector<Row>& expected) {
  ASSERT_EQ(rows.size(), expected.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSERT_TRUE(rows[i] == expected[i]) << result::path_text(std::get<0>(rows[i])) << "\n"
                                        << std::get<2>(rows[i]) << "instead of "
                                        << result::path_text(std::get<0>(expected[i])) << "\n"
                                        << std::get<2>(expected[i]);
  }
}

TEST(PmemStanding, FindsTheSameInRandomPrograms) {
  std::uint64_t with_choices = 0, stood = 0;  // programs
  tests::for_each_seed(300, [&](std::uint64_t seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    std::vector<std::string> words = {made("random")};
    tests::add_program(words, tests::random_pmem_program(random, {.threads = 1, .ops_max = 8}));
    const std::vector<Row> expected = explore(words, {.images = FreshImages::kForked});
    EXPECT_EQ(take_stood(), 0u);
    expect_same(explore(words, {.jobs = 1 + static_cast<std::uint32_t>(seed % 2), .seed = seed % 3}), expected);
    with_choices += expected.size() > 1 ? 1 : 0;
    stood += take_stood() > 0 ? 1 : 0;
    return !testing::Test::HasFailure();
  });
  // A recovery stands only if half of what is left lies below a choice that an earlier one came to: in many of these
  // small programs nothing is left there.
  EXPECT_GT(with_choices, 0u);
  EXPECT_GE(stood * 3, with_choices);
}

TEST(PmemStanding, FindsTheSameInPieces) {
  // Two stores to each of three lines.
  const std::vector<std::string> words = {
      made("random"), "3",           "0,0,1,1,0,0", "0,8,1,2,0,0", "0,24,1,3,0,0", "0,32,1,4,0,0",
      "0,48,1,5,0,0", "0,56,1,6,0,0"};
  const std::vector<Row> expected = explore(words, {.images = FreshImages::kForked});
  EXPECT_EQ(expected.size(), 27u);
  EXPECT_EQ(take_stood(), 0u);
  for (const std::uint64_t most : {1, 3, 10}) {
    for (const std::uint32_t jobs : {1, 2})
      expect_same(explore(words, {.jobs = jobs, .recoveries_max = most}), expected);
  }
  EXPECT_GT(take_stood(), 0u);
  expect_same(explore(words, {}), expected);
  // One before each location's choice but the last ones'.
  EXPECT_GE(take_stood(), 1u + 3u);
  expect_same(explore(words, {.stand_after = std::chrono::microseconds(50)}), expected);
}

class PmemStuckTest : public PmemTest {
 protected:
  Ran wait(const std::string& how) {
    setenv("WAIT", how.c_str(), 1);
    const Ran run = pmem({"--recovery-limit", "300", made("stuck")});
    unsetenv("WAIT");
    return run;
  }
};

TEST_F(PmemStuckTest, RecoveriesThatNeverEndAreNotWaitedFor) {
  for (const char* how : {"spins", "yields", "sleeps", "locks", "walks", "stores the same"}) {
    SCOPED_TRACE(how);
    const auto begin = std::chrono::steady_clock::now();
    const Ran run = wait(how);
    EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
    EXPECT_TRUE(run.says("recovery never ends")) << run.out;
    EXPECT_TRUE(run.says("1 of 2 recoveries failed: 1 hang")) << run.last_line();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(100));
  }
  EXPECT_TRUE(wait("spins").says("it loads words")) << "what it waits for is named";
}

TEST_F(PmemStuckTest, RecoveriesThatEndAreWaitedFor) {
  for (const char* how : {"counts in a register", "counts in memory", "counts in persistent memory",
                          "waits for the clock", "waits for the processor's clock", "waits for a signal"}) {
    SCOPED_TRACE(how);
    const Ran run = wait(how);
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    EXPECT_TRUE(run.says("all 2 recoveries, none failed")) << run.last_line();
  }
}

// Whether a loop ends that reads the clock is not known: its limit ends it.
TEST_F(PmemStuckTest, LoopsThatReadTheClockEndByTheirLimit) {
  setenv("WAIT", "keeps time in vain", 1);
  const Ran run = pmem({"--recovery-limit", "1", made("stuck")});
  unsetenv("WAIT");
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_TRUE(run.says("recovery did not end within the limit of 1 second")) << run.out;
}

}  // namespace
}  // namespace crashcut
