// How much of a tree of choices is done: estimates of the tree itself, of its parts, and of its leaves alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "persist/explore.h"
#include "persist/leaf_estimate.h"
#include "tests/choice_programs.h"
#include "tests/seeds.h"

namespace crashcut::persist {
namespace {

// Notes how many answers the choices of a run have.
struct Counting {
  ChoiceTree& tree;
  Path counts;

  std::uint32_t choose_among(const Question& question) {
    counts.push_back(question.count);
    return tree.choose_among(question);
  }
};

TEST(ChoiceTree, FractionIsOneAtTheEndOnly) {
  tests::for_each_seed(200, [](std::uint64_t seed) {
    const RandomProgram program{seed, 7};
    ChoiceTree tree;
    EXPECT_EQ(tree.explored_fraction(), 0);
    double runs = 0;
    explore(tree, Budget{}, [&](ChoiceTree& t) {
      program(t);
      EXPECT_LT(t.explored_fraction(), 1) << "CRASHCUT_SEED=" << seed;
      EXPECT_EQ(t.weight_done(), runs++);
      const Estimate estimate = t.estimate();
      EXPECT_LE(estimate.low, estimate.likely * (1 + 1e-12));
      EXPECT_LE(estimate.likely, estimate.high * (1 + 1e-12));
      EXPECT_GE(estimate.low, runs);
    });
    EXPECT_EQ(tree.explored_fraction(), 1);
    EXPECT_EQ(tree.estimate().likely, runs);
    return !testing::Test::HasFailure();
  });
}

// Parts that were given away are estimated as the whole would be.
TEST(ChoiceTree, SplitSaysHowLargeItsPartsAre) {
  ChoiceTree tree;
  tree.begin_run();
  ask({5, 3})(tree);
  ASSERT_TRUE(tree.advance());
  const ChoiceTree::Split given = tree.split();
  EXPECT_EQ(given.prefixes.size(), 2u);
  EXPECT_DOUBLE_EQ(given.each.likely, 3);
  EXPECT_DOUBLE_EQ(tree.estimate().likely, 9);
}

// Deeper than functions can call each other.
TEST(LeafEstimate, ATreeMayBeVeryDeep) {
  std::vector<std::uint32_t> path(1'000'000, 0);
  const std::vector<std::uint32_t> counts(path.size(), 2);
  LeafEstimate leaves;
  for (std::uint32_t last = 0; last < 2; ++last) {
    path.back() = last;
    leaves.add(path, counts);
  }
  EXPECT_GT(leaves.estimate().likely, 1e6);
  EXPECT_LT(leaves.fraction(), 1e-5);
}

// However much of an even tree is given away, the parts together are estimated as the whole is.
TEST(ChoiceTree, GivingAwayDoesNotChangeTheEstimateOfTheWhole) {
  const auto program = ask(std::vector<std::uint32_t>(12, 2));
  std::mt19937_64 coin(1);
  std::deque<std::pair<ChoiceTree, double>> begun;  // and what each was said to be when it was given away
  std::deque<std::pair<Path, double>> given{{Path{}, 4096}};
  double done = 0;
  while (!begun.empty() || !given.empty()) {
    if (begun.empty() || (begun.size() < 4 && !given.empty())) {
      begun.emplace_back(ChoiceTree(given.front().first), given.front().second);
      given.pop_front();
    }
    auto [tree, size] = std::move(begun.front());
    begun.pop_front();
    tree.begin_run();
    program(tree);
    if (coin() % 2 == 0) {
      const ChoiceTree::Split split = tree.split();
      for (const Path& prefix : split.prefixes) given.emplace_back(prefix, split.each.likely);
    }
    if (tree.advance()) {
      begun.emplace_back(std::move(tree), size);
    } else {
      done += tree.weight_done();
    }
    double all = done;
    for (const auto& [other, said] : begun) all += other.run_count() == 0 ? said : other.estimate().likely;
    for (const auto& [prefix, said] : given) all += said;
    ASSERT_NEAR(all / 4096, 1, 0.01);
  }
  EXPECT_EQ(done, 4096);
}

// Three runs of weight 4 below the first answer, then the rest is taken to be like these.
TEST(ChoiceTree, RunsCountByTheirWeight) {
  ChoiceTree tree;
  for (int i = 0; i < 3; ++i) {
    tree.begin_run();
    ask({2, 3})(tree);
    ASSERT_TRUE(tree.advance(4));
  }
  EXPECT_DOUBLE_EQ(tree.weight_done(), 12);
  EXPECT_DOUBLE_EQ(tree.estimate().likely, 24);
  tree.begin_run();
  ask({2, 3})(tree);
  EXPECT_DOUBLE_EQ(tree.estimate(Estimate{8, 8, 8}).likely, 12 + 3 * 8);
}

// From its leaves alone, in whatever order they come, a tree is estimated by numbers that make sense, and at the end by
// the truth.
TEST(LeafEstimate, EndsAtTheTruth) {
  tests::for_each_seed(30, [](std::uint64_t seed) {
    const RandomProgram program{seed, 7};
    std::vector<std::pair<Path, Path>> leaves;
    LeafEstimate in_order;
    ChoiceTree tree;
    do {
      Counting counting{tree, {}};
      tree.begin_run();
      program(counting);
      leaves.emplace_back(tree.path(), counting.counts);
      in_order.add(tree.path(), counting.counts);
      const Estimate found = in_order.estimate();
      EXPECT_GE(found.low, in_order.done() * (1 - 1e-9)) << "CRASHCUT_SEED=" << seed;
      EXPECT_LE(found.low, found.likely * (1 + 1e-9));
      EXPECT_GE(found.high, found.likely * (1 - 1e-9));
    } while (tree.advance());
    EXPECT_EQ(in_order.fraction(), 1);
    std::shuffle(leaves.begin(), leaves.end(), std::mt19937_64(seed));
    LeafEstimate shuffled;
    for (const auto& [path, counts] : leaves) {
      EXPECT_LT(shuffled.fraction(), 1);
      shuffled.add(path, counts);
    }
    EXPECT_EQ(shuffled.fraction(), 1);
    EXPECT_EQ(shuffled.estimate().likely, static_cast<double>(leaves.size()));
    return !testing::Test::HasFailure();
  });
}

// On an even tree every estimate is right from the first leaf on, as a search's own is.
TEST(LeafEstimate, IsExactOnAnEvenTree) {
  const std::vector<std::uint32_t> widths{3, 2, 4};
  LeafEstimate leaves;
  ChoiceTree tree;
  do {
    tree.begin_run();
    ask(widths)(tree);
    leaves.add(tree.path(), widths);
    EXPECT_NEAR(leaves.estimate().likely, 24, 1e-9);
    EXPECT_NEAR(tree.estimate().likely, 24, 1e-9);
  } while (tree.advance());
}

// Several processes explore a deep tree from several places on, and their leaves come in turn.
TEST(LeafEstimate, LeavesOfDeepTreesComeFromSeveralPlaces) {
  constexpr std::size_t kDepth = 500, kPlaces = 6;
  std::vector<Path> paths{Path(kDepth, 0)};
  for (std::size_t i = kDepth; i-- > 0;) {
    paths.emplace_back(i + 1, 0);
    paths.back().back() = 1;
  }
  LeafEstimate leaves, in_order;
  for (const Path& path : paths) in_order.add(path, Path(path.size(), 2));
  const std::size_t each = (paths.size() + kPlaces - 1) / kPlaces;
  for (std::size_t i = 0; i < each; ++i) {
    for (std::size_t at = i; at < paths.size(); at += each) {
      EXPECT_LT(leaves.fraction(), 1);
      leaves.add(paths[at], Path(paths[at].size(), 2));
    }
  }
  for (const LeafEstimate* all : {&leaves, &in_order}) {
    EXPECT_EQ(all->fraction(), 1);
    EXPECT_EQ(all->estimate().likely, kDepth + 1);
  }
}

// Two runs, each with two others below it: {0}, {0 below 0}, ...
TEST(LeafEstimate, RunsBelowARunCountForIt) {
  constexpr std::uint32_t kBelow = LeafEstimate::kBelow;
  LeafEstimate leaves;
  leaves.add(Path{0, kBelow, 0}, Path{2, 1, 2});
  EXPECT_DOUBLE_EQ(leaves.estimate().likely, 6);
  leaves.add(Path{0, kBelow, 1}, Path{2, 1, 2});
  leaves.add(Path{0}, Path{2});
  EXPECT_DOUBLE_EQ(leaves.estimate().likely, 6);
  EXPECT_DOUBLE_EQ(leaves.fraction(), 0.5);
  leaves.add(Path{1, kBelow}, Path{2, 1});
  leaves.add(Path{1}, Path{2});
  EXPECT_EQ(leaves.fraction(), 1);
}

TEST(ChoiceTree, FractionOfADeepTreeIsNotZero) {
  ChoiceTree tree;
  EXPECT_EQ(tree.explored_fraction(), 0);
  explore(tree, Budget{.runs_max = 1}, ask(std::vector<std::uint32_t>(5000, 2)));
  EXPECT_GT(tree.explored_fraction(), 0);
  EXPECT_LT(tree.explored_fraction(), 1e-300);
}

TEST(ChoiceTree, FractionAndEstimateAreExactOnAnEvenTree) {
  ChoiceTree tree;
  std::uint64_t runs = 0;
  const auto total = [](const ChoiceTree& t) { return static_cast<double>(t.run_count()) + t.estimated_runs_left(); };
  explore(tree, Budget{}, [&](ChoiceTree& t) {
    ask({2, 4, 4})(t);
    EXPECT_DOUBLE_EQ(t.explored_fraction(), static_cast<double>(runs) / 32);
    if (runs > 0) {
      EXPECT_DOUBLE_EQ(total(t), 32);
    } else {
      EXPECT_TRUE(std::isinf(total(t)));
    }
    ++runs;
  });
  EXPECT_EQ(runs, 32u);
  EXPECT_EQ(total(tree), 32);
}

TEST(ChoiceTree, EstimateOfAResumedTreeCountsItsOwnRuns) {
  ChoiceTree tree({}, Path{1, 0});
  const Exploration result = explore(tree, Budget{.runs_max = 2}, ask({4, 2}));
  EXPECT_DOUBLE_EQ(result.estimated_runs_left, 4);
}

}  // namespace
}  // namespace crashcut::persist
