#include "tests/posix_core.h"

#include <algorithm>
#include <cerrno>

#include "scheduler/passing_time.h"
#include "scheduler/primitives/barrier.h"
#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/condition.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/once.h"
#include "scheduler/primitives/rwlock.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/signal.h"
#include "scheduler/primitives/stir.h"
#include "scheduler/primitives/thread.h"
#include "scheduler/primitives/timer.h"

namespace crashcut::tests {

using namespace scheduler;

namespace {

ObjectId object(PrimitiveId primitive, int number) {
  return make_object_id(primitive, 1 + static_cast<std::uint32_t>(primitive) * 4 + static_cast<std::uint32_t>(number));
}

constexpr int kProcess = 3;  // among the objects of signals: the threads have the others
constexpr std::int64_t kNumbers[kPosixObjects] = {10, 12};

struct OutcomeNote : ExecutionNote {
  std::string text;
};

// A thread on its way through its calls. After each operation it runs on to the next.
struct CoreActor : TimedActor {
  int number = 0;
  const std::vector<PosixCall>* calls = nullptr;
  std::size_t at = 0;
  int step = 0;  // operations of this call so far
  std::int64_t wait_result = 0, generation = 0;
  bool is_cancelled = false, is_over = false;
  int held[kPosixObjects] = {}, reads[kPosixObjects] = {}, writes[kPosixObjects] = {};
  PosixThreadEnd end;
  // Signals: what it blocks, what its handlers counted. After a handler it looks for more that has come ("settles"). A
  // wait that a handler interrupts first tries whether it has to wait at all.
  std::int64_t mask = 0;
  int handled = 0;
  bool is_settling = false, is_trying = false, has_tried = false, ends_settled = false;
  std::int64_t tried = 0;  // what came of it
};

class Run {
 public:
  Run(const PosixProgram& program, const RunRequest& request) : program_(program), director_(request) {
    declare();
    state_ = State(execution_.objects);
    actors_.reserve(64);
    for (std::size_t t = 0; t < program.threads.size(); ++t) {
      CoreActor& actor = add_actor();
      actor.number = static_cast<int>(t);
      actor.calls = &program.threads[t];
      actor.end.results.assign(actor.calls->size(), kPosixNone);
      for (const PosixCall& call : *actor.calls) is_cancelling_ = is_cancelling_ || call.what == 'x';
    }
    has_signals_ = has_signals(program);
    for (int t = 0; t < static_cast<int>(program.threads.size()); ++t) add_beside(t);
  }

  Execution run() {
    std::vector<TimedActor*> timed;
    for (CoreActor& actor : actors_) {
      timed.push_back(&actor);
      if (!actor.is_timer) run_on(actor);
    }
    while (true) {
      let_time_pass(state_, timed, [] { return std::uint64_t{0}; });
      execution_.pending.clear();
      for (const CoreActor& actor : actors_) {
        if (actor.has_pending) execution_.pending.push_back({actor.id, actor.pending});
      }
      const auto chosen = director_.choose(state_, execution_.pending);
      if (!chosen) break;
      CoreActor& actor = actors_[index(*chosen)];
      Step step{actor.id, actor.pending};
      state_.apply(step);
      director_.note(step, state_);
      execution_.steps.push_back(step);
      if (actor.is_timer) continue;
      actor.has_pending = false;
      digest(actor, step.operation);
      run_on(actor);
    }
    execution_.passed_over = director_.passed_over();
    execution_.ending = director_.ending();
    execution_.hit_depth = director_.hit_depth();
    note_outcome();
    return std::move(execution_);
  }

