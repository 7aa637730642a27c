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
//   follow the c-order and w' is later). The new sets are disjoint again.
//
// Neighbouring writes of equal value, the later persisting after the earlier, are one candidate: recovery
//   cannot tell them apart, so which of them it was stays open.
//
// Invariants: (1) is_in and is_out never hold both; (2) reset() costs what the last recovery refined, not
//   what the log holds. Threads: one cut belongs to one thread.
#pragma once

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

  bool is_in(EventId e) const { return log_->cover(e) <= barriers_in_ || mark_[e] == kIn; }
  bool is_out(EventId e) const { return log_->epoch(e) >= first_barrier_out_ || mark_[e] == kOut; }
  // The events that are certainly in: the smallest cut that this recovery fits. Ascending.
  std::vector<EventId> events_in() const;
  // How many those are, at no cost.
  std::size_t count_in() const { return log_->covered_count(barriers_in_) + marked_in_; }

  const Log& log() const { return *log_; }

 private:
  enum Mark : std::uint8_t { kOpen, kIn, kOut };

  std::int32_t newest_in(LocationId location, std::span<const LocationWrite> history) const;
  void settle(LocationId location, const Candidate& candidate);
  void put_in(EventId e);
  void mark_in(EventId e);
  void raise_barriers_in(BarrierId barrier);
  void put_out(EventId e);

  const Log* log_;
  BarrierId barriers_in_ = 0;                 // the last barrier that is in
  BarrierId first_barrier_out_ = kNoBarrier;  // the first one that is out
  std::size_t marked_in_ = 0;                 // events that are in by their mark alone
  std::vector<std::uint8_t> mark_;
  std::vector<EventId> trail_;
  std::vector<EventId> stack_;
  std::vector<Candidate> candidates_;
};

}  // namespace crashcut::persist
