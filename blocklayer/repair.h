// Repair: the flushes that a program on a raw device may lack, for one crash of its recording.
//
// A flush helps against a crash that left a request on the drive and lost a write that had completed before: with the
//   flush in between, that crash cannot be. Which flush leaves no crash that fails is found by replaying the trace with
//   it (blocklayer::replay), and exploring that.
#pragma once

#include <functional>
#include <vector>

#include "blocklayer/recording.h"
#include "persist/added_sync.h"

namespace crashcut::blocklayer {

// `is_in` says which events the crash left. One flush comes before one each time that the place was executed.
std::vector<persist::SyncCandidate> find_missing_flushes(const DriveRecording& recording,
                                                         const std::function<bool(persist::EventId)>& is_in);

}  // namespace crashcut::blocklayer
