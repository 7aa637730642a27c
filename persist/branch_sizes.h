// BranchSizes: what the explored branches of a tree weigh, to guess what the unexplored ones weigh.
//
// The recursive estimate of Kilby and others (the Landslide thesis, 3.4.3) assumes that an unexplored branch is like
//   its explored siblings. That is far off if the answers of a choice differ: a recovery that finds the newest version
//   reads on, a recovery that finds nothing is done, and a search explores large branches first. So this class learns
//   what the branch of an answer weighs elsewhere: as such, and as a multiple of the weight of the node's first branch.
//   It uses the one that differs less from node to node.
//
// It also learns how far its guesses are off. When a large branch is complete, its weight is compared with what the
//   guess was. The errors of the largest branches say how far the truth may be from an estimate of the tree.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "persist/estimate.h"

namespace crashcut::persist {

class BranchSizes {
 public:
  // The branch of `answer`, one of `count` answers, weighs `weight`. The first branch of the same node weighs `first`,
  // and the branches of the node that were explored before this one weigh `each` on average.
  void note(std::uint32_t count, std::uint32_t answer, double weight, double first, double each) {
    if (first >= kLargeLeast) note_error(guess(count, answer, first, each), weight);
    if (count > kCountMost) return;
    const std::size_t at = index_of(count, answer);
    if (known_.size() <= at) known_.resize(at + 1);
    Known& known = known_[at];
    known.by_itself.add(log2_of(weight));
    known.as_multiple.add(log2_of(weight) - log2_of(first));
  }

  // What an unexplored branch weighs. `first` and `each` are those of its node, as in note().
  double guess(std::uint32_t count, std::uint32_t answer, double first, double each) const {
    const std::size_t at = index_of(count, answer);
    if (count > kCountMost || at >= known_.size() || known_[at].by_itself.count < kSeenLeast) return each;
    const Series& alone = known_[at].by_itself;
    const Series& multiple = known_[at].as_multiple;
    // In doubt the multiple is used. It makes the tree larger, which is the better mistake.
    const bool is_alone = alone.count >= kAloneLeast && alone.variance() < multiple.variance() / 4;
    return is_alone ? exp2_of(alone.mean()) : first * exp2_of(multiple.mean());
  }

  // The estimate of a tree that has `likely` runs, by guesses. `done` of them are over, and one at least is to come.
  Estimate range_of(double likely, double done) const {
    const double factor = error_factor(), rest = likely - done;
    return {done + std::min(rest, std::max(1.0, rest / factor)), likely, done + rest * factor};
  }

 private:
  static constexpr std::uint32_t kCountMost = 64;
  static constexpr std::uint32_t kSeenLeast = 3, kAloneLeast = 8;
  // A branch is large if the first branch of its node weighs this much. The errors of the largest branches are used:
  // kErrorsLeast of them, if there are so many.
  static constexpr double kLargeLeast = 8;
  static constexpr std::uint32_t kErrorsLeast = 8;
  // Until more is known: four guesses that were off by a factor of 2.5 (as a power of two).
  static constexpr double kFirstErrorCount = 4, kFirstError = 1.3;
  // The range reaches so many standard deviations to each side: the truth then lies in nine of ten ranges.
  static constexpr double kRange = 1.7;

  struct Series {
    std::uint32_t count = 0;
    double sum = 0, sum_of_squares = 0;

    void add(double value) {
      ++count;
      sum += value;
      sum_of_squares += value * value;
    }
    double mean() const { return sum / count; }
    double variance() const { return std::max(0.0, sum_of_squares / count - mean() * mean()); }
  };
  struct Known {
    Series by_itself, as_multiple;
  };

  void note_error(double guessed, double weight) {
    const std::size_t size = exponent_of(guessed);
    if (errors_.size() <= size) errors_.resize(size + 1);
    errors_[size].add(log2_of(weight) - log2_of(guessed));
  }

  // In most cases guesses are off by less than this factor.
  double error_factor() const {
    double squares = kFirstErrorCount * kFirstError * kFirstError;
    std::uint32_t used = 0;
    for (std::size_t size = errors_.size(); size-- > 0 && used < kErrorsLeast;) {
      used += errors_[size].count;
      squares += errors_[size].sum_of_squares;
    }
    return exp2_of(kRange * root_of(squares / (kFirstErrorCount + used)));
  }

  // Without libm, which would be loaded into programs under test. The square root is Newton's, near enough. Logarithms
  // are straight lines between the powers of two, and exp2_of() is the inverse of log2_of().
  static double root_of(double square) {
    double root = (1 + square) / 2;
    for (int i = 0; i < 6; ++i) root = (root + square / root) / 2;
    return root;
  }
  static double log2_of(double x) {
    const auto bits = std::bit_cast<std::uint64_t>(x);
    return static_cast<double>(static_cast<std::int64_t>(bits >> 52) - 1023) +
           static_cast<double>(bits & kFraction) / static_cast<double>(kFraction + 1);
  }
  static double exp2_of(double x) {
    x = std::clamp(x, -1000.0, 1000.0);
    auto whole = static_cast<std::int64_t>(x);
    if (x < static_cast<double>(whole)) --whole;
    const auto fraction = static_cast<std::uint64_t>((x - static_cast<double>(whole)) * static_cast<double>(kFraction));
    return std::bit_cast<double>(static_cast<std::uint64_t>(whole + 1023) << 52 | fraction);
  }
  // The whole part of the logarithm of a weight, which is at least 1.
  static std::size_t exponent_of(double x) { return x < 2 ? 0 : (std::bit_cast<std::uint64_t>(x) >> 52) - 1023; }
  static constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52) - 1;

  // The answers of choices of 1, 2, 3, ... answers, one behind the other.
  static std::size_t index_of(std::uint32_t count, std::uint32_t answer) {
    return std::size_t{count} * (count - 1) / 2 + answer;
  }

  std::vector<Known> known_;    // by index_of()
  std::vector<Series> errors_;  // of guesses of large branches, by exponent_of() the guess
};

}  // namespace crashcut::persist
