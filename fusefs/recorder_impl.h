// The inside of Recorder, in five files: the locations, events, names and metadata (recorder.cc), the writes
// (recorder_write.cc), the explicit changes of size and blocks (recorder_blocks.cc), the syncs (recorder_sync.cc), when
// a block has a place on the disk (recorder_places.cc).
#pragma once

#include <map>
#include <set>
#include <unordered_map>
#include <vector>

#include "fusefs/block_ranges.h"
#include "fusefs/order.h"
#include "fusefs/recorder.h"

namespace crashcut::fusefs {

// What the running system knows of a block of a file.
struct BlockState {
  BlockId id = kNoBlock;
  bool written = false;        // allocated, and a sync or the call itself made its data visible
  BlockId kept = kNoBlock;     // if id is kNoBlock: the block that ZERO_RANGE left in place, which the next write uses
  bool is_zeroed_out = false;  // it became written with a neighbour, and nothing was written to it since
  // The block that is allocated, written or not.
  BlockId owned() const { return id != kNoBlock ? id : kept; }
};

// A growth of the on-disk size that no sync or explicit change of size has overtaken.
struct Growth {
  std::uint64_t size;
  persist::EventId event;
};

struct Allocation {
  std::uint64_t block;
  std::uint64_t size;  // it grows the file to this size; 0 if it does not, or if the size was set explicitly since
  persist::EventId event;
};

// Blocks up to `end` to which fallocate gave a place.
struct Reservation {
  std::uint64_t end;
  persist::EventId since;
};

struct FileState {
  std::unordered_map<std::uint64_t, BlockState> blocks;
  std::vector<std::uint64_t> delayed;   // blocks that are not written, each once
  std::uint64_t settled_size = 0;       // the on-disk size is at least this once all of the journal has persisted
  std::vector<Growth> growths;          // beyond settled_size, by size
  std::vector<Allocation> allocations;  // what writeback of the delayed blocks will put into the journal
  std::unordered_map<std::uint64_t, std::vector<persist::EventId>> zero_outs;  // of delayed blocks
  BlockRanges preallocated;                       // blocks that need no room reserved when they are written
  std::map<std::uint64_t, Reservation> reserved;  // blocks that have a place and no data, by the first of a range
  std::uint64_t write_end = 0;                    // of the call that writes
  std::uint64_t zero_grown_to = 0;                // paper: the on-disk size that the write under way began with
  bool allocate_on_close = false;                 // EXT4_STATE_DA_ALLOC_CLOSE
};

// What Recorder::loosen() needs to know about an event, besides what the recording says.
struct Stamp {
  Effects::Moment moment;
  std::vector<persist::EventId> after;  // the events that it follows for other reasons than the profile's rules
  std::vector<Ino> inos;
  BlockId block;
  std::uint32_t sector;
};

// Sectors of a block, both included.
struct SectorSpan {
  std::uint32_t first;
  std::uint32_t last;
};

struct Recorder::Impl {
  using EventId = persist::EventId;
  using LocationId = persist::LocationId;
  using Value = persist::Value;
  using Write = persist::Write;

  Impl(const ModelOptions& options, Medium* base, Effects* effects);

  Recording recording;
  Medium* base;
  Effects* effects;
  Order order;
  std::unordered_map<std::uint64_t, FileState> files;
  // Writeback that was started: its events come before the next entry of the journal.
  std::vector<EventId> before_next_in_journal;
  std::vector<persist::AddedSync> added_syncs;  // by operation
  std::size_t next_added_sync = 0;
  std::set<BlockId> unplaced;     // blocks whose allocation is delayed, if freed blocks are reused at once
  std::vector<BlockId> unmapped;  // scratch: blocks that the call under way takes from a file
  bool is_loosened = false;
  bool is_sealed = false;
  std::vector<Stamp> stamps;          // of each event, if there are effects
  std::uint64_t source_offset = 0;    // in the file that is written
  std::span<const std::byte> source;  // of the write under way, in recording.bytes.outside(); may be empty
  std::vector<EventId> after;         // scratch of emit
  std::vector<Write> writes;          // scratch of the callers of emit

