// Hand-written litmus for Log and Cut: the exact outcomes of a recovery that reads everything in a given order,
// and the exact number of recoveries. A weaker twin stands beside each ordered one.
#include <gtest/gtest.h>

#include <map>

#include "persist/cut_stack.h"
#include "persist/explore.h"

namespace crashcut::persist {
namespace {

using Values = std::vector<Value>;
using Outcomes = std::map<Values, int>;  // with the number of recoveries that gave each

// Every outcome of a recovery that reads `locations` in order.
Outcomes explore_reads(const Log& log, const std::vector<LocationId>& locations) {
  Outcomes outcomes;
  Cut cut(log);
  ChoiceTree tree;
  explore(tree, Budget{}, [&](ChoiceTree& t) {
    cut.reset();
    Values values;
    for (LocationId l : locations) values.push_back(cut.read(l, t));
    ++outcomes[values];
  });
  return outcomes;
}

class Litmus : public testing::Test {
 protected:
  Litmus() : x(log.add_location(0)), y(log.add_location(0)) {}

  EventId write(LocationId l, Value v, std::vector<EventId> after = {}) {
    return log.add_event(0, std::vector{Write{l, v}}, after);
  }
  EventId barrier(std::vector<EventId> after = {}, std::vector<Write> writes = {}) {
    return log.add_barrier(0, writes, after);
  }
  EventId fence(ScopeId scope, std::vector<EventId> after = {}, std::vector<Write> writes = {}) {
    return log.add_fence(0, writes, after, scope);
  }
  Outcomes outcomes(const std::vector<LocationId>& locations) {
    log.seal();
    return explore_reads(log, locations);
  }

  Log log;
  LocationId x, y;
};

TEST_F(Litmus, EmptyLogHasOneRecovery) { EXPECT_EQ(outcomes({x, y}), (Outcomes{{{0, 0}, 1}})); }

TEST_F(Litmus, ReadingNothingIsOneRecovery) {
  write(x, 1);
  EXPECT_EQ(outcomes({}), (Outcomes{{{}, 1}}));
}

TEST_F(Litmus, UnorderedPair) {
  write(x, 1);
  write(y, 1);
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{0, 0}, 1}, {{0, 1}, 1}, {{1, 0}, 1}, {{1, 1}, 1}}));
}

TEST_F(Litmus, OrderedPair) {
  const EventId a = write(x, 1);
  write(y, 1, {a});
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{0, 0}, 1}, {{1, 0}, 1}, {{1, 1}, 1}}));
}

// Reading the later write first decides the earlier one, and asks less.
TEST_F(Litmus, OrderedPairReadBackwards) {
  const EventId a = write(x, 1);
  write(y, 1, {a});
  EXPECT_EQ(outcomes({y, x}), (Outcomes{{{0, 0}, 1}, {{0, 1}, 1}, {{1, 1}, 1}}));
}

TEST_F(Litmus, AtomicPair) {
  log.add_event(0, std::vector{Write{x, 1}, Write{y, 1}}, {});
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{0, 0}, 1}, {{1, 1}, 1}}));
}

TEST_F(Litmus, Chain) {
  EventId last = write(x, 1);
  for (Value v = 2; v <= 4; ++v) last = write(x, v, {last});
  EXPECT_EQ(outcomes({x}), (Outcomes{{{0}, 1}, {{1}, 1}, {{2}, 1}, {{3}, 1}, {{4}, 1}}));
  EXPECT_TRUE(log.is_chain(x));
}

// The later write is in without the earlier: the location shows the c-order-latest, and nothing tells whether
// the earlier one persisted.
TEST_F(Litmus, NonChainShowsTheLatest) {
  write(x, 1);
  write(x, 2);
  EXPECT_EQ(outcomes({x}), (Outcomes{{{0}, 1}, {{1}, 1}, {{2}, 1}}));
  EXPECT_FALSE(log.is_chain(x));
  Cut cut(log);
  ChoiceTree newest_first;
  EXPECT_EQ(cut.read(x, newest_first), 2u);
  EXPECT_EQ(cut.events_in(), (std::vector<EventId>{1}));
  EXPECT_FALSE(cut.is_out(0));
}

TEST_F(Litmus, NonChainStillObeysOtherEdges) {
  const EventId a = write(x, 1);
  write(x, 2);
  write(y, 1, {a});
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{0, 0}, 1}, {{1, 0}, 1}, {{1, 1}, 1}, {{2, 0}, 1}, {{2, 1}, 1}}));
}

