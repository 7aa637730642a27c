// The oracle of persist/: every cut of a small log by brute force, and a recovery run on each. And every combination of
// cuts of a small stack of logs.
//
// It shares nothing with persist/ but the numbers of events and locations: orders are bitmasks closed by a triple
// loop, a cut is any mask that contains all that lies below its events, a location holds the write in the cut that no
// other write hides.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "persist/log.h"

namespace crashcut::persist::oracle {

using Mask = std::uint32_t;

struct SpecEvent {
  enum Kind { kPlain, kBarrier, kDurable, kFence };
  Kind kind = kPlain;
  std::vector<Write> writes;   // none if kDurable
  std::vector<EventId> after;  // everything earlier if kDurable
  ScopeId scope = 0;           // of a fence
  bool is_durable = false;     // of a fence: Log::make_durable(fence)
  bool uses_past = false;      // the fences of `after` are handed over as a set
};

// A log as its author would state it.
struct Spec {
  std::vector<Value> initial;
  std::vector<LowerLocation> lower;  // of each location, or empty
  std::vector<SpecEvent> events;

  void record_in(Log& log) const;  // does not seal it
  std::string to_text() const;
};

inline constexpr std::size_t kEventsMax = 12;

Spec random_spec(std::mt19937_64& random, std::size_t events_max = kEventsMax);

// A recovery whose every step depends on all that it has read so far; it may read a location again.
struct Observer {
  std::uint64_t seed;
  std::uint32_t locations;
  std::uint32_t reads_max;

  // Where a run of it is.
  struct Step {
    std::uint64_t state;
    std::uint32_t reads = 0;
  };
  Step begin() const { return Step{mix(seed)}; }
  bool is_done(const Step& step) const { return step.reads >= reads_max || step.state % 32 == 0; }
  std::uint32_t location(const Step& step) const { return static_cast<std::uint32_t>((step.state >> 8) % locations); }
  Step next(const Step& step, Value value) const {
    return Step{mix(step.state ^ (location(step) * 1000 + value + 1)), step.reads + 1};
  }

  // Calls read(location) -> Value until it has seen enough.
  template <class Read>
  void run(Read&& read) const {
    for (Step step = begin(); !is_done(step);) step = next(step, read(location(step)));
  }

  static std::uint64_t mix(std::uint64_t x) {  // splitmix64
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
};

using Observation = std::vector<std::pair<LocationId, Value>>;
// For each read, its location and the run of indistinguishable writes it came from.
using ReadsFrom = std::vector<std::pair<LocationId, int>>;

class Oracle {
 public:
  explicit Oracle(const Spec& spec);

  const std::vector<Mask>& cuts() const { return cuts_; }
  bool is_cut(Mask events) const;
  Value value(LocationId location, Mask cut) const;
  // The run of the write that `location` shows: -1 is the initial value's.
  int run_of(LocationId location, Mask cut) const;

  // Whether the write number `index` of `location` persists after the one before it, or is the first.
  bool chained(LocationId location, std::size_t index) const { return histories_[location][index].chained; }
  std::size_t write_count(LocationId location) const { return histories_[location].size(); }
  Value value_of(LocationId location, std::size_t index) const { return histories_[location][index].value; }
  // The index of the write that `location` shows; -1 if none is in the cut.
  int index_of(LocationId location, Mask cut) const;
  bool persists_before(EventId earlier, EventId later) const {
    return earlier != later && below_[later] >> earlier & 1;
  }
  // The events that are in every cut.
  Mask durable() const { return durable_; }

 private:
  struct Entry {
    EventId event;
    Value value;
    double rank;  // a location shows the write of the highest rank that is in the cut
    bool chained;
    int run;
  };

  void close_order();
  void order_writes();
  void find_runs();
  const Entry* latest(LocationId location, Mask cut) const;

  Spec spec_;
  std::vector<Mask> below_;  // of each event, itself included
  Mask durable_ = 0;
  std::vector<std::vector<Entry>> histories_;
  std::vector<Mask> cuts_;
};

// Several specs, each on those before it.
struct StackSpec {
  std::vector<Spec> layers;
  std::vector<bool> is_live;  // of each layer: the program still runs, so all is there

  std::vector<LowerLocation> places() const;  // all locations of all layers
  std::string to_text() const;
};

StackSpec random_stack(std::mt19937_64& random);

// Every combination of the cuts of the layers, and into which recoveries they fall.
//
// A recovery is told apart by the source of each read: the layer, the location and the run of writes. A run of a
// layer's oldest writes has the source that lies below, if it has the same value and if that source is the only one
// left in the combinations that fit all reads so far.
class StackOracle {
 public:
  using Combination = std::vector<Mask>;  // a cut of each layer

  StackOracle(const StackSpec& spec, const Observer& observer);

  std::size_t recovery_count() const { return observations_.size(); }
  // The number of the recovery that a combination leads to; -1 if it is no combination of cuts.
  int recovery_of(const Combination& combination) const;
  const Observation& observation(int recovery) const { return observations_[static_cast<std::size_t>(recovery)]; }
  bool has_merged_layers() const { return has_merged_layers_; }
  bool has_fallen_through() const { return has_fallen_through_; }

 private:
  struct Source {
    LowerLocation at;
    int run;
    auto operator<=>(const Source& other) const {
      return std::tie(at.layer, at.location, run) <=> std::tie(other.at.layer, other.at.location, other.run);
    }
    bool operator==(const Source& other) const { return (*this <=> other) == 0; }
  };

  Value value(LowerLocation at, const Combination& combination) const;
  int index_at(LowerLocation at, const Combination& combination) const;
  int start_of_run(LowerLocation at, int index) const;
  std::vector<Source> find_sources(LowerLocation at, const std::vector<std::size_t>& left);
  void split(const Observer::Step& step, const std::vector<std::size_t>& left, const Observation& seen);

  const StackSpec& spec_;
  const Observer& observer_;
  std::vector<LowerLocation> places_;
  std::vector<Oracle> layers_;
  std::vector<Combination> combinations_;
  std::vector<int> recovery_of_;  // of each combination
  std::map<Combination, std::size_t> number_of_;
  std::vector<Observation> observations_;  // of each recovery
  bool has_merged_layers_ = false;
  bool has_fallen_through_ = false;
};

}  // namespace crashcut::persist::oracle
