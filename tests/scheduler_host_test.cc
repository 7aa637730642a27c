// Several hosts in one execution, of which some fail (scheduler/primitives/host.h): counts derived by hand, and random
// programs against an interpreter that shares no code with the scheduler.
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <set>

#include "scheduler/deadlocks.h"
#include "scheduler/order.h"
#include "scheduler/primitives/host.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/variable.h"
#include "scheduler/search.h"
#include "tests/script_program.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

using namespace scheduler;

ObjectId host_at(std::uint32_t number) { return make_object_id(PrimitiveId::kHost, 1 + number); }
ObjectId variable_at(std::uint32_t number) { return make_object_id(PrimitiveId::kVariable, 10 + number); }
ObjectId mutex_at(std::uint32_t number) { return make_object_id(PrimitiveId::kMutex, 30 + number); }
ObjectId semaphore_at(std::uint32_t number) { return make_object_id(PrimitiveId::kSemaphore, 40 + number); }
const ObjectId kBudget = semaphore_at(9);

Instruction writes(std::uint32_t variable, std::int64_t value = 1) {
  return does(variable::access(variable_at(variable), variable::kWrite, value));
}
Instruction reads(std::uint32_t variable) { return does(variable::access(variable_at(variable), variable::kRead)); }
Instruction locks(std::uint32_t mutex) { return does(mutex::access(mutex_at(mutex), mutex::kLock)); }
Instruction unlocks(std::uint32_t mutex) { return does(mutex::access(mutex_at(mutex), mutex::kUnlock)); }
Instruction ends(std::uint32_t host) { return does(host::access(host_at(host), host::kEnd)); }
Instruction waits_for(std::uint32_t host) { return does(host::access(host_at(host), host::kWait)); }
Instruction restarts(std::uint32_t host) { return does(host::access(host_at(host), host::kRestart)); }
Instruction starts(std::uint32_t host) { return does(host::access(host_at(host), host::kStart, 1)); }

// So many writes, each to a variable of its own, and the host's end.
Script writes_and_ends(std::uint32_t count, std::uint32_t first_variable, std::uint32_t host) {
  Script script;
  for (std::uint32_t i = 0; i < count; ++i) script.push_back(writes(first_variable + i));
  script.push_back(ends(host));
  return script;
}

void add(ScriptProgram& program, std::uint32_t host, Script script, std::uint16_t incarnation = 0) {
  program.scripts.push_back(std::move(script));
  program.hosts.push_back({host_at(host), incarnation});
}

constexpr std::int64_t kAll = -1;
// Lets these hosts fail, together at most so often.
void let_fail(ScriptProgram& program, std::vector<std::uint32_t> hosts, std::int64_t most = kAll) {
  program.objects.push_back({kBudget, most});
  for (const std::uint32_t host : hosts) {
    program.beside.emplace_back(host::access(host_at(host), host::kFail));
    if (most != kAll) program.beside.back().add(semaphore::access(kBudget, semaphore::kWait));
  }
}

struct Found {
  std::set<std::string> outcomes, classes, deadlocks;
  SearchResult result;
};
Found explore(const ScriptProgram& program, ReductionName reduction,
              const std::function<std::string(const Execution&)>& outcome = outcome_of) {
  Found found;
  SearchSetup setup;
  setup.reduction = reduction;
  setup.has_foresight = false;
  setup.bounds.executions_most = 20'000;
  setup.on_execution = [&](const Execution& execution) {
    found.outcomes.insert(outcome(execution));
    found.classes.insert(class_of(execution.steps));
    if (execution.ending == Ending::kStuck) found.deadlocks.insert(outcome(execution));
    for_each_deadlock(execution, [&](const Execution& stuck) { found.deadlocks.insert(outcome(stuck)); });
    return true;
  };
  found.result = search_with(program, setup, 1);
  EXPECT_FALSE(found.result.diverged);
  return found;
}

std::uint64_t count(const ScriptProgram& program) {
  const Found found = explore(program, ReductionName::kOptimal);
  EXPECT_EQ(found.result.asleep, 0u);
  EXPECT_EQ(found.classes.size(), found.result.executions);
  EXPECT_EQ(explore(program, ReductionName::kNone).classes, found.classes);
  EXPECT_EQ(explore(program, ReductionName::kSource).classes, found.classes);
  return found.result.executions;
}

