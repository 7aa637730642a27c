// Rest: what a search that was stopped has still to do, and what it has found so far; a file in the directory of the
// results holds it. docs/tokens.md has the format.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "persist/choices.h"
#include "recovery/search/tally.h"

namespace crashcut::search {

// A part of the tree of one question. Any worker can explore it.
struct Unit {
  std::size_t question = 0;
  persist::Part part{};                     // of the tree of answers, with result::kCrashAgain between crashes
  std::optional<persist::Estimate> size{};  // recoveries, where something is known of it
};

struct Rest {
  std::vector<Unit> units;
  Tally tree;     // of all units that are done
  Tally samples;  // of states looked at besides
  double seconds = 0;
  std::uint64_t fingerprint = 0;  // of the recording
  std::string own;                // the front end's: what is searched
};

inline constexpr std::string_view kRestPrefix = "cs2";

std::string encode(const Rest& rest);
// It is input from anywhere: the error is a sentence.
tl::expected<Rest, std::string> decode_rest(std::string_view text);

}  // namespace crashcut::search
