// Mutexes, spin locks, reader-writer locks. POSIX and C11.
#include <errno.h>
#include <pthread.h>
#include <threads.h>

#include <cstring>

#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/rwlock.h"
#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/loops.h"
#include "scheduler/runtime/mutex_objects.h"
#include "scheduler/runtime/persistent_locks.h"
#include "scheduler/runtime/regions.h"

namespace crashcut::scheduler::runtime {

namespace {

constexpr int kRobustBit = 16;  // in libc's mutex kind

std::int64_t kind_of(int libc_kind) {
  const int type = libc_kind & 3;
  const std::int64_t kind = type == PTHREAD_MUTEX_RECURSIVE    ? mutex::kRecursive
                            : type == PTHREAD_MUTEX_ERRORCHECK ? mutex::kErrorCheck
                                                               : mutex::kNormal;
  return kind + ((libc_kind & kRobustBit) != 0 ? std::int64_t{mutex::kRobust} : 0) +
         policy_of(PrimitiveId::kMutex) * mutex::kPolicy;
}

// Before a lock that may wait. Who holds the mutex already has its answer without a line.
void get_in_line(ObjectId mutex, const void* caller) {
  const auto policy = static_cast<Policy>(policy_of(PrimitiveId::kMutex));
  if (policy != kArbitrary && !mutex::answers_owner(object_of(mutex), current_actor().id))
    perform(mutex::enqueue(mutex, policy), caller);
}

int lock(pthread_mutex_t* m, mutex::Verb verb, const void* caller) {
  if (!is_scheduling()) return 0;
  const ObjectId id = mutex_object(m);
  if (verb == mutex::kLock && takes_early(id, caller)) return 0;
  if (verb == mutex::kLock) return static_cast<int>(wait_for_mutex(id, caller));
  if (verb == mutex::kUnlock) note_early_unlock(id);
  return static_cast<int>(as_told(id, perform(mutex::access(id, verb), caller)));
}

int timed_lock(pthread_mutex_t* m, const timespec* until, const void* caller) {
  if (!is_scheduling()) return 0;
  const ObjectId id = mutex_object(m);
  // The time is looked at where there is something to wait for.
  if (!is_time(until)) {
    const std::int64_t result = mutex::answers_owner(object_of(id), current_actor().id)
                                    ? perform(mutex::access(id, mutex::kLock), caller)
                                    : perform(mutex::access(id, mutex::kTryLock), caller);
    return result == EBUSY ? EINVAL : static_cast<int>(result);
  }
  arm_timer(caller);
  get_in_line(id, caller);
  return static_cast<int>(as_told(
      id, timed_out_at(until, perform(Operation(mutex::access(id, mutex::kTimedLock)).add(take_timer()), caller))));
}

// Bytes of libc's own that nobody uses, as its functions are not called.
std::uint32_t& stamp_of(pthread_mutex_t* m) { return own_view(m)->__data.__nusers; }

int init(pthread_mutex_t* m, int libc_kind) {
  std::memset(own_view(m), 0, sizeof *m);
  own_view(m)->__data.__kind = libc_kind;
  if (is_scheduling()) stamped_object_at(PrimitiveId::kMutex, m, {{}, kind_of(libc_kind)}, stamp_of(m), true);
  return 0;
}

// --- reader-writer locks
constexpr int kPreferWriters = PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP;

ObjectId rwlock_object(pthread_rwlock_t* l, bool is_initialised = false) {
  const std::int64_t chosen = policy_of(PrimitiveId::kRwLock);
  const bool asks_for_writers = static_cast<int>(own_view(l)->__data.__flags) == kPreferWriters;
  return stamped_object_at(PrimitiveId::kRwLock, l,
                           {{},
                            chosen != 0        ? chosen
                            : asks_for_writers ? std::int64_t{rwlock::kWriters}
                                               : std::int64_t{rwlock::kNone}},
                           own_view(l)->__data.__pad4, is_initialised);
}

int take(pthread_rwlock_t* l, rwlock::Verb verb, const timespec* until, const void* caller) {
  if (!is_scheduling()) return 0;
  if (!is_time(until)) return EINVAL;
  const ObjectId id = rwlock_object(l);
  const std::int64_t preference = rwlock::preference(object_of(id));
  const bool is_try = rwlock::is_try(rwlock::access(id, verb));
  const bool is_in_line = !is_try && (preference == rwlock::kInLine || preference == rwlock::kLastFirst);
  const Access access = rwlock::access(id, verb, is_in_line);
  const bool is_preferred = preference == (rwlock::is_write(access) ? rwlock::kWriters : rwlock::kReaders);
  if (is_in_line || (is_preferred && !is_try)) perform(rwlock::access(id, rwlock::kArrive), caller);
  if (until == nullptr) return static_cast<int>(perform(access, caller));
  arm_timer(caller);
  return static_cast<int>(timed_out_at(until, perform(Operation(access).add(take_timer()), caller)));
}

int c11(int error) {
  return error == 0 ? thrd_success : error == EBUSY ? thrd_busy : error == ETIMEDOUT ? thrd_timedout : thrd_error;
}

}  // namespace

std::int64_t as_told(ObjectId mutex, std::int64_t result) {
  return result == EOWNERDEAD && (mutex::kind(object_of(mutex)) & mutex::kRobust) == 0 ? 0 : result;
}

std::int64_t wait_for_mutex(ObjectId mutex, const void* caller) {
  get_in_line(mutex, caller);
  return as_told(mutex, perform(mutex::access(mutex, mutex::kLock), caller));
}

bool has_owner_died(const pthread_mutex_t* m) {
  const Object& mutex = object_of(mutex_object(m));
  return mutex::health(mutex) == mutex::kOwnerDied && mutex::owner(mutex) == mutex::number_of(current_actor().id);
}

ObjectId mutex_object(const pthread_mutex_t* m) {
  return stamped_object_at(PrimitiveId::kMutex, m, {{}, kind_of(own_view(m)->__data.__kind)},
                           stamp_of(const_cast<pthread_mutex_t*>(m)));
}

}  // namespace crashcut::scheduler::runtime

