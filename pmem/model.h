// MemoryModel: which x86 machine it is, and what its persistent memory may tear.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "persist/recording.h"

namespace crashcut::pmem {

// What becomes durable when.
enum class Persistency : std::uint8_t {
  kPx86,    // a cache line that was flushed or written back
  kEadr,    // what left the store buffer: a battery writes the caches back. Non-temporal stores still need a fence.
  kStrict,  // the same, and non-temporal stores are ordinary ones: stores persist in the order in which they are seen
};

struct MemoryModel {
  Persistency persistency = Persistency::kPx86;
  // A store instruction of at most so many bytes, aligned to its width, is whole or absent: 8, 16 or 64. Wider ones
  // and copies persist word by word, in any order.
  unsigned atomic_bytes = 8;
  // Off: what one store or copy writes to one line is whole or absent.
  bool has_tearing = true;
  // malloc() of instrumented code gives persistent memory.
  bool has_heap = false;

  persist::ModelSpec spec() const;
  bool operator==(const MemoryModel&) const = default;
};

std::optional<Persistency> parse_persistency(std::string_view name);
// Takes the settings of a memory out of a spec that has others too. None: they are not there, or have no such values.
std::optional<MemoryModel> take_model(persist::ModelSpec& spec);

}  // namespace crashcut::pmem
