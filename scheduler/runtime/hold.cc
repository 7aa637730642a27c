#include "scheduler/runtime/hold.h"

#include <linux/futex.h>
#include <sys/prctl.h>
#include <time.h>

#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/world.h"

volatile std::uint64_t crashcut_held = 0;
std::uint64_t crashcut_held_count = 0;
CrashcutHeldFiber crashcut_held_fibers[crashcut::scheduler::runtime::kActorsMost];

namespace crashcut::scheduler::runtime {

namespace {

std::uint32_t g_held_host = 0;

bool is_asked() {
  return g_control->stop_at_step != 0 && g_control->step_count == g_control->stop_at_step && g_control->is_held == 0;
}

void hold(std::uint32_t host) {
  g_held_host = host;
  wait_for_debugger([] {
    g_control->is_held = g_held_host + 1;
    kernel(SYS_futex, &g_control->is_held, FUTEX_WAKE, 1, 0, 0, 0);
  });
}

void allow_debugger() { kernel(SYS_prctl, PR_SET_PTRACER, PR_SET_PTRACER_ANY); }

void list_fibers() {
  crashcut_held_count = 0;
  for_each_actor([](const Actor& actor) {
    if (actor.is_helper() || actor.is_over) return;
    const bool runs = &actor == &current_actor();
    crashcut_held_fibers[crashcut_held_count++] = {
        index(actor.id), runs ? 0 : reinterpret_cast<std::uint64_t>(actor.fiber.stack_pointer)};
  });
}

}  // namespace

void hold_if_asked() {
  if (!is_asked()) return;
  list_fibers();
  hold(g_host);
}

void hold_host_if_asked(std::uint32_t host) {
  if (!is_asked()) return;
  if (host == g_host) list_fibers();
  hold(host);
}

void show_to_debugger() {
  if (g_control->stop_at_step == 0) return;
  allow_debugger();
  list_fibers();
}

void wait_for_debugger(void (*tell)()) {
  allow_debugger();
  crashcut_held = 1;
  tell();
  const timespec tick{0, 10'000'000};
  while (crashcut_held != 0) kernel(SYS_nanosleep, &tick, 0);
}

}  // namespace crashcut::scheduler::runtime
