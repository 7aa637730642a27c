// Source lines of addresses in an executable, by its debug information: what binutils' addr2line says.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "recovery/result/story.h"

namespace crashcut::recovery {

using result::SourceLine;

// Of each address, from the executable's beginning, the function that it is in, and, after it, those that it was
// inlined into. Empty for an address outside, and for all where there is no addr2line, or it took until `is_late`.
std::vector<std::vector<SourceLine>> find_source_lines(const std::string& executable,
                                                       const std::vector<std::uint64_t>& addresses,
                                                       const std::function<bool()>& is_late = {});

}  // namespace crashcut::recovery
