#include "tests/posix_model.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <string_view>

namespace crashcut::tests {
namespace {

constexpr int kNobody = -1;
constexpr int kGoesOn = -1, kBeginsAgain = -2;  // a call, after a handler

struct Mutex {
  int owner = kNobody, depth = 0;
  enum class Health : char { kSound, kOwnerDied, kLost } health = Health::kSound;
  auto operator<=>(const Mutex&) const = default;
};

struct RwLock {
  int writer = kNobody;
  std::map<int, int> readers;  // how often each holds it
  auto operator<=>(const RwLock&) const = default;
};

struct Barrier {
  int arrived = 0, generation = 0;
  auto operator<=>(const Barrier&) const = default;
};

struct Once {
  enum class Stage : char { kNever, kRunning, kDone } stage = Stage::kNever;
  auto operator<=>(const Once&) const = default;
};

struct Thread {
  std::size_t at = 0;
  // In the middle of a call: at a cancellation point, where it was not cancelled before; at a barrier; in a once
  // routine (and at its cancellation point); blocked on a condition; unblocked, and without the mutex.
  enum class Stage : char {
    kBegins,
    kInside,
    kAtBarrier,
    kInRoutine,
    kInsideRoutine,
    kBlocked,
    kUnblocked
  } stage = Stage::kBegins;
  int generation = 0;      // of the barrier
  int wait_result = 0;     // of the wait that is over
  std::vector<int> heirs;  // others that were blocked when the signal came that unblocked it
  bool is_by_signal = false;
  bool is_requested = false, is_cancelled = false;  // requested: and not acted upon
  bool is_over = false;
  int spurious_left = 0;
  std::array<bool, kPosixObjects> blocks{}, pending{};  // signals
  int handled = 0;                                      // kPosixHandled, summed up
  // In the middle of a wait that a handler may end; looking for more that has come. And what the call ends with then.
  enum class Handling : char { kNone, kInterrupted, kMore } handling = Handling::kNone;
  int result_after = 0;
  int handles = -1;  // the signal whose handler runs
  PosixThreadEnd end;
  auto operator<=>(const Thread&) const = default;
};

struct World {
  std::array<Mutex, kPosixObjects> mutexes;
  std::array<RwLock, kPosixObjects> rwlocks;
  std::array<int, kPosixObjects> semaphores, variables{};
  std::array<Barrier, kPosixObjects> barriers;
  std::array<Once, kPosixObjects> onces;
  std::array<std::vector<int>, kPosixObjects> blocked;  // a condition's threads
  std::vector<Thread> threads;
  std::vector<bool> is_joined;
  std::array<bool, kPosixObjects> pending{};  // for the process
  auto operator<=>(const World&) const = default;
};

class Machine {
 public:
  explicit Machine(const PosixProgram& program) : program_(program) {}

  PosixOutcomes explore(std::size_t states_most) {
    World first;
    first.semaphores = program_.semaphores;
    first.threads.resize(program_.threads.size());
    first.is_joined.resize(program_.threads.size());
    for (std::size_t t = 0; t < first.threads.size(); ++t) {
      first.threads[t].end.results.assign(program_.threads[t].size(), kPosixNone);
      first.threads[t].spurious_left = program_.spurious_most;
    }
    PosixOutcomes outcomes;
    std::set<World> seen;
    std::vector<World> todo{first};
    while (!todo.empty()) {
      const World world = todo.back();
      todo.pop_back();
      if (!seen.insert(world).second) continue;
      if (seen.size() > states_most) return outcomes.is_whole = false, outcomes;
      next_.clear();
      wakes_for_nothing_ = 0;
      for (int t = 0; t < static_cast<int>(world.threads.size()); ++t) step(world, t);
      // Nobody has to wake for nothing.
      if (next_.size() == wakes_for_nothing_) outcomes.all.insert(text_of(world));
      todo.insert(todo.end(), next_.begin(), next_.end());
    }
    return outcomes;
  }

