// What a command prints, for small questions to other programs.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace crashcut {

// What it writes to its standard output; empty where it cannot be run. Once `is_late` says yes, which is asked some
// times a second, it is killed.
std::string output_of(const std::vector<std::string>& command, const std::function<bool()>& is_late = {});

}  // namespace crashcut
