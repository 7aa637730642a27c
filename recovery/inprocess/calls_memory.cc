// Modelled files in memory.
//
// A mapping is memory of the program's own. A private one is a copy of what the file held when it was made. A shared
//   one, which the program can only read, is filled again after each call that changes files. Past the end of the file
//   both hold zeroes; the kernel would send SIGBUS from the next page on.
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "inject/interpose.h"
#include "recovery/inprocess/call_text.h"
#include "recovery/inprocess/calls.h"
#include "recovery/inprocess/memory/memory.h"

namespace crashcut::inprocess {

namespace {

constexpr std::uint64_t kPage = 4096;

std::uint64_t page_end(std::uint64_t address) { return (address + kPage - 1) / kPage * kPage; }

// What is_mapped() asks without the lock: all mappings lie between.
void note_bounds() {
  std::uint64_t begin = UINT64_MAX, end = 0;
  for (const FileMapping& m : g.model->mappings) {
    begin = std::min(begin, m.begin);
    end = std::max(end, page_end(m.end));
  }
  g.mapped_begin = begin;
  g.mapped_end = end;
}

// No mapping goes on across the address.
void split_at(std::uint64_t address) {
  std::vector<FileMapping>& all = g.model->mappings;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (address <= all[i].begin || address >= all[i].end) continue;
    FileMapping rest = all[i];
    rest.begin = address;
    rest.offset += address - all[i].begin;
    all[i].end = address;
    all.push_back(std::move(rest));
  }
}

std::vector<FileMapping*> mappings_in(std::uint64_t begin, std::uint64_t end) {
  split_at(begin);
  split_at(end);
  std::vector<FileMapping*> found;
  for (FileMapping& m : g.model->mappings) {
    if (m.begin >= begin && m.begin < end) found.push_back(&m);
  }
  return found;
}

void forget(std::uint64_t begin, std::uint64_t end) {
  split_at(begin);
  split_at(end);
  std::erase_if(g.model->mappings, [&](const FileMapping& m) { return m.begin >= begin && m.begin < end; });
  note_bounds();
}

void fill(const FileMapping& m) {
  auto* to = reinterpret_cast<std::byte*>(m.begin);
  const std::size_t bytes = m.end - m.begin;
  kernel(SYS_mprotect, to, bytes, PROT_READ | PROT_WRITE);
  const std::int64_t got = std::max<std::int64_t>(m.read(m.offset, {to, bytes}), 0);
  // Given back rather than written to: the mapping may be far longer than its file.
  const std::uint64_t end_of_file = m.begin + static_cast<std::uint64_t>(got);
  const std::uint64_t rest = std::min(page_end(end_of_file), m.end);
  std::memset(to + got, 0, rest - end_of_file);
  if (rest < m.end) kernel(SYS_madvise, rest, m.end - rest, MADV_DONTNEED);
  kernel(SYS_mprotect, to, bytes, m.protection);
}

// Names the file. SQLite's index of a write-ahead log is the one that users meet, and there is a way without it.
[[noreturn]] void refuse_shared_mapping(int fd) {
  const auto found = g.model->names.find(fd);
  const std::string file = found == g.model->names.end() ? "a file" : found->second;
  unsupported(fmt::format("mmap(MAP_SHARED) of {}, writable{}", file,
                          file.ends_with("-shm")
                              ? " (as SQLite does in WAL mode; with PRAGMA locking_mode=EXCLUSIVE before the first "
                                "access, or with another journal mode, it does not)"
                              : ""));
}

}  // namespace

bool is_mapped(long address, long length) {
  const auto begin = static_cast<std::uint64_t>(address);
  return begin < g.mapped_end && begin + static_cast<std::uint64_t>(length) > g.mapped_begin;
}

void refresh_mappings() {
  for (const FileMapping& m : g.model->mappings) fill(m);
}

