// Stores: their pieces, and the events that they make when they leave the buffer.
#include <algorithm>
#include <cstring>

#include "persist/check.h"
#include "pmem/pieces.h"
#include "pmem/recorder.h"

namespace crashcut::pmem {

using persist::EventId;
using persist::FenceSetId;
using persist::kNoEvent;
using persist::LocationId;
using persist::Value;

void Recorder::store(ThreadId thread, Address address, std::span<const std::byte> bytes, PlaceId place,
                     StoreForm form) {
  BufferEntry entry{.kind = EntryKind::kStore, .place = place, .form = form, .past = threads_[thread].executed};
  store_pieces(thread, address, bytes, entry, unit_of_store(options_.model, address, bytes.size()));
}

void Recorder::copy(ThreadId thread, Address address, std::span<const std::byte> bytes, PlaceId place) {
  BufferEntry entry{
      .kind = EntryKind::kStore, .place = place, .form = StoreForm::kCopy, .past = threads_[thread].executed};
  store_pieces(thread, address, bytes, entry, options_.model.has_tearing ? kWordBytes : kLineBytes);
}

void Recorder::store_lanes(ThreadId thread, Address address, std::span<const std::byte> bytes, std::size_t lane_bytes,
                           std::uint64_t lanes, PlaceId place) {
  const auto is_stored = [&](std::size_t at) { return at < bytes.size() && (lanes >> (at / lane_bytes) & 1) != 0; };
  BufferEntry entry{.kind = EntryKind::kStore,
                    .place = place,
                    .op = next_op(),
                    .group = ++group_count_,
                    .past = threads_[thread].executed};
  std::vector<BufferEntry> later;
  WordNumber last_word = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t end = at;
    while (is_stored(end) && word_of(address + end) == word_of(address + at)) ++end;
    if (end == at) {
      ++at;
      continue;
    }
    entry.address = address + at;
    entry.bytes = static_cast<std::uint8_t>(end - at);
    std::memcpy(entry.data.data(), bytes.data() + at, end - at);
    if (word_of(entry.address) == last_word) {
      later.push_back(entry);
      later.back().group = 0;
    } else {
      execute(thread, entry);
    }
    last_word = word_of(entry.address);
    at = end;
  }
  for (const BufferEntry& next : later) execute(thread, next);
}

void Recorder::store_non_temporal(ThreadId thread, Address address, std::span<const std::byte> bytes, PlaceId place,
                                  bool is_whole) {
  const bool is_ordinary = options_.model.persistency == Persistency::kStrict;
  BufferEntry entry{.kind = is_ordinary ? EntryKind::kStore : EntryKind::kNonTemporalStore,
                    .place = place,
                    .form = StoreForm::kWhole,
                    .past = threads_[thread].executed};
  const bool tears = options_.model.has_tearing && !is_whole;
  store_pieces(thread, address, bytes, entry, tears ? kWordBytes : kLineBytes);
}

// `unit`: no piece crosses a multiple of it.
void Recorder::store_pieces(ThreadId thread, Address address, std::span<const std::byte> bytes, BufferEntry& entry,
                            Address unit) {
  if (bytes.empty()) return;
  entry.op = next_op();
  for_each_piece(
      address, bytes, unit, entry, [&] { return ++group_count_; },
      [&](const BufferEntry& piece) { execute(thread, piece); });
  if (!added_.empty() && !options_.has_store_buffers && entry.group != 0) add_flushes_after(thread, entry);
}

void Recorder::leave_store(ThreadId thread, const BufferEntry& entry) {
  Line* line = recording_->lines.find(entry.address);
  if (line == nullptr) return leave_dram_store(thread, entry);
  collect_writes(*line, entry);
  if (entry.kind == EntryKind::kNonTemporalStore) return leave_non_temporal(thread, *line, entry);
  leave_ordinary(thread, *line, entry);
}

void Recorder::leave_dram_store(ThreadId thread, const BufferEntry& entry) {
  if (!is_concurrent()) return;  // a thread that starts later comes after all of this one
  if (threads_[thread].open_group != entry.group) close_group(thread);
  Thread& t = threads_[thread];
  const bool is_weak = entry.kind == EntryKind::kNonTemporalStore;
  const FenceSetId past = join(is_weak ? t.fenced : t.left, entry.past);
  if (!is_weak) t.left = past;
  for (Address at = entry.address; at < entry.address + entry.bytes;) {
    const unsigned first = at % kWordBytes;
    const auto count = static_cast<unsigned>(std::min<Address>(entry.address + entry.bytes - at, kWordBytes - first));
    dram_.store(word_of(at), mask_of_bytes(first, count), thread, past);
    note_dram_store(entry, thread, word_of(at), mask_of_bytes(first, count));
    at += count;
  }
}

