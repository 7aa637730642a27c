// StoreBuffer: what a thread has executed and what has not left for the cache yet.
//
// Models: stores, clflush, sfence and marks leave in order. The words of one copy or wide store leave in any order
//   among themselves. Non-temporal stores leave in any order, but not before an earlier sfence and not before an
//   earlier store to the same word; an sfence waits for them. clflushopt and clwb wait only for the last entry that
//   they must come after.
// Does not model: a size. A real buffer of finite size leaves earlier; the states are the same.
// Invariants: entries are in the order of execution.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "persist/fences.h"
#include "pmem/types.h"

namespace crashcut::pmem {

enum class EntryKind : std::uint8_t { kStore, kNonTemporalStore, kClflush, kClflushopt, kSfence, kMark };

struct BufferEntry {
  EntryKind kind;
  Address address = 0;     // of a mark: its number
  std::uint8_t bytes = 0;  // of a store: at most a line
  PlaceId place = 0;
  std::uint32_t op = 0;
  std::uint32_t group = 0;  // of a store of several pieces; 0: alone
  StoreForm form = StoreForm::kPlain;
  persist::FenceSetId past;  // the fences before its execution
  std::array<std::byte, kLineBytes> data{};

  bool is_store() const { return kind == EntryKind::kStore || kind == EntryKind::kNonTemporalStore; }
  bool touches(const BufferEntry& other) const {
    return address < other.address + other.bytes && other.address < address + bytes;
  }
  bool shares_word_with(const BufferEntry& other) const {
    return word_of(address) <= word_of(other.address + other.bytes - 1) &&
           word_of(other.address) <= word_of(address + bytes - 1);
  }
  bool shares_line_with(const BufferEntry& other) const {
    return address / kLineBytes == other.address / kLineBytes;  // a store is within one line
  }
};

class StoreBuffer {
 public:
  bool is_empty() const { return entries_.empty(); }
  std::size_t size() const { return entries_.size(); }
  const BufferEntry& operator[](std::size_t i) const { return entries_[i]; }
  void push(const BufferEntry& entry) { entries_.push_back(entry); }
  BufferEntry take(std::size_t i) {
    BufferEntry entry = entries_[i];
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
    return entry;
  }

  // Whether an entry that has been executed must come after this earlier one: pmem's order of one thread.
  static bool is_kept(const BufferEntry& earlier, const BufferEntry& later) {
    if (earlier.kind == EntryKind::kSfence || later.kind == EntryKind::kSfence) return true;
    if (earlier.kind == EntryKind::kNonTemporalStore || later.kind == EntryKind::kNonTemporalStore) {
      return earlier.is_store() && later.is_store() && earlier.shares_word_with(later);
    }
    if (later.kind == EntryKind::kClflushopt) {
      return earlier.kind != EntryKind::kClflushopt && earlier.kind != EntryKind::kMark &&
             earlier.shares_line_with(later);
    }
    if (earlier.kind == EntryKind::kClflushopt) {
      return later.kind == EntryKind::kClflush && earlier.shares_line_with(later);
    }
    return earlier.group == 0 || earlier.group != later.group;
  }
  bool may_leave(std::size_t i) const {
    for (std::size_t earlier = 0; earlier < i; ++earlier) {
      if (is_kept(entries_[earlier], entries_[i])) return false;
    }
    return true;
  }

  // Copies the bytes that own stores wait to write, newest last. Returns which bytes of `out` they are: bit i is byte
  // i.
  std::uint64_t forward(Address address, std::span<std::byte> out) const {
    std::uint64_t forwarded = 0;
    for (const BufferEntry& entry : entries_) {
      if (!entry.is_store()) continue;
      const Address begin = std::max(address, entry.address);
      const Address end = std::min(address + out.size(), entry.address + entry.bytes);
      for (Address at = begin; at < end; ++at) {
        out[at - address] = entry.data[at - entry.address];
        forwarded |= std::uint64_t{1} << (at - address);
      }
    }
    return forwarded;
  }

 private:
  std::deque<BufferEntry> entries_;
};

}  // namespace crashcut::pmem
