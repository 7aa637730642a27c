#include "inject/call_stack.h"

#include <ucontext.h>
#include <unwind.h>

#include <atomic>

#include "inject/mappings.h"
#include "inject/signals.h"

namespace crashcut::inject {
namespace {

// Where to go on after a fault; null: this thread does not unwind.
constinit thread_local void** t_after_fault __attribute__((tls_model("initial-exec"))) = nullptr;
constinit std::atomic<bool> g_is_guarded{false};
KernelSigaction g_before_guard;

[[noreturn]] void go_on_after_fault() { __builtin_longjmp(t_after_fault, 1); }

void on_fault(int, siginfo_t*, void* ucontext) {
  if (t_after_fault == nullptr) {  // another thread's own fault: it happens again, without us
    kernel(SYS_rt_sigaction, SIGSEGV, &g_before_guard, 0, 8);
    return;
  }
  static_cast<ucontext_t*>(ucontext)->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(go_on_after_fault);
}

// SIGSEGV is ours while it stands.
class FaultGuard {
 public:
  explicit FaultGuard(void** after_fault) {
    while (g_is_guarded.exchange(true, std::memory_order_acquire)) kernel(SYS_sched_yield);
    kernel(SYS_rt_sigaction, SIGSEGV, 0, &g_before_guard, 8);
    t_after_fault = after_fault;
    install_handler(SIGSEGV, on_fault, SA_NODEFER | SA_ONSTACK, 0);
  }
  ~FaultGuard() {
    kernel(SYS_rt_sigaction, SIGSEGV, &g_before_guard, 0, 8);
    t_after_fault = nullptr;
    g_is_guarded.store(false, std::memory_order_release);
  }
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;
};

struct Calls {
  std::uint64_t* at;
  StackFrame* frames;
  std::uint32_t count, most;
  StackFrame* open = nullptr;  // it ends where the next one begins
};

_Unwind_Reason_Code add_call(_Unwind_Context* context, void* argument) {
  Calls& calls = *static_cast<Calls*>(argument);
  const std::uint64_t code = _Unwind_GetIP(context);
  const std::uint64_t stack_pointer = _Unwind_GetCFA(context);  // of this function
  if (calls.open != nullptr) calls.open->end = stack_pointer;
  calls.open = nullptr;
  const AddressRange own = own_library();
  if (code >= own.begin && code < own.end) return _URC_NO_REASON;
  if (code == 0 || calls.count == calls.most) return _URC_END_OF_STACK;
  if (calls.frames != nullptr) {
    calls.open = &calls.frames[calls.count];
    *calls.open = {stack_pointer, stack_pointer};
  }
  calls.at[calls.count++] = code;
  return _URC_NO_REASON;
}

}  // namespace

std::uint32_t unwind(std::uint64_t* calls, std::uint32_t most, StackFrame* frames) {
  Calls found{calls, frames, 0, most};
  Calls* volatile kept = &found;  // after a fault registers are lost
  void* after_fault[5];
  const FaultGuard guard(after_fault);
  if (__builtin_setjmp(after_fault) == 0) _Unwind_Backtrace(add_call, &found);
  return kept->count;
}

}  // namespace crashcut::inject
