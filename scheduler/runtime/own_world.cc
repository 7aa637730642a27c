#include "scheduler/runtime/own_world.h"

#include <stdio.h>

#include <utility>

#include "inject/arena.h"
#include "inject/end.h"
#include "inject/model.h"
#include "persist/check.h"
#include "scheduler/runtime/world_impl.h"

namespace crashcut::scheduler::runtime {

namespace {

// Steps in a row of one thread while others can go on.
constexpr std::uint32_t kTurn = 64;

constinit const OwnWorldHooks* g_hooks = nullptr;
constinit bool g_has_threads = false;

template <class T>
T* map_zeroed() {
  auto* at = reinterpret_cast<T*>(inject::map_private(sizeof(T)));
  if (at == nullptr) inject::tool_error("the system has no memory for the threads of a recovery");
  return at;
}

// One schedule, and nothing that is left to chance: no spurious wake-ups, no stop at data races.
void make_control() {
  g_control = map_zeroed<Control>();
  g_control->magic = kMagic;
  g_control->timeouts_most = 2;
  g_control->is_one_schedule = true;
  g_control->goes_on_after_race = true;
  g_control->turn_most = kTurn;
  g_names = map_zeroed<Names>();
  g_names->actor_count = 1;
}

std::string name_of(ActorId actor) {
  std::uint32_t number = 0;
  for (std::uint32_t i = 1; i <= index(actor); ++i) number += Names::is_thread(g_names->actors[i].ordinal) ? 1 : 0;
  return index(actor) == 0 ? "main" : "thread " + std::to_string(number);
}

}  // namespace

bool has_own_world() { return g_hooks != nullptr; }
void note_thread_begun() {
  if (!has_own_world() || std::exchange(g_has_threads, true)) return;
  g_hooks->thread_begun();
}
std::string name_of_running() { return !g_has_threads || !is_scheduling() ? "" : name_of(current_actor().id); }

void begin_own_world(const OwnWorldHooks& hooks, const void* stack_top) {
  if (!prepare_fibers())
    inject::user_error("this libc or this processor has no room for fibers (glibc 2.34 and FSGSBASE are needed)");
  make_control();
  g_hooks = &hooks;
  inject::g_has_fibers = true;
  inject::install_dispatch(0);
  begin_world(stack_top);
}

std::string text_of_waiting(std::string (*name_place)(std::uint64_t code)) {
  std::string text;
  for (std::uint32_t i = 0; i < g_control->pending_count; ++i) {
    const Pending& left = g_control->pending[i];
    if (g_world->actors[index(left.actor)]->is_helper() || !is_left_undone(g_world->state, left.operation)) continue;
    const Access& first = left.operation[0];
    const Primitive& primitive = primitive_of(first);
    text += (text.empty() ? "" : ", ") + name_of(left.actor) + " (" + primitive.verbs[first.verb] + ", " +
            primitive.name + ")";
    if (g_control->pending_callers[i] != 0) text += " at " + name_place(g_control->pending_callers[i]);
  }
  return text;
}

void end_own_world() {
  const Control& control = *g_control;
  switch (control.failure) {
    case Failure::kNone:
    case Failure::kThreadsLeft:
    case Failure::kRace:
      break;
    case Failure::kExitCode:
      g_hooks->exit(static_cast<int>(control.failure_number));
      break;
    case Failure::kSignal:
      g_hooks->die(static_cast<int>(control.failure_number), "");
      break;
    case Failure::kAssertion:
    case Failure::kMisuse:
      g_hooks->die(SIGABRT, control.text);
      break;
    case Failure::kUnsupported:
      inject::unsupported(control.text);
    case Failure::kToolError:
      inject::tool_error(control.text);
    case Failure::kUserError:
      inject::user_error(control.text);
  }
  if (control.ending == Ending::kStuck) g_hooks->hang();
  if (control.ending == Ending::kTooLong)
    inject::user_error("a recovery with threads takes more than " + std::to_string(kStepsMost) +
                       " steps (calls that synchronise and atomic accesses), which is more than crashcut holds: let it "
                       "do less");
  if (control.ending == Ending::kCompleted) fflush(nullptr);  // the last thread's pthread_exit() is an exit()
  g_hooks->exit(0);
  CHECK(false);
  __builtin_unreachable();
}

}  // namespace crashcut::scheduler::runtime
