// CrashImages: whole images that a drive can hold after the power failed, chosen from the trace of one run.
//
// A model decides what a crash left while it is read (crashed_drive.h). The kernel's filesystems read nearly all that
//   was written when they are mounted, so for them images are made whole, and equal ones once.
// The moments of a crash: right before a flush completes, and at the end of the trace. Everything that can be lost
//   earlier can be lost there too. The writes that a flush had covered are in every image of the moment; of the others,
//   the *open* writes, any may be lost, block by block, as drive.h says of writes.
// Which of the subsets are made, at most ImageBounds::subsets a moment: all of them if there is room. Else nothing
// lost,
//   all lost, all but the journal lost, one request lost or its second half, the first writes kept, one write lost, one
//   write kept, then some by the seed.
// Blocks of a journal (BlockKind::kJournal) show nothing as long as no commit block is open beside them: such blocks
//   are lost only together with everything.
// Marks: a mark was reached if it was made before the moment. An image could also stem from an earlier moment, when
//   fewer marks were made; it is judged with the most promises that fit.
// Does not model: faults, discards that keep what was there, and two writes of one block that were in flight at the
//   same time, of which the one that was issued last is taken to be the newest (all may miss bugs).
// Threads: read-only once made.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "blocklayer/trace.h"

namespace crashcut::blocklayer {

struct ImageBounds {
  std::uint32_t subsets = 64;
  std::uint64_t seed = 0;
};

enum class BlockKind : std::uint8_t { kPlain, kJournal, kCommit };

// What the images are made over: the device before the run.
struct ImageBase {
  std::span<const std::byte> bytes;
  // Says what a block of the journal is; empty: all blocks are plain.
  std::function<BlockKind(std::uint64_t block, std::span<const std::byte> bytes)> kind_of{};
  // What the filesystem's own recovery writes to an image before anything is read from it, without bytes what nobody
  // reads after it; no answer: that is not known.
  // Two images that are equal after it, journal aside, are made once. Empty: only equal images are.
  using Reader = std::function<std::span<const std::byte>(std::uint64_t block)>;
  using Replayed = std::unordered_map<std::uint64_t, std::vector<std::byte>>;
  std::function<std::optional<Replayed>(const Reader& read)> replay{};
};

class CrashImages {
 public:
  // An image: a moment, and the open writes that were lost.
  struct Image {
    std::uint32_t moment = 0;
    std::vector<std::uint32_t> lost{};  // ascending, as indices of the run's block writes
  };
  // A block of an image that the base does not have so.
  struct Block {
    std::uint64_t offset;
    std::span<const std::byte> bytes;
  };
  // The images of the trace that are not in `seen` yet; they are added to it. The trace's sectors are the blocks in
  // which writes tear. `base` and `seen` are only used here.
  CrashImages(std::shared_ptr<const DeviceTrace> trace, const DriveOptions& drive, const ImageBounds& bounds,
              const ImageBase& base, std::unordered_set<std::uint64_t>& seen);

  const std::vector<Image>& images() const { return images_; }
  // How many were chosen, before equal ones were left out.
  std::uint64_t chosen_count() const { return chosen_count_; }
  std::size_t moment_count() const { return moments_.size(); }
  std::uint64_t request_count() const { return trace_->request_count(); }

  // The blocks of an image, each once, in no order. A zeroed block has no bytes.
  std::vector<Block> blocks_of(const Image& image) const;
  std::uint32_t block_bytes() const { return trace_->header().sector_bytes; }
  // The marks that the program had made.
  std::vector<std::string> marks_of(const Image& image) const;
  // "the power fails after request 41 of 120; blocks that no flush had covered: 5, of which lost: 2"
  std::string describe(const Image& image) const;

 private:
  static constexpr std::uint64_t kZeroed = ~std::uint64_t{0};
  struct BlockWrite {
    std::uint64_t block;
    std::uint64_t payload;  // kZeroed: zeroes
    std::uint64_t hash;     // of its bytes
    std::uint32_t request;
    BlockKind kind;
  };
  struct Moment {
    std::uint32_t requests;           // issued so far
    std::uint32_t marks;              // made so far
    std::uint32_t writes;             // issued so far, in blocks
    std::vector<std::uint32_t> open;  // writes that may be lost
  };
  class Collector;
  // What is lost or kept together, each a block, or a request that the drive writes whole.
  using Atoms = std::vector<std::vector<std::uint32_t>>;
  struct Span {
    std::size_t begin, end;
  };
  // The atoms of each request that is not the journal's.
  std::vector<Span> plain_requests(const Atoms& atoms) const;
  static std::size_t step_for(std::size_t count, std::size_t share, const ImageBounds& bounds);
  void choose(std::uint32_t moment, const DriveOptions& drive, const ImageBounds& bounds, const ImageBase& base,
              std::unordered_set<std::uint64_t>& seen);
  std::uint64_t hash_of(const Image& image, const ImageBase& base) const;
  std::span<const std::byte> bytes_of(const BlockWrite& write) const;
  // The newest write of each block.
  std::unordered_map<std::uint64_t, std::uint32_t> newest(const Image& image) const;

  std::shared_ptr<const DeviceTrace> trace_;
  std::vector<BlockWrite> writes_;
  std::unordered_map<std::uint64_t, std::uint64_t> base_hashes_;  // of the blocks that are written
  std::vector<Moment> moments_;
  std::vector<std::string> marks_;
  std::vector<Image> images_;
  std::uint64_t chosen_count_ = 0;
};

}  // namespace crashcut::blocklayer
