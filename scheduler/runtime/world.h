// World: one execution inside the runner: the actors, the state of their objects, and which actor runs.
//
// Every call of the program that other threads can notice comes to perform(). The actor waits before its operation; the
//   director chooses the next actor; that actor's operation is applied to the state, and the actor runs on to its next
//   operation.
// Threads: one kernel thread, so nothing here needs a lock.
#pragma once

#include <signal.h>

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "inject/signals.h"
#include "scheduler/passing_time.h"
#include "scheduler/primitive.h"
#include "scheduler/rounds.h"
#include "scheduler/runtime/accesses.h"
#include "scheduler/runtime/added_locks.h"
#include "scheduler/runtime/fiber.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::scheduler::runtime {

inline constexpr std::uint32_t kKeysMost = 1024;  // PTHREAD_KEYS_MAX
// Up to so many yields in a row, or failed tries, mean nothing. More are taken for a loop that waits for something.
inline constexpr std::uint32_t kPolite = 8;

struct Actor : TimedActor {
  Fiber fiber;
  bool is_over = false;
  Operation done;  // what it did last
  std::uint64_t caller = 0;
  CallStack calls{};  // that led to `caller`, where they are told
  AddedLockView added_lock;
  std::uint32_t child_count = 0;
  std::uint32_t yields_in_a_row = 0;
  // A loop of failed tries: one of the tries, how often it came round (0: there is no loop), how many other tries
  // failed since, and how many of those may fail before another try is looked for instead.
  ObjectId tried{};
  const void* tried_at = nullptr;
  std::uint32_t failed_tries = 0, others_failed = 0, others_most = 0;
  // While its rounds are watched (loops.h): how often it wrote, or may have written; a hash of memory when it went on.
  std::uint64_t written = 0, memory_before = 0;
  bool is_watched = false;
  std::uint64_t written_when_alone = 0;  // `written`, some sleeps before it has slept alone too often (passing_time.h)
  std::uint64_t clock_ns = 0;            // its virtual time
  std::uint64_t random = 0;
  std::uint64_t processors = 0;  // that it may run on (machine.cc)
  ObjectId thread{}, loop{}, cancellation{}, timer{}, stir{}, signals{};
  // Signals (signal_calls.h): what it blocks; what it blocks after a call that blocks others, and during that call.
  std::uint64_t mask = 0, mask_after = 0, mask_meanwhile = 0;
  bool wants_other_mask = false, has_other_mask = false;
  Actor* delivers_to = nullptr;  // set for an actor without code, whose steps deliver signals to that actor
  bool is_cancel_enabled = true;
  bool has_canceller = false;
  bool is_ending = false;
  std::vector<ObjectId> timed;  // the conditions that its timer was set for (timer.h); other waits are not listed
  void* (*routine)(void*) = nullptr;
  void* argument = nullptr;
  void* result = nullptr;
  void* keys[kKeysMost] = {};
  const volatile std::uint32_t* futex_word = nullptr;
  // A call on files (files.cc).
  ObjectId file_locks[2] = {};
  bool is_in_file_step = false;
  bool is_holding_locks = false;  // between two of its steps
  std::uint64_t ordinal = 0;
  MemoryView memory;
  // Where it runs (hosts.h); kNoHost if there are no hosts.
  std::uint32_t host = 0;
  std::uint16_t incarnation = 0;
  ObjectId host_object = kNoHost;
  bool is_failure = false;  // the failure of that host
  bool is_cache = false;    // what the cache of that host does by itself (buffers.h)
  // Set for a lane of that thread's store buffer (buffers.h); and the lanes of a thread, by their numbers.
  Actor* lane_of = nullptr;
  std::vector<Actor*> lanes;
  ObjectId answers{};
  std::int64_t answer_count = 0;  // so many lanes give answers

  // No thread of the program.
  bool is_helper() const { return is_timer || is_failure || is_cache || delivers_to != nullptr || lane_of != nullptr; }
};