TEST_F(Litmus, BarrierOrdersWhatItCovers) {
  const EventId a = write(x, 1);
  barrier({a});
  write(y, 1);
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{0, 0}, 1}, {{1, 0}, 1}, {{1, 1}, 1}}));
}

TEST_F(Litmus, BarrierCoversNothingElse) {
  write(x, 1);
  barrier();
  write(y, 1);
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{0, 0}, 1}, {{0, 1}, 1}, {{1, 0}, 1}, {{1, 1}, 1}}));
}

TEST_F(Litmus, BarrierCoversWhatLiesBelow) {
  const EventId a = write(x, 1);
  const EventId b = write(y, 1, {a});
  const LocationId z = log.add_location(0);
  barrier({b});
  write(z, 1);
  EXPECT_EQ(outcomes({z, x, y}), (Outcomes{{{0, 0, 0}, 1}, {{0, 1, 0}, 1}, {{0, 1, 1}, 1}, {{1, 1, 1}, 1}}));
}

// fsync, then "saved!": who reads the mark finds the data.
TEST_F(Litmus, MarkAfterBarrier) {
  const EventId a = write(x, 1);
  barrier({a});
  barrier({}, {{y, 1}});
  EXPECT_EQ(outcomes({y, x}), (Outcomes{{{0, 0}, 1}, {{0, 1}, 1}, {{1, 1}, 1}}));
}

TEST_F(Litmus, MarkWithoutBarrier) {
  write(x, 1);
  barrier({}, {{y, 1}});
  EXPECT_EQ(outcomes({y, x}), (Outcomes{{{0, 0}, 1}, {{0, 1}, 1}, {{1, 0}, 1}, {{1, 1}, 1}}));
}

// A mark that was not reached: nothing later is there either.
TEST_F(Litmus, NothingPassesAMark) {
  barrier({}, {{y, 1}});
  write(x, 1);
  EXPECT_EQ(outcomes({y, x}), (Outcomes{{{0, 0}, 1}, {{1, 0}, 1}, {{1, 1}, 1}}));
}

TEST_F(Litmus, EqualNeighboursAreOneRecovery) {
  const EventId a = write(x, 1);
  const EventId b = write(x, 1, {a});
  write(x, 2, {b});
  EXPECT_EQ(outcomes({x}), (Outcomes{{{0}, 1}, {{1}, 1}, {{2}, 1}}));
}

TEST_F(Litmus, EqualToTheInitialValueIsOneRecovery) {
  write(x, 0);
  EXPECT_EQ(outcomes({x}), (Outcomes{{{0}, 1}}));
}

TEST_F(Litmus, EqualButNotNeighboursStayApart) {
  const EventId a = write(x, 1);
  const EventId b = write(x, 2, {a});
  write(x, 1, {b});
  EXPECT_EQ(outcomes({x}), (Outcomes{{{0}, 1}, {{1}, 2}, {{2}, 1}}));
}

// "The first or the second" is not one pair of bounds when the second can be there alone.
TEST_F(Litmus, EqualNeighboursThatAreNotChainedStayApart) {
  write(x, 1);
  write(x, 1);
  EXPECT_EQ(outcomes({x}), (Outcomes{{{0}, 1}, {{1}, 2}}));
}

// Which of two merged writes it was stays open, so a later read may still decide it.
TEST_F(Litmus, MergedRunStaysOpen) {
  const EventId a = write(x, 1);
  const EventId b = write(x, 1, {a});
  write(y, 1, {b});
  EXPECT_EQ(outcomes({x, y, x}), (Outcomes{{{0, 0, 0}, 1}, {{1, 0, 1}, 1}, {{1, 1, 1}, 1}}));
}

TEST_F(Litmus, ReadingAgainAsksNothing) {
  write(x, 1);
  write(x, 2);
  EXPECT_EQ(outcomes({x, x, x}), (Outcomes{{{0, 0, 0}, 1}, {{1, 1, 1}, 1}, {{2, 2, 2}, 1}}));
}

TEST_F(Litmus, DurablePrefixIsInEveryCut) {
  write(x, 1);
  write(y, 1);
  log.make_durable();
  write(x, 2);
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{1, 1}, 1}, {{2, 1}, 1}}));
}

