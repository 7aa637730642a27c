// Recording: a persist::Log of filesystem events, and what its locations and values mean.
//
// Locations: a directory entry (dir, name) holding an inode number; an inode's size; an inode's Meta; the
//   block map entry (inode, block) holding a BlockId, 0 for one that reads as NULs; a sector of a BlockId,
//   holding its bytes; a mark, holding 1 once it was reached.
// A truncated block that is written again gets a fresh BlockId, so old and new bytes do not mix. The `paper`
//   profile has no block map: each (inode, block) is one BlockId for ever.
// In data=writeback two BlockIds can share a place on the disk, the later one the place that the earlier one was freed
//   from: fusefs/places.h.
// Threads: written by one Recorder; read-only once log is sealed.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "fusefs/profile.h"
#include "fusefs/sector_bytes.h"
#include "fusefs/types.h"
#include "persist/recording.h"

namespace crashcut::fusefs {

using BlockId = std::uint32_t;
inline constexpr BlockId kNoBlock = 0;

// kOther: of another model that shares the log (persist::Recording::Shared).
enum class LocationKind : std::uint8_t { kName, kSize, kMeta, kBlockMap, kSector, kMark, kOther };

struct LocationInfo {
  LocationKind kind;
  Ino ino;              // the directory for kName; the file that owned the block for kSector
  std::uint64_t index;  // block for kBlockMap, sector in the file for kSector, into `strings` for kName, kMark
};

struct InodeRecord {
  mode_t type = 0;
  bool is_new = false;  // created in this recording
  persist::LocationId size = 0;
  persist::LocationId meta = 0;
  std::unordered_map<std::uint64_t, persist::LocationId> block_map;
  // The block that holds the data if block_map has no entry: all blocks of the `paper` profile, and blocks that the
  // disk held before this recording.
  std::unordered_map<std::uint64_t, BlockId> home_blocks;
  std::map<std::string, persist::LocationId, std::less<>> names;  // directories
};

struct BlockRecord {
  Ino ino{};
  std::uint64_t block = 0;                   // where it was first used: collapse_range moves blocks
  std::vector<persist::LocationId> sectors;  // kNoLocation until written
  bool from_below = false;                   // sectors without a location are read from the disk below
  // If freed blocks are reused at once (fusefs/places.h): when the block has a place on the disk.
  std::vector<persist::EventId> allocations;       // journal entries that say that it is allocated
  persist::EventId placed_at = persist::kNoEvent;  // it has its place by this event; kNoEvent: it may still be delayed
  persist::EventId freed_by = persist::kNoEvent;   // the journal entry that frees it
  persist::EventId freed_at = persist::kNoEvent;   // the kFree event
  BlockId first_taker = kNoBlock;                  // the oldest block that can have its place afterwards
};
inline constexpr persist::LocationId kNoLocation = ~persist::LocationId{0};
// The value of a location that this recording has not written: it is read from the disk below.
inline constexpr persist::Value kFromBelow = ~persist::Value{0};

struct Recording final : persist::Recording {
  ModelOptions options;
  std::vector<Kind> event_kinds;        // of each event; Kind{} and shorter for events of another model in the log
  std::vector<LocationInfo> locations;  // of each location; likewise kOther
  std::vector<std::string> strings;
  std::unordered_map<std::uint64_t, InodeRecord> inodes;
  std::vector<BlockRecord> blocks{1};  // [0] is kNoBlock
  std::vector<BlockId> freed;          // by freed_at; empty if freed blocks are not reused at once
  std::vector<BlockId> look_alikes;    // of each block: the first one that was written and freed just like it
  std::vector<BlockId> leftovers;      // of each block: the first one that held the same in the end
  std::vector<Meta> metas{
      Meta{.mode = kRootMode, .nlink = 2}};  // kMeta values point here; [0] is the empty disk's root
  SectorBytes bytes;                         // kSector values point here; 0 is all NULs
  std::map<std::string, persist::LocationId, std::less<>> mark_locations;
  // The names that an inode had last and first, for reports.
  std::unordered_map<std::uint64_t, std::pair<Ino, std::string>> last_names;
  std::unordered_map<std::uint64_t, std::string> first_names;
  Ino next_ino{11};  // ext4's first

  void set_kind(persist::EventId event, Kind kind) {
    event_kinds.resize(event + 1);
    event_kinds[event] = kind;
  }

  persist::ModelSpec model() const override { return spec_of(options); }
  std::string_view kind_of(persist::EventId event) const override;
  bool is_sync(persist::EventId event) const override { return (event_kinds[event] & ~kBarriers) == 0; }
  // Names are those that the inode had last.
  std::string describe_event(persist::EventId event) const override;
  std::string describe_location(persist::LocationId location) const override;
  std::string describe_value(persist::LocationId location, persist::Value value) const;
  // The value, and where it comes from if not from the location itself.
  std::string describe_candidate(persist::LocationId location, const persist::Candidate& candidate) const override;
  std::vector<persist::Mark> marks() const override;
  bool is_mark(persist::LocationId location) const override { return locations[location].kind == LocationKind::kMark; }
  std::unique_ptr<persist::StableNames> stable_names() const override;
  std::string path_of(Ino ino) const;
  // What it takes in memory, about: what grows with operations, events and blocks.
  std::size_t memory_bytes() const;
};

}  // namespace crashcut::fusefs
