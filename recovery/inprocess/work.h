// Work: parts of the tree of choices that are still to be explored, shared by all processes of an exploration.
//
// A queue in shared memory (WorkQueue in protocol.h). A process that takes an item owes work_done() for it; when none
//   is owed and none is queued, the exploration is over. If it is stopped before, every process puts what it has not
//   explored back into the queue: what the queue then holds is exactly what is left.
// Threads and processes: a spin lock in the shared memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "persist/choices.h"
#include "recovery/inprocess/protocol.h"

namespace crashcut::inprocess {

struct Work {
  WorkMode mode;
  std::vector<std::uint32_t> numbers;  // as in WorkQueue
};

// An exploration begins: the first work is owed before it is there, so that no process leaves early.
void clear_work();
// `lengths_and_parts` is the payload of a request.
void add_first_work(std::span<const std::uint32_t> lengths_and_parts);
void add_work(const Work& work);
// The exploration was stopped before anybody came to these; or before a process came to the end of its path, which
// allocates nothing.
void leave_work(const std::vector<persist::Path>& paths);
void leave_work(const Slot& slot);
void leave_work(const persist::ChoiceTree& tree);
// Waits for work while others may still add some. False where the exploration is over or stopped.
bool take_work(Work& work);
void work_done();
// Somebody waits for work and there is none.
bool is_work_wanted();

}  // namespace crashcut::inprocess
