// MissingSync: the fsync of a file or directory that makes a violation of a program's files go away.
//
// The program names candidates (fusefs/repair.h) for the crash that led to the violation. Each is tried by running
//   main() again, with the sync done just before the operation that the candidate names, and by exploring that. A
//   main() that does not do the same when it is run again has no mend.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "recovery/inprocess/prefixes.h"
#include "recovery/inprocess/session.h"
#include "recovery/search/mend.h"

namespace crashcut::inprocess {

struct SyncSearch {
  Session& session;                     // main() was executed in it
  Session::Setup setup;                 // by which it was started
  const Prefixes* prefixes;             // what recoveries may print; null if that is not asked
  std::span<const std::uint32_t> path;  // of the violation
  bool is_slow = false;                 // the violation hung; it was the last single run of the session
  search::Plan plan;                    // of the search that found it
  std::function<bool()> is_over;        // there is no time left
};

search::Mends find_missing_syncs(const SyncSearch& search);

}  // namespace crashcut::inprocess
