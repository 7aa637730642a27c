// Pool: all questions of a search, shared out among workers as units that can be given away.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/search/front_end.h"
#include "recovery/search/plan.h"
#include "recovery/search/rest.h"

namespace crashcut::search {

using result::Bound;

struct Explored {
  Tally tally;
  Bound bound = Bound::kNone;
  result::Fraction fraction{1, 1, 1};  // of the whole
  double seconds = 0;
  std::uint64_t sampled = 0;   // of the recoveries: not by the tree but by a strategy
  std::optional<Rest> rest{};  // where something is left that can be gone on with, or plan.keeps_finished
};

class Pool {
 public:
  // Starts a worker; explore() starts the others when it has taken a moment. Both may fork, so call them before there
  // are threads.
  static tl::expected<std::unique_ptr<Pool>, Failure> start(FrontEnd& front_end, const Plan& plan);
  ~Pool();

  // `before` is what an earlier search left; none: all of it. The recoveries of `known` are run first.
  struct Known {
    std::size_t question;
    persist::Path path;
  };
  tl::expected<Explored, Failure> explore(const Hooks& hooks, const Rest* before, const std::vector<Known>& known);

  // One recovery, told; the brief form is Explorer::tell()'s. From the deadline on it is stopped; so it is when the
  // search is interrupted once more.
  using Clock = std::chrono::steady_clock;
  tl::expected<NarratedRun, Failure> tell(std::size_t question, const std::vector<std::uint32_t>& path,
                                          Clock::time_point deadline, bool is_brief = false);
  tl::expected<Run, Failure> run_cut(std::size_t question, const std::vector<std::uint32_t>& events, std::uint32_t drop,
                                     Clock::time_point deadline);

 private:
  struct Impl;
  explicit Pool(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace crashcut::search
