// Log: what a program wrote, and what the storage promises about the order in which it persists.
//
// Models: events (atomic groups of writes to locations), the c-order in which they happened (their numbers),
//   a total order of the writes of each location (the c-order, if they say nothing else), and persists-before, a
//   partial order inside the c-order.
// Does not model: what a location is. Files, cache lines and marks are the callers' business.
// Source: PerSeVerE section 3.2 (persists-before, p-snapshots), Jaaru section 4 (constraint refinement).
//
// On crash: the medium holds a cut, a set of events closed downwards under persists-before. An event is in
//   the cut whole or not at all. A location then holds its last write whose event is in the cut.
//
// Barriers (fsync, a fence, a mark) are events that persist before every later event. They form a chain, so a
//   cut's position on it is an interval, and an event keeps two numbers instead of edges:
//     epoch(e)  the last barrier before e in c-order: e in the cut means that this barrier is in;
//     cover(e)  the first barrier that e persists before: this barrier in the cut means that e is in.
//   A barrier's own epoch and cover are itself.
//   This is what keeps a million events cheap: a barrier settles all that it covers in one comparison.
//
// Chains: the other events are split into chains of the persists-before order (a journal, the writes of one sector),
//   so that a cut's position on a chain settles the whole of it too. Where a chain meets others, it has side edges;
//   an event knows the nearest one on its chain below and above that has some.
//
// Invariants: (1) edges point from a lower to a higher event number; (2) an event writes a location at most
//   once; (3) along persists-before epoch and cover do not fall; (4) a sealed log does not change.
// Threads: not synchronised; a sealed log may be read from several threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace crashcut::persist {

using EventId = std::uint32_t;
using LocationId = std::uint32_t;
using BarrierId = std::uint32_t;  // 0 is the beginning: always in the cut
using ChainId = std::uint32_t;    // 0 is none
using Value = std::uint64_t;      // opaque; equal values cannot be told apart by a recovery

inline constexpr EventId kNoEvent = ~EventId{0};
inline constexpr BarrierId kNoBarrier = ~BarrierId{0};
inline constexpr ChainId kNoChain = 0;

struct Write {
  Write(LocationId at, Value what, EventId hidden_by_event = kNoEvent)
      : location(at), hidden_by(hidden_by_event), value(what) {}

  LocationId location;
  // Where it stands among the writes of its location: last, or before the write of this earlier event. The
  // latter is for writes that cannot undo one another (a size that only grows); neither that event nor one whose
  // write stands behind its write may persist before this one.
  EventId hidden_by;
  Value value;
};

// One entry in a location's history.
struct LocationWrite {
  EventId event;
  bool chained;  // persists after the previous write of this location, by an edge or a barrier (or is the first)
  Value value;
};

class Log {
 public:
  // A location that durably holds `initial` before anything happens.
  LocationId add_location(Value initial);

  // An event of operation `op` (a number of the caller's, for reports) that persists after each of `after`.
  EventId add_event(std::uint32_t op, std::span<const Write> writes, std::span<const EventId> after);

  // The same, and it persists after all earlier barriers and before every later event.
  EventId add_barrier(std::uint32_t op, std::span<const Write> writes, std::span<const EventId> after);

  // Everything so far is durable: no cut is without it.
  void make_durable();

  // Ends the recording and builds what the cut needs to look upwards. Call once.
  void seal();

  std::size_t event_count() const { return events_.size(); }
  std::size_t location_count() const { return initial_.size(); }
  BarrierId barrier_count() const { return static_cast<BarrierId>(barriers_.size()); }
  BarrierId durable_barrier() const { return durable_; }

  std::uint32_t op(EventId e) const { return events_[e].op; }
  BarrierId epoch(EventId e) const { return events_[e].epoch; }
  BarrierId cover(EventId e) const { return events_[e].cover; }
  EventId barrier_event(BarrierId b) const { return barriers_[b - 1]; }
  // The barrier that this event is, or 0.
  BarrierId barrier_of(EventId e) const { return epoch(e) == cover(e) ? epoch(e) : 0; }

  // Sealed logs only. The events of a chain persist in the order of their numbers. Barriers are on none: kNoChain.
  ChainId chain(EventId e) const { return events_[e].chain; }
  std::size_t chain_count() const { return first_of_chain_.size() - 1; }
  std::span<const EventId> chain_events(ChainId c) const;
  // How many events a barrier covers, together with those before it.
  std::size_t covered_count(BarrierId b) const { return covered_count_[b]; }
  // The next event down its chain that has predecessors besides the chain's, and up, besides successors; or kNoEvent.
  EventId side_below(EventId e) const { return sides_[e].below; }
  EventId side_above(EventId e) const { return sides_[e].above; }

  std::span<const EventId> predecessors(EventId e) const;
  std::span<const EventId> successors(EventId e) const;  // sealed logs only; barriers are found by cover()
  std::span<const Write> writes(EventId e) const;
  std::span<const LocationWrite> history(LocationId l) const;  // sealed logs only
  bool is_chain(LocationId l) const { return is_chain_[l]; }
  // Whether epochs do not fall along its history: a hidden write may be of a later epoch than what hides it.
  bool has_rising_epochs(LocationId l) const { return has_rising_epochs_[l]; }
  Value initial(LocationId l) const { return initial_[l]; }
  // The value that the running program sees: the last one written.
  Value current(LocationId l) const { return current_[l]; }
  EventId last_write(LocationId l) const { return last_write_[l]; }

  std::size_t memory_bytes() const;

 private:
  struct Event {
    std::uint32_t op;
    BarrierId epoch;
    BarrierId cover;
    std::uint32_t first_predecessor;
    std::uint32_t first_write;
    ChainId chain;
  };

  struct Sides {
    EventId below;
    EventId above;
  };

  EventId append(std::uint32_t op, std::span<const Write> writes, std::span<const EventId> after);
  void cover_below(EventId barrier_event, BarrierId barrier);
  bool persists_after_directly(EventId later, EventId earlier) const;
  void build_successors();
  void build_chains();
  void list_chains(std::span<const std::uint32_t> lengths);
  void count_covered();
  void link_sides(const std::vector<EventId>& chain_before);
  void build_histories();
  void mark_chains();

  std::vector<Event> events_;
  std::vector<EventId> predecessors_;
  std::vector<Write> writes_;
  std::vector<EventId> barriers_;
  std::vector<Value> initial_;
  std::vector<Value> current_;
  std::vector<EventId> last_write_;
  BarrierId durable_ = 0;

  bool sealed_ = false;
  std::vector<std::uint32_t> first_successor_;
  std::vector<EventId> successors_;
  std::vector<Sides> sides_;
  std::vector<std::uint32_t> first_of_chain_;  // kNoChain included: it has no events
  std::vector<EventId> chain_events_;
  std::vector<std::uint32_t> covered_count_;
  std::vector<std::uint32_t> first_history_;
  std::vector<LocationWrite> history_;
  std::vector<bool> is_chain_;
  std::vector<bool> has_rising_epochs_;
  std::vector<EventId> stack_;  // scratch of cover_below
};

}  // namespace crashcut::persist
