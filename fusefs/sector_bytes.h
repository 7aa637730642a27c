// SectorBytes: what sectors held, each version of a sector at a position of its own. A kSector value is a position plus
// one.
//
// Bytes that are kept elsewhere in any case (a mapped trace) are not copied: the positions below outside().size() are
//   there, and the others in own().
// Threads: written by one Recorder; read-only once its recording is sealed.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "persist/log.h"

namespace crashcut::fusefs {

class SectorBytes {
 public:
  // Before the first add(). `owner` keeps the bytes alive.
  void set_outside(std::shared_ptr<const void> owner, std::span<const std::byte> bytes) {
    owner_ = std::move(owner);
    outside_ = bytes;
  }
  std::span<const std::byte> outside() const { return outside_; }
  std::span<const std::byte> own() const { return own_; }
  std::size_t memory_bytes() const { return own_.capacity(); }

  // Where the sector of this value begins.
  const std::byte* at(persist::Value value) const {
    const std::size_t position = value - 1;
    return position < outside_.size() ? outside_.data() + position : own_.data() + (position - outside_.size());
  }
  // Keeps a copy.
  persist::Value add(std::span<const std::byte> sector) {
    const persist::Value value = outside_.size() + own_.size() + 1;
    own_.insert(own_.end(), sector.begin(), sector.end());
    return value;
  }
  // The value of a sector that begins in outside().
  persist::Value value_of(const std::byte* sector) const {
    return static_cast<persist::Value>(sector - outside_.data()) + 1;
  }

 private:
  std::shared_ptr<const void> owner_;
  std::span<const std::byte> outside_;
  std::vector<std::byte> own_;
};

}  // namespace crashcut::fusefs