TEST_F(Litmus, DurableTwice) {
  log.make_durable();
  write(x, 1);
  log.make_durable();
  write(y, 1);
  log.make_durable();
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{1, 1}, 1}}));
}

TEST_F(Litmus, RunningProgramSeesTheLastWrite) {
  write(x, 1);
  const EventId b = write(x, 2);
  EXPECT_EQ(log.current(x), 2u);
  EXPECT_EQ(log.last_write(x), b);
  EXPECT_EQ(log.current(y), 0u);
  EXPECT_EQ(log.last_write(y), kNoEvent);
}

TEST_F(Litmus, CandidatesAreNewestFirstAndDecideNothing) {
  const EventId a = write(x, 1);
  write(x, 2, {a});
  log.seal();
  Cut cut(log);
  for (int again = 0; again < 2; ++again) {
    Values offered;
    for (const Candidate& c : cut.candidates(x)) offered.push_back(c.value);
    EXPECT_EQ(offered, (Values{2, 1, 0}));
  }
  EXPECT_TRUE(cut.events_in().empty());
}

TEST_F(Litmus, ResetForgetsAll) {
  const EventId a = write(x, 1);
  barrier({a}, {{y, 1}});
  log.seal();
  Cut cut(log);
  ChoiceTree newest_first;
  EXPECT_EQ(cut.read(y, newest_first), 1u);
  EXPECT_EQ(cut.events_in().size(), 2u);
  cut.reset();
  EXPECT_TRUE(cut.events_in().empty());
  EXPECT_EQ(cut.candidates(y).size(), 2u);
}

// ---- writes of one chain -------------------------------------------------------------------------------------------

// A write is chained to the one before it whatever the path between them: none of these edges is direct.
TEST_F(Litmus, ChainThroughAnotherEvent) {
  const EventId a = write(x, 1);
  const EventId b = write(y, 1, {a});
  write(x, 1, {b});
  EXPECT_EQ(outcomes({x}), (Outcomes{{{0}, 1}, {{1}, 1}}));
  EXPECT_TRUE(log.is_chain(x));
}

TEST_F(Litmus, ChainThroughEventsOfOtherChains) {
  const EventId journal = write(y, 1);
  const EventId longer = write(y, 2, {journal});
  const EventId a = write(x, 1);
  const EventId commit = write(y, 3, {longer, a});  // on the chain of y
  write(x, 1, {commit});
  EXPECT_EQ(outcomes({x}), (Outcomes{{{0}, 1}, {{1}, 1}}));
  EXPECT_TRUE(log.is_chain(x));
}

TEST_F(Litmus, ChainThroughAFence) {
  const EventId a = write(x, 1);
  const EventId f = fence(0, {a});
  write(x, 1, {f});
  EXPECT_EQ(outcomes({x}), (Outcomes{{{0}, 1}, {{1}, 1}}));
  EXPECT_TRUE(log.is_chain(x));
}

TEST_F(Litmus, NoChainPastAFenceThatDidNotFlush) {
  write(x, 1);
  const EventId f = fence(0);
  write(x, 1, {f});
  EXPECT_EQ(outcomes({x}), (Outcomes{{{0}, 1}, {{1}, 2}}));
  EXPECT_FALSE(log.is_chain(x));
}

// ---- fences: the litmus table of x86 memory as events --------------------------------------------------------------
// A store follows its line's previous event and its thread's fences. A fence follows what its thread flushed. Locations
// are lines; the scope is the thread.

TEST_F(Litmus, FenceOrdersWhatItsThreadFlushed) {  // x=1; clflushopt x; sfence; y=1
  const EventId f = fence(0, {write(x, 1)});
  write(y, 1, {f});
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{0, 0}, 1}, {{1, 0}, 1}, {{1, 1}, 1}}));
}

TEST_F(Litmus, FenceWithoutFlushOrdersNothing) {  // x=1; sfence; y=1
  write(x, 1);
  const EventId f = fence(0);
  write(y, 1, {f});
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{0, 0}, 1}, {{0, 1}, 1}, {{1, 0}, 1}, {{1, 1}, 1}}));
}

// What no one orders after the fence may persist before it: this is not a barrier.
TEST_F(Litmus, FenceDoesNotBindOtherThreads) {  // x=1; clflush x || y=1
  fence(0, {write(x, 1)});
  write(y, 1);
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{0, 0}, 1}, {{0, 1}, 1}, {{1, 0}, 1}, {{1, 1}, 1}}));
}

