// Locks of pthreads, C11 and semaphores that lie in persistent memory.
//
// libc's functions cannot touch a region, so these take their place for such objects (scheduler/runtime/
//   persistent_locks.h). A lock is its bytes, as libc lays out what matters of them: it is taken by a locked
//   instruction of the model, survives a crash or not as any other word, and is free again by whatever makes its bytes
//   those of a free one: pthread_mutex_init(), memset(), a constructor. Waiting is a loop of such instructions, in
//   which other threads go on.
// Where there is one thread, nobody will ever release a lock that it finds taken: a recovery that would wait for it is
//   recorded as a hang at once, and names the lock.
// Does not model: that a mutex is robust; in which order those who wait for a condition variable are woken other than
//   the order in which they came (may miss bugs); mistakes, such as to unlock a mutex that another thread holds.
#include <errno.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <threads.h>

#include <cstddef>
#include <cstring>

#include "inject/instrument/abi.h"
#include "inject/interpose.h"
#include "recovery/inprocess/memory/accesses.h"
#include "recovery/inprocess/memory/region_access.h"
#include "recovery/inprocess/memory/trap.h"
#include "scheduler/runtime/loops.h"

namespace crashcut::inprocess {

namespace {

using scheduler::runtime::crashcut_entry_registers;

using Word = std::uint32_t;

// A call of the program: where it came from, and the registers of the program as it began. Each access begins with
// these, as if the program had made it itself (scheduler/runtime/loops.h): other threads may have run since.
class Entry {
 public:
  explicit Entry(const void* caller) : caller_(caller) {
    std::memcpy(registers_, crashcut_entry_registers, sizeof registers_);
  }
  const void* code() const { return caller_; }
  const void* begin_access() const {
    std::memcpy(crashcut_entry_registers, registers_, sizeof registers_);
    return caller_;
  }

