// Signals by which a program dies: the actor stands before its failure, like before any other operation, so that
// schedules in which others go first are explored too.
#include <signal.h>
#include <ucontext.h>

#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/world.h"

namespace crashcut::scheduler::runtime {

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
alignas(16) char g_signal_stack[64 * 1024];
alignas(16) char g_failure_stack[256 * 1024];
int g_signal = 0;
std::uint64_t g_at = 0;

[[noreturn]] void failed_entry() { fail(Failure::kSignal, g_signal, "", reinterpret_cast<void*>(g_at)); }

// Goes on in failed_entry(), on the actor's stack where there is room on it.
void on_fatal(int signal, siginfo_t* info, void* ucontext) {
  auto& regs = static_cast<ucontext_t*>(ucontext)->uc_mcontext.gregs;
  g_signal = signal;
  g_at = static_cast<std::uint64_t>(regs[REG_RIP]);
  const auto stack = static_cast<std::uint64_t>(regs[REG_RSP]);
  const auto fault = reinterpret_cast<std::uint64_t>(info->si_addr);
  const bool overflowed = signal == SIGSEGV && fault + 65536 > stack - 65536 && fault < stack + 65536;
  std::uint64_t top = overflowed ? reinterpret_cast<std::uint64_t>(g_failure_stack + sizeof g_failure_stack) : stack - 512;
  regs[REG_RSP] = static_cast<greg_t>((top & ~std::uint64_t{15}) - 8);
  regs[REG_RIP] = reinterpret_cast<greg_t>(failed_entry);
}

}  // namespace

bool is_our_signal(int signal) {
  for (const int ours : kSignals) {
    if (ours == signal) return true;
  }
  return false;
}

void install_signals() {
  const stack_t stack{g_signal_stack, 0, sizeof g_signal_stack};
  kernel(SYS_sigaltstack, &stack, 0);
  for (const int signal : kSignals) install_handler(signal, on_fatal, true);
}

}  // namespace crashcut::scheduler::runtime
