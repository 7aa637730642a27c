#include "fusefs/recorder_impl.h"

#include <algorithm>
#include <cstring>
#include <utility>

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
      std::memcmp(recording.bytes.data() + (current - 1), bytes.data(), bytes.size()) == 0) {
    return current;
  }
  const Value value = recording.bytes.size() + 1;
  recording.bytes.insert(recording.bytes.end(), bytes.begin(), bytes.end());
  return value;
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

// The on-disk size reaches `to`, inside the size that the running system sees, in the call itself. Growths beyond it may
// have come before or are still to come, and it does not undo them. Adds to `writes`; false where it is there already.
bool Recorder::Impl::raise_size(Ino ino, std::uint64_t to) {
  FileState& state = file(ino);
  if (to <= state.settled_size) return false;
  const auto above = std::find_if(state.growths.begin(), state.growths.end(),
                                  [&](const Growth& growth) { return growth.size >= to; });
  CHECK(above != state.growths.end());
  writes.push_back(Write{inode(ino).size, to, above->event});
  state.settled_size = to;
  std::erase_if(state.growths, [&](const Growth& growth) { return growth.size <= to; });
  return true;
}

// What the newest event wrote to a sector.
void Recorder::Impl::current_sector(BlockId id, std::uint32_t sector, std::span<std::byte> out) {
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

// ---- paper ---------------------------------------------------------------------------------------------------------

// Emits data events for [begin, end), which `bytes` gives, block by block.
void Recorder::Impl::emit_data_range(Ino ino, std::uint64_t begin, std::uint64_t end, const BlockBytes& bytes) {
  for (std::uint64_t at = begin; at < end; at = block_end(at)) {
    const std::uint64_t block = at / block_bytes();
    emit_data(ino, block_state(ino, block).id, sectors_of(block, at, end), bytes(block));
  }
}

// Fig. 7, BUFFERWRITE lines 4 to 8: the last block exists already, so the size grows to its end over zeros. A write that
// begins behind that block does not touch it (isPreallocBlock is given the offset).
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

// `grow_to` is the new size, 0 where it does not grow.
void Recorder::Impl::write_block(const WriteRange& range, std::uint64_t block, SectorSpan span,
                                 std::span<const std::byte> bytes, std::uint64_t size, std::uint64_t grow_to) {
  BlockState& state = block_state(range.ino, block);
  if (is_journal()) {
    write_journalled(range.ino, block, state, span, bytes, grow_to);
  } else if (state.written) {
    overwrite(range, block, state.id, span, bytes, grow_to);
  } else if (recording.options.delalloc && !range.direct) {
    write_delayed(range.ino, block, state, span, bytes, size, grow_to);
  } else {
    write_allocating(range, block, state, span, bytes, grow_to);
  }
}

// ext4_journalled_write_end: data, allocation and size ride in one handle.
void Recorder::Impl::write_journalled(Ino ino, std::uint64_t block, BlockState& state, SectorSpan span,
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
  // a large one, where the file was not in the cache), and then the size is left to that block's writeback. Or it does not.
  writes.assign(1, Write{inode(range.ino).size, grow_to});
  state.growths.push_back(Growth{grow_to, emit_allocation(kGrow, state, Touch{{&range.ino, 1}, id}, block + 1, grow_to)});
}

// `size` is the file's before this write.
void Recorder::Impl::write_delayed(Ino ino, std::uint64_t block, BlockState& state, SectorSpan span,
                                   std::span<const std::byte> bytes, std::uint64_t size, std::uint64_t grow_to) {
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
    const auto after_growth = growth == kNoEvent ? std::span<const EventId>{} : std::span(&growth, 1);
    if (is_new) emit(kMap, Touch{{&ino, 1}, id}, map, after_growth);
  } else if (is_new || grow_to) {
    allocate_delayed(ino, block, id, size, grow_to);
  }
}

EventId Recorder::Impl::emit_allocation(Kind kind, FileState& state, const Touch& touch, std::uint64_t block,
                                        std::uint64_t size) {
  state.allocations.push_back(Allocation{block, size, emit(kind, touch, writes)});
  return state.allocations.back().event;
}

// Emits what writeback of the block does to the size, along with `writes`; returns the event after which the
// block is allocated, kNoEvent where no event is needed to say so.
EventId Recorder::Impl::allocate_delayed(Ino ino, std::uint64_t block, BlockId id, std::uint64_t size,
                                         std::uint64_t grow_to) {
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
  // Also where a growth to the same size is under way: that was another block's, or of one that a hole took since.
  writes.push_back(Write{size_location, end, above->event});
  const EventId event = emit_allocation(kGrowInside, state, touch, block, end);
  state.growths.insert(above, Growth{end, event});
  return event;
}

// nodelalloc and O_DIRECT: allocated in the call. A direct write waits for its data first, in every mode.
void Recorder::Impl::write_allocating(const WriteRange& range, std::uint64_t block, BlockState& state, SectorSpan span,
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

// ---- the interface -------------------------------------------------------------------------------------------------

void Recorder::begin_write(const WriteRange& range) { impl_->begin_write(range); }

void Recorder::write(const WriteRange& range, const BlockBytes& bytes) {
  if (impl_->is_paper()) {
    impl_->write_paper(range, bytes);
  } else {
    impl_->write_ext4(range, bytes);
  }
}

}  // namespace crashcut::fusefs
