// Losses: what the runtime says, step by step, of the stores that a failed machine had in its caches
// (recovery/inprocess/memory/cxl_threads.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace crashcut::recovery {

// A store, and what became of it.
struct StoreAtStake {
  enum Fate : int {
    kInCaches,  // the machine has just failed
    kKept,
    kLost,
    kPoisoned,
    kFlushBegun,  // no fate: a flush of the line at `address` that was begun before the machine failed
  };
  int fate = kInCaches;
  std::uint64_t bytes = 0, address = 0;
  std::uint32_t actor = 0;
  std::uint64_t code = 0;  // 0: not known
};

// Of the text of one step. Pieces of one store that lie side by side are one.
std::vector<StoreAtStake> read_losses(const std::string& text);

}  // namespace crashcut::recovery