 private:
  void declare() {
    for (int i = 0; i < kPosixObjects; ++i) {
      const PosixMutex kind = program_.mutexes[static_cast<std::size_t>(i)];
      const std::int64_t type = kind == PosixMutex::kRecursive    ? mutex::kRecursive
                                : kind == PosixMutex::kErrorCheck ? mutex::kErrorCheck
                                                                  : mutex::kNormal;
      execution_.objects.push_back(
          {object(PrimitiveId::kMutex, i), type + (kind == PosixMutex::kRobust ? std::int64_t{mutex::kRobust} : 0)});
      execution_.objects.push_back({object(PrimitiveId::kRwLock, i)});
      execution_.objects.push_back(
          {object(PrimitiveId::kSemaphore, i), program_.semaphores[static_cast<std::size_t>(i)]});
      execution_.objects.push_back({object(PrimitiveId::kBarrier, i), program_.barriers[static_cast<std::size_t>(i)]});
      execution_.objects.push_back({object(PrimitiveId::kOnce, i)});
      execution_.objects.push_back({object(PrimitiveId::kCondition, i)});
    }
    for (int t = 0; t < static_cast<int>(program_.threads.size()); ++t) {
      execution_.objects.push_back({object(PrimitiveId::kThread, t), thread::kStarted});
      execution_.objects.push_back({object(PrimitiveId::kTimer, t), timer::kIdle, 100});
      execution_.objects.push_back({object(PrimitiveId::kStir, t), program_.spurious_most});
      execution_.objects.push_back({object(PrimitiveId::kCancellation, t)});
      execution_.objects.push_back({object(PrimitiveId::kSignal, t), 1});
    }
    execution_.objects.push_back(
        {object(PrimitiveId::kSignal, kProcess), static_cast<std::int64_t>(program_.threads.size())});
  }
  CoreActor& add_actor() {
    actors_.emplace_back();
    actors_.back().id = static_cast<ActorId>(actors_.size() - 1);
    return actors_.back();
  }
  void add_beside(int t) {
    const auto add = [&](const Operation& operation) {
      CoreActor& actor = add_actor();
      actor.is_timer = actor.has_pending = true;
      actor.pending = operation;
    };
    add(timer::access(object(PrimitiveId::kTimer, t), timer::kFire));
    for (int c = 0; c < kPosixObjects; ++c) {
      add(Operation(timer::access(object(PrimitiveId::kTimer, t), timer::kFire, 1 + c))
              .add(condition::time_out(object(PrimitiveId::kCondition, c), static_cast<ActorId>(t))));
    }
    add(stir::access(object(PrimitiveId::kStir, t), stir::kStir));
    add(cancellation::access(object(PrimitiveId::kCancellation, t), cancellation::kAct));
    if (has_signals_) add(signal::delivery(object(PrimitiveId::kSignal, kProcess), object(PrimitiveId::kSignal, t), t));
  }