long call_mmap(Call& c) {
  const auto length = static_cast<std::uint64_t>(c.a[1]);
  const long protection = c.a[2];
  const long flags = c.a[3];
  const int fd = static_cast<int>(c.a[4]);
  if (!g.models_fd(fd) || (flags & MAP_ANONYMOUS) != 0) {
    spend_image();
    const long at = inject::do_in_kernel(c);
    if (at == c.a[0]) forget(static_cast<std::uint64_t>(at), static_cast<std::uint64_t>(at) + length);
    return at;
  }
  const bool shared = (flags & MAP_TYPE) != MAP_PRIVATE;
  const int opened = g.model->process->get_flags(fd);
  if ((opened & O_ACCMODE) == O_WRONLY) return -EACCES;
  if (shared && (protection & PROT_WRITE) != 0 && (opened & O_ACCMODE) != O_RDWR) return -EACCES;
  if (shared && is_region_mapping(fd, flags)) return map_region(c);
  if (shared && (protection & PROT_WRITE) != 0) refuse_shared_mapping(fd);
  // A thread's look at it would be no step.
  if (shared && inject::schedules_threads() && g_phase == Phase::kExecuting) unsupported("mmap(MAP_SHARED) of a file");
  begin_look([&] { return fmt::format("mmap({}, {} bytes at {})", fd_text(fd), length, c.a[5]); });
  spend_image();
  const long anonymous = (flags & ~MAP_TYPE) | MAP_PRIVATE | MAP_ANONYMOUS;
  const long at = kernel(SYS_mmap, c.a[0], length, PROT_READ | PROT_WRITE, anonymous, -1, 0);
  if (at < 0 && at > -4096) return at;
  const auto begin = static_cast<std::uint64_t>(at);
  forget(begin, begin + length);
  iovec part{reinterpret_cast<void*>(at), length};
  const long got = g.model->process->pread(fd, {&part, 1}, c.a[5]);
  if (got < 0) {
    kernel(SYS_munmap, at, length);
    return got == -EISDIR ? -ENODEV : got;
  }
  if (protection != (PROT_READ | PROT_WRITE)) kernel(SYS_mprotect, at, length, protection);
  if (shared) {
    const bool is_writable = (opened & O_ACCMODE) == O_RDWR;
    g.model->mappings.push_back({begin, begin + length, static_cast<std::uint64_t>(c.a[5]), protection, is_writable,
                                 g.model->process->map(fd)});
    note_bounds();
  }
  return at;
}

long call_munmap(Call& c) {
  spend_image();
  const long result = kernel(SYS_munmap, c.a[0], c.a[1]);
  const auto begin = static_cast<std::uint64_t>(c.a[0]);
  if (result == 0) forget(begin, page_end(begin + static_cast<std::uint64_t>(c.a[1])));
  return result;
}

long call_mprotect(Call& c) {
  const auto begin = static_cast<std::uint64_t>(c.a[0]);
  const std::vector<FileMapping*> changed = mappings_in(begin, page_end(begin + static_cast<std::uint64_t>(c.a[1])));
  for (const FileMapping* m : changed) {
    if ((c.a[2] & PROT_WRITE) == 0) continue;
    if (!m->is_writable) return -EACCES;
    unsupported("mprotect(PROT_WRITE) of a file mapped MAP_SHARED");
  }
  spend_image();
  const long result = kernel(SYS_mprotect, c.a[0], c.a[1], c.a[2]);
  if (result != 0) return result;
  for (FileMapping* m : changed) m->protection = c.a[2];
  return 0;
}

// Pages that are given up are read from the file again. To the kernel there is no file behind them.
long call_madvise(Call& c) {
  const auto begin = static_cast<std::uint64_t>(c.a[0]);
  const bool gives_up = c.a[2] == MADV_DONTNEED || c.a[2] == MADV_FREE || c.a[2] == MADV_REMOVE;
  const bool is_ours = gives_up && !mappings_in(begin, page_end(begin + static_cast<std::uint64_t>(c.a[1]))).empty();
  return is_ours ? 0 : kForward;
}

}  // namespace crashcut::inprocess