// A host of n writes and an end fails before any of these n + 1 steps, or not at all.
TEST(Hosts, FailBeforeEveryStep) {
  for (std::uint32_t n = 0; n <= 4; ++n) {
    ScriptProgram program;
    add(program, 0, writes_and_ends(n, 0, 0));
    EXPECT_EQ(count(program), 1u);
    let_fail(program, {0});
    EXPECT_EQ(count(program), n + 2);
  }
}

// Two hosts that share nothing fail independently of each other; with one failure at most, in one place or none.
TEST(Hosts, CommuteWithWhatTakesNothingFromThem) {
  for (std::uint32_t n = 0; n <= 2; ++n) {
    for (std::uint32_t m = 0; m <= 2; ++m) {
      ScriptProgram both, one, first;
      for (ScriptProgram* program : {&both, &one, &first}) {
        add(*program, 0, writes_and_ends(n, 0, 0));
        add(*program, 1, writes_and_ends(m, 5, 1));
      }
      let_fail(both, {0, 1});
      EXPECT_EQ(count(both), (n + 2) * (m + 2));
      let_fail(one, {0, 1}, 1);
      EXPECT_EQ(count(one), n + 1 + m + 1 + 1);
      let_fail(first, {0});
      EXPECT_EQ(count(first), n + 2);
    }
  }
}

// Two threads of a and b steps: the host fails when they have taken any number of them, (a + 1)(b + 1); or the first
// ends it when the second has taken any number of its own, b + 1.
TEST(Hosts, TakeAllTheirThreadsAlong) {
  for (std::uint32_t a = 0; a <= 2; ++a) {
    for (std::uint32_t b = 0; b <= 2; ++b) {
      ScriptProgram program;
      add(program, 0, writes_and_ends(a, 0, 0));
      Script second = writes_and_ends(b, 5, 0);
      second.pop_back();
      add(program, 0, second);
      EXPECT_EQ(count(program), b + 1);
      let_fail(program, {0});
      EXPECT_EQ(count(program), (a + 2) * (b + 1));
    }
  }
}

// (failed, 0), (failed, 1), (ended, 1).
TEST(Hosts, AWaitTellsHowTheyEnded) {
  ScriptProgram program;
  add(program, 0, {writes(0), ends(0)});
  add(program, 1, {waits_for(0), reads(0)});
  EXPECT_EQ(count(program), 1u);
  let_fail(program, {0});
  EXPECT_EQ(count(program), 3u);
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  SearchSetup setup;
  setup.on_execution = [&](const Execution& execution) {
    EXPECT_EQ(execution.ending, Ending::kCompleted);
    std::vector<std::int64_t> results;
    for (const Step& step : execution.steps) {
      if (index(step.actor) == 1) results.push_back(step.operation.result());
    }
    seen.insert({results[0], results[1]});
    return true;
  };
  search_with(program, setup, 1);
  EXPECT_EQ(seen, (std::set<std::pair<std::int64_t, std::int64_t>>{
                      {host::kFailed, 0}, {host::kFailed, 1}, {host::kEnded, 1}}));
}

// The first host locks, unlocks and ends; the second, which does not fail, locks and unlocks. Failure before the lock:
// one class. While it is held: the other came before, or takes it over. After the unlock, or none: before or after.
TEST(Hosts, LoseTheirLocks) {
  ScriptProgram program;
  program.objects = {{mutex_at(0), mutex::kNormal}};
  add(program, 0, {locks(0), unlocks(0), ends(0)});
  add(program, 1, {locks(0), unlocks(0), ends(1)});
  EXPECT_EQ(count(program), 2u);
  let_fail(program, {0});
  EXPECT_EQ(count(program), 1u + 2 + 2 + 2);
  std::uint64_t taken_over = 0;
  SearchSetup setup;
  setup.on_execution = [&](const Execution& execution) {
    EXPECT_EQ(execution.ending, Ending::kCompleted);
    for (const Step& step : execution.steps) taken_over += step.operation.result() == EOWNERDEAD ? 1 : 0;
    return true;
  };
  search_with(program, setup, 1);
  EXPECT_EQ(taken_over, 1u);
}

