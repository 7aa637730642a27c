// MetadataHistory: the blocks of ext4's metadata at each commit of one run, as its journal has them, and whether a
// crash image has all of them of one moment.
//
// For mounts without barriers. The journal forgets a transaction once its blocks are written to their places, and
// without
//   flushes the drive may lose some of these blocks still, or blocks of the journal itself. Then an image holds a
//   mixture of old and new metadata that no moment of the run had: link counts that do not fit, a name twice or not at
//   all, a journal with a wrong checksum. fusefs/ has no such states.
// Whatever is not known counts as right, so that no state is excused without a reason: block 0, which the kernel also
//   writes past the journal; a block after it was revoked; a block that held zeroes before the journal first had it,
//   which was free then; all images of a run whose journal went around.
// With data=journal the journal has blocks of files, too, and some images of mounts with barriers were taken for
//   damaged (8 of a few hundred): with data=journal,barrier=0 a state may be excused that is no damage.
// Source: linux/fs/jbd2/checkpoint.c, jbd2_cleanup_journal_tail(); journal.c, jbd2_journal_update_sb_log_tail().
// Threads: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "blocklayer/crash_images.h"
#include "recovery/kernel/journal.h"

namespace crashcut::kernel {

class MetadataHistory {
 public:
  // `base` is the disk before the run, and `journal` has the blocks of its journal, which is empty. All of these
  // outlive it. None: the journal is not understood.
  static std::optional<MetadataHistory> of(const blocklayer::CrashImages& run, std::span<const std::byte> base,
                                           const std::vector<std::uint64_t>& journal);

  // After the replay of its journal.
  bool is_of_one_moment(const blocklayer::CrashImages::Image& image);

 private:
  MetadataHistory(const blocklayer::CrashImages& run, std::span<const std::byte> base, Journal journal)
      : run_(run), base_(base), journal_(std::move(journal)) {}
  std::span<const std::byte> base_of(std::uint64_t block) const;
  // The blocks of an image that differ from the base.
  std::map<std::uint64_t, std::span<const std::byte>> changed_blocks(const blocklayer::CrashImages::Image& image) const;

  const blocklayer::CrashImages& run_;
  std::span<const std::byte> base_;
  Journal journal_;
  std::map<std::uint64_t, std::vector<Journal::Entry>> entries_;  // by block, in the order of the transactions
  std::uint32_t first_ = 0, last_ = 0;                            // transactions
};

}  // namespace crashcut::kernel
