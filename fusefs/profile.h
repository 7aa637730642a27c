// Profile: what an ext4 promises about persistence, as a table.
//
// One engine (Recorder) reads it. `rules` says which kinds of events persist before which others, with the
//   source of each claim; which events a call makes is in recorder.cc, guided by the options.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "persist/recording.h"

namespace crashcut::fusefs {

enum class ProfileName { kPaper, kExt4 };
enum class DataMode { kOrdered, kJournal, kWriteback };

struct ModelOptions {
  ProfileName profile = ProfileName::kExt4;
  DataMode data = DataMode::kOrdered;
  bool delalloc = true;        // delayed allocation
  bool auto_da_alloc = true;   // start allocation on rename-over and on close after truncation
  bool dioread_nolock = true;  // buffered writes allocate unwritten blocks
  bool barrier = true;         // the journal flushes the drive's cache
  std::uint32_t sector_bytes = 512;
  std::uint32_t block_bytes = 4096;
  bool operator==(const ModelOptions&) const = default;
};

// Names as on the command line. Errors are sentences that say what is allowed.
tl::expected<ProfileName, std::string> parse_profile(std::string_view text);
tl::expected<DataMode, std::string> parse_data_mode(std::string_view text);
// Applies mount options ("nodelalloc,barrier=0") to `options`.
tl::expected<void, std::string> parse_mount_options(std::string_view text, ModelOptions& options);
// sector divides block, both at least 1, block at most 1 MiB.
tl::expected<void, std::string> check_geometry(const ModelOptions& options);
std::string_view to_text(ProfileName name);
std::string_view to_text(DataMode mode);
// "ext4 data=ordered nodelalloc sector=512 block=4096": what differs from the defaults is named.
std::string describe(const ModelOptions& options);
// The options as others keep them: all of them, or, to be short, those that are not the default; and back. The error is
// a sentence.
persist::ModelSpec spec_of(const ModelOptions& options);
persist::ModelSpec changes_of(const ModelOptions& options);
tl::expected<ModelOptions, std::string> options_of(const persist::ModelSpec& spec);

// The kinds of events, as bits.
enum Kind : std::uint32_t {
  kData = 1 << 0,        // sectors of a file
  kGrow = 1 << 1,        // the on-disk size follows data that writeback will allocate, at any time
  kGrowInside = 1 << 2,  // the same for a block inside the size that the running system sees
  kMap = 1 << 3,         // the blocks that writeback allocated show their data
  kAllocate = 1 << 4,    // blocks are allocated (and the size grows) at once, in the call itself
  kZeroGrow = 1 << 5,    // the on-disk size grows inside the part-filled last block
  kTruncate = 1 << 6,    // an explicit change of the size or of the blocks
  kCreate = 1 << 7,      // an inode and its name, if it has one
  kName = 1 << 8,        // other changes of directory entries
  kMeta = 1 << 9,        // mode, owner, times, xattrs
  kFsync = 1 << 10,
  kFdatasync = 1 << 11,
  kDirectoryFsync = 1 << 12,  // of anything that is not a regular file
  kRangeFsync = 1 << 13,      // the same of a range of the file: O_SYNC and O_DSYNC
  kRangeFdatasync = 1 << 14,
  kSync = 1 << 15,
  kMark = 1 << 16,
  kZeroOut = 1 << 17,  // blocks that turn from unwritten to written with a neighbour are zeroed on the disk
  kFree = 1 << 18,     // the moment in which freed blocks become free for others; only barriers come before it
};
using Kinds = std::uint32_t;
inline constexpr Kinds kBarriers =
    kFsync | kFdatasync | kDirectoryFsync | kRangeFsync | kRangeFdatasync | kSync | kMark;
inline constexpr Kinds kEverything = ~Kinds{0};

enum class Scope { kSameSector, kRisingInBlock, kSameBlock, kSameFile, kAnywhere };

// Events of `before` persist before c-later events of `after` within the scope.
struct Rule {
  Kinds before;
  Scope scope;
  Kinds after;
  std::string_view source;
};

std::vector<Rule> rules(const ModelOptions& options);
// Whether a freed block may be written to for another file before the journal has committed that it was freed.
bool reuses_freed_blocks(const ModelOptions& options);

}  // namespace crashcut::fusefs
