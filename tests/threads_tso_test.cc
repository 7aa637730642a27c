// crashcut threads --memory tso: programs whose stores wait in store buffers (tests/threads/tso.c), and a lock that
// transactions elide (workloads/threads/elided_lock.c).
#include <gtest/gtest.h>

#include "tests/threads_command.h"

namespace crashcut {
namespace {

const std::string kProgram = std::string(CRASHCUT_THREAD_SOURCES) + "/tso.c ";
const std::string kElidedLock = std::string(CRASHCUT_THREAD_SOURCES) + "/../../workloads/threads/elided_lock.c ";

bool says(const Ran& ran, const std::string& words) { return ran.output.find(words) != std::string::npos; }

void expect_violation(const std::string& words, const std::string& assertion) {
  const Ran found = run("threads --memory tso " + words);
  EXPECT_EQ(found.code, 1) << found.output;
  EXPECT_TRUE(says(found, assertion)) << found.output;
  EXPECT_TRUE(says(found, "it waits in the store buffer")) << found.output;
  EXPECT_TRUE(says(found, "a store leaves the store buffer")) << found.output;
  // Every violation replays, from the token alone.
  const std::size_t token = found.output.rfind(" replay ");
  ASSERT_NE(token, std::string::npos) << found.output;
  const std::string words_of_token = found.output.substr(token + 8);
  const Ran again = run("replay --print " + words_of_token.substr(0, words_of_token.find_first_of("\n")));
  EXPECT_EQ(again.code, 1) << again.output;
  EXPECT_TRUE(says(again, assertion)) << again.output;
}

void expect_verified(const std::string& words, std::uint64_t executions) {
  const Ran ran = run("threads --memory tso " + words);
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(says(ran, "verified for all schedules: all " + std::to_string(executions) + " executions, none failed"))
      << ran.output;
}

TEST(ThreadsTso, StoreBufferingIsFoundAndAFenceMendsIt) {
  expect_violation(kProgram + "buffering", "saw_x || saw_y");
  expect_verified(kProgram + "buffering fence", 4);
}

// They are locked instructions, and are no round of a loop where they are repeated.
TEST(ThreadsTso, SequentiallyConsistentStores) {
  expect_verified(kProgram + "exchanged", 4);  // x and y are in one word
  expect_verified(kProgram + "often", 3);
}

TEST(ThreadsTso, AThreadFindsItsOwnStores) { expect_verified(kProgram + "own", 4); }

TEST(ThreadsTso, PetersonsLockNeedsAFence) {
  expect_violation(kProgram + "peterson", "inside == 1");
  expect_verified(kProgram + "peterson fence", 88);
}

TEST(ThreadsTso, AMessageBehindAFlagNeedsNone) { expect_verified(kProgram + "message", 3); }

TEST(ThreadsTso, LocksOfLockedInstructionsHold) {
  expect_verified(kProgram + "exchange", 6);
  expect_verified(kProgram + "compare", 4);
}

TEST(ThreadsTso, AnElidedLockWithoutAFenceLosesAnUpdate) {
  expect_violation(kElidedLock + "1 1", "shared.counter ==");
  expect_verified(kElidedLock + "1 1 fence", 8);
}

TEST(ThreadsTso, WhatTheSearchWithoutReductionFinds) {
  const Ran ran = run("threads --memory tso --reduction none " + kProgram + "buffering fence");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_TRUE(says(ran, "verified for all schedules")) << ran.output;
}

TEST(ThreadsTso, ProgramsThatAreNotInstrumentedAreRefused) {
  const Ran ran = run("threads --memory tso " + program("philosophers 2 none"));
  EXPECT_EQ(ran.code, 2) << ran.output;
  EXPECT_TRUE(says(ran, "compile")) << ran.output;
  EXPECT_TRUE(says(ran, "crashcut cc --pmem")) << ran.output;
}

// Without store buffers, threads of a program of the plugin are not seen to meet: it must not be told as verified.
TEST(ThreadsTso, ProgramsOfThePluginAreRefusedWithoutIt) {
  const std::string made = ::testing::TempDir() + "threads_tso_test." + std::to_string(getpid());
  const Ran compiled = run("cc --pmem -g -pthread " + kProgram + "-o " + made);
  ASSERT_EQ(compiled.code, 0) << compiled.output;
  const Ran refused = run("threads " + made + " buffering");
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_TRUE(says(refused, "--memory tso")) << refused.output;
  EXPECT_EQ(run("threads --memory tso " + made + " buffering").code, 1);
  unlink(made.c_str());
}

}  // namespace
}  // namespace crashcut
