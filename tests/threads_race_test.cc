// A data race whose execution then fails in another way: both are named, the race first.
#include <algorithm>

#include "tests/threads_command.h"

namespace crashcut {
namespace {

struct Row {
  const char* words;
  const char* kind;
  const char* text;
};
constexpr Row kRows[] = {
    {"race_then-gcc locks_twice", "deadlock", "deadlock"},
    {"race_then-gcc abort", "signal", "died by SIGABRT"},
    {"race_then-gcc exit", "exit", "ended the process with exit code 3"},
};

bool has_kind(const json& report, const std::string& text) {
  return std::any_of(report["violations"].begin(), report["violations"].end(),
                     [&](const json& kind) { return kind["text"].get<std::string>().find(text) != std::string::npos; });
}

void expect_replayed(const Ran& ran, const Row& row) {
  EXPECT_EQ(ran.code, 1) << row.words << ran.output;
  const std::size_t race = ran.output.find("data race between"), failure = ran.output.find(row.text);
  EXPECT_NE(race, std::string::npos) << ran.output;
  EXPECT_NE(failure, std::string::npos) << ran.output;
  EXPECT_LT(race, failure) << ran.output;
}

class RaceThen : public ::testing::TestWithParam<Row> {};

// In the first execution that has the race.
TEST_P(RaceThen, TextJsonAndReplayNameBoth) {
  const json r = report("", GetParam().words, 1);
  EXPECT_EQ(r["violation"]["kind"], "data race") << r["violation"];
  EXPECT_FALSE(r["violation"]["race"].is_null());
  EXPECT_EQ(r["violation"]["then"]["kind"], GetParam().kind) << r["violation"];
  EXPECT_TRUE(r["violation"]["replays"]);
  EXPECT_EQ(r["violations"].size(), 2u) << r["violations"];
  expect_replayed(run_replay(r), GetParam());
  expect_replayed(run_replay(r, "--print "), GetParam());
  expect_replayed(run("threads " + program(GetParam().words)), GetParam());
}

// Every execution with the race fails: it is a kind of its own nevertheless.
TEST_P(RaceThen, AllNamesBoth) {
  const json r = report("--all", GetParam().words, 1);
  EXPECT_TRUE(has_kind(r, "data race between")) << r["violations"];
  EXPECT_TRUE(has_kind(r, GetParam().text)) << r["violations"];
  // The tokens of both.
  for (const json& kind : r["violations"]) {
    const Ran ran = run("replay " + kind["token"].get<std::string>());
    EXPECT_EQ(ran.code, 1) << ran.output;
    EXPECT_NE(ran.output.find(kind["text"].get<std::string>()), std::string::npos) << kind << ran.output;
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, RaceThen, ::testing::ValuesIn(kRows),
                         [](const auto& info) { return test_name(info.param.words); });

// A race alone.
TEST(RaceThenNothing, OnlyTheRaceIsNamed) {
  const json r = report("", "race_then-gcc", 1);
  EXPECT_EQ(r["violation"]["kind"], "data race");
  EXPECT_TRUE(r["violation"]["then"].is_null());
  EXPECT_EQ(r["violations"].size(), 1u);
}

}  // namespace
}  // namespace crashcut
