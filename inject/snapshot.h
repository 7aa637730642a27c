// Snapshot: the private memory of this process at one moment, and the way back to it. Programs get a fresh image for
// every recovery and every execution by it.
//
// Held: every private writable page outside of what the caller leaves out (data of the program and its libraries, heap,
//   stack, thread-local storage), the end of the heap, the signal mask, the floating-point modes.
// Not held: shared memory, and anything else that the kernel knows of the process. Memory that is mapped later stays.
// How changed pages are found: the process was forked. A page that it has written to is its own; it shares all other
//   pages with its parent, and /proc/self/pagemap tells the two apart. The first write to a page is a page fault, so
//   the page map is read again only if there were page faults since the last time.
// Invariants: (1) the parent lives, and does not change its memory, as long as the snapshot is used; (2) the snapshot
//   lies in shared memory, so restoring does not touch it. Threads: a process with one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "inject/mappings.h"

namespace crashcut::inject {

class Snapshot {
 public:
  // `left_out`, whole pages, is not held. False if the memory is too large or the page map cannot be used.
  bool take(std::span<const AddressRange> left_out);
  // Call on a stack that is left out.
  void restore();
  std::uint64_t program_break() const { return program_break_; }

 private:
  static constexpr std::size_t kPageBytes = 4096;
  static constexpr std::uint32_t kPagesMost = 4096;  // more, and copying them costs more than a fork
  static constexpr std::uint32_t kRangesMost = 256;
  static constexpr std::uint32_t kZeroes = 0;  // instead of a copy: it was never touched

  struct Range {
    std::uint64_t begin, end;
    std::uint32_t first;  // index of its first page
    bool is_file;
  };

  bool find_ranges(std::span<const AddressRange> left_out);
  bool add_range(std::uint64_t begin, std::uint64_t end, bool is_file);
  bool read_pagemap();
  void copy_pages();
  void clear_grown_stack() const;
  void note_own_pages();
  bool is_own(std::uint64_t address) const;
  const Range* range_of(std::uint64_t address) const;
  static std::uint64_t count_faults();

  std::uint64_t program_break_;
  std::uint64_t signal_mask_;
  std::uint64_t stack_begin_;
  std::uint64_t faults_;          // page faults of this process when the page map was last read
  std::uint32_t float_mode_;      // mxcsr
  std::uint16_t old_float_mode_;  // of the x87
  std::uint32_t range_count_, page_count_, copy_count_, own_count_;
  Range ranges_[kRangesMost];
  std::uint64_t flags_[kPagesMost];  // of each page, from pagemap
  std::uint64_t addresses_[kPagesMost];
  std::uint32_t copies_[kPagesMost];  // index of the copy, from 1; kZeroes
  std::uint32_t own_[kPagesMost];     // the pages that were written to
  bool is_noted_[kPagesMost];         // in own_
  char maps_[128 * 1024];
  alignas(kPageBytes) std::byte bytes_[kPagesMost + 1][kPageBytes];
};

}  // namespace crashcut::inject
