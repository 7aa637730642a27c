// Signals by which a program dies: the actor stands before its failure, like before any other operation, so that
// schedules in which others go first are explored too. Where the program has a handler of its own, that runs instead.
#include <errno.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>

#include "inject/model.h"
#include "scheduler/runtime/access_model.h"
#include "scheduler/runtime/first_signals.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/machine.h"
#include "scheduler/runtime/meetings.h"
#include "scheduler/runtime/world.h"

namespace crashcut::scheduler::runtime {

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
alignas(16) char g_signal_stack[64 * 1024];
alignas(16) char g_failure_stack[256 * 1024];
int g_signal = 0;
std::uint64_t g_at = 0;

// Callers are told by the address after their call.
[[noreturn]] void failed_entry() { fail(Failure::kSignal, g_signal, "", reinterpret_cast<void*>(g_at + 1)); }

// Goes on in failed_entry(), on the actor's stack where there is room on it.
void on_fatal(int signal, siginfo_t* info, void* ucontext) {
  if (signal == SIGSEGV && inject::do_fault(*info, ucontext)) return;
  auto& regs = static_cast<ucontext_t*>(ucontext)->uc_mcontext.gregs;
  g_signal = signal;
  g_at = original_of(static_cast<std::uint64_t>(regs[REG_RIP]));
  const auto stack = static_cast<std::uint64_t>(regs[REG_RSP]);
  const auto fault = reinterpret_cast<std::uint64_t>(info->si_addr);
  const bool overflowed = signal == SIGSEGV && fault + 65536 > stack - 65536 && fault < stack + 65536;
  std::uint64_t top =
      overflowed ? reinterpret_cast<std::uint64_t>(g_failure_stack + sizeof g_failure_stack) : stack - 512;
  top = (top & ~std::uint64_t{15}) - 8;
  *reinterpret_cast<std::uint64_t*>(top) = 0;  // nobody called failed_entry()
  regs[REG_RSP] = static_cast<greg_t>(top);
  regs[REG_RIP] = reinterpret_cast<greg_t>(failed_entry);
}

// What the program asked for; ours stands in for the default. And what that is when main() begins.
KernelSigaction g_asked[NSIG] = {}, g_first[NSIG] = {};
std::uint64_t g_first_mask = 0;
bool g_has_changed = false;  // since then

bool is_default(const KernelSigaction& action) { return action.handler == reinterpret_cast<void*>(SIG_DFL); }

using inject::bit_of;

// In place of the program's own handler of SIGSEGV, and with its flags: some instructions are done by this signal.
void before_own_handler(int signal, siginfo_t* info, void* ucontext) {
  if (inject::do_fault(*info, ucontext)) return;
  const KernelSigaction asked = g_asked[signal];
  if ((asked.flags & SA_RESETHAND) != 0) {
    const KernelSigaction standard{};
    change_action(signal, &standard, nullptr);
  }
  if ((asked.flags & SA_SIGINFO) != 0) {
    reinterpret_cast<void (*)(int, siginfo_t*, void*)>(asked.handler)(signal, info, ucontext);
  } else {
    reinterpret_cast<void (*)(int)>(asked.handler)(signal);
  }
}

// Ours (meetings.h), the model's, or else the program's.
void on_trap(int signal, siginfo_t* info, void* ucontext) {
  if (kAccessModel.is_on() && kAccessModel.do_trap(*info, *static_cast<ucontext_t*>(ucontext))) return;
  if (is_meeting_trap(*static_cast<ucontext_t*>(ucontext))) return;
  if (has_own_handler(signal))
    return reinterpret_cast<void (*)(int, siginfo_t*, void*)>(g_asked[signal].handler)(signal, info, ucontext);
  if (is_default(g_asked[signal]) || info->si_code > 0) on_fatal(signal, info, ucontext);
}

}  // namespace

