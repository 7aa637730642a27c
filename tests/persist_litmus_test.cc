// Hand-written litmus for Log and Cut: the exact outcomes of a recovery that reads everything in a given order,
// and the exact number of recoveries. A weaker twin stands beside each ordered one.
#include <gtest/gtest.h>

#include <map>

#include "persist/cut.h"
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

using LitmusDeathTest = Litmus;

TEST_F(LitmusDeathTest, BrokenLogsAreRefused) {
  const EventId a = write(x, 1);
  EXPECT_DEATH(write(x, 2, {a + 1}), "broken invariant");
  EXPECT_DEATH(write(y + 1, 1), "broken invariant");
  EXPECT_DEATH(log.add_event(0, std::vector{Write{x, 1}, Write{x, 2}}, {}), "broken invariant");
  log.seal();
  EXPECT_DEATH(write(x, 2), "broken invariant");
  EXPECT_DEATH(log.make_durable(), "broken invariant");
  EXPECT_DEATH(log.seal(), "broken invariant");
}

}  // namespace
}  // namespace crashcut::persist
