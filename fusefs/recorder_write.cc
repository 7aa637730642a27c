#include <algorithm>
#include <cstring>
#include <utility>

#include "fusefs/recorder_impl.h"
#include "persist/check.h"

namespace crashcut::fusefs {

using persist::EventId;
using persist::kNoEvent;
using persist::LocationId;
using persist::Value;
using persist::Write;

namespace {

bool is_all_nul(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

// ---- sectors and sizes ---------------------------------------------------------------------------------------------

Value Recorder::Impl::sector_value(LocationId location, std::span<const std::byte> bytes) {
  const Value current = recording.log.current(location);
  if (is_all_nul(bytes)) return 0;
  if (current != 0 && current != kFromBelow &&
      std::memcmp(recording.bytes.at(current), bytes.data(), bytes.size()) == 0) {
    return current;
  }
  const std::byte* const outside = find_in_source(recording.locations[location].index * sector_bytes(), bytes);
  return outside ? recording.bytes.value_of(outside) : recording.bytes.add(bytes);
}

// Where the source of the write under way has the sector; none where it does not have all of it. A block that was moved
// has another offset than the one that is known here, so the bytes are compared.
const std::byte* Recorder::Impl::find_in_source(std::uint64_t offset, std::span<const std::byte> sector) const {
  if (offset < source_offset || offset - source_offset + sector.size() > source.size()) return nullptr;
  const std::byte* const found = source.data() + (offset - source_offset);
  return std::memcmp(found, sector.data(), sector.size()) == 0 ? found : nullptr;
}

// The sectors of `block` that [begin, end) of the file touches.
SectorSpan Recorder::Impl::sectors_of(std::uint64_t block, std::uint64_t begin, std::uint64_t end) const {
  const std::uint64_t block_begin = block * block_bytes();
  const std::uint64_t from = std::max(begin, block_begin) - block_begin;
  const std::uint64_t to = std::min(end, block_begin + block_bytes()) - block_begin;
  return {static_cast<std::uint32_t>(from / sector_bytes()), static_cast<std::uint32_t>((to - 1) / sector_bytes())};
}

// Sets `writes` to those sectors as `bytes` (a whole block) has them.
void Recorder::Impl::append_sector_writes(BlockId id, SectorSpan span, std::span<const std::byte> bytes) {
  for (std::uint32_t s = span.first; s <= span.last; ++s) {
    const LocationId location = sector_location(id, s);
    writes.push_back(Write{location, sector_value(location, bytes.subspan(s * sector_bytes(), sector_bytes()))});
  }
}

// One data event a sector; in journal mode one a block, the unit that the journal takes.
void Recorder::Impl::emit_data(Ino ino, BlockId id, SectorSpan span, std::span<const std::byte> bytes,
                               std::vector<EventId>* events) {
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

void Recorder::Impl::emit_size(Kind kind, Ino ino, std::uint64_t size) {
  const Write write{inode(ino).size, size};
  emit(kind, Touch{{&ino, 1}}, {&write, 1});
  settle_size(ino, size);
}

void Recorder::Impl::settle_size(Ino ino, std::uint64_t size) {
  FileState& state = file(ino);
  state.settled_size = size;
  state.growths.clear();
  for (Allocation& allocation : state.allocations) allocation.size = 0;
}

// The on-disk size reaches `to`, inside the size that the running system sees, in the call itself. Growths beyond it
// may have come before or are still to come, and it does not undo them. Adds to `writes`; false where it is there
// already.
bool Recorder::Impl::raise_size(Ino ino, std::uint64_t to) {
  FileState& state = file(ino);
  if (to <= state.settled_size) return false;
  const auto above =
      std::find_if(state.growths.begin(), state.growths.end(), [&](const Growth& growth) { return growth.size >= to; });
  CHECK(above != state.growths.end());
  writes.push_back(Write{inode(ino).size, to, above->event});
  state.settled_size = to;
  std::erase_if(state.growths, [&](const Growth& growth) { return growth.size <= to; });
  return true;
}

// What the newest event wrote to a sector.
void Recorder::Impl::current_sector(BlockId id, std::uint32_t sector, std::span<std::byte> out) {
  const LocationId location = recording.blocks[id].sectors[sector];
  const Value value =
      location == kNoLocation ? (recording.blocks[id].from_below ? kFromBelow : 0) : recording.log.current(location);
  const BlockRecord& block = recording.blocks[id];
  if (value == kFromBelow) {
    base->read_bytes(block.ino, (block.block * sectors_per_block() + sector) * sector_bytes(), out);
  } else if (value == 0) {
    std::fill(out.begin(), out.end(), std::byte{0});
  } else {
    std::memcpy(out.data(), recording.bytes.at(value), out.size());
  }
}

// ---- paper ---------------------------------------------------------------------------------------------------------

// Emits data events for [begin, end), which `bytes` gives, block by block.
void Recorder::Impl::emit_data_range(Ino ino, std::uint64_t begin, std::uint64_t end, const BlockBytes& bytes) {
  for (std::uint64_t at = begin; at < end; at = block_end(at)) {
    const std::uint64_t block = at / block_bytes();
    emit_data(ino, block_state(ino, block).id, sectors_of(block, at, end), bytes(block));
  }
}

// Fig. 7, BUFFERWRITE lines 4 to 8: the last block exists already, so the size grows to its end over zeros. A write
// that begins behind that block does not touch it (isPreallocBlock is given the offset).
std::uint64_t Recorder::Impl::grow_over_zeros(const WriteRange& range) {
  const Ino ino = range.ino;
  const std::uint64_t size = range.old_size, end = range.offset + range.length;
  if (size % block_bytes() == 0 || end <= size || range.offset >= block_end(size)) return size;
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

void Recorder::Impl::begin_write(const WriteRange& range) {
  const ModelOptions& o = recording.options;
  const bool zero_grows = is_paper() && o.data == DataMode::kOrdered && o.delalloc;
  file(range.ino).write_end = range.offset + range.length;
  file(range.ino).zero_grown_to = zero_grows ? grow_over_zeros(range) : range.old_size;
}

void Recorder::Impl::write_paper(const WriteRange& range, const BlockBytes& bytes) {
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

// ---- ext4 ----------------------------------------------------------------------------------------------------------

// A write behind a gap: whenever the old last block is allocated now, the on-disk size becomes its end.
void Recorder::Impl::grow_last_delayed_block(const WriteRange& range) {
  const std::uint64_t size = range.old_size;
  if (is_journal() || size % block_bytes() == 0 || range.offset < block_end(size)) return;
  const BlockState& last = block_state(range.ino, size / block_bytes());
  if (last.id == kNoBlock || last.written) return;
  writes.clear();
  allocate_delayed(range.ino, size / block_bytes(), last.id, size, block_end(size));
}

void Recorder::Impl::write_ext4(const WriteRange& range, const BlockBytes& bytes) {
  const std::uint64_t end = range.offset + range.length;
  std::uint64_t size = range.old_size;
  grow_last_delayed_block(range);
  for (std::uint64_t at = range.offset; at < end; at = block_end(at)) {
    const std::uint64_t block = at / block_bytes();
    const std::uint64_t to = std::min(end, block_end(at));
    write_block(range, block, sectors_of(block, at, to), bytes(block), size, to > size ? to : 0);
    size = std::max(size, to);
  }
  // ext4_dio_write_checks: a direct write beyond the on-disk size extends, though the file is longer already.
  writes.clear();
  const bool is_last = end == file(range.ino).write_end;
  if (range.direct && is_last && raise_size(range.ino, end)) emit(kZeroGrow, Touch{{&range.ino, 1}}, writes);
}

// ---- blocks that are allocated and unwritten

// The first write to a hole or to an unwritten block: says in `state` where it lands. Returns the sectors that it puts
// out. Those of a block that ZERO_RANGE kept are all of them: around the bytes of the call the page is zeroed
// (ext4_block_write_begin, iomap_dio_zero).
SectorSpan Recorder::Impl::land(Ino ino, std::uint64_t block, BlockState& state, SectorSpan span, bool is_delayed) {
  const bool is_kept = state.kept != kNoBlock;
  state = BlockState{is_kept ? state.kept : new_block(ino, block, false)};
  if (!is_kept) add_place(ino, block, state.id, is_delayed);
  // The sectors around a new block's are NULs, which shows only in the place of a freed one.
  return is_kept || reuses() ? whole_block() : span;
}

bool Recorder::Impl::is_unwritten(const FileState& state, std::uint64_t block) const {
  const auto found = state.blocks.find(block);
  return state.preallocated.contains(block) && (found == state.blocks.end() || !found->second.written);
}

// The other blocks that become written together with `block`, where that is converted at once and not after its data:
// ext4_ext_convert_to_initialized rather zeroes what is left of an unwritten extent than splits it, where it is small
// and inside the file. We take neighbours in the file for one extent.
std::vector<std::uint64_t> Recorder::Impl::find_converted(Ino ino, std::uint64_t block, std::uint64_t size) {
  const std::uint64_t most = (32 << 10) / block_bytes();  // EXT4_EXT_ZERO_LEN
  const FileState& state = file(ino);
  if (!is_unwritten(state, block)) return {};
  const std::uint64_t file_end = (size + block_bytes() - 1) / block_bytes();
  std::uint64_t begin = block, end = block + 1;
  while (end < file_end && end - block <= most && is_unwritten(state, end)) ++end;
  if (end - block > most) end = block + 1;
  while (begin > 0 && end - begin < most && is_unwritten(state, begin - 1)) --begin;
  if (end - begin >= most) begin = block;
  std::vector<std::uint64_t> found;
  for (std::uint64_t other = begin; other < end; ++other) {
    if (other != block) found.push_back(other);
  }
  return found;
}

std::vector<EventId> Recorder::Impl::emit_zero_out(Ino ino, BlockId id) {
  std::vector<std::byte> now(sector_bytes());
  std::vector<EventId> events;
  for (std::uint32_t s = 0; s < sectors_per_block(); ++s) {
    current_sector(id, s, now);
    if (is_all_nul(now)) continue;
    const Write zeros{sector_location(id, s), 0};
    events.push_back(emit(kZeroOut, Touch{{&ino, 1}, id, s}, {&zeros, 1}, events));
  }
  return events;
}

// Adds to `maps` that the neighbours show what is zeroed. Returns what persists before that.
// Delayed blocks of one extent stay as they are until the writeback of any of them, so each of them maps all of them.
std::vector<EventId> Recorder::Impl::zero_out_neighbours(Ino ino, std::uint64_t block, std::uint64_t size,
                                                         std::vector<Write>& maps) {
  std::vector<EventId> zeros;
  const bool is_delayed = recording.options.delalloc && !is_journal();
  for (const std::uint64_t other : find_converted(ino, block, size)) {
    BlockState& state = block_state(ino, other);
    std::vector<EventId>& other_zeros = file(ino).zero_outs[other];
    if (state.id == kNoBlock) {
      land(ino, other, state, {}, is_delayed);
      other_zeros = emit_zero_out(ino, state.id);
      state.written = !is_delayed;
      state.is_zeroed_out = true;
      if (is_delayed) file(ino).delayed.push_back(other);
    }
    zeros.insert(zeros.end(), other_zeros.begin(), other_zeros.end());
    maps.push_back(Write{block_map_location(ino, other), state.id});
  }
  if (is_journal() || !recording.options.barrier) zeros.clear();
  return zeros;
}

// `grow_to` is the new size, 0 where it does not grow.
void Recorder::Impl::write_block(const WriteRange& range, std::uint64_t block, SectorSpan span,
                                 std::span<const std::byte> bytes, std::uint64_t size, std::uint64_t grow_to) {
  BlockState& state = block_state(range.ino, block);
  if (is_journal()) {
    write_journalled(range.ino, block, state, span, bytes, size, grow_to);
  } else if (state.written) {
    overwrite(range, block, state.id, span, bytes, grow_to);
  } else if (recording.options.delalloc && !range.direct) {
    write_delayed(range.ino, block, state, span, bytes, size, grow_to);
  } else {
    write_allocating(range, block, state, span, bytes, size, grow_to);
  }
}

// ext4_journalled_write_end: data, allocation and size ride in one handle. A block that ZERO_RANGE kept gets its data
// after the commit only, so it is as good as a fresh one.
void Recorder::Impl::write_journalled(Ino ino, std::uint64_t block, BlockState& state, SectorSpan span,
                                      std::span<const std::byte> bytes, std::uint64_t size, std::uint64_t grow_to) {
  std::vector<Write> maps;
  if (state.is_zeroed_out) span = whole_block();  // the journal has all of the block
  state.is_zeroed_out = false;
  if (!state.written) {
    zero_out_neighbours(ino, block, size, maps);
    state = BlockState{new_block(ino, block, false), true};
    maps.push_back(Write{block_map_location(ino, block), state.id});
  }
  const BlockId id = state.id;
  writes.clear();
  append_sector_writes(id, span, bytes);
  writes.insert(writes.end(), maps.begin(), maps.end());
  if (grow_to) writes.push_back(Write{inode(ino).size, grow_to});
  emit(kData, Touch{{&ino, 1}, id, span.first}, writes);
  if (grow_to) settle_size(ino, grow_to);
}

void Recorder::Impl::overwrite(const WriteRange& range, std::uint64_t block, BlockId id, SectorSpan span,
                               std::span<const std::byte> bytes, std::uint64_t grow_to) {
  std::vector<EventId> events;
  emit_data(range.ino, id, span, bytes, &events);
  // O_DIRECT: the drive has it when the call returns, and every later commit flushes the drive.
  if (range.direct && recording.options.barrier) {
    before_next_in_journal.insert(before_next_in_journal.end(), events.begin(), events.end());
    touch_started(Effects::kSource);
  }
  if (!grow_to) return;
  FileState& state = file(range.ino);
  const bool goes_on = state.write_end > grow_to;
  if (!goes_on || range.direct || !recording.options.delalloc) return emit_size(kZeroGrow, range.ino, grow_to);
  // ext4_da_should_update_i_disksize looks at the last block of the folio. One folio may hold the next block too (seen:
  // a large one, where the file was not in the cache), and then the size is left to that block's writeback. Or it does
  // not.
  writes.assign(1, Write{inode(range.ino).size, grow_to});
  state.growths.push_back(
      Growth{grow_to, emit_allocation(kGrow, state, Touch{{&range.ino, 1}, id}, block + 1, grow_to)});
}

// `size` is the file's before this write.
void Recorder::Impl::write_delayed(Ino ino, std::uint64_t block, BlockState& state, SectorSpan span,
                                   std::span<const std::byte> bytes, std::uint64_t size, std::uint64_t grow_to) {
  const bool is_new = state.id == kNoBlock || state.is_zeroed_out;
  std::vector<Write> maps;
  std::vector<EventId> zeros;
  if (is_new) {
    if (!recording.options.dioread_nolock) zeros = zero_out_neighbours(ino, block, size, maps);
    if (state.id == kNoBlock) {
      span = land(ino, block, state, span, true);
      file(ino).delayed.push_back(block);
      // The writeback of a neighbour may come first, and then this one is zeroed too.
      if (!maps.empty()) file(ino).zero_outs[block] = emit_zero_out(ino, state.id);
    } else {
      span = whole_block();
      state.is_zeroed_out = false;
    }
    maps.push_back(Write{block_map_location(ino, block), state.id});
  }
  const BlockId id = state.id;
  emit_data(ino, id, span, bytes);
  writes = maps;
  if (recording.options.dioread_nolock) {
    const std::vector<Write> map = std::exchange(writes, {});
    const EventId growth = allocate_delayed(ino, block, id, size, grow_to);
    const auto after_growth = growth == kNoEvent ? std::span<const EventId>{} : std::span(&growth, 1);
    if (is_new) note_allocation(id, emit(kMap, Touch{{&ino, 1}, id}, map, after_growth));
  } else if (is_new || grow_to) {
    allocate_delayed(ino, block, id, size, grow_to, zeros);
  }
}

EventId Recorder::Impl::emit_allocation(Kind kind, FileState& state, const Touch& touch, std::uint64_t block,
                                        std::uint64_t size, std::span<const EventId> also_after) {
  state.allocations.push_back(Allocation{block, size, emit(kind, touch, writes, also_after)});
  note_allocation(touch.block, state.allocations.back().event);
  return state.allocations.back().event;
}

// Emits what writeback of the block does to the size, along with `writes`; returns the event after which the
// block is allocated, kNoEvent where no event is needed to say so.
EventId Recorder::Impl::allocate_delayed(Ino ino, std::uint64_t block, BlockId id, std::uint64_t size,
                                         std::uint64_t grow_to, std::span<const EventId> also_after) {
  FileState& state = file(ino);
  const Touch touch{{&ino, 1}, id};
  const LocationId size_location = inode(ino).size;
  const bool shows = !writes.empty();
  if (grow_to) {
    writes.push_back(Write{size_location, grow_to});
    const EventId event = emit_allocation(shows ? kMap : kGrow, state, touch, block, grow_to, also_after);
    state.growths.push_back(Growth{grow_to, event});
    return state.growths.back().event;
  }
  const std::uint64_t end = std::min(size, (block + 1) * block_bytes());
  if (end <= state.settled_size) {
    return shows ? emit_allocation(kGrowInside, state, touch, block, 0, also_after) : kNoEvent;
  }
  const auto above = std::find_if(state.growths.begin(), state.growths.end(),
                                  [&](const Growth& growth) { return growth.size >= end; });
  CHECK(above != state.growths.end());
  if (above->size == end && !shows) return above->event;
  // Also where a growth to the same size is under way: that was another block's, or of one that a hole took since.
  writes.push_back(Write{size_location, end, above->event});
  const EventId event = emit_allocation(kGrowInside, state, touch, block, end, also_after);
  state.growths.insert(above, Growth{end, event});
  return event;
}

// nodelalloc and O_DIRECT: allocated in the call. A direct write waits for its data first, in every mode.
void Recorder::Impl::write_allocating(const WriteRange& range, std::uint64_t block, BlockState& state, SectorSpan span,
                                      std::span<const std::byte> bytes, std::uint64_t size, std::uint64_t grow_to) {
  std::vector<Write> maps;
  std::vector<EventId> zeros;
  if (!range.direct) zeros = zero_out_neighbours(range.ino, block, size, maps);
  if (state.id == kNoBlock) span = land(range.ino, block, state, span, false);
  state.written = true;
  const BlockId id = state.id;
  std::vector<EventId> data;
  emit_data(range.ino, id, span, bytes, &data);
  if (!range.direct || !recording.options.barrier) data.clear();
  data.insert(data.end(), zeros.begin(), zeros.end());
  writes = maps;
  writes.push_back(Write{block_map_location(range.ino, block), id});
  if (grow_to) writes.push_back(Write{inode(range.ino).size, grow_to});
  note_allocation(id, emit(kAllocate, Touch{{&range.ino, 1}, id}, writes, data));
  if (grow_to) settle_size(range.ino, grow_to);
}

// ---- the interface -------------------------------------------------------------------------------------------------

void Recorder::set_source(std::uint64_t offset, std::span<const std::byte> bytes) {
  impl_->source_offset = offset;
  impl_->source = bytes;
}

void Recorder::begin_write(const WriteRange& range) { impl_->begin_write(range); }

void Recorder::write(const WriteRange& range, const BlockBytes& bytes) {
  if (impl_->is_paper()) {
    impl_->write_paper(range, bytes);
  } else {
    impl_->write_ext4(range, bytes);
  }
}

}  // namespace crashcut::fusefs
