// When a block has a place on the disk: from its allocation until it is freed. Needed only where a freed block may be
// written to by others at once (reuses_freed_blocks).
#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "fusefs/recorder_impl.h"

namespace crashcut::fusefs {

using persist::EventId;
using persist::kNoEvent;
using persist::LocationId;
using persist::Value;

void Recorder::Impl::note_allocation(BlockId id, EventId event) {
  if (reuses() && id != kNoBlock) recording.blocks[id].allocations.push_back(event);
}

// A new block of a file. Where fallocate reserved room for it, it has had its place since then.
void Recorder::Impl::add_place(Ino ino, std::uint64_t block, BlockId id, bool is_delayed) {
  if (!reuses()) return;
  BlockRecord& record = recording.blocks[id];
  FileState& state = file(ino);
  auto reserved = state.reserved.upper_bound(block);
  if (reserved != state.reserved.begin() && (--reserved)->second.end > block) {
    record.placed_at = reserved->second.since;
    record.allocations.push_back(record.placed_at);
    forget_reserved(state, block, block + 1);
  } else if (is_delayed) {
    unplaced.insert(id);
  } else {
    record.placed_at = static_cast<EventId>(recording.log.event_count());
    if (effects) effects->touch(Effects::Thing::kPlaces, Effects::kTarget);
  }
}

// Writeback of blocks [first, end) has allocated them.
void Recorder::Impl::place_blocks(Ino ino, std::uint64_t first, std::uint64_t end) {
  if (!reuses()) return;
  if (effects) effects->touch(Effects::Thing::kPlaces, Effects::kTarget);
  const FileState& state = file(ino);
  for (const std::uint64_t block : state.delayed) {
    if (block < first || block >= end) continue;
    const BlockId id = state.blocks.at(block).id;
    if (unplaced.erase(id) != 0) recording.blocks[id].placed_at = static_cast<EventId>(recording.log.event_count());
  }
}

void Recorder::Impl::forget_reserved(FileState& state, std::uint64_t first, std::uint64_t end) {
  auto& reserved = state.reserved;
  auto at = reserved.upper_bound(first);
  if (at != reserved.begin() && std::prev(at)->second.end > first) --at;
  while (at != reserved.end() && at->first < end) {
    const auto [begin, range] = *at;
    at = reserved.erase(at);
    if (begin < first) reserved[begin] = Reservation{first, range.since};
    if (range.end > end) reserved[end] = range;
  }
}

// fallocate: blocks [first, end) that have none get a place now. Those that have data keep theirs: nobody asks for it.
void Recorder::Impl::reserve_places(Ino ino, std::uint64_t first, std::uint64_t end, EventId since) {
  if (!reuses()) return;
  if (effects) effects->touch(Effects::Thing::kPlaces, Effects::kTarget);
  auto& reserved = file(ino).reserved;
  auto at = reserved.upper_bound(first);
  if (at != reserved.begin()) first = std::max(first, std::prev(at)->second.end);
  for (; first < end; ++at) {
    const std::uint64_t gap_end = at == reserved.end() ? end : std::min(end, at->first);
    if (first < gap_end) reserved.emplace_hint(at, first, Reservation{gap_end, since});
    if (at == reserved.end()) break;
    first = at->second.end;
  }
}

void Recorder::Impl::free_blocks(std::span<const BlockId> ids, EventId by) {
  if (!reuses() || ids.empty()) return;
  if (effects) effects->touch(Effects::Thing::kPlaces, Effects::kSource);
  const EventId at = emit(kFree, Touch{}, {});
  for (const BlockId id : ids) {
    // Those of the disk below have a location for each sector from now on, which others can be compared with.
    for (std::uint32_t s = 0; s < sectors_per_block(); ++s) sector_location(id, s);
    BlockRecord& record = recording.blocks[id];
    record.freed_by = by;
    record.freed_at = at;
    if (unplaced.erase(id) != 0) record.placed_at = at;
    recording.freed.push_back(id);
  }
  const auto next = static_cast<BlockId>(recording.blocks.size());
  const BlockId first_taker = unplaced.empty() ? next : *unplaced.begin();
  for (const BlockId id : ids) recording.blocks[id].first_taker = first_taker;
}

void Recorder::Impl::free_unmapped(EventId by) {
  free_blocks(unmapped, by);
  unmapped.clear();
}

// These blocks stay allocated: what is written there next lands in them (BlockState::kept).
void Recorder::Impl::keep_unmapped() {
  for (const BlockId id : unmapped) {
    if (unplaced.erase(id) != 0) recording.blocks[id].placed_at = static_cast<EventId>(recording.log.event_count());
  }
  unmapped.clear();
}

// COLLAPSE_RANGE and INSERT_RANGE: blocks from `first` on move.
void Recorder::Impl::shift_reserved(Ino ino, std::uint64_t first, std::int64_t shift) {
  FileState& state = file(ino);
  if (shift < 0) forget_reserved(state, first + shift, first);
  std::map<std::uint64_t, Reservation> moved;
  for (const auto& [begin, range] : state.reserved) {
    if (begin < first) moved[begin] = Reservation{std::min(range.end, first), range.since};
    if (range.end > first) moved[std::max(begin, first) + shift] = Reservation{range.end + shift, range.since};
  }
  state.reserved = std::move(moved);
}

// Two blocks look alike where the same was written to them in the same order, between the same barriers, and the same
// event frees them: then they can stand for each other whichever freed block's place one of them takes. They leave the
// same behind where the newest data of all sectors is the same.
void Recorder::Impl::find_look_alikes() {
  if (recording.freed.empty()) return;
  std::vector<EventId> frees;  // the moments
  for (const BlockId id : recording.freed) {
    if (frees.empty() || frees.back() != recording.blocks[id].freed_at) frees.push_back(recording.blocks[id].freed_at);
  }
  using Step = std::tuple<EventId, std::uint32_t, Value>;  // event, sector, contents
  std::map<std::string_view, Value> contents;
  std::map<std::vector<std::uint64_t>, BlockId> firsts;
  std::map<std::vector<std::uint64_t>, BlockId> first_leftovers;
  recording.look_alikes.resize(recording.blocks.size());
  recording.leftovers.resize(recording.blocks.size());
  for (BlockId id = 1; id < recording.blocks.size(); ++id) {
    const BlockRecord& block = recording.blocks[id];
    recording.look_alikes[id] = recording.leftovers[id] = id;
    if (is_loosened || block.from_below) continue;
    std::vector<Step> steps;
    std::vector<std::uint64_t> newest;
    for (std::uint32_t s = 0; s < block.sectors.size(); ++s) {
      if (block.sectors[s] == kNoLocation) continue;
      for (const persist::LocationWrite& w : recording.log.history(block.sectors[s])) {
        const auto content = [&] {
          return std::string_view(reinterpret_cast<const char*>(recording.bytes.at(w.value)), sector_bytes());
        };
        const Value value = w.value == 0 ? 0 : contents.try_emplace(content(), w.value).first->second;
        steps.emplace_back(w.event, s, value);
      }
      if (!steps.empty()) newest.insert(newest.end(), {s, std::get<Value>(steps.back())});
    }
    std::sort(steps.begin(), steps.end());
    const auto frees_before = std::lower_bound(frees.begin(), frees.end(), block.placed_at) - frees.begin();
    std::vector<std::uint64_t> key{block.freed_by, block.freed_at, static_cast<std::uint64_t>(frees_before)};
    for (const auto& [event, sector, value] : steps) {
      key.insert(key.end(), {sector, value, recording.log.epoch(event), recording.log.cover(event)});
    }
    recording.leftovers[id] = first_leftovers.try_emplace(std::move(newest), id).first->second;
    recording.look_alikes[id] = firsts.try_emplace(std::move(key), id).first->second;
  }
}

// ---- the interface -------------------------------------------------------------------------------------------------

// Its blocks are freed by the entry that took its last name, or by a later one that says no more.
void Recorder::free_inode(Ino ino) {
  Impl& impl = *impl_;
  const auto found = impl.files.find(static_cast<std::uint64_t>(ino));
  // A process that ends after the recording lets go of what it had open.
  if (!impl.reuses() || impl.is_sealed || found == impl.files.end()) return;
  std::vector<BlockId> ids;
  for (const auto& [block, state] : found->second.blocks) {
    if (state.owned() != kNoBlock) ids.push_back(state.owned());
  }
  std::sort(ids.begin(), ids.end());
  const EventId last = impl.recording.log.last_write(impl.inode(ino).meta);
  if (last != kNoEvent) impl.free_blocks(ids, last);
}

}  // namespace crashcut::fusefs
