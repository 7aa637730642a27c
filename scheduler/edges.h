// Edges: how what one thread did comes to another, by the rules of POSIX: who acquires at a channel of an object has
// before it all that was released there. Memory is not among these: see HappensBefore.
//
// A channel is a part of an object. Invariant: of two accesses that commute (dependence.h) none acquires what the other
// releases.
#pragma once

#include <cerrno>

#include "scheduler/primitives/barrier.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/once.h"
#include "scheduler/primitives/rwlock.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/thread.h"

namespace crashcut::scheduler {

enum class Edge { kAcquire, kRelease };

template <class Visit>
void visit_thread_edges(const Access& access, Visit&& visit) {
  switch (access.verb) {
    case thread::kCreate:
    case thread::kExit:
      return visit(Edge::kRelease, 0);
    case thread::kStart:
      return visit(Edge::kAcquire, 0);
    case thread::kDetach:
      return;
    default:
      if (access.result == 0) visit(Edge::kAcquire, 0);
  }
}

// What readers leave behind is for writers only.
template <class Visit>
void visit_rwlock_edges(const Access& access, Visit&& visit) {
  constexpr std::uint32_t kOfWriters = 0, kOfReaders = 1;
  if (access.verb == rwlock::kUnlock) {
    visit(Edge::kRelease, access.result == rwlock::kWasWriter ? kOfWriters : kOfReaders);
  } else if (access.result == 0 && (rwlock::is_read(access) || rwlock::is_write(access))) {
    visit(Edge::kAcquire, kOfWriters);
    if (rwlock::is_write(access)) visit(Edge::kAcquire, kOfReaders);
  }
}

// visit(edge, channel) for each edge of an executed access.
template <class Visit>
void for_each_edge(const Access& access, Visit&& visit) {
  switch (primitive_of(access.object)) {
    case PrimitiveId::kThread:
      return visit_thread_edges(access, visit);
    case PrimitiveId::kRwLock:
      return visit_rwlock_edges(access, visit);
    case PrimitiveId::kMutex:
      if (access.verb <= mutex::kTimedLock && (access.result == 0 || access.result == EOWNERDEAD))
        return visit(Edge::kAcquire, 0);
      if ((access.verb == mutex::kUnlock && access.result == 0) || access.verb == mutex::kAbandon)
        visit(Edge::kRelease, 0);
      return;
    case PrimitiveId::kSemaphore:
      if (access.verb == semaphore::kPost) return visit(Edge::kRelease, 0);
      if (semaphore::takes(access)) visit(Edge::kAcquire, 0);
      return;
    case PrimitiveId::kBarrier:
      // Who leaves has met those of its own generation.
      if (access.verb == barrier::kArrive) return visit(Edge::kRelease, static_cast<std::uint32_t>(access.result));
      if (access.verb == barrier::kLeave) visit(Edge::kAcquire, static_cast<std::uint32_t>(access.argument));
      return;
    case PrimitiveId::kOnce:
      return visit(access.verb == once::kBegin ? Edge::kAcquire : Edge::kRelease, 0);
    // A condition variable orders by its mutex, a futex by the memory that it waits for; timers and yields order
    // nothing.
    default:
      return;
  }
}

}  // namespace crashcut::scheduler
