// Repair: the syncs that a program may lack, for one crash of its recording.
//
// A sync of a file helps against a crash that left an operation on the disk and lost something that the program had
//   done to the file before: with the sync in between, that crash cannot be. Which of these syncs leave no crash that
//   fails is found by recording the program again with each of them (Recorder::add_syncs), and exploring that.
// Candidates come in the order of their cost at run time: fdatasync of a file, fsync of a file, fsync of a directory,
//   sync; each once, then each time that the place was executed.
// Not among them: a sync of a file that has no name at that moment, and none later (may miss a mend).
#pragma once

#include <functional>
#include <vector>

#include "fusefs/recording.h"
#include "persist/added_sync.h"

namespace crashcut::fusefs {

// `is_in` says which events the crash left. Empty: nothing that came before them was lost.
std::vector<persist::SyncCandidate> find_missing_syncs(const Recording& recording,
                                                       const std::function<bool(persist::EventId)>& is_in);

}  // namespace crashcut::fusefs
