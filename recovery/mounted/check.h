// Check: a recorded program under one model: every question asked of every crash state, the smallest violation told.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "recovery/mounted/plan.h"
#include "recovery/mounted/record.h"
#include "recovery/mounted/token.h"
#include "recovery/result/result.h"
#include "recovery/search/check.h"

namespace crashcut::mounted {

// `words` are the program and its arguments, as typed.
result::Head head_of(const std::string& command, const CheckPlan& plan, const std::vector<std::string>& words);
// How the recorded run went, a line each.
std::string recorded_text(const Recorded& recorded, const CheckPlan& plan);

struct Checked {
  result::Result result;
  std::string rest{};  // what is left to do, as a text for a file; empty: nothing that can be gone on with
};
// Sets recorded.was_cut where it cuts the recording: it is cut for every later search.
tl::expected<Checked, Failure> check(const CheckPlan& plan, const result::Head& head, Recorded& recorded,
                                     const search::Hooks& hooks, const search::Rest* before = nullptr);

// What a text of Checked::rest says. The plan is without directory and bounds.
struct Stopped {
  CheckPlan plan;
  std::vector<std::string> words;
  Recorded recorded;
  search::Rest rest;
};
tl::expected<Stopped, std::string> read_rest(std::string_view text);

// One recovery again. The trace must be the one that the token was made from.
tl::expected<search::Replayed, Failure> replay(const CheckToken& token);
// Opens the user's shell in the state.
tl::expected<int, Failure> open_shell(const CheckToken& token);
// Writes the state out as a plain tree.
tl::expected<void, Failure> write_image(const CheckToken& token, const std::string& directory);

}  // namespace crashcut::mounted
