// The reductions against the oracle, on random small programs: the same outcomes, and, for the optimal one, exactly
// one execution a class and none in vain. Classes are counted by brute force, over all schedules.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "scheduler/dependence.h"
#include "scheduler/happens_before.h"
#include "scheduler/hash.h"
#include "scheduler/order.h"
#include "scheduler/primitives/assume.h"
#include "scheduler/primitives/barrier.h"
#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/channel.h"
#include "scheduler/primitives/condition.h"
#include "scheduler/primitives/file.h"
#include "scheduler/primitives/futex.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/once.h"
#include "scheduler/primitives/process.h"
#include "scheduler/primitives/rwlock.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/signal.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/primitives/stir.h"
#include "scheduler/primitives/thread.h"
#include "scheduler/primitives/timer.h"
#include "scheduler/primitives/two_writers.h"
#include "scheduler/primitives/variable.h"
#include "scheduler/search.h"
#include "tests/script_program.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

using namespace scheduler;

struct Found {
  std::set<std::string> outcomes, classes;
  std::uint64_t executions = 0, asleep = 0;
  bool is_whole = false, hit_depth = false, hit_timeouts = false;
};

// Timed waits that may be early only so often are all there is of a program of this kind: such a search is whole.
bool is_all(Bound bound) { return bound == Bound::kNone || bound == Bound::kTimeouts; }

// The order by its definition: what depends, and what follows from that.
void check_order(const std::vector<Step>& steps) {
  const Order order(steps);
  std::vector<std::vector<bool>> is_before(steps.size(), std::vector<bool>(steps.size(), false));
  for (std::size_t j = 0; j < steps.size(); ++j) {
    is_before[j][j] = true;
    for (std::size_t k = j; k-- > 0;) {
      if (steps[k].actor != steps[j].actor && !are_dependent(steps[k].operation, steps[j].operation)) continue;
      for (std::size_t i = 0; i <= k; ++i) is_before[i][j] = is_before[i][j] || is_before[i][k];
    }
    for (std::size_t i = 0; i <= j; ++i) ASSERT_EQ(order.is_before(i, j), is_before[i][j]) << i << " and " << j;
  }
}

Found explore(ScriptProgram& program, ReductionName reduction, std::size_t workers = 1, bool has_foresight = false,
              std::uint32_t depth_most = 0) {
  Found found;
  SearchSetup setup;
  setup.reduction = reduction;
  setup.has_foresight = has_foresight;
  setup.bounds.executions_most = 8'000;
  setup.bounds.depth_most = depth_most;
  setup.on_execution = [&](const Execution& execution) {
    found.outcomes.insert(outcome_of(execution));
    found.classes.insert(class_of(execution.steps));
    check_order(execution.steps);
    return true;
  };
  const SearchResult result = search_with(program, setup, workers);
  EXPECT_FALSE(result.diverged);
  found.executions = result.executions;
  found.asleep = result.asleep;
  found.is_whole = is_all(result.bound);
  found.hit_timeouts = result.rest.hit_timeouts;
  found.hit_depth = result.bound == Bound::kSteps;
  return found;
}

// Classes under swaps that look at the state, by brute force: `schedules` are all there are.
class SwapClasses {
 public:
  void add(const Execution& execution) { schedules_.push_back(execution); }
  std::uint64_t count() {
    std::map<std::string, std::size_t> index;
    for (std::size_t i = 0; i < schedules_.size(); ++i) index[text(schedules_[i].steps)] = i;
    parent_.resize(schedules_.size());
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
    std::uint64_t left = index.size();
    for (const auto& [key, i] : index) {
      for (std::vector<Step>& swapped : swaps_of(schedules_[i])) {
        const std::size_t a = root(i), b = root(index.at(text(swapped)));
        if (a != b) parent_[a] = b, --left;
      }
    }
    return left;
  }

 private:
  static std::string text(const std::vector<Step>& steps) {
    std::string t;
    for (const Step& s : steps) t += std::to_string(scheduler::index(s.actor)) + ",";
    return t;
  }
  // Neighbours that give the same results and the same state in either order, where one is a semaphore's.
  static std::vector<std::vector<Step>> swaps_of(const Execution& execution) {
    std::vector<std::vector<Step>> all;
    State state(execution.objects);
    for (std::size_t k = 0; k + 1 < execution.steps.size(); ++k) {
      Step x = execution.steps[k], y = execution.steps[k + 1];
      if (x.actor != y.actor && commute(state, x, y)) {
        all.push_back(execution.steps);
        std::swap(all.back()[k], all.back()[k + 1]);
      }
      state.apply(x);
    }
    return all;
  }
  static bool commute(const State& state, const Step& x, const Step& y) {
    const bool is_semaphores = primitive_of(x.operation[0].object) == PrimitiveId::kSemaphore &&
                               x.operation.size() == 1 && y.operation.size() == 1 &&
                               x.operation[0].object == y.operation[0].object;
    if (!is_semaphores) return !are_dependent(x.operation, y.operation);
    const auto plain = [](const Step& s) {
      return s.operation[0].verb == semaphore::kWait || s.operation[0].verb == semaphore::kPost;
    };
    if (!plain(x) || !plain(y)) return !are_dependent(x.operation, y.operation);
    State swapped = state;
    if (!swapped.is_enabled(y.actor, y.operation)) return false;
    Step a = y, b = x;
    swapped.apply(a);
    return swapped.is_enabled(b.actor, b.operation);
  }
  std::size_t root(std::size_t i) { return parent_[i] == i ? i : parent_[i] = root(parent_[i]); }

  std::vector<Execution> schedules_;
  std::vector<std::size_t> parent_;
};

// Random programs. `families` are bits: which primitives may occur.
enum Family : unsigned {
  kVariables = 1,
  kMutexes = 2,
  kSemaphores = 4,
  kConditions = 8,
  kBarriers = 16,
  kRwLocks = 32,
  kOnces = 64,
  kTries = 128,
  kFailures = 256,
  kTimers = 512,
  kTwoWriters = 1024,
  kOrdered = 2048,
  kLoops = 4096,
  kThreads = 8192,
  kMemory = 16384,
  kCancels = 32768,
  kPassing =
      65536,  // time passes for want of others: timed waits may run out early only so often, and there are sleeps
  kFutexes = 1 << 17,
  kRobust = 1 << 18,
  kAssumes = 1 << 19,
  kDestroys = 1 << 20,
  kJoins = 1 << 21,
  kFiles = 1 << 22,
  kChannels = 1 << 23,
  kSignals = 1 << 24,
};
constexpr std::uint32_t kFamilyCount = 25;

class Generator {
 public:
  Generator(std::uint64_t seed, unsigned families) : random_(seed), families_(families) {}