// Whether the program's calls are scheduled now; if not, they are done as if there were one thread.
bool is_scheduling();
// Whether an execution is under way. It still is while exit() runs destructors.
bool is_executing();
Actor& current_actor();
// The virtual time of the running actor. The caller may move it on.
std::uint64_t& own_clock_ns();
// Those of this process.
void for_each_actor(void (*visit)(const Actor&));
// What a waiting call does after a signal's handler has run: it goes on waiting; it goes on, but fails by EINTR if the
// handler was installed without SA_RESTART; it fails.
enum class OnSignal { kGoOn, kRestart, kFail };
inline constexpr std::int64_t kInterrupted = INT64_MIN + 1;
// Does the operation when the actor's turn comes. Returns the result of the first access; or kInterrupted, if a signal
// came and the operation was not done.
std::int64_t perform(const Operation& operation, const void* caller, OnSignal on_signal = OnSignal::kGoOn);
// The same in two halves, for operations that are known only when they are done. wait_for_turn() returns when the
// actor's turn has come, or false if a signal came instead. finish_turn() records what the operation was. No other
// actor runs in between.
bool wait_for_turn(const Operation& operation, const void* caller, OnSignal on_signal = OnSignal::kGoOn);
void finish_turn(Operation& done, Footprint footprint, std::string_view text);
// The object of that key, which is the same in every execution.
ObjectId keyed_object(PrimitiveId primitive, std::uint64_t key);
// An object that belongs to one actor and is named by it.
ObjectId own_object(PrimitiveId primitive, ActorId actor, std::int64_t a, std::int64_t b = 0);
// The object at an address. Its name is the same in every execution. A new object begins as `start` says (its id is
// filled in). `is_initialised`: the program initialises it here, so it begins again.
ObjectId object_at(PrimitiveId primitive, const void* address, ObjectStart start, bool is_initialised = false);
// The same for an object that may be made without a call, by an initialiser that zeroes the four bytes at `stamp`.
ObjectId stamped_object_at(PrimitiveId primitive, const void* address, const ObjectStart& start, std::uint32_t& stamp,
                           bool is_initialised = false);
const Object& object_of(ObjectId id);
// Whether the running actor, whose own state is `local`, has come round to where it was before (rounds.h).
Rounds::Standing stand(std::uint64_t local);
// The running actor rests: it goes on only if no other actor can.
void rest(const void* caller);
// Whether the next operation of the running actor is a sleep.
void note_sleep(bool is_sleeping);
// Adds an actor without code beside the running one. It always stands before that operation.
void accompany(std::uint32_t ordinal, const Operation& operation);
// Sets the running actor's timer, before a timed wait: for that condition, if it is one.
void arm_timer(const void* caller, const ObjectId* condition = nullptr);
Access take_timer();
// Before the running actor waits for a condition: the access that its wait needs besides, if it may wake spuriously.
std::optional<Access> offer_stir(const void* caller);
// The running actor's loops.
ObjectId loop_object();
// The running actor has run for long without an operation. If others can go on, it seems to wait for a variable that
// crashcut does not see: it waits until another actor has taken a step.
void wait_for_others(const void* caller);
// The actor's cancellation.
ObjectId cancellation_object(Actor& actor);
// Makes the actor whose steps deliver signals to that one.
void add_delivering_actor(Actor& target, ObjectId process);
// An actor that will run routine(argument); null if there are too many.
Actor* create_actor(void* (*routine)(void*), void* argument, std::size_t stack_bytes, const void* caller);
// pthread_exit(): unwinds the actor's stack and ends it.
[[noreturn]] void end_actor(void* result);
// The value in the result register after an instrumented function that returns nothing: its last call is
// __tsan_func_exit(), which sets it. It is no int.
inline constexpr std::uint64_t kNoResultOfMain = 0x7f6e6f7468696e67;
// Calls main(), which may end by pthread_exit(). Returns 0 if main() returns no value.
int run_main(int (*main)(int, char**, char**), int argc, char** argv, char** envp);
Actor* actor_of_handle(std::uint64_t handle);
// The last thread of a host has ended, and main() was not the one.
void end_host_if_empty();
// exit(): the process ends when the actor's turn comes.
[[noreturn]] void end_process(int code, bool runs_handlers, const void* caller);
[[noreturn]] void fail(Failure failure, std::int64_t number, std::string_view text, const void* caller);
// Ends the execution at once because of the data race in g_control->race.
[[noreturn]] void stop_at_race();
// The program did something that crashcut cannot follow. That is no finding.
[[noreturn]] void refuse(const char* call);
// The same for a call that needs other threads, where none are scheduled. A recovery is run again with its threads
// scheduled.
[[noreturn]] void refuse_outside(const char* call);

