// Digest: a recording as what recoveries can tell of it: events, their order, and the history of each location, under
// names that are the same in all executions (persist::StableNames). Made in the runner, read by crashcut.
//
// Words of 64 bits: number of events, of barriers, the barrier that the starting state ends with; the event that each
//   barrier is; of each event its epoch, the barrier that it is (0: none), 1 where it is durable, the number of its
//   direct predecessors and these; number of locations; of each its name, its listing (0: none), the number of its
//   writes, and of each the event and the value's name.
#pragma once

#include <cstdint>
#include <vector>

#include "persist/recording.h"

namespace crashcut::inprocess {

// False where there is no room, or the recording has no such names.
bool write_digest(const persist::Recording& recording, std::uint64_t* words, std::uint64_t words_most,
                  std::uint64_t& used);

}  // namespace crashcut::inprocess
