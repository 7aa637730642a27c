// The pieces in which a store leaves the store buffer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "pmem/model.h"
#include "pmem/store_buffer.h"

namespace crashcut::pmem {

// No piece of a store instruction crosses a multiple of this.
inline Address unit_of_store(const MemoryModel& model, Address address, std::size_t width) {
  const bool is_aligned = (width & (width - 1)) == 0 && (address & (width - 1)) == 0;
  const bool is_whole = (is_aligned && width <= model.atomic_bytes) || !model.has_tearing;
  return is_whole ? kLineBytes : kWordBytes;
}

// Calls visit(entry) for each piece. None of them crosses a multiple of `unit`. `entry` has all but what differs; its
// group is made by make_group() if there are several pieces.
template <class MakeGroup, class Visit>
void for_each_piece(Address address, std::span<const std::byte> bytes, Address unit, BufferEntry& entry,
                    MakeGroup&& make_group, Visit&& visit) {
  if (bytes.empty()) return;
  const bool is_one_piece = address / unit == (address + bytes.size() - 1) / unit;
  entry.group = is_one_piece ? 0 : make_group();
  while (!bytes.empty()) {
    const std::size_t piece = std::min<std::size_t>(bytes.size(), unit - address % unit);
    entry.address = address;
    entry.bytes = static_cast<std::uint8_t>(piece);
    std::memcpy(entry.data.data(), bytes.data(), piece);
    visit(entry);
    address += piece;
    bytes = bytes.subspan(piece);
  }
}

}  // namespace crashcut::pmem
