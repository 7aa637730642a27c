#include "pmem/notes.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace crashcut::pmem {

using persist::EventId;
using persist::kNoEvent;
using persist::Log;

namespace {

bool is_store(const EventInfo& info) {
  return info.kind == EventKind::kStore || info.kind == EventKind::kNonTemporalStore;
}

// Adds up notes of equal places.
class Sums {
 public:
  void add(NoteKind kind, PlaceId place, PlaceId other, Address address, PlaceId load = 0) {
    Note& note =
        notes_.try_emplace({kind, place, other, load}, Note{kind, place, other, load, 0, 0, address}).first->second;
    ++note.count;
  }
  void add_executed(PlaceId place) { ++executed_[place]; }

  std::vector<Note> take() {
    std::vector<Note> notes;
    for (auto& [key, note] : notes_) {
      note.all = executed_[note.place];
      notes.push_back(note);
    }
    std::stable_sort(notes.begin(), notes.end(), [](const Note& a, const Note& b) { return a.count > b.count; });
    return notes;
  }

 private:
  std::map<std::tuple<NoteKind, PlaceId, PlaceId, PlaceId>, Note> notes_;
  std::map<PlaceId, std::uint64_t> executed_;
};

void add_flushes(const Recording& recording, std::uint32_t kinds, Sums& sums) {
  for (const FlushInfo& flush : recording.flushes) {
    if (flush.kind == FlushKind::kMfence) continue;
    const NoteKind kind = flush.kind == FlushKind::kSfence ? NoteKind::kRedundantFence : NoteKind::kRedundantFlush;
    if (!has_note(kinds, kind)) continue;
    sums.add_executed(flush.place);
    if (flush.is_redundant) sums.add(kind, flush.place, 0, flush.address);
  }
}

// Whether a fence or barrier before `later` made the event durable.
bool is_durable_before(const Log& log, EventId event, EventId later) {
  if (log.cover(event) <= log.epoch(later)) return true;
  const auto fences = log.fences().members(log.future(event));
  return std::any_of(fences.begin(), fences.end(), [&](persist::FenceId f) { return log.fences().event(f) < later; });
}

bool is_overlapping(const EventInfo& a, const EventInfo& b) {
  return a.address < b.address + b.bytes && b.address < a.address + a.bytes;
}

void add_overwrites(const Recording& recording, Sums& sums) {
  const Log& log = recording.log;
  for (persist::LocationId l = 0; l < log.location_count(); ++l) {
    if (!recording.is_own_location(l) || recording.is_mark(l)) continue;
    const auto history = log.history(l);
    for (std::size_t i = 1; i < history.size(); ++i) {
      const EventId e = history[i].event;
      // The last store to these bytes: others of the word may have come between.
      for (std::size_t k = i; k-- > 0;) {
        const EventId before = history[k].event;
        if (!is_overlapping(recording.events[before], recording.events[e])) continue;
        if (log.op(before) != log.op(e) && !is_durable_before(log, before, e))
          sums.add(NoteKind::kOverwrite, recording.events[e].place, recording.events[before].place,
                   recording.events[e].address);
        break;
      }
    }
  }
}

void add_torn(const Recording& recording, Sums& sums) {
  const Log& log = recording.log;
  for (EventId e = 0; e < recording.events.size();) {
    const EventInfo& first = recording.events[e];
    EventId end = e + 1;
    bool is_torn = false;
    for (; end < recording.events.size() && log.op(end) == log.op(e); ++end) {
      const EventInfo& piece = recording.events[end];
      is_torn = is_torn || (is_store(piece) && piece.address / kLineBytes != first.address / kLineBytes);
    }
    if (is_store(first) && first.form != StoreForm::kCopy && is_torn)
      sums.add(NoteKind::kTorn, first.place, 0, first.address);
    e = end;
  }
}

// Whether the event is durable once the fence is complete.
bool is_durable_with(const Log& log, EventId event, persist::FenceId fence) {
  const auto of_event = log.fences().members(log.future(event));
  return log.cover(event) <= log.epoch(log.fences().event(fence)) ||
         std::any_of(of_event.begin(), of_event.end(),
                     [&](persist::FenceId f) { return log.fences().is_at_or_below(f, fence); });
}

// The stores of each thread, in its order.
std::vector<std::vector<EventId>> stores_by_thread(const Recording& recording) {
  std::vector<std::vector<EventId>> stores;
  for (EventId e = 0; e < recording.events.size(); ++e) {
    const EventInfo& info = recording.events[e];
    if (!is_store(info)) continue;
    if (info.thread >= stores.size()) stores.resize(info.thread + std::size_t{1});
    stores[info.thread].push_back(e);
  }
  const Log& log = recording.log;
  for (auto& of_thread : stores)
    std::stable_sort(of_thread.begin(), of_thread.end(), [&](EventId a, EventId b) { return log.op(a) < log.op(b); });
  return stores;
}

// The first store after the reading that is made durable while what was read need not be; else kNoEvent.
EventId find_effect(const Recording& recording, const Meeting& meeting, std::span<const EventId> stores) {
  const Log& log = recording.log;
  const Address line = recording.events[meeting.store].address / kLineBytes;
  const auto begin = std::lower_bound(stores.begin(), stores.end(), meeting.to_op,
                                      [&](EventId e, std::uint32_t op) { return log.op(e) < op; });
  for (auto at = begin; at != stores.end(); ++at) {
    // From here on the thread has heard that it is durable.
    const auto past = log.fences().members(log.past(*at));
    const auto covers = [&](persist::FenceId f) { return is_durable_with(log, meeting.store, f); };
    if (std::any_of(past.begin(), past.end(), covers)) return kNoEvent;
    if (recording.events[*at].address / kLineBytes == line) continue;  // one line: it is there too
    const auto future = log.fences().members(log.future(*at));
    if (std::any_of(future.begin(), future.end(), [&](persist::FenceId f) { return !covers(f); })) return *at;
  }
  return kNoEvent;
}

void add_unpersisted(const Recording& recording, Sums& sums) {
  const auto stores = stores_by_thread(recording);
  for (const Meeting& meeting : recording.meetings) {
    if (meeting.store == kNoEvent || meeting.to >= stores.size()) continue;
    const EventId effect = find_effect(recording, meeting, stores[meeting.to]);
    if (effect == kNoEvent) continue;
    sums.add(NoteKind::kUnpersisted, recording.events[effect].place, recording.events[meeting.store].place,
             recording.events[meeting.store].address, meeting.place);
  }
}

}  // namespace

