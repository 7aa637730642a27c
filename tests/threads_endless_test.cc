// crashcut threads on programs that do not come to an end (scheduler/deepening.h).
#include "tests/threads_command.h"

namespace crashcut {
namespace {

json found(const std::string& options, const std::string& words) {
  const json r = report(options, words, 1);
  EXPECT_EQ(r["verdict"], "violation") << words;
  EXPECT_TRUE(r["violation"]["replays"]) << words;
  EXPECT_EQ(run_replay(r).code, 1) << words;
  return r["violation"];
}

// No thread took more steps than a bug of so many needs; found without an option.
TEST(Endless, WhatTakesFewStepsIsFound) {
  const json both = found("", "endless both_orders");
  EXPECT_EQ(both["kind"], "deadlock");
  EXPECT_LT(both["steps"].size(), 30u);
  const json tickets = found("", "endless tickets");
  EXPECT_EQ(tickets["kind"], "deadlock");
  EXPECT_LT(tickets["steps"].size(), 60u);
  const json early = found("", "endless early");
  EXPECT_EQ(early["kind"], "assertion");
  EXPECT_LT(early["steps"].size(), 30u);
  const json awake = found("--spurious 1", "endless if_not_while");
  EXPECT_EQ(awake["kind"], "assertion");
  EXPECT_LT(awake["steps"].size(), 60u);
}

// Threads that wait for each other in a queue that nobody moves on, some of each kind.
TEST(Endless, DeadlocksOfQueuesAreFound) {
  for (const char* words : {"endless queue 1 1", "endless queue 2 1", "endless queue 1 2", "endless queue 2 2"}) {
    const json r = report("", words, 1);
    EXPECT_EQ(r["violation"]["kind"], "deadlock") << words;
    EXPECT_TRUE(r["violation"]["replays"]) << words;
    EXPECT_LT(r["violation"]["steps"].size(), 100u) << words;
    EXPECT_LT(r["counts"]["executions"], 1000u) << words;
  }
}

// Only a wake-up without a signal breaks it. Where none is tried, that is said.
TEST(Endless, SpuriousWakeUpsAreTriedOrNamed) {
  const json r = report("--spurious 1", "endless if_not_while_later", 1);
  EXPECT_EQ(r["violation"]["kind"], "signal");
  EXPECT_LT(r["violation"]["steps"].size(), 60u);
  EXPECT_LT(r["counts"]["executions"], 1000u);
  const Ran without = run("threads --max-executions 300 " + program("endless if_not_while_later"));
  EXPECT_EQ(without.code, 3) << without.output;
  EXPECT_NE(without.output.find("--spurious 1 tries more"), std::string::npos) << without.output;
}

// Threads that go round and write nothing are a livelock, but a deadlock says more.
TEST(Endless, ADeadlockSaysMoreThanALivelock) {
  EXPECT_EQ(found("", "endless idle_both_orders")["kind"], "deadlock");
  const json kinds = report("", "endless idle_both_orders", 1)["violations"];
  EXPECT_EQ(kinds.size(), 2u) << kinds;
}

// Two that take turns for good keep no third from going on; nor does one that polls keep others from coming to the end.
TEST(Endless, SchedulesAreFair) {
  EXPECT_EQ(found("", "endless third")["kind"], "assertion");
  EXPECT_EQ(found("--max-executions 100", "endless after_polling")["kind"], "assertion");
}

TEST(Endless, WithoutAFindingItSaysHowDeepItLooked) {
  for (const char* words : {"endless one_order", "endless background", "endless beats"}) {
    const json r = report("--max-executions 600", words, 3);
    EXPECT_EQ(r["verdict"], "bounded") << words;
    EXPECT_EQ(r["execution"]["may_not_end"], true) << words;
    EXPECT_GE(r["execution"]["whole_depth"], 8) << words;
    EXPECT_LE(r["counts"]["executions"], 600) << words;
  }
  const Ran ran = run("threads --max-executions 600 " + program("endless one_order"));
  EXPECT_EQ(ran.code, 3);
  EXPECT_NE(ran.output.find("the program may not come to an end"), std::string::npos) << ran.output;
  EXPECT_NE(ran.output.find("every schedule in which no thread takes more than"), std::string::npos) << ran.output;
}

// What is tried does not depend on how many run.
TEST(Endless, IsTheSameForOneJobAndForTwo) {
  const json one = report("--jobs 1 --max-executions 500", "endless one_order", 3),
             two = report("--jobs 2 --max-executions 500", "endless one_order", 3);
  for (const char* count : {"executions", "steps"}) EXPECT_EQ(one["counts"][count], two["counts"][count]);
  EXPECT_EQ(one["execution"]["whole_depth"], two["execution"]["whole_depth"]);
}

TEST(Endless, GoesOnWhereItWasStopped) {
  const json first = report("--max-executions 500", "endless one_order", 3);
  const std::string resume = first["resume"];
  const std::string file = ::testing::TempDir() + "endless." + std::to_string(getpid()) + ".json";
  EXPECT_EQ(run("threads --json " + file + " " + resume.substr(resume.find("--resume"))).code, 3);
  std::ifstream in(file);
  const json second = json::parse(in, nullptr, false);
  EXPECT_EQ(second["counts"]["executions"], 1000);
  EXPECT_GE(second["execution"]["whole_depth"], first["execution"]["whole_depth"]);
}

// A bound on the steps of a thread says what it left.
TEST(Endless, ABoundOnStepsSaysWhatItLeaves) {
  const Ran ran = run("threads --steps 12 " + program("endless one_order"));
  EXPECT_EQ(ran.code, 3);
  EXPECT_NE(ran.output.find("every schedule was tried in which no thread takes more than 12 steps"), std::string::npos)
      << ran.output;
  EXPECT_EQ(report("--steps 12", "endless one_order", 3)["execution"]["may_not_end"], false);
}

// A server that waits for work when main has ended is no loop.
TEST(Endless, AServerThatWaitsForWorkIsNone) {
  const json r = report("", "endless serves", 0);
  EXPECT_EQ(r["verdict"], "verified");
  EXPECT_EQ(r["execution"]["may_not_end"], false);
}

}  // namespace
}  // namespace crashcut
