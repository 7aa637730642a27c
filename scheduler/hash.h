// Hashes of what steps are and did: for names and normal forms within one search.
#pragma once

#include <cstdint>

namespace crashcut::scheduler {

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccd;
  return hash ^ hash >> 32;
}

}  // namespace crashcut::scheduler
