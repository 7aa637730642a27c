// Log: what a program wrote, and what the storage promises about the order in which it persists.
//
// Models: events (atomic groups of writes to locations), the c-order in which they happened (their numbers),
//   a total order of the writes of each location (the c-order, if the writes say nothing else), and persists-before, a
//   partial order inside the c-order.
// Does not model: what a location is. Files, cache lines and marks are the callers' business.
// Source: PerSeVerE section 3.2 (persists-before, p-snapshots), Jaaru section 4 (constraint refinement).
//
// On crash: the medium holds a cut, a set of events closed downwards under persists-before. An event is in
//   the cut whole or not at all. A location then holds its last write whose event is in the cut.
//
// Three things keep a million events cheap. Each settles many events by one comparison.
//
// Barriers (fsync, a mark) persist before every later event. They form a chain, so a cut's position among them is an
//   interval, and an event keeps two numbers instead of edges:
//     epoch(e)  the last barrier before e in c-order: if e is in the cut, this barrier is in;
//     cover(e)  the first barrier that e persists before: if this barrier is in the cut, e is in.
//   A barrier's own epoch and cover are itself.
//
// Fences (an sfence of one thread) bind only the events that are recorded after them, by an edge or through other
//   events. The fences of one scope form a chain (persist/fences.h), and an event keeps two sets of fences:
//     past(e)    the last fences that persist before e: if e is in the cut, they are in;
//     future(e)  the first fences that e persists before: if one of them is in the cut, e is in.
//   A fence's own past and future are itself alone.
//
// Chains: the other events are split into chains of the persists-before order (a journal, a cache line), so a cut's
//   position on a chain settles the whole chain. An edge between two events that are not neighbours on one chain is a
//   side edge. An event knows the nearest events below and above it on its chain that have side edges.
//
// A log may lie on others (persist/cut_stack.h): a location that it has not written, or whose writes did not persist,
//   then shows what a location of a log below shows.
//
// Invariants: (1) edges point from a lower to a higher event number; (2) an event writes a location at most
//   once; (3) along persists-before epoch, cover, past and future do not fall; (4) a sealed log does not change.
// Cost: recording and sealing take time and memory in proportion to events, edges and writes, and to the number of
//   scopes for each fence. Almost all is done while an event is added, when what it touches is still in the processor's
//   cache; seal() goes through the log in order.
// Threads: not synchronised; a sealed log may be read from several threads.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "persist/fences.h"

namespace crashcut::persist {

using LocationId = std::uint32_t;
using BarrierId = std::uint32_t;  // 0 is the beginning: always in the cut
using ChainId = std::uint32_t;    // 0 is none
using LayerId = std::uint16_t;    // a log of a stack, from the bottom
using Value = std::uint64_t;      // opaque; a recovery cannot tell equal values apart

inline constexpr EventId kNoEvent = ~EventId{0};
inline constexpr BarrierId kNoBarrier = ~BarrierId{0};
inline constexpr ChainId kNoChain = 0;
inline constexpr LayerId kNoLayer = ~LayerId{0};

struct Write {
  Write(LocationId at, Value what, EventId hidden_by_event = kNoEvent)
      : location(at), hidden_by(hidden_by_event), value(what) {}

  LocationId location;
  // The place of this write among the writes of its location: last, or just before the write of this earlier event.
  // The latter is for writes that cannot undo one another (a size that only grows). Neither that event nor an event
  // whose write stands behind its write may persist before this one.
  EventId hidden_by;
  Value value;
};

// One entry in a location's history.
struct LocationWrite {
  EventId event;
  bool chained;  // persists after the previous write of this location, or is the first
  Value value;
};

// `before` persists before `after`.
struct Order {
  EventId before, after;
};

// A location of a log further down in a stack.
struct LowerLocation {
  LayerId layer = kNoLayer;
  LocationId location = 0;
};

class Log {
 public:
  // A location that durably holds `initial` before anything happens.
  LocationId add_location(Value initial);
  // A location that shows what `lower` shows, as long as no write of this log has persisted. Its initial() is 0, and
  // so is its current() until this log writes it.
  LocationId add_location_over(LowerLocation lower);

