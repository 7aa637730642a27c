// crashcut threads on waits that end without a signal: by time, for nothing. What is found, under every reduction; and
// what is said to be left out.
#include <gtest/gtest.h>

#include "tests/threads_command.h"

namespace crashcut {
namespace {

class Reductions : public ::testing::TestWithParam<const char*> {};

// To stop waiting and to get the mutex are two steps.
TEST_P(Reductions, AWaitThatTimedOutMayGetItsMutexLate) {
  for (const char* word : {"late-flag", "wait_for", "other-waiter"}) {
    const json r = report(std::string("--reduction ") + GetParam(), std::string("waits ") + word, 1);
    EXPECT_EQ(r["violation"]["kind"], "signal") << word;
    EXPECT_TRUE(r["violation"]["replays"].get<bool>()) << word;
    const Ran replay = run_replay(r);
    EXPECT_EQ(replay.code, 1) << replay.output;
  }
}

TEST_P(Reductions, AWakeUpForNothingMayGetItsMutexLate) {
  const std::string reduction = std::string("--reduction ") + GetParam();
  EXPECT_EQ(report(reduction, "waits stirred-and-late", 0)["verdict"], "verified");
  const json r = report(reduction + " --spurious 1", "waits stirred-and-late", 1);
  EXPECT_EQ(r["violation"]["kind"], "signal");
  EXPECT_EQ(run_replay(r).code, 1);
}

TEST_P(Reductions, SpuriousWakeUps) {
  const std::string reduction = std::string("--reduction ") + GetParam();
  EXPECT_EQ(report(reduction, "waits if", 0)["verdict"], "verified");
  EXPECT_EQ(report(reduction + " --spurious 1", "waits if", 1)["violation"]["kind"], "assertion");
  // They do not hide that without them nobody would wake.
  EXPECT_EQ(report(reduction + " --spurious 3", "waits lost-signal", 1)["violation"]["kind"], "deadlock");
}

INSTANTIATE_TEST_SUITE_P(Threads, Reductions, ::testing::Values("none", "source", "optimal"),
                         [](const auto& info) { return std::string(info.param); });

void expect_bound(const char* words, const std::string& options, bool is_bounded) {
  const json r = report(options, words, is_bounded ? 3 : 0);
  EXPECT_EQ(r["verdict"], is_bounded ? "bounded" : "verified") << words << " " << options;
  EXPECT_EQ(r["bound_hit"], is_bounded ? json("timeouts") : json(nullptr)) << words << " " << options;
}

// Where outcomes are left out, since timed waits may run out only so often, it is said; and where none are, it is not.
TEST(Timeouts, WhatIsLeftOutIsSaid) {
  for (const int most : {0, 1, 2, 3, 4}) {
    const std::string timeouts = "--timeouts " + std::to_string(most);
    for (const char* words : {"waits never-waits", "waits never-waits-for-units", "waits alone"})
      expect_bound(words, timeouts, false);
    expect_bound("waits contended-lock", timeouts, most < 1);
    expect_bound("waits three-waits", timeouts, most < 3);
  }
  for (const char* words : {"mistakes timeout", "mistakes timedjoin"}) expect_bound(words, "--timeouts 0", true);
}

TEST(Waits, MistakesAreToldAsGlibcTellsThem) {
  for (const char* words : {"waits not-owner", "waits bad-times"})
    EXPECT_EQ(report("", words, 0)["verdict"], "verified") << words;
}

}  // namespace
}  // namespace crashcut
