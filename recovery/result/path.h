// The answers that lead to a recovery, over all of its crashes.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace crashcut::result {

// In a path: recovery ended here and the power went again (--depth 2); answers of the next recovery follow.
inline constexpr std::uint32_t kCrashAgain = 0xffffffff;

// "0.2.1/0.3", a slash where the power went again; "-" where nothing was chosen.
std::string path_text(std::span<const std::uint32_t> path);

}  // namespace crashcut::result
