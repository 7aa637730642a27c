// Rounds: finds actors that loop through operations without getting anywhere new, such as a thread that polls under a
// mutex, or two threads that try for each other's lock and give way (std::lock).
//
// An actor has come round if its own state is one that it had before (the caller provides it; the actor has written
//   nothing since that others could read) and if all that it can know of, the steps in its past (order.h), led to the
//   same objects and the same states of other actors. Then it can do nothing that it could not do before. Since only
//   the past counts, all executions of a class agree on which actors have come round.
// An actor that has come round rests: it goes on only if no other actor can (passing_time.h), and not even then if
//   nothing has changed since its last rest ended. This leaves out executions that go round once more before they do
//   something that could be done at once. Every reachable state is reached without that
//   (tests/scheduler_rounds_test.cc compares with all states). Threads: none of its own.
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
  // Before a step is taken from the state `before`, and after it was taken.
  void note_before(const State& before, const Operation& operation);
  void note(const Step& step);

  enum class Standing {
    kNew,    // a new state of its own, or one in which it wrote so often that it is not worth a look
    kSeen,   // a state that it had before; something else may be new
    kAgain,  // it has come round
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
