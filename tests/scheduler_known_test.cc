// Programs whose number of classes is known, and bounds.
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <utility>

#include "scheduler/foresight.h"
#include "scheduler/order.h"
#include "scheduler/primitives/barrier.h"
#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/condition.h"
#include "scheduler/primitives/file.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/process.h"
#include "scheduler/primitives/rwlock.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/primitives/stir.h"
#include "scheduler/primitives/thread.h"
#include "scheduler/primitives/two_writers.h"
#include "scheduler/primitives/variable.h"
#include "scheduler/search.h"
#include "tests/known_programs.h"

namespace crashcut::tests {
namespace {

using namespace scheduler;

struct Counted {
  SearchResult result;
  std::uint64_t stuck = 0;
};

Counted count(const ScriptProgram& program, SearchSetup setup = {}, std::size_t workers = 1) {
  Counted counted;
  setup.on_execution = [&](const Execution& e) { return counted.stuck += e.ending == Ending::kStuck, true; };
  counted.result = search_with(program, setup, workers);
  return counted;
}
// For one worker and for two.
std::uint64_t executions(const ScriptProgram& program, const SearchSetup& setup = {}) {
  const std::uint64_t alone = count(program, setup).result.executions;
  EXPECT_EQ(count(program, setup, 2).result.executions, alone);
  return alone;
}

// Every reduction finds so many classes, and the optimal one runs each once.
void expect_classes(const ScriptProgram& program, std::size_t expected, Bounds bounds = {}) {
  for (const ReductionName reduction : {ReductionName::kNone, ReductionName::kSource, ReductionName::kOptimal}) {
    std::set<std::string> classes;
    SearchSetup setup;
    setup.reduction = reduction;
    setup.bounds = bounds;
    setup.on_execution = [&](const Execution& e) { return classes.insert(class_of(e.steps)), true; };
    ScriptProgram copy = program;
    const SearchResult result = search({&copy}, setup);
    EXPECT_FALSE(result.diverged) << static_cast<int>(reduction);
    EXPECT_EQ(classes.size(), expected) << static_cast<int>(reduction);
    if (reduction == ReductionName::kOptimal) {
      EXPECT_EQ(result.executions, expected);
    }
  }
}

std::uint64_t factorial(std::uint64_t n) { return n < 2 ? 1 : n * factorial(n - 1); }

TEST(Known, WritersOfOneVariable) {
  for (std::uint32_t n = 1; n <= 6; ++n) EXPECT_EQ(executions(writers(n)), factorial(n)) << n;
}

TEST(Known, ReadersOnly) {
  ScriptProgram program = writers(6);
  for (Script& script : program.scripts)
    script = {does(variable::access(object(PrimitiveId::kVariable, 0), variable::kRead))};
  EXPECT_EQ(executions(program), 1u);
}

TEST(Known, OneWriterAmongReaders) {
  // Each reader sees the write or does not.
  ScriptProgram program = writers(6);
  for (std::size_t i = 1; i < 6; ++i)
    program.scripts[i] = {does(variable::access(object(PrimitiveId::kVariable, 0), variable::kRead))};
  EXPECT_EQ(executions(program), 32u);
}

TEST(Known, PhilosophersWithAnArbiter) {
  for (std::uint32_t n = 2; n <= 6; ++n) {
    for (const std::size_t workers : {1, 2}) {
      const Counted counted = count(philosophers_arbiter(n), {}, workers);
      EXPECT_EQ(counted.result.executions, factorial(n)) << n;
      EXPECT_EQ(counted.result.asleep, 0u);
      EXPECT_EQ(counted.stuck, 0u);
      EXPECT_EQ(counted.result.bound, Bound::kNone);
    }
  }
}

TEST(Known, PhilosophersOneLeftHanded) {
  for (std::uint32_t n = 3; n <= 8; ++n) {
    for (const std::size_t workers : {1, 2}) {
      const Counted counted = count(philosophers(n, true), {}, workers);
      EXPECT_EQ(counted.result.executions, (1u << n) - 2) << n;
      EXPECT_EQ(counted.stuck, 0u);
      EXPECT_EQ(counted.result.bound, Bound::kNone);
    }
  }
}

TEST(Known, PhilosophersDeadlockInOneClass) {
  for (std::uint32_t n = 2; n <= 7; ++n) EXPECT_EQ(count(philosophers(n, false)).stuck, 1u) << n;
}

// Independence that looks at the state: the semaphore lets in all but one, so only the forks' orders differ.
TEST(Known, PhilosophersWithASemaphore) {
  for (std::uint32_t n = 3; n <= 5; ++n) EXPECT_EQ(executions(philosophers_semaphore(n)), (1u << n) - 2) << n;
}

// What is foreseen of a long execution, and its normal form, cost little more for each step than those of a short one:
// were it the square of the steps, this would take hours.
TEST(Known, LongExecutionsAreForeseen) {
  ScriptProgram program;
  const ObjectId s = object(PrimitiveId::kSemaphore, 0);
  program.objects = {{s, 1}};
  program.scripts.resize(2);
  for (int i = 0; i < 50'000; ++i) {
    program.scripts[0].push_back(does(semaphore::access(s, semaphore::kPost)));
    program.scripts[1].push_back(does(semaphore::access(s, semaphore::kWait)));
  }
  Foresight foresight;
  ForesightProgram foreseeing(program, foresight);
  EXPECT_FALSE(foreseeing.run({}).is_foreseen);
  RunRequest request;
  for (int i = 0; i < 1000; ++i) request.prefix.push_back(static_cast<ActorId>(1 - i % 2));
  const Execution foreseen = foreseeing.run(request);
  EXPECT_TRUE(foreseen.is_foreseen);
  EXPECT_EQ(foreseen.steps.size(), 100'000u);
}

// Two writers of one variable, and a semaphore that nobody waits for: no execution is like another, so nothing is
// saved.
ScriptProgram nothing_to_foresee(std::uint32_t rounds) {
  ScriptProgram program;
  const ObjectId s = object(PrimitiveId::kSemaphore, 0), v = object(PrimitiveId::kVariable, 1);
  program.objects = {{s, 1}, {v}};
  program.scripts.resize(2);
  for (std::uint32_t i = 0; i < rounds; ++i) {
    for (std::uint32_t actor = 0; actor < 2; ++actor)
      program.scripts[actor].push_back(
          does(variable::access(v, variable::kWrite, static_cast<std::int64_t>(2 * i + actor))));
  }
  for (Script& script : program.scripts) script.push_back(does(semaphore::access(s, semaphore::kPost)));
  return program;
}

// Where it saves nothing, foresight gives up: it looks at no more steps than are run and some, however long the search
// is. Then it has cost less than the search itself.
TEST(Known, ForesightGivesUpWhereItSavesNothing) {
  for (const std::size_t workers : {1, 2}) {
    std::uint64_t before = 0;
    for (const std::uint64_t executions : {150u, 200u}) {
      SearchSetup setup;
      setup.bounds.executions_most = executions;
      const SearchResult result = count(nothing_to_foresee(300), setup, workers).result;
      EXPECT_EQ(result.executions, executions);
      EXPECT_EQ(result.foreseen, 0u);
      EXPECT_TRUE(result.gave_up_foresight);
      EXPECT_LE(result.foreseen_steps, result.transitions);
      // A longer search does not foresee more. Several workers may foresee some executions ahead.
      if (workers == 1 && before != 0) {
        EXPECT_EQ(result.foreseen_steps, before);
      }
      before = result.foreseen_steps;
      if (workers == 2) continue;
      setup.has_foresight = false;
      const SearchResult without = count(nothing_to_foresee(300), setup, workers).result;
      EXPECT_EQ(without.foreseen_steps, 0u);
      EXPECT_EQ(without.transitions, result.transitions);
    }
  }
}

// Short executions cost more to start than to foresee, so it does not give up there. Nor does it where it saves most.
TEST(Known, ForesightGoesOnWhereItSaves) {
  for (std::uint32_t n = 3; n <= 5; ++n) {
    const SearchResult result = count(philosophers_semaphore(n)).result;
    EXPECT_FALSE(result.gave_up_foresight) << n;
    EXPECT_GT(result.foreseen, result.executions) << n;
  }
}

// A run that was foreseen and fails keeps nobody waiting for it: the same can be asked for again.
TEST(Known, ARunThatFailsIsOver) {
  struct Failing : Program {
    ScriptProgram program = philosophers_semaphore(3);
    bool fails = false;
    Execution run(const RunRequest& request) override {
      if (std::exchange(fails, false)) throw 1;
      return program.run(request);
    }
  } failing;
  const auto one_after_the_other = [](std::initializer_list<std::uint32_t> actors) {
    RunRequest request;
    for (const std::uint32_t actor : actors)
      request.prefix.insert(request.prefix.end(), 6, static_cast<ActorId>(actor));
    return request;
  };
  Foresight foresight;
  ForesightProgram foreseeing(failing, foresight);
  foreseeing.run(one_after_the_other({0, 1, 2}));
  failing.fails = true;
  EXPECT_THROW(foreseeing.run(one_after_the_other({2, 1, 0})), int);
  EXPECT_FALSE(foreseeing.run(one_after_the_other({2, 1, 0})).is_foreseen);
  EXPECT_TRUE(foreseeing.run(one_after_the_other({2, 1, 0})).is_foreseen);
}

// The orders of the two kinds of critical section, no item taken before it is there: Catalan's numbers.
TEST(Known, ProducerAndConsumer) {
  EXPECT_EQ(executions(producer_consumer(3)), 5u);
  EXPECT_EQ(executions(producer_consumer(4)), 14u);
  EXPECT_EQ(executions(producer_consumer(5)), 42u);
}

// Readers who wait for each other while they read: the writer comes before both or after both. Without either of them
// alone it would still have to wait for the other.
TEST(Known, AWriterBeforeReadersWhoMeet) {
  for (std::uint32_t readers = 2; readers <= 3; ++readers) {
    ScriptProgram p;
    const ObjectId l = object(PrimitiveId::kRwLock, 0), b = object(PrimitiveId::kBarrier, 1),
                   t = object(PrimitiveId::kTwoWriters, 2);
    p.objects = {{l}, {b, readers}, {t}};
    ScriptProgram native = p;
    for (std::uint32_t i = 0; i < readers; ++i) {
      p.scripts.push_back({does(rwlock::access(l, rwlock::kRead)), does(barrier::access(b, barrier::kArrive)),
                           leaves(b), does(rwlock::access(l, rwlock::kUnlock))});
      native.scripts.push_back({does(two_writers::access(t, two_writers::kRead)),
                                does(barrier::access(b, barrier::kArrive)), leaves(b),
                                does(two_writers::access(t, two_writers::kReadDone))});
    }
    p.scripts.push_back({does(rwlock::access(l, rwlock::kWrite)), does(rwlock::access(l, rwlock::kUnlock))});
    native.scripts.push_back({does(two_writers::access(t, two_writers::kWriteFirst)),
                              does(two_writers::access(t, two_writers::kWriteDone))});
    expect_classes(p, 2);
    expect_classes(native, 2);
  }
}

// Nor do readers who never leave hide the writer before them.
TEST(Known, AWriterBeforeReadersWhoStay) {
  ScriptProgram p;
  const ObjectId l = object(PrimitiveId::kRwLock, 0);
  p.objects = {{l}};
  for (int i = 0; i < 3; ++i) p.scripts.push_back({does(rwlock::access(l, rwlock::kRead))});
  p.scripts.push_back({does(rwlock::access(l, rwlock::kWrite)), does(rwlock::access(l, rwlock::kUnlock))});
  expect_classes(p, 2);
}

// A writer that comes only after one of the readers did something cannot come before it.
TEST(Known, AWriterThatFollowsAReader) {
  ScriptProgram p;
  const ObjectId l = object(PrimitiveId::kRwLock, 0), s = object(PrimitiveId::kSemaphore, 1);
  const Instruction reads = does(rwlock::access(l, rwlock::kRead));
  p.objects = {{l}, {s}};
  p.scripts = {{reads},
               {reads, does(semaphore::access(s, semaphore::kPost))},
               {does(semaphore::access(s, semaphore::kWait)), does(rwlock::access(l, rwlock::kWrite))}};
  expect_classes(p, 1);
}

// Nor do two that each hold one of the two locks that a call on files needs.
TEST(Known, ACallBeforeThoseWhoHoldItsLocks) {
  ScriptProgram p;
  const ObjectId inode = object(PrimitiveId::kFile, 1), description = object(PrimitiveId::kFile, 2);
  const auto calls = [](Operation locks) {
    Operation call(Access{file::kCalls, file::kCall});
    for (const Access& lock : locks) call.add(lock);
    call.set_footprint(interned({}));
    return does(call);
  };
  p.objects = {{inode}, {description}};
  p.scripts = {{calls(Access{inode, file::kAcquire})},
               {calls(Access{description, file::kAcquire})},
               {calls(Operation(Access{inode, file::kPass}).add({description, file::kPass}))}};
  expect_classes(p, 2);
}

// Who comes to its step before the process ends: any of three. Two of them are calls on files that turn out to commute.
TEST(Known, CallsOnFilesBeforeTheEnd) {
  ScriptProgram p;
  const ObjectId v = object(PrimitiveId::kVariable, 1);
  p.objects = {{v}};
  p.scripts = {{does(process::exit(0))},
               {does(file_call(ScriptFiles::kRead, 1, 0))},
               {does(variable::access(v, variable::kRead))},
               {does(file_call(ScriptFiles::kRead, 0, 0))}};
  expect_classes(p, 8);
}

// A join that is cancelled, or mistaken, does not wait: it may come before the end of the thread, and after it.
TEST(Known, AJoinThatDoesNotWait) {
  ScriptProgram cancelled;
  const ObjectId t = object(PrimitiveId::kThread, 0), c = object(PrimitiveId::kCancellation, 1);
  cancelled.objects = {{t, thread::kStarted}, {c}};
  ScriptProgram detached = cancelled;
  const Instruction exits = does(thread::access(t, thread::kExit)), joins = does(thread::access(t, thread::kJoin));
  cancelled.scripts = {{does(cancellation::access(c, cancellation::kRequest))},
                       {does(cancellation::access(c, cancellation::kEnter)), skip_if(ECANCELED, 1),
                        does(thread::access(t, thread::kJoin).add(cancellation::access(c, cancellation::kLeave)))},
                       {exits}};
  detached.scripts = {{does(thread::access(t, thread::kDetach))}, {joins}, {exits}};
  cancelled.beside = {cancellation::access(c, cancellation::kAct)};
  expect_classes(cancelled, 4);  // the request before the join; after it, acted upon before the end or after it, or not
  expect_classes(detached, 3);
}

// A word that is exchanged as a whole where the halves do not get in its way: where it fails it only reads, and
// commutes with those who read a half; where it succeeds it does not.
TEST(Known, AnExchangeThatFailsElsewhere) {
  ScriptProgram p;
  const ObjectId x = object(PrimitiveId::kMemory, 0), y = object(PrimitiveId::kMemory, 1);
  p.objects = {{x}, {y}};
  p.scripts.push_back({does(memory::access(x, memory::kCompareExchange, 0, 8, 2, 0)), skip_if(memory::kSame, 1),
                       does(memory::access(x, memory::kStore, 0, 4, 2))});
  p.scripts.push_back({does(memory::access(y, memory::kAwait, 0, 4, 1)),
                       does(memory::access(x, memory::kCompareExchange, 4, 4, 2, 0)),
                       does(memory::access(y, memory::kStore, 0, 4, 2))});
  p.scripts.push_back(
      {does(memory::access(x, memory::kAwait, 0, 4, 1)), does(memory::access(y, memory::kExchange, 0, 4, 1))});
  expect_classes(p, 11);
}

TEST(Known, BarrierHasOneClass) {
  ScriptProgram program;
  const ObjectId b = object(PrimitiveId::kBarrier, 0);
  program.objects.push_back({b, 5});
  for (int i = 0; i < 5; ++i) program.scripts.push_back({does(barrier::access(b, barrier::kArrive)), leaves(b)});
  EXPECT_EQ(executions(program), 1u);
}

// The wake-up of a waiter is for anyone who waited, for the first come, or for the last.
TEST(Known, PoliciesOfSemaphores) {
  const auto program = [](Policy policy) {
    ScriptProgram p;
    const ObjectId s = object(PrimitiveId::kSemaphore, 0);
    p.objects.push_back({s, 0, 0, policy});
    for (int i = 0; i < 3; ++i) {
      Script script;
      if (policy != kArbitrary) script.push_back(does(semaphore::access(s, semaphore::kEnqueue)));
      script.push_back(does(semaphore::access(s, policy == kArbitrary ? semaphore::kWait : semaphore::kTakeTurn)));
      p.scripts.push_back(script);
    }
    p.scripts.push_back({does(semaphore::access(s, semaphore::kPost)), does(semaphore::access(s, semaphore::kPost)),
                         does(semaphore::access(s, semaphore::kPost))});
    return p;
  };
  EXPECT_EQ(count(program(kArbitrary)).stuck, 0u);
  EXPECT_EQ(count(program(kFifo)).stuck, 0u);
  EXPECT_EQ(count(program(kLifo)).stuck, 0u);
}

// Of those who came while it was held, the first come gets it, or the last.
TEST(Known, PoliciesOfMutexes) {
  const auto program = [](Policy policy) {
    ScriptProgram p;
    const ObjectId m = object(PrimitiveId::kMutex, 0);
    p.objects.push_back({m, mutex::kNormal + static_cast<int>(policy) * mutex::kPolicy});
    for (int i = 0; i < 3; ++i) {
      if (policy == kArbitrary)
        p.scripts.push_back({does(mutex::access(m, mutex::kLock)), does(mutex::access(m, mutex::kUnlock))});
      else
        p.scripts.push_back({does(mutex::enqueue(m, policy)), does(mutex::access(m, mutex::kLock)),
                             does(mutex::access(m, mutex::kUnlock))});
    }
    return p;
  };
  const auto check = [&](Policy policy) {
    SearchSetup setup;
    setup.on_execution = [&](const Execution& e) {
      std::vector<ActorId> line;
      for (const Step& step : e.steps) {
        if (step.operation[0].verb == mutex::kEnqueue) line.push_back(step.actor);
        if (step.operation[0].verb != mutex::kLock) continue;
        EXPECT_EQ(step.actor, policy == kFifo ? line.front() : line.back());
        std::erase(line, step.actor);
      }
      return true;
    };
    ScriptProgram p = program(policy);
    return search({&p}, setup).executions;
  };
  EXPECT_EQ(executions(program(kArbitrary)), 6u);
  EXPECT_EQ(check(kFifo), 6u);   // the orders of coming
  EXPECT_EQ(check(kLifo), 30u);  // and, for each, the ways to put three on a stack and take them off: Catalan's 5
}

// `if` where `while` is needed: only a wake-up without a signal breaks it.
TEST(Known, SpuriousWakeUps) {
  const auto failures = [](std::int64_t spurious) {
    ScriptProgram p;
    const ObjectId c = object(PrimitiveId::kCondition, 0), m = object(PrimitiveId::kMutex, 1),
                   items = object(PrimitiveId::kVariable, 2), s = object(PrimitiveId::kStir, 3);
    p.objects = {{c}, {m}, {items}, {s, spurious}};
    p.beside = {stir::access(s, stir::kStir)};
    const Operation enqueue = Operation(condition::enqueue(c, ActorId{0})).add(mutex::access(m, mutex::kUnlock));
    Script script{does(mutex::access(m, mutex::kLock)), does(variable::access(items, variable::kRead)),
                  skip_if(1, spurious > 0 ? 3 : 2)};
    if (spurious > 0) script.push_back(does(stir::access(s, stir::kOffer)));
    script.push_back(does(spurious > 0 ? Operation(enqueue).add(stir::access(s, stir::kHeed)) : enqueue));
    script.push_back(does(Operation(condition::access(c, condition::kWake)).add(mutex::access(m, mutex::kLock))));
    script.insert(script.end(),
                  {does(variable::access(items, variable::kRead)), fail_if(0), does(mutex::access(m, mutex::kUnlock))});
    p.scripts.push_back(script);
    p.scripts.push_back({does(mutex::access(m, mutex::kLock)), does(variable::access(items, variable::kWrite, 1)),
                         does(condition::access(c, condition::kSignal)), does(mutex::access(m, mutex::kUnlock))});
    std::uint64_t failed = 0;
    SearchSetup setup;
    setup.on_execution = [&](const Execution& e) { return failed += e.ending == Ending::kProcessEnded, true; };
    const SearchResult result = search({&p}, setup);
    EXPECT_EQ(result.bound, Bound::kNone);
    EXPECT_EQ(result.rest.unstirred_waits, spurious > 0 ? 0u : 1u);
    return failed;
  };
  EXPECT_EQ(failures(0), 0u);
  EXPECT_GT(failures(1), 0u);
}

TEST(Known, ASpinningActorIsNoEndlessExecution) {
  ScriptProgram p;
  const ObjectId v = object(PrimitiveId::kVariable, 0), s = object(PrimitiveId::kSpin, 1);
  p.objects = {{v}, {s}};
  p.scripts.push_back({does(spin::access(s, spin::kYield)), does(spin::access(s, spin::kSpin)),
                       does(spin::access(s, spin::kSpin)), does(spin::access(s, spin::kSpin))});
  p.scripts.push_back({does(variable::access(v, variable::kWrite, 1))});
  const Counted counted = count(p);
  EXPECT_EQ(counted.stuck, counted.result.executions);  // it spins once more than others take steps
}

TEST(Bounds, AreReported) {
  SearchSetup setup;
  setup.bounds.executions_most = 10;
  SearchResult result = count(writers(5), setup).result;
  EXPECT_EQ(result.bound, Bound::kExecutions);
  EXPECT_EQ(result.executions, 10u);
  EXPECT_LT(result.fraction.likely, 1);
  EXPECT_GT(result.fraction.likely, 0);
  setup.bounds = {};
  setup.bounds.time_most_s = 1e-9;
  EXPECT_EQ(count(writers(5), setup).result.bound, Bound::kTime);
  setup.bounds = {};
  setup.bounds.depth_most = 2;
  EXPECT_EQ(count(philosophers(3, true), setup).result.bound, Bound::kSteps);
  setup.bounds.depth_most = 100;
  EXPECT_EQ(count(philosophers(3, true), setup).result.bound, Bound::kNone);
}

// Actors that have more to do than the bound lets them: the schedules of what it lets them do, and no others.
TEST(Bounds, DepthIsKept) {
  ScriptProgram program = writers(2);
  for (Script& script : program.scripts) script.assign(20, script[0]);
  expect_classes(program, 6, {.depth_most = 2});
  expect_classes(program, 70, {.depth_most = 4});
}

// Who is held back by the bound is told, even where it could not have gone on at the end.
TEST(Bounds, DepthIsReportedWhereTheRestIsBlocked) {
  ScriptProgram program = with_forks(2);
  program.scripts = {{locks(0)}, {locks(1), locks(0)}};
  SearchSetup setup;
  setup.bounds.depth_most = 1;
  EXPECT_EQ(count(program, setup).result.bound, Bound::kSteps);
}

// Another seed leads to the same classes, in another order.
TEST(Search, EverySeedFindsTheSameClasses) {
  for (const ReductionName reduction : {ReductionName::kSource, ReductionName::kOptimal}) {
    std::set<std::string> firsts;
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      SearchSetup setup;
      setup.reduction = reduction;
      setup.seed = seed;
      std::set<std::string> classes;
      setup.on_execution = [&](const Execution& e) {
        if (classes.empty()) firsts.insert(class_of(e.steps));
        return classes.insert(class_of(e.steps)), true;
      };
      ScriptProgram program = philosophers_arbiter(4);
      const SearchResult result = search({&program}, setup);
      EXPECT_EQ(classes.size(), factorial(4)) << seed;
      EXPECT_EQ(result.executions, factorial(4)) << seed;
      EXPECT_EQ(result.bound, Bound::kNone) << seed;
    }
    EXPECT_GT(firsts.size(), 1u);
  }
}

// From a part of the search, how large the whole of it is: not off by more than a few times.
TEST(Bounds, TheEstimateIsOfTheRightSize) {
  const auto expect_near = [](const ScriptProgram& program, std::uint32_t preemptions) {
    SearchSetup setup;
    setup.has_foresight = false;
    setup.bounds.preemptions_most = preemptions;
    const auto all = static_cast<double>(count(program, setup).result.executions);
    for (const int part : {8, 4, 2}) {
      setup.bounds.executions_most = static_cast<std::uint64_t>(all) / static_cast<std::uint64_t>(part);
      const SearchResult result = count(program, setup).result;
      const double estimated = static_cast<double>(result.executions) / result.fraction.likely;
      EXPECT_GT(estimated, all / 4) << part;
      EXPECT_LT(estimated, all * 4) << part;
    }
  };
  expect_near(writers(6), kNoPreemptionBound);
  expect_near(philosophers_arbiter(6), kNoPreemptionBound);
  expect_near(philosophers(4, true), 1);
  expect_near(philosophers_arbiter(4), 1);
}

// However few executions there were: of a tree that can never be explored they are next to nothing.
TEST(Bounds, OfAnEndlessTreeNothingIsDone) {
  ScriptProgram program = with_forks(1);
  program.scripts.assign(2, {});
  for (Script& script : program.scripts) {
    for (int i = 0; i < 500; ++i) {
      script.push_back(locks(0));
      script.push_back(unlocks(0));
    }
  }
  for (const std::uint64_t most : {1, 2, 3, 10, 100}) {
    SearchSetup setup;
    setup.has_foresight = false;
    setup.bounds.executions_most = most;
    const SearchResult result = count(program, setup).result;
    EXPECT_EQ(result.executions, most);
    EXPECT_LT(result.fraction.likely, 1e-6) << most;
    EXPECT_LE(result.fraction.low, result.fraction.likely) << most;
    EXPECT_LE(result.fraction.likely, result.fraction.high) << most;
  }
}

// A search that is stopped again and again finds, all in all, what one that is not does.
TEST(Bounds, AStoppedSearchGoesOn) {
  for (const ScriptProgram& whole : {writers(4), philosophers(3, false), philosophers_arbiter(4), producer_consumer(3),
                                     readers_and_two_writers_native(1)}) {
    for (const ReductionName reduction : {ReductionName::kNone, ReductionName::kSource, ReductionName::kOptimal}) {
      SearchSetup setup;
      setup.reduction = reduction;
      setup.has_foresight = false;
      setup.bounds.executions_most = 3000;
      const Counted once = count(whole, setup);
      if (once.result.bound != Bound::kNone) continue;
      setup.bounds.executions_most = once.result.executions / 5 + 1;
      std::uint64_t executions = 0, asleep = 0, stuck = 0;
      TreeSketch rest;
      for (int part = 0; part < 100; ++part) {
        const Counted counted = count(whole, setup);
        EXPECT_FALSE(counted.result.diverged);
        executions += counted.result.executions;
        asleep += counted.result.asleep;
        stuck += counted.stuck;
        if (counted.result.bound == Bound::kNone) break;
        rest = counted.result.rest;
        setup.rest = &rest;
      }
      EXPECT_EQ(executions, once.result.executions) << static_cast<int>(reduction);
      EXPECT_EQ(asleep, once.result.asleep) << static_cast<int>(reduction);
      EXPECT_EQ(stuck, once.stuck) << static_cast<int>(reduction);
    }
  }
}

// One preemption is what the deadlock takes: the others then wait in turn.
TEST(Bounds, Preemptions) {
  const auto stuck_within = [](std::uint32_t preemptions) {
    SearchSetup setup;
    setup.bounds.preemptions_most = preemptions;
    const Counted counted = count(philosophers(3, false), setup);
    EXPECT_EQ(counted.result.bound, Bound::kPreemptions);
    return counted.stuck > 0;
  };
  EXPECT_FALSE(stuck_within(0));
  EXPECT_TRUE(stuck_within(1));
}

TEST(Bounds, EveryScheduleWithoutPreemption) {
  // Three actors of two steps each that nothing blocks: one runs to its end, then another: 3!.
  ScriptProgram program = writers(3);
  for (Script& script : program.scripts) script.push_back(script[0]);
  SearchSetup setup;
  setup.bounds.preemptions_most = 0;
  EXPECT_EQ(count(program, setup).result.executions, 6u);
  setup.bounds.preemptions_most = 100;
  EXPECT_EQ(count(program, setup).result.executions, 90u);  // 6! / 2!^3
}

// The paper's point: one primitive against the same built on a mutex and a condition variable.
TEST(Known, ANativePrimitiveIsCheaper) {
  const Counted native = count(readers_and_two_writers_native(1));
  const Counted built = count(readers_and_two_writers_built(1));
  EXPECT_LT(native.result.transitions * 40, built.result.transitions);
  RecordProperty("native_transitions", std::to_string(native.result.transitions));
  RecordProperty("built_transitions", std::to_string(built.result.transitions));
  std::printf(
      "one reader, two writers: %lu executions, %lu transitions native; %lu, %lu built on a condition variable\n",
      native.result.executions, native.result.transitions, built.result.executions, built.result.transitions);
}

// Stops the search once it has run an execution, before its races are looked for.
class StoppingProgram : public Program {
 public:
  StoppingProgram(const ScriptProgram& program, std::atomic<bool>& stop) : program_(program), stop_(&stop) {}
  bool stops_next = false;
  Execution run(const RunRequest& request) override {
    Execution execution = program_.run(request);
    if (stops_next) *stop_ = true;
    return execution;
  }

