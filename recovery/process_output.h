// What a command prints, for small questions to other programs.
#pragma once

#include <string>
#include <vector>

namespace crashcut {

// What it writes to its standard output; empty where it cannot be run.
std::string output_of(const std::vector<std::string>& command);

}  // namespace crashcut
