// ThreadRest: what a search of crashcut threads that was stopped has still to do; and the text that holds it, with all
// that it takes to go on. docs/tokens.md has the format.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

#include "recovery/threads/check.h"

namespace crashcut::recovery {

inline constexpr std::string_view kRestPrefix = "cr3";

std::string encode_rest(const ThreadPlan& plan, const ThreadRest& rest);
// The plan is without what belongs to this run: executable, runtime, jobs. The error is a sentence.
tl::expected<std::pair<ThreadPlan, ThreadRest>, std::string> decode_rest(std::string_view text);

}  // namespace crashcut::recovery
