// FlushMend: the flush or fence that a program of machines lacks, found by trying it.
//
// A violation names candidates: after the stores that a failed machine lost, a flush of their lines, with a fence or
//   without; after a flush of such a line that was begun, a fence. The program is run as if it had them
//   (recovery/inprocess/memory/cxl_threads.h), and all that was searched is searched again, within the same bounds, up
//   to the first execution that fails. The cheapest change without a failure is told.
// If none alone helps, several are tried together: each is against a violation that the others leave. What is not
// needed
//   is left out again.
// A place is code of a program, and so of all machines that run it.
// What was not explored to its end, or to --max-executions, is not told.
#pragma once

#include "recovery/threads/check.h"

namespace crashcut::recovery {

void add_flush_mends(const ThreadPlan& plan, const persist::Deadline& deadline, ThreadResult& result);

}  // namespace crashcut::recovery