using namespace crashcut::scheduler;
using namespace crashcut::scheduler::runtime;

EXPORT_ON_OBJECT(int, pthread_mutex_init)(pthread_mutex_t* m, const pthread_mutexattr_t* attributes) {
  int type = PTHREAD_MUTEX_DEFAULT, robust = PTHREAD_MUTEX_STALLED;
  if (attributes != nullptr) {
    pthread_mutexattr_gettype(attributes, &type);
    pthread_mutexattr_getrobust(attributes, &robust);
  }
  return init(m, type | (robust == PTHREAD_MUTEX_ROBUST ? kRobustBit : 0));
}
EXPORT_ON_OBJECT_NOTING_REGISTERS(int, pthread_mutex_lock)(pthread_mutex_t* m) { return lock(m, mutex::kLock, CALLER); }
EXPORT_ON_OBJECT_NOTING_REGISTERS(int, pthread_mutex_trylock)(pthread_mutex_t* m) {
  return lock(m, mutex::kTryLock, CALLER);
}
EXPORT_ON_OBJECT(int, pthread_mutex_unlock)(pthread_mutex_t* m) { return lock(m, mutex::kUnlock, CALLER); }
EXPORT_ON_OBJECT(int, pthread_mutex_destroy)(pthread_mutex_t* m) { return lock(m, mutex::kDestroy, CALLER); }
EXPORT_ON_OBJECT(int, pthread_mutex_consistent)(pthread_mutex_t* m) { return lock(m, mutex::kConsistent, CALLER); }
EXPORT_ON_OBJECT(int, pthread_mutex_timedlock)(pthread_mutex_t* m, const struct timespec* until) {
  return timed_lock(m, until, CALLER);
}
EXPORT_ON_OBJECT(int, pthread_mutex_clocklock)(pthread_mutex_t* m, clockid_t, const struct timespec* until) {
  return timed_lock(m, until, CALLER);
}

// A spin lock is a mutex that wastes time while it waits.
static int do_spin(pthread_spinlock_t* s, mutex::Verb verb, bool is_initialised, const void* caller) {
  if (!is_scheduling()) return 0;
  const ObjectId id = object_at(PrimitiveId::kMutex, const_cast<const int*>(s), {{}, mutex::kNormal}, is_initialised);
  return is_initialised ? 0 : static_cast<int>(perform(mutex::access(id, verb), caller));
}
EXPORT_ON_OBJECT(int, pthread_spin_init)(pthread_spinlock_t* s, int) {
  return *own_view(s) = 1, do_spin(s, mutex::kLock, true, CALLER);
}
EXPORT_ON_OBJECT_NOTING_REGISTERS(int, pthread_spin_lock)(pthread_spinlock_t* s) {
  return do_spin(s, mutex::kLock, false, CALLER);
}
EXPORT_ON_OBJECT_NOTING_REGISTERS(int, pthread_spin_trylock)(pthread_spinlock_t* s) {
  return do_spin(s, mutex::kTryLock, false, CALLER);
}
EXPORT_ON_OBJECT(int, pthread_spin_unlock)(pthread_spinlock_t* s) { return do_spin(s, mutex::kUnlock, false, CALLER); }
EXPORT_ON_OBJECT(int, pthread_spin_destroy)(pthread_spinlock_t* s) {
  return do_spin(s, mutex::kDestroy, false, CALLER);
}