  // --- what a thread stands before
  bool is_defined(const CoreActor& a, const PosixCall& call) const {
    const auto i = static_cast<std::size_t>(call.object);
    switch (call.what) {
      case 'u':
      case '+':
        return a.held[i] > 0;
      case 'U':
        return program_.mutexes[i] != PosixMutex::kNormal;
      case '!':
        return program_.mutexes[i] == PosixMutex::kRobust && a.held[i] > 0;
      case 'r':
      case 'R':
        return a.writes[i] == 0;
      case 'w':
      case 'W':
        return a.writes[i] == 0 && a.reads[i] == 0;
      case 'v':
        return a.writes[i] > 0 || a.reads[i] > 0;
      case 'c':
      case 'C':
        return a.held[0] == 1 || (a.held[0] == 0 && program_.mutexes[0] == PosixMutex::kErrorCheck);
      case 'j':
      case 'J':
      case 'k':
        return !is_joined_[i];
      case 'x':
      case 'K':
      case 'L':
        return a.number != 0 || !is_joined_[i];
      case 'm':
        return (a.mask & signal::bit_of(kNumbers[i])) == 0;
      case 'M':
      case 'S':
      case 'Z':
        return (a.mask & signal::bit_of(kNumbers[i])) != 0;
      default:
        return true;
    }
  }
  void finish(CoreActor& a, std::int64_t result) {
    a.end.results[a.at++] = static_cast<int>(result) + a.handled;
    a.step = 0;
  }
  void run_on(CoreActor& a) {
    if (a.is_trying) return stand_before(a, attempt(a));
    if (a.is_settling) return stand_before(a, about(a, signal::kSetMask, a.mask));
    while (!a.has_pending && a.at < a.calls->size()) {
      const PosixCall& call = (*a.calls)[a.at];
      if (a.step == 0 && !is_defined(a, call))
        ++a.at;
      else if (call.what == '+')
        finish(a, variables_[call.object]++);
      else
        stand_before(a, operation_of(a, call));
    }
    if (!a.has_pending && !a.is_over) come_to_end(a);
  }
  void stand_before(CoreActor& a, const Operation& operation) const {
    a.pending = operation;
    a.has_pending = true;
    if (!has_signals_) return;
    const ObjectId own = object(PrimitiveId::kSignal, a.number);
    const Access& first = operation[0];
    if (primitive_of(first.object) == PrimitiveId::kThread && first.verb == thread::kExit) {
      a.pending.add(about(a, signal::kRemoveThread)).add({own, signal::kShut});
    } else if (first.object != own) {
      a.pending.add({own, signal::kPass});
    }
  }
  static Access about(const CoreActor& a, signal::Verb verb, std::int64_t argument = 0) {
    return signal::about(object(PrimitiveId::kSignal, kProcess), verb, a.number, argument);
  }
  // The wait that was interrupted, without waiting.
  Operation attempt(const CoreActor& a) const {
    const PosixCall& call = (*a.calls)[a.at];
    if (call.what == 'p' || call.what == 'Q')
      return semaphore::access(object(PrimitiveId::kSemaphore, call.object), semaphore::kTryWait);
    Access wait = about(a, signal::kWait, signal::bit_of(kNumbers[call.object]));
    wait.order = 1;
    Operation operation(wait);
    return call.what == 'Z' ? operation.add(own(a, timer::kTake)) : operation;
  }
  // sigwait() and sigtimedwait().
  Operation signal_wait_operation(const CoreActor& a, const PosixCall& call) const {
    const std::int64_t set = signal::bit_of(kNumbers[call.object]);
    // Once it expects a signal, a handler ends the wait: nothing comes between the two.
    const int armed = call.what == 'Z' ? 1 : 0;
    if (a.step < armed) return own(a, timer::kArm);
    if (a.step == armed) return about(a, signal::kExpect, set);
    Operation wait(about(a, signal::kWait, set));
    return call.what == 'Z' ? wait.add(own(a, timer::kTake)) : wait;
  }
  Operation send_operation(const CoreActor& a, const PosixCall& call) const {
    const ObjectId process = object(PrimitiveId::kSignal, kProcess);
    switch (call.what) {
      case 'm':
        return about(a, signal::kSetMask, a.mask | signal::bit_of(kNumbers[call.object]));
      case 'M':
        return about(a, signal::kSetMask, a.mask & ~signal::bit_of(kNumbers[call.object]));
      case 'P':
        return signal::about(process, signal::kSend, signal::kAnyThread, kNumbers[call.object]);
      default:
        return signal::about(process, signal::kSend, call.object, kNumbers[call.what == 'K' ? 0 : 1]);
    }
  }
  void come_to_end(CoreActor& a) {
    for (int m = 0; m < kPosixObjects; ++m) {
      if (a.held[m] == 0) continue;
      if (a.is_cancelled) return stand_before(a, mutex::access(object(PrimitiveId::kMutex, m), mutex::kUnlock));
      if (program_.mutexes[static_cast<std::size_t>(m)] == PosixMutex::kRobust)
        return stand_before(a, mutex::access(object(PrimitiveId::kMutex, m), mutex::kAbandon));
    }
    for (int l = 0; l < kPosixObjects && a.is_cancelled; ++l) {
      if (a.reads[l] + a.writes[l] > 0)
        return stand_before(a, rwlock::access(object(PrimitiveId::kRwLock, l), rwlock::kUnlock));
    }
    stand_before(a, thread::access(object(PrimitiveId::kThread, a.number), thread::kExit));
  }

