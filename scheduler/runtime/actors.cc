// Threads of the program: how they begin and end, and how the process does.
#include <pthread.h>
#include <setjmp.h>

#include <algorithm>
#include <cstring>

#include "inject/interpose.h"
#include "scheduler/primitives/answer.h"
#include "scheduler/primitives/condition.h"
#include "scheduler/primitives/host.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/process.h"
#include "scheduler/primitives/signal.h"
#include "scheduler/primitives/stir.h"
#include "scheduler/primitives/thread.h"
#include "scheduler/primitives/timer.h"
#include "scheduler/runtime/files.h"
#include "scheduler/runtime/hold.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/meetings.h"
#include "scheduler/runtime/own_world.h"
#include "scheduler/runtime/signal_calls.h"
#include "scheduler/runtime/world_impl.h"

// How libc's pthread_exit() finds the place where a thread began; C's pthread_cleanup_push() uses them too.
extern "C" void __pthread_register_cancel(__pthread_unwind_buf_t*);
extern "C" void __pthread_unregister_cancel(__pthread_unwind_buf_t*);

namespace crashcut::scheduler::runtime {

void init_fiber_locale();

namespace {

// The last things that a thread does.
void finish_actor(Actor& actor) {
  actor.is_ending = true;
  run_tls_destructors();
  run_key_destructors(actor);
  // Robust mutexes that it still holds go to whoever comes next, with a word.
  for (const ObjectId mutex : mutexes()) {
    const Object& m = g_world->state.object(mutex);
    if ((mutex::kind(m) & mutex::kRobust) != 0 && mutex::owner(m) == mutex::number_of(actor.id))
      perform(mutex::access(mutex, mutex::kAbandon), nullptr);
  }
  Operation exit = thread::access(actor.thread, thread::kExit);
  end_signals_of(actor, exit);
  perform(exit, nullptr);
}

void fiber_entry() {
  init_fiber_locale();
  hold_if_asked();
  __pthread_unwind_buf_t end;
  if (__sigsetjmp(reinterpret_cast<__jmp_buf_tag*>(end.__cancel_jmp_buf), 0) == 0) {
    __pthread_register_cancel(&end);
    Actor& self = current_actor();
    self.result = self.routine(self.argument);
    __pthread_unregister_cancel(&end);
  }
  Actor& ending = current_actor();
  finish_actor(ending);
  // From here it is never chosen again.
  ending.is_over = true;
  end_host_if_empty();
  schedule();
  __builtin_unreachable();
}

}  // namespace

Actor* new_actor(ActorId id) {
  Actor* actor = new Actor;
  actor->id = id;
  if (index(id) >= g_world->actors.size()) g_world->actors.resize(index(id) + 1, nullptr);
  g_world->actors[index(id)] = actor;
  actor->random = hash(index(id) + 1);
  if (const Actor* self = current_or_null()) {
    actor->host = self->host;
    actor->incarnation = self->incarnation;
    actor->host_object = self->host_object;
  }
  return actor;
}

void add_delivering_actor(Actor& target, ObjectId process) {
  Actor* actor = new_actor(actor_number(target.id, Names::kSignalOrdinal));
  actor->delivers_to = &target;
  actor->pending = signal::delivery(process, target.signals, index(target.id));
  if (g_control->is_opaque != 0) actor->pending.set_opaque();
  actor->has_pending = true;
}

Actor* create_actor(void* (*routine)(void*), void* argument, std::size_t stack_bytes, const void* caller) {
  Actor& self = current_actor();
  const ActorId id = actor_number(self.id, self.child_count++);
  Actor* actor = new_actor(id);
  actor->routine = routine;
  actor->argument = argument;
  g_control->actors[index(id)].routine = reinterpret_cast<std::uint64_t>(routine);
  if (!make_fiber(actor->fiber, index(id), stack_bytes, fiber_entry)) {
    g_world->actors[index(id)] = nullptr;
    return nullptr;
  }
  actor->memory.stack_top = reinterpret_cast<std::uint64_t>(actor->fiber.stack_begin) + actor->fiber.stack_bytes;
  actor->thread = own_object(PrimitiveId::kThread, id, thread::kNone);
  actor->pending = thread::access(actor->thread, thread::kStart);
  Operation create = thread::access(actor->thread, thread::kCreate);
  add_signals_of(*actor, create);
  let_signals_in(*actor, actor->pending);
  if (g_control->is_opaque != 0) actor->pending.set_opaque();
  actor->clock_ns = self.clock_ns;
  expect_meetings();
  note_thread_begun();
  perform(create, caller);
  actor->has_pending = true;
  return actor;
}

void end_actor(void* result) {
  Actor& self = current_actor();
  self.result = result;
  self.is_ending = true;
  // It runs cleanup handlers and destructors on its way to where the thread began.
  static void (*real)(void*) = nullptr;
  if (real == nullptr) real = reinterpret_cast<void (*)(void*)>(inject::find_real("pthread_exit"));
  real(result);
  __builtin_unreachable();
}

int run_main(int (*main)(int, char**, char**), int argc, char** argv, char** envp) {
  __pthread_unwind_buf_t end;
  if (__sigsetjmp(reinterpret_cast<__jmp_buf_tag*>(end.__cancel_jmp_buf), 0) == 0) {
    __pthread_register_cancel(&end);
    void* const entry = reinterpret_cast<void*>(main);
    const std::uint64_t result = reinterpret_cast<std::uint64_t (*)(int, char**, char**)>(entry)(argc, argv, envp);
    __pthread_unregister_cancel(&end);
    g_control->has_no_result = result == kNoResultOfMain;
    return g_control->has_no_result || g_control->ignores_result != 0 ? 0 : static_cast<int>(result);
  }
  // main is gone, the process goes on without it.
  Actor& ending = current_actor();
  finish_actor(ending);
  ending.is_over = true;
  end_host_if_empty();
  schedule();
  __builtin_unreachable();
}

Actor* actor_of_handle(std::uint64_t handle) {
  for (Actor* actor : g_world->actors) {
    if (actor != nullptr && !actor->is_helper() && runs_here(*actor) && actor->fiber.fs_base == handle) return actor;
  }
  return nullptr;
}

void clear_key(std::uint32_t key) {
  for (Actor* actor : g_world->actors) {
    if (actor != nullptr && runs_here(*actor)) actor->keys[key] = nullptr;
  }
}

void accompany(std::uint32_t ordinal, const Operation& operation) {
  Actor* actor = new_actor(actor_number(current_actor().id, ordinal));
  actor->is_timer = true;
  actor->pending = operation;
  actor->has_pending = true;
}

Actor& lane_of_current(std::uint32_t number) {
  Actor& self = current_actor();
  if (number >= self.lanes.size()) self.lanes.resize(number + 1, nullptr);
  if (self.lanes[number] == nullptr) {
    self.lanes[number] = new_actor(actor_number(self.id, Names::kLaneOrdinal + number));
    self.lanes[number]->lane_of = &self;
  }
  return *self.lanes[number];
}

Actor* cache_actor(std::uint32_t host, std::uint64_t line, std::uint32_t number) {
  const Object& kept = object_of(host_object(host));
  if (host::stage(kept) != host::kUp) return nullptr;
  const auto incarnation = static_cast<std::uint16_t>(host::incarnation(kept));
  const std::uint32_t main = Names::main_ordinal(host, incarnation);
  const ActorId parent = main == Names::main_ordinal(0, 0) ? ActorId{0} : actor_number(ActorId{0}, main);
  const auto line_number = static_cast<std::uint32_t>((line - kRegionsAt) / 64);
  const ActorId id = actor_number(parent, Names::kCacheOrdinal + 2 * line_number + number);
  if (index(id) < g_world->actors.size() && g_world->actors[index(id)] != nullptr) return g_world->actors[index(id)];
  Actor* actor = new_actor(id);
  actor->is_cache = actor->has_pending = true;
  actor->host = host;
  actor->incarnation = incarnation;
  actor->host_object = host_object(host);
  return actor;
}

static std::uint64_t line_of_cache(std::uint32_t ordinal) {
  return kRegionsAt + std::uint64_t{ordinal - Names::kCacheOrdinal} / 2 * 64;
}
std::uint64_t line_of_cache(const Actor& cache) { return line_of_cache(g_names->actors[index(cache.id)].ordinal); }

std::vector<std::uint64_t> known_lines_of_caches() {
  std::vector<std::uint64_t> lines;
  for (std::uint32_t i = 1; i < g_names->actor_count; ++i) {
    const std::uint32_t ordinal = g_names->actors[i].ordinal;
    if (Names::is_cache(ordinal)) lines.push_back(line_of_cache(ordinal));
  }
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  return lines;
}

ObjectId answers_of_current() {
  Actor& self = current_actor();
  if (self.answers == ObjectId{}) self.answers = own_object(PrimitiveId::kAnswer, self.id, 0);
  return self.answers;
}

void offer_answers(Actor& actor, std::int64_t count) {
  for (; actor.answer_count < std::min(count, kAnswersMost); ++actor.answer_count) {
    Actor* lane =
        new_actor(actor_number(actor.id, Names::kAnswerOrdinal + static_cast<std::uint32_t>(actor.answer_count)));
    lane->lane_of = &actor;
    lane->host = actor.host;
    lane->incarnation = actor.incarnation;
    lane->host_object = actor.host_object;
    lane->pending = answer::give(actor.answers, actor.answer_count);
    lane->has_pending = true;
  }
}

void arm_timer(const void* caller, const ObjectId* condition) {
  Actor& self = current_actor();
  g_world->may_wait_for_time = true;
  if (self.timer == ObjectId{})
    self.timer = own_object(PrimitiveId::kTimer, self.id, timer::kIdle, g_control->timeouts_most);
  const ObjectId what = condition == nullptr ? ObjectId{} : *condition;
  const auto known = std::find(self.timed.begin(), self.timed.end(), what);
  // A number of its own, by the order in which this thread came to wait for these.
  const auto number = static_cast<std::uint32_t>(known - self.timed.begin());
  const std::int64_t armed_for = condition == nullptr ? 0 : number + 1;
  if (known == self.timed.end()) {
    self.timed.push_back(what);
    Operation fire(timer::access(self.timer, timer::kFire, armed_for));
    if (condition != nullptr) fire.add(condition::time_out(*condition, self.id));
    accompany(Names::kTimerOrdinal - number, fire);
  }
  perform(timer::access(self.timer, timer::kArm, armed_for), caller);
}

std::optional<Access> offer_stir(const void* caller) {
  Actor& self = current_actor();
  if (g_control->spurious_most == 0) return std::nullopt;
  if (self.stir == ObjectId{}) {
    self.stir = own_object(PrimitiveId::kStir, self.id, g_control->spurious_most);
    accompany(Names::kStirOrdinal, stir::access(self.stir, stir::kStir));
  }
  if (stir::left(object_of(self.stir)) == 0) return std::nullopt;
  perform(stir::access(self.stir, stir::kOffer), caller);
  return stir::access(self.stir, stir::kHeed);
}

Access take_timer() { return timer::access(current_actor().timer, timer::kTake); }

// Where exit() was called last: its _exit() then comes from inside of libc.
static struct {
  std::uint32_t request;  // the execution
  ActorId actor;
  const void* caller;
} g_exiting;

// The others go on. From here none of its actors is chosen again.
[[noreturn]] static void end_host(const void* caller) {
  if (kBufferModel.is_on()) kBufferModel.end_host(caller);
  perform(host::access(current_actor().host_object, host::kEnd), caller);
  schedule();
  __builtin_unreachable();
}

void end_host_if_empty() {
  if (!is_hosted()) return;
  bool is_empty = true;
  for (const Actor* actor : g_world->actors) {
    const bool is_thread = actor != nullptr && !actor->is_helper() && runs_here(*actor);
    is_empty = is_empty && !(is_thread && !actor->is_over);
  }
  if (is_empty) end_host(nullptr);
}

void end_process(int code, bool runs_handlers, const void* caller) {
  Actor& self = current_actor();
  const std::uint32_t request = g_control->requests.load(std::memory_order_relaxed);
  if (runs_handlers) {
    // Destructors and functions of atexit() are part of the program: their calls are operations, and other threads run
    // meanwhile. exit() then ends by _exit(), which comes back here.
    static void (*real_exit)(int) = nullptr;
    if (real_exit == nullptr) real_exit = reinterpret_cast<void (*)(int)>(inject::find_real("exit"));
    g_exiting = {request, self.id, caller};
    real_exit(code);
  }
  if (g_exiting.caller != nullptr && g_exiting.request == request && g_exiting.actor == self.id)
    caller = g_exiting.caller;
  if (code != 0) {
    g_control->failure = Failure::kExitCode;
    g_control->failure_number = code;
    g_control->failure_actor = index(self.id);
  }
  if (is_hosted() && code == 0) end_host(caller);
  perform(process::exit(0), caller);  // its code is no part of the step: with another one the schedule is the same
  // Who still runs is cut short. A thread that was told to look after itself may.
  if (g_control->failure == Failure::kNone) {
    std::int64_t left = 0;
    for (const Actor* actor : g_world->actors) {
      if (actor == nullptr || actor == &self || actor->is_helper() || !runs_here(*actor) || index(actor->id) == 0)
        continue;
      const Object& thread = g_world->state.object(actor->thread);
      if (thread::stage(thread) != thread::kFinished && thread::fate(thread) != thread::kDetached) ++left;
    }
    g_control->left_running = static_cast<std::uint32_t>(left);
    if (left > 0 && g_control->is_strict_exit != 0) {
      g_control->failure = Failure::kThreadsLeft;
      g_control->failure_number = left;
      g_control->failure_actor = index(self.id);
    }
  }
  end_execution();
}

void fail(Failure failure, std::int64_t number, std::string_view text, const void* caller) {
  if (!is_scheduling()) {
    if (g_control->failure == Failure::kNone) {
      g_control->failure = failure;
      g_control->failure_number = number;
      g_control->failure_actor = g_control->running_actor;
    }
    end_execution();
  }
  Actor& self = current_actor();
  // It died in the middle of a call on files, by an argument of its own: what it did may be anything.
  if (self.is_in_file_step) {
    self.is_in_file_step = false;
    Footprint everything = kFileModel.take_footprint();
    finish_turn(self.done, std::move(everything), kFileModel.text_of_call());
  }
  char kept[512];
  const std::size_t length = std::min(text.size(), sizeof kept - 1);
  std::memcpy(kept, text.data(), length);
  kept[length] = 0;
  perform(process::fail(number), caller);
  g_control->failure = failure;
  g_control->failure_number = number;
  g_control->failure_actor = index(self.id);
  std::memcpy(g_control->text, kept, length + 1);
  end_execution();
}

}  // namespace crashcut::scheduler::runtime
