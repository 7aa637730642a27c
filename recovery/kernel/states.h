// KernelStates: what a program can find on the kernel's filesystem after a crash, as far as runs and images show it.
#pragma once

#include <map>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "recovery/kernel/plan.h"

namespace crashcut::kernel {

struct KernelStates {
  std::map<std::string, std::string> states;  // what the looker printed -> the first image that showed it, in words
  std::uint64_t images = 0;
  std::uint32_t runs = 0;
};

// Runs the program as record_runs() does, over the base that is in its directory, and the looker on every image.
tl::expected<KernelStates, Failure> find_states(const mounted::RecordPlan& program, const DiskPlan& disk,
                                                const std::vector<std::string>& looker, std::uint64_t seed);

}  // namespace crashcut::kernel