// A new key has no value in any thread.
void clear_key(std::uint32_t key);
// The destructors of its thread-specific values.
void run_key_destructors(Actor& actor);

// --- runner.cc
extern Control* g_control;
extern Names* g_names;
// What --policy says of the primitive.
inline std::int64_t policy_of(PrimitiveId primitive) { return g_control->policy[static_cast<int>(primitive)]; }
int serve(int argc, char** argv, char** envp, int (*main)(int, char**, char**));
// The kernel writes to the rseq area whenever it moves the process to another processor. hash_memory() would take that
// for a write of the program, and sched_getcpu() reads it.
void unregister_rseq();
// Ends the execution: replies, and goes on with the next one.
[[noreturn]] void end_execution();
// This host was restarted: main() begins again, in the same execution.
[[noreturn]] void begin_again();

// --- world.cc, for the runner
// `stack_top`: main's stack is below. The first host of several begins the world. Each host then joins it, the first
// one when its turn comes.
void begin_world(const void* stack_top);
void begin_hosted_world();
void join_hosted_world(const void* stack_top);
void end_world();

void lock_names();
void unlock_names();

// --- calls_cancel.cc
// Whether threads of the program may be cancelled: then cancellation points are operations.
bool is_cancelling();
// If the running actor can be cancelled in a wait: the two accesses for that (cancellation.h).
std::optional<Access> entry_of_cancellation_point();
Operation& leave_cancellation_point(Operation& operation);
// Enters a cancellation point by a step of its own. If a handler ran in the middle of one and passed through others, it
// is entered again.
bool is_cancelled_at_entry(const void* caller);
void enter_cancellation_point(const void* caller);
bool is_in_cancellation_point();
void enter_cancellation_point_again(const void* caller);
// Whether the last operation of the running actor found it cancelled; ends the actor if so.
bool is_cancelled();
void end_if_cancelled();
// A cancellation point that does nothing else.
void heed_cancellation(const void* caller);
// Whether any code of the program refers to one of these functions of libc.
bool do_objects_refer_to(std::span<const char* const> names);
// Before a system call that is a cancellation point: whether the thread is cancelled, and the call not to be done.
bool is_cancelled_before(long number, const void* caller);

// --- calls_process.cc
// The running actor sleeps, in its virtual time. False if a signal's handler ended the sleep.
bool sleep_for(std::uint64_t ns, const void* caller);

// --- calls_waits.cc
// futex() as called by libc for its own locks: the lock of a stdio stream is held while the stream's file is written.
// Returns a negative errno on failure.
long futex_of_libc(const long* arguments, const void* caller);

// --- signals.cc
using inject::KernelSigaction;
void install_signals();
bool is_our_signal(int signal);
// The action that the program asked for, for one of our signals.
const KernelSigaction& asked_action(int signal);
// rt_sigaction() of the program. Returns a negative errno on failure.
long change_action(int signal, const KernelSigaction* wanted, KernelSigaction* old);
bool has_own_handler(int signal);

// --- heap.cc
void set_heap_actor(std::uint32_t actor);
void save_heap();
void restore_heap();
inject::AddressRange heap_room();
bool is_heap_room(std::uint64_t address);
// Calls visit() with what the program has allocated; the sum of it.
std::size_t for_each_heap(void (*visit)(const char* begin, const char* end));

}  // namespace crashcut::scheduler::runtime
