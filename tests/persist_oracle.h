// The oracle of persist/: every cut of a small log by brute force, and a recovery run on each.
//
// It shares nothing with persist/ but the numbers of events and locations: orders are bitmasks closed by a triple
// loop, a cut is any mask that contains all that lies below its events, a location holds the write in it that no other
// hides.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "persist/log.h"

namespace crashcut::persist::oracle {

using Mask = std::uint32_t;

struct SpecEvent {
  enum Kind { kPlain, kBarrier, kDurable };
  Kind kind = kPlain;
  std::vector<Write> writes;   // none when kDurable
  std::vector<EventId> after;  // everything earlier when kDurable
};

// A log as its author would state it.
struct Spec {
  std::vector<Value> initial;
  std::vector<SpecEvent> events;

  void record_in(Log& log) const;
  std::string to_text() const;
};

inline constexpr std::size_t kEventsMax = 12;

Spec random_spec(std::mt19937_64& random);

// A recovery whose every step hangs on all that it has read so far; it may read a location again.
struct Observer {
  std::uint64_t seed;
  std::uint32_t locations;
  std::uint32_t reads_max;

  // Calls read(location) -> Value until it has seen enough.
  template <class Read>
  void run(Read&& read) const {
    std::uint64_t state = mix(seed);
    for (std::uint32_t i = 0; i < reads_max && state % 32 != 0; ++i) {
      const auto location = static_cast<LocationId>((state >> 8) % locations);
      state = mix(state ^ (location * 1000 + read(location) + 1));
    }
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

  // Whether the write number `index` of `location` persists after the one before it by an edge or by a barrier.
  bool chained(LocationId location, std::size_t index) const { return histories_[location][index].chained; }
  std::size_t write_count(LocationId location) const { return histories_[location].size(); }

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
  bool persists_before_plainly(EventId earlier, EventId later) const;
  const Entry* latest(LocationId location, Mask cut) const;

  Spec spec_;
  std::vector<Mask> below_;  // of each event, itself included
  Mask durable_ = 0;
  std::vector<std::vector<Entry>> histories_;
  std::vector<Mask> cuts_;
};

}  // namespace crashcut::persist::oracle