  ScriptProgram make() {
    ScriptProgram program;
    const std::size_t actors = pick(6) == 0 ? 4 : 2 + pick(2);
    actor_count_ = actors;
    for (std::uint32_t i = 0; i < 2; ++i) {
      program.objects.push_back({id(PrimitiveId::kVariable, i), 0});
      const std::int64_t kind = pick(4) == 0 ? mutex::kErrorCheck : pick(4) == 0 ? mutex::kRecursive : mutex::kNormal;
      const bool is_robust = (families_ & kRobust) != 0;
      const bool is_ordered = (families_ & kOrdered) != 0;
      policy_[i] = is_ordered ? 1 + static_cast<std::int64_t>(pick(2)) : 0;
      program.objects.push_back(
          {id(PrimitiveId::kMutex, i), kind + policy_[i] * mutex::kPolicy + std::int64_t{is_robust} * mutex::kRobust});
      program.objects.push_back({id(PrimitiveId::kSemaphore, i), static_cast<std::int64_t>(pick(3)), 0, policy_[i]});
      program.objects.push_back({id(PrimitiveId::kCondition, i), 0, 0, policy_[i]});
      program.objects.push_back({id(PrimitiveId::kBarrier, i), actors > 2 && pick(3) == 0 ? 3 : 2});
      preference_[i] = is_ordered ? std::int64_t{rwlock::kInLine} + pick(2) : std::int64_t{pick(3)};
      program.objects.push_back({id(PrimitiveId::kRwLock, i), preference_[i]});
      program.objects.push_back({id(PrimitiveId::kTwoWriters, i)});
      program.objects.push_back({id(PrimitiveId::kOnce, i)});
      program.objects.push_back({id(PrimitiveId::kMemory, i)});
      program.objects.push_back({id(PrimitiveId::kFutex, i), 0, 0, policy_[i]});
      program.objects.push_back({id(PrimitiveId::kFile, i)});
    }
    for (std::uint32_t i = 0; i < 2 * actors; ++i) {
      // Where time passes for want of others, timers are seldom early.
      program.objects.push_back(
          {id(PrimitiveId::kTimer, i), timer::kIdle, (families_ & kPassing) == 0 || pick(4) == 0 ? 1 : 0});
      program.objects.push_back({id(PrimitiveId::kStir, i), 1});
      program.objects.push_back({id(PrimitiveId::kSpin, i)});
      program.objects.push_back({id(PrimitiveId::kCancellation, i)});
      program.objects.push_back(
          {id(PrimitiveId::kThread, i), (families_ & kThreads) != 0 && i > 0 ? thread::kNone : thread::kStarted});
    }
    program.objects.push_back({channels()});
    const bool has_threads = (families_ & kThreads) != 0;
    program.objects.push_back({signals_of_process(), has_threads ? 1 : static_cast<std::int64_t>(actors)});
    for (std::uint32_t i = 0; i < actors; ++i) program.objects.push_back({signals_of(i), has_threads && i > 0 ? 0 : 1});
    for (std::uint32_t i = 0; i < actors; ++i) {
      self_ = i;
      has_timer_ = is_stirred_ = is_cancellable_ = false;
      std::fill(std::begin(is_timed_), std::end(is_timed_), false);
      Script script;
      if ((families_ & kThreads) != 0) begin_thread(script);
      if ((families_ & kChannels) != 0 && i == 0) open_channels(script);
      const std::size_t begun = script.size();
      const std::size_t size = actors == 2 ? 2 + pick(3) : actors == 3 ? 1 + pick(3) : 1 + pick(2);
      while (script.size() < size + begun) add(script);
      if ((families_ & kThreads) != 0) end_thread(script);
      if ((families_ & kJoins) != 0) script.push_back(does(thread::access(id(PrimitiveId::kThread, i), thread::kExit)));
      if ((families_ & kSignals) != 0 && pick(3) != 0) {
        script.push_back(does(Operation(signal::about(signals_of_process(), signal::kRemoveThread, i))
                                  .add({signals_of(i), signal::kShut})));
      }
      program.scripts.push_back(script);
      add_beside(program.beside);
      if ((families_ & kSignals) != 0) {
        program.signals_of_threads.push_back(signals_of(i));
        program.beside.push_back(signal::delivery(signals_of_process(), signals_of(i), i));
      }
    }
    if ((families_ & kSignals) != 0) add_handlers(program);
    number_densely(program);
    return program;
  }

