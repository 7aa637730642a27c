// The program's process, where its threads are the kernel's: signals, new threads, and how it ends.
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <ucontext.h>

#include "inject/signals.h"
#include "recovery/inprocess/call.h"
#include "recovery/inprocess/memory/trap.h"
#include "recovery/inprocess/models.h"
#include "recovery/inprocess/runtime.h"
#include "recovery/inprocess/user_memory.h"
#include "scheduler/runtime/world.h"

namespace crashcut::inprocess {

namespace {

using inject::bit_of;
using inject::Fate;

// Copies of the program's signal masks without the signals that stay open; must outlive the handler.
constinit thread_local std::uint64_t t_mask __attribute__((tls_model("initial-exec"))) = 0;
constinit thread_local std::uint64_t t_mask_argument[2] __attribute__((tls_model("initial-exec"))) = {};

constexpr std::uint64_t kFaultBits = bit_of(SIGSEGV) | bit_of(SIGBUS);
// What the program must not block: system calls come to us by SIGSYS, and bad addresses by the others.
// Trapped instructions come by SIGTRAP.
std::uint64_t open_bits() { return bit_of(SIGSYS) | kFaultBits | (is_trapping() ? bit_of(SIGTRAP) : 0); }

std::uint64_t without_ours(const void* mask) { return *static_cast<const std::uint64_t*>(mask) & ~open_bits(); }

// While we handle a call the program's own handlers do not run; ours of bad addresses does.
bool install_sigsys() {
  return inject::install_dispatch(~(open_bits() & (catches_faults() ? ~std::uint64_t{0} : ~kFaultBits)));
}

// rt_sigprocmask takes effect when the handler returns.
long change_mask(const Call& call, ucontext_t& context) {
  auto& mask = *reinterpret_cast<std::uint64_t*>(&context.uc_sigmask);
  const std::uint64_t old = mask;
  if (call.a[3] != 8) return -EINVAL;
  if (call.a[1] != 0) {
    const std::uint64_t set = without_ours(reinterpret_cast<void*>(call.a[1]));
    if (call.a[0] == SIG_BLOCK) {
      mask |= set;
    } else if (call.a[0] == SIG_UNBLOCK) {
      mask &= ~set;
    } else if (call.a[0] == SIG_SETMASK) {
      mask = set;
    } else {
      return -EINVAL;
    }
  }
  if (call.a[2] != 0) *reinterpret_cast<std::uint64_t*>(call.a[2]) = old;
  return 0;
}

// A program that wants for itself what the library needs is told that it has it.
long change_action(const Call& call) {
  if (call.a[0] == SIGSYS || (call.a[0] == SIGTRAP && is_trapping())) {
    if (call.a[2] != 0) *reinterpret_cast<inject::KernelSigaction*>(call.a[2]) = inject::KernelSigaction{};
    return 0;
  }
  inject::KernelSigaction action{};
  if (call.a[1] != 0) action = *reinterpret_cast<const inject::KernelSigaction*>(call.a[1]);
  action.mask &= ~open_bits();
  const inject::KernelSigaction* wanted = call.a[1] == 0 ? nullptr : &action;
  if (is_fault_signal(call.a[0])) {
    const long result = change_fault_action(call.a[0], wanted, reinterpret_cast<inject::KernelSigaction*>(call.a[2]));
    install_sigsys();
    return result;
  }
  return kernel(call.number, call.a[0], wanted, call.a[2], call.a[3]);
}

// A mask that a call installs while it waits must leave SIGSYS open for the handlers that run meanwhile.
void strip_waiting_mask(Call& call) {
  const auto strip = [&](int argument) {
    if (call.a[argument] == 0) return;
    t_mask = without_ours(reinterpret_cast<void*>(call.a[argument]));
    call.a[argument] = reinterpret_cast<long>(&t_mask);
  };
  switch (call.number) {
    case SYS_rt_sigsuspend:
      return strip(0);
    case SYS_ppoll:
      return strip(3);
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
      return strip(4);
    case SYS_pselect6: {
      const auto* given = reinterpret_cast<const std::uint64_t*>(call.a[5]);
      if (given == nullptr || given[0] == 0) return;
      t_mask = without_ours(reinterpret_cast<void*>(given[0]));
      t_mask_argument[0] = reinterpret_cast<std::uint64_t>(&t_mask);
      t_mask_argument[1] = given[1];
      call.a[5] = reinterpret_cast<long>(t_mask_argument);
      return;
    }
    default:
      return;
  }
}

bool is_new_thread(const Call& call) {
  const std::uint64_t flags = call.number == SYS_clone ? call.a[0] : *reinterpret_cast<const std::uint64_t*>(call.a[0]);
  const bool has_stack =
      call.number == SYS_clone ? call.a[1] != 0 : reinterpret_cast<std::uint64_t*>(call.a[0])[5] != 0;
  return (flags & CLONE_THREAD) != 0 && has_stack;
}

// It begins in the gate, where it turns dispatch on. The address to go on at is put on its stack.
void start_thread(Call& call) {
  g.threads.fetch_add(1, std::memory_order_relaxed);
  if (g_phase == Phase::kExecuting) g.header->threads_begun.fetch_add(1, std::memory_order_relaxed);
  if (call.number == SYS_clone) {
    call.a[1] -= 8;
    *reinterpret_cast<const void**>(call.a[1]) = call.caller;
  } else {
    // struct clone_args: stack at 40, stack_size at 48.
    auto* args = reinterpret_cast<std::uint64_t*>(call.a[0]);
    args[6] -= 8;
    *reinterpret_cast<const void**>(args[5] + args[6]) = call.caller;
  }
}

[[noreturn]] void end_process(int code) {
  if (g_phase == Phase::kExecuting) {
    in_model([code] { end_execution(code); });
  } else if (g_phase == Phase::kRecovering) {
    in_model([code] { finish_recovery(code == 0 ? Outcome::kOk : Outcome::kExited, code); });
  } else {
    user_error("the program ended before main()");
  }
  __builtin_unreachable();
}

// Should the program kill itself, the death is its own.
void note_signal(const Call& call) {
  const long signal = call.a[call.number == SYS_tgkill ? 2 : 1];
  std::uint32_t nobody = kNotKilled;
  if (signal == SIGKILL && g.slot != nullptr) g.slot->killed.compare_exchange_strong(nobody, kByItself);
  if (signal != 0 && g_phase == Phase::kRecovering) in_model([] { note_events_at_end(); });
}

Fate done(Call& call, long result) {
  call.result = result;
  return Fate::kDone;
}

Fate do_process_call(Call& call, ucontext_t& context) {
  switch (call.number) {
    case SYS_rt_sigprocmask:
      if (call.a[1] != 0) spend_image();
      return done(call, change_mask(call, context));
    case SYS_rt_sigaction:
      if (call.a[1] != 0) spend_image();
      return done(call, change_action(call));
    case SYS_rt_sigsuspend:
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
      spend_image();
      strip_waiting_mask(call);
      return Fate::kForwarded;
    case SYS_clone:
    case SYS_clone3:
      if (!is_new_thread(call)) return Fate::kNotMine;
      spend_image();
      start_thread(call);
      return Fate::kNewThread;
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill:
      note_signal(call);
      return Fate::kNotMine;
    case SYS_alarm:
    case SYS_setitimer:
    case SYS_timer_create:
      g.has_timer = true;
      return Fate::kNotMine;
    case SYS_exit:
      if (g.threads.fetch_sub(1, std::memory_order_acq_rel) > 1) return Fate::kForwarded;
      end_process(static_cast<int>(call.a[0]) & 0xff);
    case SYS_exit_group:
      end_process(static_cast<int>(call.a[0]) & 0xff);
    default:
      return Fate::kNotMine;
  }
}

}  // namespace

bool start_dispatch() {
  catch_faults();
  if (!install_sigsys()) return false;
  const std::uint64_t open = open_bits();
  kernel(SYS_rt_sigprocmask, SIG_UNBLOCK, &open, 0, 8);
  return set_dispatch(true) == 0;
}

const inject::Model kProcessModel{
    .name = "process",
    .is_active = [] { return scheduler::runtime::g_control == nullptr; },
    .do_call = do_process_call,
};

}  // namespace crashcut::inprocess