 private:
  ScriptProgram program_;
  std::atomic<bool>* stop_;
};

// A search that is stopped while it looks for races goes on where it was: the execution whose races it looked for is
// run once more, and no class is lost. The steps of the actors' own make the look long enough to be stopped.
TEST(Search, GoesOnWhereLookingForRacesWasStopped) {
  constexpr int kShared = 3, kOwn = 9'000;
  const auto variable_at = [](std::uint32_t number) { return make_object_id(PrimitiveId::kVariable, 1 + number); };
  ScriptProgram program;
  for (std::uint32_t actor = 0; actor < 2; ++actor) {
    Script script;
    for (int i = 0; i < kShared; ++i) script.push_back(does(variable::access(variable_at(0), variable::kAdd, 1)));
    for (int i = 0; i < kOwn; ++i) script.push_back(does(variable::access(variable_at(1 + actor), variable::kRead)));
    program.scripts.push_back(std::move(script));
  }
  constexpr std::size_t kClasses = 20;  // which three of the six additions are the first actor's
  for (const ReductionName reduction : {ReductionName::kSource, ReductionName::kOptimal}) {
    std::set<std::string> classes;
    std::atomic<bool> stop = false;
    StoppingProgram running(program, stop);
    std::size_t parts = 0;
    std::uint64_t executions = 0;
    TreeSketch rest;
    for (Bound bound = Bound::kInterrupt; bound != Bound::kNone; ++parts) {
      ASSERT_LT(parts, 2 * kClasses);
      SearchSetup setup;
      setup.reduction = reduction;
      setup.has_foresight = false;
      setup.stop = &stop;
      setup.rest = parts == 0 ? nullptr : &rest;
      setup.on_execution = [&](const Execution& e) {
        classes.insert(outcome_of(e));
        return running.stops_next = true;
      };
      running.stops_next = stop = false;
      const SearchResult result = search({&running}, setup);
      ASSERT_FALSE(result.diverged);
      bound = result.bound;
      rest = result.rest;
      executions += result.executions;
    }
    EXPECT_EQ(classes.size(), kClasses);
    // Each part but the last is stopped at its second execution, which the next part begins with.
    EXPECT_TRUE(reduction != ReductionName::kOptimal || executions == kClasses + parts - 1) << executions;
  }
}

}  // namespace
}  // namespace crashcut::tests
