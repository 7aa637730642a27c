#include "fusefs/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

namespace crashcut::fusefs {
namespace {

constexpr Kinds kSize = kGrow | kZeroGrow | kTruncate;

// ---- paper: the axioms of PerSeVerE, section 3.2, to the letter ---------------------------------------------
// Barriers (sync, fsync, mark) persist before every later event in all tables; persist::Log does that.
// Not in the paper, and ours: kMeta; it is a metadata-affecting operation like any other (2.4.2).

constexpr Rule kPaperOrdered[] = {
    {kData, Scope::kSameSector, kData, "PB-SECTOR"},
    {kData, Scope::kRisingInBlock, kData, "PB-BLOCK"},
    {kSize, Scope::kSameFile, kSize, "PB-SECTOR: the size is one location"},
    {kMeta, Scope::kSameFile, kMeta, "PB-SECTOR: the metadata is one location"},
    {kData, Scope::kSameFile, kSize, "PB-META"},
    {kEverything, Scope::kSameFile, kFsync | kFdatasync | kDirectoryFsync | kRangeFsync | kRangeFdatasync,
     "PB-SYNC; 2.4.3 for O_SYNC"},
    {kEverything, Scope::kAnywhere, kSync, "PB-SYNC"},
    {kCreate | kName | kTruncate, Scope::kAnywhere, kEverything & ~(kData | kMark), "PB-DIROPS"},
};

// 2.5: "the metadata write is not bound to the data persist": without PB-META.
constexpr Rule kPaperWriteback[] = {
    {kData, Scope::kSameSector, kData, "PB-SECTOR"},
    {kData, Scope::kRisingInBlock, kData, "PB-BLOCK"},
    {kSize, Scope::kSameFile, kSize, "PB-SECTOR: the size is one location"},
    {kMeta, Scope::kSameFile, kMeta, "PB-SECTOR: the metadata is one location"},
    {kEverything, Scope::kSameFile, kFsync | kFdatasync | kDirectoryFsync | kRangeFsync | kRangeFdatasync,
     "PB-SYNC; 2.4.3 for O_SYNC"},
    {kEverything, Scope::kAnywhere, kSync, "PB-SYNC"},
    {kCreate | kName | kTruncate, Scope::kAnywhere, kEverything & ~(kData | kMark), "PB-DIROPS"},
};

// 2.5: "as everything goes through the journal, all c-ordered writes are p-ordered".
constexpr Rule kPaperJournal[] = {
    {kEverything & ~kMark, Scope::kAnywhere, kEverything & ~kMark, "2.5: one journal, in order"},
};

// ---- ext4: what the kernel does (read in 6.x, seen on 6.18) -------------------------------------------------
// The fates of a pending item:
//   a metadata operation  rides in the running transaction; transactions commit in order (jbd2), so the
//                         metadata operations are a chain, of which a prefix survives;
//   an overwrite          of written blocks is data only: writeback puts it out at any time, alone;
//   growth in a written   journals the size in the write itself (ext4_da_write_end: the block is mapped, so
//   last block            i_disksize moves), the data goes out later: NULs show;
//   a write to a block    does nothing durable until writeback (ext4_writepages), which may come at any time,
//   not yet allocated     by flusher, sync_file_range or auto_da_alloc. Then kGrow: allocated as unwritten, the
//                         size grown (mpage_map_and_submit_extent), one transaction; the data; kMap: ext4_end_io
//                         converts the extent, a later transaction, after the data (jbd2 flushes the drive
//                         before the commit record). kGrow without kMap shows NULs.
//   Writeback takes blocks in any order, and the on-disk size becomes the end of the last one allocated: a block
//   inside the size that the running system sees may be the first (kGrowInside).
//   kGrow and kMap float: they come after what the journal held when the data was written, and at any time
//   after that, so they are in no order with later metadata operations, except where writeback was started
//   (Recorder::start_writeback) or a sync forced it.
// Weaker than the kernel, so may report what cannot happen: if writeback came between two writes that grow one
//   block, the second growth is journalled at once and rides before later metadata; here it floats.

constexpr Kinds kChain = kCreate | kName | kMeta | kTruncate | kZeroGrow | kAllocate;  // one journal
constexpr Kinds kFloating = kGrow | kGrowInside | kMap;
constexpr Kinds kDatasync = kCreate | kTruncate | kZeroGrow | kAllocate;

constexpr Rule kJournal[] = {
    {kChain, Scope::kAnywhere, kChain | kFloating, "jbd2: transactions commit in order"},
};
constexpr Rule kPageCache[] = {
    {kData, Scope::kSameSector, kData, "the page cache holds one version of a block"},
    {kData, Scope::kRisingInBlock, kData, "a block is written from its start"},
};
// dioread_nolock: allocated as unwritten, converted when the data is out.
// (That the conversion of a block follows its allocation is in Recorder, which knows which event that is.)
constexpr Rule kUnwrittenExtents[] = {
    {kGrow, Scope::kSameFile, kGrow, "i_disksize only grows (mpage_map_and_submit_extent)"},
};
constexpr Rule kConversion[] = {
    {kData, Scope::kSameBlock, kMap, "ext4_end_io: conversion after the data, and the commit flushes the drive"},
};
// dioread_lock: kMap (kGrowInside, where the block lies inside the size) allocates, shows and grows in one. One block's
// is not bound to another's: writeback may begin in the middle of a file (range_cyclic), or be asked for a range.
constexpr Rule kWrittenExtents[] = {
    {kFloating, Scope::kSameBlock, kFloating,
     "mpage_map_and_submit_extent: a block's size grows with its allocation or after"},
};
// ext4_map_blocks: new written blocks put the inode on the transaction's ordered list, and so does zeroing the
// tail of a block (ext4_block_zero_page_range): the commit waits for the data.
constexpr Rule kOrderedData[] = {
    {kData, Scope::kSameBlock, kMap | kGrowInside | kAllocate, "ext4_map_blocks: ext4_jbd2_inode_add_write"},
    {kData, Scope::kSameBlock, kTruncate, "ext4_block_zero_page_range: ext4_jbd2_inode_add_write"},
};
constexpr Rule kJournalledData[] = {
    {kChain | kData, Scope::kAnywhere, kChain | kData | kDirectoryFsync,
     "data rides in the journal (ext4_journalled_write_end)"},
};
// Syncs wait for the file's data and for the last transaction that changed the inode (ext4_sync_file:
// i_sync_tid, i_datasync_tid), not for the running one when the inode is not in it: an fsync of a file that
// nothing changed does not commit what was done to others.
constexpr Rule kSyncRules[] = {
    {kData | kFloating | kChain, Scope::kSameFile, kFsync, "ext4_sync_file: i_sync_tid"},
    {kData | kFloating | kDatasync, Scope::kSameFile, kFdatasync, "ext4_sync_file: i_datasync_tid"},
    {kChain, Scope::kSameFile, kRangeFsync,
     "generic_write_sync: writes out the range alone, whose events Recorder names"},
    {kDatasync, Scope::kSameFile, kRangeFdatasync, "generic_write_sync"},
    {kChain, Scope::kAnywhere, kDirectoryFsync, "ext4_fsync_journal: ext4_force_commit unless a regular file"},
    {kEverything & ~(kMark | kZeroOut), Scope::kAnywhere, kSync, "sync_inodes_sb, ext4_sync_fs"},
};
// kZeroOut is in no rule: Recorder puts it before the journal entry that shows the block (ext4_ext_zeroout waits for
// the drive). Not in data=journal: there the old bytes may be in the journal still, whose replay brings them back,
// syncs or not.

// barrier=0: the drive's cache is never flushed: no sync makes durable, and data may stay behind what shows it.
// The journal's own order still holds, by its checksums.
std::vector<Rule> ext4_rules(const ModelOptions& o) {
  std::vector<Rule> table;
  auto add = [&](std::span<const Rule> rows) { std::copy(rows.begin(), rows.end(), std::back_inserter(table)); };
  if (o.data == DataMode::kJournal) {
    add(kJournalledData);
  } else {
    add(kJournal);
    add(kPageCache);
    add(o.dioread_nolock ? std::span<const Rule>(kUnwrittenExtents) : std::span<const Rule>(kWrittenExtents));
    if (o.barrier && o.data == DataMode::kOrdered) add(kOrderedData);
    if (o.barrier && o.data == DataMode::kWriteback && o.dioread_nolock) add(kConversion);
  }
  if (o.barrier) add(kSyncRules);
  return table;
}

// When the allocator may give a freed data block to somebody else. Blocks of metadata wait for the commit in all modes.
struct ReuseRule {
  DataMode data;
  bool at_once;
  std::string_view source;
};
constexpr ReuseRule kReuseRules[] = {
    {DataMode::kOrdered, false, "ext4_mb_clear_bb: ext4_mb_free_metadata, until the commit"},
    {DataMode::kJournal, false, "ext4_mb_clear_bb: ext4_mb_free_metadata, until the commit"},
    {DataMode::kWriteback, true, "ext4_mb_clear_bb: mb_free_blocks where ext4_should_writeback_data; seen on 6.18"},
};

struct MountOption {
  std::string_view name;
  bool ModelOptions::*flag;
  bool value;
};
constexpr MountOption kMountOptions[] = {
    {"delalloc", &ModelOptions::delalloc, true},
    {"nodelalloc", &ModelOptions::delalloc, false},
    {"auto_da_alloc", &ModelOptions::auto_da_alloc, true},
    {"noauto_da_alloc", &ModelOptions::auto_da_alloc, false},
    {"dioread_nolock", &ModelOptions::dioread_nolock, true},
    {"dioread_lock", &ModelOptions::dioread_nolock, false},
    {"barrier", &ModelOptions::barrier, true},
    {"barrier=1", &ModelOptions::barrier, true},
    {"barrier=0", &ModelOptions::barrier, false},
    {"nobarrier", &ModelOptions::barrier, false},
};

std::string option_names() {
  std::string names;
  for (const MountOption& option : kMountOptions) names += fmt::format("{}{}", names.empty() ? "" : ", ", option.name);
  return names + ", data=ordered|journal|writeback";
}

tl::expected<void, std::string> apply_mount_option(std::string_view text, ModelOptions& options) {
  if (text.starts_with("data=")) {
    const auto mode = parse_data_mode(text.substr(5));
    if (!mode) return tl::unexpected(mode.error());
    options.data = *mode;
    return {};
  }
  for (const MountOption& option : kMountOptions) {
    if (option.name != text) continue;
    options.*option.flag = option.value;
    return {};
  }
  return tl::unexpected(fmt::format("mount option '{}' is not modelled; known are {}", text, option_names()));
}

}  // namespace

std::vector<Rule> rules(const ModelOptions& options) {
  if (options.profile == ProfileName::kExt4) return ext4_rules(options);
  switch (options.data) {
    case DataMode::kOrdered:
      return {std::begin(kPaperOrdered), std::end(kPaperOrdered)};
    case DataMode::kJournal:
      return {std::begin(kPaperJournal), std::end(kPaperJournal)};
    case DataMode::kWriteback:
      return {std::begin(kPaperWriteback), std::end(kPaperWriteback)};
  }
  return {};
}

bool reuses_freed_blocks(const ModelOptions& options) {
  if (options.profile != ProfileName::kExt4) return false;  // the paper's blocks keep their places for ever
  return std::any_of(std::begin(kReuseRules), std::end(kReuseRules),
                     [&](const ReuseRule& rule) { return rule.data == options.data && rule.at_once; });
}

tl::expected<ProfileName, std::string> parse_profile(std::string_view text) {
  if (text == "paper") return ProfileName::kPaper;
  if (text == "ext4") return ProfileName::kExt4;
  return tl::unexpected(fmt::format("profile '{}' is not known; choose paper or ext4", text));
}

tl::expected<DataMode, std::string> parse_data_mode(std::string_view text) {
  if (text == "ordered") return DataMode::kOrdered;
  if (text == "journal") return DataMode::kJournal;
  if (text == "writeback") return DataMode::kWriteback;
  return tl::unexpected(fmt::format("data mode '{}' is not known; choose ordered, journal or writeback", text));
}

tl::expected<void, std::string> parse_mount_options(std::string_view text, ModelOptions& options) {
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view option = text.substr(0, comma);
    if (!option.empty()) {
      if (auto applied = apply_mount_option(option, options); !applied) return applied;
    }
    text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
  }
  return {};
}

