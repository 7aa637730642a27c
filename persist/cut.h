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
// A chain is in up to a position and out from another: to move one is a comparison, and only events with side edges
//   between the old position and the new are visited.
//
// Invariants: (1) is_in and is_out never hold both; (2) reset() costs what the last recovery refined, not
//   what the log holds. Threads: one cut belongs to one thread.
#pragma once

#include <unordered_map>
#include <utility>
#include <vector>

#include "persist/choices.h"
#include "persist/log.h"

namespace crashcut::persist {

// Whether a recovery can tell two values apart: it may look at part of them only.
class SameToReader {
 public:
  virtual ~SameToReader() = default;
  virtual bool is_same(Value a, Value b) const { return a == b; }
};

// A place on the medium that several things of a model had one after the other (fusefs/places.h): decided as a recovery
// reads, like the events. The numbers are the model's.
struct SharedPlace {
  std::vector<std::uint32_t> members;                          // oldest first
  std::vector<std::pair<std::uint32_t, std::uint32_t>> shown;  // a part of the place, and the member it was read from
};

class Cut {
 public:
  // `log` is sealed and outlives the cut.
  explicit Cut(const Log& log);

  // Back to the state in which nothing but the durable prefix is decided.
  void reset();

  // The value of `location` after the crash; asks `chooser` when more than one is possible.
  Value read(LocationId location, Chooser& chooser, const SameToReader& same = SameToReader());

  // What read() would offer, without deciding.
  std::span<const Candidate> candidates(LocationId location, const SameToReader& same = SameToReader());

  // For a model in which a choice means more than its location says: puts an event in, with all below it, or out, with
  // all above it. The caller has seen to it that the two sets stay disjoint.
  void include(EventId e);
  void exclude(EventId e);
  // Whether `high` is in only where `low` is.
  bool is_below(EventId low, EventId high) const;

  // Places that are decided, by the member that recovery reads. Copied and reset with the cut.
  std::unordered_map<std::uint32_t, SharedPlace>& places() { return places_; }

  bool is_in(EventId e) const { return log_->cover(e) <= barriers_in_ || e < positions_[log_->chain(e)].end_in; }
  bool is_out(EventId e) const {
    return log_->epoch(e) >= first_barrier_out_ || e >= positions_[log_->chain(e)].first_out;
  }
  // The events that are certainly in: the smallest cut that this recovery fits. Ascending.
  std::vector<EventId> events_in() const;
  // How many those are; costs what this recovery refined.
  std::size_t count_in() const;

  const Log& log() const { return *log_; }

 private:
  // On a chain: events before end_in are in, those from first_out on are out, or a barrier says so.
  struct Position {
    EventId end_in = 0;
    EventId first_out = kNoEvent;
    bool operator==(const Position&) const = default;
  };

  std::int32_t newest_in(LocationId location, std::span<const LocationWrite> history) const;
  void settle(LocationId location, const Candidate& candidate);
  Position& touch(ChainId chain);
  void put_in(EventId e);
  void put_out(EventId e);

  const Log* log_;
  BarrierId barriers_in_ = 0;                 // the last barrier that is in
  BarrierId first_barrier_out_ = kNoBarrier;  // the first one that is out
  std::vector<Position> positions_;           // by chain; that of kNoChain stays as it is
  std::vector<ChainId> trail_;                // whose positions have changed, once each
  std::vector<EventId> stack_;
  std::vector<Candidate> candidates_;
  std::unordered_map<std::uint32_t, SharedPlace> places_;
};

}  // namespace crashcut::persist