// The words that the entry writes, with their new values.
void Recorder::collect_writes(Line& line, const BufferEntry& entry) {
  writes_.clear();
  for (Address at = entry.address; at < entry.address + entry.bytes;) {
    const unsigned first = at % kWordBytes;
    const auto count = static_cast<unsigned>(std::min<Address>(entry.address + entry.bytes - at, kWordBytes - first));
    std::uint64_t data = 0;
    std::memcpy(&data, entry.data.data() + (at - entry.address), count);
    const ByteMask bytes = mask_of_bytes(first, count);
    const Value value = merge_value(line, word_of(at), bytes, data << (8 * first));
    writes_.emplace_back(line.location[word_in_line(at)] - 1, value);
    at += count;
  }
}

Value Recorder::merge_value(Line& line, WordNumber word, ByteMask bytes, std::uint64_t data) {
  std::uint32_t& location = line.location[word % kWordsPerLine];
  if (location == 0) location = add_word(word, bytes) + 1;
  if (bytes == kAllBytes && !recording_->is_partial(location - 1)) return data;
  PartialWord value = recording_->word_of_value(location - 1, recording_->log.current(location - 1));
  if (recording_->has_ground && recording_->log.write_count(location - 1) == 0) {
    value.known = ground_->known_bytes(word, value.bytes);
  }
  value.bytes = (value.bytes & ~bits_of(bytes)) | data;
  value.known |= bytes;
  if (!recording_->is_partial(location - 1)) return value.bytes;
  recording_->partial_words.push_back(value);
  return recording_->partial_words.size() - 1;
}

// A word that is stored to for the first time. It is partial if this store leaves bytes open.
LocationId Recorder::add_word(WordNumber word, ByteMask bytes) {
  const LocationId location = recording_->add_location(word * kWordBytes);
  if (ground_ != nullptr && bytes != kAllBytes) {
    std::uint64_t value = 0;
    if ((ground_->known_bytes(word, value) | bytes) != kAllBytes) {
      recording_->partial_locations.resize(location + 1);
      recording_->partial_locations[location] = true;
    }
  }
  return location;
}

// ---- ordinary stores
// -------------------------------------------------------------------------------------------------

// The words of its line that a store touches.
static std::uint8_t words_of(const BufferEntry& entry) {
  const unsigned first = word_in_line(entry.address), last = word_in_line(entry.address + entry.bytes - 1);
  return static_cast<std::uint8_t>(((2u << last) - 1u) & ~((1u << first) - 1u));
}

// The stores of the line that nothing of the line comes after.
std::span<const EventId> Recorder::newest_stores(const Line& line) {
  if (line.open_group != 0) return groups_[line.open_group - 1].newest;
  if (line.last_end == 0) return {};
  after_.assign(1, line.last_end - 1);
  return after_;
}

// The next stores of the line come after the same ones, and not after one another. A moment in between keeps the
// number of edges down: pieces times pieces otherwise.
void Recorder::begin_group(Line& line, const BufferEntry& entry, ThreadId thread) {
  const auto newest = newest_stores(line);
  EventId below = newest.empty() ? kNoEvent : newest.front();
  if (newest.size() > 1) {
    below = recording_->log.add_event(entry.op, {}, newest);
    note(below, EventInfo{.thread = static_cast<std::uint16_t>(thread)});
  }
  if (line.open_group == 0) {
    if (free_groups_.empty()) {
      groups_.emplace_back();
      free_groups_.push_back(static_cast<std::uint32_t>(groups_.size()));
    }
    line.open_group = free_groups_.back();
    free_groups_.pop_back();
  }
  groups_[line.open_group - 1].below = below;
  groups_[line.open_group - 1].newest.clear();
  line.group = entry.group;
}

// Fills after_ with what the next ordinary store comes directly after.
void Recorder::collect_stores_below(Line& line, const BufferEntry& entry, ThreadId thread) {
  if (entry.group == 0) {
    const auto newest = newest_stores(line);
    if (newest.data() != after_.data()) after_.assign(newest.begin(), newest.end());
  } else {
    if (line.group != entry.group) begin_group(line, entry, thread);
    after_.clear();
    if (const EventId below = groups_[line.open_group - 1].below; below != kNoEvent) after_.push_back(below);
  }
  if (line.non_temporal_words == 0) return;
  const std::uint8_t words = words_of(entry) & line.non_temporal_words;  // they are on no line's chain
  for (const persist::Write& write : writes_) {
    const EventId before = recording_->log.last_write(write.location);
    const Address word = recording_->address_of_location[write.location];
    if (words >> word_in_line(word) & 1) after_.push_back(before);
  }
  line.non_temporal_words &= static_cast<std::uint8_t>(~words);
}