  // An event of operation `op` (a number of the caller's, for reports). It persists after each of `after` and after the
  // fences of `past`. `after` may name fences and barriers too.
  EventId add_event(std::uint32_t op, std::span<const Write> writes, std::span<const EventId> after,
                    FenceSetId past = kNoFences);

  // The same, and it persists after all earlier barriers and before every later event.
  EventId add_barrier(std::uint32_t op, std::span<const Write> writes, std::span<const EventId> after);

  // The same as add_event(), and it persists after all earlier fences of its scope. It settles all that lies below it
  // at once, whatever that is.
  EventId add_fence(std::uint32_t op, std::span<const Write> writes, std::span<const EventId> after, ScopeId scope,
                    FenceSetId past = kNoFences);

  // The fences at or below those of `a` or of `b`: for a caller that carries the past of a thread along.
  FenceSetId join(FenceSetId a, FenceSetId b) { return fences_.join(a, b); }
  // From now on every event persists after these fences too. For a model that knows no fences and shares the log with
  // one that does: what it adds comes after the fences of the thread that called it.
  void set_common_past(FenceSetId past) { common_past_ = past; }

  // Everything so far is durable: no cut is without it.
  void make_durable();
  // This fence, and all that lies below it, is durable.
  void make_durable(EventId fence);

  // Ends the recording and builds what the cut needs to look upwards. Call once.
  void seal();
  bool is_sealed() const { return sealed_; }

  std::size_t event_count() const { return events_.size(); }
  std::size_t location_count() const { return locations_.size(); }
  BarrierId barrier_count() const { return static_cast<BarrierId>(barriers_.size()); }
  BarrierId durable_barrier() const { return durable_; }

  std::uint32_t op(EventId e) const { return events_[e].op; }
  BarrierId epoch(EventId e) const { return events_[e].epoch; }
  BarrierId cover(EventId e) const { return events_[e].cover; }
  EventId barrier_event(BarrierId b) const { return barriers_[b - 1]; }
  // The barrier that this event is, or 0.
  BarrierId barrier_of(EventId e) const { return epoch(e) == cover(e) ? epoch(e) : 0; }

  bool has_fences() const { return !fence_links_.empty(); }
  const Fences& fences() const { return fences_; }
  // The fence that this event is, or 0.
  FenceId fence_of(EventId e) const { return past(e) == future(e) ? past(e) : 0; }
  FenceSetId past(EventId e) const { return has_fences() ? fence_links_[e].past : kNoFences; }
  FenceSetId future(EventId e) const { return has_fences() ? fence_links_[e].future : kNoFences; }  // sealed logs only
  // Calls visit(event) for the last fences below `e`, at most one a scope.
  template <class Visit>
  void for_each_fence_below(EventId e, Visit&& visit) const;
  FenceSetId durable_fences() const { return durable_fences_; }

  // The events of a chain persist in the order of their numbers. Barriers and fences are on none: kNoChain.
  ChainId chain(EventId e) const { return events_[e].chain; }
  std::size_t chain_count() const { return chains_.size(); }  // kNoChain included
  std::span<const EventId> chain_events(ChainId c) const;     // sealed logs only
  // How many events a barrier covers, together with those that earlier barriers cover. Sealed logs only.
  std::size_t covered_count(BarrierId b) const { return covered_count_[b]; }
  // The next event down the chain of `e` that has side edges from below; up the chain, to above; or kNoEvent.
  EventId side_below(EventId e) const { return sides_.empty() ? kNoEvent : sides_[e].below; }
  EventId side_above(EventId e) const { return sides_.empty() ? kNoEvent : sides_[e].above; }  // sealed logs only