 private:
  const void* caller_;
  std::uint64_t registers_[7];
};

Word load_word(const void* at, const Entry& entry) {
  Word word = 0;
  Memory::atomic_load(at, &word, sizeof word, __ATOMIC_SEQ_CST, entry.begin_access());
  return word;
}
void store_word(void* at, Word word, const Entry& entry) {
  Memory::atomic_store(at, &word, sizeof word, __ATOMIC_RELEASE, entry.begin_access());
}
bool replace_word(void* at, Word expected, Word desired, const Entry& entry) {
  return Memory::cmpxchg(at, &expected, &desired, sizeof expected, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST,
                         entry.begin_access()) != 0;
}
Word change_word(int operation, void* at, Word operand, const Entry& entry) {
  Word old = 0;
  Memory::rmw(operation, at, &operand, &old, sizeof old, __ATOMIC_SEQ_CST, entry.begin_access());
  return old;
}
Word* word_at(const void* object, std::size_t offset) {
  return const_cast<Word*>(reinterpret_cast<const Word*>(static_cast<const std::byte*>(object) + offset));
}

bool is_alone() { return threaded() == nullptr; }

[[noreturn]] void wait_for_ever(const char* what, const void* at, const Entry& entry) {
  const std::string where = describe_address(number_of(at));
  if (g_phase != Phase::kRecovering) {
    user_error(
        fmt::format("main() waits for the {} at {} in persistent memory, and no other thread is left that could "
                    "release it",
                    what, where));
  }
  in_model([&] {
    if (g.narrating) note_endless_wait(what, number_of(at), entry.code());
    finish_recovery(Outcome::kStuck, 0);
  });
  __builtin_unreachable();
}

enum class Patience { kNone, kSome, kEndless };  // try, timed, wait

// Calls attempt() until it returns true; false: patience ran out.
template <class Attempt>
bool take(const char* what, const void* at, Patience patience, const Entry& entry, const Attempt& attempt) {
  constexpr int kTimedAttempts = 2;
  for (int failed = 0; !attempt();) {
    if (patience == Patience::kNone) return false;
    if (patience == Patience::kEndless) {
      if (is_alone()) wait_for_ever(what, at, entry);
      continue;
    }
    if (is_alone() || ++failed == kTimedAttempts) return false;
    sched_yield();
  }
  return true;
}

// ---- mutexes

constexpr std::size_t kCountAt = offsetof(pthread_mutex_t, __data.__count);
constexpr std::size_t kOwnerAt = offsetof(pthread_mutex_t, __data.__owner);
constexpr std::size_t kKindAt = offsetof(pthread_mutex_t, __data.__kind);

// No thread after a crash is one from before it.
Word own_number() {
  constexpr Word kThreadsMost = 1 << 16;
  const std::size_t crashes = g_phase == Phase::kRecovering ? g_explorer->crashes().size() : 0;
  return static_cast<Word>(crashes) * kThreadsMost + own_thread() + 1;
}

int init_mutex(pthread_mutex_t* m, int kind, const Entry& entry) {
  Memory::memset(m, 0, sizeof *m, entry.begin_access());
  if (kind != PTHREAD_MUTEX_NORMAL) store_word(word_at(m, kKindAt), static_cast<Word>(kind), entry);
  return 0;
}

int lock_mutex(pthread_mutex_t* m, Patience patience, const Entry& entry) {
  const Word kind = load_word(word_at(m, kKindAt), entry) & 3;
  const bool knows_owner = kind == PTHREAD_MUTEX_RECURSIVE || kind == PTHREAD_MUTEX_ERRORCHECK;
  if (knows_owner && load_word(m, entry) != 0 && load_word(word_at(m, kOwnerAt), entry) == own_number()) {
    if (kind == PTHREAD_MUTEX_ERRORCHECK) return patience == Patience::kNone ? EBUSY : EDEADLK;
    store_word(word_at(m, kCountAt), load_word(word_at(m, kCountAt), entry) + 1, entry);
    return 0;
  }
  if (!take("mutex", m, patience, entry, [&] { return replace_word(m, 0, 1, entry); }))
    return patience == Patience::kNone ? EBUSY : ETIMEDOUT;
  if (!knows_owner) return 0;
  store_word(word_at(m, kOwnerAt), own_number(), entry);
  store_word(word_at(m, kCountAt), 1, entry);
  return 0;
}

int unlock_mutex(pthread_mutex_t* m, const Entry& entry) {
  const Word kind = load_word(word_at(m, kKindAt), entry) & 3;
  if (kind == PTHREAD_MUTEX_RECURSIVE || kind == PTHREAD_MUTEX_ERRORCHECK) {
    if (load_word(m, entry) == 0 || load_word(word_at(m, kOwnerAt), entry) != own_number()) return EPERM;
    const Word count = load_word(word_at(m, kCountAt), entry);
    store_word(word_at(m, kCountAt), count - 1, entry);
    if (count > 1) return 0;
    store_word(word_at(m, kOwnerAt), 0, entry);
  }
  change_word(__CRASHCUT_XCHG, m, 0, entry);
  return 0;
}

int kind_of(const pthread_mutexattr_t* attributes) {
  int kind = PTHREAD_MUTEX_DEFAULT;
  if (attributes != nullptr) pthread_mutexattr_gettype(attributes, &kind);
  return kind;
}

// ---- spin locks: 1 is free, as libc has it

int lock_spin(pthread_spinlock_t* s, Patience patience, const Entry& entry) {
  auto* const word = const_cast<int*>(s);
  return take("spin lock", word, patience, entry, [&] { return replace_word(word, 1, 0, entry); }) ? 0 : EBUSY;
}

// ---- reader-writer locks: the first word counts readers, as libc's does

constexpr Word kWriter = 2, kReader = 8;

int lock_rw(pthread_rwlock_t* l, bool writes, Patience patience, const Entry& entry) {
  const bool is_taken = take("reader-writer lock", l, patience, entry, [&] {
    const Word word = load_word(l, entry);
    if (writes ? word != 0 : (word & kWriter) != 0) return false;
    return replace_word(l, word, writes ? kWriter : word + kReader, entry);
  });
  return is_taken ? 0 : patience == Patience::kNone ? EBUSY : ETIMEDOUT;
}

int unlock_rw(pthread_rwlock_t* l, const Entry& entry) {
  const bool is_writer = (load_word(l, entry) & kWriter) != 0;
  change_word(is_writer ? __CRASHCUT_XCHG : __CRASHCUT_SUB, l, is_writer ? 0 : kReader, entry);
  return 0;
}

// ---- condition variables: how many have come to wait, and how many of them may go on

constexpr std::size_t kWokenAt = sizeof(Word);

int wait_for_condition(void* c, pthread_mutex_t* m, Patience patience, const Entry& entry) {
  const Word ticket = change_word(__CRASHCUT_ADD, c, 1, entry);
  pthread_mutex_unlock(m);
  const bool is_woken = take("condition variable", c, patience, entry, [&] {
    return static_cast<std::int32_t>(load_word(word_at(c, kWokenAt), entry) - ticket) > 0;
  });
  // Another thread may wake for nothing instead, which POSIX allows.
  if (!is_woken) change_word(__CRASHCUT_ADD, word_at(c, kWokenAt), 1, entry);
  pthread_mutex_lock(m);
  return is_woken ? 0 : ETIMEDOUT;
}

int notify(void* c, bool all, const Entry& entry) {
  const Word came = load_word(c, entry), woken = load_word(word_at(c, kWokenAt), entry);
  if (came != woken) change_word(__CRASHCUT_ADD, word_at(c, kWokenAt), all ? came - woken : 1, entry);
  return 0;
}

int forget_condition(void* c, const Entry& entry) {
  Memory::memset(c, 0, sizeof(pthread_cond_t), entry.begin_access());
  return 0;
}

// ---- semaphores

int fail_with(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

int take_semaphore(sem_t* s, Patience patience, const Entry& entry) {
  const bool is_taken = take("semaphore", s, patience, entry, [&] {
    const Word count = load_word(s, entry);
    return count != 0 && replace_word(s, count, count - 1, entry);
  });
  return fail_with(is_taken ? 0 : patience == Patience::kNone ? EAGAIN : ETIMEDOUT);
}

// ---- barriers: how many have come, the round, how many there must be

constexpr std::size_t kRoundAt = sizeof(Word), kNeededAt = 2 * sizeof(Word);

int wait_at_barrier(pthread_barrier_t* b, const Entry& entry) {
  const Word round = load_word(word_at(b, kRoundAt), entry);
  if (change_word(__CRASHCUT_ADD, b, 1, entry) + 1 == load_word(word_at(b, kNeededAt), entry)) {
    store_word(b, 0, entry);
    change_word(__CRASHCUT_ADD, word_at(b, kRoundAt), 1, entry);
    return PTHREAD_BARRIER_SERIAL_THREAD;
  }
  take("barrier", b, Patience::kEndless, entry, [&] { return load_word(word_at(b, kRoundAt), entry) != round; });
  return 0;
}

// The handle of a new thread, which lies in persistent memory, as all that a program allocates with --malloc.
int create_thread(pthread_t* handle, const pthread_attr_t* attributes, void* (*routine)(void*), void* argument,
                  const Entry& entry) {
  pthread_t made{};
  const int error = pthread_create(&made, attributes, routine, argument);
  if (error == 0) Memory::store(handle, &made, sizeof made, entry.begin_access());
  return error;
}

int c11(int error) {
  return error == 0 ? thrd_success : error == EBUSY ? thrd_busy : error == ETIMEDOUT ? thrd_timedout : thrd_error;
}
pthread_mutex_t* of(mtx_t* m) { return reinterpret_cast<pthread_mutex_t*>(m); }

// Without threads, libc's own code does it, and is trapped.
template <class Function>
Function* real_function(Function*, const char* name) {
  return reinterpret_cast<Function*>(inject::find_real(name));
}

}  // namespace

}  // namespace crashcut::inprocess

using namespace crashcut::inprocess;

#define PERSISTENT(result, name, parameters, arguments, work)                                     \
  extern "C" __attribute__((visibility("hidden"))) result crashcut_persistent_##name parameters { \
    if (is_trapping() && !crashcut::inject::schedules_threads())                                  \
      return real_function(static_cast<result(*) parameters>(nullptr), #name) arguments;          \
    [[maybe_unused]] const Entry entry(CALLER);                                                   \
    return work;                                                                                  \
  }

PERSISTENT(int, pthread_mutex_init, (pthread_mutex_t * m, const pthread_mutexattr_t* a), (m, a),
           init_mutex(m, kind_of(a), entry))
PERSISTENT(int, pthread_mutex_lock, (pthread_mutex_t * m), (m), lock_mutex(m, Patience::kEndless, entry))
PERSISTENT(int, pthread_mutex_trylock, (pthread_mutex_t * m), (m), lock_mutex(m, Patience::kNone, entry))
PERSISTENT(int, pthread_mutex_timedlock, (pthread_mutex_t * m, const timespec* t), (m, t),
           lock_mutex(m, Patience::kSome, entry))
PERSISTENT(int, pthread_mutex_clocklock, (pthread_mutex_t * m, clockid_t clock, const timespec* t), (m, clock, t),
           lock_mutex(m, Patience::kSome, entry))
PERSISTENT(int, pthread_mutex_unlock, (pthread_mutex_t * m), (m), unlock_mutex(m, entry))
PERSISTENT(int, pthread_mutex_destroy, (pthread_mutex_t * m), (m), 0)
PERSISTENT(int, pthread_mutex_consistent, (pthread_mutex_t * m), (m), EINVAL)

PERSISTENT(int, mtx_init, (mtx_t * m, int type), (m, type),
           c11(init_mutex(of(m), (type & mtx_recursive) != 0 ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL, entry)))
PERSISTENT(int, mtx_lock, (mtx_t * m), (m), c11(lock_mutex(of(m), Patience::kEndless, entry)))
PERSISTENT(int, mtx_trylock, (mtx_t * m), (m), c11(lock_mutex(of(m), Patience::kNone, entry)))
PERSISTENT(int, mtx_timedlock, (mtx_t * m, const timespec* t), (m, t), c11(lock_mutex(of(m), Patience::kSome, entry)))
PERSISTENT(int, mtx_unlock, (mtx_t * m), (m), c11(unlock_mutex(of(m), entry)))
PERSISTENT(void, mtx_destroy, (mtx_t * m), (m), static_cast<void>(m))

PERSISTENT(int, pthread_spin_init, (pthread_spinlock_t * s, int shared), (s, shared),
           (store_word(const_cast<int*>(s), 1, entry), 0))
PERSISTENT(int, pthread_spin_lock, (pthread_spinlock_t * s), (s), lock_spin(s, Patience::kEndless, entry))
PERSISTENT(int, pthread_spin_trylock, (pthread_spinlock_t * s), (s), lock_spin(s, Patience::kNone, entry))
PERSISTENT(int, pthread_spin_unlock, (pthread_spinlock_t * s), (s), (store_word(const_cast<int*>(s), 1, entry), 0))
PERSISTENT(int, pthread_spin_destroy, (pthread_spinlock_t * s), (s), 0)

PERSISTENT(int, pthread_rwlock_init, (pthread_rwlock_t * l, const pthread_rwlockattr_t* a), (l, a),
           (Memory::memset(l, 0, sizeof *l, entry.begin_access()), 0))
PERSISTENT(int, pthread_rwlock_rdlock, (pthread_rwlock_t * l), (l), lock_rw(l, false, Patience::kEndless, entry))
PERSISTENT(int, pthread_rwlock_wrlock, (pthread_rwlock_t * l), (l), lock_rw(l, true, Patience::kEndless, entry))
PERSISTENT(int, pthread_rwlock_tryrdlock, (pthread_rwlock_t * l), (l), lock_rw(l, false, Patience::kNone, entry))
PERSISTENT(int, pthread_rwlock_trywrlock, (pthread_rwlock_t * l), (l), lock_rw(l, true, Patience::kNone, entry))
PERSISTENT(int, pthread_rwlock_timedrdlock, (pthread_rwlock_t * l, const timespec* t), (l, t),
           lock_rw(l, false, Patience::kSome, entry))
PERSISTENT(int, pthread_rwlock_timedwrlock, (pthread_rwlock_t * l, const timespec* t), (l, t),
           lock_rw(l, true, Patience::kSome, entry))
PERSISTENT(int, pthread_rwlock_clockrdlock, (pthread_rwlock_t * l, clockid_t clock, const timespec* t), (l, clock, t),
           lock_rw(l, false, Patience::kSome, entry))
PERSISTENT(int, pthread_rwlock_clockwrlock, (pthread_rwlock_t * l, clockid_t clock, const timespec* t), (l, clock, t),
           lock_rw(l, true, Patience::kSome, entry))
PERSISTENT(int, pthread_rwlock_unlock, (pthread_rwlock_t * l), (l), unlock_rw(l, entry))
PERSISTENT(int, pthread_rwlock_destroy, (pthread_rwlock_t * l), (l), 0)

PERSISTENT(int, pthread_cond_init, (pthread_cond_t * c, const pthread_condattr_t* a), (c, a),
           forget_condition(c, entry))
PERSISTENT(int, pthread_cond_destroy, (pthread_cond_t * c), (c), 0)
PERSISTENT(int, pthread_cond_signal, (pthread_cond_t * c), (c), notify(c, false, entry))
PERSISTENT(int, pthread_cond_broadcast, (pthread_cond_t * c), (c), notify(c, true, entry))
PERSISTENT(int, pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t* m), (c, m),
           wait_for_condition(c, m, Patience::kEndless, entry))
