// Check: every question of a front end asked of every state that a crash can leave; the smallest violation told.
#pragma once

#include <optional>
#include <tl/expected.hpp>

#include "recovery/search/front_end.h"
#include "recovery/search/plan.h"
#include "recovery/search/rest.h"

namespace crashcut::search {

struct Found {
  result::Result result;  // all but its head, and what only the front end knows
  Tally tally;
  std::size_t question = 0;           // of the counterexample
  std::vector<std::uint32_t> path{};  // likewise
  std::uint64_t fingerprint = 0;      // of the recording
  std::optional<Rest> rest{};         // what is left to do, where that can be gone on with
};

// `before` is what an earlier search of the same recording left; none: all of it.
tl::expected<Found, Failure> check(FrontEnd& front_end, const Plan& plan, const Hooks& hooks,
                                   const Rest* before = nullptr);

// One recovery again.
struct Replayed {
  result::Counterexample told;
  bool is_violation = false;
};
tl::expected<Replayed, Failure> replay(FrontEnd& front_end, const result::Token& token, std::size_t question);

// What recoveries gave, for a report: counts, outcomes, those that could not be run.
void add_recoveries(const Tally& tally, result::Result& result);

}  // namespace crashcut::search
