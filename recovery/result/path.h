// The answers that lead to a recovery, over all of its crashes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace crashcut::result {

// In a path: recovery ended here and the power failed again (--depth 2). The answers of the next recovery follow.
inline constexpr std::uint32_t kCrashAgain = 0xffffffff;

// "0.2.1/0.3": a slash stands for another crash. "-" if nothing was chosen.
std::string path_text(std::span<const std::uint32_t> path);

}  // namespace crashcut::result
