// Work: subtrees of choices that are still to be explored, shared by all processes of an exploration.
//
// A queue in shared memory. Whoever takes an item owes work_done() for it; when none is owed and none is queued,
//   the exploration is over. Threads and processes: a spin lock in the shared memory.
#pragma once

#include <cstdint>
#include <vector>

namespace crashcut::inprocess {

// How the recoveries below a path are run.
enum class WorkMode : std::uint32_t {
  kAgain,   // each from the beginning, in an image of one process that stays as it is: cheapest for short recoveries
  kBranch,  // forked at each choice: what came before it is not run again
};

struct Work {
  WorkMode mode;
  std::vector<std::uint32_t> path;
};

// An exploration begins: the first work is owed before it is there, so that nobody leaves early.
void clear_work();
void add_first_work(const std::vector<std::uint32_t>& path);
void add_work(const Work& work);
// Waits for work while others may still add some. False where the exploration is over or stopped.
bool take_work(Work& work);
void work_done();
bool has_work_left();
// Somebody waits for work and there is none.
bool is_work_wanted();

}  // namespace crashcut::inprocess
