// Cut: what the medium holds after a crash, decided while recovery reads.
//
// Two sets are kept: *in* (certainly persisted, closed downwards) and *out* (certainly not, closed upwards).
//   Reading a location offers as candidates its writes that fit between the two; picking one puts it and all
//   below it in, and the later writes of that location and all above them out. What is never read is never
//   decided.
//
// Why no choice ever leads to a dead end: with *in* closed downwards, *out* closed upwards and the two
//   disjoint, a candidate w is not out and no later write w' of its location is in. So nothing below w is out
//   (else w were), nothing above w' is in (else w' were), and nothing is both below w and above w' (edges
//   follow the c-order, and w' is later, or hides w and must not persist before it). The new sets are disjoint again.
//
// Neighbouring writes of equal value, the later persisting after the earlier, are one candidate: recovery
//   cannot tell them apart, so which of them it was stays open.
//
// The two sets are positions: one pair among the barriers, one a scope among its fences, one a chain. To move one is a
//   comparison, and settles all that lies on its far side. Only events with side edges between the old position on a
//   chain and the new one are visited.
//
// Invariants: (1) is_in and is_out never hold both; (2) reset() costs what the last recovery refined, not
//   what the log holds, and a number a scope if the log has fences.
// Cost: a read costs the candidates it offers, the logarithm of a chained location's history (the whole history, if it
//   is not chained), the side edges that it settles, and a number a scope for each position among fences that moves.
// Threads: one cut belongs to one thread.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "persist/choices.h"
#include "persist/log.h"

namespace crashcut::persist {

// Whether a recovery can tell two values apart. It may look at a part of them only.
class SameToReader {
 public:
  virtual ~SameToReader() = default;
  virtual bool is_same(Value a, Value b) const { return a == b; }
};

// A place on the medium that belonged to several objects of a model, one after the other (fusefs/places.h). Which ones
// is decided as a recovery reads, like the events. The model numbers the objects and the parts of a place.
struct SharedPlace {
  std::vector<std::uint32_t> members;                          // the objects, oldest first
  std::vector<std::pair<std::uint32_t, std::uint32_t>> shown;  // a part, and the member that it was read from
};

class Cut {
 public:
  // `log` is sealed and outlives the cut.
  explicit Cut(const Log& log);

  // Back to the state in which nothing but the durable prefix is decided.
  void reset();

  // The value of `location` after the crash; asks `chooser` if more than one is possible. A location that lies over
  // another (Log::add_location_over) is read through a CutStack.
  Value read(LocationId location, Chooser& chooser, const SameToReader& same = SameToReader());

  // What read() would offer, without deciding.
  std::span<const Candidate> candidates(LocationId location, const SameToReader& same = SameToReader());

  // Appends the candidates among the writes of this log, newest first. `base` is the value that shows if none of
  // them is in, or null if that is not known: then the last candidate may be {-1, -1}, with a value of no meaning.
  void add_candidates(LocationId location, const Value* base, const SameToReader& same,
                      std::vector<Candidate>& to) const;
  // Whether a write to the location is certainly in.
  bool is_written(LocationId location) const;
  // Decides for a candidate that candidates() has just offered.
  void settle(LocationId location, const Candidate& candidate);

  // For a model in which a choice means more than its location says: puts an event in, with all below it, or out, with
  // all above it. The caller makes sure that the two sets stay disjoint.
  void include(EventId e);
  void exclude(EventId e);
  // Whether `high` can be in only if `low` is.
  bool is_below(EventId low, EventId high) const;

  // The places that are decided, by the member that recovery reads. Copied and reset with the cut.
  std::unordered_map<std::uint32_t, SharedPlace>& places() { return places_; }

  bool is_in(EventId e) const {
    return log_->cover(e) <= barriers_in_ || e < positions_[log_->chain(e)].end_in || is_fenced_in(e);
  }
  bool is_out(EventId e) const {
    return log_->epoch(e) >= first_barrier_out_ || e >= positions_[log_->chain(e)].first_out || is_fenced_out(e);
  }
  // The events that are certainly in: the smallest cut that this recovery fits. Ascending.
  std::vector<EventId> events_in() const;
  // How many those are. Costs what this recovery refined; with fences, as much as events_in().
  std::size_t count_in() const;

  const Log& log() const { return *log_; }

 private:
  // On a chain: events before end_in are in, those from first_out on are out. Barriers and fences may settle more.
  struct Position {
    EventId end_in = 0;
    EventId first_out = kNoEvent;
    bool operator==(const Position&) const = default;
  };
  // In a scope: the fences up to the index last_in are in, those from first_out on are out.
  struct FencePosition {
    std::uint32_t last_in = 0;
    std::uint32_t first_out = Fences::kNever;
  };

  // Whether a fence says that the event is in, or out.
  bool is_fenced_in(EventId e) const { return has_fences_ && is_any_fence_in(log_->future(e)); }
  bool is_fenced_out(EventId e) const { return has_fences_ && is_any_fence_out(log_->past(e)); }
  // Whether a barrier or a fence does.
  bool is_settled_in(EventId e) const { return log_->cover(e) <= barriers_in_ || is_fenced_in(e); }
  bool is_settled_out(EventId e) const { return log_->epoch(e) >= first_barrier_out_ || is_fenced_out(e); }
  bool is_any_fence_in(FenceSetId set) const;
  bool is_any_fence_out(FenceSetId set) const;
  void begin();
  std::span<const LocationWrite> possible_history(LocationId location) const;
  std::int32_t newest_in(LocationId location, std::span<const LocationWrite> history) const;
  void find_candidates(LocationId location, const Value* base, const SameToReader& same,
                       std::vector<Candidate>& to) const;
  Position& touch(ChainId chain);
  void put_in(EventId e);
  void put_out(EventId e);
  void put_fences_in(FenceSetId set);
  void put_fences_out(FenceSetId set);

  const Log* log_;
  bool has_fences_;                             // of the log
  bool has_lower_;                              // has the log locations that lie over others
  BarrierId barriers_in_ = 0;                   // the last barrier that is in
  BarrierId first_barrier_out_ = kNoBarrier;    // the first one that is out
  std::vector<Position> positions_;             // by chain; that of kNoChain stays as it is
  std::vector<ChainId> trail_;                  // the chains whose positions have changed, once each
  std::vector<FencePosition> fence_positions_;  // by scope
  std::vector<EventId> stack_;
  std::vector<Candidate> candidates_;
  std::unordered_map<std::uint32_t, SharedPlace> places_;
};

}  // namespace crashcut::persist
