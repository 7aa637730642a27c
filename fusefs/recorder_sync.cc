#include <algorithm>

#include "fusefs/recorder_impl.h"

namespace crashcut::fusefs {

using persist::EventId;
using persist::kNoEvent;
using persist::LocationId;

// A sync waited for blocks [first, end): they are written from now on.
void Recorder::Impl::written_now(Ino ino, std::uint64_t first, std::uint64_t end) {
  touch_writing(ino, Effects::kBoth);
  if (!recording.options.barrier) touch_started(Effects::kSource);
  settle_blocks(ino, first, end);
}

void Recorder::Impl::settle_blocks(Ino ino, std::uint64_t first, std::uint64_t end) {
  FileState& state = file(ino);
  place_blocks(ino, first, end);
  // Without flushes nothing is durable, but what the sync allocated and converted is in the journal by now.
  if (!recording.options.barrier) {
    for (std::uint64_t block : state.delayed) {
      if (block >= first && block < end) find_map_event(ino, block, before_next_in_journal);
    }
    note_started(ino, first, end);
  }
  std::erase_if(state.delayed, [&](std::uint64_t block) {
    if (block < first || block >= end) return false;
    state.blocks[block].written = true;
    state.blocks[block].is_zeroed_out = false;
    state.zero_outs.erase(block);
    return true;
  });
  settle_growths(state, first, end);
  if (state.delayed.empty()) state.allocations.clear();
}

// What blocks [first, end) make of the size is in the journal before whatever comes later.
void Recorder::Impl::settle_growths(FileState& state, std::uint64_t first, std::uint64_t end) {
  for (const Allocation& allocation : state.allocations) {
    if (allocation.block >= first && allocation.block < end)
      state.settled_size = std::max(state.settled_size, allocation.size);
  }
  std::erase_if(state.growths, [&](const Growth& growth) { return growth.size <= state.settled_size; });
}

void Recorder::Impl::sync_file(Ino ino, bool datasync) {
  const bool is_file = inode(ino).type == S_IFREG;
  const Kind kind = !is_file ? kDirectoryFsync : datasync ? kFdatasync : kFsync;
  // The commit that a directory's fsync forces holds what writeback has started.
  const std::vector<EventId> started = is_file ? std::vector<EventId>{} : before_next_in_journal;
  if (is_paper() || recording.options.barrier) emit(kind, Touch{{&ino, 1}}, {}, started);
  if (is_file) written_now(ino, 0, ~std::uint64_t{0});
}

void Recorder::Impl::add_last_write(LocationId location, std::vector<EventId>& events) const {
  const EventId last = location == kNoLocation ? kNoEvent : recording.log.last_write(location);
  if (last != kNoEvent && recording.event_kinds[last] != kZeroOut) events.push_back(last);  // no sync waits for those
}

void Recorder::Impl::find_map_event(Ino ino, std::uint64_t block, std::vector<EventId>& events) {
  const auto map = inode(ino).block_map.find(block);
  if (map != inode(ino).block_map.end()) add_last_write(map->second, events);
}

// Adds the newest events on the data of blocks [first, end), what makes that data show, and what allocated them.
void Recorder::Impl::find_block_events(Ino ino, std::uint64_t first, std::uint64_t end, std::vector<EventId>& events) {
  for (std::uint64_t block = first; block < end; ++block) {
    const BlockState& state = block_state(ino, block);
    if (state.id == kNoBlock) continue;
    for (LocationId location : recording.blocks[state.id].sectors) add_last_write(location, events);
    find_map_event(ino, block, events);
  }
  for (const Allocation& allocation : file(ino).allocations) {
    if (allocation.block >= first && allocation.block < end) events.push_back(allocation.event);
  }
}

void Recorder::Impl::sync_range(Ino ino, std::uint64_t offset, std::uint64_t length, bool datasync) {
  const std::uint64_t first = offset / block_bytes();
  const std::uint64_t end = (offset + length + block_bytes() - 1) / block_bytes();
  std::vector<EventId> events;
  if (is_paper() || recording.options.barrier) {
    find_block_events(ino, first, end, events);
    emit(datasync ? kRangeFdatasync : kRangeFsync, Touch{{&ino, 1}}, {}, events);
  }
  written_now(ino, first, end);
}

void Recorder::Impl::sync_everything() {
  if (is_paper() || recording.options.barrier) emit(kSync, Touch{}, {});
  if (recording.options.barrier) before_next_in_journal.clear();
  // Also files that nobody has written to yet: whoever does so first comes before the sync or after it.
  if (effects) effects->touch(Effects::Thing::kWriting, Effects::kBoth);
  touch_started(Effects::kBoth);
  for (auto& [ino, state] : files) settle_blocks(Ino{ino}, 0, ~std::uint64_t{0});
}

// An operation that fails is begun and dropped again; the next one has its number, and the syncs were done.
void Recorder::Impl::do_added_syncs() {
  for (; next_added_sync < added_syncs.size(); ++next_added_sync) {
    const persist::AddedSync& sync = added_syncs[next_added_sync];
    if (sync.before > recording.ops.size()) break;
    if (sync.kind == persist::AddedSync::Kind::kSync) {
      sync_everything();
    } else {
      sync_file(Ino{sync.file}, sync.kind == persist::AddedSync::Kind::kFdatasync);
    }
  }
}

// Writeback of blocks [first, end) begins: what it allocates is in the journal before whatever comes next.
void Recorder::Impl::begin_writeback(Ino ino, std::uint64_t first, std::uint64_t end) {
  touch_writing(ino, Effects::kBoth);
  touch_started(Effects::kSource);
  place_blocks(ino, first, end);
  note_started(ino, first, end);
}

void Recorder::Impl::note_started(Ino ino, std::uint64_t first, std::uint64_t end) {
  FileState& state = file(ino);
  for (const Allocation& allocation : state.allocations) {
    if (allocation.block >= first && allocation.block < end) before_next_in_journal.push_back(allocation.event);
  }
  settle_growths(state, first, end);
}

// ext4_alloc_da_blocks: does nothing where no block waits for room.
void Recorder::Impl::allocate_delayed_blocks(Ino ino) {
  const FileState& state = file(ino);
  touch_writing(ino, Effects::kTarget);
  const bool reserves = std::any_of(state.delayed.begin(), state.delayed.end(),
                                    [&](std::uint64_t block) { return !state.preallocated.contains(block); });
  if (reserves) begin_writeback(ino, 0, ~std::uint64_t{0});
}

// ---- the interface -------------------------------------------------------------------------------------------------

void Recorder::fsync(Ino ino, bool datasync) { impl_->sync_file(ino, datasync); }

void Recorder::fsync_range(Ino ino, std::uint64_t offset, std::uint64_t length, bool datasync) {
  impl_->sync_range(ino, offset, length, datasync);
}

void Recorder::sync() { impl_->sync_everything(); }

void Recorder::start_writeback(Ino ino, std::uint64_t offset, std::uint64_t length) {
  const std::uint64_t block_bytes = impl_->block_bytes();
  const std::uint64_t end = length == 0 ? ~std::uint64_t{0} : (offset + length + block_bytes - 1) / block_bytes;
  impl_->begin_writeback(ino, offset / block_bytes, end);
}

// data=writeback was seen to show the empty file all the same, so only data=ordered is taken to start it.
void Recorder::before_replace(Ino moved) {
  const ModelOptions& o = impl_->recording.options;
  if (o.auto_da_alloc && o.data == DataMode::kOrdered) impl_->allocate_delayed_blocks(moved);
}

void Recorder::on_release(Ino ino) {
  FileState& state = impl_->file(ino);
  impl_->touch_writing(ino, state.allocate_on_close ? Effects::kBoth : Effects::kTarget);
  if (!state.allocate_on_close) return;
  state.allocate_on_close = false;
  before_replace(ino);
}

}  // namespace crashcut::fusefs