PERSISTENT(int, pthread_cond_timedwait, (pthread_cond_t * c, pthread_mutex_t* m, const timespec* t), (c, m, t),
           wait_for_condition(c, m, Patience::kSome, entry))
PERSISTENT(int, pthread_cond_clockwait, (pthread_cond_t * c, pthread_mutex_t* m, clockid_t clock, const timespec* t),
           (c, m, clock, t), wait_for_condition(c, m, Patience::kSome, entry))
PERSISTENT(int, cnd_init, (cnd_t * c), (c), c11(forget_condition(c, entry)))
PERSISTENT(void, cnd_destroy, (cnd_t * c), (c), static_cast<void>(c))
PERSISTENT(int, cnd_signal, (cnd_t * c), (c), c11(notify(c, false, entry)))
PERSISTENT(int, cnd_broadcast, (cnd_t * c), (c), c11(notify(c, true, entry)))
PERSISTENT(int, cnd_wait, (cnd_t * c, mtx_t* m), (c, m), c11(wait_for_condition(c, of(m), Patience::kEndless, entry)))
PERSISTENT(int, cnd_timedwait, (cnd_t * c, mtx_t* m, const timespec* t), (c, m, t),
           c11(wait_for_condition(c, of(m), Patience::kSome, entry)))

PERSISTENT(int, sem_init, (sem_t * s, int shared, unsigned value), (s, shared, value),
           (Memory::memset(s, 0, sizeof *s, entry.begin_access()), store_word(s, value, entry), 0))
