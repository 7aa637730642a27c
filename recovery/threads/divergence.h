// Divergence: where a program did something else than before under the same schedule, in words.
#pragma once

#include <optional>
#include <string>

#include "recovery/threads/joint_program.h"

namespace crashcut::recovery {

// The first of these steps that differ, from 0; none where they are the same. An execution that ended earlier differs
// there.
std::optional<std::size_t> first_difference(const scheduler::Execution& expected, const scheduler::Execution& found);

struct Diverged {
  std::size_t step;
  std::optional<scheduler::Step> expected;
  scheduler::Execution found;
  bool is_foreseen;  // from executions under other schedules
};
// Nothing where the two are the same.
std::optional<Diverged> compare(const scheduler::Execution& expected, const scheduler::Execution& found);

// Whether the schedule, run again, leads to the same. Then the program is repeatable, and what was foreseen was wrong:
// threads meet in variables that are not seen, and an order that should make no difference makes one.
bool repeats(JointProgram& program, const scheduler::Execution& found);

// "under the same schedule the program did something else than before. At step 7 thread 1 was to lock mutex m; this
// time ..." `is_by_order`: the schedule is repeatable, but does not lead to what executions that differ only in the
// order of independent steps led to. The schedule is run again to find the names of objects, in a process of its own,
// where it may do the same again, and in `program`, where it may do something else again.
std::string describe(const ThreadPlan& plan, const Diverged& diverged, bool is_by_order,
                     scheduler::runtime::NameTable& names, JointProgram& program, const std::function<bool()>& is_late);

}  // namespace crashcut::recovery
