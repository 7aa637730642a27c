// HappensBefore: what a thread may rely on having happened, by the rules of POSIX and C++. Vector clocks.
//
// Weaker than Order (order.h): a relaxed store is before the load that reads it in every execution of a class, and yet
//   a program may not rely on it. Two accesses to one place, one of them a plain one and one of them a write, without
//   an order here are a data race.
// Invariant: steps that commute (dependence.h) may be swapped without changing this order, so a race shows in every
//   execution of its class. That is why a read-modify-write that changes nothing, which counts as a read there,
//   publishes nothing here.
#pragma once

#include <unordered_map>
#include <vector>

#include "scheduler/operation.h"

namespace crashcut::scheduler {

class HappensBefore {
 public:
  // An executed step.
  void note(const Step& step);
  void fence(ActorId actor, bool acquires, bool releases);
  // The number of the actor's present stretch of code, from its last step to its next.
  std::uint32_t epoch(ActorId actor) { return clocks_of(actor).own[index(actor)]; }
  // Whether what `first` did at `epoch` is before what `now` does now.
  bool is_before(ActorId first, std::uint32_t epoch, ActorId now);

 private:
  using Clock = std::vector<std::uint32_t>;
  struct Clocks {
    Clock own;
    Clock fenced;  // as of its last release fence: what its relaxed stores publish
    Clock read;    // what its relaxed loads would have acquired: for its next acquire fence
  };
  Clocks& clocks_of(ActorId actor);
  Clock& channel(ObjectId object, std::uint64_t part = 0) {
    return channels_[std::uint64_t{static_cast<std::uint32_t>(object)} << 32 | part];
  }
  static void join(Clock& into, const Clock& from);
  void acquire(ActorId actor, const Clock& from) { join(clocks_of(actor).own, from); }
  void release(ActorId actor, Clock& into) { join(into, clocks_of(actor).own); }
  void note(ActorId actor, const Access& access);
  void note_host(const Step& step);
  void note_memory(ActorId actor, const Access& access);

  // What is known of a host that has ended or failed: all that its actors did (primitives/host.h).
  static constexpr std::uint64_t kOfDeath = 0xffff;

  std::vector<Clocks> actors_;
  std::vector<ObjectId> hosts_;  // an actor's; empty if there are no hosts
  std::unordered_map<std::uint64_t, Clock> channels_;
};

}  // namespace crashcut::scheduler