std::vector<Note> find_notes(const Recording& recording, std::uint32_t kinds) {
  Sums sums;
  add_flushes(recording, kinds, sums);
  if (has_note(kinds, NoteKind::kOverwrite)) add_overwrites(recording, sums);
  if (has_note(kinds, NoteKind::kTorn)) add_torn(recording, sums);
  if (has_note(kinds, NoteKind::kUnpersisted)) add_unpersisted(recording, sums);
  return sums.take();
}

// Events of another model are marks.
static std::size_t thread_of(const Recording& recording, EventId event) {
  if (recording.is_own(event)) return recording.events[event].thread;
  const auto thread = recording.thread_of_mark.find(recording.log.op(event));
  return thread == recording.thread_of_mark.end() ? 0 : thread->second;
}

CrashMoment::Stores& CrashMoment::stores_of(const Recording& recording, EventId event) {
  const std::size_t thread = thread_of(recording, event);
  if (thread >= threads_.size()) threads_.resize(thread + 1);
  return threads_[thread];
}

// Of a thread's stores the oldest that was lost, and the newest that was found, tell all: others of it are no earlier,
// or no later.
bool CrashMoment::find_pair(const Recording& recording) {
  for (ThreadId l = 0; l < threads_.size(); ++l) {
    for (ThreadId f = 0; f < threads_.size(); ++f) {
      const EventId lost = threads_[l].oldest_lost, found = threads_[f].newest_found;
      if (lost == kNoEvent || found == kNoEvent) continue;
      if (!recording.order.is_before(l, recording.log.op(lost), f, recording.log.op(found))) continue;
      lost_ = lost;
      found_ = found;
      code_ = threads_[l].code;
      return true;
    }
  }
  for (const LostPiece& lost : lost_pieces_) {
    for (ThreadId f = 0; f < threads_.size(); ++f) {
      const EventId found = threads_[f].newest_found;
      if (found == kNoEvent || !recording.order.is_piece_before(lost.event, f, recording.log.op(found))) continue;
      lost_ = lost.event;
      found_ = found;
      code_ = lost.code;
      return true;
    }
  }
  return false;
}

