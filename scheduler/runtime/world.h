// World: one execution inside the runner: actors, the state of their objects, and who runs.
//
// Every call of the program that others can notice comes to perform(): the actor stands before its operation, the
//   director chooses who goes next, the operation is applied to the state, and its actor runs on to its next one.
// Threads: one kernel thread; all of it is plain.
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
#include "scheduler/runtime/fiber.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::scheduler::runtime {

inline constexpr std::uint32_t kKeysMost = 1024;  // PTHREAD_KEYS_MAX
// So many yields in a row, or tries that fail, are taken for politeness; more, for a loop that waits for something.
inline constexpr std::uint32_t kPolite = 8;

struct Actor : TimedActor {
  Fiber fiber;
  bool is_over = false;
  Operation done;  // what it did last
  std::uint64_t caller = 0;
  std::uint32_t child_count = 0;
  std::uint32_t yields_in_a_row = 0;
  // A loop of tries that fail: one of them, how often it came round (0: there is no loop), how many others failed
  // since, and how many may before another is looked for instead.
  ObjectId tried{};
  const void* tried_at = nullptr;
  std::uint32_t failed_tries = 0, others_failed = 0, others_most = 0;
  // While its rounds are watched (loops.h): how often it wrote, or may have; what memory held when it went on.
  std::uint64_t written = 0, memory_before = 0;
  bool is_watched = false;
  std::uint64_t written_when_alone = 0;  // `written`, some sleeps before it has slept alone too often (passing_time.h)
  std::uint64_t clock_ns = 0;            // of its own virtual time
  std::uint64_t random = 0;
  std::uint64_t processors = 0;  // that it may run on (machine.cc)
  ObjectId thread{}, loop{}, cancellation{}, timer{}, stir{}, signals{};
  // Signals (signal_calls.h). What it blocks; while a call of its blocks others, and what it blocks after that.
  std::uint64_t mask = 0, mask_after = 0, mask_meanwhile = 0;
  bool wants_other_mask = false, has_other_mask = false;
  Actor* delivers_to = nullptr;  // it has no code of its own: its steps are those of signals to that one
  bool is_cancel_enabled = true;
  bool has_canceller = false;
  bool is_ending = false;
  std::vector<ObjectId> timed;  // what its timer was set for (timer.h): conditions, or, for all else, none
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

  // No thread of the program.
  bool is_helper() const { return is_timer || delivers_to != nullptr; }
};

// Whether the program's calls are ours to schedule now; else they are done as if there were one thread.
bool is_scheduling();
// Whether an execution has begun and is not yet left behind: also while exit() runs destructors.
bool is_executing();
Actor& current_actor();
// The running actor's, to be moved on.
std::uint64_t& own_clock_ns();
void for_each_actor(void (*visit)(const Actor&));
// What becomes of a call that waits when a signal's handler has run: it goes on; it goes on, or fails by EINTR where
// the handler was installed without SA_RESTART; it fails.
enum class OnSignal { kGoOn, kRestart, kFail };
inline constexpr std::int64_t kInterrupted = INT64_MIN + 1;
// Does the operation when its turn comes. Returns the result of its first access, or kInterrupted: then it was not
// done.
std::int64_t perform(const Operation& operation, const void* caller, OnSignal on_signal = OnSignal::kGoOn);
// The same in two halves, for what is known only when it is done: stands before the operation until its turn has come;
// and records what it was. Nobody else runs in between. False: it was interrupted.
bool wait_for_turn(const Operation& operation, const void* caller, OnSignal on_signal = OnSignal::kGoOn);
void finish_turn(Operation& done, Footprint footprint, std::string_view text);
// The object of that key, which is the same in every execution.
ObjectId keyed_object(PrimitiveId primitive, std::uint64_t key);
// Objects of an actor's own: named by the actor.
ObjectId own_object(PrimitiveId primitive, ActorId actor, std::int64_t a, std::int64_t b = 0);
// The object at an address, named so that the name is the same in every execution. Where it is new, it begins as
// `start` says (its id is filled in). `is_initialised`: it begins anew here.
ObjectId object_at(PrimitiveId primitive, const void* address, ObjectStart start, bool is_initialised = false);
// The same for an object that may be made without a call, by an initialiser that zeroes the four bytes at `stamp`.
ObjectId stamped_object_at(PrimitiveId primitive, const void* address, const ObjectStart& start, std::uint32_t& stamp,
                           bool is_initialised = false);
