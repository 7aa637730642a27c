// Notes on the use of persistent memory (pmem/notes.h): those of the recording, and those of loads, which all processes
// of an exploration keep in one table of shared memory.
#include "pmem/notes.h"

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "persist/hash.h"
#include "recovery/inprocess/explorer.h"
#include "recovery/inprocess/memory/memory.h"

namespace crashcut::inprocess {

using pmem::NoteKind;

constinit const void* g_load_code = nullptr;

namespace {

constexpr std::size_t kNotesMost = 100;  // that are told of each kind

NotedLoad* noted_loads() { return reinterpret_cast<NotedLoad*>(g.control + kNotedLoadsOffset); }

void note_load(NoteKind kind, std::uint64_t code, persist::EventId store, persist::EventId newer) {
  std::uint64_t key = persist::kHashStart;
  for (const std::uint64_t part : {static_cast<std::uint64_t>(kind), code, std::uint64_t{store}, std::uint64_t{newer}})
    key = persist::mix(key, part);
  key |= 1;
  for (std::uint64_t i = key % kNotedLoadsMost, tries = 0; tries < kNotedLoadsMost / 2;
       i = (i + 1) % kNotedLoadsMost, ++tries) {
    NotedLoad& slot = noted_loads()[i];
    std::uint64_t found = slot.key.load(std::memory_order_relaxed);
    if (found == key) return;
    if (found != 0 || !slot.key.compare_exchange_strong(found, key)) {
      if (found == key) return;
      continue;
    }
    slot.code = code;
    slot.kind = static_cast<std::uint32_t>(kind);
    slot.store = store;
    slot.newer = newer;
    return;
  }
  g.header->notes_left_out.fetch_add(1);
}

std::string place_text(std::string_view place) { return place.empty() ? "an unknown place" : std::string(place); }

void append_note(const char* kind, std::string_view place, std::uint64_t count, const std::string& text,
                 std::string_view more_places) {
  append_line(fmt::format("{{\"note\":\"{}\",\"place\":{},\"count\":{},\"text\":{},\"about\":{}}}", kind,
                          json_string(place), count, json_string(text),
                          json_string(fmt::format("{} {}", place, more_places))));
}

std::string times(std::uint64_t count) { return count == 1 ? "once" : fmt::format("{} times", count); }

void describe_note(const pmem::Recording& recording, const pmem::Note& note) {
  const std::string more =
      fmt::format("{} {}", recording.name_of_place(note.other), recording.name_of_place(note.load));
  const std::string place = place_text(recording.name_of_place(note.place));
  const std::string address = recording.describe_address(note.address);
  switch (note.kind) {
    case NoteKind::kRedundantFlush:
      return append_note(
          "redundant flush", place, note.count,
          fmt::format("{} of {} flushes at {} had nothing to flush, first of {}", note.count, note.all, place, address),
          more);
    case NoteKind::kRedundantFence:
      return append_note("redundant fence", place, note.count,
                         fmt::format("{} of {} fences at {} had nothing to wait for", note.count, note.all, place),
                         more);
    case NoteKind::kOverwrite:
      return append_note(
          "overwrite", place, note.count,
          fmt::format("the store at {} overwrote what was stored at {} before any flush had made that "
                      "durable, {}, first at {}",
                      place, place_text(recording.name_of_place(note.other)), times(note.count), address),
          more);
    case NoteKind::kTorn:
      return append_note(
          "torn store", place, note.count,
          fmt::format("the store at {} is across two cache lines, so a crash may leave a part of it, {}, "
                      "first from {} on",
                      place, times(note.count), address),
          more);
    case NoteKind::kUnpersisted:
      return append_note(
          "effect of unpersisted data", place, note.count,
          fmt::format("the load at {} found what another thread had stored at {} ({}) and nobody had made durable; the "
                      "store at {} that followed is made durable, so a crash may leave it without the former, {}",
                      place_text(recording.name_of_place(note.load)), place_text(recording.name_of_place(note.other)),
                      address, place, times(note.count)),
          more);
    case NoteKind::kNotRobust:
    case NoteKind::kRace:
      return;  // of loads
  }
}

// Loads of equal places are one note.
struct LoadSum {
  std::uint64_t count = 0;
  persist::EventId store = persist::kNoEvent, newer = persist::kNoEvent;  // the earliest
};
using LoadKey = std::tuple<NoteKind, std::uint64_t, pmem::PlaceId, pmem::PlaceId>;

pmem::PlaceId place_of(const pmem::Recording& recording, persist::EventId e) {
  return recording.is_own(e) ? recording.events[e].place : 0;
}

std::map<LoadKey, LoadSum> sum_loads(const pmem::Recording& recording, std::uint32_t kinds) {
  std::map<LoadKey, LoadSum> sums;
  for (std::uint64_t i = 0; i < kNotedLoadsMost; ++i) {
    const NotedLoad& load = noted_loads()[i];
    const auto kind = static_cast<NoteKind>(load.kind);
    if (load.key == 0 || !pmem::has_note(kinds, kind)) continue;
    LoadSum& sum = sums[{kind, load.code, place_of(recording, load.store), place_of(recording, load.newer)}];
    ++sum.count;
    if (std::tie(load.store, load.newer) < std::tie(sum.store, sum.newer)) {
      sum.store = load.store;
      sum.newer = load.newer;
    }
  }
  return sums;
}

std::string event_text(const persist::Recording& whole, persist::EventId e) { return "the " + whole.describe_event(e); }

void describe_load(const pmem::Recording& recording, const LoadKey& key, const LoadSum& sum) {
  const auto [kind, code, store_place, newer_place] = key;
  const persist::Recording& whole = *g.recorded->whole;
  const std::string load = code == 0 ? "crashcut_reached()" : "the load at " + name_place(code);
  const std::string place = place_text(recording.name_of_place(store_place));
  const std::string count = sum.count == 1 ? "" : fmt::format(" ({} such pairs of stores)", sum.count);
  const std::string more = fmt::format("{} {}", code, recording.name_of_place(newer_place));
  if (kind == NoteKind::kNotRobust) {
    return append_note(
        "not robust", place, sum.count,
        fmt::format("{} found that {} was lost, and recovery found {}, which came later{}: a flush and a "
                    "fence are missing between the two",
                    load, event_text(whole, sum.store), event_text(whole, sum.newer), count),
        more);
  }
  append_note("persistency race", place, sum.count,
              fmt::format("{} found {}, a plain store that was perhaps not flushed when the power failed{}: a compiler "
                          "may tear it, so make it atomic",
                          load, event_text(whole, sum.store),
                          sum.count == 1 ? "" : fmt::format(" ({} such stores)", sum.count)),
              more);
}

}  // namespace

void note_choice(const persist::Choice& choice, const Crash& crash, std::uint32_t taken, pmem::CrashMoment& moment) {
  const pmem::Recording& recording = *crash.recorded->memory;
  const persist::Candidate& candidate = choice.candidates[taken];
  const bool is_mark = crash.recorded->whole->is_mark(choice.location);
  if (!is_mark && !recording.is_own_location(choice.location)) return;
  const std::uint64_t code = is_mark ? 0 : reinterpret_cast<std::uint64_t>(g_load_code);
  const pmem::ByteMask bytes = is_mark ? pmem::kAllBytes : crash.memory->asked_bytes();
  if (pmem::has_note(g.header->notes, NoteKind::kNotRobust) &&
      moment.add(recording, choice.location, candidate, bytes, code))
    note_load(NoteKind::kNotRobust, moment.code(), moment.lost(), moment.found());
  const bool is_certain = choice.candidates.size() == 1;  // flushed, or below another store of its line
  if (is_mark || is_certain || !pmem::has_note(g.header->notes, NoteKind::kRace)) return;
  const persist::EventId store = plain_store_of(recording, choice.location, candidate);
  if (store != persist::kNoEvent && !crash.cut->is_in(store)) note_load(NoteKind::kRace, code, store, 0);
}

void describe_notes() {
  if (g.recorded->memory == nullptr) return;
  const pmem::Recording& recording = *g.recorded->memory;
  std::map<NoteKind, std::size_t> told;
  std::uint64_t left_out = g.header->notes_left_out;
  for (const pmem::Note& note : pmem::find_notes(recording, g.header->notes)) {
    told[note.kind]++ < kNotesMost ? describe_note(recording, note) : void(++left_out);
  }
  for (const auto& [key, sum] : sum_loads(recording, g.header->notes)) {
    told[std::get<0>(key)]++ < kNotesMost ? describe_load(recording, key, sum) : void(++left_out);
  }
  append_line(fmt::format("{{\"left_out\":{}}}", left_out));
}

}  // namespace crashcut::inprocess
