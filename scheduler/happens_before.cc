#include "scheduler/happens_before.h"

#include <algorithm>

#include "scheduler/primitives/barrier.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/once.h"
#include "scheduler/primitives/rwlock.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/thread.h"

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

void HappensBefore::note(const Step& step) {
  for (const Access& access : step.operation) note(step.actor, access);
  ++clocks_of(step.actor).own[index(step.actor)];
}

void HappensBefore::note(ActorId actor, const Access& access) {
  const ObjectId object = access.object;
  switch (primitive_of(object)) {
    case PrimitiveId::kThread: return note_thread(actor, access);
    case PrimitiveId::kRwLock: return note_rwlock(actor, access);
    case PrimitiveId::kMemory: return note_memory(actor, access);
    case PrimitiveId::kMutex:
      if (access.verb <= mutex::kTimedLock && (access.result == 0 || access.result == EOWNERDEAD)) return acquire(actor, channel(object));
      if ((access.verb == mutex::kUnlock && access.result == 0) || access.verb == mutex::kAbandon) release(actor, channel(object));
      return;
    case PrimitiveId::kSemaphore:
      if (access.verb == semaphore::kPost) return release(actor, channel(object));
      if (semaphore::takes(access)) acquire(actor, channel(object));
      return;
    case PrimitiveId::kBarrier:
      // Who leaves has met those of its own generation.
      if (access.verb == barrier::kArrive) return release(actor, channel(object, static_cast<std::uint32_t>(access.result)));
      if (access.verb == barrier::kLeave) acquire(actor, channel(object, static_cast<std::uint32_t>(access.argument)));
      return;
    case PrimitiveId::kOnce: return access.verb == once::kBegin ? acquire(actor, channel(object)) : release(actor, channel(object));
    // A condition variable orders by its mutex, a futex by the memory that it waits for; timers and yields order nothing.
    default: return;
  }
}

void HappensBefore::note_thread(ActorId actor, const Access& access) {
  switch (access.verb) {
    case thread::kCreate:
    case thread::kExit: return release(actor, channel(access.object));
    case thread::kStart: return acquire(actor, channel(access.object));
    case thread::kDetach: return;
    default:
      if (access.result == 0) acquire(actor, channel(access.object));
  }
}

// What readers leave behind is for writers only.
void HappensBefore::note_rwlock(ActorId actor, const Access& access) {
  constexpr std::uint64_t kOfWriters = 0, kOfReaders = 1;
  const ObjectId lock = access.object;
  if (access.verb == rwlock::kUnlock) {
    release(actor, channel(lock, access.result == rwlock::kWasWriter ? kOfWriters : kOfReaders));
  } else if (access.result == 0 && (rwlock::is_read(access) || rwlock::is_write(access))) {
    acquire(actor, channel(lock, kOfWriters));
    if (rwlock::is_write(access)) acquire(actor, channel(lock, kOfReaders));
  }
}

// C++20's release sequences: a store begins anew, a read-modify-write goes on.
void HappensBefore::note_memory(ActorId actor, const Access& access) {
  if ((access.order & memory::kPlain) != 0) return;
  Clock& place = channel(access.object, access.offset);
  Clocks& clocks = clocks_of(actor);
  const bool is_same = memory::only_read(access);
  const bool acquires = (access.order & (is_same && access.verb == memory::kCompareExchange ? memory::kAcquireIfSame : memory::kAcquire)) != 0;
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