 private:
  static std::string text_of(const World& world) {
    std::vector<PosixThreadEnd> ends;
    for (const Thread& thread : world.threads) ends.push_back(thread.end);
    int serials = 0;
    for (const Barrier& barrier : world.barriers) serials += barrier.generation;
    return posix_outcome_text(ends, serials);
  }

  // --- what comes of a step
  void go(World world) { next_.push_back(std::move(world)); }
  void finish(World world, int t, int result) {
    Thread& thread = world.threads[static_cast<std::size_t>(t)];
    thread.end.results[thread.at++] = result + thread.handled;
    thread.stage = Thread::Stage::kBegins;
    go(std::move(world));
  }
  // The thread acts upon its cancellation: it unlocks what it holds, and ends.
  void act_on_cancel(World world, int t) {
    Thread& thread = world.threads[static_cast<std::size_t>(t)];
    thread.is_requested = false;
    thread.is_cancelled = true;
    thread.stage = Thread::Stage::kBegins;
    thread.end.results[thread.at] = ECANCELED;
    thread.at = program_.threads[static_cast<std::size_t>(t)].size();
    go(std::move(world));
  }

  // A cancellation point that may wait. Requests from before are acted upon. Later ones may be; or, where "the event
  // for which it is waiting occurs before the cancellation request is acted upon", the thread may go on: it is
  // unspecified. False: not there yet.
  bool enter(const World& world, int t, Thread::Stage inside = Thread::Stage::kInside) {
    const Thread& thread = world.threads[static_cast<std::size_t>(t)];
    if (thread.is_requested) act_on_cancel(world, t);
    if (thread.stage == inside) return true;
    if (thread.is_requested) return false;
    World next = world;
    next.threads[static_cast<std::size_t>(t)].stage = inside;
    go(std::move(next));
    return false;
  }

  PosixMutex kind_of(int m) const { return program_.mutexes[static_cast<std::size_t>(m)]; }

  // --- mutexes
  // What a lock results in now; nothing where it has to wait.
  std::optional<int> lock_result(const World& world, int t, int m) const {
    const Mutex& mutex = world.mutexes[static_cast<std::size_t>(m)];
    if (mutex.owner == kNobody)
      return mutex.health == Mutex::Health::kLost        ? ENOTRECOVERABLE
             : mutex.health == Mutex::Health::kOwnerDied ? EOWNERDEAD
                                                         : 0;
    if (mutex.owner != t) return std::nullopt;
    if (kind_of(m) == PosixMutex::kRecursive) return 0;
    if (kind_of(m) == PosixMutex::kErrorCheck) return EDEADLK;
    return std::nullopt;  // it waits for itself
  }
  static World locked(World world, int t, int m, int result) {
    if (result != 0 && result != EOWNERDEAD) return world;
    Mutex& mutex = world.mutexes[static_cast<std::size_t>(m)];
    mutex.owner = t;
    ++mutex.depth;
    return world;
  }
  static World unlocked(World world, int m) {
    Mutex& mutex = world.mutexes[static_cast<std::size_t>(m)];
    if (--mutex.depth > 0) return world;
    mutex.owner = kNobody;
    if (mutex.health == Mutex::Health::kOwnerDied) mutex.health = Mutex::Health::kLost;
    return world;
  }
  void step_mutex(const World& world, int t, const PosixCall& call) {
    const Mutex& mutex = world.mutexes[static_cast<std::size_t>(call.object)];
    switch (call.what) {
      case 'u':
        return finish(unlocked(world, call.object), t, 0);
      case 'U':
        return mutex.owner == t ? finish(unlocked(world, call.object), t, 0) : finish(world, t, EPERM);
      case '!': {
        World next = world;
        const bool is_mended = mutex.health == Mutex::Health::kOwnerDied;
        if (is_mended) next.mutexes[static_cast<std::size_t>(call.object)].health = Mutex::Health::kSound;
        return finish(next, t, is_mended ? 0 : EINVAL);
      }
      case 't': {
        // An error-checking mutex that it holds is one that is locked already.
        const auto result = mutex.owner == t && kind_of(call.object) == PosixMutex::kErrorCheck
                                ? std::optional<int>()
                                : lock_result(world, t, call.object);
        return result ? finish(locked(world, t, call.object, *result), t, *result) : finish(world, t, EBUSY);
      }
      default: {
        const auto result = lock_result(world, t, call.object);
        if (result) return finish(locked(world, t, call.object, *result), t, *result);
        if (call.what == 'T') finish(world, t, ETIMEDOUT);
      }
    }
  }