const Object& object_of(ObjectId id);
// Whether the running actor, whose own state is `local`, has come round to where it stood before (rounds.h).
Rounds::Standing stand(std::uint64_t local);
// It goes on where nobody else can.
void rest(const void* caller);
// What the running actor does next is a sleep, or is none.
void note_sleep(bool is_sleeping);
// An actor beside the running one, which has no code: it always stands before that operation.
void accompany(std::uint32_t ordinal, const Operation& operation);
// Sets the running actor's timer, before a timed wait: for that condition, if it is one.
void arm_timer(const void* caller, const ObjectId* condition = nullptr);
Access take_timer();
// Before the running actor waits for a condition. Where the wait may end without a signal, it has this access besides.
std::optional<Access> offer_stir(const void* caller);
// The running actor's loops.
ObjectId loop_object();
// The running actor has run on for long without an operation. Where others can go on, it is taken for one that waits
// for a variable that is not seen, and waits until another has taken a step.
void wait_for_others(const void* caller);
// The actor's cancellation.
ObjectId cancellation_object(Actor& actor);
// Makes the actor whose steps deliver signals to that one.
void add_delivering_actor(Actor& target, ObjectId process);
// An actor that will run routine(argument); null where there are too many.
Actor* create_actor(void* (*routine)(void*), void* argument, std::size_t stack_bytes, const void* caller);
// pthread_exit(): unwinds the actor's stack and ends it.
[[noreturn]] void end_actor(void* result);
// What is in the register of results after an instrumented function that has none: its last call is __tsan_func_exit().
// No int looks like it.
inline constexpr std::uint64_t kNoResultOfMain = 0x7f6e6f7468696e67;
// Calls main(), which may end by pthread_exit(). Where it returns no value, 0.
int run_main(int (*main)(int, char**, char**), int argc, char** argv, char** envp);
Actor* actor_of_handle(std::uint64_t handle);
// exit(): the process ends when its turn comes.
[[noreturn]] void end_process(int code, bool runs_handlers, const void* caller);
[[noreturn]] void fail(Failure failure, std::int64_t number, std::string_view text, const void* caller);
// The execution ends where it stands: g_control->race says why.
[[noreturn]] void stop_at_race();
// The program did something that cannot be followed: no finding.
[[noreturn]] void refuse(const char* call);

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
// The kernel writes there whenever it moves the process to another processor: hash_memory() would take it for the
// program's doing, and sched_getcpu() reads it.
void unregister_rseq();
// The execution is over: replies, and goes on with the next one.
[[noreturn]] void end_execution();

// --- world.cc, for the runner
// `stack_top`: main's stack is below.
void begin_world(const void* stack_top);
void end_world();

void lock_names();
void unlock_names();

// --- calls_cancel.cc
// Whether threads of the program may be cancelled: then cancellation points are operations.
bool is_cancelling();
// Where the running actor can be cancelled in a wait: the two accesses of it (cancellation.h).
std::optional<Access> entry_of_cancellation_point();
Operation& leave_cancellation_point(Operation& operation);
// Enters one by a step of its own. One in the middle of which a handler ran is entered again where the handler came to
// others, and left them.
bool is_cancelled_at_entry(const void* caller);
void enter_cancellation_point(const void* caller);
bool is_in_cancellation_point();
void enter_cancellation_point_again(const void* caller);
// Ends the running actor where what it did last found it cancelled.
bool is_cancelled();
void end_if_cancelled();
// A cancellation point that does nothing else.
void heed_cancellation(const void* caller);
// Whether any code of the program's refers to one of these functions of libc's.
bool do_objects_refer_to(std::span<const char* const> names);
// Before a system call that is a cancellation point: whether it is not to be done.
bool is_cancelled_before(long number, const void* caller);

// --- calls_process.cc
// A sleep of the running actor's, which takes no time but its own. False: a signal's handler ended it.
bool sleep_for(std::uint64_t ns, const void* caller);

// --- calls_waits.cc
// futex() by libc's own code, for its locks: that of a stdio stream is held while the stream's file is written. A
// negative errno on failure.
long futex_of_libc(const long* arguments, const void* caller);

// --- signals.cc
using inject::KernelSigaction;
void install_signals();
bool is_our_signal(int signal);
// What the program asked for, of one of these.
const KernelSigaction& asked_action(int signal);
// rt_sigaction() of the program's; a negative errno on failure.
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
