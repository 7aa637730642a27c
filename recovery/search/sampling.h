// Sampling: which states to look at when there are more than the budget allows.
//
// In this order: those nearest to losing what was promised (every promise kept as a mark, and the oldest of
//   everything else), those that differ least from nothing lost, and any. The first sample of the first kind loses all
//   that may be lost, the first of the second kind loses nothing. Every other one of the second kind loses at one
//   choice alone, the first, the second and so on: a checksum over what was written must tell each of these from the
//   whole.
#pragma once

#include <random>

#include "persist/recording.h"

namespace crashcut::search {

enum class Strategy { kAfterPromises, kFewDropped, kRandom };
inline constexpr int kStrategyCount = 3;

class Sampler final : public persist::Chooser {
 public:
  // `round` counts the samples of this strategy from 0.
  Sampler(const persist::Recording& recording, Strategy strategy, std::uint64_t round, std::mt19937_64& random);
  std::uint32_t choose(const persist::Choice& choice) override;

 private:
  const persist::Recording& recording_;
  Strategy strategy_;
  std::mt19937_64& random_;
  double rate_;               // how often the strategy's favourite is not taken
  std::uint64_t dropped_at_;  // the only choice at which it is not; kNever
  std::uint64_t choices_so_far_ = 0;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
};

}  // namespace crashcut::search
