// Conformer: shares programs out to processes that compare them on the model and on the kernel's ext4.
//
// Most of the time each process waits for disks to be mounted.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/conform_compare.h"
#include "persist/deadline.h"

namespace crashcut::cli {

struct ConformShare {
  const std::vector<ConformCase>& cases;
  std::vector<std::size_t> left;  // which of them are to be compared
  std::uint32_t jobs = 2;         // at a time
  std::string directory;          // for what is needed meanwhile
  const persist::Deadline& deadline;
};

// Calls `on_compared` for each program that was compared, in any order, and `on_wait` some times a second. Returns what
// ended it early: kTime, kInterrupt or kNone.
tl::expected<result::Bound, result::Failure> compare_all(
    const ConformSetup& setup, const ConformShare& share,
    const std::function<void(std::size_t index, const Compared&)>& on_compared, const std::function<void()>& on_wait);

}  // namespace crashcut::cli
