// LineTable: one Entry for each cache line of the persistent regions.
//
// A zeroed Entry is the entry of a line that was never used. Lines are kept by chunks of 64, and a chunk is made when
//   one of its lines is used: a region that is hardly used costs 8 bytes for each 4 KiB of it.
// Invariants: (1) regions do not overlap; they begin and end on line boundaries; (2) entries do not move.
// Cost: a subtraction, a division by a power of two, a comparison and a lookup of the chunk while a program stays in
//   one region; a walk through the list of regions where it changes from one region to another.
// Threads: not synchronised. find() of a const table changes nothing, so that a table in read-only memory can be read.
#pragma once

#include <cstddef>
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
    parts_.push_back(Part{region.begin, count, nullptr});
    chunks_.emplace_back(std::make_unique<std::unique_ptr<Chunk>[]>((count + kChunkLines - 1) / kChunkLines));
    parts_.back().chunks = chunks_.back().get();
    last_ = parts_.back();
  }

  bool contains(Address address) const { return find_part(address) != nullptr; }

  // Null outside of the regions.
  Entry* find(Address address) {
    const std::uint64_t index = (address - last_.begin) / kLineBytes;  // wraps around below the region
    if (index >= last_.count) [[unlikely]] {
      const Part* part = find_part(address);
      if (part == nullptr) return nullptr;
      last_ = *part;
      return find(address);
    }
    std::unique_ptr<Chunk>& chunk = last_.chunks[index / kChunkLines];
    if (chunk == nullptr) [[unlikely]]
      chunk = std::make_unique<Chunk>();
    return &chunk->entries[index % kChunkLines];
  }
  const Entry* find(Address address) const {
    const Part* part = (address - last_.begin) / kLineBytes < last_.count ? &last_ : find_part(address);
    if (part == nullptr) return nullptr;
    const std::uint64_t index = (address - part->begin) / kLineBytes;
    const Chunk* chunk = part->chunks[index / kChunkLines].get();
    return chunk == nullptr ? &kUnused : &chunk->entries[index % kChunkLines];
  }

  // Calls visit(address of the line, entry) for the lines of all regions, but for some that were never used.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const Part& part : parts_) {
      for (std::uint64_t i = 0; i < part.count; ++i) {
        const Chunk* chunk = part.chunks[i / kChunkLines].get();
        if (chunk == nullptr) {
          i = (i / kChunkLines + 1) * kChunkLines - 1;
        } else {
          visit(part.begin + i * kLineBytes, chunk->entries[i % kChunkLines]);
        }
      }
    }
  }

 private:
  static constexpr std::uint64_t kChunkLines = 64;
  static constexpr Entry kUnused{};
  struct Chunk {
    Entry entries[kChunkLines] = {};
  };
  struct Part {
    Address begin = 0;
    std::uint64_t count = 0;
    std::unique_ptr<Chunk>* chunks = nullptr;
  };

  const Part* find_part(Address address) const {
    for (const Part& part : parts_) {
      if ((address - part.begin) / kLineBytes < part.count) return &part;
    }
    return nullptr;
  }

  std::vector<Part> parts_;
  std::vector<std::unique_ptr<std::unique_ptr<Chunk>[]>> chunks_;  // of each part
  Part last_;                                                      // the part that was used last
};

}  // namespace crashcut::pmem