TEST_F(Litmus, FenceOfTheThreadThatReads) {  // x=1 || wait for x; clflushopt x; sfence; y=1
  const EventId stored = write(x, 1);
  const EventId f = fence(1, {stored});
  write(y, 1, {f});
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{0, 0}, 1}, {{1, 0}, 1}, {{1, 1}, 1}}));
}

TEST_F(Litmus, NoFenceOfTheThreadThatReads) {  // x=1 || wait for x; y=1
  write(x, 1);
  write(y, 1);
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{0, 0}, 1}, {{0, 1}, 1}, {{1, 0}, 1}, {{1, 1}, 1}}));
}

TEST_F(Litmus, TwoFlushesAndOneFence) {  // x=1; clflushopt x; y=1; clflushopt y; sfence; z=1
  const LocationId z = log.add_location(0);
  const EventId f = fence(0, {write(x, 1), write(y, 1)});
  write(z, 1, {f});
  EXPECT_EQ(outcomes({x, y, z}),
            (Outcomes{{{0, 0, 0}, 1}, {{0, 1, 0}, 1}, {{1, 0, 0}, 1}, {{1, 1, 0}, 1}, {{1, 1, 1}, 1}}));
}

TEST_F(Litmus, FlushOfOneLineOnly) {  // x=1; clflushopt x; y=1; clflush y; z=1
  const LocationId z = log.add_location(0);
  write(x, 1);
  const EventId f = fence(0, {write(y, 1)});
  write(z, 1, {f});
  EXPECT_EQ(outcomes({x, y, z}),
            (Outcomes{{{0, 0, 0}, 1}, {{0, 1, 0}, 1}, {{0, 1, 1}, 1}, {{1, 0, 0}, 1}, {{1, 1, 0}, 1}, {{1, 1, 1}, 1}}));
}

TEST_F(Litmus, MarkAfterFlush) {  // x=1; clflush x; mark m
  const EventId f = fence(0, {write(x, 1)});
  fence(0, {f}, {{y, 1}});
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{0, 0}, 1}, {{1, 0}, 1}, {{1, 1}, 1}}));
}

TEST_F(Litmus, MarkWithoutFlush) {  // x=1; clflushopt x; mark m
  write(x, 1);
  fence(0, {}, {{y, 1}});
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{0, 0}, 1}, {{0, 1}, 1}, {{1, 0}, 1}, {{1, 1}, 1}}));
}

// What a thread learned from another binds it too: the past is handed on through memory that does not persist.
TEST_F(Litmus, PastIsHandedOn) {  // x=1; clflush x; flag=1 || wait for flag; y=1
  const EventId f = fence(0, {write(x, 1)});
  const FenceSetId flag = log.past(f);
  const FenceSetId reader = log.join(kNoFences, flag);
  log.add_event(0, std::vector{Write{y, 1}}, {}, reader);
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{0, 0}, 1}, {{1, 0}, 1}, {{1, 1}, 1}}));
}

// Two threads flush for themselves; a third has read from both. Neither fence implies the other.
TEST_F(Litmus, TwoUnorderedFencesBelowOneStore) {
  const LocationId z = log.add_location(0);
  const EventId f = fence(0, {write(x, 1)});
  const EventId g = fence(1, {write(y, 1)});
  const EventId last = log.add_event(0, std::vector{Write{z, 1}}, {}, log.join(log.past(f), log.past(g)));
  EXPECT_EQ(outcomes({z, x, y}),
            (Outcomes{{{0, 0, 0}, 1}, {{0, 0, 1}, 1}, {{0, 1, 0}, 1}, {{0, 1, 1}, 1}, {{1, 1, 1}, 1}}));
  EXPECT_EQ(log.fences().members(log.past(last)).size(), 2u);
}

// Two threads flush the same line. The store is durable as soon as one of the fences is.
TEST_F(Litmus, TwoUnorderedFencesAboveOneStore) {
  const LocationId z = log.add_location(0);
  const EventId stored = write(x, 1);
  const EventId f = fence(0, {stored});
  const EventId g = fence(1, {stored});
  write(y, 1, {f});
  write(z, 1, {g});
  EXPECT_EQ(outcomes({y, z, x}),
            (Outcomes{{{0, 0, 0}, 1}, {{0, 0, 1}, 1}, {{0, 1, 1}, 1}, {{1, 0, 1}, 1}, {{1, 1, 1}, 1}}));
  EXPECT_EQ(log.fences().members(log.future(stored)).size(), 2u);
}

