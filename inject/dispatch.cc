// The SIGSYS handler: every system call of the program arrives here.
//
// Fates of a call: a model does it; it cannot be modelled, which ends the run with a sentence; or the kernel does it,
//   after the handler has returned, so that signals, restarts and blocking are the program's own.
#include "inject/end.h"
#include "inject/interpose.h"
#include "inject/model.h"
#include "inject/signals.h"

namespace crashcut::inject {

constinit Phase g_phase = Phase::kIdle;
constinit bool g_has_fibers = false;
constinit thread_local bool t_is_own_code __attribute__((tls_model("initial-exec"))) = false;

namespace {

constexpr int kUserDispatch = 2;  // SYS_USER_DISPATCH
constexpr int kArguments[6] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};

constinit bool g_has_own_handlers = false;

Call call_of(const siginfo_t& info, const gregset_t& regs) {
  Call call{info.si_syscall, {}, reinterpret_cast<void*>(regs[REG_RIP])};
  for (int i = 0; i < 6; ++i) call.a[i] = regs[kArguments[i]];
  return call;
}

Fate ask_models(Call& call, ucontext_t& context) {
  for (std::size_t i = 0; i < kModelCount; ++i) {
    const Model& model = *kModels[i];
    if (model.do_call == nullptr || !model.is_active()) continue;
    const Fate fate = model.do_call(call, context);
    if (fate != Fate::kNotMine) return fate;
  }
  return Fate::kNotMine;
}

Fate do_call(Call& call, ucontext_t& context) {
  if (call.number == SYS_rt_sigaction && call.a[1] != 0) g_has_own_handlers = true;
  if (const Fate fate = ask_models(call, context); fate != Fate::kNotMine) return fate;
  if (const char* words = refused_call(call)) refuse(words);
  if (!is_traceless(call)) spend_image();
  if (!is_scheduled()) return Fate::kForwarded;
  // Fibers share one thread of the kernel's: its signal mask and its signal stack are not theirs to change, and are as
  // they were when the handler has returned.
  call.result = do_in_kernel(call);
  return Fate::kDone;
}

void forward(const Call& call, gregset_t& regs, volatile ForwardFrame& frame, void (*gate)()) {
  for (int i = 0; i < 6; ++i) regs[kArguments[i]] = call.a[i];
  frame.return_address = static_cast<std::uint64_t>(regs[REG_RIP]);
  frame.stack_pointer = static_cast<std::uint64_t>(regs[REG_RSP]);
  regs[REG_RSP] = reinterpret_cast<greg_t>(&frame);
  regs[REG_RIP] = reinterpret_cast<greg_t>(gate);
}

void on_sigsys(int, siginfo_t* info, void* ucontext) {
  volatile ForwardFrame frame;
  auto& context = *static_cast<ucontext_t*>(ucontext);
  auto& regs = context.uc_mcontext.gregs;
  if (info->si_code != kUserDispatch) return tell_models(&Model::hurry, context);
  Call call = call_of(*info, regs);
  // The program's own handler returns: its frame is where its stack pointer is.
  if (call.number == SYS_rt_sigreturn) crashcut_sigreturn(static_cast<std::uint64_t>(regs[REG_RSP]));
  if (t_is_own_code) {
    regs[REG_RAX] = do_in_kernel(call);
    return;
  }
  switch (do_call(call, context)) {
    case Fate::kDone:
      regs[REG_RAX] = call.result;
      return;
    case Fate::kForwarded:
      return forward(call, regs, frame, crashcut_forward);
    case Fate::kNewThread:
      return forward(call, regs, frame, crashcut_forward_thread);
    case Fate::kNotMine:
    case Fate::kLeft:
      return;
  }
}

}  // namespace

bool has_own_handlers() { return g_has_own_handlers; }

bool do_without_signal(Call& call) {
  ucontext_t context;  // no model looks at it for such a call
  return ask_models(call, context) == Fate::kDone;
}

bool is_scheduled() { return g_has_fibers || (schedules_threads() && g_phase == Phase::kExecuting); }

bool do_fault(const siginfo_t& info, void* ucontext) {
  for (std::size_t i = 0; i < kModelCount; ++i) {
    const Model& model = *kModels[i];
    if (model.do_fault != nullptr && model.is_active() && model.do_fault(info, ucontext)) return true;
  }
  return false;
}

void refuse(const char* call) {
  tell_models(&Model::refuse, call);
  unsupported(call);
}

bool install_dispatch(std::uint64_t mask) {
  // SA_NODEFER: a libc function that our own code calls may trap while we handle a trap.
  return install_handler(SIGSYS, on_sigsys, SA_NODEFER, mask);
}

}  // namespace crashcut::inject
