// Snapshot: the private memory of this process as it stood at one moment, and the way back to it.
//
// Held: every private writable page (data of the program and its libraries, heap, stack, thread-local storage, our
//   own), the end of the heap, the signal mask, the floating-point modes. Not held: shared memory, the models' stack,
//   what the private arena hands out later, all else that the kernel knows of the process.
// How changed pages are found: the process was forked, so a page that it wrote to is its own, others it still shares
//   with its parent, and /proc/self/pagemap tells the two apart. Every first write is a page fault: while the
//   process had none, the pages that it owns are the ones known.
// Invariants: (1) the parent lives, and changes nothing that matters, as long as the snapshot is used; (2) it lies in
//   shared memory, so restoring does not touch it. Threads: a process with one thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crashcut::inject {

class Snapshot {
 public:
  // False where the memory is too large or the system does not tell what is needed.
  bool take();
  // Whether the stack has grown since: that is not undone.
  bool is_outgrown() const;
  // Call on the models' stack.
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

  bool find_ranges();
  bool add_range(std::uint64_t begin, std::uint64_t end, bool is_file);
  bool add_outside_of(std::uint64_t begin, std::uint64_t end, bool is_file, int exclusion);
  bool read_pagemap();
  bool copy_pages();
  void note_own_pages();
  bool is_own(std::uint64_t address) const;
  const Range* range_of(std::uint64_t address) const;
  static std::uint64_t count_faults();

  std::uint64_t program_break_;
  std::uint64_t signal_mask_;
  std::uint64_t stack_begin_;
  std::uint64_t faults_;
  std::uint32_t float_mode_;      // mxcsr
  std::uint16_t old_float_mode_;  // of the x87
  std::uint32_t range_count_, page_count_, copy_count_, own_count_;
  Range ranges_[kRangesMost];
  std::uint64_t flags_[kPagesMost];  // of each page, from pagemap
  std::uint64_t addresses_[kPagesMost];
  std::uint32_t copies_[kPagesMost];  // index of the copy, from 1; kZeroes
  std::uint32_t own_[kPagesMost];     // the pages that were written to
  bool is_noted_[kPagesMost];         // in own_
  char maps_[64 * 1024];
  alignas(kPageBytes) std::byte bytes_[kPagesMost + 1][kPageBytes];
};

}  // namespace crashcut::inject
