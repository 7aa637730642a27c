#include "recovery/inprocess/memory/recovery_threads.h"

#include <signal.h>

#include <cstring>

#include "inject/interpose.h"
#include "inject/signals.h"
#include "recovery/inprocess/memory/pmem_threads.h"
#include "recovery/inprocess/memory/region_access.h"
#include "recovery/inprocess/memory/stuck.h"
#include "scheduler/runtime/own_world.h"

namespace crashcut::inprocess {

using pmem::Address;
using pmem::ThreadId;

bool RecoveryThreads::is_modelled(Address address) const { return is_in_window(address); }

pmem::BufferEntry RecoveryThreads::take_out(ThreadId, std::size_t) {
  CHECK(false);  // nothing waits
  return {};
}

void RecoveryThreads::do_load(ThreadId, Address address, std::span<std::byte> out, const void* code) {
  if (!is_modelled(address)) return;
  const OwnCode own;
  load_after_crash(address, out, code);
}

void RecoveryThreads::do_store(ThreadId, Address address, std::span<const std::byte> bytes, Kind, const void*) {
  if (!is_modelled(address)) return;
  const OwnCode own;
  g_explorer->memory()->overwrite(address, bytes);
}

void RecoveryThreads::begin_lock(ThreadId thread, Address address, std::span<std::byte> old, const Change&,
                                 const void* code) {
  if (!is_modelled(address)) std::memcpy(old.data(), reinterpret_cast<const void*>(address), old.size());
  do_load(thread, address, old, code);
}

void RecoveryThreads::end_lock(ThreadId thread, Address address, std::span<const std::byte> bytes, const void* code) {
  do_store(thread, address, bytes, Kind::kAtomicStore, code);
}

namespace {

[[noreturn]] void end_by_exit(int code) {
  in_model([code] { finish_recovery(code == 0 ? Outcome::kOk : Outcome::kExited, code); });
  __builtin_unreachable();
}

// The kernel ends the process, so that it is told as any other death.
[[noreturn]] void end_by_signal(int signal, std::string_view why) {
  in_model([&] {
    if (!why.empty()) capture_output(2, why.data(), why.size());
    note_events_at_end();
  });
  if (signal == SIGKILL) g.slot->killed = kByItself;
  const inject::KernelSigaction standard{};
  const std::uint64_t nothing = 0;
  kernel(SYS_rt_sigaction, signal, &standard, 0, 8);
  kernel(SYS_rt_sigprocmask, SIG_SETMASK, &nothing, 0, 8);
  kernel(SYS_kill, kernel(SYS_getpid), signal);
  tool_error("a recovery went on after a signal that ends it");
}

[[noreturn]] void end_by_hang() {
  in_model([] {
    if (g.narrating)
      append_line("{\"wait\":" +
                  json_string("none of its threads can go on: " + scheduler::runtime::text_of_waiting(name_place)) +
                  "}");
    finish_recovery(Outcome::kStuck, 0);
  });
  __builtin_unreachable();
}

constexpr scheduler::runtime::OwnWorldHooks kHooks{[] { ++g.header->threaded_recoveries; }, end_by_exit, end_by_signal,
                                                   end_by_hang};

}  // namespace

void schedule_recovery(const void* stack_top) {
  stop_watching();
  in_model([] {
    Model& model = *g.model;
    if (model.memory != nullptr) {
      model.threaded = std::make_unique<PmemThreads>(*model.memory, g.header->memory, false, false);
    } else {
      model.threaded = std::make_unique<RecoveryThreads>(g.header->memory);
    }
  });
  scheduler::runtime::begin_own_world(kHooks, stack_top);
  g_threaded = g.model->threaded.get();
  g_watches_all = true;
}

void need_threads_in_recovery() {
  const bool can_have = g_phase == Phase::kRecovering && g.header->has_memory != 0 && inject::schedules_threads();
  if (!can_have) return;
  g.header->schedules_recoveries = 1;
  g.slot->outcome = Outcome::kAbandoned;
  kernel(SYS_exit_group, 0);
}

}  // namespace crashcut::inprocess
