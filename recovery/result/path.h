// The answers that lead to a recovery, over all of its crashes.
#pragma once

#include <cstdint>

namespace crashcut::result {

// In a path: recovery ended here and the power went again (--depth 2); answers of the next recovery follow.
inline constexpr std::uint32_t kCrashAgain = 0xffffffff;

}  // namespace crashcut::result
