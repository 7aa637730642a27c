// Random small programs for the scheduler's oracle: which primitives occur is chosen by families.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "scheduler/primitives/cancellation.h"
#include "scheduler/primitives/channel.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/signal.h"
#include "tests/script_program.h"

namespace crashcut::tests {

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
  kPassing = 65536,  // time passes when no other actor can run: timed waits may run out early only so often, and there
                     // are sleeps
  kFutexes = 1 << 17,
  kRobust = 1 << 18,
  kAssumes = 1 << 19,
  kDestroys = 1 << 20,
  kJoins = 1 << 21,
  kFiles = 1 << 22,
  kChannels = 1 << 23,
  kSignals = 1 << 24,
  kHosts = 1 << 25,
};
inline constexpr std::uint32_t kFamilyCount = 25;  // that add() picks from; hosts come besides

class RandomScripts {
 public:
  RandomScripts(std::uint64_t seed, unsigned families) : random_(seed), families_(families) {}
  ScriptProgram make();

 private:
  using Access = scheduler::Access;
  using ObjectId = scheduler::ObjectId;
  using Operation = scheduler::Operation;
  using PrimitiveId = scheduler::PrimitiveId;

  struct Place {
    ObjectId memory;
    std::uint8_t offset, bytes;
  };
  // A pipe (descriptors 768 and 769), an eventfd (770) and a set (771): channels 0 to 2.
  static constexpr std::int64_t kFd = scheduler::channel::kFdFirst;
  // A queued one among them.
  static constexpr std::int64_t kNumbers[] = {1, 2, scheduler::signal::kFirstQueued + 3};

  static ObjectId id(PrimitiveId primitive, std::uint32_t number);
  // Objects that no step touches are left out: the oracle copies states all the time.
  static void number_densely(ScriptProgram& program);
  std::uint32_t pick(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  ObjectId any(PrimitiveId primitive) { return id(primitive, pick(2)); }
  // The timers of the actor, one for each thing that it waits for, and what wakes it for nothing.
  void add_beside(std::vector<Operation>& beside);
  void arm(Script& script, std::uint32_t what);
  Access own_cancellation(scheduler::cancellation::Verb verb);
  // A wait that is a cancellation point, of so many steps: the thread does without it where it is cancelled before.
  void enter(Script& script, std::size_t steps);
  Access take() const;
  void begin_thread(Script& script);
  void end_thread(Script& script);
  void add(Script& script);
  void add_variable(Script& script);
  // The order in which a call's arguments are evaluated is open, so no call has two picks: every compiler makes the
  // same programs.
  Instruction writes(ObjectId v);
  // Halves of a word, sometimes the whole, and sometimes a byte or two.
  Place any_place();
  Access accesses(Place p, scheduler::memory::Verb verb, std::uint32_t values);
  void add_memory(Script& script);
  // A step that commutes with nothing.
  void add_opaque(Script& script);
  // The word holds what it should: the rest is memory's business.
  void add_futex(Script& script);
  // Whoever has it may end with it.
  void add_robust(Script& script);
  void add_destroy(Script& script);
  void add_file_call(Script& script);
  static ObjectId channels() { return id(PrimitiveId::kChannel, 0); }
  void open_channels(Script& script);
  // Uses a descriptor, and what is to follow is done where it names what it named first.
  void use(Script& script, std::int64_t fd, std::size_t steps);
  void add_channel_call(Script& script);
  static ObjectId signals_of_process() { return id(PrimitiveId::kSignal, 7); }
  static ObjectId signals_of(std::uint32_t actor) { return id(PrimitiveId::kSignal, actor); }
  std::int64_t any_signal() { return kNumbers[pick(5) % 3]; }
  std::int64_t any_set();
  void add_signal_call(Script& script);
  // sigwait() and its like: forever, for a while, or not at all; mostly of what is blocked.
  void add_wait_for_signal(Script& script, std::int64_t set);
  // sigsuspend(), or another wait while something else is blocked.
  void add_wait_with_mask(Script& script, std::int64_t set);
  // What a handler does others can notice, or not.
  void add_handlers(ScriptProgram& program);
  static ObjectId host_at(std::uint32_t number) { return id(PrimitiveId::kHost, number); }
  // Each host has the actor of its number, and others by chance. One of the hosts may have a second incarnation, of one
  // actor. No host fails, one, or any.
  void add_hosts(ScriptProgram& program);
  void add_host_call(Script& script);
  // Anybody may wait for anybody's end, or not.
  void add_join(Script& script);
  // Policies are the same for all objects of a number.
  void get_in_line(Script& script, ObjectId mutex);
  void add_lock(Script& script, ObjectId mutex);
  void add_mutex(Script& script);
  // Whatever there is, while something is held.
  void add_nested(Script& script);
  void add_inner(Script& script);
  void add_semaphore(Script& script);
  void add_condition(Script& script);
  // With the first mutex, which is locked.
  void add_wait(Script& script, std::uint32_t number, bool is_timed);
  // Requests, and waits that heed them.
  void add_cancellation(Script& script);
  void add_rwlock(Script& script);
  // What readers may do together.
  void add_within(Script& script);
  void add_two_writers(Script& script);
  void add_once(Script& script);
  void add_try(Script& script);
  // One timed wait an actor: its timer is an actor too.
  void add_timed(Script& script);
  void add_timed_wait(Script& script);
  // Timed waits, as many as there are, and sleeps. Who waited in vain leaves a trace.
  void add_passing(Script& script);

  std::mt19937_64 random_;
  unsigned families_;
  std::uint32_t self_ = 0, nesting_ = 0;
  std::size_t actor_count_ = 0;
  std::uint32_t host_count_ = 0;
  bool has_restart_ = false;
  bool has_timer_ = false, is_stirred_ = false, is_cancellable_ = false, is_timed_[3] = {};
  std::int64_t policy_[2] = {}, preference_[2] = {};
};

}  // namespace crashcut::tests