  Access own(const CoreActor& a, timer::Verb verb, std::int64_t what = 0) const {
    return timer::access(object(PrimitiveId::kTimer, a.number), verb, what);
  }
  Access own(const CoreActor& a, cancellation::Verb verb) const {
    return cancellation::access(object(PrimitiveId::kCancellation, a.number), verb);
  }
  // The operations of a timed wait, a cancellation point or not.
  Operation in_turn(const CoreActor& a, const Operation& wait, bool is_timed, bool is_point) const {
    const int entered = is_point && is_cancelling_ ? 1 : 0;
    if (a.step < entered) return own(a, cancellation::kEnter);
    if (is_timed && a.step == entered) return own(a, timer::kArm);
    Operation operation = wait;
    if (is_timed) operation.add(own(a, timer::kTake));
    if (entered != 0) operation.add(own(a, cancellation::kLeave));
    return operation;
  }
  Operation operation_of(const CoreActor& a, const PosixCall& call) const {
    const ObjectId m = object(PrimitiveId::kMutex, call.object), l = object(PrimitiveId::kRwLock, call.object),
                   s = object(PrimitiveId::kSemaphore, call.object);
    const ObjectId b = object(PrimitiveId::kBarrier, call.object), o = object(PrimitiveId::kOnce, call.object),
                   t = object(PrimitiveId::kThread, call.object);
    switch (call.what) {
      case 'l':
        return mutex::access(m, mutex::kLock);
      case 't':
        return mutex::access(m, mutex::kTryLock);
      case 'T':
        return in_turn(a, mutex::access(m, mutex::kTimedLock), true, false);
      case 'u':
      case 'U':
        return mutex::access(m, mutex::kUnlock);
      case '!':
        return mutex::access(m, mutex::kConsistent);
      case 'r':
        return rwlock::access(l, rwlock::kRead);
      case 'w':
        return rwlock::access(l, rwlock::kWrite);
      case 'a':
        return rwlock::access(l, rwlock::kTryRead);
      case 'b':
        return rwlock::access(l, rwlock::kTryWrite);
      case 'R':
        return in_turn(a, rwlock::access(l, rwlock::kTimedRead), true, false);
      case 'W':
        return in_turn(a, rwlock::access(l, rwlock::kTimedWrite), true, false);
      case 'v':
        return rwlock::access(l, rwlock::kUnlock);
      case 'S':
      case 'Z':
        return signal_wait_operation(a, call);
      case 'K':
      case 'L':
      case 'P':
      case 'm':
      case 'M':
        return send_operation(a, call);
      case 'p':
        // A signal that comes here came before the call.
        if (has_signals_ && a.step == 0) return Access{object(PrimitiveId::kSignal, a.number), signal::kPass};
        return in_turn(a, semaphore::access(s, semaphore::kWait), false, true);
      case 'Q':
        return in_turn(a, semaphore::access(s, semaphore::kTimedWait), true, true);
      case 'q':
        return semaphore::access(s, semaphore::kTryWait);
      case 's':
        return semaphore::access(s, semaphore::kPost);
      case 'g':
        return semaphore::access(s, semaphore::kGetValue);
      case 'B':
        return a.step == 0 ? barrier::access(b, barrier::kArrive) : barrier::access(b, barrier::kLeave, a.generation);
      case 'o':
      case 'O':
        return once_operation(a, call, o);
      case 'c':
      case 'C':
        return wait_operation(a, call);
      case 'n':
        return condition::access(object(PrimitiveId::kCondition, call.object), condition::kSignal);
      case 'N':
        return condition::access(object(PrimitiveId::kCondition, call.object), condition::kBroadcast);
      case 'j':
        return in_turn(a, thread::access(t, thread::kJoin), false, true);
      case 'J':
        return in_turn(a, thread::access(t, thread::kTimedJoin), true, true);
      case 'k':
        return thread::access(t, thread::kTryJoin);
      case 'x':
        return cancellation::access(object(PrimitiveId::kCancellation, call.object), cancellation::kRequest);
      default:
        return own(a, cancellation::kHeed);
    }
  }
  // Begin; where it has to wait for the semaphore, that, from step 1; then the end, or to give up.
  Operation once_operation(const CoreActor& a, const PosixCall& call, ObjectId o) const {
    if (a.step == 0) return once::access(o, once::kBegin);
    if (a.step == kGivingUp) return once::access(o, once::kGiveUp);
    if (call.what == 'o' || a.step == kEnding) return once::access(o, once::kEnd);
    CoreActor inner = a;
    --inner.step;
    return in_turn(inner, semaphore::access(object(PrimitiveId::kSemaphore, 0), semaphore::kWait), false, true);
  }
  // Arm, offer, enqueue, wake, lock: steps 0 to 4.
  Operation wait_operation(const CoreActor& a, const PosixCall& call) const {
    const ObjectId c = object(PrimitiveId::kCondition, call.object), m = object(PrimitiveId::kMutex, 0),
                   s = object(PrimitiveId::kStir, a.number);
    const bool has_stir = stir::left(state_.object(s)) > 0 || stir::stage(state_.object(s)) != stir::kClosed;
    if (a.held[0] == 0) return mutex::access(m, mutex::kUnlock);
    if (a.step == 0 && call.what == 'C') return own(a, timer::kArm, 1 + call.object);
    if (a.step <= 1 && has_stir && stir::stage(state_.object(s)) == stir::kClosed) return stir::access(s, stir::kOffer);
    if (a.step <= 2) {
      Operation enqueue = Operation(condition::enqueue(c, a.id)).add(mutex::access(m, mutex::kUnlock));
      if (has_stir) enqueue.add(stir::access(s, stir::kHeed));
      return is_cancelling_ ? enqueue.add(own(a, cancellation::kEnter)) : enqueue;
    }
    if (a.step == 4) return mutex::access(m, mutex::kLock);
    Operation wake(condition::access(c, condition::kWake));
    if (call.what == 'C') wake.add(own(a, timer::kTake));
    return is_cancelling_ ? wake.add(own(a, cancellation::kLeave)) : wake.add(mutex::access(m, mutex::kLock));
  }