// Threads take turns while trapped accesses are done, so each does its own on its own stack.
static std::uint64_t stack_flag(int signal) {
  return kAccessModel.is_on() && (signal == SIGSEGV || signal == SIGTRAP) ? 0 : SA_ONSTACK;
}

long change_action(int signal, const KernelSigaction* wanted, KernelSigaction* old) {
  if (signal < 1 || signal >= NSIG || signal == SIGKILL || signal == SIGSTOP)
    return wanted == nullptr && old != nullptr ? kernel(SYS_rt_sigaction, signal, 0, old, 8) : -EINVAL;
  KernelSigaction action = wanted == nullptr ? KernelSigaction{} : *wanted;
  // System calls come to us by SIGSYS, also those of a handler; atomic instructions by SIGTRAP.
  action.mask &= ~(bit_of(SIGSYS) | bit_of(SIGTRAP));
  if (signal != SIGSYS && signal != SIGTRAP && !is_our_signal(signal))
    return kernel(SYS_rt_sigaction, signal, wanted == nullptr ? nullptr : &action, old, 8);
  if (old != nullptr) *old = g_asked[signal];
  if (wanted == nullptr) return 0;
  g_asked[signal] = *wanted;
  g_has_changed = true;
  if (signal == SIGSYS || signal == SIGTRAP) return 0;
  if (is_default(action))
    return inject::install_handler(signal, on_fatal, SA_NODEFER | stack_flag(signal), 0) ? 0 : -EINVAL;
  if (signal == SIGSEGV && has_own_handler(signal)) {
    action.handler = reinterpret_cast<void*>(before_own_handler);
    action.flags = (action.flags | SA_SIGINFO) & ~std::uint64_t{SA_RESETHAND};
    if (kAccessModel.is_on()) action.flags = (action.flags | SA_NODEFER) & ~std::uint64_t{SA_ONSTACK};
  }
  return kernel(SYS_rt_sigaction, signal, &action, 0, 8);
}

const KernelSigaction& asked_action(int signal) { return g_asked[signal]; }

bool has_own_handler(int signal) {
  return !is_default(g_asked[signal]) && g_asked[signal].handler != reinterpret_cast<void*>(SIG_IGN);
}

bool is_our_signal(int signal) {
  for (const int ours : kSignals) {
    if (ours == signal) return true;
  }
  return false;
}

static void set_signal_stack() {
  const stack_t stack{g_signal_stack, 0, sizeof g_signal_stack};
  kernel(SYS_sigaltstack, &stack, 0);
}

void install_signals() {
  set_signal_stack();
  kernel(SYS_rt_sigaction, SIGTRAP, 0, &g_asked[SIGTRAP], 8);
  // A loop over a watched instruction is in this handler most of the time. crashcut's wish that it lets others go on
  // waits for the end of the handler, where the thread is in the program's code.
  inject::install_handler(SIGTRAP, on_trap, SA_NODEFER | stack_flag(SIGTRAP),
                          kAccessModel.is_on() ? 0 : bit_of(SIGSYS));
  for (const int signal : kSignals) {
    // Static constructors may have one, too.
    kernel(SYS_rt_sigaction, signal, 0, &g_asked[signal], 8);
    const KernelSigaction asked = g_asked[signal];
    change_action(signal, &asked, nullptr);
  }
  std::copy(std::begin(g_asked), std::end(g_asked), g_first);
  kernel(SYS_rt_sigprocmask, SIG_SETMASK, 0, &g_first_mask, 8);
  g_has_changed = false;
}

// The execution may have ended in a handler.
void restore_signals() {
  if (!g_has_changed) return;
  set_signal_stack();
  for (const int signal : kSignals) change_action(signal, &g_first[signal], nullptr);
  g_asked[SIGTRAP] = g_first[SIGTRAP];
  kernel(SYS_rt_sigprocmask, SIG_SETMASK, &g_first_mask, 0, 8);
  g_has_changed = false;
}

}  // namespace crashcut::scheduler::runtime
