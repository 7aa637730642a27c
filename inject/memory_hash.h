// MemoryHash: a hash of ranges of memory, to see whether anything in them has changed. Words of eight bytes.
#pragma once

#include <cstdint>

#include "persist/hash.h"

namespace crashcut::inject {

class MemoryHash {
 public:
  void add(std::uint64_t begin, std::uint64_t end) {
    MemoryHash hash = *this;  // in registers
    const auto* at = reinterpret_cast<const std::uint64_t*>(begin);
    const auto* last = reinterpret_cast<const std::uint64_t*>(end);
    for (; at + kLanes <= last; at += kLanes) {
      for (int i = 0; i < kLanes; ++i) hash.lanes_[i] = persist::mix(hash.lanes_[i], at[i]);
    }
    for (; at < last; ++at) hash.lanes_[0] = persist::mix(hash.lanes_[0], *at);
    *this = hash;
  }
  std::uint64_t number() const {
    std::uint64_t hash = 0;
    for (const std::uint64_t lane : lanes_) hash = persist::mix(hash, lane);
    return hash;
  }
  bool operator==(const MemoryHash&) const = default;

 private:
  static constexpr int kLanes = 4;
  std::uint64_t lanes_[kLanes] = {1, 2, 3, 4};
};

}  // namespace crashcut::inject