void Recorder::leave_ordinary(ThreadId thread, Line& line, const BufferEntry& entry) {
  if (threads_[thread].open_group != entry.group) close_group(thread);
  collect_stores_below(line, entry, thread);
  Thread& t = threads_[thread];
  const EventId event = add_store(thread, entry, join(join(t.left, entry.past), line.flush_past));
  if (entry.group == 0) {
    t.left = recording_->log.past(event);
    if (line.open_group != 0) free_groups_.push_back(line.open_group);
    line.open_group = 0;
    line.group = 0;
  } else {
    groups_[line.open_group - 1].newest.push_back(event);
    // Its pieces come after the same things; what the line adds is added when the next entry leaves.
    t.open_group = entry.group;
    t.open_pieces.push_back(event);
  }
  line.last_end = event + 1;
  line.cover = 0;
}

// The event of the collected writes, after the events in after_.
EventId Recorder::add_store(ThreadId thread, const BufferEntry& entry, FenceSetId past) {
  persist::Log& log = recording_->log;
  EventInfo info{.address = entry.address,
                 .place = entry.place,
                 .thread = static_cast<std::uint16_t>(thread),
                 .kind = entry.kind == EntryKind::kStore ? EventKind::kStore : EventKind::kNonTemporalStore,
                 .bytes = entry.bytes,
                 .form = entry.form};
  if (entry.bytes < kWordBytes) info.previous = log.last_write(writes_.front().location);
  const bool is_fence = is_eager() && entry.kind == EntryKind::kStore && entry.group == 0;
  const EventId event = is_fence ? log.add_fence(entry.op, writes_, after_, thread, past)
                                 : log.add_event(entry.op, writes_, after_, past);
  if (options_.notes_meetings && entry.group != 0) pieces_.insert(event);
  return note(event, info);
}

// What leaves the buffer after a wide store comes after all its pieces.
void Recorder::close_group(ThreadId thread) {
  Thread& t = threads_[thread];
  if (t.open_pieces.empty()) return;
  persist::Log& log = recording_->log;
  if (is_eager()) {
    const EventId fence = log.add_fence(log.op(t.open_pieces.back()), {}, t.open_pieces, thread, t.left);
    note(fence, EventInfo{.thread = static_cast<std::uint16_t>(thread)});
    t.left = log.past(fence);
  } else {
    for (const EventId piece : t.open_pieces) t.left = join(t.left, log.past(piece));
  }
  t.open_pieces.clear();
  t.open_group = 0;
}

// ---- non-temporal stores
// ---------------------------------------------------------------------------------------------

// They come after the last sfence, mfence or locked instruction of their thread, after its loads, and after earlier
// stores to the same word: the line has left the cache before. Nothing else holds them.
void Recorder::leave_non_temporal(ThreadId thread, Line& line, const BufferEntry& entry) {
  Thread& t = threads_[thread];
  after_.clear();
  for (const persist::Write& write : writes_) {
    const EventId before = recording_->log.last_write(write.location);
    if (before != kNoEvent) after_.push_back(before);
  }
  std::sort(after_.begin(), after_.end());
  after_.erase(std::unique(after_.begin(), after_.end()), after_.end());
  const EventId event = add_store(thread, entry, join(t.fenced, entry.past));
  t.awaited.push_back(Awaited{event, nullptr});
  line.non_temporal_words |= words_of(entry);
}

void Recorder::begin_locked(ThreadId thread, Address address, std::span<std::byte> old, PlaceId place) {
  mfence(thread, place);
  load(thread, address, old, place);
  set_all_pasts(threads_[thread], threads_[thread].executed);
}

// Later loads come after it too: it does not wait in the buffer.
void Recorder::store_locked(ThreadId thread, Address address, std::span<const std::byte> bytes, PlaceId place) {
  Thread& t = threads_[thread];
  CHECK(t.buffer.is_empty());
  BufferEntry entry{
      .kind = EntryKind::kStore, .place = place, .op = next_op(), .form = StoreForm::kLocked, .past = t.executed};
  const Address unit = unit_of_store(options_.model, address, bytes.size());
  if (address / unit != (address + bytes.size() - 1) / unit) entry.group = ++group_count_;
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t piece = std::min<std::size_t>(bytes.size() - at, unit - (address + at) % unit);
    entry.address = address + at;
    entry.bytes = static_cast<std::uint8_t>(piece);
    std::memcpy(entry.data.data(), bytes.data() + at, piece);
    leave_store(thread, entry);
    at += piece;
  }
  close_group(thread);
  if (!added_.empty()) add_flushes_after(thread, entry);
  set_all_pasts(t, t.left);
}

}  // namespace crashcut::pmem
