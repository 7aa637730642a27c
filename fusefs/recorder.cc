#include "fusefs/recorder.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "fusefs/order.h"
#include "persist/check.h"

namespace crashcut::fusefs {

using persist::EventId;
using persist::kNoEvent;
using persist::LocationId;
using persist::Value;
using persist::Write;

namespace {

// What the running system knows of a block of a file.
struct BlockState {
  BlockId id = kNoBlock;
  bool written = false;  // allocated, and a sync or the call itself saw to it that its data shows
};

// A growth of the on-disk size that no sync or explicit change of size has overtaken.
struct Growth {
  std::uint64_t size;
  EventId event;
};

struct Allocation {
  std::uint64_t block;
  std::uint64_t size;  // that it grows the file to, 0 where it does not
  EventId event;
};

struct FileState {
  std::unordered_map<std::uint64_t, BlockState> blocks;
  std::vector<std::uint64_t> delayed;  // blocks that are not written, each once
  std::uint64_t settled_size = 0;      // the on-disk size is at least this where the journal is at its end
  std::vector<Growth> growths;         // beyond settled_size, by size
  std::vector<Allocation> allocations; // what writeback of the delayed blocks will put into the journal
  std::unordered_set<std::uint64_t> preallocated;  // blocks that need no room reserved when they are written
  std::uint64_t zero_grown_to = 0;     // paper: the on-disk size that the write under way began with
  bool allocate_on_close = false;      // EXT4_STATE_DA_ALLOC_CLOSE
};

bool is_all_nul(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

struct Recorder::Impl {
  Impl(const ModelOptions& options, Medium* base) : base(base), order(rules(options), recording.log) {
    recording.options = options;
    recording.ops.emplace_back("the starting state");
    if (base) recording.next_ino = base->first_free_ino();
  }

  Recording recording;
  Medium* base;
  Order order;
  std::unordered_map<std::uint64_t, FileState> files;
  // Writeback that was started: its events come before whatever the journal takes next.
  std::vector<EventId> before_next_in_journal;
  std::vector<EventId> after;  // scratch of emit
  std::vector<Write> writes;   // scratch of the callers of emit
  bool is_paper() const { return recording.options.profile == ProfileName::kPaper; }
  bool is_journal() const { return recording.options.data == DataMode::kJournal; }
  std::uint32_t sector_bytes() const { return recording.options.sector_bytes; }
  std::uint32_t block_bytes() const { return recording.options.block_bytes; }
  std::uint32_t sectors_per_block() const { return block_bytes() / sector_bytes(); }
  FileState& file(Ino ino) {
    const auto [found, is_new] = files.try_emplace(static_cast<std::uint64_t>(ino));
    if (is_new && is_from_below(ino)) found->second.settled_size = base->size(ino);
    return found->second;
  }

  LocationId add_location(LocationKind kind, Ino ino, std::uint64_t index, Value initial) {
    recording.locations.push_back(LocationInfo{kind, ino, index});
    return recording.log.add_location(initial);
  }

  // ---- what the locations of an inode are -------------------------------------------------------------------

  InodeRecord& inode(Ino ino) {
    const auto [found, is_new] = recording.inodes.try_emplace(static_cast<std::uint64_t>(ino));
    if (is_new) {
      const Value initial = base ? kFromBelow : 0;
      found->second.type = base ? base->type(ino) : S_IFDIR;
      found->second.size = add_location(LocationKind::kSize, ino, 0, initial);
      found->second.meta = add_location(LocationKind::kMeta, ino, 0, initial);
    }
    return found->second;
  }

  void add_inode(Ino ino, mode_t type) {
    const auto [found, is_new] = recording.inodes.try_emplace(static_cast<std::uint64_t>(ino));
    CHECK(is_new);
    found->second.type = type;
    found->second.is_new = true;
    found->second.size = add_location(LocationKind::kSize, ino, 0, 0);
    found->second.meta = add_location(LocationKind::kMeta, ino, 0, 0);
    recording.next_ino = std::max(recording.next_ino, Ino{static_cast<std::uint64_t>(ino) + 1});
  }

  bool is_from_below(Ino ino) { return base && !inode(ino).is_new; }

  LocationId name_location(Ino dir, const std::string& name) {
    InodeRecord& record = inode(dir);
    if (const auto found = record.names.find(name); found != record.names.end()) return found->second;
    recording.strings.push_back(name);
    const LocationId location = add_location(LocationKind::kName, dir, recording.strings.size() - 1,
                                             is_from_below(dir) ? kFromBelow : static_cast<Value>(kNoIno));
    return inode(dir).names[name] = location;
  }

  LocationId block_map_location(Ino ino, std::uint64_t block) {
    InodeRecord& record = inode(ino);
    if (const auto found = record.block_map.find(block); found != record.block_map.end()) return found->second;
    const LocationId location =
        add_location(LocationKind::kBlockMap, ino, block, is_from_below(ino) ? kFromBelow : Value{kNoBlock});
    return inode(ino).block_map[block] = location;
  }

  BlockId new_block(Ino ino, std::uint64_t block, bool from_below) {
    recording.blocks.push_back(
        BlockRecord{ino, block, std::vector<LocationId>(sectors_per_block(), kNoLocation), from_below});
    return static_cast<BlockId>(recording.blocks.size() - 1);
  }

  LocationId sector_location(BlockId id, std::uint32_t sector) {
    LocationId& location = recording.blocks[id].sectors[sector];
    if (location == kNoLocation) {
      const BlockRecord& block = recording.blocks[id];
      const LocationId added = add_location(LocationKind::kSector, block.ino, block.block * sectors_per_block() + sector,
                                            block.from_below ? kFromBelow : 0);
      recording.blocks[id].sectors[sector] = added;
      return added;
    }
    return location;
  }

  BlockState& block_state(Ino ino, std::uint64_t block) {
    FileState& state = file(ino);
    const auto [found, is_new] = state.blocks.try_emplace(block);
    if (!is_new) return found->second;
    const bool below = is_from_below(ino) && base->is_written(ino, block);
    if (is_paper() || below) {
      found->second = BlockState{new_block(ino, block, is_from_below(ino)), true};
      inode(ino).home_blocks[block] = found->second.id;
    }
    return found->second;
  }

  // ---- events -----------------------------------------------------------------------------------------------

  std::uint32_t op() const { return static_cast<std::uint32_t>(recording.ops.size() - 1); }

  // The earlier write of a location is a direct predecessor wherever it is one at all: then neighbours of equal
  // value are seen to be one candidate.
  void add_location_order(Kind kind, std::span<const Write> event_writes) {
    for (const Write& w : event_writes) {
      const EventId last = recording.log.last_write(w.location);
      if (last != kNoEvent && order.is_ordered(recording.event_kinds[last], kind)) after.push_back(last);
    }
  }

  EventId emit(Kind kind, const Touch& touch, std::span<const Write> event_writes, std::span<const EventId> also_after = {}) {
    constexpr Kinds kInJournal = kCreate | kName | kMeta | kTruncate | kZeroGrow | kAllocate;
    after.assign(also_after.begin(), also_after.end());
    add_location_order(kind, event_writes);
    if (kind & (kInJournal | kGrow | kGrowInside | kMap)) {
      after.insert(after.end(), before_next_in_journal.begin(), before_next_in_journal.end());
    }
    if (kind & kInJournal) before_next_in_journal.clear();  // the journal is a chain: later entries follow this one
    order.find_predecessors(kind, touch, after);
    const EventId event = (kind & kBarriers) ? recording.log.add_barrier(op(), event_writes, after)
                                             : recording.log.add_event(op(), event_writes, after);
    recording.event_kinds.push_back(kind);
    order.add(event, kind, touch);
    return event;
  }

  Value sector_value(LocationId location, std::span<const std::byte> bytes) {
    const Value current = recording.log.current(location);
    if (is_all_nul(bytes)) return 0;
    if (current != 0 && current != kFromBelow &&
        std::memcmp(recording.bytes.data() + (current - 1), bytes.data(), bytes.size()) == 0) {
      return current;
    }
    const Value value = recording.bytes.size() + 1;
    recording.bytes.insert(recording.bytes.end(), bytes.begin(), bytes.end());
    return value;
  }

  // The sectors of `block` that [begin, end) of the file touches.
  struct SectorSpan {
    std::uint32_t first;
    std::uint32_t last;
  };
  SectorSpan sectors_of(std::uint64_t block, std::uint64_t begin, std::uint64_t end) const {
    const std::uint64_t block_begin = block * block_bytes();
    const std::uint64_t from = std::max(begin, block_begin) - block_begin;
    const std::uint64_t to = std::min(end, block_begin + block_bytes()) - block_begin;
    return {static_cast<std::uint32_t>(from / sector_bytes()), static_cast<std::uint32_t>((to - 1) / sector_bytes())};
  }

  // Sets `writes` to those sectors as `bytes` (a whole block) has them.
  void append_sector_writes(BlockId id, SectorSpan span, std::span<const std::byte> bytes) {
    for (std::uint32_t s = span.first; s <= span.last; ++s) {
      const LocationId location = sector_location(id, s);
      writes.push_back(Write{location, sector_value(location, bytes.subspan(s * sector_bytes(), sector_bytes()))});
    }
  }

  // One data event a sector; in journal mode one a block, the unit that the journal takes.
  void emit_data(Ino ino, BlockId id, SectorSpan span, std::span<const std::byte> bytes, std::vector<EventId>* events = nullptr) {
    if (is_journal()) {
      writes.clear();
      append_sector_writes(id, span, bytes);
      emit(kData, Touch{{&ino, 1}, id, span.first}, writes);
      return;
    }
    for (std::uint32_t s = span.first; s <= span.last; ++s) {
      writes.clear();
      append_sector_writes(id, {s, s}, bytes);
      const EventId event = emit(kData, Touch{{&ino, 1}, id, s}, writes);
      if (events) events->push_back(event);
    }
  }

  void emit_size(Kind kind, Ino ino, std::uint64_t size) {
    const Write write{inode(ino).size, size};
    emit(kind, Touch{{&ino, 1}}, {&write, 1});
    settle_size(ino, size);
  }

  // The growths so far are in the journal before whatever comes later.
  static void settle_growths(FileState& state) {
    if (!state.growths.empty()) state.settled_size = state.growths.back().size;
    state.growths.clear();
  }

  void settle_size(Ino ino, std::uint64_t size) {
    file(ino).settled_size = size;
    file(ino).growths.clear();
  }

  // ---- writes, paper ----------------------------------------------------------------------------------------

  std::uint64_t block_end(std::uint64_t offset) const { return (offset / block_bytes() + 1) * block_bytes(); }

  // Emits data events for [begin, end), which `bytes` gives, block by block.
  void emit_data_range(Ino ino, std::uint64_t begin, std::uint64_t end, const BlockBytes& bytes) {
    for (std::uint64_t at = begin; at < end; at = block_end(at)) {
      const std::uint64_t block = at / block_bytes();
      emit_data(ino, block_state(ino, block).id, sectors_of(block, at, end), bytes(block));
    }
  }

  // Fig. 7, BUFFERWRITE lines 4 to 8: the last block exists already, so the size grows to its end over zeros.
  std::uint64_t grow_over_zeros(Ino ino, std::uint64_t size, std::uint64_t end) {
    if (size % block_bytes() == 0 || end <= size) return size;
    const std::uint64_t zero_end = std::min(end, block_end(size));
    const std::uint64_t block = size / block_bytes();
    const BlockId id = block_state(ino, block).id;
    std::vector<std::byte> bytes(block_bytes());
    for (std::uint32_t s = 0; s < sectors_per_block(); ++s) {
      current_sector(id, s, std::span(bytes).subspan(s * sector_bytes(), sector_bytes()));
    }
    std::fill(bytes.begin() + size % block_bytes(), bytes.begin() + (zero_end - 1) % block_bytes() + 1, std::byte{0});
    emit_data(ino, id, sectors_of(block, size, zero_end), bytes);
    emit_size(kZeroGrow, ino, zero_end);
    return zero_end;
  }

  // What the newest event wrote to a sector.
  void current_sector(BlockId id, std::uint32_t sector, std::span<std::byte> out) {
    const LocationId location = recording.blocks[id].sectors[sector];
    const Value value = location == kNoLocation ? (recording.blocks[id].from_below ? kFromBelow : 0)
                                                : recording.log.current(location);
    const BlockRecord& block = recording.blocks[id];
    if (value == kFromBelow) {
      base->read_bytes(block.ino, (block.block * sectors_per_block() + sector) * sector_bytes(), out);
    } else if (value == 0) {
      std::fill(out.begin(), out.end(), std::byte{0});
    } else {
      std::memcpy(out.data(), recording.bytes.data() + (value - 1), out.size());
    }
  }

  void begin_write(const WriteRange& range) {
    const ModelOptions& o = recording.options;
    const bool zero_grows = is_paper() && o.data == DataMode::kOrdered && o.delalloc;
    file(range.ino).zero_grown_to =
        zero_grows ? grow_over_zeros(range.ino, range.old_size, range.offset + range.length) : range.old_size;
  }

  void write_paper(const WriteRange& range, const BlockBytes& bytes) {
    const std::uint64_t end = range.offset + range.length;
    std::uint64_t size = std::max(range.old_size, file(range.ino).zero_grown_to);
    // Lines 9 and 10: zeros up to the offset, in whole sectors; the shared one is written with the data, atomically.
    const std::uint64_t data_begin = range.offset - range.offset % sector_bytes();
    if (range.offset > size) emit_data_range(range.ino, std::min(size, data_begin), data_begin, bytes);
    for (std::uint64_t at = range.offset; at < end; at = block_end(at)) {
      const std::uint64_t block = at / block_bytes();
      const std::uint64_t to = std::min(end, block_end(at));
      emit_data(range.ino, block_state(range.ino, block).id, sectors_of(block, at, to), bytes(block));
      if (to > size) emit_size(kGrow, range.ino, size = to);
    }
  }

  // ---- writes, ext4 -----------------------------------------------------------------------------------------

  // A write behind a gap: whenever the old last block is allocated now, the on-disk size becomes its end.
  void grow_last_delayed_block(const WriteRange& range) {
    const std::uint64_t size = range.old_size;
    if (is_journal() || size % block_bytes() == 0 || range.offset < block_end(size)) return;
    const BlockState& last = block_state(range.ino, size / block_bytes());
    if (last.id == kNoBlock || last.written) return;
    writes.clear();
    allocate_delayed(range.ino, size / block_bytes(), last.id, size, block_end(size));
  }

  void write_ext4(const WriteRange& range, const BlockBytes& bytes) {
    const std::uint64_t end = range.offset + range.length;
    std::uint64_t size = range.old_size;
    grow_last_delayed_block(range);
    for (std::uint64_t at = range.offset; at < end; at = block_end(at)) {
      const std::uint64_t block = at / block_bytes();
      const std::uint64_t to = std::min(end, block_end(at));
      write_block(range, block, sectors_of(block, at, to), bytes(block), size, to > size ? to : 0);
      size = std::max(size, to);
    }
  }

  // `grow_to` is the new size, 0 where it does not grow.
  void write_block(const WriteRange& range, std::uint64_t block, SectorSpan span, std::span<const std::byte> bytes,
                   std::uint64_t size, std::uint64_t grow_to) {
    BlockState& state = block_state(range.ino, block);
    if (is_journal()) {
      write_journalled(range.ino, block, state, span, bytes, grow_to);
    } else if (state.written) {
      overwrite(range, state.id, span, bytes, grow_to);
    } else if (recording.options.delalloc && !range.direct) {
      write_delayed(range.ino, block, state, span, bytes, size, grow_to);
    } else {
      write_allocating(range, block, state, span, bytes, grow_to);
    }
  }

  // ext4_journalled_write_end: data, allocation and size ride in one handle.
  void write_journalled(Ino ino, std::uint64_t block, BlockState& state, SectorSpan span,
                        std::span<const std::byte> bytes, std::uint64_t grow_to) {
    const bool is_new = !state.written;
    if (is_new) state = BlockState{new_block(ino, block, false), true};
    const BlockId id = state.id;
    const LocationId map = is_new ? block_map_location(ino, block) : kNoLocation;
    writes.clear();
    append_sector_writes(id, span, bytes);
    if (is_new) writes.push_back(Write{map, id});
    if (grow_to) writes.push_back(Write{inode(ino).size, grow_to});
    emit(kData, Touch{{&ino, 1}, id, span.first}, writes);
    if (grow_to) settle_size(ino, grow_to);
  }

  void overwrite(const WriteRange& range, BlockId id, SectorSpan span, std::span<const std::byte> bytes,
                 std::uint64_t grow_to) {
    std::vector<EventId> events;
    emit_data(range.ino, id, span, bytes, &events);
    // O_DIRECT: the drive has it when the call returns, and every later commit flushes the drive.
    if (range.direct && recording.options.barrier) {
      before_next_in_journal.insert(before_next_in_journal.end(), events.begin(), events.end());
    }
    if (grow_to) emit_size(kZeroGrow, range.ino, grow_to);
  }

  // `size` is the file's before this write.
  void write_delayed(Ino ino, std::uint64_t block, BlockState& state, SectorSpan span, std::span<const std::byte> bytes,
                     std::uint64_t size, std::uint64_t grow_to) {
    const bool is_new = state.id == kNoBlock;
    if (is_new) {
      state.id = new_block(ino, block, false);
      file(ino).delayed.push_back(block);
    }
    const BlockId id = state.id;
    emit_data(ino, id, span, bytes);
    writes.clear();
    if (is_new) writes.push_back(Write{block_map_location(ino, block), id});
    if (recording.options.dioread_nolock) {
      const std::vector<Write> map = std::exchange(writes, {});
      const EventId growth = allocate_delayed(ino, block, id, size, grow_to);
      if (is_new) emit(kMap, Touch{{&ino, 1}, id}, map, growth == kNoEvent ? std::span<const EventId>{} : std::span(&growth, 1));
    } else if (is_new || grow_to) {
      allocate_delayed(ino, block, id, size, grow_to);
    }
  }

  EventId emit_allocation(Kind kind, FileState& state, const Touch& touch, std::uint64_t block, std::uint64_t size) {
    state.allocations.push_back(Allocation{block, size, emit(kind, touch, writes)});
    return state.allocations.back().event;
  }

  // Emits what writeback of the block does to the size, along with `writes`; returns the event after which the
  // block is allocated, kNoEvent where no event is needed to say so.
  EventId allocate_delayed(Ino ino, std::uint64_t block, BlockId id, std::uint64_t size, std::uint64_t grow_to) {
    FileState& state = file(ino);
    const Touch touch{{&ino, 1}, id};
    const LocationId size_location = inode(ino).size;
    const bool shows = !writes.empty();
    if (grow_to) {
      writes.push_back(Write{size_location, grow_to});
      state.growths.push_back(Growth{grow_to, emit_allocation(shows ? kMap : kGrow, state, touch, block, grow_to)});
      return state.growths.back().event;
    }
    const std::uint64_t end = std::min(size, (block + 1) * block_bytes());
    if (end <= state.settled_size) return shows ? emit_allocation(kGrowInside, state, touch, block, 0) : kNoEvent;
    const auto above = std::find_if(state.growths.begin(), state.growths.end(),
                                    [&](const Growth& growth) { return growth.size >= end; });
    CHECK(above != state.growths.end());
    if (above->size == end && !shows) return above->event;
    if (above->size != end) writes.push_back(Write{size_location, end, above->event});
    const EventId event = emit_allocation(kGrowInside, state, touch, block, end);
    if (above->size != end) state.growths.insert(above, Growth{end, event});
    return event;
  }

  // nodelalloc and O_DIRECT: allocated in the call. A direct write waits for its data first, in every mode.
  void write_allocating(const WriteRange& range, std::uint64_t block, BlockState& state, SectorSpan span,
                        std::span<const std::byte> bytes, std::uint64_t grow_to) {
    if (state.id == kNoBlock) state.id = new_block(range.ino, block, false);
    state.written = true;
    const BlockId id = state.id;
    std::vector<EventId> data;
    emit_data(range.ino, id, span, bytes, &data);
    if (!range.direct || !recording.options.barrier) data.clear();
    writes.clear();
    writes.push_back(Write{block_map_location(range.ino, block), id});
    if (grow_to) writes.push_back(Write{inode(range.ino).size, grow_to});
    emit(kAllocate, Touch{{&range.ino, 1}, id}, writes, data);
    if (grow_to) settle_size(range.ino, grow_to);
  }

  // ---- explicit changes of size and blocks ------------------------------------------------------------------

  // Calls visit(id, sector, block) for the sectors of [begin, end) whose bytes are not what the newest event wrote.
  template <class Visit>
  void visit_changed_sectors(Ino ino, std::uint64_t begin, std::uint64_t end, const BlockBytes& bytes, Visit&& visit) {
    std::vector<std::byte> now(sector_bytes());
    for (std::uint64_t at = begin; at < end; at = (at / sector_bytes() + 1) * sector_bytes()) {
      const std::uint64_t block = at / block_bytes();
      const BlockId id = block_state(ino, block).id;
      if (id == kNoBlock) continue;
      const auto s = static_cast<std::uint32_t>(at % block_bytes() / sector_bytes());
      current_sector(id, s, now);
      const auto wanted = bytes(block).subspan(s * sector_bytes(), sector_bytes());
      if (std::memcmp(now.data(), wanted.data(), now.size()) != 0) visit(id, s, block);
    }
  }

  // Data events for them; in journal mode one a block, the unit that the journal takes.
  void emit_changed_sectors(Ino ino, std::uint64_t begin, std::uint64_t end, const BlockBytes& bytes) {
    if (is_journal()) {
      for (std::uint64_t at = begin; at < end; at = block_end(at)) {
        std::vector<Write> changed;
        change_sectors(ino, at, std::min(end, block_end(at)), bytes, changed);
        if (!changed.empty()) emit(kData, Touch{{&ino, 1}, block_state(ino, at / block_bytes()).id}, changed);
      }
      return;
    }
    visit_changed_sectors(ino, begin, end, bytes, [&](BlockId id, std::uint32_t s, std::uint64_t block) {
      emit_data(ino, id, {s, s}, bytes(block));
    });
  }

  // Zeroing that goes with an explicit change of size or blocks: events of its own, or in data=journal part of
  // that change, through `also`.
  void change_sectors(Ino ino, std::uint64_t begin, std::uint64_t end, const BlockBytes& bytes, std::vector<Write>& also) {
    if (!is_journal()) {
      emit_changed_sectors(ino, begin, end, bytes);
      return;
    }
    visit_changed_sectors(ino, begin, end, bytes, [&](BlockId id, std::uint32_t s, std::uint64_t block) {
      writes.clear();
      append_sector_writes(id, {s, s}, bytes(block));
      also.insert(also.end(), writes.begin(), writes.end());
    });
  }

  // Adds to `writes` that the blocks [first, end) read as NULs.
  void unmap_blocks(Ino ino, std::uint64_t first, std::uint64_t end) {
    FileState& state = file(ino);
    std::vector<std::uint64_t> gone;
    for (const auto& [block, block_state] : state.blocks) {
      if (block >= first && block < end && block_state.id != kNoBlock) gone.push_back(block);
    }
    add_blocks_below(ino, first, end, gone);
    std::sort(gone.begin(), gone.end());
    gone.erase(std::unique(gone.begin(), gone.end()), gone.end());
    for (std::uint64_t block : gone) {
      writes.push_back(Write{block_map_location(ino, block), kNoBlock});
      state.blocks[block] = BlockState{};
    }
    const auto is_gone = [&](std::uint64_t block) { return block >= first && block < end; };
    std::erase_if(state.delayed, is_gone);
    std::erase_if(state.preallocated, is_gone);
  }

  // Blocks that only the disk below knows.
  void add_blocks_below(Ino ino, std::uint64_t first, std::uint64_t end, std::vector<std::uint64_t>& blocks) {
    if (!is_from_below(ino)) return;
    const std::uint64_t size_end = (base->size(ino) + block_bytes() - 1) / block_bytes();
    for (std::uint64_t block = first; block < std::min(end, size_end); ++block) {
      if (block_state(ino, block).id != kNoBlock) blocks.push_back(block);
    }
  }

  // The block in which a change of size or blocks leaves a part, for the rule about its data.
  BlockId part_block(Ino ino, std::uint64_t offset) {
    return offset % block_bytes() == 0 ? kNoBlock : block_state(ino, offset / block_bytes()).id;
  }

  void truncate(Ino ino, std::uint64_t old_size, std::uint64_t new_size, const BlockBytes& bytes) {
    const bool shrinks = new_size < old_size;
    if (is_paper()) {
      if (!shrinks) emit_changed_sectors(ino, old_size, new_size, bytes);
      emit_size(kTruncate, ino, new_size);
      return;
    }
    const std::uint64_t first_gone = (new_size + block_bytes() - 1) / block_bytes();
    const BlockId part = shrinks ? part_block(ino, new_size) : kNoBlock;
    std::vector<Write> also;
    if (part != kNoBlock) change_sectors(ino, new_size, first_gone * block_bytes(), bytes, also);
    writes = std::move(also);
    if (shrinks) unmap_blocks(ino, first_gone, ~std::uint64_t{0});
    writes.push_back(Write{inode(ino).size, new_size});
    // ext4_setattr journals the size, ext4_truncate zeroes and frees in a later handle, which is the one that the
    // block's data is bound to. A crash between the two: the size is new, and the orphan list has the rest done.
    emit(kTruncate, Touch{{&ino, 1}}, writes);
    if (part != kNoBlock) emit(kTruncate, Touch{{&ino, 1}, part}, {});
    settle_size(ino, new_size);
    if (new_size == 0) file(ino).allocate_on_close = true;
  }

  void zero_range(Ino ino, std::uint64_t offset, std::uint64_t length, std::uint64_t old_size, std::uint64_t new_size,
                  const BlockBytes& bytes) {
    const std::uint64_t end = offset + length;
    if (is_paper()) {
      emit_changed_sectors(ino, offset, std::min(end, old_size), bytes);
      if (new_size != old_size) emit_size(kTruncate, ino, new_size);
      return;
    }
    const std::uint64_t first = (offset + block_bytes() - 1) / block_bytes();
    const std::uint64_t last = end / block_bytes();
    std::vector<Write> also;
    if (first > last) {  // inside one block
      change_sectors(ino, offset, end, bytes, also);
    } else {
      change_sectors(ino, offset, first * block_bytes(), bytes, also);
      change_sectors(ino, last * block_bytes(), end, bytes, also);
    }
    writes = std::move(also);
    if (first < last) unmap_blocks(ino, first, last);
    if (new_size != old_size) writes.push_back(Write{inode(ino).size, new_size});
    std::vector<EventId> parts = part_data(ino, offset, end);
    emit(kTruncate, Touch{{&ino, 1}, part_block(ino, offset)}, writes, parts);
    if (new_size != old_size) settle_size(ino, new_size);
  }

  // Both ends of a range may be part of a block; the rule sees one, so the other's newest data is named here.
  std::vector<EventId> part_data(Ino ino, std::uint64_t offset, std::uint64_t end) {
    std::vector<EventId> events;
    const BlockId part = part_block(ino, end);
    if (part == kNoBlock || part == part_block(ino, offset) || !order.is_ordered(kData, kTruncate)) return events;
    for (LocationId location : recording.blocks[part].sectors) {
      if (location != kNoLocation && recording.log.last_write(location) != kNoEvent) {
        events.push_back(recording.log.last_write(location));
      }
    }
    return events;
  }

  void shift_blocks(Ino ino, std::uint64_t first, std::int64_t shift, std::uint64_t old_size, std::uint64_t new_size,
                    const BlockBytes& bytes) {
    if (is_paper()) {
      emit_changed_sectors(ino, first * block_bytes() + std::min<std::int64_t>(shift, 0) * block_bytes(),
                           std::max(old_size, new_size), bytes);
      emit_size(kTruncate, ino, new_size);
      return;
    }
    // The kernel writes the file out and waits before it moves blocks (ext4_collapse_range, ext4_insert_range):
    // none of those that move is delayed any more.
    std::vector<EventId> flushed;
    if (recording.options.barrier) order.find_predecessors(kFsync, Touch{{&ino, 1}}, flushed);
    written_now(ino, 0, ~std::uint64_t{0});
    const std::uint64_t end = (std::max(old_size, new_size) + block_bytes() - 1) / block_bytes();
    std::map<std::uint64_t, BlockState> moved;
    for (std::uint64_t block = first; block < end; ++block) {
      const BlockState state = block_state(ino, block);
      if (state.id != kNoBlock) moved[block + shift] = state;
    }
    const std::uint64_t changed_from = shift < 0 ? first + shift : first;
    std::vector<Write> maps;
    for (std::uint64_t block = changed_from; block < std::max(end, end + shift); ++block) {
      const auto found = moved.find(block);
      const BlockState now = found == moved.end() ? BlockState{} : found->second;
      if (now.id == kNoBlock && block_state(ino, block).id == kNoBlock) continue;
      maps.push_back(Write{block_map_location(ino, block), now.id});
      file(ino).blocks[block] = now;
    }
    maps.push_back(Write{inode(ino).size, new_size});
    emit(kTruncate, Touch{{&ino, 1}}, maps, flushed);
    settle_size(ino, new_size);
  }

  // ---- syncs ------------------------------------------------------------------------------------------------

  // A sync waited for blocks [first, end): they are written from now on.
  void written_now(Ino ino, std::uint64_t first, std::uint64_t end) {
    FileState& state = file(ino);
    // Without flushes nothing is durable, but what the sync allocated and converted is in the journal by now.
    if (!recording.options.barrier) {
      for (std::uint64_t block : state.delayed) {
        if (block >= first && block < end) find_map_event(ino, block, before_next_in_journal);
      }
      start_writeback(ino, first, end);
    }
    std::erase_if(state.delayed, [&](std::uint64_t block) {
      if (block < first || block >= end) return false;
      state.blocks[block].written = true;
      return true;
    });
    if (!state.delayed.empty()) return;
    settle_growths(state);
    state.allocations.clear();
  }

  void sync_file(Ino ino, bool datasync) {
    const bool is_file = inode(ino).type == S_IFREG;
    const Kind kind = !is_file ? kDirectoryFsync : datasync ? kFdatasync : kFsync;
    // The commit that a directory's fsync forces holds what writeback has started.
    const std::vector<EventId> started = is_file ? std::vector<EventId>{} : before_next_in_journal;
    if (is_paper() || recording.options.barrier) emit(kind, Touch{{&ino, 1}}, {}, started);
    if (is_file) written_now(ino, 0, ~std::uint64_t{0});
  }

  void add_last_write(LocationId location, std::vector<EventId>& events) const {
    const EventId last = location == kNoLocation ? kNoEvent : recording.log.last_write(location);
    if (last != kNoEvent) events.push_back(last);
  }

  void find_map_event(Ino ino, std::uint64_t block, std::vector<EventId>& events) {
    const auto map = inode(ino).block_map.find(block);
    if (map != inode(ino).block_map.end()) add_last_write(map->second, events);
  }

  // Adds the newest events on the data of blocks [first, end), and what makes that data show.
  void find_block_events(Ino ino, std::uint64_t first, std::uint64_t end, std::vector<EventId>& events) {
    for (std::uint64_t block = first; block < end; ++block) {
      const BlockState& state = block_state(ino, block);
      if (state.id == kNoBlock) continue;
      for (LocationId location : recording.blocks[state.id].sectors) add_last_write(location, events);
      find_map_event(ino, block, events);
    }
  }

  void sync_range(Ino ino, std::uint64_t offset, std::uint64_t length, bool datasync) {
    const std::uint64_t first = offset / block_bytes();
    const std::uint64_t end = (offset + length + block_bytes() - 1) / block_bytes();
    std::vector<EventId> events;
    if (is_paper() || recording.options.barrier) {
      find_block_events(ino, first, end, events);
      emit(datasync ? kRangeFdatasync : kRangeFsync, Touch{{&ino, 1}}, {}, events);
    }
    written_now(ino, first, end);
  }

  void sync_everything() {
    if (is_paper() || recording.options.barrier) emit(kSync, Touch{}, {});
    if (recording.options.barrier) before_next_in_journal.clear();
    for (auto& [ino, state] : files) written_now(Ino{ino}, 0, ~std::uint64_t{0});
  }

  // Writeback of blocks [first, end) begins: what it allocates is in the journal before whatever comes next.
  void start_writeback(Ino ino, std::uint64_t first, std::uint64_t end) {
    FileState& state = file(ino);
    std::uint64_t size = state.settled_size;
    for (const Allocation& allocation : state.allocations) {
      if (allocation.block < first || allocation.block >= end) continue;
      before_next_in_journal.push_back(allocation.event);
      size = std::max(size, allocation.size);
    }
    std::erase_if(state.growths, [&](const Growth& growth) { return growth.size <= size; });
    state.settled_size = size;
  }

  // ext4_alloc_da_blocks: does nothing where no block waits for room.
  void allocate_delayed_blocks(Ino ino) {
    const FileState& state = file(ino);
    const bool reserves = std::any_of(state.delayed.begin(), state.delayed.end(),
                                      [&](std::uint64_t block) { return !state.preallocated.contains(block); });
    if (reserves) start_writeback(ino, 0, ~std::uint64_t{0});
  }
};

Recorder::Recorder(const ModelOptions& options, Medium* base) : impl_(std::make_unique<Impl>(options, base)) {}
Recorder::~Recorder() = default;

void Recorder::begin_op(std::string text) { impl_->recording.ops.push_back(std::move(text)); }

void Recorder::add_inode(Ino ino, mode_t type) { impl_->add_inode(ino, type & S_IFMT); }

void Recorder::change_names(std::span<const NameChange> names, std::span<const MetaChange> metas) {
  Impl& impl = *impl_;
  std::vector<Ino> touched;
  std::vector<Write> writes;
  bool creates = false;
  for (const NameChange& change : names) {
    touched.push_back(change.dir);
    if (change.target != kNoIno) {
      touched.push_back(change.target);
      const auto ino = static_cast<std::uint64_t>(change.target);
      impl.recording.last_names[ino] = {change.dir, change.name};
      impl.recording.first_names.try_emplace(ino, change.name);
    }
    writes.push_back(Write{impl.name_location(change.dir, change.name), static_cast<Value>(change.target)});
  }
  for (const MetaChange& change : metas) {
    touched.push_back(change.ino);
    impl.recording.metas.push_back(change.meta);
    const LocationId location = impl.inode(change.ino).meta;
    creates |= impl.inode(change.ino).is_new && impl.recording.log.last_write(location) == kNoEvent;
    writes.push_back(Write{location, impl.recording.metas.size() - 1});
  }
  std::sort(touched.begin(), touched.end());
  touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
  impl.emit(creates ? kCreate : kName, Touch{touched}, writes);
}

void Recorder::change_meta(const MetaChange& change) {
  Impl& impl = *impl_;
  impl.recording.metas.push_back(change.meta);
  const Write write{impl.inode(change.ino).meta, impl.recording.metas.size() - 1};
  impl.emit(kMeta, Touch{{&change.ino, 1}}, {&write, 1});
}

void Recorder::begin_write(const WriteRange& range) { impl_->begin_write(range); }

void Recorder::write(const WriteRange& range, const BlockBytes& bytes) {
  if (impl_->is_paper()) {
    impl_->write_paper(range, bytes);
  } else {
    impl_->write_ext4(range, bytes);
  }
}

void Recorder::truncate(Ino ino, std::uint64_t old_size, std::uint64_t new_size, const BlockBytes& bytes) {
  impl_->truncate(ino, old_size, new_size, bytes);
}

void Recorder::preallocate(Ino ino, std::uint64_t offset, std::uint64_t length, std::uint64_t old_size,
                           std::uint64_t new_size, const BlockBytes& bytes) {
  if (new_size != old_size) impl_->truncate(ino, old_size, new_size, bytes);
  const std::uint64_t block_bytes = impl_->block_bytes();
  for (std::uint64_t block = offset / block_bytes; block * block_bytes < offset + length; ++block) {
    impl_->file(ino).preallocated.insert(block);
  }
}

void Recorder::zero_range(Ino ino, std::uint64_t offset, std::uint64_t length, std::uint64_t old_size,
                          std::uint64_t new_size, const BlockBytes& bytes) {
  impl_->zero_range(ino, offset, length, old_size, new_size, bytes);
}

void Recorder::shift_blocks(Ino ino, std::uint64_t first, std::int64_t shift, std::uint64_t old_size,
                            std::uint64_t new_size, const BlockBytes& bytes) {
  impl_->shift_blocks(ino, first, shift, old_size, new_size, bytes);
}

void Recorder::fsync(Ino ino, bool datasync) { impl_->sync_file(ino, datasync); }

void Recorder::fsync_range(Ino ino, std::uint64_t offset, std::uint64_t length, bool datasync) {
  impl_->sync_range(ino, offset, length, datasync);
}

void Recorder::sync() { impl_->sync_everything(); }

void Recorder::start_writeback(Ino ino, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t block_bytes = impl_->block_bytes();
  const std::uint64_t end = length == 0 ? ~std::uint64_t{0} : (offset + length + block_bytes - 1) / block_bytes;
  impl_->start_writeback(ino, offset / block_bytes, end);
}

// data=writeback was seen to show the empty file all the same, so only data=ordered is taken to start it.
void Recorder::before_replace(Ino moved) {
  const ModelOptions& o = impl_->recording.options;
  if (o.auto_da_alloc && o.data == DataMode::kOrdered) impl_->allocate_delayed_blocks(moved);
}

void Recorder::on_release(Ino ino) {
  FileState& state = impl_->file(ino);
  if (!state.allocate_on_close) return;
  state.allocate_on_close = false;
  before_replace(ino);
}

void Recorder::mark(const std::string& text) {
  Impl& impl = *impl_;
  auto found = impl.recording.marks.find(text);
  if (found == impl.recording.marks.end()) {
    impl.recording.strings.push_back(text);
    const LocationId location =
        impl.add_location(LocationKind::kMark, kNoIno, impl.recording.strings.size() - 1, 0);
    found = impl.recording.marks.emplace(text, location).first;
  }
  const Write write{found->second, 1};
  impl.emit(kMark, Touch{}, {&write, 1});
}

void Recorder::make_durable() {
  impl_->sync_everything();
  impl_->recording.log.make_durable();
  impl_->recording.event_kinds.push_back(kSync);
}

void Recorder::seal() { impl_->recording.log.seal(); }
Recording& Recorder::recording() { return impl_->recording; }
const Recording& Recorder::recording() const { return impl_->recording; }

}  // namespace crashcut::fusefs
