// Rounds: actors that go round in a loop of operations and come to nothing new, as one does that polls under a mutex,
// or two that try for each other's lock and give way (std::lock).
//
// An actor has come round where it stands as it stood before (its own state, told by the caller; nothing written
//   that others could read), and all that it can know of, the steps in its past (order.h), led to the same: the same
//   objects, the others as they were. From there everything can happen again, and nothing else can. Since only the
//   past is looked at, executions of one class agree on who has come round.
// Who has come round rests: it goes on where nobody else can (passing_time.h), and if all has stayed as it was when
//   it last did so, not even then. What is lost are executions that go round once more before they do what can be done
//   at once:
//   any state that can be reached can be reached without going round. (tests/scheduler_rounds_test.cc compares with
// all states.) Threads: none of its own.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "scheduler/order.h"
#include "scheduler/state.h"

namespace crashcut::scheduler {

class Rounds {
 public:
  // A step that is about to be taken from `before`, and has been.
  void note_before(const State& before, const Operation& operation);
  void note(const Step& step);

  enum class Standing {
    kNew,    // it never stood so, or wrote so often when it had that it is not worth a look
    kSeen,   // it did, and something may be new
    kAgain,  // nothing is
  };
  // The actor stands before its next operation; `local` tells its own states apart. `written` is the same as before
  // only if it has written nothing since that others could read.
  Standing stand(ActorId actor, std::uint64_t local, std::uint64_t written, std::span<const ObjectStart> objects,
                 std::span<const Step> steps);

  // Of the whole: objects, and actors as far as they are known here.
  std::uint64_t fingerprint(const State& now) const;

 private:
  struct Visit {
    std::uint64_t progress;  // of the actor
    std::uint64_t written;
    std::size_t own_steps;             // that it had taken when it first stood so since something was written
    std::uint32_t count = 1;           // of all
    std::vector<std::uint64_t> views;  // what it knew of, at each since something was written
  };
  struct Way {
    std::vector<std::uint64_t>
        progress;  // after each step: a hash of its past, but for rounds in which nothing was written
    std::unordered_map<std::uint64_t, Visit> visits;  // by local state
  };
  Way& way_of(ActorId actor);
  // What the actor knows of after the step `last` of its own.
  std::uint64_t view(std::size_t last, const Order& order, std::span<const ObjectStart> objects,
                     std::span<const Step> steps) const;

  std::vector<Way> ways_;
  std::uint64_t found_ = 0;  // in memory, by the step that is being taken
};

}  // namespace crashcut::scheduler