  bool is_paper() const { return recording.options.profile == ProfileName::kPaper; }
  bool reuses() const { return reuses_freed_blocks(recording.options); }
  bool is_journal() const { return recording.options.data == DataMode::kJournal; }
  std::uint32_t sector_bytes() const { return recording.options.sector_bytes; }
  std::uint32_t block_bytes() const { return recording.options.block_bytes; }
  std::uint32_t sectors_per_block() const { return block_bytes() / sector_bytes(); }
  std::uint64_t block_end(std::uint64_t offset) const { return (offset / block_bytes() + 1) * block_bytes(); }
  std::uint32_t op() const { return static_cast<std::uint32_t>(recording.ops.size() - 1); }

  // The locations of an inode.
  FileState& file(Ino ino);
  LocationId add_location(LocationKind kind, Ino ino, std::uint64_t index, Value initial);
  InodeRecord& inode(Ino ino);
  void add_inode(Ino ino, mode_t type);
  bool is_from_below(Ino ino) { return base && !inode(ino).is_new; }
  LocationId name_location(Ino dir, const std::string& name);
  LocationId block_map_location(Ino ino, std::uint64_t block);
  BlockId new_block(Ino ino, std::uint64_t block, bool from_below);
  LocationId sector_location(BlockId id, std::uint32_t sector);
  BlockState& block_state(Ino ino, std::uint64_t block);

  // What the call has to do with other calls.
  void report(Kind kind, const Touch& touch, std::span<const Write> event_writes) const;
  void touch_writing(Ino ino, Effects::Part part) const {
    if (effects) effects->touch_writing(ino, part);
  }
  void touch_started(Effects::Part part) const {
    if (effects) effects->touch(Effects::Thing::kStarted, part);
  }

  // Events.
  void stamp(const Touch& touch);
  void add_location_order(Kind kind, std::span<const Write> event_writes);
  EventId emit(Kind kind, const Touch& touch, std::span<const Write> event_writes,
               std::span<const EventId> also_after = {});

  // Writes.
  Value sector_value(LocationId location, std::span<const std::byte> bytes);
  const std::byte* find_in_source(std::uint64_t offset, std::span<const std::byte> sector) const;
  SectorSpan sectors_of(std::uint64_t block, std::uint64_t begin, std::uint64_t end) const;
  void append_sector_writes(BlockId id, SectorSpan span, std::span<const std::byte> bytes);
  void emit_data(Ino ino, BlockId id, SectorSpan span, std::span<const std::byte> bytes,
                 std::vector<EventId>* events = nullptr);
  SectorSpan whole_block() const { return {0, sectors_per_block() - 1}; }
  SectorSpan land(Ino ino, std::uint64_t block, BlockState& state, SectorSpan span, bool is_delayed);
  bool is_unwritten(const FileState& state, std::uint64_t block) const;
  std::vector<std::uint64_t> find_converted(Ino ino, std::uint64_t block, std::uint64_t size);
  std::vector<EventId> emit_zero_out(Ino ino, BlockId id);
  std::vector<EventId> zero_out_neighbours(Ino ino, std::uint64_t block, std::uint64_t size, std::vector<Write>& maps);
  void emit_size(Kind kind, Ino ino, std::uint64_t size);
  static void settle_growths(FileState& state, std::uint64_t first, std::uint64_t end);
  void settle_size(Ino ino, std::uint64_t size);
  bool raise_size(Ino ino, std::uint64_t to);
  void current_sector(BlockId id, std::uint32_t sector, std::span<std::byte> out);
  void emit_data_range(Ino ino, std::uint64_t begin, std::uint64_t end, const BlockBytes& bytes);
  std::uint64_t grow_over_zeros(const WriteRange& range);
  void begin_write(const WriteRange& range);
  void write_paper(const WriteRange& range, const BlockBytes& bytes);
  void grow_last_delayed_block(const WriteRange& range);
  void write_ext4(const WriteRange& range, const BlockBytes& bytes);
  void write_block(const WriteRange& range, std::uint64_t block, SectorSpan span, std::span<const std::byte> bytes,
                   std::uint64_t size, std::uint64_t grow_to);
  void write_journalled(Ino ino, std::uint64_t block, BlockState& state, SectorSpan span,
                        std::span<const std::byte> bytes, std::uint64_t size, std::uint64_t grow_to);
  void overwrite(const WriteRange& range, std::uint64_t block, BlockId id, SectorSpan span,
                 std::span<const std::byte> bytes, std::uint64_t grow_to);
  void write_delayed(Ino ino, std::uint64_t block, BlockState& state, SectorSpan span, std::span<const std::byte> bytes,
                     std::uint64_t size, std::uint64_t grow_to);
  EventId emit_allocation(Kind kind, FileState& state, const Touch& touch, std::uint64_t block, std::uint64_t size,
                          std::span<const EventId> also_after = {});
  EventId allocate_delayed(Ino ino, std::uint64_t block, BlockId id, std::uint64_t size, std::uint64_t grow_to,
                           std::span<const EventId> also_after = {});
  void write_allocating(const WriteRange& range, std::uint64_t block, BlockState& state, SectorSpan span,
                        std::span<const std::byte> bytes, std::uint64_t size, std::uint64_t grow_to);

