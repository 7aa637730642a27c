// ByteStore: where bytes that a Filesystem was given are kept in any case, so that memory need not hold them too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace crashcut::fusefs {

class ByteStore {
 public:
  virtual ~ByteStore() = default;
  // Bytes that were put there stay as they are, and can always be had.
  virtual void read(std::uint64_t position, std::span<std::byte> out) const = 0;
};

}  // namespace crashcut::fusefs