  // --- reader-writer locks
  void step_rwlock(const World& world, int t, const PosixCall& call) {
    World next = world;
    RwLock& lock = next.rwlocks[static_cast<std::size_t>(call.object)];
    if (call.what == 'v') {
      if (lock.writer == t)
        lock.writer = kNobody;
      else if (--lock.readers[t] == 0)
        lock.readers.erase(t);
      return finish(next, t, 0);
    }
    const bool writes = call.what == 'w' || call.what == 'b' || call.what == 'W';
    const bool is_free = lock.writer == kNobody && (!writes || lock.readers.empty());
    if (is_free && writes) lock.writer = t;
    if (is_free && !writes) ++lock.readers[t];
    if (is_free) return finish(next, t, 0);
    if (call.what == 'a' || call.what == 'b') finish(world, t, EBUSY);
    if (call.what == 'R' || call.what == 'W') finish(world, t, ETIMEDOUT);
  }

  // --- semaphores
  void step_semaphore(const World& world, int t, const PosixCall& call) {
    World next = world;
    int& count = next.semaphores[static_cast<std::size_t>(call.object)];
    switch (call.what) {
      case 's':
        ++count;
        return finish(next, t, 0);
      case 'g':
        return finish(world, t, count);
      default:
        break;
    }
    if (call.what != 'q' && !enter(world, t)) return;
    if (count > 0) return --count, finish(next, t, 0);
    if (call.what == 'q') finish(world, t, EAGAIN);
    if (call.what == 'Q') finish(world, t, ETIMEDOUT);
  }

  // --- barriers, once
  void step_barrier(const World& world, int t, const PosixCall& call) {
    World next = world;
    Barrier& barrier = next.barriers[static_cast<std::size_t>(call.object)];
    Thread& thread = next.threads[static_cast<std::size_t>(t)];
    if (thread.stage == Thread::Stage::kAtBarrier) {
      if (barrier.generation > thread.generation) finish(next, t, 0);
      return;
    }
    thread.stage = Thread::Stage::kAtBarrier;
    thread.generation = barrier.generation;
    if (++barrier.arrived == program_.barriers[static_cast<std::size_t>(call.object)]) {
      barrier.arrived = 0;
      ++barrier.generation;
    }
    go(next);
  }
  // The result: whether this thread ran the routine.
  void step_once(const World& world, int t, const PosixCall& call) {
    World next = world;
    Once& once = next.onces[static_cast<std::size_t>(call.object)];
    Thread& thread = next.threads[static_cast<std::size_t>(t)];
    if (thread.stage == Thread::Stage::kInRoutine || thread.stage == Thread::Stage::kInsideRoutine) {
      if (call.what == 'O') {
        World given_up = world;
        given_up.onces[static_cast<std::size_t>(call.object)].stage = Once::Stage::kNever;
        if (thread.is_requested) act_on_cancel(given_up, t);
        if (thread.stage == Thread::Stage::kInRoutine) {
          thread.stage = Thread::Stage::kInsideRoutine;
          if (!thread.is_requested) go(next);
          return;
        }
        if (next.semaphores[0] == 0) return;
        --next.semaphores[0];
      }
      once.stage = Once::Stage::kDone;
      return finish(next, t, 1);
    }
    if (once.stage == Once::Stage::kDone) return finish(world, t, 0);
    if (once.stage == Once::Stage::kRunning) return;
    once.stage = Once::Stage::kRunning;
    thread.stage = Thread::Stage::kInRoutine;
    go(next);
  }

