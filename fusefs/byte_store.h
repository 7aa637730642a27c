// ByteStore: a place that keeps the bytes of writes anyway (a trace), so that the Filesystem need not keep them in
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace crashcut::fusefs {

class ByteStore {
 public:
  virtual ~ByteStore() = default;
  // The bytes at a position never change, and can always be read.
  virtual void read(std::uint64_t position, std::span<std::byte> out) const = 0;
};

}  // namespace crashcut::fusefs
