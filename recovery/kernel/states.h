// KernelStates: what a program can find on the kernel's filesystem after a crash, as far as runs and images show it.
#pragma once

#include <map>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/kernel/plan.h"

namespace crashcut::kernel {

// The command that says what a disk holds, on its stdout.
struct Looking {
  mounted::CommandLine command;
  bool is_read_only = true;  // it writes nothing
  bool may_fail = false;     // its exit status says nothing
};

struct KernelStates {
  std::map<std::string, std::string> states;  // what was printed -> the first image that showed it, in words
  std::uint64_t images = 0;                   // mounted: equal ones, also after the replay of the journal, once
  std::uint64_t chosen = 0;                   // before that
};

// Looks at every image of the runs that are in the program's directory.
tl::expected<KernelStates, Failure> states_of_runs(const mounted::RecordPlan& program, const DiskPlan& disk,
                                                   const Looking& looking, std::uint64_t seed);
// The same, after it has run the program as record_runs() does, over the base that is in its directory.
tl::expected<KernelStates, Failure> find_states(const mounted::RecordPlan& program, const DiskPlan& disk,
                                                const Looking& looking, std::uint64_t seed);

}  // namespace crashcut::kernel
