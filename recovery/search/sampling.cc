#include "recovery/search/sampling.h"

#include <algorithm>

namespace crashcut::search {

Sampler::Sampler(const persist::Recording& recording, Strategy strategy, std::uint64_t round, std::mt19937_64& random)
    : recording_(recording), strategy_(strategy), random_(random) {
  // The favourite alone first; then more and more of the others.
  constexpr double kRates[] = {0.02, 0.05, 0.1, 0.2, 0.4};
  rate_ = round == 0 ? 0 : kRates[std::min<std::uint64_t>(round / 16, std::size(kRates) - 1)];
  constexpr std::uint64_t kRoundsOfOne = 128;
  const bool drops_one = strategy == Strategy::kFewDropped && round < kRoundsOfOne && round % 2 == 1;
  dropped_at_ = drops_one ? round / 2 : kNever;
}

std::uint32_t Sampler::choose(const persist::Choice& choice) {
  const auto count = static_cast<std::uint32_t>(choice.candidates.size());
  const auto any = [&] { return std::uniform_int_distribution<std::uint32_t>(0, count - 1)(random_); };
  const std::uint64_t number = choices_so_far_++;
  if (dropped_at_ != kNever) return number == dropped_at_ ? 1 : 0;
  if (strategy_ == Strategy::kRandom) return any();
  if (std::bernoulli_distribution(rate_)(random_)) return any();
  if (strategy_ == Strategy::kFewDropped) return 0;
  const bool is_mark = &choice.log == &recording_.log && recording_.is_mark(choice.location);
  return is_mark ? 0 : count - 1;
}

}  // namespace crashcut::search
