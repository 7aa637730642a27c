#include "pmem/recorder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "persist/check.h"

namespace crashcut::pmem {

using persist::EventId;
using persist::FenceSetId;
using persist::kNoEvent;
using persist::LocationId;

Recorder::Recorder(const RecorderOptions& options, Medium* ground, persist::Recording* files)
    : options_(options),
      ground_(ground),
      recording_(files == nullptr ? std::make_shared<Recording>(options.model)
                                  : std::make_shared<Recording>(options.model, Recording::Shared{*files})),
      threads_(1) {
  const unsigned atomic = options.model.atomic_bytes;
  CHECK(atomic == 8 || atomic == 16 || atomic == 64);
  recording_->has_ground = ground != nullptr;
}

Recorder::~Recorder() = default;

void Recorder::add_region(const Region& region, std::string name) {
  recording_->lines.add(region);
  recording_->regions.push_back(region);
  recording_->region_names.push_back(std::move(name));
}

ThreadId Recorder::add_thread() {
  CHECK(threads_.size() < 1u << 16);
  threads_.emplace_back();
  return static_cast<ThreadId>(threads_.size() - 1);
}

ThreadId Recorder::start_thread(ThreadId parent) {
  mfence(parent);
  const ThreadId thread = add_thread();
  come_after(thread, threads_[parent].executed);
  return thread;
}

void Recorder::join_thread(ThreadId waiter, ThreadId ended) {
  mfence(ended);
  mfence(waiter);
  set_all_pasts(threads_[waiter], join(threads_[waiter].executed, threads_[ended].executed));
}

EventId Recorder::note(EventId event, const EventInfo& info) {
  auto& events = recording_->events;
  CHECK(events.size() <= event);
  if (events.size() < event) events.resize(event, EventInfo{.kind = EventKind::kOther});
  events.push_back(info);
  return event;
}

// Operations are numbered through all models that share the log.
std::uint32_t Recorder::next_op() {
  recording_->ops.add_untold();
  return static_cast<std::uint32_t>(recording_->ops.size() - 1);
}

// ---- loads
// -----------------------------------------------------------------------------------------------------------

void Recorder::load(ThreadId thread, Address address, std::span<std::byte> out, PlaceId place) {
  load_place_ = place;
  const Address first = address;
  const std::size_t all = out.size();
  while (!out.empty()) {
    const std::size_t bytes = std::min<std::size_t>(out.size(), kLineBytes - address % kLineBytes);
    load_line(thread, address, out.first(bytes));
    address += bytes;
    out = out.subspan(bytes);
  }
  if (!added_.empty() && place != 0) add_flushes_after_load(thread, first, all);
}

// Returns which bytes came from the thread's own buffer.
std::uint64_t Recorder::load_line(ThreadId thread, Address address, std::span<std::byte> out) {
  Line* line = recording_->lines.find(address);
  if (line != nullptr) {
    for (std::size_t at = 0; at < out.size();) {
      const std::size_t bytes = std::min<std::size_t>(out.size() - at, kWordBytes - (address + at) % kWordBytes);
      load_word(*line, address + at, out.subspan(at, bytes));
      at += bytes;
    }
  }
  const StoreBuffer& buffer = threads_[thread].buffer;
  const std::uint64_t forwarded = buffer.is_empty() ? 0 : buffer.forward(address, out);
  if (is_concurrent()) read_from(thread, line, address, out.size(), forwarded);
  return forwarded;
}

// What the cache holds: the last store, or what was there before.
void Recorder::load_word(Line& line, Address address, std::span<std::byte> out) {
  const unsigned first = address % kWordBytes;
  const ByteMask bytes = mask_of_bytes(first, static_cast<unsigned>(out.size()));
  PartialWord word;
  if (const std::uint32_t location = line.location[word_in_line(address)]; location != 0) {
    word = recording_->word_of_value(location - 1, recording_->log.current(location - 1));
  }
  if (const auto missing = static_cast<ByteMask>(bytes & ~word.known); missing != 0 && ground_ != nullptr) {
    word.bytes = (word.bytes & bits_of(word.known)) | ground_->read_word(word_of(address), missing);
  }
  word.bytes >>= 8 * first;
  std::memcpy(out.data(), &word.bytes, out.size());
}

// The thread comes after the stores of other threads that it has read from. Its own stores it may have read while they
// were still in its buffer, so they order nothing.
void Recorder::read_from(ThreadId thread, const Line* line, Address address, std::size_t bytes,
                         std::uint64_t forwarded) {
  for (std::size_t at = 0; at < bytes;) {
    const unsigned first = (address + at) % kWordBytes;
    const auto count = static_cast<unsigned>(std::min<std::size_t>(bytes - at, kWordBytes - first));
    const auto own = static_cast<ByteMask>(forwarded >> at << first);
    const auto mask = static_cast<ByteMask>(mask_of_bytes(first, count) & ~own);
    const WordNumber word = word_of(address + at);
    at += count;
    if (mask == 0) continue;
    if (line == nullptr) {
      note_dram_read(thread, word, mask);
      FenceSetId& executed = threads_[thread].executed;
      dram_.for_each_store_of_others(word, mask, thread, [&](FenceSetId past) { executed = join(executed, past); });
    } else if (const std::uint32_t location = line->location[word % kWordsPerLine]; location != 0) {
      come_after_store(thread, recording_->log.last_write(location - 1), mask);
    }
  }
}

// `last` is the newest store to the word. If it covers a part of the word only, the other bytes are of earlier ones.
void Recorder::come_after_store(ThreadId reader, EventId last, ByteMask bytes) {
  for (EventId e = last; e != kNoEvent && bytes != 0;) {
    const EventInfo& info = recording_->events[e];
    const bool is_part = info.bytes < kWordBytes;
    const ByteMask own = is_part ? mask_of_bytes(info.address % kWordBytes, info.bytes) : kAllBytes;
    if ((own & bytes) != 0 && info.thread != reader) {
      note_read(reader, e);
      Thread& thread = threads_[reader];
      const persist::Log& log = recording_->log;
      if (is_eager() && info.kind == EventKind::kStore &&
          log.fence_of(e) == 0) {  // a piece of a wide store: no fence stands for it yet
        const EventId pieces[] = {e};
        const EventId fence = recording_->log.add_fence(log.op(e), {}, pieces, reader, thread.executed);
        note(fence, EventInfo{.thread = static_cast<std::uint16_t>(reader)});
        thread.executed = recording_->log.past(fence);
      } else {
        thread.executed = join(thread.executed, log.past(e));
      }
    }
    bytes = static_cast<ByteMask>(bytes & ~own);
    e = is_part ? recording_->events[e].previous : kNoEvent;
  }
}

// ---- meetings of threads, for notes

void Recorder::note_meeting(ThreadId from, std::uint32_t from_op_count, ThreadId to) {
  if (!options_.notes_meetings || from == to || from_op_count == 0) return;
  recording_->meetings.push_back({.from = from, .to = to, .from_op = from_op_count - 1, .to_op = op_count()});
}

void Recorder::note_read(ThreadId reader, EventId store) {
  if (!options_.notes_meetings) return;
  const Meeting meeting{.from = recording_->events[store].thread,
                        .to = reader,
                        .from_op = recording_->log.op(store),
                        .to_op = op_count(),
                        .store = store,
                        .place = load_place_,
                        .is_piece = pieces_.contains(store)};
  // A thread that waits reads the same over and over.
  std::vector<Meeting>& all = recording_->meetings;
  if (!all.empty() && all.back().to == reader && all.back().store == store && all.back().place == load_place_) return;
  all.push_back(meeting);
}

void Recorder::note_dram_store(const BufferEntry& entry, ThreadId thread, WordNumber word, ByteMask bytes) {
  if (!options_.notes_meetings) return;
  std::vector<DramStore>& last = dram_stores_[word];
  for (DramStore& store : last) store.bytes &= static_cast<ByteMask>(~bytes);
  std::erase_if(last, [](const DramStore& store) { return store.bytes == 0; });
  last.push_back({bytes, thread, entry.op});
}

void Recorder::note_dram_read(ThreadId reader, WordNumber word, ByteMask bytes) {
  if (!options_.notes_meetings) return;
  const auto last = dram_stores_.find(word);
  if (last == dram_stores_.end()) return;
  for (const DramStore& store : last->second) {
    if ((store.bytes & bytes) != 0) note_meeting(store.thread, store.op + 1, reader);
  }
}

// ---- store buffers
// ---------------------------------------------------------------------------------------------------

BufferEntry Recorder::leave(ThreadId thread, std::size_t i) {
  StoreBuffer& buffer = threads_[thread].buffer;
  CHECK(i < buffer.size() && buffer.may_leave(i));
  BufferEntry entry = buffer.take(i);
  leave_now(thread, entry);
  if (!added_.empty()) add_flushes_after(thread, entry);
  let_clflushopts_leave(thread);
  return entry;
}

// A clflushopt takes its place as soon as it may: later places cover more and allow fewer states.
void Recorder::let_clflushopts_leave(ThreadId thread) {
  StoreBuffer& buffer = threads_[thread].buffer;
  for (std::size_t i = 0; i < buffer.size();) {
    if (buffer[i].kind == EntryKind::kClflushopt && buffer.may_leave(i)) {
      const BufferEntry entry = buffer.take(i);
      leave_now(thread, entry);
      if (!added_.empty()) add_flushes_after(thread, entry);
    } else {
      ++i;
    }
  }
}

void Recorder::empty_buffer(ThreadId thread) {
  while (!threads_[thread].buffer.is_empty()) leave(thread, 0);
}

// Executes an instruction that goes through the buffer.
void Recorder::execute(ThreadId thread, const BufferEntry& entry) {
  StoreBuffer& buffer = threads_[thread].buffer;
  if (!options_.has_store_buffers) {
    leave_now(thread, entry);
    // The pieces of a wide store leave one after the other: store_pieces() has the last.
    if (!added_.empty() && entry.group == 0) add_flushes_after(thread, entry);
    return;
  }
  buffer.push(entry);
  if (entry.kind == EntryKind::kClflushopt) let_clflushopts_leave(thread);
}

void Recorder::leave_now(ThreadId thread, const BufferEntry& entry) {
  switch (entry.kind) {
    case EntryKind::kStore:
    case EntryKind::kNonTemporalStore:
      return leave_store(thread, entry);
    case EntryKind::kClflush:
      return leave_clflush(thread, entry);
    case EntryKind::kClflushopt:
      return take_place(thread, entry);
    case EntryKind::kMark:
      return leave_mark(thread, entry);
    case EntryKind::kSfence: {
      close_group(thread);
      Thread& t = threads_[thread];
      t.left = t.fenced = fence(thread, join(t.left, entry.past), entry.place, FlushKind::kSfence);
      return;
    }
  }
}

std::shared_ptr<const Recording> Recorder::seal() {
  recording_->log.seal();
  recording_->order = ThreadOrder(recording_->meetings);
  return recording_;
}

}  // namespace crashcut::pmem
