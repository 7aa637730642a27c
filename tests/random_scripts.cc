// Programs as a whole; threads, variables and memory.
#include "tests/random_scripts.h"

#include <algorithm>
#include <map>

#include "scheduler/primitives/assume.h"
#include "scheduler/primitives/barrier.h"
#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/condition.h"
#include "scheduler/primitives/file.h"
#include "scheduler/primitives/host.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/process.h"
#include "scheduler/primitives/rwlock.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/signal.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/primitives/stir.h"
#include "scheduler/primitives/thread.h"
#include "scheduler/primitives/timer.h"
#include "scheduler/primitives/variable.h"

namespace crashcut::tests {

using namespace scheduler;

ScriptProgram RandomScripts::make() {
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
  host_count_ = (families_ & kHosts) == 0 ? 0 : 2 + pick(static_cast<std::uint32_t>(actors) - 1);
  has_restart_ = host_count_ > 0 && pick(3) == 0;
  for (std::uint32_t i = 0; i < host_count_; ++i) program.objects.push_back({host_at(i)});
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
    if (i < host_count_ && pick(4) != 0) script.push_back(does(host::access(host_at(i), host::kEnd)));
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
  if (host_count_ > 0) add_hosts(program);
  number_densely(program);
  return program;
}

ObjectId RandomScripts::id(PrimitiveId primitive, std::uint32_t number) {
  // Numbers are dense over all primitives.
  return make_object_id(primitive, 1 + static_cast<std::uint32_t>(primitive) * 8 + number);
}

void RandomScripts::number_densely(ScriptProgram& program) {
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
  for (ScriptHost& host : program.hosts) rename(host.host);
  for (ObjectId& object : program.signals_of_threads) rename(object);
  if (!program.signals_of_threads.empty()) rename(program.signals.process);
  std::erase_if(program.objects, [&](const ObjectStart& start) { return !renamed.contains(start.object); });
  for (ObjectStart& start : program.objects) rename(start.object);
}

void RandomScripts::add_beside(std::vector<Operation>& beside) {
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

Access RandomScripts::take() const { return timer::access(id(PrimitiveId::kTimer, self_), timer::kTake); }

void RandomScripts::begin_thread(Script& script) {
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

void RandomScripts::end_thread(Script& script) {
  if (self_ != 0) return script.push_back(does(thread::access(id(PrimitiveId::kThread, self_), thread::kExit)));
  for (std::uint32_t i = 1; i < actor_count_; ++i) {
    if (pick(4) != 0) script.push_back(does(thread::access(id(PrimitiveId::kThread, i), thread::kJoin)));
  }
  if (pick(2) == 0) script.push_back(does(process::exit(0)));
}

void RandomScripts::add_hosts(ScriptProgram& program) {
  for (std::uint32_t i = 0; i < program.scripts.size(); ++i)
    program.hosts.push_back({host_at(i < host_count_ ? i : pick(host_count_)), 0});
  if (has_restart_) {
    Script again{does(host::access(host_at(0), host::kStart, 1))};
    add_variable(again);
    if (pick(2) == 0) again.push_back(does(host::access(host_at(0), host::kEnd)));
    program.scripts.push_back(again);
    program.hosts.push_back({host_at(0), 1});
  }
  const std::uint32_t failures = pick(3);
  const ObjectId budget = id(PrimitiveId::kSemaphore, 2);
  program.objects.push_back({budget, 1});
  for (std::uint32_t i = 0; failures > 0 && i < host_count_; ++i) {
    program.beside.emplace_back(host::access(host_at(i), host::kFail));
    if (failures == 1) program.beside.back().add(semaphore::access(budget, semaphore::kWait));
  }
}

void RandomScripts::add_host_call(Script& script) {
  if (has_restart_ && pick(3) == 0) return script.push_back(does(host::access(host_at(0), host::kRestart)));
  script.push_back(does(host::access(host_at(pick(host_count_)), host::kWait)));
  if (pick(2) == 0) return;
  script.push_back(skip_if(host::kFailed, 1));
  script.push_back(writes(any(PrimitiveId::kVariable)));
}

void RandomScripts::add(Script& script) {
  if (host_count_ > 0 && pick(3) == 0) return add_host_call(script);
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

void RandomScripts::add_variable(Script& script) {
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

Instruction RandomScripts::writes(ObjectId v) { return does(variable::access(v, variable::kWrite, pick(3))); }

RandomScripts::Place RandomScripts::any_place() {
  const ObjectId m = any(PrimitiveId::kMemory);
  const std::uint32_t width = pick(6);
  if (width == 0) return {m, 0, 8};
  if (width == 1) return {m, static_cast<std::uint8_t>(pick(2)), static_cast<std::uint8_t>(1 + pick(2))};
  return {m, static_cast<std::uint8_t>(pick(2) * 4), 4};
}

Access RandomScripts::accesses(Place p, memory::Verb verb, std::uint32_t values) {
  Access access = memory::access(p.memory, verb, p.offset, p.bytes, pick(values));
  access.order = static_cast<std::uint8_t>(pick(8));  // of relaxed, acquire, release and acquire if the same, any
  return access;
}

void RandomScripts::add_memory(Script& script) {
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

void RandomScripts::add_opaque(Script& script) {
  Instruction write = writes(any(PrimitiveId::kVariable));
  write.operation.set_opaque();
  script.push_back(write);
}

std::int64_t RandomScripts::any_set() {
  return (pick(3) != 0 ? signal::bit_of(1) : 0) | (pick(2) == 0 ? signal::bit_of(2) : 0) |
         (pick(4) == 0 ? signal::bit_of(signal::kFirstQueued + 3) : 0);
}

}  // namespace crashcut::tests
