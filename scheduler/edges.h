// Edges: how what one thread did comes to another, by the rules of POSIX: who acquires at a channel of an object has
// before it all that was released there. Memory is not among these: see HappensBefore.
//
// A channel is a part of an object. Invariant: of two accesses that commute (dependence.h) none acquires what the other
// releases.
#pragma once

#include <cerrno>

#include "scheduler/primitives/barrier.h"
#include "scheduler/primitives/channel.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/once.h"
#include "scheduler/primitives/rwlock.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/signal.h"
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

// What is read comes from who wrote; the end of a pipe from who closed; room from who read.
template <class Visit>
void visit_channel_edges(const Access& access, Visit&& visit) {
  const auto data_of = [](std::int64_t channel) { return static_cast<std::uint32_t>(channel * 4); };
  const auto end_of = [](std::int64_t channel, std::int64_t end) {
    return static_cast<std::uint32_t>(channel * 4 + 1 + end);
  };
  const std::int64_t own = access.expected;
  if (channel::ends_something(access)) {
    if (const std::int64_t ended = channel::ended_handle(access); ended >= 0)
      visit(Edge::kRelease, end_of(ended / 2, ended % 2));
    return;
  }
  if (channel::is_poll(access)) {
    const std::uint64_t polled = channel::channels_of(access);
    for (std::int64_t i = 0; i < channel::kPolledMost; ++i) {
      if ((polled >> i & 1) == 0) continue;
      visit(Edge::kAcquire, data_of(i));
      for (const channel::End end : {channel::kReadEnd, channel::kWriteEnd}) visit(Edge::kAcquire, end_of(i, end));
    }
    return;
  }
  if (!channel::is_transfer(access)) return;
  if (access.verb != channel::kAdd) visit(Edge::kAcquire, data_of(own));
  if (access.verb == channel::kAdd ? access.result == 0 : access.verb != channel::kTake && access.result > 0)
    visit(Edge::kRelease, data_of(own));
  if (access.verb == channel::kWrite) visit(Edge::kAcquire, end_of(own, channel::kReadEnd));
  if (access.verb == channel::kRead && access.result <= 0) visit(Edge::kAcquire, end_of(own, channel::kWriteEnd));
}

// Who takes a signal has heard from who sent it.
template <class Visit>
void visit_signal_edges(const Access& access, Visit&& visit) {
  const auto part_of = [](std::int64_t thread) { return static_cast<std::uint32_t>(thread + 1); };
  if (access.verb == signal::kSend) visit(Edge::kRelease, part_of(access.expected));
  const bool may_take =
      access.verb == signal::kDeliver || access.verb == signal::kSetMask || access.verb == signal::kWait;
  if (may_take && access.result > 0)
    visit(Edge::kAcquire, part_of(signal::takes_from_process(access) ? signal::kAnyThread : access.expected));
  if (access.verb == signal::kReadable && access.result > 0) {
    visit(Edge::kAcquire, part_of(access.expected));
    visit(Edge::kAcquire, part_of(signal::kAnyThread));
  }
  // From the one that brings it to its thread.
  if (access.verb == signal::kInterrupt) visit(Edge::kRelease, 0);
  if (access.is_interruption) visit(Edge::kAcquire, 0);
}

// visit(edge, channel) for each edge of an executed access.
template <class Visit>
void for_each_edge(const Access& access, Visit&& visit) {
  if (access.result == kNotDone) return;
  switch (primitive_of(access.object)) {
    case PrimitiveId::kThread:
      return visit_thread_edges(access, visit);
    case PrimitiveId::kRwLock:
      return visit_rwlock_edges(access, visit);
    case PrimitiveId::kChannel:
      return visit_channel_edges(access, visit);
    case PrimitiveId::kSignal:
      return visit_signal_edges(access, visit);
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
