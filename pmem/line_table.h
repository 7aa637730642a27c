// LineTable: one Entry for each cache line of the persistent regions.
//
// A zeroed Entry is the entry of a line that was never used. Lines that were never used cost address space and no
//   memory: the tables come from calloc(), which takes large blocks as fresh pages from the kernel.
// Invariants: (1) regions do not overlap; they begin and end on line boundaries; (2) entries do not move.
// Cost: a subtraction, a division by a power of two and a comparison while a program stays in one region; a walk
//   through the list of regions where it changes from one region to another.
// Threads: not synchronised: find() moves the region that it looks at first.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <type_traits>
#include <vector>

#include "persist/check.h"
#include "pmem/types.h"

namespace crashcut::pmem {

struct Region {
  Address begin;
  std::uint64_t bytes;

  bool operator==(const Region&) const = default;
};

template <class Entry>
class LineTable {
 public:
  static_assert(std::is_trivially_copyable_v<Entry> && std::is_trivially_destructible_v<Entry>);

  void add(const Region& region) {
    CHECK(region.begin % kLineBytes == 0 && region.bytes % kLineBytes == 0 && region.bytes > 0);
    for (const Part& part : parts_) {
      CHECK(region.begin + region.bytes <= part.begin || region.begin >= part.begin + part.count * kLineBytes);
    }
    const std::uint64_t count = region.bytes / kLineBytes;
    auto* entries = static_cast<Entry*>(std::calloc(count, sizeof(Entry)));
    CHECK(entries != nullptr);
    owned_.emplace_back(entries, &std::free);
    parts_.push_back(Part{region.begin, count, entries});
    last_ = parts_.back();
  }

  // Null outside of the regions.
  Entry* find(Address address) const {
    const std::uint64_t index = (address - last_.begin) / kLineBytes;  // wraps around below the region
    if (index < last_.count) [[likely]]
      return last_.entries + index;
    return find_elsewhere(address);
  }

  // Calls visit(address of the line, entry) for all lines of all regions.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Part& part : parts_) {
      for (std::uint64_t i = 0; i < part.count; ++i) visit(part.begin + i * kLineBytes, part.entries[i]);
    }
  }

 private:
  struct Part {
    Address begin = 0;
    std::uint64_t count = 0;
    Entry* entries = nullptr;
  };

  Entry* find_elsewhere(Address address) const {
    for (const Part& part : parts_) {
      const std::uint64_t index = (address - part.begin) / kLineBytes;
      if (index >= part.count) continue;
      last_ = part;
      return part.entries + index;
    }
    return nullptr;
  }

  std::vector<Part> parts_;
  std::vector<std::unique_ptr<Entry, void (*)(void*)>> owned_;
  mutable Part last_;
};

}  // namespace crashcut::pmem