  // --- what came of it
  static bool is_ended_by(const Operation& operation) {
    return std::any_of(operation.begin(), operation.end(), [](const Access& x) {
      return primitive_of(x.object) == PrimitiveId::kCancellation && x.verb != cancellation::kRequest &&
             x.result == ECANCELED;
    });
  }
  static void cancel(CoreActor& a) {
    a.end.results[a.at] = ECANCELED;
    a.is_cancelled = true;
    a.at = a.calls->size();
  }
  static void note_handled(CoreActor& a, std::int64_t taken) {
    a.handled += kPosixHandled[(taken & 0xff) == kNumbers[0] ? 0 : 1];
    a.is_settling = true;
  }
  // False: what was done has to do with no signal.
  bool digest_signals(CoreActor& a, const Operation& done) {
    const Access& first = done[0];
    const bool is_of_signals = primitive_of(first.object) == PrimitiveId::kSignal;
    if (done.is_interrupted()) {
      note_handled(a, done[done.size() - 1].result);
      const bool waits_for_signal = is_of_signals && first.verb == signal::kWait;
      const bool waits_for_semaphore = primitive_of(first.object) == PrimitiveId::kSemaphore &&
                                       (first.verb == semaphore::kWait || first.verb == semaphore::kTimedWait);
      if (!a.is_trying && (waits_for_signal || waits_for_semaphore)) a.is_trying = true;
      return true;
    }
    if (a.is_trying) {
      a.is_trying = false;
      a.has_tried = true;
      a.tried = is_of_signals ? (first.result == 0 ? EINTR : 0) : (first.result == 0 ? 0 : EINTR);
      return true;
    }
    if (a.is_settling) {
      if (first.result > 0) return note_handled(a, first.result), true;
      a.is_settling = false;
      if (a.ends_settled) finish(a, 0);
      if (a.has_tried) end_interrupted(a);
      a.ends_settled = a.has_tried = false;
      return true;
    }
    if (!is_of_signals) return false;
    switch (first.verb) {
      case signal::kPass:
      case signal::kExpect:
        ++a.step;
        return true;
      case signal::kWait:
        return finish(a, first.result > 0 ? 0 : EAGAIN), true;
      case signal::kSetMask:
        a.mask = first.argument;
        break;
      default:
        break;
    }
    if ((first.result & 0xff) == 0) return finish(a, 0), true;
    note_handled(a, first.result);
    a.ends_settled = true;
    return true;
  }
  // sigwait() waits again.
  void end_interrupted(CoreActor& a) {
    if (a.tried != 0 && (*a.calls)[a.at].what == 'S')
      a.step = 0;
    else
      finish(a, a.tried);
  }
  void digest(CoreActor& a, const Operation& done) {
    if (has_signals_ && digest_signals(a, done)) return;
    const Access& first = done[0];
    if (a.at == a.calls->size()) return digest_end(a, first);
    const PosixCall& call = (*a.calls)[a.at];
    const std::int64_t result = first.result;
    if (call.what == 'c' || call.what == 'C') return digest_wait(a, done);
    if (call.what == 'o' || call.what == 'O') return digest_once(a, call, done);
    if (is_ended_by(done)) return cancel(a);
    if (primitive_of(first.object) == PrimitiveId::kTimer ||
        (primitive_of(first.object) == PrimitiveId::kCancellation && first.verb == cancellation::kEnter)) {
      ++a.step;
      return;
    }
    const int i = call.object;
    const bool is_taken = result == 0 || result == EOWNERDEAD;
    switch (call.what) {
      case 'l':
      case 't':
      case 'T':
        a.held[i] += is_taken ? 1 : 0;
        break;
      case 'u':
      case 'U':
        a.held[i] -= result == 0 ? 1 : 0;
        break;
      case 'r':
      case 'a':
      case 'R':
        a.reads[i] += result == 0 ? 1 : 0;
        break;
      case 'w':
      case 'b':
      case 'W':
        a.writes[i] += result == 0 ? 1 : 0;
        break;
      case 'v':
        --(a.writes[i] > 0 ? a.writes[i] : a.reads[i]);
        return finish(a, 0);
      case 'B':
        if (a.step++ == 0) return void(a.generation = result);
        serials_ += static_cast<int>(result);
        return finish(a, 0);
      case 'j':
      case 'J':
      case 'k':
        if (result != 0) break;
        is_joined_[i] = true;
        return finish(a, actors_[static_cast<std::size_t>(i)].is_cancelled ? 1 : 0);
      default:
        break;
    }
    finish(a, result);
  }
  void digest_once(CoreActor& a, const PosixCall& call, const Operation& done) {
    const Access& first = done[0];
    if (a.step == kGivingUp) return cancel(a);
    if (is_ended_by(done)) return void(a.step = kGivingUp);
    if (primitive_of(first.object) == PrimitiveId::kOnce) {
      if (first.verb == once::kEnd) return finish(a, 1);
      if (first.result == once::kIsDone) return finish(a, 0);
      a.step = call.what == 'o' ? kEnding : 1;
      return;
    }
    a.step = primitive_of(first.object) == PrimitiveId::kSemaphore ? kEnding : a.step + 1;
  }
  void digest_wait(CoreActor& a, const Operation& done) {
    const Access& first = done[0];
    switch (primitive_of(first.object)) {
      case PrimitiveId::kTimer:
        a.step = 1;
        return;
      case PrimitiveId::kStir:
        a.step = 2;
        return;
      case PrimitiveId::kMutex:
        if (a.held[0] == 0 && a.step == 0) return finish(a, first.result);
        return end_wait(a, first.result);
      default:
        break;
    }
    if (first.verb == condition::kEnqueue) {
      a.step = 3;
      return;
    }
    a.wait_result = first.result == condition::kWokeForNothing ? 0 : first.result;
    a.step = 4;
    if (is_cancelling_) return;
    const auto is_lock = [](const Access& x) { return primitive_of(x.object) == PrimitiveId::kMutex; };
    end_wait(a, std::find_if(done.begin(), done.end(), is_lock)->result);
  }
  void end_wait(CoreActor& a, std::int64_t locked) {
    if (locked == ENOTRECOVERABLE) a.held[0] = 0;
    if (a.wait_result == ECANCELED) return cancel(a);
    finish(a, locked != 0 ? locked : a.wait_result);
  }
  static void digest_end(CoreActor& a, const Access& first) {
    const auto number = static_cast<int>((index(first.object) - 1) % 4);
    if (primitive_of(first.object) == PrimitiveId::kMutex)
      a.held[number] -= first.verb == mutex::kAbandon ? a.held[number] : 1;
    if (primitive_of(first.object) == PrimitiveId::kRwLock)
      --(a.writes[number] > 0 ? a.writes[number] : a.reads[number]);
    if (primitive_of(first.object) != PrimitiveId::kThread) return;
    a.is_over = true;
    a.end.how = a.is_cancelled ? 'C' : 'E';
  }

  void note_outcome() {
    std::vector<PosixThreadEnd> ends;
    for (const CoreActor& actor : actors_) {
      if (!actor.is_timer) ends.push_back(actor.end);
    }
    auto note = std::make_shared<OutcomeNote>();
    note->text = posix_outcome_text(ends, serials_);
    execution_.note = note;
  }

  static constexpr int kEnding = 10, kGivingUp = 11;

  const PosixProgram& program_;
  Director director_;
  Execution execution_;
  State state_;
  std::vector<CoreActor> actors_;
  bool is_cancelling_ = false, has_signals_ = false, is_joined_[4] = {};
  int variables_[kPosixObjects] = {}, serials_ = 0;
};

}  // namespace

Execution PosixCore::run(const RunRequest& request) { return Run(*program_, request).run(); }

std::string core_outcome(const Execution& execution) {
  const auto* note = dynamic_cast<const OutcomeNote*>(execution.note.get());
  return note == nullptr ? "no note" : note->text;
}

}  // namespace crashcut::tests