tl::expected<void, std::string> check_geometry(const ModelOptions& o) {
  constexpr std::uint32_t kBlockBytesMax = 1 << 20;
  if (o.sector_bytes == 0 || o.block_bytes == 0 || o.block_bytes > kBlockBytesMax ||
      o.block_bytes % o.sector_bytes != 0) {
    return tl::unexpected(fmt::format(
        "sector of {} and block of {} bytes do not fit: a block is a whole number of sectors and at most {} bytes",
        o.sector_bytes, o.block_bytes, kBlockBytesMax));
  }
  return {};
}

std::string_view to_text(ProfileName name) { return name == ProfileName::kPaper ? "paper" : "ext4"; }

std::string_view to_text(DataMode mode) {
  switch (mode) {
    case DataMode::kOrdered:
      return "ordered";
    case DataMode::kJournal:
      return "journal";
    case DataMode::kWriteback:
      return "writeback";
  }
  return "";
}

std::string describe(const ModelOptions& options) {
  std::string text = fmt::format("{} data={}", to_text(options.profile), to_text(options.data));
  constexpr ModelOptions kDefaults;
  for (const MountOption& option : kMountOptions) {
    const bool is_canonical = option.name.find('=') == std::string_view::npos && option.name != "nobarrier";
    const bool named = option.name == "barrier=0" || is_canonical;
    if (named && options.*option.flag == option.value && options.*option.flag != kDefaults.*option.flag) {
      text += fmt::format(" {}", option.name);
    }
  }
  return text + fmt::format(" sector={} block={}", options.sector_bytes, options.block_bytes);
}

}  // namespace crashcut::fusefs