// A robust mutex that is taken over and not made consistent is lost to all others.
TEST(Hosts, LoseRobustLocks) {
  ScriptProgram program;
  program.objects = {{mutex_at(0), mutex::kNormal + mutex::kRobust}};
  add(program, 0, {locks(0)});
  add(program, 1, {waits_for(0), locks(0), unlocks(0), locks(0)});
  let_fail(program, {0});
  std::set<std::int64_t> last;
  SearchSetup setup;
  setup.on_execution = [&](const Execution& execution) {
    last.insert(execution.steps.back().operation.result());
    return true;
  };
  search_with(program, setup, 1);
  EXPECT_EQ(last, (std::set<std::int64_t>{0, ENOTRECOVERABLE}));
}

// The first incarnation fails before its write, before its end, or not: 3. The second before its start, before its
// write, before its end, or not: 4. With one failure in all: 2 of the first and none of the second, or none and any.
TEST(Hosts, BeginAgainWhenTheyAreRestarted) {
  for (const std::int64_t most : {std::int64_t{0}, std::int64_t{1}, kAll}) {
    ScriptProgram program;
    add(program, 0, {writes(0), ends(0)});
    add(program, 1, {waits_for(0), restarts(0), waits_for(0), ends(1)});
    add(program, 0, {starts(0), writes(1), ends(0)}, 1);
    let_fail(program, {0}, most);
    EXPECT_EQ(count(program), most == 0 ? 1u : most == 1 ? 2u + 4 : 3u * 4);
  }
}

// A host that waits for good, and one that waits for it: the program hangs unless the first fails.
TEST(Hosts, NeedNotFailToEndADeadlock) {
  ScriptProgram program;
  program.objects = {{semaphore_at(0), 0}};
  add(program, 0, {does(semaphore::access(semaphore_at(0), semaphore::kWait)), ends(0)});
  add(program, 1, {writes(0), waits_for(0), writes(1), ends(1)});
  let_fail(program, {0});
  const Found found = explore(program, ReductionName::kOptimal);
  EXPECT_EQ(found.result.executions, 1u);
  EXPECT_EQ(found.outcomes.size(), 1u);
  EXPECT_TRUE(found.outcomes.begin()->starts_with("ending " + std::to_string(static_cast<int>(Ending::kCompleted))));
  EXPECT_EQ(found.deadlocks.size(), 1u);
}

// --- random programs, and an interpreter of them

struct Action {
  enum Kind { kWrite, kRead, kAdd, kLock, kTryLock, kUnlock, kWaitHost, kEndHost } kind;
  std::uint32_t object;
  std::int64_t value = 0;
};
struct Thread {
  std::uint32_t host;
  std::vector<Action> actions;
};
struct HostProgram {
  std::uint32_t host_count;
  std::vector<Thread> threads;
  std::int64_t failures_most;
};

Instruction to_instruction(const Action& action) {
  switch (action.kind) {
    case Action::kWrite:
      return writes(action.object, action.value);
    case Action::kRead:
      return reads(action.object);
    case Action::kAdd:
      return does(variable::access(variable_at(action.object), variable::kAdd, action.value));
    case Action::kLock:
      return locks(action.object);
    case Action::kTryLock:
      return does(mutex::access(mutex_at(action.object), mutex::kTryLock));
    case Action::kUnlock:
      return unlocks(action.object);
    case Action::kWaitHost:
      return waits_for(action.object);
    case Action::kEndHost:
      return ends(action.object);
  }
  return {};
}

// Every schedule and every failure, by the rules in words: a thread of a host that is down does nothing; a mutex whose
// owner's host is down is free, and the next owner is told.
class Interpreter {
 public:
  explicit Interpreter(const HostProgram& program) : program_(program) {
    World world;
    world.at.resize(program.threads.size());
    world.log.resize(program.threads.size());
    world.is_down.resize(program.host_count);
    run(world);
  }
  std::set<std::string> outcomes, deadlocks;
  std::uint64_t schedules = 0;
  static constexpr std::uint64_t kSchedulesMost = 50'000;

