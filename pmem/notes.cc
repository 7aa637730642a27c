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
  void add(NoteKind kind, PlaceId place, PlaceId other, Address address) {
    Note& note = notes_.try_emplace({kind, place, other}, Note{kind, place, other, 0, 0, address}).first->second;
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
  std::map<std::tuple<NoteKind, PlaceId, PlaceId>, Note> notes_;
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

}  // namespace

std::vector<Note> find_notes(const Recording& recording, std::uint32_t kinds) {
  Sums sums;
  add_flushes(recording, kinds, sums);
  if (has_note(kinds, NoteKind::kOverwrite)) add_overwrites(recording, sums);
  if (has_note(kinds, NoteKind::kTorn)) add_torn(recording, sums);
  return sums.take();
}

bool CrashMoment::add(const Log& log, persist::LocationId location, const persist::Candidate& candidate,
                      std::uint64_t code) {
  const auto history = log.history(location);
  if (candidate.first >= 0) {
    const EventId found = history[static_cast<std::size_t>(candidate.first)].event;
    if (found_ == kNoEvent || found > found_) found_ = found;
  }
  const auto next = static_cast<std::size_t>(candidate.last + 1);
  if (next < history.size() && (lost_ == kNoEvent || history[next].event < lost_)) {
    lost_ = history[next].event;
    code_ = code;
  }
  if (is_over_ || found_ == kNoEvent || lost_ == kNoEvent) return false;
  is_over_ = log.op(lost_) < log.op(found_);
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
