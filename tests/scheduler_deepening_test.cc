// Scripted programs that do not come to an end.
#include <gtest/gtest.h>

#include <set>

#include "scheduler/deepening.h"
#include "scheduler/order.h"
#include "scheduler/primitives/variable.h"
#include "tests/known_programs.h"

namespace crashcut::tests {
namespace {

using namespace scheduler;

// So many steps are more than an execution can hold.
constexpr std::size_t kStepsMost = 2000;

// The same over and over again: an unlock's result is 0.
Script for_ever(Script script) {
  script.push_back(back_if(0, script.size()));
  return script;
}

ScriptProgram in_both_orders() {
  ScriptProgram p = with_forks(2);
  p.steps_most = kStepsMost;
  p.scripts = {for_ever({locks(0), locks(1), unlocks(1), unlocks(0)}),
               for_ever({locks(1), locks(0), unlocks(0), unlocks(1)})};
  return p;
}
ScriptProgram in_one_order() {
  ScriptProgram p = in_both_orders();
  p.scripts[1] = p.scripts[0];
  return p;
}

SearchResult deepen(ScriptProgram program, const SearchSetup& setup) { return search_deepening({&program}, setup); }

TEST(Deepening, ABugOfFewStepsIsFoundInAShallowLevel) {
  SearchSetup setup;
  std::size_t steps = 0;
  setup.on_execution = [&](const Execution& e) {
    if (e.ending == Ending::kStuck) steps = e.steps.size();
    return e.ending != Ending::kStuck;
  };
  const SearchResult result = deepen(in_both_orders(), setup);
  EXPECT_EQ(result.bound, Bound::kEnoughFound);
  EXPECT_GT(steps, 0u);
  EXPECT_LE(steps, 8u);
}

// A level is what a search with that bound is: each that is whole has the same classes.
TEST(Deepening, ALevelIsASearchWithThatBound) {
  std::set<std::string> classes;
  SearchSetup setup;
  setup.bounds.executions_most = 400;
  setup.on_execution = [&](const Execution& e) {
    return e.ending == Ending::kTooLong || (classes.insert(class_of(e.steps)), true);
  };
  const SearchResult result = deepen(in_one_order(), setup);
  EXPECT_TRUE(result.is_too_long);
  EXPECT_EQ(result.bound, Bound::kExecutions);
  EXPECT_EQ(result.executions, 400u);
  ASSERT_GE(result.depth_whole, 8u);
  EXPECT_GT(result.depth_tried, result.depth_whole);
  std::set<std::string> within;
  SearchSetup bounded;
  bounded.bounds.depth_most = result.depth_whole;
  bounded.on_execution = [&](const Execution& e) { return within.insert(class_of(e.steps)), true; };
  ScriptProgram program = in_one_order();
  EXPECT_EQ(search({&program}, bounded).bound, Bound::kSteps);
  for (const std::string& its_class : within) EXPECT_TRUE(classes.contains(its_class)) << its_class;
}

// Without a bound of the caller's it ends by itself, and says how deep it looked.
TEST(Deepening, EndsByItself) {
  ScriptProgram p = with_forks(2);
  p.steps_most = kStepsMost;
  p.scripts = {for_ever({locks(0), unlocks(0)}), for_ever({locks(1), unlocks(1)})};  // nothing to reverse
  const SearchResult result = deepen(p, {});
  EXPECT_EQ(result.bound, Bound::kSteps);
  // Deeper levels have executions that are too long.
  EXPECT_EQ(result.depth_whole, 768u);
  EXPECT_TRUE(result.rest.nodes.empty());
}

TEST(Deepening, GoesOnFromWhatIsLeft) {
  SearchSetup setup;
  setup.bounds.executions_most = 200;
  const SearchResult first = deepen(in_one_order(), setup);
  ASSERT_NE(first.rest.depth, 0u);
  setup.rest = &first.rest;
  const SearchResult second = deepen(in_one_order(), setup);
  EXPECT_FALSE(second.diverged);
  EXPECT_TRUE(second.is_too_long);
  EXPECT_GE(second.depth_whole, first.depth_whole);
}

// Workers do not change what is tried.
TEST(Deepening, IsTheSameForTwoWorkers) {
  SearchSetup setup;
  setup.bounds.executions_most = 500;
  ScriptProgram one = in_one_order(), two = one;
  const SearchResult alone = search_deepening({&one}, setup), together = search_deepening({&one, &two}, setup);
  EXPECT_EQ(alone.executions, together.executions);
  EXPECT_EQ(alone.transitions, together.transitions);
  EXPECT_EQ(alone.depth_whole, together.depth_whole);
}

// A program that ends is searched once, however long it is.
TEST(Deepening, WhatEndsIsSearchedOnce) {
  ScriptProgram p = writers(2);
  for (Script& script : p.scripts) {
    const Instruction write = script[0];
    script.assign(
        700, does(variable::access(object(PrimitiveId::kVariable, &script == &p.scripts[0] ? 1 : 2), variable::kRead)));
    script.push_back(write);
  }
  p.objects.push_back({object(PrimitiveId::kVariable, 1)});
  p.objects.push_back({object(PrimitiveId::kVariable, 2)});
  p.steps_most = kStepsMost;
  const SearchResult result = deepen(p, {});
  EXPECT_EQ(result.bound, Bound::kNone);
  EXPECT_EQ(result.executions, 2u);
  EXPECT_FALSE(result.is_too_long);
}

// A thread in a loop without an end keeps nobody from going on: two that take turns, and a third.
TEST(Deepening, TurnsAreTaken) {
  ScriptProgram p;
  const ObjectId ping = object(PrimitiveId::kSemaphore, 0), pong = object(PrimitiveId::kSemaphore, 1),
                 v = object(PrimitiveId::kVariable, 2);
  p.objects = {{ping, 1}, {pong, 0}, {v}};
  p.steps_most = kStepsMost;
  const auto wait = [](ObjectId s) { return does(semaphore::access(s, semaphore::kWait)); };
  const auto post = [](ObjectId s) { return does(semaphore::access(s, semaphore::kPost)); };
  p.scripts = {for_ever({wait(ping), post(pong)}),
               for_ever({wait(pong), post(ping)}),
               {does(variable::access(v, variable::kWrite, 1))}};
  RunRequest request;
  request.turn_most = 10;
  const Execution execution = p.run(request);
  EXPECT_EQ(execution.ending, Ending::kTooLong);
  const auto third = [](const Step& s) { return s.actor == ActorId{2}; };
  EXPECT_LT(std::find_if(execution.steps.begin(), execution.steps.end(), third) - execution.steps.begin(), 40);
  // Without turns it waits for good.
  request.turn_most = 0;
  const Execution unfair = p.run(request);
  EXPECT_TRUE(std::none_of(unfair.steps.begin(), unfair.steps.end(), third));
}

}  // namespace
}  // namespace crashcut::tests
