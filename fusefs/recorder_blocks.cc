#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "fusefs/recorder_impl.h"

namespace crashcut::fusefs {

using persist::EventId;
using persist::kNoEvent;
using persist::LocationId;
using persist::Write;

// The blocks of [first, end) that may hold other bytes than NULs, in order. A range that nobody wrote to costs nothing,
// however long it is.
std::vector<std::uint64_t> Recorder::Impl::known_blocks(Ino ino, std::uint64_t first, std::uint64_t end) {
  std::vector<std::uint64_t> known;
  const auto& blocks = file(ino).blocks;
  if (end - first > blocks.size()) {
    for (const auto& [block, state] : blocks) {
      if (block >= first && block < end) known.push_back(block);
    }
  } else {
    for (std::uint64_t block = first; block < end; ++block) {
      if (blocks.contains(block)) known.push_back(block);
    }
  }
  add_blocks_below(ino, first, end, known);
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  return known;
}

// Calls visit(id, sector, block) for the sectors of [begin, end) whose bytes are not what the newest event wrote.
template <class Visit>
void Recorder::Impl::visit_changed_sectors(Ino ino, std::uint64_t begin, std::uint64_t end, const BlockBytes& bytes,
                                           Visit&& visit) {
  std::vector<std::byte> now(sector_bytes());
  if (begin >= end) return;
  for (const std::uint64_t block : known_blocks(ino, begin / block_bytes(), (end - 1) / block_bytes() + 1)) {
    const BlockId id = block_state(ino, block).id;
    if (id == kNoBlock) continue;
    const SectorSpan span = sectors_of(block, begin, end);
    for (std::uint32_t s = span.first; s <= span.last; ++s) {
      current_sector(id, s, now);
      const auto wanted = bytes(block).subspan(s * sector_bytes(), sector_bytes());
      if (std::memcmp(now.data(), wanted.data(), now.size()) != 0) visit(id, s, block);
    }
  }
}

// Data events for them; in journal mode one a block, the unit that the journal takes.
void Recorder::Impl::emit_changed_sectors(Ino ino, std::uint64_t begin, std::uint64_t end, const BlockBytes& bytes) {
  if (is_journal()) {
    if (begin >= end) return;
    for (const std::uint64_t block : known_blocks(ino, begin / block_bytes(), (end - 1) / block_bytes() + 1)) {
      const std::uint64_t block_begin = block * block_bytes();
      std::vector<Write> changed;
      change_sectors(ino, std::max(begin, block_begin), std::min(end, block_begin + block_bytes()), bytes, changed);
      if (!changed.empty()) emit(kData, Touch{{&ino, 1}, block_state(ino, block).id}, changed);
    }
    return;
  }
  visit_changed_sectors(ino, begin, end, bytes, [&](BlockId id, std::uint32_t s, std::uint64_t block) {
    emit_data(ino, id, {s, s}, bytes(block));
  });
}

// Zeroing that goes with an explicit change of size or blocks: events of its own, or in data=journal part of
// that change, through `also`.
void Recorder::Impl::change_sectors(Ino ino, std::uint64_t begin, std::uint64_t end, const BlockBytes& bytes,
                                    std::vector<Write>& also) {
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

// Adds to `writes` that the blocks [first, end) read as NULs. Where it `keeps` them they stay allocated: what is
// written there later lands in the same blocks, and shows under the old map as well.
void Recorder::Impl::unmap_blocks(Ino ino, std::uint64_t first, std::uint64_t end, bool keeps) {
  FileState& state = file(ino);
  std::vector<std::uint64_t> gone = known_blocks(ino, first, end);
  std::erase_if(gone, [&](std::uint64_t block) {
    BlockState& known = block_state(ino, block);
    if (!keeps) {  // an unwritten block is freed too
      if (known.kept != kNoBlock) unmapped.push_back(known.kept);
      known.kept = kNoBlock;
    }
    return known.id == kNoBlock;
  });
  for (std::uint64_t block : gone) {
    writes.push_back(Write{block_map_location(ino, block), kNoBlock});
    BlockState& gone_block = state.blocks[block];
    unmapped.push_back(gone_block.id);
    gone_block = BlockState{.kept = keeps ? gone_block.id : kNoBlock};
  }
  const auto is_gone = [&](std::uint64_t block) { return block >= first && block < end; };
  std::erase_if(state.delayed, is_gone);
  std::erase_if(state.zero_outs, [&](const auto& entry) { return is_gone(entry.first); });
  state.preallocated.remove(first, end);
  forget_reserved(state, first, end);
}

// Blocks that only the disk below knows.
void Recorder::Impl::add_blocks_below(Ino ino, std::uint64_t first, std::uint64_t end,
                                      std::vector<std::uint64_t>& blocks) {
  if (!is_from_below(ino)) return;
  const std::uint64_t size_end = (base->size(ino) + block_bytes() - 1) / block_bytes();
  for (std::uint64_t block = first; block < std::min(end, size_end); ++block) {
    if (block_state(ino, block).id != kNoBlock) blocks.push_back(block);
  }
}

// The block in which a change of size or blocks leaves a part, for the rule about its data.
BlockId Recorder::Impl::part_block(Ino ino, std::uint64_t offset) {
  return offset % block_bytes() == 0 ? kNoBlock : block_state(ino, offset / block_bytes()).id;
}

void Recorder::Impl::truncate(Ino ino, std::uint64_t old_size, std::uint64_t new_size, const BlockBytes& bytes) {
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
  free_unmapped(emit(kTruncate, Touch{{&ino, 1}}, writes));
  if (part != kNoBlock) emit(kTruncate, Touch{{&ino, 1}, part}, {});
  settle_size(ino, new_size);
  if (new_size == 0) file(ino).allocate_on_close = true;
}

void Recorder::Impl::zero_range(Ino ino, std::uint64_t offset, std::uint64_t length, std::uint64_t old_size,
                                std::uint64_t new_size, const BlockBytes& bytes, bool allocates) {
  const std::uint64_t end = offset + length;
  if (is_paper()) {
    // What the size grows over was zeroed or is stale, as in a growing truncation.
    const std::uint64_t begin = new_size > old_size ? std::min(offset, old_size) : offset;
    emit_changed_sectors(ino, begin, std::min(end, new_size), bytes);
    if (new_size != old_size) emit_size(kTruncate, ino, new_size);
    return;
  }
  // ext4_update_disksize_before_punch, a handle of its own: delayed growth behind the range must not lose what lies
  // before.
  writes.clear();
  if (offset <= old_size && raise_size(ino, std::min(old_size, end))) emit(kTruncate, Touch{{&ino, 1}}, writes);
  const std::uint64_t first = (offset + block_bytes() - 1) / block_bytes();
  const std::uint64_t last = end / block_bytes();
  // ext4_zero_range: with parts of blocks at its ends the size is a handle of its own, and so are the whole blocks; the
  // parts come last. ext4_punch_hole does all in one.
  const bool is_apart = allocates && (offset % block_bytes() != 0 || end % block_bytes() != 0);
  if (is_apart && new_size != old_size) emit_size(kTruncate, ino, new_size);
  writes.clear();
  if (is_apart && first < last) {
    unmap_blocks(ino, first, last, allocates);
    emit(kTruncate, Touch{{&ino, 1}}, writes);
    keep_unmapped();
  }
  std::vector<Write> also;
  if (first > last) {  // inside one block
    change_sectors(ino, offset, end, bytes, also);
  } else {
    change_sectors(ino, offset, first * block_bytes(), bytes, also);
    change_sectors(ino, last * block_bytes(), end, bytes, also);
  }
  writes = std::move(also);
  // ext4_zero_range marks the extents unwritten where they lie (convert_initialized_extent); ext4_punch_hole frees
  // them.
  if (!is_apart && first < last) unmap_blocks(ino, first, last, allocates);
  if (!is_apart && new_size != old_size) writes.push_back(Write{inode(ino).size, new_size});
  std::vector<EventId> parts = part_data(ino, offset, end);
  const EventId event = emit(kTruncate, Touch{{&ino, 1}, part_block(ino, offset)}, writes, parts);
  allocates ? keep_unmapped() : free_unmapped(event);  // ZERO_RANGE converts the blocks that are there
  if (!is_apart && new_size != old_size) settle_size(ino, new_size);
}

void Recorder::Impl::note_preallocated(Ino ino, std::uint64_t offset, std::uint64_t length) {
  file(ino).preallocated.add(offset / block_bytes(), (offset + length + block_bytes() - 1) / block_bytes());
  reserve_places(ino, offset / block_bytes(), (offset + length + block_bytes() - 1) / block_bytes(),
                 static_cast<EventId>(recording.log.event_count() - 1));
}

// Both ends of a range may be part of a block; the rule sees one, so the other's newest data is named here.
std::vector<EventId> Recorder::Impl::part_data(Ino ino, std::uint64_t offset, std::uint64_t end) {
  std::vector<EventId> events;
  const BlockId part = part_block(ino, end);
  if (part == kNoBlock || part == part_block(ino, offset) || !order.is_ordered_in_block(kData, kTruncate))
    return events;
  for (LocationId location : recording.blocks[part].sectors) {
    if (location != kNoLocation && recording.log.last_write(location) != kNoEvent) {
      events.push_back(recording.log.last_write(location));
    }
  }
  return events;
}

void Recorder::Impl::shift_blocks(Ino ino, std::uint64_t first, std::int64_t shift, std::uint64_t old_size,
                                  std::uint64_t new_size, const BlockBytes& bytes) {
  if (is_paper()) {
    const std::uint64_t begin = first + std::min<std::int64_t>(shift, 0);
    const std::uint64_t end = std::max(old_size, new_size);
    for (std::uint64_t block = begin; block * block_bytes() < end; ++block) block_state(ino, block);
    emit_changed_sectors(ino, begin * block_bytes(), end, bytes);
    emit_size(kTruncate, ino, new_size);
    return;
  }
  // The kernel writes out the blocks that move, and waits (ext4_collapse_range, ext4_insert_range): none of them is
  // delayed any more. Those before them are left as they are, and those that are cut out are forgotten.
  const std::uint64_t end = (std::max(old_size, new_size) + block_bytes() - 1) / block_bytes();
  std::vector<EventId> flushed;
  if (recording.options.barrier) find_block_events(ino, first, end, flushed);
  written_now(ino, first, ~std::uint64_t{0});
  if (shift < 0) std::erase_if(file(ino).delayed, [&](std::uint64_t block) { return block >= first + shift; });
  std::map<std::uint64_t, BlockState> moved;
  for (std::uint64_t block = first; block < end; ++block) {
    const BlockState state = block_state(ino, block);
    if (state.id != kNoBlock || state.kept != kNoBlock) moved[block + shift] = state;
  }
  const std::uint64_t changed_from = shift < 0 ? first + shift : first;
  std::vector<Write> maps;
  for (std::uint64_t block = changed_from; block < std::max(end, end + shift); ++block) {
    const auto found = moved.find(block);
    const BlockState now = found == moved.end() ? BlockState{} : found->second;
    const BlockState before = block_state(ino, block);
    if (now.id != kNoBlock || before.id != kNoBlock) maps.push_back(Write{block_map_location(ino, block), now.id});
    if (block < first && before.owned() != kNoBlock) unmapped.push_back(before.owned());
    file(ino).blocks[block] = now;
  }
  maps.push_back(Write{inode(ino).size, new_size});
  free_unmapped(emit(kTruncate, Touch{{&ino, 1}}, maps, flushed));
  if (shift < 0) file(ino).preallocated.remove(changed_from, first);
  file(ino).preallocated.shift(first, shift);
  shift_reserved(ino, first, shift);
  settle_size(ino, new_size);
}

// ---- the interface -------------------------------------------------------------------------------------------------

void Recorder::truncate(Ino ino, std::uint64_t old_size, std::uint64_t new_size, const BlockBytes& bytes) {
  impl_->truncate(ino, old_size, new_size, bytes);
}

void Recorder::preallocate(Ino ino, std::uint64_t offset, std::uint64_t length, std::uint64_t old_size,
                           std::uint64_t new_size, bool keeps_size, const BlockBytes& bytes) {
  if (new_size != old_size) {
    impl_->truncate(ino, old_size, new_size, bytes);
  } else if (!impl_->is_paper()) {
    // Mostly nothing that shows, but the inode is in the transaction, so an fsync commits it. The on-disk size reaches
    // to the end of the range (ext4_alloc_file_blocks: ext4_update_inode_size).
    impl_->writes.clear();
    if (!keeps_size) impl_->raise_size(ino, std::min(offset + length, old_size));
    impl_->emit(kTruncate, Touch{{&ino, 1}}, impl_->writes);
  }
  impl_->note_preallocated(ino, offset, length);
}

void Recorder::zero_range(Ino ino, std::uint64_t offset, std::uint64_t length, std::uint64_t old_size,
                          std::uint64_t new_size, const BlockBytes& bytes, bool allocates) {
  impl_->zero_range(ino, offset, length, old_size, new_size, bytes, allocates);
  if (allocates) impl_->note_preallocated(ino, offset, length);
}

void Recorder::shift_blocks(Ino ino, std::uint64_t first, std::int64_t shift, std::uint64_t old_size,
                            std::uint64_t new_size, const BlockBytes& bytes) {
  impl_->shift_blocks(ino, first, shift, old_size, new_size, bytes);
}

}  // namespace crashcut::fusefs
