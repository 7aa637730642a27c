// TraceBytes: the bytes of a trace, mapped from its file or held in memory.
//
// A file is mapped read-only, so all processes that read it share one copy, the kernel's page cache, which the kernel
//   can drop when memory is short. The newest bytes of a trace whose writer was killed are in its tail; they replace
//   the end of the file in memory, not on the disk.
// Pages that were read stay mapped and count as memory of the process. They are given back at times (note_read()), so
//   that a process has few of a large file; they are in the page cache still.
// A mapped file that somebody shortens meanwhile ends the reading process by SIGBUS; cli/interrupts.cc says why.
// Threads: may be read from several threads once made.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "fusefs/byte_store.h"

namespace crashcut::fusefs {

class TraceBytes final : public ByteStore {
 public:
  explicit TraceBytes(std::string bytes);
  // `replaced_from`: the file's bytes from there on are `end`. It is a multiple of 4096, and not beyond the file's end.
  struct End {
    std::uint64_t replaced_from;
    std::string_view end;
  };
  // The error is an errno.
  static tl::expected<std::shared_ptr<const TraceBytes>, int> map(int fd, std::uint64_t size, const End* end = nullptr);
  ~TraceBytes() override;
  TraceBytes(const TraceBytes&) = delete;
  TraceBytes& operator=(const TraceBytes&) = delete;

  std::string_view view() const { return view_; }
  void read(std::uint64_t position, std::span<std::byte> out) const override;
  // The caller has read so many bytes of view() by itself. Pages are given back after 64 MiB.
  void note_read(std::uint64_t bytes) const;
  // These bytes are not needed for now: a reader that goes through all of them does not keep all of them in memory.
  void forget(std::uint64_t begin, std::uint64_t end) const;

 private:
  TraceBytes() = default;

  std::string own_;
  std::string_view view_;
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  std::size_t file_bytes_ = 0;                        // of the mapping, what the file backs
  mutable std::atomic<std::uint64_t> read_bytes_{0};  // since pages were given back
};

// Calls TraceBytes::forget() for what was read, a large piece at a time.
class Forgetting {
 public:
  explicit Forgetting(const TraceBytes& bytes) : bytes_(&bytes) {}
  void advance_to(std::uint64_t position) {
    constexpr std::uint64_t kPieceBytes = std::uint64_t{32} << 20;
    if (position < done_ + kPieceBytes) return;
    bytes_->forget(done_, position);
    done_ = position;
  }

 private:
  const TraceBytes* bytes_;
  std::uint64_t done_ = 0;
};

}  // namespace crashcut::fusefs
