// Repair: the flush or fence that a program lacks, tried on its recording.
//
// A flush after a place in the program is done there whenever the place was executed. It needs no new event: whatever
//   the program did after the flush was complete persists after what was flushed, so it is a list of orders between
//   events that there are (persist::Log::with_orders).
// Models: the flushes and fences of the recording itself are kept (Recording::flushes), so a fence that is added
//   completes the flushes before it, and a flush that is added is completed by the next fence that there was.
// Several threads: what comes after what in other threads is not in a recording, so the program is recorded again with
//   the flushes (Recorder::add_flushes). Candidates are found nevertheless, without knowing which of them help.
// Cost: a walk through the recording for each candidate.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "persist/log.h"
#include "pmem/recording.h"

namespace crashcut::pmem {

struct AddedFlush {
  enum class Kind : std::uint32_t {
    kFence,          // sfence
    kFlush,          // clwb of the line that the store wrote
    kFlushAndFence,  // both
    kObject,         // clwb of that line and of those nearby that have stores which no flush covers; sfence
  };
  Kind kind = Kind::kFence;
  PlaceId place = 0;  // of the stores, or flushes, that it follows; of loads, with several threads

  bool operator==(const AddedFlush&) const = default;
};

// What persists before what with these flushes. None: more than kOrdersMost orders.
inline constexpr std::size_t kOrdersMost = std::size_t{1} << 22;
std::optional<std::vector<persist::Order>> orders_of(const Recording& recording, std::span<const AddedFlush> flushes);

// What a crash left, as far as that is decided.
struct DecidedEvents {
  std::function<bool(persist::EventId)> is_in, is_out;
};

struct FlushCandidate {
  AddedFlush flush;
  Address address = 0;      // of the newest store of the place that was lost; 0 after a flush
  std::uint32_t lines = 1;  // at most, that are flushed at once
};

// The flushes that make a crash impossible which left these events, the smallest change first. None: nothing that was
// stored before the newest of the events was lost, or it is one store that was torn.
std::vector<FlushCandidate> find_missing_flushes(const Recording& recording, const DecidedEvents& events);
// Whether a store was lost that came before one that was not: a flush between the two would matter.
bool has_lost_earlier(const Recording& recording, const DecidedEvents& events);

}  // namespace crashcut::pmem
