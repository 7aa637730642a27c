// Condition variables, semaphores, barriers, futexes. POSIX, C11 and Linux.
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <threads.h>

#include <cstdarg>
#include <cstring>

#include "include/crashcut.h"
#include "scheduler/primitives/barrier.h"
#include "scheduler/primitives/condition.h"
#include "scheduler/primitives/futex.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/loops.h"
#include "scheduler/runtime/meetings.h"
#include "scheduler/runtime/mutex_objects.h"
#include "scheduler/runtime/persistent_locks.h"
#include "scheduler/runtime/regions.h"
#include "scheduler/runtime/signal_calls.h"

namespace crashcut::scheduler::runtime {

namespace {

// --- condition variables
ObjectId condition_object(const void* c, bool is_initialised = false) {
  // The last four bytes of libc's, unused as its functions are not called.
  auto& stamp = *reinterpret_cast<std::uint32_t*>(const_cast<char*>(own_view(static_cast<const char*>(c))) +
                                                  sizeof(pthread_cond_t) - 4);
  return stamped_object_at(PrimitiveId::kCondition, c, {{}, 0, 0, policy_of(PrimitiveId::kCondition)}, stamp,
                           is_initialised);
}

int wait(const void* c, const pthread_mutex_t* m, const timespec* until, const void* caller) {
  const bool is_timed = until != nullptr;
  if (!is_scheduling()) refuse_outside("pthread_cond_wait() outside of main()");
  if (!is_time(until)) return EINVAL;
  const ObjectId condition = condition_object(c), mutex = mutex_object(m);
  const ActorId self = current_actor().id;
  // Whose mutex it is not is told so by the mutex, and does not wait.
  if (mutex::owner(object_of(mutex)) != mutex::number_of(self))
    return static_cast<int>(perform(mutex::access(mutex, mutex::kUnlock), caller));
  if (is_timed) arm_timer(caller, &condition);
  const std::optional<Access> heed = offer_stir(caller);
  Operation enqueue(condition::enqueue(condition, self));
  enqueue.add(mutex::access(mutex, mutex::kUnlock));
  if (heed) enqueue.add(*heed);
  if (const std::optional<Access> entry = entry_of_cancellation_point()) enqueue.add(*entry);
  perform(enqueue, caller);
  Operation wake(condition::access(condition, condition::kWake));
  if (is_timed) wake.add(take_timer());
  const bool locks_apart = is_cancelling() || policy_of(PrimitiveId::kMutex) != kArbitrary;
  if (locks_apart)
    leave_cancellation_point(wake);
  else
    wake.add(mutex::access(mutex, mutex::kLock));
  const std::int64_t result = timed_out_at(until, perform(wake, caller));
  const bool ends = is_cancelled();
  // A robust mutex has a word of its own to say.
  const auto& done = current_actor().done;
  const std::int64_t locked =
      locks_apart ? wait_for_mutex(mutex, caller) : as_told(mutex, done[done.size() - 1].result);
  if (ends) end_actor(PTHREAD_CANCELED);
  return locked != 0 ? static_cast<int>(locked) : result == ETIMEDOUT ? ETIMEDOUT : 0;
}

int notify(const void* c, condition::Verb verb, const void* caller) {
  return is_scheduling() ? static_cast<int>(perform(condition::access(condition_object(c), verb), caller)) : 0;
}

// --- semaphores: libc keeps the count in the lower half of the first word
std::uint32_t& count_in(sem_t* s) { return *reinterpret_cast<std::uint32_t*>(own_view(s)); }

ObjectId semaphore_object(sem_t* s, bool is_initialised = false) {
  return object_at(PrimitiveId::kSemaphore, s, {{}, count_in(s), 0, policy_of(PrimitiveId::kSemaphore)},
                   is_initialised);
}

int fail_with(std::int64_t error) {
  if (error == 0) return 0;
  errno = static_cast<int>(error);
  return -1;
}

int take_by(Operation operation, const timespec* until, const void* caller) {
  // A place in line is not given up.
  const bool is_in_line = operation[0].verb == semaphore::kTakeTurn;
  if (!is_in_line) enter_call(caller);
  const std::int64_t result = timed_out_at(
      until, perform(leave_cancellation_point(operation), caller, is_in_line ? OnSignal::kGoOn : OnSignal::kRestart));
  end_if_cancelled();
  return fail_with(result == kInterrupted ? EINTR : result);
}

int take(sem_t* s, semaphore::Verb verb, const timespec* until, const void* caller) {
  if (!is_time(until)) return fail_with(EINVAL);
  if (!is_scheduling()) {
    if (count_in(s) == 0)
      return verb == semaphore::kTryWait ? fail_with(EAGAIN) : (refuse_outside("sem_wait() outside of main()"), 0);
    return --count_in(s), 0;
  }
  const ObjectId id = semaphore_object(s);
  if (verb != semaphore::kTryWait) enter_cancellation_point(caller);
  if (verb == semaphore::kTimedWait) {
    arm_timer(caller);
    return take_by(Operation(semaphore::access(id, verb)).add(take_timer()), until, caller);
  }
  if (verb == semaphore::kWait && policy_of(PrimitiveId::kSemaphore) != kArbitrary) {
    perform(semaphore::access(id, semaphore::kEnqueue), caller);
    return take_by(semaphore::access(id, semaphore::kTakeTurn), nullptr, caller);
  }
  if (verb == semaphore::kTryWait) return fail_with(perform(semaphore::access(id, verb), caller));
  return take_by(semaphore::access(id, verb), nullptr, caller);
}

// --- futexes
// Waiting looks at the word: it does not commute with a write to it.
Access look_at(const std::uint32_t* word) {
  const auto address = reinterpret_cast<std::uint64_t>(word);
  current_actor().memory.granules[1] = reinterpret_cast<const std::int64_t*>(address & ~(memory::kGranule - 1));
  return memory::access(memory_object(address), memory::kLoad, static_cast<std::uint8_t>(address % memory::kGranule),
                        sizeof *word);
}

// Whether what lives on the futex is seen, in an instrumented program: not so with libc's own.
enum class Sight { kAsProgram, kNone };

std::int64_t perform_futex(Operation operation, Sight sight, const void* caller) {
  if (sight == Sight::kNone) operation.set_opaque();
  return perform(operation, caller);
}

long futex_wait(std::uint32_t* word, std::uint32_t expected, const timespec* time, bool is_absolute, Sight sight,
                const void* caller) {
  const bool is_timed = time != nullptr;
  const ObjectId id = object_at(PrimitiveId::kFutex, word, {{}, 0, 0, policy_of(PrimitiveId::kFutex)});
  if (is_timed) arm_timer(caller);
  current_actor().futex_word = word;
  Operation wait(futex::access(id, futex::kWait, expected));
  if (g_is_instrumented && sight == Sight::kAsProgram) wait.add(look_at(word));
  if (perform_futex(wait, sight, caller) != 0) return fail_with(EAGAIN);
  Operation wake_up(futex::access(id, is_timed ? futex::kTimedWakeUp : futex::kWakeUp));
  if (is_timed) wake_up.add(take_timer());
  const std::int64_t result = perform_futex(wake_up, sight, caller);
  return (is_absolute ? timed_out_at(time, result) : timed_out_after(time, result)) == ETIMEDOUT ? fail_with(ETIMEDOUT)
                                                                                                 : 0;
}

long futex_wake(std::uint32_t* word, std::int64_t most, Sight sight, const void* caller) {
  const ObjectId id = object_at(PrimitiveId::kFutex, word, {{}, 0, 0, policy_of(PrimitiveId::kFutex)});
  return perform_futex(futex::access(id, futex::kWake, most), sight, caller);
}

long futex_call(const long* a, Sight sight, const void* caller) {
  auto* word = reinterpret_cast<std::uint32_t*>(a[0]);
  switch (a[1] & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
      return futex_wait(word, static_cast<std::uint32_t>(a[2]), reinterpret_cast<const timespec*>(a[3]),
                        (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET, sight, caller);
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
      return futex_wake(word, static_cast<int>(a[2]), sight, caller);
    default:
      refuse("futex() with an operation other than wait and wake");
  }
}

}  // namespace

long futex_of_libc(const long* arguments, const void* caller) {
  const int kept = errno;
  const long result = futex_call(arguments, Sight::kNone, caller);
  const long error = errno;
  errno = kept;
  return result < 0 ? -error : result;
}

}  // namespace crashcut::scheduler::runtime

using namespace crashcut::scheduler;
using namespace crashcut::scheduler::runtime;

EXPORT_ON_OBJECT(int, pthread_cond_init)(pthread_cond_t* c, const pthread_condattr_t*) {
  std::memset(own_view(c), 0, sizeof *c);
  if (is_scheduling()) condition_object(c, true);
  return 0;
}
EXPORT_ON_OBJECT(int, pthread_cond_destroy)(pthread_cond_t* c) { return notify(c, condition::kDestroy, CALLER); }
EXPORT_ON_OBJECT(int, pthread_cond_signal)(pthread_cond_t* c) { return notify(c, condition::kSignal, CALLER); }
EXPORT_ON_OBJECT(int, pthread_cond_broadcast)(pthread_cond_t* c) { return notify(c, condition::kBroadcast, CALLER); }
EXPORT_ON_OBJECT(int, pthread_cond_wait)(pthread_cond_t* c, pthread_mutex_t* m) { return wait(c, m, nullptr, CALLER); }
EXPORT_ON_OBJECT(int, pthread_cond_timedwait)(pthread_cond_t* c, pthread_mutex_t* m, const struct timespec* until) {
  return wait(c, m, until, CALLER);
}
EXPORT_ON_OBJECT(int, pthread_cond_clockwait)
(pthread_cond_t* c, pthread_mutex_t* m, clockid_t, const struct timespec* until) { return wait(c, m, until, CALLER); }

EXPORT_ON_OBJECT(int, cnd_init)(cnd_t* c) {
  return pthread_cond_init(reinterpret_cast<pthread_cond_t*>(c), nullptr) == 0 ? thrd_success : thrd_error;
}
EXPORT_ON_OBJECT(void, cnd_destroy)(cnd_t* c) { notify(c, condition::kDestroy, CALLER); }
EXPORT_ON_OBJECT(int, cnd_signal)(cnd_t* c) {
  return notify(c, condition::kSignal, CALLER) == 0 ? thrd_success : thrd_error;
}
EXPORT_ON_OBJECT(int, cnd_broadcast)(cnd_t* c) {
  return notify(c, condition::kBroadcast, CALLER) == 0 ? thrd_success : thrd_error;
}
EXPORT_ON_OBJECT(int, cnd_wait)(cnd_t* c, mtx_t* m) {
  return wait(c, reinterpret_cast<pthread_mutex_t*>(m), nullptr, CALLER) == 0 ? thrd_success : thrd_error;
}
EXPORT_ON_OBJECT(int, cnd_timedwait)(cnd_t* c, mtx_t* m, const struct timespec* until) {
  return wait(c, reinterpret_cast<pthread_mutex_t*>(m), until, CALLER) == 0 ? thrd_success : thrd_timedout;
}

EXPORT_ON_OBJECT(int, sem_init)(sem_t* s, int, unsigned value) {
  if (value > SEM_VALUE_MAX) return fail_with(EINVAL);
  std::memset(own_view(s), 0, sizeof *s);
  count_in(s) = value;
  if (is_scheduling()) semaphore_object(s, true);
  return 0;
}
EXPORT_ON_OBJECT(int, sem_destroy)(sem_t* s) {
  return is_scheduling() ? fail_with(perform(semaphore::access(semaphore_object(s), semaphore::kDestroy), CALLER)) : 0;
}
EXPORT_ON_OBJECT_NOTING_REGISTERS(int, sem_wait)(sem_t* s) { return take(s, semaphore::kWait, nullptr, CALLER); }
EXPORT_ON_OBJECT_NOTING_REGISTERS(int, sem_trywait)(sem_t* s) { return take(s, semaphore::kTryWait, nullptr, CALLER); }
EXPORT_ON_OBJECT(int, sem_timedwait)(sem_t* s, const struct timespec* until) {
  return take(s, semaphore::kTimedWait, until, CALLER);
}
EXPORT_ON_OBJECT(int, sem_clockwait)(sem_t* s, clockid_t, const struct timespec* until) {
  return take(s, semaphore::kTimedWait, until, CALLER);
}
EXPORT_ON_OBJECT(int, sem_post)(sem_t* s) {
  if (!is_scheduling()) return ++count_in(s), 0;
  return fail_with(perform(semaphore::access(semaphore_object(s), semaphore::kPost), CALLER));
}
EXPORT_ON_OBJECT(int, sem_getvalue)(sem_t* s, int* value) {
  *value = is_scheduling()
               ? static_cast<int>(perform(semaphore::access(semaphore_object(s), semaphore::kGetValue), CALLER))
               : static_cast<int>(count_in(s));
  return 0;
}

EXPORT_ON_OBJECT(int, pthread_barrier_init)(pthread_barrier_t* b, const pthread_barrierattr_t*, unsigned count) {
  if (count == 0) return EINVAL;
  std::memset(own_view(b), 0, sizeof *b);
  *reinterpret_cast<unsigned*>(own_view(b)) = count;
  if (is_scheduling()) object_at(PrimitiveId::kBarrier, b, {{}, count}, true);
  return 0;
}
static ObjectId barrier_object(pthread_barrier_t* b) {
  return object_at(PrimitiveId::kBarrier, b, {{}, *reinterpret_cast<unsigned*>(own_view(b))});
}
EXPORT_ON_OBJECT(int, pthread_barrier_wait)(pthread_barrier_t* b) {
  if (!is_scheduling()) return PTHREAD_BARRIER_SERIAL_THREAD;
  const ObjectId id = barrier_object(b);
  const std::int64_t generation = perform(barrier::access(id, barrier::kArrive), CALLER);
  return perform(barrier::access(id, barrier::kLeave, generation), CALLER) == 1 ? PTHREAD_BARRIER_SERIAL_THREAD : 0;
}
EXPORT_ON_OBJECT(int, pthread_barrier_destroy)(pthread_barrier_t* b) {
  return is_scheduling() ? static_cast<int>(perform(barrier::access(barrier_object(b), barrier::kDestroy), CALLER)) : 0;
}

// libstdc++ calls the kernel's futex through this.
EXPORT(long, syscall)(long number, ...) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  if (number == SYS_futex && is_scheduling()) {
    if (!g_is_instrumented) note_waiting();
    return futex_call(a, Sight::kAsProgram, CALLER);
  }
  // Calls of crashcut.h about machines: the way by SIGSYS costs some microseconds each.
  long result = 0;
  if (number == CRASHCUT_SYSCALL_NUMBER && is_executing() && do_host_call(a, CALLER, result)) {
    if (result >= 0 || result < -4095) return result;
    errno = static_cast<int>(-result);
    return -1;
  }
  static long (*real)(long, ...) = nullptr;
  if (real == nullptr) real = reinterpret_cast<long (*)(long, ...)>(crashcut::inject::find_real("syscall"));
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
