// BranchSizes: what the branches of a tree weigh that were explored, to guess the others.
//
// The recursive estimate of Kilby and others (the Landslide thesis, 3.4.3) takes what is not explored to be like its
//   explored siblings. That is far off where the answers of a choice differ: a recovery that finds the newest reads on,
//   one that finds nothing is done, and the first branches of a search are the large ones. So it is learned what the
//   branch of an answer weighed elsewhere in the tree, as a multiple of its node's first branch or by itself, whichever
//   differs less from node to node.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "persist/estimate.h"

namespace crashcut::persist {

class BranchSizes {
 public:
  // The branch of `answer`, of `count`, weighs `weight`; the first branch of the same node weighed `first`.
  void note(std::uint32_t count, std::uint32_t answer, double weight, double first) {
    if (count > kCountMost) return;
    const std::size_t at = index_of(count, answer);
    if (known_.size() <= at) known_.resize(at + 1);
    Known& known = known_[at];
    known.by_itself.add(log2_of(weight));
    known.as_multiple.add(log2_of(weight) - log2_of(first));
  }

  // A branch that is not explored yet, of a node whose first branch is `first`, and whose explored ones weigh `each`.
  Estimate guess(std::uint32_t count, std::uint32_t answer, const Estimate& first, const Estimate& each) const {
    const std::size_t at = index_of(count, answer);
    if (count > kCountMost || at >= known_.size() || known_[at].by_itself.count < kSeenLeast) return each;
    const Series& alone = known_[at].by_itself;
    const Series& multiple = known_[at].as_multiple;
    // A multiple makes the tree the larger one, which is the better mistake: it has the benefit of the doubt.
    const bool is_alone = alone.count >= kAloneLeast && alone.variance() < multiple.variance() / 4;
    const Series& series = is_alone ? alone : multiple;
    const double likely = exp2_of(series.mean()), apart = exp2_of(series.deviation());
    if (is_alone) return {likely / apart, likely, likely * apart};
    return {first.low * likely / apart, first.likely * likely, first.high * likely * apart};
  }

 private:
  static constexpr std::uint32_t kCountMost = 64;
  static constexpr std::uint32_t kSeenLeast = 3, kAloneLeast = 8;

  struct Series {
    std::uint32_t count = 0;
    double sum = 0, sum_of_squares = 0;

    void add(double value) {
      ++count;
      sum += value;
      sum_of_squares += value * value;
    }
    double mean() const { return sum / count; }
    double variance() const {
      const double v = sum_of_squares / count - mean() * mean();
      return v < 0 ? 0 : v;
    }
    // The root, near enough, by some steps of Newton's.
    double deviation() const {
      const double v = variance();
      double root = v < 1 ? (1 + v) / 2 : v / 2 + 0.5;
      for (int i = 0; i < 4; ++i) root = (root + v / root) / 2;
      return root;
    }
  };
  struct Known {
    Series by_itself, as_multiple;
  };

  // Straight lines between the powers of two: near enough, and without libm, which would be loaded into programs under
  // test. One is the inverse of the other.
  static double log2_of(double x) {
    const auto bits = std::bit_cast<std::uint64_t>(x);
    return static_cast<double>(static_cast<std::int64_t>(bits >> 52) - 1023) +
           static_cast<double>(bits & kFraction) / static_cast<double>(kFraction + 1);
  }
  static double exp2_of(double x) {
    if (x > 1000) x = 1000;
    if (x < -1000) x = -1000;
    auto whole = static_cast<std::int64_t>(x);
    if (x < static_cast<double>(whole)) --whole;
    const auto fraction = static_cast<std::uint64_t>((x - static_cast<double>(whole)) * static_cast<double>(kFraction));
    return std::bit_cast<double>(static_cast<std::uint64_t>(whole + 1023) << 52 | fraction);
  }
  static constexpr std::uint64_t kFraction = (std::uint64_t{1} << 52) - 1;

  // The answers of choices of 1, 2, 3, ... answers, one behind the other.
  static std::size_t index_of(std::uint32_t count, std::uint32_t answer) {
    return std::size_t{count} * (count - 1) / 2 + answer;
  }

  std::vector<Known> known_;
};

}  // namespace crashcut::persist
