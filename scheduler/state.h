// State: the synchronisation objects of a program at one moment. It decides which actors can run.
//
// Invariants: (1) an operation that is not enabled is never applied; (2) applying the same steps to the same start
//   gives the same state and the same results. Threads: none of its own.
#pragma once

#include <span>
#include <vector>

#include "scheduler/operation.h"

namespace crashcut::scheduler {

// What is kept of an object. The primitive's file has a name for each of the numbers and lists that it uses.
struct Object {
  std::array<std::int64_t, 4> numbers{};
  std::array<std::vector<std::int64_t>, 2> lists{};
  bool is_destroyed = false;
  bool operator==(const Object&) const = default;
};

class State {
 public:
  State() = default;
  explicit State(std::span<const ObjectStart> starts) {
    for (const ObjectStart& start : starts) declare(start);
  }

  void declare(const ObjectStart& start);
  bool is_enabled(ActorId actor, const Operation& operation) const;
  // The signal that came to the thread that stands before the operation; 0: none (primitives/signal.h).
  std::int64_t signal_before(const Operation& operation) const;
  // Executes it; results are filled in.
  void apply(ActorId actor, Operation& operation);
  void apply(Step& step) { apply(step.actor, step.operation); }

  Object& object(ObjectId id) {
    if (index(id) >= objects_.size()) objects_.resize(index(id) + 1);
    return objects_[index(id)];
  }
  const Object& object(ObjectId id) const {
    static const Object kFresh;
    return index(id) < objects_.size() ? objects_[index(id)] : kFresh;
  }
  std::size_t object_count() const { return objects_.size(); }

  // Whether the actor's host has failed or ended (primitives/host.h): it takes no further step.
  bool is_gone(const Operation& pending) const;
  // Of an actor that has taken a step.
  bool is_gone(ActorId actor) const;
  // The same, for a primitive's apply(): the access that is being executed depends on the failure of that host.
  bool look_if_gone(ActorId actor);
  // Whether the host has ever failed; and the same for a primitive's apply().
  bool has_failed(ObjectId host) const;
  bool look_if_failed(ObjectId host);

  // The process has ended: nothing is enabled any more.
  bool is_over() const { return is_over_; }
  void end() { is_over_ = true; }
  // Steps so far by actors other than this one.
  std::uint64_t steps_of_others(ActorId actor) const {
    return steps_ - (index(actor) < own_steps_.size() ? own_steps_[index(actor)] : 0);
  }

 private:
  // Whether the object was destroyed and the access may not follow that. A thread that waits for it waits no longer.
  bool is_misused(const Access& access) const;
  void count_step(ActorId actor, const Operation& operation);
  // Where an actor runs.
  struct Place {
    ObjectId host = kNoHost;
    std::uint16_t incarnation = 0;
  };
  bool is_gone(const Place& place) const;
  void note_seen(ObjectId host);

  std::vector<Object> objects_;
  std::vector<std::uint64_t> own_steps_;
  std::uint64_t steps_ = 0;
  std::vector<Place> places_;    // an actor that has taken a step; empty if there are no hosts
  std::uint16_t seen_host_ = 0;  // by the access that is being executed
  bool is_over_ = false;
};

}  // namespace crashcut::scheduler
