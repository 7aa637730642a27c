// Journal: what ext4's journal changes when the kernel replays it, computed without mounting anything.
//
// For one purpose: two crash images that are equal once their journals are replayed show the same, so one of them is
//   mounted. The kernel still judges that one. An image whose journal is not understood to the last checksum is mounted
//   by itself.
// Understands: logs of jbd2 with revoke records, 64-bit block numbers, and no checksums or those of version 3.
// Does not understand, and says so: fast commits, asynchronous commits, older checksums, a checksum that is wrong.
// Source: linux/fs/jbd2/recovery.c, do_one_pass(); include/linux/jbd2.h.
// Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "blocklayer/crash_images.h"

namespace crashcut::kernel {

class Journal {
 public:
  using Reader = blocklayer::ImageBase::Reader;
  using Blocks = blocklayer::ImageBase::Replayed;

  // `blocks` are those of the journal, its superblock first.
  explicit Journal(std::vector<std::uint64_t> blocks) : blocks_(std::move(blocks)) {}

  // The blocks that replay writes, and the journal's superblock without bytes. None: not understood.
  std::optional<Blocks> replay(const Reader& read);

  // What a transaction in the log says of a block.
  struct Entry {
    std::uint64_t block;
    std::uint32_t sequence;                       // of the transaction
    std::optional<std::vector<std::byte>> bytes;  // none: it was revoked
  };
  // All that was logged on a disk since `before`, when its journal was empty, in order of the transactions: also what
  // the kernel needs no more. None: not understood, or the log went around its end.
  std::optional<std::vector<Entry>> history(const Reader& before, const Reader& after);

  const std::vector<std::uint64_t>& blocks() const { return blocks_; }

 private:
  struct Scan;
  std::optional<Scan> begin_scan(const Reader& read);
  std::uint32_t sum_of(std::uint32_t start, std::span<const std::byte> bytes);
  // Of a block whose sum stands at `at`.
  bool is_sum_right(std::uint32_t seed, std::span<const std::byte> block, std::size_t at);

  std::vector<std::uint64_t> blocks_;
  // A block of a trace stays where it is, so its sum is known by its address. A block of the log may be data in one
  // image and say what data there is in another.
  using Known = std::unordered_map<const std::byte*, std::pair<std::uint32_t, std::uint32_t>>;
  Known known_sums_, known_own_sums_;
};

// For the images of a filesystem with such journal blocks; none if there are none, or if the blocks of the images are
// not those of the journal.
decltype(blocklayer::ImageBase::replay) replay_of(const std::vector<std::uint64_t>& journal, std::uint32_t block_bytes);

}  // namespace crashcut::kernel
