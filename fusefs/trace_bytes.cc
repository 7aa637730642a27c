#include "fusefs/trace_bytes.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "persist/check.h"

namespace crashcut::fusefs {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

std::uint64_t whole_pages(std::uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

}  // namespace

TraceBytes::TraceBytes(std::string bytes) : own_(std::move(bytes)), view_(own_) {}

tl::expected<std::shared_ptr<const TraceBytes>, int> TraceBytes::map(int fd, std::uint64_t size, const End* end) {
  std::shared_ptr<TraceBytes> bytes(new TraceBytes());
  const std::uint64_t file_bytes = end ? end->replaced_from : size;
  const std::uint64_t all = file_bytes + (end ? end->end.size() : 0);
  if (all == 0) return bytes;
  // Room for both in one piece; the file then takes the place of the front.
  void* const mapping =
      mmap(nullptr, whole_pages(all), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return tl::unexpected(errno);
  bytes->mapping_ = mapping;
  bytes->mapping_bytes_ = whole_pages(all);
  if (end) std::memcpy(static_cast<char*>(mapping) + file_bytes, end->end.data(), end->end.size());
  if (file_bytes > 0 && mmap(mapping, file_bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    return tl::unexpected(errno);
  }
  bytes->file_bytes_ = file_bytes;
  bytes->view_ = {static_cast<const char*>(mapping), all};
  return bytes;
}

TraceBytes::~TraceBytes() {
  if (mapping_) munmap(mapping_, mapping_bytes_);
}

void TraceBytes::read(std::uint64_t position, std::span<std::byte> out) const {
  CHECK(position <= view_.size() && out.size() <= view_.size() - position);
  std::memcpy(out.data(), view_.data() + position, out.size());
  note_read(out.size());
}

void TraceBytes::note_read(std::uint64_t bytes) const {
  constexpr std::uint64_t kReadMost = std::uint64_t{64} << 20;
  constexpr std::uint64_t kMappedAround = 64 << 10;  // by one page fault
  const std::uint64_t mapped = std::max(bytes, kMappedAround);
  if (read_bytes_.fetch_add(mapped, std::memory_order_relaxed) + mapped < kReadMost) return;
  read_bytes_.store(0, std::memory_order_relaxed);
  forget(0, file_bytes_);
}

void TraceBytes::forget(std::uint64_t begin, std::uint64_t end) const {
  const std::uint64_t first = begin / kPageBytes * kPageBytes;
  const std::uint64_t last = std::min<std::uint64_t>(end, file_bytes_) / kPageBytes * kPageBytes;
  if (mapping_ && first < last) madvise(static_cast<char*>(mapping_) + first, last - first, MADV_DONTNEED);
}

}  // namespace crashcut::fusefs
