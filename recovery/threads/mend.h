// Mend: the smallest lock that makes a violation of a threaded program go away, found by trying it.
//
// A change is one of three: code that holds a mutex of the program, two mutexes that are locked in the other order, or
//   code that holds one more mutex. The program is run as if it were changed so (scheduler/runtime/added_locks.h), and
//   its schedules are searched again, within the same bounds, up to the first execution that fails.
// Which code: around the accesses of a data race; around what two threads did to the same object, where another thread
//   came in between; around the two calls by which a thread of a deadlock holds one mutex and waits for another. A
//   change that still fails is tried again with the code that its own violation shows.
// What was not explored to its end, or to --max-executions, is not told.
#pragma once

#include "recovery/threads/check.h"

namespace crashcut::recovery {

// Adds the mends of the finding, at most result::kMendsMost: one of each kind of change, the smallest.
void add_lock_mends(const ThreadPlan& plan, const persist::Deadline& deadline, ThreadResult& result);

}  // namespace crashcut::recovery
