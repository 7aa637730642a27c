#include <algorithm>
#include <utility>

#include "fusefs/recorder_impl.h"
#include "persist/check.h"
#include "persist/hash.h"

namespace crashcut::fusefs {

using persist::EventId;
using persist::kNoEvent;
using persist::LocationId;
using persist::Value;
using persist::Write;

Recorder::Impl::Impl(const ModelOptions& options, Medium* base, Effects* effects)
    : base(base), effects(effects), order(rules(options), recording.log) {
  recording.options = options;
  recording.ops.push_back("the starting state");
  if (base) recording.next_ino = base->first_free_ino();
}

FileState& Recorder::Impl::file(Ino ino) {
  const auto [found, is_new] = files.try_emplace(static_cast<std::uint64_t>(ino));
  if (is_new && is_from_below(ino)) found->second.settled_size = base->size(ino);
  return found->second;
}

LocationId Recorder::Impl::add_location(LocationKind kind, Ino ino, std::uint64_t index, Value initial) {
  const LocationId location = recording.log.add_location(initial);
  recording.locations.resize(location + 1, LocationInfo{LocationKind::kOther, kNoIno, 0});
  recording.locations[location] = LocationInfo{kind, ino, index};
  return location;
}

// ---- what the locations of an inode are ----------------------------------------------------------------------------

InodeRecord& Recorder::Impl::inode(Ino ino) {
  const auto [found, is_new] = recording.inodes.try_emplace(static_cast<std::uint64_t>(ino));
  if (is_new) {
    const Value initial = base ? kFromBelow : 0;
    found->second.type = base ? base->type(ino) : S_IFDIR;
    found->second.size = add_location(LocationKind::kSize, ino, 0, initial);
    found->second.meta = add_location(LocationKind::kMeta, ino, 0, initial);
  }
  return found->second;
}

void Recorder::Impl::add_inode(Ino ino, mode_t type) {
  const auto [found, is_new] = recording.inodes.try_emplace(static_cast<std::uint64_t>(ino));
  CHECK(is_new);
  found->second.type = type;
  found->second.is_new = true;
  found->second.size = add_location(LocationKind::kSize, ino, 0, 0);
  found->second.meta = add_location(LocationKind::kMeta, ino, 0, 0);
  recording.next_ino = std::max(recording.next_ino, Ino{static_cast<std::uint64_t>(ino) + 1});
}

LocationId Recorder::Impl::name_location(Ino dir, const std::string& name) {
  InodeRecord& record = inode(dir);
  if (const auto found = record.names.find(name); found != record.names.end()) return found->second;
  recording.strings.push_back(name);
  const LocationId location = add_location(LocationKind::kName, dir, recording.strings.size() - 1,
                                           is_from_below(dir) ? kFromBelow : static_cast<Value>(kNoIno));
  return inode(dir).names[name] = location;
}

LocationId Recorder::Impl::block_map_location(Ino ino, std::uint64_t block) {
  InodeRecord& record = inode(ino);
  if (const auto found = record.block_map.find(block); found != record.block_map.end()) return found->second;
  const LocationId location =
      add_location(LocationKind::kBlockMap, ino, block, is_from_below(ino) ? kFromBelow : Value{kNoBlock});
  return inode(ino).block_map[block] = location;
}

BlockId Recorder::Impl::new_block(Ino ino, std::uint64_t block, bool from_below) {
  recording.blocks.push_back(
      BlockRecord{ino, block, std::vector<LocationId>(sectors_per_block(), kNoLocation), from_below});
  return static_cast<BlockId>(recording.blocks.size() - 1);
}

LocationId Recorder::Impl::sector_location(BlockId id, std::uint32_t sector) {
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

BlockState& Recorder::Impl::block_state(Ino ino, std::uint64_t block) {
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

// ---- events --------------------------------------------------------------------------------------------------------

// The earlier write of a location is a direct predecessor wherever it is one at all: then neighbours of equal
// value are seen to be one candidate.
void Recorder::Impl::add_location_order(Kind kind, std::span<const Write> event_writes) {
  for (const Write& w : event_writes) {
    const EventId last = recording.log.last_write(w.location);
    if (last != kNoEvent && order.is_ordered(recording.event_kinds[last], kind)) after.push_back(last);
  }
}

// A barrier persists before whatever comes later, so its order matters to every event; the end of the starting state,
// to every event before it. Which of two writes to a location is the last matters to the location.
void Recorder::Impl::report(Kind kind, const Touch& touch, std::span<const Write> event_writes) const {
  using Thing = Effects::Thing;
  constexpr Kinds kFollowsStarted =
      kCreate | kName | kMeta | kTruncate | kZeroGrow | kAllocate | kGrow | kGrowInside | kMap;
  const BlockRecord& block = recording.blocks[touch.block];
  order.report(kind, touch, persist::mix(static_cast<std::uint64_t>(block.ino), block.block), *effects);
  if (!effects->loosens()) effects->touch(Thing::kBarrier, (kind & kBarriers) != 0 ? Effects::kBoth : Effects::kTarget);
  effects->touch(Thing::kDurable, Effects::kSource);
  if ((kind & (kFollowsStarted | kDirectoryFsync)) != 0) touch_started(Effects::kTarget);
  if ((kind & kSync) != 0) touch_started(Effects::kBoth);
  for (const Write& w : event_writes) {
    const LocationInfo& info = recording.locations[w.location];
    if (info.kind == LocationKind::kSector) continue;  // the rules see to those
    const bool is_named = info.kind == LocationKind::kName || info.kind == LocationKind::kMark;
    const std::uint64_t which = is_named ? persist::hash_of(recording.strings[info.index]) : info.index;
    effects->touch(Thing::kLocation, Effects::kBoth, static_cast<std::uint64_t>(info.kind),
                   static_cast<std::uint64_t>(info.ino), which);
  }
  // Any but plain data changes what later writes to the file make of its blocks.
  if (kind == kData) {
    for (Ino ino : touch.inos) touch_writing(ino, Effects::kTarget);
  } else if ((kind & (kGrow | kGrowInside | kMap | kAllocate | kZeroGrow | kTruncate | kFsync | kFdatasync |
                      kRangeFsync | kRangeFdatasync)) != 0) {
    for (Ino ino : touch.inos) touch_writing(ino, Effects::kBoth);
  }
}

EventId Recorder::Impl::emit(Kind kind, const Touch& touch, std::span<const Write> event_writes,
                             std::span<const EventId> also_after) {
  constexpr Kinds kInJournal = kCreate | kName | kMeta | kTruncate | kZeroGrow | kAllocate;
  after.assign(also_after.begin(), also_after.end());
  add_location_order(kind, event_writes);
  if (kind & (kInJournal | kGrow | kGrowInside | kMap)) {
    after.insert(after.end(), before_next_in_journal.begin(), before_next_in_journal.end());
  }
  // The journal is a chain: later entries follow this one. (Not those of other threads, once it is loosened.)
  if ((kind & kInJournal) && !effects) before_next_in_journal.clear();
  if (effects) {
    stamp(touch);
    report(kind, touch, event_writes);
  }
  order.find_predecessors(kind, touch, after);
  const EventId event = (kind & kBarriers) ? recording.log.add_barrier(op(), event_writes, after)
                                           : recording.log.add_event(op(), event_writes, after);
  recording.set_kind(event, kind);
  order.add(event, kind, touch);
  return event;
}

// ---- the interface: names, metadata, marks -------------------------------------------------------------------------

Recorder::Recorder(const ModelOptions& options, Medium* base, Effects* effects)
    : impl_(std::make_unique<Impl>(options, base, effects)) {}
Recorder::~Recorder() = default;

void Recorder::add_syncs(std::span<const persist::AddedSync> syncs) {
  impl_->added_syncs.assign(syncs.begin(), syncs.end());
  std::stable_sort(impl_->added_syncs.begin(), impl_->added_syncs.end(),
                   [](const auto& a, const auto& b) { return a.before < b.before; });
}

void Recorder::begin_op(std::string text) {
  impl_->do_added_syncs();
  impl_->recording.ops.push_back(std::move(text));
}

void Recorder::name_op(std::string text) { impl_->recording.ops.set_last(std::move(text)); }

void Recorder::drop_op() {
  const persist::Log& log = impl_->recording.log;
  const bool is_used = log.event_count() > 0 && log.op(static_cast<EventId>(log.event_count() - 1)) == impl_->op();
  if (!is_used) impl_->recording.ops.pop_back();
}

void Recorder::note_name(Ino dir, std::string_view name, Ino ino) {
  const auto number = static_cast<std::uint64_t>(ino);
  impl_->recording.last_names.try_emplace(number, dir, name);
  impl_->recording.first_names.try_emplace(number, name);
}

void Recorder::set_root(const Meta& meta) { impl_->recording.metas[0] = meta; }

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

void Recorder::mark(const std::string& text) {
  Impl& impl = *impl_;
  auto found = impl.recording.mark_locations.find(text);
  if (found == impl.recording.mark_locations.end()) {
    impl.recording.strings.push_back(text);
    const LocationId location = impl.add_location(LocationKind::kMark, kNoIno, impl.recording.strings.size() - 1, 0);
    found = impl.recording.mark_locations.emplace(text, location).first;
  }
  const Write write{found->second, 1};
  impl.emit(kMark, Touch{}, {&write, 1});
}

void Recorder::make_durable() {
  impl_->sync_everything();
  impl_->recording.log.make_durable();
  if (impl_->effects) {
    impl_->after.clear();
    impl_->stamp({});
    impl_->effects->touch(Effects::Thing::kBarrier, Effects::kBoth);
    impl_->effects->touch(Effects::Thing::kDurable, Effects::kBoth);
  }
  impl_->recording.set_kind(static_cast<EventId>(impl_->recording.log.event_count() - 1), kSync);
}

void Recorder::seal() {
  impl_->recording.log.seal();
  impl_->is_sealed = true;
  impl_->find_look_alikes();
}
void Recorder::forget_state() {
  CHECK(impl_->is_sealed);
  impl_->order.forget();
  decltype(impl_->files)().swap(impl_->files);
  decltype(impl_->unplaced)().swap(impl_->unplaced);
  decltype(impl_->stamps)().swap(impl_->stamps);
}

Recording& Recorder::recording() { return impl_->recording; }
const Recording& Recorder::recording() const { return impl_->recording; }

}  // namespace crashcut::fusefs