  // --- condition variables
  // "Shall unblock at least one of the threads that are blocked": any one.
  void step_signal(const World& world, int t, const PosixCall& call) {
    const auto c = static_cast<std::size_t>(call.object);
    if (world.blocked[c].empty()) return finish(world, t, 0);
    if (call.what == 'n') {
      for (std::size_t which = 0; which < world.blocked[c].size(); ++which) {
        signal_one(world, t, c, which);
      }
      return;
    }
    World next = world;
    for (const int other : next.blocked[c]) leave_blocked(next, other, 0);
    next.blocked[c].clear();
    finish(next, t, 0);
  }
  void signal_one(World world, int t, std::size_t c, std::size_t which) {
    const int other = world.blocked[c][which];
    world.blocked[c].erase(world.blocked[c].begin() + static_cast<std::ptrdiff_t>(which));
    leave_blocked(world, other, 0);
    world.threads[static_cast<std::size_t>(other)].is_by_signal = true;
    world.threads[static_cast<std::size_t>(other)].heirs = world.blocked[c];
    finish(std::move(world), t, 0);
  }
  static void leave_blocked(World& world, int t, int result) {
    Thread& thread = world.threads[static_cast<std::size_t>(t)];
    thread.stage = Thread::Stage::kUnblocked;
    thread.wait_result = result;
    thread.is_by_signal = false;
    thread.heirs.clear();
  }
  // Blocked, and no longer: by time, for nothing, by cancellation.
  void step_blocked(const World& world, int t, const PosixCall& call) {
    const auto leave = [&](int result) {
      World next = world;
      std::erase(next.blocked[static_cast<std::size_t>(call.object)], t);
      leave_blocked(next, t, result);
      return next;
    };
    const Thread& thread = world.threads[static_cast<std::size_t>(t)];
    if (thread.is_requested) go(leave(ECANCELED));
    if (call.what == 'C') go(leave(ETIMEDOUT));
    if (thread.spurious_left > 0) {
      World next = leave(0);
      --next.threads[static_cast<std::size_t>(t)].spurious_left;
      ++wakes_for_nothing_;
      go(std::move(next));
    }
  }
  // A thread that was unblocked by a signal and is cancelled before it returns: "it is unspecified whether the
  // cancellation request is acted upon"; but then it "shall not consume" the signal if there are other threads blocked.
  void pass_signal_on(const World& world, int t, const PosixCall& call) {
    const auto c = static_cast<std::size_t>(call.object);
    World cancelled = world;
    leave_blocked(cancelled, t, ECANCELED);
    bool is_passed_on = false;
    for (std::size_t which = 0; which < world.blocked[c].size(); ++which) {
      const std::vector<int>& heirs = world.threads[static_cast<std::size_t>(t)].heirs;
      if (std::find(heirs.begin(), heirs.end(), world.blocked[c][which]) == heirs.end()) continue;
      is_passed_on = true;
      World next = cancelled;
      const int other = next.blocked[c][which];
      next.blocked[c].erase(next.blocked[c].begin() + static_cast<std::ptrdiff_t>(which));
      leave_blocked(next, other, 0);
      next.threads[static_cast<std::size_t>(other)].is_by_signal = true;
      for (const int heir : heirs) {
        if (std::find(next.blocked[c].begin(), next.blocked[c].end(), heir) != next.blocked[c].end())
          next.threads[static_cast<std::size_t>(other)].heirs.push_back(heir);
      }
      go(std::move(next));
    }
    if (!is_passed_on) go(std::move(cancelled));
  }
  void step_wait(const World& world, int t, const PosixCall& call) {
    const Thread& thread = world.threads[static_cast<std::size_t>(t)];
    if (thread.stage == Thread::Stage::kBlocked) return step_blocked(world, t, call);
    if (thread.stage == Thread::Stage::kUnblocked) {
      if (thread.is_requested && thread.is_by_signal) pass_signal_on(world, t, call);
      if (thread.is_requested && !thread.is_by_signal && thread.wait_result != ECANCELED) {
        World next = world;
        next.threads[static_cast<std::size_t>(t)].wait_result = ECANCELED;
        go(std::move(next));
      }
      const auto result = lock_result(world, t, 0);
      if (!result) return;
      World next = locked(world, t, 0, *result);
      if (thread.wait_result == ECANCELED) return act_on_cancel(std::move(next), t);
      return finish(std::move(next), t, *result != 0 ? *result : thread.wait_result);
    }
    if (world.mutexes[0].owner != t) return finish(world, t, EPERM);
    World next = unlocked(world, 0);
    next.blocked[static_cast<std::size_t>(call.object)].push_back(t);
    next.threads[static_cast<std::size_t>(t)].stage = Thread::Stage::kBlocked;
    go(std::move(next));
  }

