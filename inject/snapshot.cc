#include "inject/snapshot.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstring>

#include "inject/end.h"
#include "inject/gate.h"

namespace crashcut::inject {

namespace {

// Bits of an entry of /proc/self/pagemap.
constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
constexpr std::uint64_t kSwapped = std::uint64_t{1} << 62;
constexpr std::uint64_t kOfFile = std::uint64_t{1} << 61;
constexpr std::uint64_t kExclusive = std::uint64_t{1} << 56;

constexpr std::size_t kStackRoom = 512 * 1024;

std::uint64_t number_of(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

// The stack grows when it is touched. Growing it here means that most programs never outgrow the snapshot.
void make_stack_room() {
  rlimit limit;
  if (kernel(SYS_prlimit64, 0, RLIMIT_STACK, 0, &limit) != 0 || limit.rlim_cur < 8 * kStackRoom) return;
  const char* here = static_cast<const char*>(__builtin_frame_address(0));
  (void)*const_cast<const volatile char*>(here - kStackRoom);
}

}  // namespace

bool Snapshot::take(std::span<const AddressRange> left_out) {
  range_count_ = page_count_ = copy_count_ = own_count_ = 0;
  stack_begin_ = 0;
  make_stack_room();
  program_break_ = static_cast<std::uint64_t>(kernel(SYS_brk, 0));
  kernel(SYS_rt_sigprocmask, SIG_BLOCK, 0, &signal_mask_, 8);
  asm("stmxcsr %0" : "=m"(float_mode_));
  asm("fnstcw %0" : "=m"(old_float_mode_));
  if (!find_ranges(left_out) || stack_begin_ == 0 || !read_pagemap()) return false;
  copy_pages();
  // Does this system tell own pages from shared ones at all? The page that we are writing to is our own.
  if (!is_own(number_of(__builtin_frame_address(0)))) return false;
  note_own_pages();
  faults_ = 0;  // the first restore() reads the page map and finds the rest
  return true;
}

bool Snapshot::find_ranges(std::span<const AddressRange> left_out) {
  return for_each_mapping(maps_, left_out, [this](const Mapping& m) {
    if (m.is_stack) stack_begin_ = m.begin;
    return add_range(m.begin, m.end, m.is_file);
  });
}

bool Snapshot::add_range(std::uint64_t begin, std::uint64_t end, bool is_file) {
  const std::uint64_t pages = (end - begin) / kPageBytes;
  if (range_count_ == kRangesMost || pages > kPagesMost - page_count_) return false;
  ranges_[range_count_++] = {begin, end, page_count_, is_file};
  for (std::uint64_t at = begin; at < end; at += kPageBytes) {
    copies_[page_count_] = kZeroes;
    is_noted_[page_count_] = false;
    addresses_[page_count_++] = at;
  }
  return true;
}

bool Snapshot::read_pagemap() {
  const long fd = kernel(SYS_open, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool all = true;
  for (std::uint32_t i = 0; i < range_count_ && all; ++i) {
    const Range& r = ranges_[i];
    const auto bytes = static_cast<long>((r.end - r.begin) / kPageBytes * 8);
    all = kernel(SYS_pread64, fd, flags_ + r.first, bytes, r.begin / kPageBytes * 8) == bytes;
  }
  kernel(SYS_close, fd);
  return all;
}

// Anonymous pages that nobody touched hold zeroes; those of files hold what the file does.
void Snapshot::copy_pages() {
  for (std::uint32_t i = 0; i < range_count_; ++i) {
    const Range& r = ranges_[i];
    const auto pages = static_cast<std::uint32_t>((r.end - r.begin) / kPageBytes);
    for (std::uint32_t page = r.first; page < r.first + pages; ++page) {
      if ((flags_[page] & (kPresent | kSwapped)) == 0 && !r.is_file) continue;
      copies_[page] = ++copy_count_;
      std::memcpy(bytes_[copy_count_], reinterpret_cast<const void*>(addresses_[page]), kPageBytes);
    }
  }
}

const Snapshot::Range* Snapshot::range_of(std::uint64_t address) const {
  for (std::uint32_t i = 0; i < range_count_; ++i) {
    if (address >= ranges_[i].begin && address < ranges_[i].end) return &ranges_[i];
  }
  return nullptr;
}

// A page in the swap may be shared after all: restoring it is never wrong.
static bool is_own_page(std::uint64_t flags) {
  return (flags & kSwapped) != 0 || ((flags & kPresent) != 0 && (flags & kOfFile) == 0 && (flags & kExclusive) != 0);
}

bool Snapshot::is_own(std::uint64_t address) const {
  const Range* r = range_of(address);
  return r != nullptr && is_own_page(flags_[r->first + (address - r->begin) / kPageBytes]);
}

void Snapshot::note_own_pages() {
  for (std::uint32_t page = 0; page < page_count_; ++page) {
    if (is_noted_[page] || !is_own_page(flags_[page])) continue;
    is_noted_[page] = true;
    own_[own_count_++] = page;
  }
}

std::uint64_t Snapshot::count_faults() {
  rusage used;
  kernel(SYS_getrusage, RUSAGE_THREAD, &used);
  return static_cast<std::uint64_t>(used.ru_minflt + used.ru_majflt);
}

// The stack may have grown since: the new pages were untouched, that is zero, when the snapshot was taken.
void Snapshot::clear_grown_stack() const {
  unsigned char resident;
  std::uint64_t begin = stack_begin_;
  while (kernel(SYS_mincore, begin - kPageBytes, kPageBytes, &resident) == 0) begin -= kPageBytes;
  if (begin != stack_begin_) kernel(SYS_madvise, begin, stack_begin_ - begin, MADV_DONTNEED);
}

void Snapshot::restore() {
  kernel(SYS_brk, program_break_);
  clear_grown_stack();
  if (count_faults() != faults_) {
    if (!read_pagemap()) tool_error("the pages that the program changed cannot be read (/proc/self/pagemap)");
    note_own_pages();
    faults_ = count_faults();
  }
  for (std::uint32_t i = 0; i < own_count_; ++i) {
    const std::uint32_t page = own_[i];
    void* to = reinterpret_cast<void*>(addresses_[page]);
    if (copies_[page] == kZeroes) {
      std::memset(to, 0, kPageBytes);
    } else {
      std::memcpy(to, bytes_[copies_[page]], kPageBytes);
    }
  }
  kernel(SYS_rt_sigprocmask, SIG_SETMASK, &signal_mask_, 0, 8);
  asm volatile("fninit; fldcw %0; ldmxcsr %1; cld" : : "m"(old_float_mode_), "m"(float_mode_));
}

}  // namespace crashcut::inject
