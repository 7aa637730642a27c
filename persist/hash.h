// Hashes of numbers and bytes: the one way in which everything here is hashed.
//
// They are the same on every machine and in every process, so names, fingerprints and tokens may be made of them. They
//   are no protection against somebody who looks for collisions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace crashcut::persist {

// Where a hash begins. Any other number starts another family of hashes.
inline constexpr std::uint64_t kHashStart = 0xcbf29ce484222325;

// The hash of what was hashed so far, and of one more number. What was hashed so far is spread over all bits first: the
// numbers are small as a rule, and (1, 2) must not be (2, 1).
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ hash >> 29 ^ value) * 0xff51afd7ed558ccd;
  return hash ^ hash >> 32;
}

// The same for a string of bytes, whose length counts: {"a", "bc"} and {"ab", "c"} differ.
inline std::uint64_t mix_bytes(std::uint64_t hash, std::string_view bytes) {
  hash = mix(hash, bytes.size());
  for (; bytes.size() >= sizeof(std::uint64_t); bytes.remove_prefix(sizeof(std::uint64_t))) {
    std::uint64_t word;
    std::memcpy(&word, bytes.data(), sizeof word);
    hash = mix(hash, word);
  }
  std::uint64_t rest = 0;
  std::memcpy(&rest, bytes.data(), bytes.size());
  return bytes.empty() ? hash : mix(hash, rest);
}

inline std::uint64_t hash_of(std::string_view bytes) { return mix_bytes(kHashStart, bytes); }

}  // namespace crashcut::persist