  // The events that an event persists after. Left out are barriers, what earlier barriers cover, and fences, unless the
  // event is a barrier.
  std::span<const EventId> predecessors(EventId e) const;
  // The events at the upper ends of its side edges. Sealed logs only.
  std::span<const EventId> side_successors(EventId e) const;
  std::span<const Write> writes(EventId e) const;
  std::span<const LocationWrite> history(LocationId l) const;  // sealed logs only
  std::uint32_t write_count(LocationId l) const { return locations_[l].write_count; }
  // Whether each write of the location persists after the one before it. Sealed logs only.
  bool is_chain(LocationId l) const { return histories_[l].is_chain; }
  // Whether epochs do not fall along the location's history. A hidden write may be of a later epoch than the write that
  // hides it.
  bool has_rising_epochs(LocationId l) const { return histories_[l].has_rising_epochs; }
  Value initial(LocationId l) const { return histories_[l].initial; }
  bool has_lower() const { return !lower_.empty(); }
  LowerLocation lower(LocationId l) const { return l < lower_.size() ? lower_[l] : LowerLocation{}; }
  // The value that the running program sees: the last one written.
  Value current(LocationId l) const { return locations_[l].current; }
  EventId last_write(LocationId l) const { return locations_[l].last_write; }

  // Whether `low` is `high` or persists before it. Sealed logs only. The search goes down from `high`, event with side
  // edges by event with side edges, does not go below events for which is_settled(event) holds, and gives up after
  // `steps_max` of them: then it says no.
  template <class IsSettled>
  bool is_below(EventId low, EventId high, std::size_t steps_max, IsSettled&& is_settled) const;

  // The same events and locations, by the same numbers, of which more is promised: `orders`, ascending by `after`, each
  // from a lower to a higher event. Both logs are sealed. (log_orders.cc)
  Log with_orders(std::span<const Order> orders) const;

  std::size_t memory_bytes() const;

 private:
  struct Event {
    std::uint32_t op;
    BarrierId epoch;
    BarrierId cover;
    std::uint32_t first_predecessor;
    std::uint32_t first_write;
    ChainId chain : 31;
    bool has_side_below : 1;  // has side edges from below itself
  };
  // The nearest events on the chain that have side edges.
  struct Sides {
    EventId below, above;
  };
  struct FenceLinks {
    FenceSetId past, future;
  };
  // What recording needs to know about a location.
  struct Location {
    Value current;
    EventId last_write = kNoEvent;
    std::uint32_t write_count : 31 = 0;
    bool has_hidden_writes : 1 = false;
  };
  // What reading needs to know about a location. It is apart, so that a read touches one cache line here.
  struct History {
    Value initial;
    std::uint32_t first = 0;  // of its entries in history_
    std::uint32_t count : 30 = 0;
    bool is_chain : 1 = true;
    bool has_rising_epochs : 1 = true;
  };
  struct Chain {
    EventId last;
    std::uint32_t length;
  };
  struct Edge {
    EventId from, to;
  };
  // While histories are built: the last write so far of a location.
  struct LastWrite {
    std::uint32_t end = 0;  // of the history so far
    EventId event = kNoEvent;
    BarrierId cover = kNoBarrier;  // of the event
    ChainId chain = kNoChain;      // of the event
  };

  EventId append(std::uint32_t op, std::span<const EventId> after, FenceSetId& past, bool keeps_fences);
  void add_common_past(FenceSetId& past, bool keeps_fences);
  void append_to_chain(EventId e);
  void append_writes(EventId e, std::span<const Write> writes);
  void cover_below(EventId barrier_event, BarrierId barrier);
  bool is_plainly_below(EventId low, EventId high) const;
  void build_futures();
  void build_side_successors();
  void link_sides_above();
  bool is_chained(const LastWrite& before, EventId e) const;
  FenceSetId add_past_of(EventId e, const Log& from);
  void list_chains_and_histories();
  void place_hidden_write(const Write& w, std::uint32_t at);
  void mark_chains(LocationId l);

