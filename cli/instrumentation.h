// Instrumentation: the flags that make a compiler tell about every access to memory (-fsanitize=thread), to our runtime
// instead of its own. g++ and clang.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/inprocess/session.h"

namespace crashcut::cli {

// Whether the command is gcc or g++, under whatever name.
bool is_gcc(const std::string& compiler);
// For compiling and for linking; `compiler` is a command.
tl::expected<std::vector<std::string>, result::Failure> instrumentation_flags(const std::string& compiler);

}  // namespace crashcut::cli