  // --- threads
  void step_thread(const World& world, int t, const PosixCall& call) {
    World next = world;
    Thread& other = next.threads[static_cast<std::size_t>(call.object)];
    switch (call.what) {
      case 'x':
        other.is_requested = !other.is_cancelled;
        return finish(next, t, 0);
      case 'y':
        return next.threads[static_cast<std::size_t>(t)].is_requested ? act_on_cancel(next, t) : finish(next, t, 0);
      default:
        break;
    }
    if (call.what != 'k' && !enter(world, t)) return;
    // The result of a join: 1 where the thread was cancelled.
    if (other.is_over) {
      next.is_joined[static_cast<std::size_t>(call.object)] = true;
      return finish(next, t, other.is_cancelled ? 1 : 0);
    }
    if (call.what == 'k') finish(world, t, EBUSY);
    if (call.what == 'J') finish(world, t, ETIMEDOUT);
  }

  // --- signals
  // One that the thread does not block comes to it: its own first, the lowest first. False: there is none.
  static bool take_one(World& world, int t) {
    Thread& thread = world.threads[static_cast<std::size_t>(t)];
    thread.handles = -1;
    for (std::array<bool, kPosixObjects>* pending : {&thread.pending, &world.pending}) {
      for (std::size_t s = 0; s < kPosixObjects; ++s) {
        if (thread.blocks[s] || !(*pending)[s]) continue;
        (*pending)[s] = false;
        thread.handled += kPosixHandled[s];
        thread.handles = static_cast<int>(s);
        return true;
      }
    }
    return false;
  }
  static bool is_awaited(const World& world, int t, std::size_t s) {
    return world.threads[static_cast<std::size_t>(t)].pending[s] || world.pending[s];
  }
  // A call that ends once all that has come is handled.
  void finish_after_signals(World world, int t) {
    if (!take_one(world, t)) return finish(std::move(world), t, 0);
    Thread& thread = world.threads[static_cast<std::size_t>(t)];
    thread.handling = Thread::Handling::kMore;
    thread.result_after = 0;
    go(std::move(world));
  }
  // A handler begins. A wait for a semaphore or a signal may end by it; others go on.
  void step_handlers(const World& world, int t) {
    World next = world;
    if (!take_one(next, t)) return;
    Thread& thread = next.threads[static_cast<std::size_t>(t)];
    const std::vector<PosixCall>& calls = program_.threads[static_cast<std::size_t>(t)];
    const bool is_inside = thread.stage == Thread::Stage::kInside && thread.at < calls.size();
    const char what = is_inside ? calls[thread.at].what : 0;
    const bool may_end = what == 'p' || what == 'Q' || what == 'S' || what == 'Z';
    thread.handling = may_end ? Thread::Handling::kInterrupted : Thread::Handling::kMore;
    thread.result_after = kGoesOn;
    go(std::move(next));
  }
  // It ends where it still has to wait; but sigwait() begins again.
  void step_interrupted(World world, int t) {
    Thread& thread = world.threads[static_cast<std::size_t>(t)];
    const PosixCall& call = program_.threads[static_cast<std::size_t>(t)][thread.at];
    const auto object = static_cast<std::size_t>(call.object);
    const bool is_semaphore = call.what == 'p' || call.what == 'Q';
    const bool waits = is_semaphore ? world.semaphores[object] == 0 : !is_awaited(world, t, object);
    thread.handling = Thread::Handling::kMore;
    if (!waits && is_semaphore) --world.semaphores[object];
    if (!waits && !is_semaphore) (thread.pending[object] ? thread.pending[object] : world.pending[object]) = false;
    thread.result_after = !waits ? 0 : call.what == 'S' ? kBeginsAgain : EINTR;
    if (waits && call.what == 'S') thread.stage = Thread::Stage::kBegins;
    go(std::move(world));
  }
  // All that has come meanwhile is handled too.
  void step_handling(World world, int t) {
    if (take_one(world, t)) return go(std::move(world));
    Thread& thread = world.threads[static_cast<std::size_t>(t)];
    thread.handling = Thread::Handling::kNone;
    if (thread.result_after >= 0) return finish(std::move(world), t, thread.result_after);
    go(std::move(world));
  }
  // Whether another thread would take what is sent to the process.
  bool is_wanted_by_others(const World& world, int t, std::size_t s) const {
    for (std::size_t other = 0; other < world.threads.size(); ++other) {
      const Thread& thread = world.threads[other];
      if (static_cast<int>(other) == t || thread.is_over) continue;
      if (!thread.blocks[s] && !(program_.handlers_block && thread.handles == static_cast<int>(s))) return true;
      if (thread.stage != Thread::Stage::kInside) continue;
      const PosixCall& call = program_.threads[other][thread.at];
      if ((call.what == 'S' || call.what == 'Z') && call.object == static_cast<int>(s)) return true;
    }
    return false;
  }
  void step_signals(const World& world, int t, const PosixCall& call) {
    World next = world;
    Thread& thread = next.threads[static_cast<std::size_t>(t)];
    const auto s = static_cast<std::size_t>(call.object);
    switch (call.what) {
      case 'K':
      case 'L': {
        const std::size_t sent = call.what == 'K' ? 0 : 1;
        Thread& other = next.threads[static_cast<std::size_t>(call.object)];
        if (!other.is_over) other.pending[sent] = true;
        if (call.object == t && !thread.blocks[sent]) return finish_after_signals(std::move(next), t);
        return finish(std::move(next), t, 0);
      }
      case 'P':
        next.pending[s] = true;
        if (!thread.blocks[s] && !is_wanted_by_others(next, t, s)) return finish_after_signals(std::move(next), t);
        return finish(std::move(next), t, 0);
      case 'm':
        thread.blocks[s] = true;
        return finish_after_signals(std::move(next), t);
      case 'M':
        thread.blocks[s] = false;
        return finish_after_signals(std::move(next), t);
      default:
        break;
    }
    if (thread.stage != Thread::Stage::kInside) {
      thread.stage = Thread::Stage::kInside;
      return go(std::move(next));
    }
    if (is_awaited(next, t, s)) {
      (thread.pending[s] ? thread.pending[s] : next.pending[s]) = false;
      return finish(std::move(next), t, 0);
    }
    if (call.what == 'Z') finish(std::move(next), t, EAGAIN);
  }