  std::vector<Event> events_;
  std::vector<EventId> predecessors_;
  std::vector<Write> writes_;
  std::vector<EventId> barriers_;
  std::vector<Location> locations_;
  std::vector<History> histories_;    // of each location; filled in by seal()
  std::vector<LowerLocation> lower_;  // empty, or of each location up to the last that has one
  std::vector<Chain> chains_{Chain{kNoEvent, 0}};
  std::vector<std::uint32_t> covered_count_{0};  // by barrier; of the barrier alone until sealed
  std::vector<Sides> sides_;                     // of each event; empty in a log without side edges
  Fences fences_;
  std::vector<FenceLinks> fence_links_;  // of each event; empty in a log without fences
  BarrierId durable_ = 0;
  FenceSetId durable_fences_ = kNoFences;
  FenceSetId common_past_ = kNoFences;
  bool sealed_ = false;

  // While recording.
  std::vector<Edge> side_edges_;
  std::vector<EventId> stack_;  // scratch of cover_below

  // Once sealed.
  std::vector<std::uint32_t> first_side_successor_;  // empty in a log without side edges
  std::vector<EventId> side_successors_;
  std::vector<std::uint32_t> first_of_chain_;
  std::vector<EventId> chain_events_;
  std::vector<LocationWrite> history_;
};

inline std::span<const EventId> Log::predecessors(EventId e) const {
  const std::size_t begin = events_[e].first_predecessor;
  const std::size_t end = e + 1 < events_.size() ? events_[e + 1].first_predecessor : predecessors_.size();
  return {predecessors_.data() + begin, end - begin};
}

inline std::span<const Write> Log::writes(EventId e) const {
  const std::size_t begin = events_[e].first_write;
  const std::size_t end = e + 1 < events_.size() ? events_[e + 1].first_write : writes_.size();
  return {writes_.data() + begin, end - begin};
}

inline std::span<const EventId> Log::side_successors(EventId e) const {
  if (first_side_successor_.empty()) return {};
  return {side_successors_.data() + first_side_successor_[e], first_side_successor_[e + 1] - first_side_successor_[e]};
}

inline std::span<const EventId> Log::chain_events(ChainId c) const {
  return {chain_events_.data() + first_of_chain_[c], first_of_chain_[c + 1] - first_of_chain_[c]};
}

inline std::span<const LocationWrite> Log::history(LocationId l) const {
  return {history_.data() + histories_[l].first, histories_[l].count};
}

template <class Visit>
void Log::for_each_fence_below(EventId e, Visit&& visit) const {
  const FenceId own = fence_of(e);
  if (own == 0) {
    for (const FenceId f : fences_.members(past(e))) visit(fences_.event(f));
    return;
  }
  const auto row = fences_.row_below(own);
  for (ScopeId s = 0; s < row.size(); ++s) {
    const std::uint32_t index = s == fences_.scope(own) ? row[s] - 1 : row[s];
    if (index != 0) visit(fences_.event(fences_.at(s, index)));
  }
}

template <class IsSettled>
bool Log::is_below(EventId low, EventId high, std::size_t steps_max, IsSettled&& is_settled) const {
  if (low >= high) return low == high;
  if (is_plainly_below(low, high)) return true;
  if (chain(high) == kNoChain) return false;
  std::vector<EventId> open{high};
  std::unordered_set<EventId> seen;
  while (!open.empty()) {
    const EventId top = open.back();
    open.pop_back();
    for (EventId at = top; at != kNoEvent && at > low; at = side_below(at)) {
      if (steps_max-- == 0) return false;
      for (const EventId p : predecessors(at)) {
        if (p < low || is_settled(p) || (chain(p) == chain(at) && chain(p) != kNoChain)) continue;
        if (p == low || is_plainly_below(low, p)) return true;
        if (seen.insert(p).second) open.push_back(p);
      }
    }
  }
  return false;
}

}  // namespace crashcut::persist
