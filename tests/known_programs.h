// Scripted programs that several tests use.
#pragma once

#include <algorithm>

#include "scheduler/primitives/condition.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/two_writers.h"
#include "scheduler/primitives/variable.h"
#include "tests/script_program.h"

namespace crashcut::tests {

inline scheduler::ObjectId object(scheduler::PrimitiveId primitive, std::uint32_t number) {
  return scheduler::make_object_id(primitive, number);
}

inline ScriptProgram writers(std::uint32_t n) {
  using namespace scheduler;
  ScriptProgram p;
  p.objects.push_back({object(PrimitiveId::kVariable, 0)});
  for (std::uint32_t i = 0; i < n; ++i)
    p.scripts.push_back({does(variable::access(object(PrimitiveId::kVariable, 0), variable::kWrite, i))});
  return p;
}

inline Instruction locks(std::uint32_t number) {
  return does(scheduler::mutex::access(object(scheduler::PrimitiveId::kMutex, number), scheduler::mutex::kLock));
}
inline Instruction unlocks(std::uint32_t number) {
  return does(scheduler::mutex::access(object(scheduler::PrimitiveId::kMutex, number), scheduler::mutex::kUnlock));
}

inline ScriptProgram with_forks(std::uint32_t n) {
  ScriptProgram p;
  for (std::uint32_t i = 0; i <= n; ++i) p.objects.push_back({object(scheduler::PrimitiveId::kMutex, i)});
  return p;
}

inline ScriptProgram philosophers_arbiter(std::uint32_t n) {
  ScriptProgram p = with_forks(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    p.scripts.push_back({locks(n), locks(i), locks((i + 1) % n), unlocks(n), unlocks(i), unlocks((i + 1) % n)});
  }
  return p;
}

inline ScriptProgram philosophers(std::uint32_t n, bool is_last_left_handed) {
  ScriptProgram p = with_forks(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    std::uint32_t first = i, second = (i + 1) % n;
    if (is_last_left_handed && i + 1 == n) std::swap(first, second);
    p.scripts.push_back({locks(first), locks(second), unlocks(first), unlocks(second)});
  }
  return p;
}

// The arbiter is a semaphore that lets in all but one.
inline ScriptProgram philosophers_semaphore(std::uint32_t n) {
  using namespace scheduler;
  ScriptProgram p = with_forks(n);
  const ObjectId s = object(PrimitiveId::kSemaphore, n + 1);
  p.objects.push_back({s, n - 1});
  for (std::uint32_t i = 0; i < n; ++i) {
    p.scripts.push_back({does(semaphore::access(s, semaphore::kWait)), locks(i), locks((i + 1) % n), unlocks(i),
                         unlocks((i + 1) % n), does(semaphore::access(s, semaphore::kPost))});
  }
  return p;
}

// A bounded buffer with room for all items.
inline ScriptProgram producer_consumer(std::uint32_t items) {
  using namespace scheduler;
  ScriptProgram p;
  const ObjectId empty = object(PrimitiveId::kSemaphore, 1), full = object(PrimitiveId::kSemaphore, 2);
  p.objects = {{object(PrimitiveId::kMutex, 0)}, {empty, items}, {full, 0}};
  p.scripts.resize(2);
  for (std::uint32_t i = 0; i < items; ++i) {
    for (const Instruction& x : {does(semaphore::access(empty, semaphore::kWait)), locks(0), unlocks(0),
                                 does(semaphore::access(full, semaphore::kPost))})
      p.scripts[0].push_back(x);
    for (const Instruction& x : {does(semaphore::access(full, semaphore::kWait)), locks(0), unlocks(0),
                                 does(semaphore::access(empty, semaphore::kPost))})
      p.scripts[1].push_back(x);
  }
  return p;
}

inline ScriptProgram readers_and_two_writers_native(std::uint32_t readers) {
  using namespace scheduler;
  ScriptProgram p;
  const ObjectId l = object(PrimitiveId::kTwoWriters, 0);
  p.objects.push_back({l});
  for (std::uint32_t i = 0; i < readers; ++i)
    p.scripts.push_back(
        {does(two_writers::access(l, two_writers::kRead)), does(two_writers::access(l, two_writers::kReadDone))});
  for (const auto verb : {two_writers::kWriteFirst, two_writers::kWriteSecond}) {
    p.scripts.push_back({does(two_writers::access(l, verb)), does(two_writers::access(l, two_writers::kWriteDone))});
  }
  return p;
}

// The same with a mutex, a condition variable and two counts: `while (busy) wait`, unrolled as often as others can
// make it wait.
inline ScriptProgram readers_and_two_writers_built(std::uint32_t readers) {
  using namespace scheduler;
  ScriptProgram p;
  const ObjectId m = object(PrimitiveId::kMutex, 0), c = object(PrimitiveId::kCondition, 1),
                 active = object(PrimitiveId::kVariable, 2);
  p.objects = {{m}, {c}, {active}};
  // active: readers, and 100 for a writer.
  const auto enter = [&](std::int64_t weight) {
    Script s{locks(0)};
    const std::size_t rounds = readers + 2;
    for (std::size_t round = 0; round < rounds; ++round) {
      const std::size_t rest = 4 * (rounds - round) - 2;
      s.push_back(does(variable::access(active, variable::kRead)));
      s.push_back(skip_if(0, rest));
      s.push_back(does(Operation(condition::enqueue(c, static_cast<ActorId>(p.scripts.size())))
                           .add(mutex::access(m, mutex::kUnlock))));
      s.push_back(does(Operation(condition::access(c, condition::kWake)).add(mutex::access(m, mutex::kLock))));
    }
    s.push_back(does(variable::access(active, variable::kAdd, weight)));
    s.push_back(unlocks(0));
    s.push_back(locks(0));
    s.push_back(does(variable::access(active, variable::kAdd, -weight)));
    s.push_back(does(condition::access(c, condition::kBroadcast)));
    s.push_back(unlocks(0));
    return s;
  };
  for (std::uint32_t i = 0; i < readers; ++i) p.scripts.push_back(enter(1));
  p.scripts.push_back(enter(100));
  p.scripts.push_back(enter(100));
  return p;
}

}  // namespace crashcut::tests
