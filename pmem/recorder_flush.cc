// Flushes, fences and marks.
#include "persist/check.h"
#include "pmem/recorder.h"

namespace crashcut::pmem {

using persist::EventId;
using persist::FenceSetId;
using persist::kNoEvent;

void Recorder::clflush(ThreadId thread, Address address, PlaceId place) {
  if (is_eager() || !is_persistent(address)) return;
  execute(thread, BufferEntry{.kind = EntryKind::kClflush,
                              .address = address,
                              .bytes = 1,
                              .place = place,
                              .past = threads_[thread].executed});
}

void Recorder::clflushopt(ThreadId thread, Address address, PlaceId place) {
  if (is_eager() || !is_persistent(address)) return;
  execute(thread, BufferEntry{.kind = EntryKind::kClflushopt,
                              .address = address,
                              .bytes = 1,
                              .place = place,
                              .past = threads_[thread].executed});
}

void Recorder::sfence(ThreadId thread, PlaceId place) {
  execute(thread,
          BufferEntry{.kind = EntryKind::kSfence, .address = 0, .place = place, .past = threads_[thread].executed});
}

void Recorder::mfence(ThreadId thread, PlaceId place) {
  empty_buffer(thread);
  close_group(thread);
  Thread& t = threads_[thread];
  set_all_pasts(t, fence(thread, join(t.left, t.executed), place, FlushKind::kMfence));
}

// Whether all ordinary stores of the line are durable once the fences of `past` are in.
bool Recorder::is_covered(const Line& line, FenceSetId past) const {
  if (line.last_end <= durable_end_) return true;
  if (line.cover == 0) return false;
  const persist::Fences& fences = recording_->log.fences();
  for (const persist::FenceId f : fences.members(past)) {
    if (fences.is_at_or_below(line.cover, f)) return true;
  }
  return false;
}

// Locked instructions, of which there may be very many, are operations only if they make an event.
void Recorder::note_flush(ThreadId thread, FlushKind kind, Address address, PlaceId place, bool is_redundant) {
  const bool has_event = kind != FlushKind::kClwb && !is_redundant;
  recording_->flushes.push_back(FlushInfo{.address = address,
                                          .position = static_cast<EventId>(recording_->log.event_count()),
                                          .place = place,
                                          .op = has_event || kind == FlushKind::kMfence ? kNoOp : next_op(),
                                          .thread = static_cast<std::uint16_t>(thread),
                                          .kind = kind,
                                          .is_redundant = is_redundant});
}

// Waits for what the thread's clflushopts and non-temporal stores have begun. Returns the past of what follows.
FenceSetId Recorder::fence(ThreadId thread, FenceSetId past, PlaceId place, FlushKind kind) {
  Thread& t = threads_[thread];
  after_.clear();
  for (const Awaited& awaited : t.awaited) {
    if (awaited.line == nullptr || !is_covered(*awaited.line, past)) after_.push_back(awaited.event);
  }
  note_flush(thread, kind, 0, place, after_.empty());
  if (after_.empty()) {
    t.awaited.clear();
    return past;
  }
  persist::Log& log = recording_->log;
  const EventId event = log.add_fence(next_op(), {}, after_, thread, past);
  note(event, EventInfo{.place = place, .thread = static_cast<std::uint16_t>(thread), .kind = EventKind::kFence});
  for (const Awaited& awaited : t.awaited) {
    Line* line = awaited.line;
    // Only if no store came since; and the newest pieces of a wide store were all waited for, or none.
    if (line != nullptr && line->last_end == awaited.event + 1) line->cover = log.fence_of(event);
  }
  t.awaited.clear();
  return log.past(event);
}

// A barrier after the line's stores so far. Later stores of the line, of any thread, come after it.
void Recorder::leave_clflush(ThreadId thread, const BufferEntry& entry) {
  close_group(thread);
  Thread& t = threads_[thread];
  Line& line = *recording_->lines.find(entry.address);
  FenceSetId past = join(t.left, entry.past);
  persist::Log& log = recording_->log;
  const bool is_redundant = is_covered(line, past);
  note_flush(thread, FlushKind::kClflush, entry.address, entry.place, is_redundant);
  if (is_redundant) {
    for (const EventId e : newest_stores(line)) past = join(past, log.past(e));
    t.left = past;
  } else {
    const auto newest = newest_stores(line);
    const EventId event = log.add_fence(next_op(), {}, newest, thread, past);
    note(event, EventInfo{.address = entry.address,
                          .place = entry.place,
                          .thread = static_cast<std::uint16_t>(thread),
                          .kind = EventKind::kClflush});
    line.cover = log.fence_of(event);
    t.left = log.past(event);
  }
  line.flush_past = join(line.flush_past, t.left);
}

// A clflushopt covers the line's stores so far, once a fence of its thread follows.
void Recorder::take_place(ThreadId thread, const BufferEntry& clflushopt) {
  Thread& t = threads_[thread];
  Line& line = *recording_->lines.find(clflushopt.address);
  FenceSetId past = join(t.fenced, clflushopt.past);
  const bool is_repeated = line.flushed_end == line.last_end && line.flusher == thread;
  line.flushed_end = line.last_end;
  line.flusher = static_cast<std::uint16_t>(thread);
  const bool is_redundant = is_covered(line, past) || is_repeated;
  note_flush(thread, FlushKind::kClwb, clflushopt.address, clflushopt.place, is_redundant);
  for (const EventId e : newest_stores(line)) {
    t.awaited.push_back(Awaited{e, &line});
    past = join(past, recording_->log.past(e));
  }
  line.flush_past = join(line.flush_past, past);
}

void Recorder::mark(ThreadId thread, std::string_view text, PlaceId place) {
  const auto number = recording_->mark_texts.size();
  auto found = recording_->mark_locations.find(text);
  if (found == recording_->mark_locations.end()) {
    const persist::LocationId location = recording_->add_location(number);
    recording_->mark_texts.emplace_back(text);
    found = recording_->mark_locations.try_emplace(std::string(text), location).first;
  }
  execute(thread, BufferEntry{.kind = EntryKind::kMark,
                              .address = recording_->address_of_location[found->second],
                              .place = place,
                              .past = threads_[thread].executed});
}

void Recorder::leave_mark(ThreadId thread, const BufferEntry& entry) {
  close_group(thread);
  Thread& t = threads_[thread];
  persist::Log& log = recording_->log;
  const persist::LocationId location = recording_->mark_locations.find(recording_->mark_texts[entry.address])->second;
  const persist::Write writes[] = {{location, log.current(location) + 1}};
  const EventId event = log.add_fence(next_op(), writes, {}, thread, join(t.left, entry.past));
  note(event, EventInfo{.address = entry.address,
                        .place = entry.place,
                        .thread = static_cast<std::uint16_t>(thread),
                        .kind = EventKind::kMark});
  t.left = log.past(event);
}

// ---- flushes that are added

bool Recorder::has_unflushed(Address line) const {
  const Line* found = recording_->lines.find(line);
  return found != nullptr && found->last_end > durable_end_ && found->cover == 0;
}

// As if the instructions followed `entry` in the program and left the buffer at once.
void Recorder::add_flush(ThreadId thread, AddedFlush::Kind kind, const BufferEntry& entry) {
  constexpr Address kNearby = 4;  // lines: an object may have some that were not stored to
  Thread& t = threads_[thread];
  const auto flush = [&](Address line) {
    if (is_persistent(line))
      take_place(thread, BufferEntry{.kind = EntryKind::kClflushopt, .address = line, .past = t.left});
  };
  if (kind != AddedFlush::Kind::kFence) {
    // A store of several words is one operation.
    for (auto e = static_cast<EventId>(recording_->events.size()); e-- > 0;) {
      const EventInfo& info = recording_->events[e];
      if (info.kind == EventKind::kStore && recording_->log.op(e) == entry.op)
        flush(info.address / kLineBytes * kLineBytes);
      if (info.kind == EventKind::kStore && info.thread == thread && recording_->log.op(e) < entry.op) break;
    }
  }
  if (kind == AddedFlush::Kind::kObject) {
    const Address own = entry.address / kLineBytes * kLineBytes;
    for (Address line = own - kNearby * kLineBytes; line <= own + kNearby * kLineBytes; line += kLineBytes) {
      if (has_unflushed(line)) flush(line);
    }
  }
  if (kind == AddedFlush::Kind::kFlush) return;
  t.left = t.fenced = fence(thread, join(t.left, entry.past), 0, FlushKind::kSfence);
}

void Recorder::add_flushes_after(ThreadId thread, const BufferEntry& entry) {
  const bool is_store = entry.kind == EntryKind::kStore || entry.kind == EntryKind::kNonTemporalStore;
  if (entry.place == 0 || (!is_store && entry.kind != EntryKind::kClflushopt)) return;
  const StoreBuffer& buffer = threads_[thread].buffer;
  for (std::size_t i = 0; is_store && i < buffer.size(); ++i) {
    if (buffer[i].is_store() && buffer[i].op == entry.op) return;  // another piece of it is still to come
  }
  for (const AddedFlush& added : added_) {
    if (added.place != entry.place || (!is_store && added.kind != AddedFlush::Kind::kFence)) continue;
    close_group(thread);
    add_flush(thread, added.kind, entry);
  }
}

// What waits in the buffer comes before the load in the program, so it does not come after the fence.
void Recorder::add_flushes_after_load(ThreadId thread, Address address, std::size_t bytes) {
  for (const AddedFlush& added : added_) {
    if (added.place != load_place_ || added.kind != AddedFlush::Kind::kFlushAndFence) continue;
    Thread& t = threads_[thread];
    for (Address line = address / kLineBytes * kLineBytes; line < address + bytes; line += kLineBytes) {
      if (is_persistent(line))
        take_place(thread, BufferEntry{.kind = EntryKind::kClflushopt, .address = line, .past = t.executed});
    }
    const FenceSetId fenced = fence(thread, t.executed, 0, FlushKind::kSfence);
    t.executed = join(t.executed, fenced);
    t.fenced = join(t.fenced, fenced);
  }
}

void Recorder::begin_durable() {
  for (ThreadId t = 0; t < threads_.size(); ++t) mfence(t);
}

void Recorder::make_durable() {
  begin_durable();
  recording_->log.make_durable();
  note(static_cast<EventId>(recording_->log.event_count() - 1), EventInfo{});
  end_durable();
}

}  // namespace crashcut::pmem
