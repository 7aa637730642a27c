// LogDigest: an execution's recording as far as recoveries can tell recordings apart.
//
// A recovery sees a recording through the locations that it looks at, the values that each had in turn, and which of
//   these writes persist before which others. Recordings that agree in that, for all that the recoveries of one of
//   them looked at, have the same recoveries: by induction, the next thing that a recovery looks at is the same, and
//   so is what it can find there. So the recoveries of the second need not be run. Neither where the second has the
//   same values and more order: whatever it can leave, the first can leave too. Two creates and two writes in
//   different files come to that: the journal has an order for every two of them, and the fewest where each thread
//   runs alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace crashcut::recovery {

class LogDigest {
 public:
  // Words as recovery/inprocess/digest.h has them; nothing where they make no sense.
  static std::optional<LogDigest> read(std::span<const std::uint64_t> words);

  // What is left of it for a reader that looks at nothing but `names` (sorted).
  struct Projection {
    // Of locations, values and which event wrote them: the same where these are the same, but for two hashes of 64
    // bits.
    std::pair<std::uint64_t, std::uint64_t> history;
    std::vector<std::uint64_t> order;  // bits: which of the events are durable, which come before which
  };
  Projection project(std::span<const std::uint64_t> names) const;
  std::size_t event_count() const { return events_.size(); }

 private:
  struct Event {
    bool is_durable;
    std::vector<std::uint32_t> before;  // barriers among them
  };
  struct Write {
    std::uint32_t event;
    std::uint64_t value;
  };
  struct Location {
    std::uint64_t name, listing;
    std::vector<Write> history;
  };
  std::vector<Event> events_;
  std::vector<Location> locations_;  // by name
};

// The recordings whose recoveries were run.
class SeenLogs {
 public:
  // Whether the recoveries of this one would do the same as those of one before it, or as some of them.
  bool has(const LogDigest& log) const;
  // Its recoveries were run, all of them, and looked at `names`.
  void add(const LogDigest& log, std::vector<std::uint64_t> names);

 private:
  struct View {
    std::vector<std::uint64_t> names;
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<std::vector<std::uint64_t>>> orders;  // by history
  };
  std::vector<View> views_;
};

}  // namespace crashcut::recovery
