// Worker: runs recoveries for a pool, one task at a time.
//
// There are two kinds. A SocketWorker (socket_worker.h) is a process of its own that has a Recoverer: one core. A
//   program under test that crashes and recovers inside itself (recovery/inprocess/) is one worker, too, and uses as
//   many cores as it was given.
// Threads: the pool's, which never waits in a worker. Work goes on between begin() and the message that says is_ready.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "recovery/search/front_end.h"
#include "recovery/search/rest.h"

namespace crashcut::search {

// Memory that the pool and its workers share.
struct Shared {
  std::atomic<bool> stop{false};  // also kills the recovery that is running
  std::atomic<std::uint32_t> idle_workers{0};
  std::atomic<std::uint64_t> recoveries{0};
  std::atomic<std::uint64_t> recoveries_max{0};  // of the whole search so far; 0: no bound

  bool is_enough() const { return stop || (recoveries_max > 0 && recoveries >= recoveries_max); }
};

struct Task {
  enum class Kind {
    kExplore,  // all recoveries of `units`
    kSample,   // `count` recoveries by a strategy (sampling.h)
    kTell,     // the recovery of `path`, with its story
    kRunCut,   // the recovery on the cut that holds exactly `events`, less `drop` and all above it
  };
  Kind kind = Kind::kExplore;
  std::size_t question = 0;
  std::vector<Unit> units{};  // at least one; all of this question
  double done_before = 0;     // recoveries of the question that earlier searches ran
  persist::Path path{};
  bool is_brief = false;  // kTell: of operations only how many of their events persisted, and no files
  std::vector<std::uint32_t> events{};
  std::uint32_t drop = 0;
  int strategy = 0;
  std::uint64_t seed = 0, count = 0;  // of samples
};

// What a worker has to say: all that is new.
struct Message {
  Tally tally{};
  double done = 0;                            // recoveries of the units of the task so far
  std::optional<persist::Estimate> size{};    // recoveries of these units, in all
  std::vector<persist::Path> given_away{};    // parts of the units that another worker is to explore,
  persist::Estimate given_size{};             // and the recoveries of each
  bool is_ready = false;                      // the task is over; what follows is of one that is
  std::vector<persist::Part> left{};          // kExplore: what was not explored, as the search was stopped
  bool is_broken = false;                     // kExplore: something else was not explored, and cannot be
  std::optional<NarratedRun> narrated_run{};  // kTell, and kRunCut without the story
};

class Worker {
 public:
  virtual ~Worker() = default;

  virtual void begin(const Task& task) = 0;
  // Readable where there is something to receive.
  virtual int fd() const = 0;
  // Never waits. Call it whenever fd() is readable, and at least every kTick_ms.
  virtual tl::expected<Message, Failure> receive(bool is_readable) = 0;
  // Whether a task may have any number of units.
  virtual bool takes_all_units() const { return false; }

  static constexpr int kTick_ms = 20;
};

}  // namespace crashcut::search