 private:
  struct World {
    std::vector<std::size_t> at;
    std::vector<std::string> log;
    std::vector<int> is_down;  // 1: ended, 2: failed
    std::int64_t variables[2] = {}, failures = 0;
    int owners[2] = {-1, -1};
  };
  bool is_up(const World& w, std::size_t thread) const { return w.is_down[program_.threads[thread].host] == 0; }
  bool is_free(const World& w, std::uint32_t mutex) const {
    return w.owners[mutex] < 0 || !is_up(w, static_cast<std::size_t>(w.owners[mutex]));
  }
  bool has_more(const World& w, std::size_t t) const {
    return is_up(w, t) && w.at[t] < program_.threads[t].actions.size();
  }
  bool can_go(const World& w, std::size_t t) const {
    if (!has_more(w, t)) return false;
    const Action& action = program_.threads[t].actions[w.at[t]];
    if (action.kind == Action::kLock)
      return is_free(w, action.object) || w.owners[action.object] == static_cast<int>(t);
    return action.kind != Action::kWaitHost || w.is_down[action.object] != 0;
  }
  void go(World& w, std::size_t t) const {
    const Action& action = program_.threads[t].actions[w.at[t]++];
    std::int64_t result = 0;
    switch (action.kind) {
      case Action::kWrite:
        w.variables[action.object] = action.value;
        break;
      case Action::kRead:
        result = w.variables[action.object];
        break;
      case Action::kAdd:
        result = w.variables[action.object];
        w.variables[action.object] += action.value;
        break;
      case Action::kLock:
      case Action::kTryLock:
        if (!is_free(w, action.object)) {
          result = action.kind == Action::kLock ? EDEADLK : EBUSY;  // the mutex checks for errors
        } else {
          result = w.owners[action.object] < 0 ? 0 : EOWNERDEAD;
          w.owners[action.object] = static_cast<int>(t);
        }
        break;
      case Action::kUnlock:
        if (w.owners[action.object] == static_cast<int>(t))
          w.owners[action.object] = -1;
        else
          result = EPERM;
        break;
      case Action::kWaitHost:
        result = w.is_down[action.object];
        break;
      case Action::kEndHost:
        w.is_down[action.object] = 1;
        break;
    }
    w.log[t] += std::to_string(result) + ",";
  }
  std::string text_of(const World& w) const {
    std::string text;
    for (std::size_t t = 0; t < w.log.size(); ++t) text += w.log[t] + (has_more(w, t) ? "left" : "") + ";";
    for (const int is_down : w.is_down) text += std::to_string(is_down);
    return text + " " + std::to_string(w.variables[0]) + " " + std::to_string(w.variables[1]);
  }
  void run(const World& w) {
    if (schedules > kSchedulesMost) return;
    bool is_any = false, can_fail = false, is_any_left = false;
    for (std::size_t t = 0; t < w.at.size(); ++t) {
      is_any_left = is_any_left || has_more(w, t);
      if (!can_go(w, t)) continue;
      is_any = true;
      World next = w;
      go(next, t);
      run(next);
    }
    if (!is_any && is_any_left) deadlocks.insert(text_of(w));
    for (std::uint32_t h = 0; h < program_.host_count; ++h) {
      if (w.is_down[h] != 0 || (program_.failures_most != kAll && w.failures >= program_.failures_most)) continue;
      can_fail = true;
      World next = w;
      next.is_down[h] = 2;
      ++next.failures;
      run(next);
    }
    if (is_any || can_fail) return;
    ++schedules;
    outcomes.insert(text_of(w));
  }

  const HostProgram& program_;
};

ScriptProgram to_script(const HostProgram& program) {
  ScriptProgram made;
  for (std::uint32_t m = 0; m < 2; ++m) made.objects.push_back({mutex_at(m), mutex::kErrorCheck});
  for (const Thread& thread : program.threads) {
    Script script;
    for (const Action& action : thread.actions) script.push_back(to_instruction(action));
    add(made, thread.host, script);
  }
  std::vector<std::uint32_t> hosts;
  for (std::uint32_t h = 0; h < program.host_count; ++h) hosts.push_back(h);
  let_fail(made, hosts, program.failures_most);
  return made;
}

