// Moments: when the power can have failed, if it left a given cut.
#pragma once

#include <cstdint>

#include "persist/cut.h"
#include "persist/recording.h"

namespace crashcut::persist {

// Operations by their numbers. "At operation n": after operation n has run, and before operation n + 1 has completed.
struct Moments {
  std::uint32_t earliest = 0;
  std::uint32_t latest = 0;
};

// A crash cannot come before an event that persisted was made, nor after a sync (an fsync, a fence, a mark) that is
// certainly not in the cut: a completed sync is. Every moment between the two is possible. Take the cut with all syncs
// before the moment and what lies below them: no such sync is out, so nothing below it is.
// Cost: the events of the log.
Moments moments_of(const Recording& recording, const Cut& cut);

}  // namespace crashcut::persist
