// Conformer: runs programs on the model and on the kernel's ext4, and compares what a crash can leave.
//
// Programs are shared out to processes: most of the time each waits for disks to be mounted.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/conform_case.h"
#include "cli/conform_table.h"

namespace crashcut::cli {

struct ConformBounds {
  std::uint32_t runs = 4, subsets = 32, jobs = 2;
  std::uint64_t seed = 0;
  bool shows_slack = false;
};

// A row for each set, for one way to mount. Prints every state outside of the model, and with `shows_slack` those that
// the kernel did not show. `directory` is for what is needed meanwhile.
tl::expected<std::vector<ConformRow>, result::Failure> conform_with(const std::string& options,
                                                                    const std::vector<ConformCase>& cases,
                                                                    const ConformBounds& bounds,
                                                                    const std::string& directory);

}  // namespace crashcut::cli