 private:
  static ObjectId id(PrimitiveId primitive, std::uint32_t number) {
    // Numbers are dense over all primitives.
    return make_object_id(primitive, 1 + static_cast<std::uint32_t>(primitive) * 8 + number);
  }
  // Objects that no step touches are left out: the oracle copies states all the time.
  static void number_densely(ScriptProgram& program) {
    std::map<ObjectId, ObjectId> renamed;
    const auto rename = [&](ObjectId& object) {
      if (object == file::kCalls) return;
      const auto number = static_cast<std::uint32_t>(renamed.size()) + 1;
      object = renamed.try_emplace(object, make_object_id(primitive_of(object), number)).first->second;
    };
    const auto rename_all = [&](Operation& operation) {
      for (Access& access : operation) rename(access.object);
    };
    for (Script& script : program.scripts) {
      for (Instruction& i : script) rename_all(i.operation);
    }
    for (Operation& operation : program.beside) rename_all(operation);
    for (auto& [number, script] : program.signals.handlers) {
      for (Instruction& i : script) rename_all(i.operation);
    }
    for (ObjectId& object : program.signals_of_threads) rename(object);
    if (!program.signals_of_threads.empty()) rename(program.signals.process);
    std::erase_if(program.objects, [&](const ObjectStart& start) { return !renamed.contains(start.object); });
    for (ObjectStart& start : program.objects) rename(start.object);
  }
  std::uint32_t pick(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  ObjectId any(PrimitiveId primitive) { return id(primitive, pick(2)); }

  // The timers of the actor, one for each thing that it waits for, and what wakes it for nothing.
  void add_beside(std::vector<Operation>& beside) {
    for (std::uint32_t what = 0; what < 3; ++what) {
      if (!is_timed_[what]) continue;
      beside.emplace_back(timer::access(id(PrimitiveId::kTimer, self_), timer::kFire, what));
      if (what > 0)
        beside.back().add(condition::time_out(id(PrimitiveId::kCondition, what - 1), static_cast<ActorId>(self_)));
    }
    if (is_stirred_) beside.emplace_back(stir::access(id(PrimitiveId::kStir, self_), stir::kStir));
    if (is_cancellable_)
      beside.emplace_back(cancellation::access(id(PrimitiveId::kCancellation, self_), cancellation::kAct));
  }
  void arm(Script& script, std::uint32_t what) {
    has_timer_ = is_timed_[what] = true;
    script.push_back(does(timer::access(id(PrimitiveId::kTimer, self_), timer::kArm, what)));
  }
  Access own_cancellation(cancellation::Verb verb) {
    is_cancellable_ = true;
    return cancellation::access(id(PrimitiveId::kCancellation, self_), verb);
  }
  // A wait that is a cancellation point, of so many steps: the thread does without it where it is cancelled before.
  void enter(Script& script, std::size_t steps) {
    script.push_back(does(own_cancellation(cancellation::kEnter)));
    script.push_back(skip_if(ECANCELED, steps));
  }
  Access take() const { return timer::access(id(PrimitiveId::kTimer, self_), timer::kTake); }

  void begin_thread(Script& script) {
    const bool has_signals = (families_ & kSignals) != 0;
    if (self_ != 0) {
      Operation start = thread::access(id(PrimitiveId::kThread, self_), thread::kStart);
      if (has_signals) start.add({signals_of(self_), signal::kLetIn});
      return script.push_back(does(start));
    }
    for (std::uint32_t i = 1; i < actor_count_; ++i) {
      Operation create = thread::access(id(PrimitiveId::kThread, i), thread::kCreate);
      if (has_signals) create.add(signal::about(signals_of_process(), signal::kAddThread, i));
      script.push_back(does(create));
    }
  }
  void end_thread(Script& script) {
    if (self_ != 0) return script.push_back(does(thread::access(id(PrimitiveId::kThread, self_), thread::kExit)));
    for (std::uint32_t i = 1; i < actor_count_; ++i) {
      if (pick(4) != 0) script.push_back(does(thread::access(id(PrimitiveId::kThread, i), thread::kJoin)));
    }
    if (pick(2) == 0) script.push_back(does(process::exit(0)));
  }

  void add(Script& script) {
    while (true) {
      const unsigned family = 1u << pick(kFamilyCount);
      if ((families_ & family) == 0) continue;
      switch (family) {
        case kVariables:
          return add_variable(script);
        case kMutexes:
          return add_mutex(script);
        case kSemaphores:
          return add_semaphore(script);
        case kConditions:
          return add_condition(script);
        case kBarriers: {
          const ObjectId b = any(PrimitiveId::kBarrier);
          script.push_back(does(barrier::access(b, barrier::kArrive)));
          return script.push_back(leaves(b));
        }
        case kRwLocks:
          return add_rwlock(script);
        case kOnces:
          return add_once(script);
        case kTries:
          return add_try(script);
        case kFailures:
          script.push_back(does(variable::access(any(PrimitiveId::kVariable), variable::kRead)));
          return script.push_back(fail_if(pick(2)));
        case kAssumes:
          script.push_back(does(variable::access(any(PrimitiveId::kVariable), variable::kRead)));
          script.push_back(skip_if(pick(2), 1));
          return script.push_back(does(assume::wait()));
        case kFutexes:
          return add_futex(script);
        case kRobust:
          return add_robust(script);
        case kDestroys:
          return add_destroy(script);
        case kJoins:
          return add_join(script);
        case kFiles:
          return add_file_call(script);
        case kChannels:
          return add_channel_call(script);
        case kSignals:
          return add_signal_call(script);
        case kTimers:
          return (families_ & kPassing) != 0 ? add_passing(script) : add_timed(script);
        case kTwoWriters:
          return add_two_writers(script);
        case kMemory:
          return add_memory(script);
        case kCancels:
          return add_cancellation(script);
        case kLoops: {
          const ObjectId s = id(PrimitiveId::kSpin, self_);
          if (pick(4) == 0) return add_opaque(script);
          return script.push_back(does(spin::access(s, pick(2) == 0 ? spin::kYield : spin::kSpin)));
        }
        default:
          continue;
      }
    }
  }

  void add_variable(Script& script) {
    const ObjectId v = any(PrimitiveId::kVariable);
    switch (pick(5)) {
      case 0:
        script.push_back(does(variable::access(v, variable::kWrite, pick(3))));
        break;
      case 1:
        script.push_back(does(variable::access(v, variable::kAdd, 1 + pick(2))));
        break;
      case 2: {
        const auto expected = static_cast<int>(pick(2)), desired = static_cast<int>(pick(3));
        script.push_back(does(variable::compare_exchange(v, expected, desired)));
        break;
      }
      case 3:
        script.push_back(does(variable::access(v, variable::kRead)));
        script.push_back(skip_if(pick(2), 1));
        script.push_back(writes(any(PrimitiveId::kVariable)));
        break;
      default:
        script.push_back(does(variable::access(v, variable::kRead)));
    }
  }

  // The order in which a call's arguments are evaluated is open, so no call has two picks: every compiler makes the
  // same programs.
  Instruction writes(ObjectId v) { return does(variable::access(v, variable::kWrite, pick(3))); }

  struct Place {
    ObjectId memory;
    std::uint8_t offset, bytes;
  };
  // Halves of a word, sometimes the whole, and sometimes a byte or two.
  Place any_place() {
    const ObjectId m = any(PrimitiveId::kMemory);
    const std::uint32_t width = pick(6);
    if (width == 0) return {m, 0, 8};
    if (width == 1) return {m, static_cast<std::uint8_t>(pick(2)), static_cast<std::uint8_t>(1 + pick(2))};
    return {m, static_cast<std::uint8_t>(pick(2) * 4), 4};
  }
  Access accesses(Place p, memory::Verb verb, std::uint32_t values) {
    Access access = memory::access(p.memory, verb, p.offset, p.bytes, pick(values));
    access.order = static_cast<std::uint8_t>(pick(8));  // of relaxed, acquire, release and acquire if the same, any
    return access;
  }
  void add_memory(Script& script) {
    static constexpr memory::Verb kVerbs[] = {memory::kLoad, memory::kStore, memory::kExchange,
                                              memory::kAdd,  memory::kOr,    memory::kAnd,
                                              memory::kXor,  memory::kNand,  memory::kModify};
    const Place p = any_place();
    const std::uint32_t what = pick(13);
    if (what < 9) return script.push_back(does(accesses(p, kVerbs[what], 3)));
    if (what < 11) {
      Access exchange = accesses(p, memory::kCompareExchange, 3);
      exchange.expected = pick(2);
      script.push_back(does(exchange));
      script.push_back(skip_if(memory::kSame, 1));
      return script.push_back(does(accesses(any_place(), memory::kStore, 3)));
    }
    Operation await(accesses(p, memory::kAwait, 2));
    if (pick(2) == 0) await.add(accesses(any_place(), memory::kAwait, 2));
    script.push_back(does(await));
  }

  // A step that commutes with nothing.
  void add_opaque(Script& script) {
    Instruction write = writes(any(PrimitiveId::kVariable));
    write.operation.set_opaque();
    script.push_back(write);
  }

  // The word holds what it should: the rest is memory's business.
  void add_futex(Script& script) {
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

  // Whoever has it may end with it.
  void add_robust(Script& script) {
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

  void add_destroy(Script& script) {
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

  void add_file_call(Script& script) {
    const auto what = static_cast<ScriptFiles::Call>(pick(5));
    const std::uint32_t number = pick(2);
    const std::int64_t value = 1 + pick(2);
    Operation call = file_call(what, number, value);
    const std::uint32_t locks = pick(6);
    const ObjectId lock = any(PrimitiveId::kFile);
    if (locks == 0) call.add({lock, file::kPass});
    if (locks == 1) call.add({lock, file::kAcquire});
    script.push_back(does(call));
    if (locks != 1) {
      if (pick(3) != 0) return;
      script.push_back(skip_if(pick(2), 1));
      return script.push_back(does(file_call(ScriptFiles::kWrite, number, value)));
    }
    Operation end(Access{file::kCalls, file::kGoOn, file_call(what, number, value)[0].argument});
    script.push_back(does(end.add({lock, file::kRelease})));
  }

  // A pipe (descriptors 768 and 769), an eventfd (770) and a set (771): channels 0 to 2.
  static constexpr std::int64_t kFd = channel::kFdFirst;
  static ObjectId channels() { return id(PrimitiveId::kChannel, 0); }
  void open_channels(Script& script) {
    script.push_back(does(channel::open(channels(), channel::kPipe, pick(4))));
    const channel::Kind kind = pick(2) == 0 ? channel::kCounter : channel::kSemaphore;
    const auto amount = static_cast<std::int64_t>(pick(2));
    if (pick(3) != 0)
      script.push_back(does(channel::open(channels(), kind, 0, amount)));
    else
      return;
    if (pick(4) == 0) script.push_back(does(channel::open(channels(), channel::kSet, 0)));
  }
  // Uses a descriptor, and what is to follow is done where it names what it named first.
  void use(Script& script, std::int64_t fd, std::size_t steps) {
    static constexpr std::int64_t kHandles[] = {0, 1, 2, 4};
    Access access{channels(), channel::kUse, fd};
    script.push_back(does(access));
    for (const std::int64_t other : {std::int64_t{-EBADF}, kHandles[0], kHandles[1], kHandles[2], kHandles[3]}) {
      if (other != kHandles[fd - kFd]) script.push_back(skip_if(other, 0));
    }
    // Each jump leads behind what follows.
    for (std::size_t i = 0; i < 4; ++i) script[script.size() - 1 - i].count = i + steps;
  }
  void add_channel_call(Script& script) {
    static constexpr std::int64_t kSizes[] = {1, 2, 4096, 65536};
    const std::int64_t size = kSizes[pick(4)];
    const std::int64_t fd = kFd + pick(4);
    channel::Interest interest;
    switch (pick(10)) {
      case 0:
      case 1:
        use(script, kFd, 1);
        return script.push_back(does(channel::on(channels(), channel::kRead, 0, size)));
      case 2:
      case 3:
        use(script, kFd + 1, 1);
        return script.push_back(does(channel::on(channels(), channel::kWrite, 0, size)));
      case 4:
        use(script, kFd + 2, 1);
        return script.push_back(does(channel::on(channels(), channel::kTake, 1)));
      case 5:
        use(script, kFd + 2, 1);
        return script.push_back(does(channel::on(channels(), channel::kAdd, 1, 1 + pick(2))));
      case 6: {
        Access access{channels(), pick(3) == 0 ? channel::kDuplicate : channel::kClose, fd};
        if (pick(5) == 0) access.verb = channel::kReplace;
        access.expected = access.verb == channel::kReplace ? kFd + pick(4) : 0;
        return script.push_back(does(access));
      }
      case 7: {
        for (std::int64_t handle = 0; handle < 4; ++handle) {
          const std::uint64_t bit = channel::bit_of(handle / 2, static_cast<channel::End>(handle % 2));
          if (pick(2) == 0) interest.looked |= bit;
          if (pick(2) == 0) interest.wanted |= bit & interest.looked;
        }
        Access poll = channel::poll(channels(), interest);
        poll.order = static_cast<std::uint8_t>(pick(2));  // it waits, or tries
        return script.push_back(does(poll));
      }
      case 8: {
        const std::uint32_t what = pick(3);
        use(script, kFd + pick(2), 1);
        const std::int64_t flags = pick(4);
        if (what == 0) return script.push_back(does(channel::on(channels(), channel::kSetFlags, 0, flags)));
        if (what == 1) return script.push_back(does(channel::on(channels(), channel::kResize, 0, 4096)));
        return script.push_back(does(channel::on(channels(), channel::kLook, 0, channel::kAmount)));
      }
      default: {
        use(script, kFd + 3, 2);
        const std::int64_t member = pick(3), wanted = pick(4);
        static constexpr std::int64_t kHows[] = {0, channel::kMember, channel::kMember | channel::kEdgeTriggered,
                                                 channel::kMember | channel::kOneShot};
        script.push_back(
            does(channel::on(channels(), channel::kChangeSet, 2, channel::membership(member, wanted, kHows[pick(4)]))));
        Access poll = channel::on(channels(), channel::kPollSet, 2);
        poll.order = static_cast<std::uint8_t>(pick(2));  // it waits, or tries
        return script.push_back(does(poll));
      }
    }
  }

  static ObjectId signals_of_process() { return id(PrimitiveId::kSignal, 7); }
  static ObjectId signals_of(std::uint32_t actor) { return id(PrimitiveId::kSignal, actor); }
  // A queued one among them.
  static constexpr std::int64_t kNumbers[] = {1, 2, signal::kFirstQueued + 3};
  std::int64_t any_signal() { return kNumbers[pick(5) % 3]; }
  std::int64_t any_set() {
    return (pick(3) != 0 ? signal::bit_of(1) : 0) | (pick(2) == 0 ? signal::bit_of(2) : 0) |
           (pick(4) == 0 ? signal::bit_of(signal::kFirstQueued + 3) : 0);
  }
  void add_signal_call(Script& script) {
    const ObjectId process = signals_of_process();
    const auto any_target = static_cast<std::int64_t>(pick(static_cast<std::uint32_t>(actor_count_) + 1)) - 1;
    const std::int64_t number = any_signal(), set = any_set();
    switch (pick(11)) {
      case 0:
      case 1:
      case 2:
        return script.push_back(does(signal::about(process, signal::kSend, any_target, number)));
      case 3:
      case 4:
        return script.push_back(does(signal::about(process, signal::kSetMask, self_, set)));
      case 5:
        return add_wait_for_signal(script, set);
      case 6:
        return script.push_back(does(signal::about(process, signal::kPending, self_)));
      case 7:
        return script.push_back(does(signal::action(process, number, static_cast<signal::Disposition>(pick(4)), set)));
      case 8:
        return script.push_back(does(Operation(variable::access(any(PrimitiveId::kVariable), variable::kAdd, 1))));
      case 9: {
        Access poll = channel::poll(channels(), {});
        poll.order = pick(3) == 0 ? channel::kTries : 0;
        return script.push_back(
            does_or_fails(Operation(poll).add(signal::about(process, signal::kReadable, self_, set))));
      }
      default:
        return add_wait_with_mask(script, set);
    }
  }
  // sigwait() and its like: forever, for a while, or not at all; mostly of what is blocked.
  void add_wait_for_signal(Script& script, std::int64_t set) {
    const ObjectId process = signals_of_process();
    if (pick(4) != 0) script.push_back(does(signal::about(process, signal::kSetMask, self_, set)));
    const bool is_timed = !has_timer_ && (families_ & kTimers) != 0 && pick(2) == 0;
    const bool is_cancellable = (families_ & kCancels) != 0 && pick(2) == 0;
    if (is_cancellable) enter(script, is_timed ? 3 : 2);
    // Who reads from a signalfd is not asked for by who sends.
    const bool reads = !is_cancellable && pick(3) == 0;
    if (!reads) script.push_back(does(signal::about(process, signal::kExpect, self_, set)));
    if (is_timed) arm(script, 0);
    Access wait = signal::about(process, signal::kWait, self_, set);
    wait.order = pick(4) == 0 ? 1 : 0;  // it tries
    Operation operation(wait);
    if (is_timed) operation.add(take());
    if (is_cancellable) operation.add(own_cancellation(cancellation::kLeave));
    script.push_back(does_or_fails(operation));
  }
  // sigsuspend(), or another wait while something else is blocked.
  void add_wait_with_mask(Script& script, std::int64_t set) {
    Access mask = signal::about(signals_of_process(), signal::kSetMask, self_, set);
    mask.order = 1;
    script.push_back(does(mask));
    const std::int64_t after = any_set();
    if (pick(2) == 0) {
      script.push_back(does_or_fails(Operation(Access{signals_of(self_), signal::kSuspend})));
      return script.push_back(does(signal::about(signals_of_process(), signal::kSetMask, self_, after)));
    }
    const ObjectId s = any(PrimitiveId::kSemaphore);
    script.push_back(does_or_fails(
        Operation(semaphore::access(s, semaphore::kWait)).add({signals_of(self_), signal::kLeave, after})));
    script.push_back(does(signal::about(signals_of_process(), signal::kSetMask, self_, after)));
  }
  // What a handler does others can notice, or not.
  void add_handlers(ScriptProgram& program) {
    program.signals.process = signals_of_process();
    for (const std::int64_t number : kNumbers) {
      Script handler;
      const ObjectId m = any(PrimitiveId::kMutex);
      const auto any_target = static_cast<std::int64_t>(pick(static_cast<std::uint32_t>(actor_count_)));
      switch (pick(8)) {
        case 0:
          if ((families_ & kMutexes) == 0) break;
          handler.push_back(does(mutex::access(m, mutex::kLock)));
          handler.push_back(does(mutex::access(m, mutex::kUnlock)));
          break;
        case 1:
          if ((families_ & kSemaphores) == 0) break;
          handler.push_back(does(semaphore::access(any(PrimitiveId::kSemaphore), semaphore::kPost)));
          break;
        case 2:
          if ((families_ & kConditions) == 0) break;
          handler.push_back(does(condition::access(any(PrimitiveId::kCondition), condition::kSignal)));
          break;
        case 3:
          // Once: what sends the signal again that it handles goes on for good.
          if (number != kNumbers[0]) break;
          handler.push_back(does(signal::about(signals_of_process(), signal::kSend, any_target, kNumbers[1])));
          break;
        case 4:
          if ((families_ & kFailures) == 0) break;
          handler.push_back(does(process::fail(number)));
          break;
        case 5:
        case 6:
          handler.push_back(does(variable::access(any(PrimitiveId::kVariable), variable::kAdd, 1)));
          break;
        default:
          break;
      }
      program.signals.handlers[number] = handler;
    }
  }

  // Anybody may wait for anybody's end, or not.
  void add_join(Script& script) {
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

  // Policies are the same for all objects of a number.
  void get_in_line(Script& script, ObjectId mutex) {
    const std::int64_t policy = policy_[mutex == id(PrimitiveId::kMutex, 0) ? 0 : 1];
    if (policy != kArbitrary) script.push_back(does(mutex::enqueue(mutex, static_cast<Policy>(policy))));
  }
  void add_lock(Script& script, ObjectId mutex) {
    get_in_line(script, mutex);
    script.push_back(does(mutex::access(mutex, mutex::kLock)));
  }
  void add_mutex(Script& script) {
    const ObjectId m = any(PrimitiveId::kMutex);
    add_lock(script, m);
    if (nesting_ < 2 && pick(6) == 0)
      add_nested(script);
    else if (pick(2) == 0)
      add_inner(script);
    if (pick(8) != 0) script.push_back(does(mutex::access(m, mutex::kUnlock)));
  }
  // Whatever there is, while something is held.
  void add_nested(Script& script) {
    ++nesting_;
    add(script);
    --nesting_;
  }
  void add_inner(Script& script) {
    if ((families_ & kVariables) != 0 && pick(2) == 0) return add_variable(script);
    if ((families_ & kSemaphores) != 0 && pick(2) == 0) return add_semaphore(script);
    const ObjectId m = any(PrimitiveId::kMutex);
    add_lock(script, m);
    script.push_back(does(mutex::access(m, mutex::kUnlock)));
  }

  void add_semaphore(Script& script) {
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

  void add_condition(Script& script) {
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

  // With the first mutex, which is locked.
  void add_wait(Script& script, std::uint32_t number, bool is_timed) {
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

  // Requests, and waits that heed them.
  void add_cancellation(Script& script) {
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

  void add_rwlock(Script& script) {
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

  // What readers may do together.
  void add_within(Script& script) {
    if (nesting_ < 2 && pick(6) == 0) return add_nested(script);
    if ((families_ & kSemaphores) != 0 && pick(2) == 0)
      add_semaphore(script);
    else if ((families_ & kVariables) != 0 && pick(3) == 0)
      add_variable(script);
  }

  void add_two_writers(Script& script) {
    const ObjectId l = any(PrimitiveId::kTwoWriters);
    const auto verb = static_cast<two_writers::Verb>(pick(3));
    script.push_back(does(two_writers::access(l, verb)));
    add_within(script);
    script.push_back(
        does(two_writers::access(l, verb == two_writers::kRead ? two_writers::kReadDone : two_writers::kWriteDone)));
  }

  void add_once(Script& script) {
    const ObjectId o = any(PrimitiveId::kOnce);
    script.push_back(does(once::access(o, once::kBegin)));
    script.push_back(skip_if(once::kIsDone, 1));
    script.push_back(does(once::access(o, pick(4) == 0 ? once::kGiveUp : once::kEnd)));
  }

  void add_try(Script& script) {
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

  // One timed wait an actor: its timer is an actor too.
  void add_timed(Script& script) {
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
  void add_timed_wait(Script& script) {
    const ObjectId m = id(PrimitiveId::kMutex, 0);
    add_lock(script, m);
    add_wait(script, pick(2), true);
    script.push_back(does(mutex::access(m, mutex::kUnlock)));
  }

  // Timed waits, as many as there are, and sleeps. Who waited in vain leaves a trace.
  void add_passing(Script& script) {
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

  std::mt19937_64 random_;
  unsigned families_;
  std::uint32_t self_ = 0, nesting_ = 0;
  std::size_t actor_count_ = 0;
  bool has_timer_ = false, is_stirred_ = false, is_cancellable_ = false, is_timed_[3] = {};
  std::int64_t policy_[2] = {}, preference_[2] = {};
};

std::string show(const ScriptProgram& program) {
  std::string text;
  for (const ObjectStart& start : program.objects) {
    if (primitive_of(start.object) == PrimitiveId::kSemaphore)
      text +=
          "semaphore " + std::to_string(index(start.object)) + " = " + std::to_string(semaphore::count(start)) + "\n";
  }
  for (const Script& script : program.scripts) {
    for (const Instruction& i : script) {
      text += i.operation.size() == 0 ? "if " + std::to_string(i.value) : to_text(i.operation);
      for (const Access& a : i.operation) {
        if (a.argument != 0 || a.bytes != 0) text += " (" + std::to_string(a.argument) + ")";
        if (a.bytes != 0)
          text +=
              " for " + std::to_string(a.expected) + " at " + std::to_string(a.offset) + "+" + std::to_string(a.bytes);
      }
      text += "; ";
    }
    text += "\n";
  }
  return text;
}

bool is_same(const State& x, const State& y) {
  bool is = x.object_count() == y.object_count();
  for (std::uint32_t i = 0; is && i < x.object_count(); ++i)
    is = x.object(make_object_id(PrimitiveId::kProcess, i)) == y.object(make_object_id(PrimitiveId::kProcess, i));
  return is;
}
bool is_same(const Operation& x, const Operation& y) {
  bool is = true;
  for (std::size_t i = 0; i < x.size(); ++i) is = is && x[i].result == y[i].result;
  return is;
}

// What the primitives claim of two steps that can be taken one after the other, by its definition (primitive.h). `x` is
// enabled in the state.
void check_claims(const State& state, const Step& x, const Pending& next) {
  State one_way = state, other_way = state;
  Step first = x, second{next.actor, next.operation};
  one_way.apply(first);
  if (!one_way.is_enabled(second.actor, second.operation)) {
    EXPECT_TRUE(!state.is_enabled(second.actor, second.operation) || may_conflict(first.operation, second.operation))
        << "disables: " << to_text(first.operation) << " and " << to_text(second.operation);
    return;
  }
  one_way.apply(second);
  const auto text = [&] {
    return to_text(first.operation) + "=" + std::to_string(first.operation.result()) + " and " +
           to_text(second.operation) + "=" + std::to_string(second.operation.result());
  };
  const bool are_independent = !are_dependent(first.operation, second.operation);
  EXPECT_TRUE(are_independent || may_conflict(first.operation, second.operation)) << text();
  if (!state.is_enabled(second.actor, second.operation)) {
    EXPECT_FALSE(are_independent) << "enables: " << text();
    return;
  }
  EXPECT_TRUE(waits_for_time(first.operation) || second.operation.is_interrupted() ||
              may_be_co_enabled(first.operation, next.operation))
      << text();
  EXPECT_TRUE(waits_for_time(first.operation) || may_be_co_enabled(first.operation, second.operation)) << text();
  if (!are_independent) return;
  Step moved{next.actor, next.operation}, last = x;
  other_way.apply(moved);
  EXPECT_TRUE(other_way.is_enabled(last.actor, last.operation)) << "disables: " << text();
  other_way.apply(last);
  EXPECT_TRUE(is_same(first.operation, last.operation) && is_same(second.operation, moved.operation))
      << "results differ: " << text();
  EXPECT_TRUE(is_same(one_way, other_way)) << "states differ: " << text();
}

// After every step of every actor: how many steps of each other actor it may rely on. The same in all executions of a
// class (happens_before.h).
std::map<std::pair<ActorId, std::size_t>, std::vector<std::size_t>> what_is_known(const std::vector<Step>& steps) {
  HappensBefore order;
  std::map<ActorId, std::vector<std::uint32_t>> epochs;
  for (const Step& step : steps) epochs[step.actor].assign(1, order.epoch(step.actor));
  std::map<std::pair<ActorId, std::size_t>, std::vector<std::size_t>> known;
  for (const Step& step : steps) {
    order.note(step);
    std::vector<std::size_t>& so_far = known[{step.actor, epochs[step.actor].size()}];
    for (const auto& [other, of_other] : epochs) {
      const auto is_before = [&, other = other](std::uint32_t epoch) {
        return order.is_before(other, epoch, step.actor);
      };
      so_far.push_back(other == step.actor
                           ? 0
                           : static_cast<std::size_t>(std::count_if(of_other.begin(), of_other.end(), is_before)));
    }
    epochs[step.actor].push_back(order.epoch(step.actor));
  }
  return known;
}

// Every schedule, by a search that knows nothing of trees, directors and reductions: at every state it asks the state
// who can go on. Time passes where nobody can. With a bound on depth, no actor takes more steps.
class EverySchedule {
 public:
  EverySchedule(const ScriptProgram& program, std::uint64_t most, std::uint32_t depth_most = 0)
      : program_(&program), most_(most), depth_most_(depth_most) {
    try_all(State(program.objects), program.actors());
    check_conflicts();
  }
  const Found& found() const { return found_; }
  // Schedules with at most so many switches away from an actor that could go on.
  std::uint64_t within(std::uint32_t preemptions) const {
    return std::accumulate(by_preemptions_.begin(), by_preemptions_.upper_bound(preemptions), std::uint64_t{0},
                           [](std::uint64_t sum, const auto& one) { return sum + one.second; });
  }

 private:
  void try_all(const State& state, const std::vector<ScriptActor>& actors) {
    if (!found_.is_whole) return;
    std::vector<Pending> can_go, for_want_of_others, left;
    bool is_held_back = false;
    for (ScriptActor actor : actors) {
      if (!actor.is_timer) {
        find_pending(actor);
      } else if (primitive_of(actor.pending[0].object) == PrimitiveId::kTimer && !is_exhausted(actor.id)) {
        Operation late = actor.pending;
        late.begin()->verb = timer::kRunOut;
        if (state.is_enabled(actor.id, late)) for_want_of_others.push_back({actor.id, late});
      }
      if (!actor.has_pending || !is_live(state, actor.pending)) continue;
      left.push_back({actor.id, actor.pending});
      const bool is_enabled = state.is_enabled(actor.id, actor.pending);
      if (is_exhausted(actor.id)) {
        is_held_back = is_held_back || is_enabled;
        continue;
      }
      if (is_enabled) can_go.push_back(left.back());
      if (actor.is_sleeping && !state.is_over())
        for_want_of_others.push_back({actor.id, spin::access(actor.pending[0].object, spin::kWakeUp)});
    }
    note_left_out(state, actors, can_go);
    // Time does not pass while somebody could go on.
    const std::vector<Pending>& next = can_go.empty() && !is_held_back ? for_want_of_others : can_go;
    if (next.empty()) return note_end(state, left, is_held_back);
    const bool is_new = looked_at_.insert(hash_of(state, left)).second;
    for (const Pending& p : next) {
      for (const Pending& other : left) {
        if (!is_new || other.actor == p.actor) continue;
        if (!is_file_call(p.operation) && !is_file_call(other.operation))
          check_claims(state, {p.actor, p.operation}, other);
        note_disabled(state, {p.actor, p.operation}, other);
      }
      const auto is_last = [&](const Pending& other) { return !steps_.empty() && other.actor == steps_.back().actor; };
      const bool preempts = !is_last(p) && std::any_of(can_go.begin(), can_go.end(), is_last);
      preemptions_ += preempts ? 1 : 0;
      take(state, actors, p);
      preemptions_ -= preempts ? 1 : 0;
    }
  }

  // Most schedules lead to states that others have led to.
  static std::uint64_t hash_of(const State& state, const std::vector<Pending>& left) {
    std::uint64_t hash = state.is_over() ? 1 : 0;
    const auto add = [&](std::int64_t value) { hash = mix(hash, static_cast<std::uint64_t>(value)); };
    for (std::uint32_t i = 0; i < state.object_count(); ++i) {
      const Object& o = state.object(make_object_id(PrimitiveId::kProcess, i));
      for (const std::int64_t value : o.numbers) add(value);
      add(o.is_destroyed ? 1 : 0);
      for (const auto* list : {&o.lists[0], &o.lists[1]}) {
        add(static_cast<std::int64_t>(list->size()));
        for (const std::int64_t value : *list) add(value);
      }
    }
    for (const Pending& p : left) {
      add(index(p.actor));
      add(static_cast<std::int64_t>(state.steps_of_others(p.actor)));
      for (const Access& a : p.operation) {
        for (const std::int64_t value : {std::int64_t{index(a.object)}, std::int64_t{a.verb}, a.argument, a.expected,
                                         std::int64_t{a.offset} << 16 | a.bytes << 8 | a.order})
          add(value);
      }
    }
    return hash;
  }
  // A call of an actor, whatever comes of it.
  static std::string call_of(ActorId actor, const Operation& operation) {
    std::string text = std::to_string(index(actor)) + to_text(operation);
    for (const Access& a : operation) text += "," + std::to_string(a.argument) + "," + std::to_string(a.expected);
    return text;
  }
  void note_disabled(const State& state, Step step, const Pending& other) {
    if (!state.is_enabled(other.actor, other.operation)) return;
    State after = state;
    after.apply(step);
    if (after.is_enabled(other.actor, other.operation)) return;
    std::string key = call_of(other.actor, other.operation) + " by " + call_of(step.actor, step.operation);
    for (const Access& a : step.operation) key += "=" + std::to_string(a.result);
    disabled_.try_emplace(key, step.operation, call_of(other.actor, other.operation));
  }
  // Who is disabled by a step goes on later, or otherwise: its step then has other results, and conflicts all the same.
  void check_conflicts() const {
    for (const auto& [key, pair] : disabled_) {
      const auto [begin, end] = done_.equal_range(pair.second);
      for (auto it = begin; it != end; ++it) {
        EXPECT_TRUE(may_conflict(pair.first, it->second)) << key << ", done with " << it->second.result();
        EXPECT_TRUE(waits_for_time(pair.first) || waits_for_time(it->second) ||
                    may_be_co_enabled(pair.first, it->second))
            << key << ", done with " << it->second.result();
      }
    }
  }
  void note_done(const Step& step) {
    if (is_file_call(step.operation)) return;
    const std::string call = call_of(step.actor, step.operation);
    const auto [begin, end] = done_.equal_range(call);
    if (std::none_of(begin, end, [&](const auto& known) { return is_same(known.second, step.operation); }))
      done_.emplace(call, step.operation);
  }

  // A wait whose time cannot run out early any more, while others go on.
  void note_left_out(const State& state, const std::vector<ScriptActor>& actors, const std::vector<Pending>& can_go) {
    for (ScriptActor actor : actors) {
      if (actor.is_timer) continue;
      find_pending(actor);
      if (!actor.has_pending) continue;
      const Access& first = actor.pending[0];
      const bool waits = !primitive_of(first).enabled(state, actor.id, actor.pending, first);
      for (const Access& a : actor.pending) {
        const Object& timer = state.object(a.object);
        if (primitive_of(a.object) == PrimitiveId::kTimer && a.verb == timer::kTake &&
            timer::stage(timer) == timer::kArmed && timer::early_left(timer) == 0 && waits && !can_go.empty())
          found_.hit_timeouts = true;
      }
    }
  }

  bool is_exhausted(ActorId actor) const {
    return depth_most_ != 0 &&
           std::count_if(steps_.begin(), steps_.end(), [&](const Step& s) { return s.actor == actor; }) >= depth_most_;
  }

  void take(State state, std::vector<ScriptActor> actors, const Pending& p) {
    Step step{p.actor, p.operation};
    if (is_file_call(step.operation)) {
      ScriptFiles files;
      for (Step done : steps_) {
        if (is_file_call(done.operation)) files.perform(done.operation);
      }
      files.perform(step.operation);
    }
    state.apply(step);
    note_done(step);
    ScriptActor& actor = actors[index(p.actor)];
    if (!actor.is_timer) {
      find_pending(actor);  // past jumps
      go_on(actor, step.operation);
    }
    steps_.push_back(step);
    try_all(state, actors);
    steps_.pop_back();
  }

  void note_end(const State& state, const std::vector<Pending>& left, bool is_held_back) {
    Execution execution;
    execution.objects = program_->objects;
    execution.steps = steps_;
    execution.pending = left;
    const bool is_done = std::all_of(left.begin(), left.end(), [&](const Pending& p) {
      return index(p.actor) >= program_->scripts.size() ||
             (primitive_of(p.operation[0].object) == PrimitiveId::kSignal && p.operation[0].verb == signal::kDeliver);
    });
    execution.ending = state.is_over() ? Ending::kProcessEnded
                       : is_held_back  ? Ending::kDepth
                       : is_done       ? Ending::kCompleted
                                       : Ending::kStuck;
    found_.outcomes.insert(outcome_of(execution));
    const std::string its_class = class_of(steps_);
    found_.classes.insert(its_class);
    const auto [known, is_first] = known_.try_emplace(its_class);
    if (is_first) known->second = what_is_known(steps_);
    EXPECT_EQ(known->second, what_is_known(steps_)) << its_class;
    found_.is_whole = ++found_.executions < most_;
    ++by_preemptions_[preemptions_];
    found_.hit_depth = found_.hit_depth ||
                       std::any_of(left.begin(), left.end(), [&](const Pending& p) { return is_exhausted(p.actor); });
  }

  const ScriptProgram* program_;
  std::uint64_t most_;
  std::uint32_t depth_most_;
  std::vector<Step> steps_;
  std::map<std::string, std::map<std::pair<ActorId, std::size_t>, std::vector<std::size_t>>> known_;  // a class
  std::set<std::uint64_t> looked_at_;                                                                 // states
  std::map<std::string, std::pair<Operation, std::string>> disabled_;  // by a step, a call
  std::multimap<std::string, Operation> done_;                         // a call, with its results
  std::uint32_t preemptions_ = 0;
  std::map<std::uint32_t, std::uint64_t> by_preemptions_;
  Found found_{{}, {}, 0, 0, true};
};

// Executions with foresight beyond the classes that look at the state, and these classes.
std::uint64_t g_beyond, g_swap_classes;

struct Row {
  const char* name;
  unsigned families;
  std::uint64_t count;
  std::uint64_t schedules_most = 2'500;  // larger programs are left out, but of long runs
};

class Families : public ::testing::TestWithParam<Row> {};

// With foresight: the same outcomes, and not more executions than classes that look at the state.
void check_foresight(ScriptProgram& program, const Found& all, std::uint64_t seed) {
  SwapClasses classes;
  SearchSetup setup;
  setup.reduction = ReductionName::kNone;
  setup.on_execution = [&](const Execution& execution) { return classes.add(execution), true; };
  search({&program}, setup);
  const std::uint64_t count = classes.count();
  for (const std::size_t workers : {1, 2}) {
    const Found foresight = explore(program, ReductionName::kOptimal, workers, true);
    EXPECT_EQ(foresight.outcomes, all.outcomes) << "foresight, seed " << seed << "\n" << show(program);
    EXPECT_GE(foresight.executions, count) << "foresight, seed " << seed << "\n" << show(program);
    EXPECT_LE(foresight.executions, all.classes.size()) << "foresight, seed " << seed << "\n" << show(program);
    if (workers == 1) g_beyond += foresight.executions - count, g_swap_classes += count;
  }
}

// With a bound on preemptions: every schedule within it, and it is told where there are more.
void check_preemptions(ScriptProgram& program, const EverySchedule& every, std::uint32_t preemptions_most,
                       std::uint64_t seed) {
  SearchSetup setup;
  setup.bounds.preemptions_most = preemptions_most;
  const SearchResult result = search({&program}, setup);
  EXPECT_EQ(result.executions, every.within(preemptions_most))
      << preemptions_most << " preemptions, seed " << seed << "\n"
      << show(program);
  const bool is_left_out = result.executions < every.found().executions;
  EXPECT_TRUE(is_left_out ? result.bound == Bound::kPreemptions : is_all(result.bound))
      << preemptions_most << " preemptions, seed " << seed << "\n"
      << show(program);
}

// With a bound on the steps of each actor: every class within it, and no other; and it is told where there is more.
void check_depth(ScriptProgram& program, std::uint32_t depth_most, bool has_passing_time, std::uint64_t seed) {
  const Found all = EverySchedule(program, 8'000, depth_most).found();
  for (const ReductionName reduction : {ReductionName::kNone, ReductionName::kSource, ReductionName::kOptimal}) {
    const Found found = explore(program, reduction, 1, false, depth_most);
    if (!has_passing_time) {  // where it passes, who is held back by the bound stands before something else
      EXPECT_EQ(found.outcomes, all.outcomes) << "depth " << depth_most << ", seed " << seed << "\n" << show(program);
    }
    EXPECT_EQ(found.classes, all.classes) << "depth " << depth_most << ", seed " << seed << "\n" << show(program);
    EXPECT_EQ(found.hit_depth, all.hit_depth) << "depth " << depth_most << ", seed " << seed << "\n" << show(program);
    if (reduction != ReductionName::kOptimal) continue;
    EXPECT_EQ(found.asleep, 0u) << "depth " << depth_most << ", seed " << seed << "\n" << show(program);
    EXPECT_EQ(found.executions, all.classes.size()) << "depth " << depth_most << ", seed " << seed << "\n"
                                                    << show(program);
  }
}

// A search in parts: every class in one of them. What was seen of calls on files is learned anew in each, so some are
// run in vain; but no class is counted twice.
void check_resume(ScriptProgram& program, const Found& all, bool has_files, std::uint64_t seed) {
  for (const ReductionName reduction : {ReductionName::kSource, ReductionName::kOptimal}) {
    Found found;
    SearchSetup setup;
    setup.reduction = reduction;
    setup.has_foresight = false;
    setup.bounds.executions_most = 1 + seed % 4;
    setup.on_execution = [&](const Execution& execution) {
      found.outcomes.insert(outcome_of(execution));
      found.classes.insert(class_of(execution.steps));
      return true;
    };
    TreeSketch rest;
    while (true) {
      const SearchResult result = search({&program}, setup);
      ASSERT_FALSE(result.diverged) << "in parts, seed " << seed << "\n" << show(program);
      found.executions += result.executions;
      found.asleep += result.asleep;
      found.hit_timeouts = result.rest.hit_timeouts;
      if (is_all(result.bound)) break;
      ASSERT_EQ(result.bound, Bound::kExecutions) << "in parts, seed " << seed << "\n" << show(program);
      rest = result.rest;
      setup.rest = &rest;
    }
    EXPECT_EQ(found.outcomes, all.outcomes) << "in parts, seed " << seed << "\n" << show(program);
    EXPECT_TRUE(found.hit_timeouts || !all.hit_timeouts) << "in parts, seed " << seed << "\n" << show(program);
    EXPECT_EQ(found.classes.size(), all.classes.size()) << "in parts, seed " << seed << "\n" << show(program);
    if (reduction != ReductionName::kOptimal) continue;
    EXPECT_EQ(found.executions, all.classes.size()) << "in parts, seed " << seed << "\n" << show(program);
    EXPECT_TRUE(has_files || found.asleep == 0) << "in parts, seed " << seed << "\n" << show(program);
  }
}

TEST_P(Families, FindWhatTheOracleFinds) {
  std::uint64_t checked = 0, executions = 0, classes = 0, needless_bounds = 0;
  for_each_seed(GetParam().count, [&](std::uint64_t seed) {
    ScriptProgram program = Generator(seed * 1000003 + GetParam().families, GetParam().families).make();
    const EverySchedule every(program, is_long_run() ? 8'000 : GetParam().schedules_most);
    const Found& all = every.found();
    if (!all.is_whole) return true;  // too large for the oracle
    const Found none = explore(program, ReductionName::kNone);
    EXPECT_EQ(none.outcomes, all.outcomes) << "none, seed " << seed << "\n" << show(program);
    EXPECT_EQ(none.executions, all.executions) << "none, seed " << seed << "\n" << show(program);
    ++checked;
    executions += all.executions;
    classes += all.classes.size();
    const Found source = explore(program, ReductionName::kSource);
    EXPECT_EQ(source.outcomes, all.outcomes) << "source, seed " << seed << "\n" << show(program);
    EXPECT_EQ(source.classes.size(), all.classes.size()) << "source, seed " << seed << "\n" << show(program);
    const Found optimal = explore(program, ReductionName::kOptimal);
    EXPECT_EQ(optimal.outcomes, all.outcomes) << "optimal, seed " << seed << "\n" << show(program);
    EXPECT_EQ(optimal.classes.size(), all.classes.size()) << "optimal, seed " << seed << "\n" << show(program);
    EXPECT_EQ(optimal.executions, all.classes.size()) << "optimal, seed " << seed << "\n" << show(program);
    for (const Found* found : {&none, &source, &optimal}) {
      EXPECT_TRUE(found->hit_timeouts || !all.hit_timeouts) << "seed " << seed << "\n" << show(program);
      needless_bounds += found->hit_timeouts && !all.hit_timeouts ? 1 : 0;
    }
    EXPECT_EQ(optimal.asleep, 0u) << "optimal, seed " << seed << "\n" << show(program);
    if ((GetParam().families & kSemaphores) != 0) check_foresight(program, all, seed);
    const Found parallel = explore(program, ReductionName::kOptimal, 2);
    EXPECT_EQ(parallel.executions, optimal.executions) << "two workers, seed " << seed << "\n" << show(program);
    EXPECT_EQ(parallel.outcomes, all.outcomes) << "two workers, seed " << seed;
    if (all.classes.size() < 60) check_resume(program, all, (GetParam().families & kFiles) != 0, seed);
    check_preemptions(program, every, seed % 3, seed);
    check_depth(program, 1 + seed % 3, (GetParam().families & kPassing) != 0, seed);
    return !::testing::Test::HasFailure();
  });
  RecordProperty("programs", std::to_string(checked));
  std::printf("%s: %lu programs, %lu schedules, %lu classes\n", GetParam().name, checked, executions, classes);
  if (g_swap_classes > 0)
    std::printf("  with foresight: %lu classes, %lu executions beyond\n", g_swap_classes, g_beyond);
  g_beyond = g_swap_classes = 0;
  EXPECT_GT(checked, 0u);
  // A timed wait that is said to have run out, could it have: seldom wrong, and then to the safe side.
  EXPECT_LE(needless_bounds * 100, checked * 3);
}

INSTANTIATE_TEST_SUITE_P(
    Scheduler, Families,
    ::testing::Values(
        Row{"variables", kVariables, 400}, Row{"mutexes", kMutexes | kVariables, 400},
        Row{"semaphores", kSemaphores, 600}, Row{"semaphores_and_variables", kSemaphores | kVariables, 300},
        Row{"conditions", kConditions | kVariables, 300}, Row{"barriers", kBarriers | kVariables, 300},
        Row{"rwlocks", kRwLocks | kVariables, 400}, Row{"two_writers", kTwoWriters | kVariables, 200},
        Row{"onces", kOnces | kVariables, 200}, Row{"tries", kTries | kMutexes | kSemaphores | kRwLocks, 400},
        Row{"failures", kFailures | kVariables | kMutexes, 300},
        Row{"timers", kTimers | kMutexes | kSemaphores | kVariables, 300},
        Row{"ordered", kOrdered | kSemaphores | kConditions, 300},
        Row{"ordered_locks", kOrdered | kMutexes | kRwLocks | kVariables, 400},
        Row{"ordered_tries", kOrdered | kMutexes | kRwLocks | kTries | kTimers, 300},
        Row{"loops", kLoops | kVariables, 200}, Row{"cancels", kCancels | kSemaphores, 300},
        Row{"cancels_ordered", kCancels | kOrdered | kSemaphores, 300},
        Row{"passing_time", kPassing | kTimers | kSemaphores | kVariables, 1200, 1'500},
        Row{"passing_time_and_locks", kPassing | kTimers | kMutexes | kConditions | kVariables, 1200, 1'500},
        Row{"passing_time_and_failures", kPassing | kTimers | kFailures | kVariables, 1000, 1'500},
        Row{"passing_time_and_threads", kPassing | kTimers | kThreads | kSemaphores, 400, 1'500},
        Row{"threads", kThreads | kVariables | kMutexes, 200}, Row{"memory", kMemory, 600},
        Row{"memory_and_mutexes", kMemory | kMutexes | kFailures, 300},
        Row{"memory_and_timers", kMemory | kTimers | kMutexes, 300},
        Row{"readers_and_semaphores", kRwLocks | kTwoWriters | kSemaphores, 400},
        Row{"readers_and_barriers", kRwLocks | kBarriers, 300},
        Row{"readers_in_line", kOrdered | kRwLocks | kSemaphores | kTries, 300},
        Row{"futexes", kFutexes | kMemory | kTimers, 300},
        Row{"futexes_ordered", kOrdered | kFutexes | kSemaphores, 300}, Row{"robust", kRobust | kMutexes | kTries, 300},
        Row{"robust_ordered", kOrdered | kRobust | kMutexes, 200},
        Row{"assumes", kAssumes | kVariables | kMutexes, 300},
        Row{"destroys", kDestroys | kMutexes | kSemaphores | kRwLocks | kBarriers, 300},
        Row{"destroys_ordered", kOrdered | kDestroys | kMutexes | kSemaphores | kConditions, 300},
        Row{"joins", kJoins | kVariables | kCancels, 300},
        Row{"cancels_and_conditions", kCancels | kConditions | kTimers, 300},
        Row{"timed_conditions", kTimers | kConditions, 600},
        Row{"timed_conditions_ordered", kOrdered | kTimers | kConditions, 300}, Row{"files", kFiles, 400},
        Row{"files_and_mutexes", kFiles | kMutexes | kFailures, 300},
        Row{"files_and_semaphores", kFiles | kSemaphores, 300},
        Row{"files_and_timers", kFiles | kTimers | kMutexes | kSemaphores, 300},
        Row{"files_and_passing_time", kFiles | kPassing | kTimers | kSemaphores, 300, 1'500},
        Row{"files_and_threads", kFiles | kThreads | kRwLocks | kMemory, 300},
        Row{"files_and_joins", kFiles | kJoins | kCancels, 300},
        Row{"files_and_conditions", kFiles | kConditions | kOrdered, 300}, Row{"channels", kChannels, 200},
        Row{"channels_and_semaphores", kChannels | kSemaphores | kVariables, 150},
        Row{"channels_and_threads", kChannels | kThreads | kMutexes, 150}, Row{"signals", kSignals, 500, 700},
        Row{"signals_and_semaphores", kSignals | kSemaphores, 500, 700},
        Row{"signals_and_mutexes", kSignals | kMutexes | kVariables, 500, 700},
        Row{"signals_and_conditions", kSignals | kConditions | kSemaphores, 500, 700},
        Row{"signals_and_timers", kSignals | kTimers | kConditions | kFailures, 500, 700},
        Row{"signals_and_cancels", kSignals | kCancels | kSemaphores, 500, 700},
        Row{"signals_and_threads", kSignals | kThreads | kTries, 500, 700},
        Row{"everything_ordered", ((kThreads - 1) | kMemory | kCancels | kFutexes | kRobust) & ~kLoops, 600},
        Row{"everything", ((kThreads - 1) & ~kOrdered) | kMemory | kCancels, 600}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace crashcut::tests
