// Locks and other things that threads wait for.
#include <cerrno>

#include "scheduler/primitives/barrier.h"
#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/condition.h"
#include "scheduler/primitives/futex.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/once.h"
#include "scheduler/primitives/rwlock.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/primitives/stir.h"
#include "scheduler/primitives/thread.h"
#include "scheduler/primitives/timer.h"
#include "scheduler/primitives/two_writers.h"
#include "tests/random_scripts.h"

namespace crashcut::tests {

using namespace scheduler;

void RandomScripts::arm(Script& script, std::uint32_t what) {
  has_timer_ = is_timed_[what] = true;
  script.push_back(does(timer::access(id(PrimitiveId::kTimer, self_), timer::kArm, what)));
}

Access RandomScripts::own_cancellation(cancellation::Verb verb) {
  is_cancellable_ = true;
  return cancellation::access(id(PrimitiveId::kCancellation, self_), verb);
}

void RandomScripts::enter(Script& script, std::size_t steps) {
  script.push_back(does(own_cancellation(cancellation::kEnter)));
  script.push_back(skip_if(ECANCELED, steps));
}

void RandomScripts::add_futex(Script& script) {
  const ObjectId f = any(PrimitiveId::kFutex);
  const std::uint32_t what = pick(3);
  if (what == 0) return script.push_back(does(futex::access(f, futex::kWake, 1 + pick(2))));
  const bool is_timed = what == 1 && !has_timer_ && (families_ & kTimers) != 0 && (families_ & kPassing) == 0;
  if (is_timed) arm(script, 0);
  Access wait = futex::access(f, futex::kWait);
  wait.observed = 1;
  script.push_back(does(wait));
  if (!is_timed) return script.push_back(does(futex::access(f, futex::kWakeUp)));
  script.push_back(does(Operation(futex::access(f, futex::kTimedWakeUp)).add(take())));
}

void RandomScripts::add_robust(Script& script) {
  const ObjectId m = any(PrimitiveId::kMutex);
  const bool tries = pick(3) == 0;
  if (tries)
    script.push_back(does(mutex::access(m, mutex::kTryLock)));
  else
    add_lock(script, m);
  const bool mends = pick(2) == 0;
  script.push_back(skip_if(ENOTRECOVERABLE, mends ? 3 : 2));
  script.push_back(skip_if(EBUSY, mends ? 2 : 1));
  if (mends) script.push_back(does(mutex::access(m, mutex::kConsistent)));
  script.push_back(does(mutex::access(m, pick(3) == 0 ? mutex::kAbandon : mutex::kUnlock)));
}

void RandomScripts::add_destroy(Script& script) {
  switch (pick(5)) {
    case 0:
      return script.push_back(does(mutex::access(any(PrimitiveId::kMutex), mutex::kDestroy)));
    case 1:
      return script.push_back(does(semaphore::access(any(PrimitiveId::kSemaphore), semaphore::kDestroy)));
    case 2:
      return script.push_back(does(condition::access(any(PrimitiveId::kCondition), condition::kDestroy)));
    case 3:
      return script.push_back(does(barrier::access(any(PrimitiveId::kBarrier), barrier::kDestroy)));
    default:
      return script.push_back(does(rwlock::access(any(PrimitiveId::kRwLock), rwlock::kDestroy)));
  }
}

void RandomScripts::add_join(Script& script) {
  const ObjectId other = id(PrimitiveId::kThread, (self_ + 1 + pick(static_cast<std::uint32_t>(actor_count_) - 1)) %
                                                      static_cast<std::uint32_t>(actor_count_));
  switch (pick(5)) {
    case 0:
      return script.push_back(does(thread::access(other, thread::kDetach)));
    case 1:
      return script.push_back(does(thread::access(other, thread::kTryJoin)));
    case 2:
      return script.push_back(does(thread::access(other, thread::kJoin)));
    case 3:
      enter(script, 1);
      return script.push_back(does(thread::access(other, thread::kJoin).add(own_cancellation(cancellation::kLeave))));
    default:
      if (has_timer_ || (families_ & kPassing) != 0)
        return script.push_back(does(thread::access(other, thread::kTryJoin)));
      arm(script, 0);
      return script.push_back(does(thread::access(other, thread::kTimedJoin).add(take())));
  }
}

void RandomScripts::get_in_line(Script& script, ObjectId mutex) {
  const std::int64_t policy = policy_[mutex == id(PrimitiveId::kMutex, 0) ? 0 : 1];
  if (policy != kArbitrary) script.push_back(does(mutex::enqueue(mutex, static_cast<Policy>(policy))));
}

void RandomScripts::add_lock(Script& script, ObjectId mutex) {
  get_in_line(script, mutex);
  script.push_back(does(mutex::access(mutex, mutex::kLock)));
}

void RandomScripts::add_mutex(Script& script) {
  const ObjectId m = any(PrimitiveId::kMutex);
  add_lock(script, m);
  if (nesting_ < 2 && pick(6) == 0)
    add_nested(script);
  else if (pick(2) == 0)
    add_inner(script);
  if (pick(8) != 0) script.push_back(does(mutex::access(m, mutex::kUnlock)));
}

void RandomScripts::add_nested(Script& script) {
  ++nesting_;
  add(script);
  --nesting_;
}

void RandomScripts::add_inner(Script& script) {
  if ((families_ & kVariables) != 0 && pick(2) == 0) return add_variable(script);
  if ((families_ & kSemaphores) != 0 && pick(2) == 0) return add_semaphore(script);
  const ObjectId m = any(PrimitiveId::kMutex);
  add_lock(script, m);
  script.push_back(does(mutex::access(m, mutex::kUnlock)));
}

void RandomScripts::add_semaphore(Script& script) {
  const std::uint32_t i = pick(2);
  const ObjectId s = id(PrimitiveId::kSemaphore, i);
  if (pick(2) == 0) return script.push_back(does(semaphore::access(s, semaphore::kPost)));
  // Where there are signals, it may fail by EINTR.
  const bool may_fail = (families_ & kSignals) != 0 && pick(2) == 0;
  if (may_fail) return script.push_back(does_or_fails(semaphore::access(s, semaphore::kWait)));
  if (policy_[i] == kArbitrary) return script.push_back(does(semaphore::access(s, semaphore::kWait)));
  script.push_back(does(semaphore::access(s, semaphore::kEnqueue)));
  script.push_back(does(semaphore::access(s, semaphore::kTakeTurn)));
}

void RandomScripts::add_condition(Script& script) {
  const std::uint32_t i = pick(2);
  const ObjectId c = id(PrimitiveId::kCondition, i);
  const ObjectId m = id(PrimitiveId::kMutex, 0);
  const std::uint32_t what = pick(3);
  if (what == 0)
    return script.push_back(does(condition::access(c, pick(2) == 0 ? condition::kSignal : condition::kBroadcast)));
  add_lock(script, m);
  if (what == 1) {
    add_wait(script, i, false);
  } else {
    script.push_back(does(condition::access(c, condition::kSignal)));
  }
  script.push_back(does(mutex::access(m, mutex::kUnlock)));
}

void RandomScripts::add_wait(Script& script, std::uint32_t number, bool is_timed) {
  const ObjectId c = id(PrimitiveId::kCondition, number), m = id(PrimitiveId::kMutex, 0),
                 s = id(PrimitiveId::kStir, self_);
  if (is_timed) arm(script, 1 + number);
  Operation enqueue(condition::enqueue(c, static_cast<ActorId>(self_)));
  enqueue.add(mutex::access(m, mutex::kUnlock));
  if (pick(4) == 0) {
    is_stirred_ = true;
    script.push_back(does(stir::access(s, stir::kOffer)));
    enqueue.add(stir::access(s, stir::kHeed));
  }
  script.push_back(does(enqueue));
  Operation wake(condition::access(c, condition::kWake));
  if (is_timed) wake.add(take());
  if (policy_[0] == kArbitrary) return script.push_back(does(wake.add(mutex::access(m, mutex::kLock))));
  script.push_back(does(wake));
  add_lock(script, m);
}

void RandomScripts::add_cancellation(Script& script) {
  const std::uint32_t i = pick(2);
  switch (pick(5)) {
    case 0:
      return script.push_back(does(cancellation::access(
          id(PrimitiveId::kCancellation, pick(static_cast<std::uint32_t>(actor_count_))), cancellation::kRequest)));
    case 1:
      return script.push_back(does(own_cancellation(cancellation::kHeed)));
    case 2: {
      const ObjectId s = id(PrimitiveId::kSemaphore, i);
      enter(script, policy_[i] == kArbitrary ? 1 : 2);
      if (policy_[i] != kArbitrary) script.push_back(does(semaphore::access(s, semaphore::kEnqueue)));
      return script.push_back(
          does(Operation(semaphore::access(s, policy_[i] == kArbitrary ? semaphore::kWait : semaphore::kTakeTurn))
                   .add(own_cancellation(cancellation::kLeave))));
    }
    case 3:
      return script.push_back(does(condition::access(id(PrimitiveId::kCondition, i),
                                                     pick(4) == 0 ? condition::kBroadcast : condition::kSignal)));
    default: {
      const ObjectId c = id(PrimitiveId::kCondition, i), m = id(PrimitiveId::kMutex, 0);
      add_lock(script, m);
      const bool is_timed = !has_timer_ && (families_ & kTimers) != 0 && pick(2) == 0;
      if (is_timed) arm(script, 1 + i);
      script.push_back(does(Operation(condition::enqueue(c, static_cast<ActorId>(self_)))
                                .add(mutex::access(m, mutex::kUnlock))
                                .add(own_cancellation(cancellation::kEnter))));
      Operation wake(condition::access(c, condition::kWake));
      if (is_timed) wake.add(take());
      script.push_back(does(wake.add(own_cancellation(cancellation::kLeave))));
      add_lock(script, m);
      script.push_back(does(mutex::access(m, mutex::kUnlock)));
    }
  }
}

void RandomScripts::add_rwlock(Script& script) {
  const std::uint32_t i = pick(2);
  const ObjectId l = id(PrimitiveId::kRwLock, i);
  const bool writes = pick(2) == 0;
  const bool is_in_line = preference_[i] >= rwlock::kInLine;
  if (is_in_line || preference_[i] == (writes ? rwlock::kWriters : rwlock::kReaders))
    script.push_back(does(rwlock::access(l, rwlock::kArrive)));
  script.push_back(does(rwlock::access(l, writes ? rwlock::kWrite : rwlock::kRead, is_in_line)));
  add_within(script);
  if (pick(8) != 0) script.push_back(does(rwlock::access(l, rwlock::kUnlock)));
}

void RandomScripts::add_within(Script& script) {
  if (nesting_ < 2 && pick(6) == 0) return add_nested(script);
  if ((families_ & kSemaphores) != 0 && pick(2) == 0)
    add_semaphore(script);
  else if ((families_ & kVariables) != 0 && pick(3) == 0)
    add_variable(script);
}

void RandomScripts::add_two_writers(Script& script) {
  const ObjectId l = any(PrimitiveId::kTwoWriters);
  const auto verb = static_cast<two_writers::Verb>(pick(3));
  script.push_back(does(two_writers::access(l, verb)));
  add_within(script);
  script.push_back(
      does(two_writers::access(l, verb == two_writers::kRead ? two_writers::kReadDone : two_writers::kWriteDone)));
}

void RandomScripts::add_once(Script& script) {
  const ObjectId o = any(PrimitiveId::kOnce);
  script.push_back(does(once::access(o, once::kBegin)));
  script.push_back(skip_if(once::kIsDone, 1));
  script.push_back(does(once::access(o, pick(4) == 0 ? once::kGiveUp : once::kEnd)));
}

void RandomScripts::add_try(Script& script) {
  switch (pick(4)) {
    case 0: {
      const ObjectId m = any(PrimitiveId::kMutex);
      script.push_back(does(mutex::access(m, mutex::kTryLock)));
      script.push_back(skip_if(EBUSY, 1));
      script.push_back(does(mutex::access(m, mutex::kUnlock)));
      return;
    }
    case 1:
      return script.push_back(does(semaphore::access(any(PrimitiveId::kSemaphore), semaphore::kTryWait)));
    case 2:
      return script.push_back(does(semaphore::access(any(PrimitiveId::kSemaphore), semaphore::kGetValue)));
    default: {
      const ObjectId l = any(PrimitiveId::kRwLock);
      script.push_back(does(rwlock::access(l, pick(2) == 0 ? rwlock::kTryRead : rwlock::kTryWrite)));
      script.push_back(skip_if(EBUSY, 1));
      script.push_back(does(rwlock::access(l, rwlock::kUnlock)));
    }
  }
}

void RandomScripts::add_timed(Script& script) {
  if (has_timer_) return add_variable(script);
  if ((families_ & kConditions) != 0 && pick(2) == 0) return add_timed_wait(script);
  arm(script, 0);
  if (pick(2) == 0) {
    const ObjectId m = any(PrimitiveId::kMutex);
    get_in_line(script, m);
    script.push_back(does(Operation(mutex::access(m, mutex::kTimedLock)).add(take())));
    script.push_back(skip_if(ETIMEDOUT, 1));
    script.push_back(does(mutex::access(m, mutex::kUnlock)));
  } else {
    script.push_back(
        does(Operation(semaphore::access(any(PrimitiveId::kSemaphore), semaphore::kTimedWait)).add(take())));
  }
}

void RandomScripts::add_timed_wait(Script& script) {
  const ObjectId m = id(PrimitiveId::kMutex, 0);
  add_lock(script, m);
  add_wait(script, pick(2), true);
  script.push_back(does(mutex::access(m, mutex::kUnlock)));
}

void RandomScripts::add_passing(Script& script) {
  const ObjectId s = id(PrimitiveId::kSpin, self_);
  const std::uint32_t what = pick(6);
  if (what < 2) {
    if (pick(3) == 0) script.push_back(sleeps(spin::access(s, spin::kYield)));
    if (pick(2) == 0) script.push_back(sleeps(spin::access(s, spin::kSpin)));
    return script.push_back(sleeps(spin::access(s, spin::kSpin)));
  }
  if (what == 3) return add_timed_wait(script);
  arm(script, 0);
  switch (what) {
    case 2: {
      const ObjectId m = any(PrimitiveId::kMutex);
      script.push_back(does(Operation(mutex::access(m, mutex::kTimedLock)).add(take())));
      script.push_back(skip_if(ETIMEDOUT, 1));
      return script.push_back(does(mutex::access(m, mutex::kUnlock)));
    }
    default:
      script.push_back(
          does(Operation(semaphore::access(any(PrimitiveId::kSemaphore), semaphore::kTimedWait)).add(take())));
      script.push_back(skip_if(0, 1));
      return script.push_back(does(semaphore::access(any(PrimitiveId::kSemaphore), semaphore::kPost)));
  }
}

}  // namespace crashcut::tests