// a0=1; b0=1 || b1=1; a1=1, with a0 and a1 on one line and b0 and b1 on another, in the schedule a0 b0 b1 a1. The other
// schedules add the other outcomes; none has a0 a1 b0 b1 = 0110.
TEST_F(Litmus, StoresOfTwoThreadsToTwoLines) {
  const EventId a0 = write(x, 1);  // the line x: 1 is a0, 3 is a0 and a1
  const EventId b0 = write(y, 1);  // the line y: 1 is b0, 3 is b0 and b1
  write(y, 3, {b0});
  write(x, 3, {a0});
  Outcomes all;
  for (Value a : {0, 1, 3}) {
    for (Value b : {0, 1, 3}) all[{a, b}] = 1;
  }
  EXPECT_EQ(outcomes({x, y}), all);
}

TEST_F(Litmus, DurableFenceIsInEveryCut) {
  const EventId f = fence(0, {write(x, 1)});
  log.make_durable(f);
  fence(0, {write(y, 1)});
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{1, 0}, 1}, {{1, 1}, 1}}));
}

TEST_F(Litmus, DurablePrefixCoversFences) {
  fence(0, {write(x, 1)});
  log.make_durable();
  const EventId f = fence(1, {write(x, 2)});
  write(y, 1, {f});
  EXPECT_EQ(outcomes({x, y}), (Outcomes{{{1, 0}, 1}, {{2, 0}, 1}, {{2, 1}, 1}}));
}

TEST_F(Litmus, BarrierOverFences) {
  const EventId f = fence(0, {write(x, 1)});
  barrier({f});
  write(y, 1);
  EXPECT_EQ(outcomes({y, x}), (Outcomes{{{0, 0}, 1}, {{0, 1}, 1}, {{1, 1}, 1}}));
}

// ---- stacks of logs ------------------------------------------------------------------------------------------------

class StackLitmus : public testing::Test {
 protected:
  // Every outcome of a recovery that reads `places` in order.
  Outcomes outcomes(CutStack& stack, const std::vector<LowerLocation>& places) {
    Outcomes found;
    ChoiceTree tree;
    explore(tree, Budget{}, [&](ChoiceTree& t) {
      stack.reset();
      Values values;
      for (const LowerLocation& at : places) values.push_back(stack.read(at.layer, at.location, t));
      ++found[values];
    });
    return found;
  }
  static EventId write(Log& log, LocationId l, Value v, std::vector<EventId> after = {}) {
    return log.add_event(0, std::vector{Write{l, v}}, after);
  }

  Log first, second, third;
};

TEST_F(StackLitmus, WhatTheSecondLogNeverWroteIsAskedBelow) {
  const LocationId x = first.add_location(0), y = first.add_location(0);
  write(first, y, 1, {write(first, x, 1)});
  first.seal();
  second.seal();
  CutStack stack;
  stack.push(first);
  stack.push(second);
  EXPECT_EQ(outcomes(stack, {{0, x}, {0, y}}), (Outcomes{{{0, 0}, 1}, {{1, 0}, 1}, {{1, 1}, 1}}));
}

TEST_F(StackLitmus, LostWritesFallThrough) {
  const LocationId x = first.add_location(0);
  write(first, x, 1);
  first.seal();
  const LocationId over = second.add_location_over({0, x});
  write(second, over, 2);
  second.seal();
  CutStack stack;
  stack.push(first);
  stack.push(second);
  EXPECT_EQ(outcomes(stack, {{1, over}}), (Outcomes{{{0}, 1}, {{1}, 1}, {{2}, 1}}));
}

TEST_F(StackLitmus, DurableWritesHideWhatIsBelow) {
  const LocationId x = first.add_location(0);
  write(first, x, 1);
  first.seal();
  const LocationId over = second.add_location_over({0, x});
  write(second, over, 2);
  second.make_durable();
  write(second, over, 3);
  second.seal();
  CutStack stack;
  stack.push(first);
  stack.push(second);
  EXPECT_EQ(outcomes(stack, {{1, over}, {0, x}}), (Outcomes{{{2, 0}, 1}, {{2, 1}, 1}, {{3, 0}, 1}, {{3, 1}, 1}}));
}