// The bytes of the word that a write to it stored. A mark is whole.
static ByteMask stored_bytes(const Recording& recording, persist::LocationId location, EventId event) {
  if (!recording.is_own(event) || recording.is_mark(location)) return kAllBytes;
  const EventInfo& info = recording.events[event];
  const Address word = recording.address_of_location[location];
  const Address begin = std::max(info.address, word);
  const Address end = std::min(info.address + info.bytes, word + kWordBytes);
  return mask_of_bytes(static_cast<unsigned>(begin - word), static_cast<unsigned>(end - begin));
}

// A mark that several threads have made does not tell whose was reached.
static bool is_shared_mark(const Recording& recording, std::span<const persist::LocationWrite> history) {
  return std::any_of(history.begin(), history.end(), [&](const persist::LocationWrite& write) {
    const bool is_mark = !recording.is_own(write.event) || recording.events[write.event].kind == EventKind::kMark;
    return is_mark && thread_of(recording, write.event) != thread_of(recording, history.front().event);
  });
}

void CrashMoment::find(const Recording& recording, EventId event) {
  EventId& newest = stores_of(recording, event).newest_found;
  if (newest == kNoEvent || recording.log.op(event) > recording.log.op(newest)) newest = event;
}

void CrashMoment::lose(const Recording& recording, EventId event, std::uint64_t code) {
  if (recording.order.is_read_piece(event)) lost_pieces_.push_back({event, code});
  Stores& stores = stores_of(recording, event);
  if (stores.oldest_lost != kNoEvent && recording.log.op(stores.oldest_lost) <= recording.log.op(event)) return;
  stores.oldest_lost = event;
  stores.code = code;
}

bool CrashMoment::add(const Recording& recording, persist::LocationId location, const persist::Candidate& candidate,
                      ByteMask bytes, std::uint64_t code) {
  const auto history = recording.log.history(location);
  const auto value_of = [&](std::ptrdiff_t i) {
    const persist::Value value = i < 0 ? recording.log.initial(location) : history[static_cast<std::size_t>(i)].value;
    return recording.word_of_value(location, value).bytes;
  };
  const auto differs = [&](std::ptrdiff_t a, std::ptrdiff_t b, ByteMask mask) {
    return ((value_of(a) ^ value_of(b)) & bits_of(mask)) != 0;
  };
  // Each byte was found of the last store to it, if that changed it.
  ByteMask open = is_shared_mark(recording, history) ? ByteMask{0} : bytes;
  for (std::ptrdiff_t i = candidate.first; i >= 0 && open != 0; --i) {
    const EventId event = history[static_cast<std::size_t>(i)].event;
    const ByteMask stored = stored_bytes(recording, location, event) & open;
    if (differs(i, i - 1, stored)) find(recording, event);
    open &= static_cast<ByteMask>(~stored);
  }
  // Of each thread the first store after that is lost, and with it those that follow.
  for (auto next = static_cast<std::size_t>(candidate.last + 1); next < history.size(); ++next) {
    const EventId event = history[next].event;
    const ByteMask stored = stored_bytes(recording, location, event) & bytes;
    if (differs(static_cast<std::ptrdiff_t>(next), candidate.last, stored)) lose(recording, event, code);
  }
  if (is_over_) return false;
  is_over_ = find_pair(recording);
  return is_over_;
}

EventId plain_store_of(const Recording& recording, persist::LocationId location, const persist::Candidate& candidate) {
  if (candidate.first < 0 || !recording.is_own_location(location)) return kNoEvent;
  const EventId e = recording.log.history(location)[static_cast<std::size_t>(candidate.first)].event;
  const EventInfo& info = recording.events[e];
  if (info.kind != EventKind::kStore || info.form != StoreForm::kPlain) return kNoEvent;
  // The pieces of a wide store are found torn anyway.
  const auto is_same_op = [&](EventId other) {
    return other < recording.events.size() && recording.log.op(other) == recording.log.op(e) &&
           is_store(recording.events[other]);
  };
  return is_same_op(e + 1) || (e > 0 && is_same_op(e - 1)) ? kNoEvent : e;
}

}  // namespace crashcut::pmem
