// Scatter: a store instruction with an address for each lane (AVX-512).
//
// Where lanes overlap, the later one comes later. Others have no order: a crash may leave any of those of one cache
// line,
//   as it may leave any words of a vector. A lane across two cache lines is two stores. Lanes in ordinary memory are
//   stores like others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "recovery/inprocess/memory/accesses.h"
#include "recovery/inprocess/memory/memory.h"

namespace crashcut::inprocess {

class Scatter {
 public:
  static constexpr std::size_t kLanesMost = 16;

  explicit Scatter(const void* code) : code_(code) {}

  void store(void* to, const std::byte* lane, std::size_t bytes) {
    if (!is_in_window(to)) return Memory::store(to, lane, bytes, code_);
    const auto address = reinterpret_cast<std::uint64_t>(to);
    const std::size_t first = std::min<std::size_t>(bytes, kLineBytes - address % kLineBytes);
    add(address, lane, first);
    if (first < bytes) add(address + first, lane + first, bytes - first);
  }
  void finish() {
    for (std::size_t i = 0; i < count_; ++i) carry_out(lines_[i]);
  }

 private:
  static constexpr std::size_t kLineBytes = 64;
  struct Line {
    std::uint64_t address, stored = 0;  // one bit a byte
    std::byte bytes[kLineBytes];
  };

  void add(std::uint64_t address, const std::byte* from, std::size_t bytes) {
    const std::uint64_t begin = address / kLineBytes * kLineBytes;
    Line* line = std::find_if(lines_, lines_ + count_, [&](const Line& l) { return l.address == begin; });
    if (line == lines_ + count_) lines_[count_++].address = begin;
    const std::uint64_t stored = ((std::uint64_t{1} << bytes) - 1) << (address - begin);
    if ((line->stored & stored) != 0) carry_out(*line);
    line->stored |= stored;
    std::memcpy(line->bytes + (address - begin), from, bytes);
  }
  void carry_out(Line& line) {
    Memory::store_lanes(reinterpret_cast<void*>(line.address), line.bytes, 1, line.stored, code_);
    line.stored = 0;
  }

  Line lines_[2 * kLanesMost];
  std::size_t count_ = 0;
  const void* code_;
};

}  // namespace crashcut::inprocess