// Reading through the second log decides the first: y=1 needs x=1 there. It decides nothing else in the second.
TEST_F(StackLitmus, ConstraintsStayInTheirLog) {
  const LocationId x = first.add_location(0), y = first.add_location(0);
  write(first, y, 1, {write(first, x, 1)});
  first.seal();
  const LocationId over_y = second.add_location_over({0, y}), z = second.add_location(0);
  const EventId stored = write(second, z, 5);
  write(second, over_y, 2, {stored});
  second.seal();
  CutStack stack;
  stack.push(first);
  stack.push(second);
  EXPECT_EQ(outcomes(stack, {{1, over_y}, {0, x}, {1, z}}), (Outcomes{{{0, 0, 0}, 1},
                                                                      {{0, 0, 5}, 1},
                                                                      {{0, 1, 0}, 1},
                                                                      {{0, 1, 5}, 1},
                                                                      {{1, 1, 0}, 1},
                                                                      {{1, 1, 5}, 1},
                                                                      {{2, 0, 5}, 1},
                                                                      {{2, 1, 5}, 1}}));
}

// Recovery writes what is there already. If it is certain what is there, nothing can tell the two apart.
TEST_F(StackLitmus, EqualToADecidedValueBelowIsOneRecovery) {
  const LocationId x = first.add_location(0);
  write(first, x, 1);
  first.make_durable();
  first.seal();
  const LocationId over = second.add_location_over({0, x});
  write(second, over, 1);
  second.seal();
  CutStack stack;
  stack.push(first);
  stack.push(second);
  EXPECT_EQ(outcomes(stack, {{1, over}}), (Outcomes{{{1}, 1}}));
}

TEST_F(StackLitmus, EqualToAnOpenValueBelowStaysApart) {
  const LocationId x = first.add_location(0);
  write(first, x, 1);
  first.seal();
  const LocationId over = second.add_location_over({0, x});
  write(second, over, 1);
  second.seal();
  CutStack stack;
  stack.push(first);
  stack.push(second);
  EXPECT_EQ(outcomes(stack, {{1, over}}), (Outcomes{{{0}, 1}, {{1}, 2}}));
  EXPECT_EQ(outcomes(stack, {{0, x}, {1, over}}), (Outcomes{{{0, 0}, 1}, {{0, 1}, 1}, {{1, 1}, 1}}));
}

TEST_F(StackLitmus, ThreeLogs) {
  const LocationId x = first.add_location(0);
  write(first, x, 1);
  first.seal();
  const LocationId over = second.add_location_over({0, x});
  write(second, over, 2);
  second.seal();
  const LocationId top = third.add_location_over({1, over});
  write(third, top, 3);
  third.seal();
  CutStack stack;
  stack.push(first);
  stack.push(second);
  stack.push(third);
  EXPECT_EQ(outcomes(stack, {{2, top}}), (Outcomes{{{0}, 1}, {{1}, 1}, {{2}, 1}, {{3}, 1}}));
  // What the top showed says that nothing above it persisted, and nothing of what lies below it.
  EXPECT_EQ(outcomes(stack, {{2, top}, {1, over}}),
            (Outcomes{{{0, 0}, 1}, {{1, 1}, 1}, {{2, 2}, 1}, {{3, 0}, 1}, {{3, 1}, 1}, {{3, 2}, 1}}));
}

// A machine that still runs: all that it wrote is seen, and then its failure makes it uncertain.
TEST_F(StackLitmus, LiveLayerShowsItsLastWriteUntilItCrashes) {
  const LocationId x = first.add_location(0), y = first.add_location(0);
  write(first, x, 1);
  first.seal();
  const LocationId over = second.add_location_over({0, x}), over_y = second.add_location_over({0, y});
  CutStack stack;
  stack.push(first);
  const LayerId live = stack.push(second);
  EXPECT_EQ(outcomes(stack, {{live, over}}), (Outcomes{{{0}, 1}, {{1}, 1}}));
  write(second, over, 2);
  write(second, over, 3);
  EXPECT_EQ(outcomes(stack, {{live, over}, {live, over_y}}), (Outcomes{{{3, 0}, 1}}));
  second.seal();
  stack.crash(live);
  EXPECT_EQ(outcomes(stack, {{live, over}}), (Outcomes{{{0}, 1}, {{1}, 1}, {{2}, 1}, {{3}, 1}}));
}