// In the interpreter's words.
std::string text_of(const HostProgram& program, const Execution& execution) {
  std::vector<std::string> log(program.threads.size());
  std::vector<std::size_t> at(program.threads.size());
  State state(execution.objects);
  for (Step step : execution.steps) {
    state.apply(step);
    if (index(step.actor) >= log.size()) continue;
    log[index(step.actor)] += std::to_string(step.operation.result()) + ",";
    ++at[index(step.actor)];
  }
  std::string text;
  for (std::size_t t = 0; t < log.size(); ++t) {
    const bool is_up = host::stage(state.object(host_at(program.threads[t].host))) == host::kUp;
    text += log[t] + (is_up && at[t] < program.threads[t].actions.size() ? "left" : "") + ";";
  }
  for (std::uint32_t h = 0; h < program.host_count; ++h) text += std::to_string(host::stage(state.object(host_at(h))));
  return text + " " + std::to_string(variable::value(state.object(variable_at(0)))) + " " +
         std::to_string(variable::value(state.object(variable_at(1))));
}

HostProgram make_program(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t most) { return static_cast<std::uint32_t>(random() % most); };
  HostProgram program;
  program.host_count = 2 + below(2);
  static constexpr std::int64_t kFailures[] = {0, 1, kAll};
  program.failures_most = kFailures[below(3)];
  for (std::uint32_t h = 0; h < program.host_count; ++h) {
    const std::uint32_t threads = 1 + below(program.host_count == 2 ? 2 : 1);
    for (std::uint32_t t = 0; t < threads; ++t) {
      Thread thread{h, {}};
      for (std::uint32_t steps = 1 + below(3); steps > 0; --steps) {
        const auto kind = static_cast<Action::Kind>(below(7));
        const std::uint32_t object = kind == Action::kWaitHost ? below(program.host_count) : below(2);
        const std::int64_t value = 1 + below(2);
        thread.actions.push_back({kind, object, value});
      }
      if (t == 0 && below(4) != 0) thread.actions.push_back({Action::kEndHost, h});
      program.threads.push_back(thread);
    }
  }
  return program;
}

TEST(Hosts, DoWhatTheRulesSay) {
  std::uint64_t tried = 0, compared = 0, failures = 0, executions = 0;
  for_each_seed(400, [&](std::uint64_t seed) {
    ++tried;
    const HostProgram program = make_program(seed);
    const Interpreter all(program);
    if (all.schedules > Interpreter::kSchedulesMost) return true;
    ++compared;
    failures += program.failures_most != 0 ? 1 : 0;
    const ScriptProgram script = to_script(program);
    const auto outcome = [&](const Execution& execution) { return text_of(program, execution); };
    Found optimal;
    for (const ReductionName reduction : {ReductionName::kSource, ReductionName::kOptimal}) {
      Found found = explore(script, reduction, outcome);
      EXPECT_EQ(found.result.bound, Bound::kNone) << "seed " << seed;
      EXPECT_EQ(found.outcomes, all.outcomes) << "seed " << seed;
      EXPECT_EQ(found.deadlocks, all.deadlocks) << "seed " << seed;
      if (reduction == ReductionName::kOptimal) optimal = std::move(found);
    }
    EXPECT_EQ(optimal.result.asleep, 0u) << "seed " << seed;
    EXPECT_EQ(optimal.result.executions, optimal.classes.size()) << "seed " << seed;
    EXPECT_LE(optimal.result.executions, all.schedules) << "seed " << seed;
    executions += optimal.result.executions;
    return !::testing::Test::HasFailure();
  });
  std::printf("%lu programs, %lu of them with failures, %lu executions\n", compared, failures, executions);
  EXPECT_GT(compared, tried / 4);
  EXPECT_GT(failures, compared / 2);
}

}  // namespace
}  // namespace crashcut::tests
