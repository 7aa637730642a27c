// ChoiceTree and explore(): every sequence once, whole or in parts, with or without a budget.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <random>
#include <set>

#include "persist/cut.h"
#include "persist/explore.h"
#include "tests/choice_programs.h"
#include "tests/seeds.h"

namespace crashcut::persist {
namespace {

using Paths = std::vector<Path>;

// Runs the rest of `tree` and returns the paths in order.
template <class Program>
Paths explore_rest(ChoiceTree& tree, const Program& program) {
  Paths paths;
  const Exploration result = explore(tree, Budget{}, [&](ChoiceTree& t) {
    program(t);
    paths.push_back(t.path());
  });
  EXPECT_TRUE(result.complete);
  EXPECT_EQ(result.runs, paths.size());
  return paths;
}

template <class Program>
Paths explore_all(const Program& program, AnswerOrder order = AnswerOrder()) {
  ChoiceTree tree({}, {}, order);
  return explore_rest(tree, program);
}

TEST(ChoiceTree, NoChoiceIsOneRun) { EXPECT_EQ(explore_all(ask({})), (Paths{{}})); }

TEST(ChoiceTree, ListsASmallTree) {
  EXPECT_EQ(explore_all(ask({2, 3})), (Paths{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}));
}

TEST(ChoiceTree, ListsAnUnevenTree) {
  const auto program = [](ChoiceTree& tree) {
    if (tree.choose_among({3}) == 1 && tree.choose_among({2}) == 1) tree.choose_among({2});
  };
  EXPECT_EQ(explore_all(program), (Paths{{0}, {1, 0}, {1, 1, 0}, {1, 1, 1}, {2}}));
}

TEST(ChoiceTree, StaysBelowItsPrefix) {
  ChoiceTree tree(Path{1});
  EXPECT_EQ(explore_rest(tree, ask({3, 2})), (Paths{{1, 0}, {1, 1}}));
}

TEST(ChoiceTree, PrefixOfAWholeRunIsThatRun) {
  ChoiceTree tree(Path{2, 0});
  EXPECT_EQ(explore_rest(tree, ask({3, 2})), (Paths{{2, 0}}));
}

TEST(ChoiceTree, StartsInTheMiddle) {
  ChoiceTree tree({}, Path{1, 1});
  EXPECT_EQ(explore_rest(tree, ask({3, 2})), (Paths{{1, 1}, {2, 0}, {2, 1}}));
}

TEST(ChoiceTree, StartsInTheMiddleBelowItsPrefix) {
  ChoiceTree tree(Path{1}, Path{1});
  EXPECT_EQ(explore_rest(tree, ask({3, 3, 2})), (Paths{{1, 1, 0}, {1, 1, 1}, {1, 2, 0}, {1, 2, 1}}));
}

TEST(ChoiceTree, RandomTreesEachPathOnceInOrder) {
  tests::for_each_seed(200, [](std::uint64_t seed) {
    const Paths paths = explore_all(RandomProgram{seed, 7});
    EXPECT_TRUE(std::is_sorted(paths.begin(), paths.end())) << "CRASHCUT_SEED=" << seed;
    EXPECT_EQ(std::adjacent_find(paths.begin(), paths.end()), paths.end()) << "CRASHCUT_SEED=" << seed;
    return !testing::Test::HasFailure();
  });
}

TEST(ChoiceTree, AnotherOrderHasTheSamePaths) {
  std::set<Path> first_paths;
  std::size_t seeds = 0;
  tests::for_each_seed(200, [&](std::uint64_t seed) {
    ++seeds;
    Paths paths = explore_all(RandomProgram{7, 7}, AnswerOrder(seed));
    first_paths.insert(paths.front());
    std::sort(paths.begin(), paths.end());
    EXPECT_EQ(paths, explore_all(RandomProgram{7, 7})) << "CRASHCUT_SEED=" << seed;
    return !testing::Test::HasFailure();
  });
  EXPECT_GT(first_paths.size(), std::min<std::size_t>(10, seeds / 3)) << "the seed changes little";
}

TEST(ChoiceTree, ResumesAtEveryPath) {
  tests::for_each_seed(50, [](std::uint64_t seed) {
    const RandomProgram program{seed, 5};
    const AnswerOrder order(seed % 2 == 0 ? seed : 0);
    const Paths all = explore_all(program, order);
    for (std::size_t i = 0; i < all.size(); ++i) {
      ChoiceTree tree({}, all[i], order);
      EXPECT_EQ(explore_rest(tree, program), Paths(all.begin() + i, all.end())) << "CRASHCUT_SEED=" << seed;
    }
    return !testing::Test::HasFailure();
  });
}

// Gives away what is left below some choice of the path at which the tree stands. False: nothing is left for the tree.
bool give_below(ChoiceTree& tree, std::deque<ChoiceTree>& others, std::mt19937_64& coin) {
  const std::vector<std::uint32_t> open = tree.open_answers();
  EXPECT_EQ(open.size(), tree.path().size());
  Path before = tree.path();
  before.resize(coin() % (before.size() + 1));
  others.push_back(tree.take_below(before.size()).after(before));
  const bool has_more = tree.advance();
  const auto end = open.begin() + static_cast<std::ptrdiff_t>(before.size());
  EXPECT_EQ(has_more, std::any_of(open.begin(), end, [](std::uint32_t count) { return count != 0; }));
  return has_more;
}

// Several trees take turns, and split whenever a coin says so.
Paths explore_in_parts(const RandomProgram& program, AnswerOrder order, std::mt19937_64& coin) {
  Paths paths;
  std::deque<ChoiceTree> trees;
  trees.emplace_back(Path{}, Path{}, order);
  while (!trees.empty()) {
    ChoiceTree tree = std::move(trees.front());
    trees.pop_front();
    tree.begin_run();
    program(tree);
    EXPECT_FALSE(tree.run_diverged());
    paths.push_back(tree.path());
    if (!tree.advance()) continue;
    if (coin() % 3 == 0) {
      for (const Path& prefix : tree.split().prefixes) trees.emplace_back(prefix, Path{}, order);
    }
    if (coin() % 3 == 0 && !give_below(tree, trees, coin)) continue;
    // As a process that takes it over sees it.
    trees.push_back(ChoiceTree::from_numbers(tree.to_numbers()));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

TEST(ChoiceTree, SplitCoversEachPathOnce) {
  tests::for_each_seed(300, [](std::uint64_t seed) {
    std::mt19937_64 coin(seed);
    const RandomProgram program{seed, 7};
    EXPECT_EQ(explore_in_parts(program, AnswerOrder(seed % 2 == 0 ? seed : 0), coin), explore_all(program))
        << "CRASHCUT_SEED=" << seed;
    return !testing::Test::HasFailure();
  });
}

TEST(ChoiceTree, SplitGivesTheHalfNearestToTheRoot) {
  ChoiceTree tree;
  tree.begin_run();
  ask({5, 2})(tree);
  ASSERT_TRUE(tree.advance());
  EXPECT_EQ(tree.split().prefixes, (Paths{{3}, {4}}));
  EXPECT_EQ(tree.split().prefixes, (Paths{{2}}));
  EXPECT_EQ(tree.split().prefixes, (Paths{{1}}));
  EXPECT_EQ(tree.split().prefixes, Paths{});
  EXPECT_EQ(explore_rest(tree, ask({5, 2})), (Paths{{0, 1}}));
}

TEST(ChoiceTree, NothingToSplitBeforeTheFirstRun) {
  EXPECT_EQ(ChoiceTree().split().prefixes, Paths{});
  EXPECT_EQ(ChoiceTree(Path{1, 2}).split().prefixes, Paths{});
  EXPECT_EQ(ChoiceTree({}, Path{1, 2}).split().prefixes, Paths{});
}

// A search that is stopped anywhere and goes on from what was left, stopped and resumed until nothing is.
TEST(ChoiceTree, WhatIsLeftIsEachPathNotRunYet) {
  tests::for_each_seed(300, [](std::uint64_t seed) {
    std::mt19937_64 coin(seed);
    const RandomProgram program{seed, 7};
    const AnswerOrder order(seed % 2 == 0 ? seed : 0);
    Paths paths;
    std::deque<Part> left{{}};
    while (!left.empty()) {
      EXPECT_TRUE(is_part(left.front()));
      const PartialTree part = read_part(left.front());
      ChoiceTree tree = part.rest.empty() ? ChoiceTree(part.path, {}, order) : ChoiceTree::from_numbers(part.rest);
      left.pop_front();
      for (const Path& prefix : coin() % 5 == 0 ? tree.split().prefixes : Paths{}) left.push_back(prefix);
      for (bool goes_on = true; goes_on;) {
        tree.begin_run();
        program(tree);
        const bool is_stopped_within = coin() % 7 == 0;
        if (!is_stopped_within) paths.push_back(tree.path());
        if (is_stopped_within) tree.abandon_run();
        if (is_stopped_within || coin() % 7 == 0) {
          if (!is_stopped_within && !tree.advance()) break;
          for (const Path& path : paths_of(tree.left())) left.push_back(path);
          break;
        }
        goes_on = tree.advance();
        if (goes_on && coin() % 7 == 0) {
          left.push_back(tree.left());
          break;
        }
      }
    }
    std::sort(paths.begin(), paths.end());
    EXPECT_EQ(paths, explore_all(program)) << "CRASHCUT_SEED=" << seed;
    return !testing::Test::HasFailure();
  });
}

// As paths it would be the square of that.
TEST(ChoiceTree, WhatIsLeftOfADeepTreeIsAsLongAsTheTreeIsDeep) {
  constexpr std::uint32_t kDepth = 100'000;
  const auto program = ask(std::vector<std::uint32_t>(kDepth, 3));
  ChoiceTree tree;
  for (int i = 0; i < 2; ++i) {
    tree.begin_run();
    program(tree);
    ASSERT_TRUE(tree.advance());
  }
  const Part left = tree.left({7, 8});
  EXPECT_LT(left.size(), 5u * kDepth);
  ASSERT_TRUE(is_part(left));
  const PartialTree part = read_part(left);
  EXPECT_EQ(part.path, (Path{7, 8}));
  ChoiceTree rest = ChoiceTree::from_numbers(part.rest);
  rest.begin_run();
  program(rest);
  EXPECT_FALSE(rest.run_diverged());
  EXPECT_EQ(rest.path().back(), 2u);
}

// A part may come from a file.
TEST(ChoiceTree, PartsThatNoTreeLeftAreNone) {
  ChoiceTree tree;
  tree.begin_run();
  ask({2, 3})(tree);
  ASSERT_TRUE(tree.advance());
  const Part left = tree.left();
  ASSERT_TRUE(is_part(left));
  EXPECT_TRUE(is_part({}));
  EXPECT_TRUE(is_part({1, 2, 3}));
  for (std::size_t length = 1; length < left.size(); ++length)
    EXPECT_EQ(is_part({left.begin(), left.begin() + static_cast<std::ptrdiff_t>(length)}), length == 10) << length;
  const auto with = [&](std::size_t at, std::uint32_t number) {
    Part changed = left;
    changed[at] = number;
    return changed;
  };
  EXPECT_FALSE(is_part(with(1, 3)));  // a prefix that is longer than the tree
  EXPECT_FALSE(is_part(with(2, 0)));  // no run
  EXPECT_FALSE(is_part(with(6, 2)));  // an answer that is none
  EXPECT_FALSE(is_part(with(7, 3)));  // more to explore than there are
  EXPECT_FALSE(is_part(with(8, 1)));  // no choice
}

// A run that is stopped somewhere changes nothing, neither what is left nor how large it is.
TEST(ChoiceTree, AnAbandonedRunIsStillToCome) {
  ChoiceTree tree;
  for (int i = 0; i < 5; ++i) {
    tree.begin_run();
    ask({2, 3, 4})(tree);
    ASSERT_TRUE(tree.advance());
  }
  const Part left = tree.left();
  tree.begin_run();
  ask({2})(tree);
  tree.abandon_run();
  EXPECT_EQ(tree.left(), left);
  EXPECT_DOUBLE_EQ(tree.estimate().likely, 24);
  EXPECT_EQ(explore_rest(tree, ask({2, 3, 4})).size(), 19u);
}

TEST(ChoiceTree, RunThatMeetsFewerChoicesDiverged) {
  ChoiceTree tree(Path{0, 1});
  tree.begin_run();
  ask({2})(tree);
  EXPECT_TRUE(tree.run_diverged());
}

TEST(ChoiceTree, RunThatMeetsAnotherChoiceDiverged) {
  ChoiceTree tree;
  tree.begin_run();
  ask({2, 3})(tree);
  EXPECT_FALSE(tree.run_diverged());
  ASSERT_TRUE(tree.advance());
  tree.begin_run();
  ask({3, 3})(tree);
  EXPECT_TRUE(tree.run_diverged());
}

// A recovery that reads whatever a coin says, not only what it has read before: as many candidates, elsewhere.
TEST(ChoiceTree, RunThatAsksForSomethingElseDiverged) {
  Log log;
  for (int i = 0; i < 3; ++i) log.add_location(0);
  for (LocationId l = 0; l < 3; ++l) {
    for (Value v : {1, 2}) log.add_event(0, std::vector{Write{l, v}}, {});
  }
  log.seal();
  Cut cut(log);
  const auto read = [&](ChoiceTree& tree, std::vector<LocationId> locations) {
    cut.reset();
    tree.begin_run();
    for (LocationId l : locations) cut.read(l, tree);
    return tree.run_diverged();
  };
  ChoiceTree tree;
  EXPECT_FALSE(read(tree, {0, 1}));
  EXPECT_TRUE(read(tree, {2, 1}));
  EXPECT_FALSE(read(tree, {0, 1}));
  ASSERT_TRUE(tree.advance());
  EXPECT_TRUE(read(tree, {0, 2}));
  EXPECT_TRUE(read(tree, {1, 0}));
  // It is the same tree to whoever takes it over.
  ChoiceTree taken_over = ChoiceTree::from_numbers(tree.to_numbers());
  EXPECT_TRUE(read(taken_over, {0, 2}));
  EXPECT_FALSE(read(taken_over, {0, 1}));
}

// The same location and as many candidates, but others: the last write is out, or the first one is in.
TEST(ChoiceTree, OtherCandidatesAreAnotherQuestion) {
  Log log;
  const LocationId flag = log.add_location(0);
  const LocationId data = log.add_location(0);
  const EventId first = log.add_event(0, std::vector{Write{data, 1}}, {});
  const EventId second = log.add_event(0, std::vector{Write{data, 2}, Write{flag, 1}}, std::vector{first});
  log.add_event(0, std::vector{Write{data, 3}, Write{flag, 2}}, std::vector{second});
  log.seal();
  Cut cut(log);
  const auto ask_data_after = [&](std::uint32_t answer) {
    ChoiceTree tree(Path{answer});
    cut.reset();
    cut.read(flag, tree);
    return Choice{log, data, cut.candidates(data)}.question();
  };
  const Question flag_is_2 = ask_data_after(0);
  const Question flag_is_1 = ask_data_after(1);
  const Question flag_is_0 = ask_data_after(2);
  EXPECT_EQ(flag_is_2.count, 1u);
  EXPECT_EQ(flag_is_1.count, 1u);
  EXPECT_NE(flag_is_2.asked, flag_is_1.asked);
  EXPECT_EQ(flag_is_0.count, 2u);
  EXPECT_EQ(flag_is_0.asked, ask_data_after(2).asked);
}

TEST(ChoiceTree, AnswerThatIsNotOfferedDiverged) {
  for (const Path& bad : Paths{{2}, {7}, {std::numeric_limits<std::uint32_t>::max()}}) {
    ChoiceTree tree(bad);
    tree.begin_run();
    EXPECT_EQ(tree.choose_among({2}), 0u);
    EXPECT_TRUE(tree.run_diverged()) << to_text(bad);
  }
}

TEST(ChoiceTree, DivergenceIsOfTheLastRunOnly) {
  const auto other_programs = {ask({2}), ask({2, 3}), ask({4, 2}), ask({4, 2, 2, 2}), ask({})};
  ChoiceTree tree(Path{1, 1});
  tree.begin_run();
  ask({2, 2})(tree);
  for (const auto& other : other_programs) {
    tree.begin_run();
    other(tree);
    EXPECT_TRUE(tree.run_diverged());
    EXPECT_EQ(tree.path(), (Path{1, 1}));  // still the one to follow
    tree.begin_run();
    ask({2, 2})(tree);
    EXPECT_FALSE(tree.run_diverged());
  }
}

TEST(ChoiceTreeDeathTest, AChoiceOfOneIsNone) {
  ChoiceTree tree;
  EXPECT_DEATH(tree.choose_among({1}), "broken invariant");
  EXPECT_DEATH(tree.choose_among({0}), "broken invariant");
}

TEST(PathText, RoundTrips) {
  for (const Path& path : Paths{{}, {0}, {7}, {0, 2, 1}, {4294967295u, 0}}) {
    Path back{99};
    EXPECT_TRUE(from_text(to_text(path), back)) << to_text(path);
    EXPECT_EQ(back, path);
  }
  EXPECT_EQ(to_text({}), "-");
  EXPECT_EQ(to_text({0, 2, 1}), "0.2.1");
}

TEST(PathText, RefusesWhatIsNoPath) {
  for (const char* bad : {"",
                          ".",
                          "..",
                          "1.",
                          ".1",
                          "1..2",
                          "--",
                          "-1",
                          "1.-",
                          "-.1",
                          "+1",
                          " 1",
                          "1 ",
                          "1. 2",
                          "1,2",
                          "0x1",
                          "1e3",
                          "a",
                          "1.a",
                          "1a",
                          "1.2\n",
                          "4294967296",
                          "1.99999999999999999999",
                          "1/2"}) {
    Path path;
    EXPECT_FALSE(from_text(bad, path)) << '"' << bad << '"';
  }
}

TEST(Explore, CountBudgetEndsAndGoesOn) {
  ChoiceTree tree;
  const Exploration first = explore(tree, Budget{.runs_max = 5}, ask({4, 3}));
  EXPECT_EQ(first.runs, 5u);
  EXPECT_FALSE(first.complete);
  EXPECT_DOUBLE_EQ(first.estimated_runs_left, 7);
  const Exploration second = explore(tree, Budget{.runs_max = 100}, ask({4, 3}));
  EXPECT_EQ(second.runs, 7u);
  EXPECT_TRUE(second.complete);
  EXPECT_EQ(second.estimated_runs_left, 0);
  EXPECT_EQ(tree.run_count(), 12u);
}

TEST(Explore, BudgetOfExactlyTheTreeIsComplete) {
  ChoiceTree tree;
  const Exploration result = explore(tree, Budget{.runs_max = 12}, ask({4, 3}));
  EXPECT_EQ(result.runs, 12u);
  EXPECT_TRUE(result.complete);
}

TEST(Explore, DoneTreeIsNotRunAgain) {
  ChoiceTree tree;
  explore(tree, Budget{}, ask({2}));
  const Exploration again = explore(tree, Budget{}, [](ChoiceTree&) { FAIL() << "run again"; });
  EXPECT_EQ(again.runs, 0u);
  EXPECT_TRUE(again.complete);
}

TEST(Explore, TimeBudgetEndsAnEndlessSearch) {
  ChoiceTree tree;
  const std::vector<std::uint32_t> widths(200, 2);
  const auto start = std::chrono::steady_clock::now();
  const Exploration result = explore(tree, Budget{.time_max = std::chrono::milliseconds(20)}, ask(widths));
  EXPECT_FALSE(result.complete);
  EXPECT_GE(result.runs, 1u);
  EXPECT_GT(result.estimated_runs_left, 1e30);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(20));
}

TEST(Explore, SpentTimeStillAllowsOneRun) {
  ChoiceTree tree;
  const Exploration result = explore(tree, Budget{.time_max = std::chrono::nanoseconds(1)}, [](ChoiceTree& t) {
    t.choose_among({2});
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() == start) {
    }
  });
  EXPECT_EQ(result.runs, 1u);
  EXPECT_FALSE(result.complete);
}

TEST(Explore, StopsAtARunThatDiverges) {
  ChoiceTree tree;
  int run = 0;
  const Exploration result = explore(tree, Budget{}, [&](ChoiceTree& t) {
    t.choose_among({2});
    t.choose_among({++run < 3 ? 3u : 2u});
  });
  EXPECT_EQ(result.runs, 3u);
  EXPECT_TRUE(result.diverged);
  EXPECT_FALSE(result.complete);
}

}  // namespace
}  // namespace crashcut::persist