// A line that machine A wrote, then B, then A again. B's store wrote A's line back, so A's first store is durable.
TEST_F(StackLitmus, LineThatChangesHandsTwice) {
  const LocationId a1 = first.add_location(0);
  const EventId stored = write(first, a1, 1);
  first.make_durable(first.add_fence(0, {}, std::vector{stored}, 0));
  const LocationId b = second.add_location_over({0, a1});
  const EventId other = write(second, b, 2);
  const EventId written_back = second.add_fence(0, {}, std::vector{other}, 0);
  const LocationId a2 = first.add_location_over({1, b});
  write(first, a2, 3, {stored});
  first.seal();
  CutStack stack;
  stack.push(first);
  stack.push(second);
  EXPECT_EQ(outcomes(stack, {{0, a2}}), (Outcomes{{{2}, 1}, {{3}, 1}}));  // B lives
  second.make_durable(written_back);
  second.seal();
  stack.crash(1);
  EXPECT_EQ(outcomes(stack, {{0, a2}}), (Outcomes{{{2}, 1}, {{3}, 1}}));
}

// Its wrong twin: A's second store did not write B's line back.
TEST_F(StackLitmus, LineThatIsNotWrittenBack) {
  const LocationId a1 = first.add_location(0);
  const EventId stored = write(first, a1, 1);
  const LocationId b = second.add_location_over({0, a1});
  write(second, b, 2);
  const LocationId a2 = first.add_location_over({1, b});
  write(first, a2, 3, {stored});
  first.seal();
  second.seal();
  CutStack stack;
  stack.push(first);
  stack.push(second);
  EXPECT_EQ(outcomes(stack, {{0, a2}}), (Outcomes{{{0}, 1}, {{1}, 1}, {{2}, 1}, {{3}, 1}}));
}

TEST_F(StackLitmus, CopyIsDecidedAlone) {
  const LocationId x = first.add_location(0);
  write(first, x, 1);
  first.seal();
  CutStack stack;
  stack.push(first);
  ChoiceTree newest_first;
  CutStack copy = stack;
  EXPECT_EQ(copy.read(0, x, newest_first), 1u);
  EXPECT_EQ(copy.candidates(0, x).size(), 1u);
  EXPECT_EQ(stack.candidates(0, x).size(), 2u);
  copy.pop();
  EXPECT_EQ(copy.layer_count(), 0u);
}

// Which layer a candidate is of is part of the question.
TEST_F(StackLitmus, QuestionsOfDifferentLayersDiffer) {
  const LocationId x = first.add_location(0);
  write(first, x, 1);
  first.seal();
  const LocationId over = second.add_location_over({0, x});
  write(second, over, 2);
  second.seal();
  CutStack stack;
  stack.push(first);
  stack.push(second);
  const auto found = stack.candidates(1, over);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].layer, 1);
  EXPECT_EQ(found[1].layer, 0);
  EXPECT_EQ(found[2].layer, 0);
  std::vector<Candidate> moved(found.begin(), found.end());
  moved[1].layer = 1;
  EXPECT_NE((Choice{second, over, found, 1}.question().asked), (Choice{second, over, moved, 1}.question().asked));
}

using LitmusDeathTest = Litmus;

TEST_F(LitmusDeathTest, BrokenLogsAreRefused) {
  const EventId a = write(x, 1);
  EXPECT_DEATH(write(x, 2, {a + 1}), "broken invariant");
  EXPECT_DEATH(write(y + 1, 1), "broken invariant");
  EXPECT_DEATH(log.add_event(0, std::vector{Write{x, 1}, Write{x, 2}}, {}), "broken invariant");
  EXPECT_DEATH(log.make_durable(a), "broken invariant");  // not a fence
  EXPECT_DEATH(Cut{log}, "broken invariant");             // not sealed
  log.seal();
  EXPECT_DEATH(write(x, 2), "broken invariant");
  EXPECT_DEATH(log.make_durable(), "broken invariant");
  EXPECT_DEATH(log.seal(), "broken invariant");
}

TEST_F(LitmusDeathTest, LocationOverAnotherIsNotReadAlone) {
  const LocationId over = log.add_location_over({0, x});
  log.seal();
  Cut cut(log);
  ChoiceTree tree;
  EXPECT_DEATH(cut.read(over, tree), "broken invariant");
}

}  // namespace
}  // namespace crashcut::persist
