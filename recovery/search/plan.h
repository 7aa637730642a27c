// How far a search goes; the same in every command.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "recovery/result/result.h"
#include "recovery/result/token.h"

namespace crashcut::search {

struct Plan {
  std::uint32_t depth = 1;  // crashes in a row
  std::uint32_t jobs = 1;
  std::uint64_t max_recoveries = 0;             // 0: no bound
  std::chrono::duration<double> time_limit{0};  // 0: no bound
  std::uint64_t seed = 0;
  bool wants_all = false;              // the search does not end because something was found
  bool wants_mends = false;            // a violation is told with what makes it go away
  bool ends_at_violation = false;      // the search ends with the first
  bool keeps_finished = false;         // what is left is given even if it is nothing: the result can be told again
  bool samples = true;                 // a budget that is too small for the whole tree is spent on samples, too
  bool wants_states = false;           // Result::states is filled in
  bool wants_all_states = false;       // with all of them: telling one costs as much as some recoveries
  std::vector<result::Token> known{};  // of violations that earlier searches found: tried first, where they still fit

  bool has_budget() const { return max_recoveries > 0 || time_limit.count() > 0; }
};

struct Hooks {
  std::function<void(const result::Progress&)> on_progress;  // about ten times a second
  std::function<bool()> is_interrupted;
};

}  // namespace crashcut::search
