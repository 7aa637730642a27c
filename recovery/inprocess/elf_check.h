// Whether a file is a program that the in-process front end can run: 64-bit x86, dynamically linked, not setuid.
#pragma once

#include <string>
#include <tl/expected.hpp>

namespace crashcut::inprocess {

// The error is a sentence.
tl::expected<void, std::string> check_executable(const std::string& path);

}  // namespace crashcut::inprocess