  // --- calls
  // Whether POSIX says what the call does, here.
  bool is_defined(const World& world, int t, const PosixCall& call) const {
    const auto object = static_cast<std::size_t>(call.object);
    const auto holds_lock = [&](bool counts_reads) {
      return world.rwlocks[object].writer == t || (counts_reads && world.rwlocks[object].readers.contains(t));
    };
    switch (call.what) {
      case 'u':
        return world.mutexes[object].owner == t;
      case 'U':
        return program_.mutexes[object] != PosixMutex::kNormal;
      case '!':
        return program_.mutexes[object] == PosixMutex::kRobust && world.mutexes[object].owner == t;
      case '+':
        return world.mutexes[object].owner == t;
      case 'r':
      case 'R':
        return !holds_lock(false);
      case 'w':
      case 'W':
        return !holds_lock(true);
      case 'v':
        return holds_lock(true);
      case 'c':
      case 'C':
        return (world.mutexes[0].owner == t && world.mutexes[0].depth == 1) ||
               (world.mutexes[0].owner != t && program_.mutexes[0] == PosixMutex::kErrorCheck);
      case 'j':
      case 'J':
      case 'k':
        return !world.is_joined[object];
      case 'x':
      case 'K':
      case 'L':
        return t != 0 || !world.is_joined[object];
      // What is blocked already is not blocked again: nothing comes between.
      case 'm':
        return !world.threads[static_cast<std::size_t>(t)].blocks[object];
      case 'M':
      case 'S':
      case 'Z':
        return world.threads[static_cast<std::size_t>(t)].blocks[object];
      default:
        return true;
    }
  }

