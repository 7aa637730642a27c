#include "scheduler/happens_before.h"

#include <algorithm>

#include "scheduler/dependence.h"
#include "scheduler/edges.h"
#include "scheduler/primitives/host.h"
#include "scheduler/primitives/memory.h"

namespace crashcut::scheduler {

HappensBefore::Clocks& HappensBefore::clocks_of(ActorId actor) {
  while (actors_.size() <= index(actor)) {
    Clocks clocks;
    clocks.own.assign(actors_.size() + 1, 0);
    clocks.own.back() = 1;
    actors_.push_back(std::move(clocks));
  }
  return actors_[index(actor)];
}

void HappensBefore::join(Clock& into, const Clock& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

bool HappensBefore::is_before(ActorId first, std::uint32_t epoch, ActorId now) {
  const Clock& clock = clocks_of(now).own;
  return index(first) < clock.size() && clock[index(first)] >= epoch;
}

// A thread that is told of a host's end, by a wait or by a lock that it takes over, comes after all that the host did.
void HappensBefore::note_host(const Step& step) {
  if (step.operation.host() != kNoHost) {
    if (hosts_.size() <= index(step.actor)) hosts_.resize(index(step.actor) + 1, kNoHost);
    hosts_[index(step.actor)] = step.operation.host();
  }
  if (const ObjectId ended = host_ended_by(step.operation); ended != kNoHost) {
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i] == ended) release(static_cast<ActorId>(i), channel(ended, kOfDeath));
    }
  }
  for (const Access& access : step.operation) {
    const bool is_wait = primitive_of(access.object) == PrimitiveId::kHost && access.verb == host::kWait;
    if (is_wait) acquire(step.actor, channel(access.object, kOfDeath));
    for (const ObjectId host : hosts_) {
      const bool has_seen = access.seen_host == Access::kAnyHost || access.seen_host == index(host);
      if (host != kNoHost && has_seen && access.seen_host != 0) acquire(step.actor, channel(host, kOfDeath));
    }
  }
}

void HappensBefore::note(const Step& step) {
  if (step.operation.host() != kNoHost || !hosts_.empty()) note_host(step);
  for (const Access& access : step.operation) note(step.actor, access);
  ++clocks_of(step.actor).own[index(step.actor)];
}

void HappensBefore::note(ActorId actor, const Access& access) {
  if (access.result == kNotDone) return;
  if (primitive_of(access.object) == PrimitiveId::kMemory) return note_memory(actor, access);
  for_each_edge(access, [&](Edge edge, std::uint32_t part) {
    edge == Edge::kAcquire ? acquire(actor, channel(access.object, part))
                           : release(actor, channel(access.object, part));
  });
}

// C++20's release sequences: a store begins anew, a read-modify-write goes on.
void HappensBefore::note_memory(ActorId actor, const Access& access) {
  if ((access.order & memory::kPlain) != 0) return;
  Clock& place = channel(access.object, access.offset);
  Clocks& clocks = clocks_of(actor);
  const bool is_same = memory::only_read(access);
  const bool acquires = (access.order & (is_same && access.verb == memory::kCompareExchange ? memory::kAcquireIfSame
                                                                                            : memory::kAcquire)) != 0;
  if (access.verb != memory::kStore) {
    if (acquires) join(clocks.own, place);
    join(clocks.read, place);
  }
  if (is_same) return;
  if (access.verb == memory::kStore) place.clear();
  join(place, (access.order & memory::kRelease) != 0 ? clocks.own : clocks.fenced);
}

void HappensBefore::fence(ActorId actor, bool acquires, bool releases) {
  Clocks& clocks = clocks_of(actor);
  if (acquires) join(clocks.own, clocks.read);
  if (!releases) return;
  clocks.fenced = clocks.own;
  ++clocks.own[index(actor)];
}

}  // namespace crashcut::scheduler