PERSISTENT(int, sem_destroy, (sem_t * s), (s), 0)
PERSISTENT(int, sem_wait, (sem_t * s), (s), take_semaphore(s, Patience::kEndless, entry))
PERSISTENT(int, sem_trywait, (sem_t * s), (s), take_semaphore(s, Patience::kNone, entry))
PERSISTENT(int, sem_timedwait, (sem_t * s, const timespec* t), (s, t), take_semaphore(s, Patience::kSome, entry))
PERSISTENT(int, sem_clockwait, (sem_t * s, clockid_t clock, const timespec* t), (s, clock, t),
           take_semaphore(s, Patience::kSome, entry))
PERSISTENT(int, sem_post, (sem_t * s), (s), (change_word(__CRASHCUT_ADD, s, 1, entry), 0))
PERSISTENT(int, sem_getvalue, (sem_t * s, int* value), (s, value), (*value = static_cast<int>(load_word(s, entry)), 0))

PERSISTENT(int, pthread_barrier_init, (pthread_barrier_t * b, const pthread_barrierattr_t* a, unsigned count),
           (b, a, count),
           count == 0 ? EINVAL
                      : (Memory::memset(b, 0, sizeof *b, entry.begin_access()),
                         store_word(word_at(b, kNeededAt), count, entry), 0))
PERSISTENT(int, pthread_barrier_wait, (pthread_barrier_t * b), (b), wait_at_barrier(b, entry))
PERSISTENT(int, pthread_barrier_destroy, (pthread_barrier_t * b), (b), 0)

PERSISTENT(int, pthread_create, (pthread_t * t, const pthread_attr_t* a, void* (*f)(void*), void* x), (t, a, f, x),
           create_thread(t, a, f, x, entry))
