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

void Recorder::note_flush(ThreadId thread, FlushKind kind, Address address, PlaceId place, bool is_redundant) {
  recording_->flushes.push_back(FlushInfo{.address = address,
                                          .position = static_cast<EventId>(recording_->log.event_count()),
                                          .place = place,
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