  void step(World world, int t) {
    Thread& thread = world.threads[static_cast<std::size_t>(t)];
    const std::vector<PosixCall>& calls = program_.threads[static_cast<std::size_t>(t)];
    if (thread.is_over) return;
    if (thread.handling == Thread::Handling::kInterrupted) return step_interrupted(std::move(world), t);
    if (thread.handling == Thread::Handling::kMore) return step_handling(std::move(world), t);
    while (thread.at < calls.size() && thread.stage == Thread::Stage::kBegins &&
           !is_defined(world, t, calls[thread.at]))
      ++thread.at;
    // Nobody can tell whether a handler ran before or after the thread did something of its own.
    if (thread.at == calls.size() || calls[thread.at].what != '+') step_handlers(world, t);
    if (thread.at == calls.size()) return step_end(world, t);
    const PosixCall& call = calls[thread.at];
    switch (call.what) {
      case 'l':
      case 't':
      case 'T':
      case 'u':
      case 'U':
      case '!':
        return step_mutex(world, t, call);
      case 'r':
      case 'w':
      case 'a':
      case 'b':
      case 'R':
      case 'W':
      case 'v':
        return step_rwlock(world, t, call);
      case 'p':
      case 'q':
      case 'Q':
      case 's':
      case 'g':
        return step_semaphore(world, t, call);
      case 'B':
        return step_barrier(world, t, call);
      case 'o':
      case 'O':
        return step_once(world, t, call);
      case 'c':
      case 'C':
        return step_wait(world, t, call);
      case 'n':
      case 'N':
        return step_signal(world, t, call);
      case '+': {
        const int was = world.variables[static_cast<std::size_t>(call.object)]++;
        return finish(world, t, was);
      }
      case 'K':
      case 'L':
      case 'P':
      case 'm':
      case 'M':
      case 'S':
      case 'Z':
        return step_signals(world, t, call);
      default:
        return step_thread(world, t, call);
    }
  }

  // A cancelled thread's cleanup handler unlocks what it holds; other threads leave robust mutexes behind.
  void step_end(World world, int t) {
    Thread& thread = world.threads[static_cast<std::size_t>(t)];
    for (int m = 0; m < kPosixObjects; ++m) {
      Mutex& mutex = world.mutexes[static_cast<std::size_t>(m)];
      if (mutex.owner != t) continue;
      if (thread.is_cancelled) return go(unlocked(world, m));
      if (kind_of(m) != PosixMutex::kRobust) continue;
      mutex = {kNobody, 0, Mutex::Health::kOwnerDied};
      return go(std::move(world));
    }
    for (RwLock& lock : world.rwlocks) {
      if (!thread.is_cancelled || (lock.writer != t && !lock.readers.contains(t))) continue;
      if (lock.writer == t)
        lock.writer = kNobody;
      else if (--lock.readers[t] == 0)
        lock.readers.erase(t);
      return go(std::move(world));
    }
    thread.is_over = true;
    thread.pending = {};
    thread.end.how = thread.is_cancelled ? 'C' : 'E';
    go(std::move(world));
  }

  const PosixProgram& program_;
  std::vector<World> next_;
  std::size_t wakes_for_nothing_ = 0;  // of these
};

}  // namespace

PosixOutcomes explore_posix(const PosixProgram& program, std::size_t states_most) {
  return Machine(program).explore(states_most);
}

}  // namespace crashcut::tests
