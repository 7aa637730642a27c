// Whether main() of a program returns a value: void main() leaves its exit code to chance.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace crashcut::recovery {

// By what the compiler told the debugger, or else by its code, which begins at `main`, an address of the file's.
// Once `is_late` says yes the code alone is asked.
bool has_no_result(const std::string& executable, std::uint64_t main, const std::function<bool()>& is_late);

}  // namespace crashcut::recovery
