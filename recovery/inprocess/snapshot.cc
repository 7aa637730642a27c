#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include <charconv>
#include <cstring>
#include <string_view>

#include "inject/arena.h"
#include "inject/gate.h"
#include "recovery/inprocess/runtime.h"
#include "recovery/inprocess/snapshot.h"

namespace crashcut::inprocess {

namespace {

// Bits of an entry of /proc/self/pagemap.
constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
constexpr std::uint64_t kSwapped = std::uint64_t{1} << 62;
constexpr std::uint64_t kOfFile = std::uint64_t{1} << 61;
constexpr std::uint64_t kExclusive = std::uint64_t{1} << 56;

constexpr std::size_t kStackRoom = 512 * 1024;

std::uint64_t number_of(const void* p) { return reinterpret_cast<std::uint64_t>(p); }

// A recovery that needs more stack than the process ever had would outgrow the snapshot.
void make_stack_room() {
  rlimit limit;
  if (kernel(SYS_prlimit64, 0, RLIMIT_STACK, 0, &limit) != 0 || limit.rlim_cur < 8 * kStackRoom) return;
  const char* here = static_cast<const char*>(__builtin_frame_address(0));
  (void)*const_cast<const volatile char*>(here - kStackRoom);
}

long read_whole(const char* path, char* to, long most) {
  const long fd = kernel(SYS_open, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fd;
  long used = 0;
  long got = 0;
  while (used < most && (got = kernel(SYS_read, fd, to + used, most - used)) > 0) used += got;
  kernel(SYS_close, fd);
  return got < 0 || used == most ? -EFBIG : used;
}

// "begin-end perms offset device inode name"
struct Mapping {
  std::uint64_t begin, end;
  bool is_private_writable, is_file, is_stack;
};
Mapping parse_mapping(std::string_view line) {
  Mapping m{};
  const char* end = line.data() + line.size();
  const char* at = std::from_chars(line.data(), end, m.begin, 16).ptr;
  at = std::from_chars(at + 1, end, m.end, 16).ptr;
  m.is_private_writable = at[2] == 'w' && at[4] == 'p';
  m.is_stack = line.ends_with("[stack]");
  m.is_file = line.find('/') != line.npos;
  return m;
}

}  // namespace

bool Snapshot::take() {
  range_count_ = page_count_ = copy_count_ = own_count_ = 0;
  stack_begin_ = 0;
  make_stack_room();
  program_break_ = static_cast<std::uint64_t>(kernel(SYS_brk, 0));
  kernel(SYS_rt_sigprocmask, SIG_BLOCK, 0, &signal_mask_, 8);
  asm("stmxcsr %0" : "=m"(float_mode_));
  asm("fnstcw %0" : "=m"(old_float_mode_));
  if (!find_ranges() || stack_begin_ == 0 || !read_pagemap() || !copy_pages()) return false;
  // Does this system tell own pages from shared ones at all? The page that we are writing to is our own.
  if (!is_own(number_of(__builtin_frame_address(0)))) return false;
  note_own_pages();
  faults_ = 0;  // the first recovery finds the rest
  return true;
}

bool Snapshot::find_ranges() {
  const long length = read_whole("/proc/self/maps", maps_, sizeof maps_);
  if (length <= 0) return false;
  std::string_view rest(maps_, static_cast<std::size_t>(length));
  while (!rest.empty()) {
    const std::size_t line_end = std::min(rest.find('\n'), rest.size());
    const Mapping m = parse_mapping(rest.substr(0, line_end));
    rest.remove_prefix(std::min(line_end + 1, rest.size()));
    if (m.is_stack) stack_begin_ = m.begin;
    if (m.is_private_writable && !add_outside_of(m.begin, m.end, m.is_file, 0)) return false;
  }
  return true;
}

// Mappings that lie side by side may be one to the kernel: what is left out is cut out of them.
bool Snapshot::add_outside_of(std::uint64_t begin, std::uint64_t end, bool is_file, int exclusion) {
  const std::uint64_t arena_used =
      (number_of(inject::private_arena().begin()) + inject::private_arena().used_bytes() + kPageBytes - 1) /
      kPageBytes * kPageBytes;
  const std::uint64_t left_out[][2] = {{arena_used, number_of(inject::private_arena().end())},
                                       {number_of(inject::g_model_stack.begin), number_of(inject::g_model_stack.top)}};
  if (begin >= end) return true;
  if (exclusion == 2) return add_range(begin, end, is_file);
  const auto [from, to] = left_out[exclusion];
  const std::uint64_t page_end = (to + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (page_end <= begin || from >= end) return add_outside_of(begin, end, is_file, exclusion + 1);
  return add_outside_of(begin, std::max(begin, from), is_file, exclusion + 1) &&
         add_outside_of(std::min(end, page_end), end, is_file, exclusion + 1);
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
bool Snapshot::copy_pages() {
  for (std::uint32_t i = 0; i < range_count_; ++i) {
    const Range& r = ranges_[i];
    const auto pages = static_cast<std::uint32_t>((r.end - r.begin) / kPageBytes);
    for (std::uint32_t page = r.first; page < r.first + pages; ++page) {
      if ((flags_[page] & (kPresent | kSwapped)) == 0 && !r.is_file) continue;
      copies_[page] = ++copy_count_;
      std::memcpy(bytes_[copy_count_], reinterpret_cast<const void*>(addresses_[page]), kPageBytes);
    }
  }
  return true;
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

bool Snapshot::is_outgrown() const {
  unsigned char resident;
  return kernel(SYS_mincore, stack_begin_ - kPageBytes, kPageBytes, &resident) != -ENOMEM;
}

void Snapshot::restore() {
  kernel(SYS_brk, program_break_);
  if (count_faults() != faults_) {
    if (!read_pagemap()) tool_error("the pages that a recovery changed cannot be read (/proc/self/pagemap)");
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

}  // namespace crashcut::inprocess