EXPORT_ON_OBJECT(int, pthread_rwlock_init)(pthread_rwlock_t* l, const pthread_rwlockattr_t* attributes) {
  int preference = 0;
  if (attributes != nullptr) pthread_rwlockattr_getkind_np(attributes, &preference);
  std::memset(own_view(l), 0, sizeof *l);
  own_view(l)->__data.__flags = static_cast<unsigned>(preference);
  if (is_scheduling()) rwlock_object(l, true);
  return 0;
}
EXPORT_ON_OBJECT_NOTING_REGISTERS(int, pthread_rwlock_rdlock)(pthread_rwlock_t* l) {
  return take(l, rwlock::kRead, nullptr, CALLER);
}
EXPORT_ON_OBJECT_NOTING_REGISTERS(int, pthread_rwlock_wrlock)(pthread_rwlock_t* l) {
  return take(l, rwlock::kWrite, nullptr, CALLER);
}
EXPORT_ON_OBJECT_NOTING_REGISTERS(int, pthread_rwlock_tryrdlock)(pthread_rwlock_t* l) {
  return take(l, rwlock::kTryRead, nullptr, CALLER);
}
EXPORT_ON_OBJECT_NOTING_REGISTERS(int, pthread_rwlock_trywrlock)(pthread_rwlock_t* l) {
  return take(l, rwlock::kTryWrite, nullptr, CALLER);
}
EXPORT_ON_OBJECT(int, pthread_rwlock_timedrdlock)(pthread_rwlock_t* l, const struct timespec* until) {
  return take(l, rwlock::kTimedRead, until, CALLER);
}
EXPORT_ON_OBJECT(int, pthread_rwlock_timedwrlock)(pthread_rwlock_t* l, const struct timespec* until) {
  return take(l, rwlock::kTimedWrite, until, CALLER);
}
EXPORT_ON_OBJECT(int, pthread_rwlock_clockrdlock)(pthread_rwlock_t* l, clockid_t, const struct timespec* until) {
  return take(l, rwlock::kTimedRead, until, CALLER);
}
EXPORT_ON_OBJECT(int, pthread_rwlock_clockwrlock)(pthread_rwlock_t* l, clockid_t, const struct timespec* until) {
  return take(l, rwlock::kTimedWrite, until, CALLER);
}
EXPORT_ON_OBJECT(int, pthread_rwlock_unlock)(pthread_rwlock_t* l) {
  if (is_scheduling()) perform(rwlock::access(rwlock_object(l), rwlock::kUnlock), CALLER);
  return 0;
}
EXPORT_ON_OBJECT(int, pthread_rwlock_destroy)(pthread_rwlock_t* l) {
  return is_scheduling() ? static_cast<int>(perform(rwlock::access(rwlock_object(l), rwlock::kDestroy), CALLER)) : 0;
}

static pthread_mutex_t* of(mtx_t* m) { return reinterpret_cast<pthread_mutex_t*>(m); }
EXPORT_ON_OBJECT(int, mtx_init)(mtx_t* m, int type) {
  return c11(init(of(m), (type & mtx_recursive) != 0 ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL));
}
EXPORT_ON_OBJECT_NOTING_REGISTERS(int, mtx_lock)(mtx_t* m) { return c11(lock(of(m), mutex::kLock, CALLER)); }
EXPORT_ON_OBJECT_NOTING_REGISTERS(int, mtx_trylock)(mtx_t* m) { return c11(lock(of(m), mutex::kTryLock, CALLER)); }
EXPORT_ON_OBJECT(int, mtx_timedlock)(mtx_t* m, const struct timespec* until) {
  return c11(timed_lock(of(m), until, CALLER));
}
EXPORT_ON_OBJECT(int, mtx_unlock)(mtx_t* m) { return c11(lock(of(m), mutex::kUnlock, CALLER)); }
EXPORT_ON_OBJECT(void, mtx_destroy)(mtx_t* m) { lock(of(m), mutex::kDestroy, CALLER); }