  // Explicit changes of size and blocks.
  std::vector<std::uint64_t> known_blocks(Ino ino, std::uint64_t first, std::uint64_t end);
  template <class Visit>
  void visit_changed_sectors(Ino ino, std::uint64_t begin, std::uint64_t end, const BlockBytes& bytes, Visit&& visit);
  void emit_changed_sectors(Ino ino, std::uint64_t begin, std::uint64_t end, const BlockBytes& bytes);
  void change_sectors(Ino ino, std::uint64_t begin, std::uint64_t end, const BlockBytes& bytes,
                      std::vector<Write>& also);
  void unmap_blocks(Ino ino, std::uint64_t first, std::uint64_t end, bool keeps = false);
  void add_blocks_below(Ino ino, std::uint64_t first, std::uint64_t end, std::vector<std::uint64_t>& blocks);
  BlockId part_block(Ino ino, std::uint64_t offset);
  void truncate(Ino ino, std::uint64_t old_size, std::uint64_t new_size, const BlockBytes& bytes);
  void zero_range(Ino ino, std::uint64_t offset, std::uint64_t length, std::uint64_t old_size, std::uint64_t new_size,
                  const BlockBytes& bytes, bool allocates);
  void note_preallocated(Ino ino, std::uint64_t offset, std::uint64_t length);
  std::vector<EventId> part_data(Ino ino, std::uint64_t offset, std::uint64_t end);
  void shift_blocks(Ino ino, std::uint64_t first, std::int64_t shift, std::uint64_t old_size, std::uint64_t new_size,
                    const BlockBytes& bytes);

  // Places.
  void note_allocation(BlockId id, EventId event);
  void add_place(Ino ino, std::uint64_t block, BlockId id, bool is_delayed);
  void place_blocks(Ino ino, std::uint64_t first, std::uint64_t end);
  static void forget_reserved(FileState& state, std::uint64_t first, std::uint64_t end);
  void reserve_places(Ino ino, std::uint64_t first, std::uint64_t end, EventId since);
  void free_blocks(std::span<const BlockId> ids, EventId by);
  void free_unmapped(EventId by);
  void keep_unmapped();
  void shift_reserved(Ino ino, std::uint64_t first, std::int64_t shift);
  void find_look_alikes();

  // Syncs.
  void written_now(Ino ino, std::uint64_t first, std::uint64_t end);
  void settle_blocks(Ino ino, std::uint64_t first, std::uint64_t end);
  void sync_file(Ino ino, bool datasync);
  void add_last_write(LocationId location, std::vector<EventId>& events) const;
  void find_map_event(Ino ino, std::uint64_t block, std::vector<EventId>& events);
  void find_block_events(Ino ino, std::uint64_t first, std::uint64_t end, std::vector<EventId>& events);
  void sync_range(Ino ino, std::uint64_t offset, std::uint64_t length, bool datasync);
  void sync_everything();
  // Those before the operation that is about to begin.
  void do_added_syncs();
  void begin_writeback(Ino ino, std::uint64_t first, std::uint64_t end);
  void note_started(Ino ino, std::uint64_t first, std::uint64_t end);
  void allocate_delayed_blocks(Ino ino);
};

}  // namespace crashcut::fusefs
