// Reads the JSON lines of the runtime in the program (Reply in protocol.h) into a story.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "recovery/result/story.h"

namespace crashcut::inprocess {

// `description` is Session::describe(), `trace` is SingleRun::trace. The error is a sentence.
tl::expected<result::Story, std::string> read_story(std::string_view description, std::string_view trace);

}  // namespace crashcut::inprocess
