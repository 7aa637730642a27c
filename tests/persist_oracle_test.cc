// The lazy exploration (Cut and ChoiceTree) against the brute-force oracle, on random logs and recoveries.
//
// Verified: the same observations; every reads-from vector exactly once; each run fits a cut that is really
//   there, and gives the same observation on it. Not verified here: logs of more than 12 events.
#include "tests/persist_oracle.h"

#include <gtest/gtest.h>

#include <set>

#include "persist/cut.h"
#include "persist/explore.h"
#include "tests/seeds.h"

namespace crashcut::persist {
namespace {

using oracle::Mask;
using oracle::Observation;
using oracle::Observer;
using oracle::Oracle;
using oracle::ReadsFrom;
using oracle::Spec;

struct Case {
  Spec spec;
  Observer observer;

  explicit Case(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    spec = oracle::random_spec(random);
    observer = Observer{random(), static_cast<std::uint32_t>(spec.initial.size()),
                        static_cast<std::uint32_t>(1 + random() % 12)};
  }
};

// What the oracle says must be seen.
struct Expected {
  std::set<Observation> observations;
  std::set<ReadsFrom> reads_from;
};

Observation observe(const Observer& observer, const Oracle& oracle, Mask cut) {
  Observation seen;
  observer.run([&](LocationId l) { return seen.emplace_back(l, oracle.value(l, cut)).second; });
  return seen;
}

ReadsFrom trace_reads(const Observer& observer, const Oracle& oracle, Mask cut) {
  ReadsFrom from;
  observer.run([&](LocationId l) {
    from.emplace_back(l, oracle.run_of(l, cut));
    return oracle.value(l, cut);
  });
  return from;
}

Expected expect_from(const Observer& observer, const Oracle& oracle) {
  Expected expected;
  for (Mask cut : oracle.cuts()) {
    expected.observations.insert(observe(observer, oracle, cut));
    expected.reads_from.insert(trace_reads(observer, oracle, cut));
  }
  return expected;
}

Mask to_mask(const std::vector<EventId>& events) {
  Mask mask = 0;
  for (EventId e : events) mask |= Mask{1} << e;
  return mask;
}

// The largest cut that a recovery fits, seen from the other bound.
Mask not_out(const Cut& cut) {
  Mask mask = 0;
  for (EventId e = 0; e < cut.log().event_count(); ++e) {
    if (!cut.is_out(e)) mask |= Mask{1} << e;
  }
  return mask;
}

class Checker {
 public:
  explicit Checker(const Case& c) : case_(c), oracle_(c.spec) { c.spec.record_in(log_); }

  void check_chains() {
    for (LocationId l = 0; l < log_.location_count(); ++l) {
      const auto history = log_.history(l);
      ASSERT_EQ(history.size(), oracle_.write_count(l));
      for (std::size_t i = 0; i < history.size(); ++i) EXPECT_EQ(history[i].chained, oracle_.chained(l, i));
    }
  }

  void explore_all(AnswerOrder order) {
    Cut cut(log_);
    ChoiceTree tree({}, {}, order);
    const Exploration result = explore(tree, Budget{}, [&](ChoiceTree& t) { run_once(cut, t); });
    EXPECT_TRUE(result.complete);
    EXPECT_FALSE(result.diverged);
    const Expected expected = expect_from(case_.observer, oracle_);
    EXPECT_EQ(observations_, expected.observations);
    EXPECT_EQ(reads_from_, expected.reads_from);
    EXPECT_EQ(result.runs, expected.reads_from.size());
  }

 private:
  void run_once(Cut& cut, ChoiceTree& tree) {
    cut.reset();
    Observation seen;
    case_.observer.run([&](LocationId l) { return seen.emplace_back(l, cut.read(l, tree)).second; });
    EXPECT_TRUE(paths_.insert(tree.path()).second) << "run twice: " << to_text(tree.path());
    check_fits(cut, seen);
    EXPECT_TRUE(reads_from_.insert(trace_reads(case_.observer, oracle_, to_mask(cut.events_in()))).second)
        << "reads-from vector run twice, path " << to_text(tree.path());
    observations_.insert(std::move(seen));
  }

  void check_fits(const Cut& cut, const Observation& seen) {
    const Mask smallest = to_mask(cut.events_in());
    const Mask largest = not_out(cut);
    EXPECT_EQ(cut.count_in(), cut.events_in().size());
    EXPECT_EQ(smallest & ~largest, 0u) << "an event is in and out";
    for (Mask m : {smallest, largest}) {
      EXPECT_TRUE(oracle_.is_cut(m)) << "not a cut: " << m;
      EXPECT_EQ(observe(case_.observer, oracle_, m), seen) << "cut " << m;
    }
  }

  const Case& case_;
  Oracle oracle_;
  Log log_;
  std::set<Path> paths_;
  std::set<Observation> observations_;
  std::set<ReadsFrom> reads_from_;
};

TEST(PersistOracle, LazyExplorationEqualsBruteForce) {
  tests::for_each_seed(20000, [](std::uint64_t seed) {
    const Case c(seed);
    Checker checker(c);
    checker.check_chains();
    checker.explore_all(AnswerOrder());
    Checker(c).explore_all(AnswerOrder(seed));
    if (!testing::Test::HasFailure()) return true;
    ADD_FAILURE() << "replay: CRASHCUT_SEED=" << seed << "\n" << c.spec.to_text();
    return false;
  });
}

// A test that never meets the hard cases says nothing: count them.
TEST(PersistOracle, RandomLogsCoverTheHardCases) {
  std::size_t non_chains = 0, merged = 0, durable = 0, marks = 0, many_writes = 0, many_recoveries = 0;
  std::size_t hidden = 0, hidden_over_barrier = 0;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed) {
    const Case c(seed);
    const Oracle oracle(c.spec);
    Log log;
    c.spec.record_in(log);
    bool has_non_chain = false;
    for (LocationId l = 0; l < log.location_count(); ++l) has_non_chain |= !log.is_chain(l);
    const Expected expected = expect_from(c.observer, oracle);
    non_chains += has_non_chain;
    merged += expected.observations.size() < expected.reads_from.size();
    many_recoveries += expected.reads_from.size() >= 20;
    for (const auto& e : c.spec.events) {
      durable += e.kind == oracle::SpecEvent::kDurable;
      marks += e.kind == oracle::SpecEvent::kBarrier && e.after.empty();
      many_writes += e.writes.size() > 1;
      for (const Write& w : e.writes) {
        if (w.hidden_by == kNoEvent) continue;
        const auto id = static_cast<EventId>(&e - c.spec.events.data());
        ++hidden;
        hidden_over_barrier += log.epoch(w.hidden_by) < log.epoch(id);
      }
    }
  }
  EXPECT_GT(non_chains, 100u);
  EXPECT_GT(merged, 20u);
  EXPECT_GT(durable, 100u);
  EXPECT_GT(marks, 100u);
  EXPECT_GT(many_writes, 500u);
  EXPECT_GT(many_recoveries, 50u);
  EXPECT_GT(hidden, 500u);
  EXPECT_GT(hidden_over_barrier, 100u);
}

}  // namespace
}  // namespace crashcut::persist
