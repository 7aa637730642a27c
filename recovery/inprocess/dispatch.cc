// The SIGSYS handler: every system call of the program arrives here.
//
// Fates of a call: the model does it; the kernel does it as it stands, after the handler has returned (so that
//   signals, restarts and blocking are the program's own); the runtime does it (signal masks, threads, exit); or
//   it cannot be modelled, which ends the run with a sentence.
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <exception>

#include "include/crashcut.h"
#include "recovery/inprocess/arena.h"
#include "recovery/inprocess/call.h"
#include "recovery/inprocess/gate.h"
#include "recovery/inprocess/runtime.h"
#include "recovery/inprocess/user_memory.h"

namespace crashcut::inprocess {

constinit Runtime g;

namespace {

// Set while our own code runs on this thread: a libc function that we called after all goes to the kernel.
constinit thread_local bool t_in_runtime __attribute__((tls_model("initial-exec"))) = false;
// Copies of the program's signal masks without the signals that stay open; must outlive the handler.
constinit thread_local std::uint64_t t_mask __attribute__((tls_model("initial-exec"))) = 0;
constinit thread_local std::uint64_t t_mask_argument[2] __attribute__((tls_model("initial-exec"))) = {};

constexpr std::uint64_t bit_of(int signal) { return std::uint64_t{1} << (signal - 1); }
constexpr std::uint64_t kFaultBits = bit_of(SIGSEGV) | bit_of(SIGBUS);
// What the program must not block: system calls come to us by SIGSYS, and bad addresses by the others.
constexpr std::uint64_t kOpenBits = bit_of(SIGSYS) | kFaultBits;
constexpr std::size_t kModelStackBytes = 1 << 20;

void lock_model() {
  std::uint32_t free = 0;
  if (g.lock.compare_exchange_strong(free, 1, std::memory_order_acquire)) return;
  while (g.lock.exchange(2, std::memory_order_acquire) != 0) kernel(SYS_futex, &g.lock, FUTEX_WAIT_PRIVATE, 2, 0);
}

void unlock_model() {
  if (g.lock.exchange(0, std::memory_order_release) == 2) kernel(SYS_futex, &g.lock, FUTEX_WAKE_PRIVATE, 1);
}

std::uint64_t without_ours(const void* mask) { return *static_cast<const std::uint64_t*>(mask) & ~kOpenBits; }

void forward(ucontext_t& context, volatile ForwardFrame& frame, void (*gate)()) {
  auto& regs = context.uc_mcontext.gregs;
  frame.return_address = regs[REG_RIP];
  frame.stack_pointer = regs[REG_RSP];
  regs[REG_RSP] = reinterpret_cast<long>(&frame);
  regs[REG_RIP] = reinterpret_cast<long>(gate);
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

void on_sigsys(int signal, siginfo_t* info, void* ucontext);

// While we handle it the program's own handlers do not run; ours of bad addresses does.
bool install_sigsys() {
  KernelSigaction action{};
  action.handler = reinterpret_cast<void*>(on_sigsys);
  // SA_NODEFER: a libc function that our own code calls may trap while we handle a trap.
  action.flags = SA_SIGINFO | SA_NODEFER | 0x04000000 /* SA_RESTORER */;
  action.restorer = reinterpret_cast<void*>(crashcut_restorer);
  action.mask = ~(bit_of(SIGSYS) | (catches_faults() ? kFaultBits : 0));
  return kernel(SYS_rt_sigaction, SIGSYS, &action, 0, 8) == 0;
}

// A program that wants SIGSYS for itself is told that it has it.
long change_action(const Call& call) {
  if (call.a[0] == SIGSYS) {
    if (call.a[2] != 0) *reinterpret_cast<KernelSigaction*>(call.a[2]) = KernelSigaction{};
    return 0;
  }
  KernelSigaction action{};
  if (call.a[1] != 0) action = *reinterpret_cast<const KernelSigaction*>(call.a[1]);
  action.mask &= ~kOpenBits;
  const KernelSigaction* wanted = call.a[1] == 0 ? nullptr : &action;
  if (is_fault_signal(call.a[0])) {
    const long result = change_fault_action(call.a[0], wanted, reinterpret_cast<KernelSigaction*>(call.a[2]));
    install_sigsys();
    return result;
  }
  return kernel(call.number, call.a[0], wanted, call.a[2], call.a[3]);
}

// A mask that a call installs while it waits must leave SIGSYS open for the handlers that run meanwhile.
void strip_waiting_mask(const Call& call, greg_t* regs) {
  const auto strip = [&](int argument, int reg) {
    if (call.a[argument] == 0) return;
    t_mask = without_ours(reinterpret_cast<void*>(call.a[argument]));
    regs[reg] = reinterpret_cast<long>(&t_mask);
  };
  switch (call.number) {
    case SYS_rt_sigsuspend:
      return strip(0, REG_RDI);
    case SYS_ppoll:
      return strip(3, REG_R10);
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
      return strip(4, REG_R8);
    case SYS_pselect6: {
      const auto* given = reinterpret_cast<const std::uint64_t*>(call.a[5]);
      if (given == nullptr || given[0] == 0) return;
      t_mask = without_ours(reinterpret_cast<void*>(given[0]));
      t_mask_argument[0] = reinterpret_cast<std::uint64_t>(&t_mask);
      t_mask_argument[1] = given[1];
      regs[REG_R9] = reinterpret_cast<long>(t_mask_argument);
      return;
    }
    default:
      return;
  }
}

// A new thread: it begins in the gate, where it turns dispatch on. The address to go on at is put on its stack.
void start_thread(const Call& call, ucontext_t& context, volatile ForwardFrame& frame) {
  auto& regs = context.uc_mcontext.gregs;
  g.threads.fetch_add(1, std::memory_order_relaxed);
  if (g.phase == Phase::kExecuting) g.header->threads_begun.fetch_add(1, std::memory_order_relaxed);
  if (call.number == SYS_clone) {
    regs[REG_RSI] -= 8;
    *reinterpret_cast<long*>(regs[REG_RSI]) = regs[REG_RIP];
  } else {
    // struct clone_args: stack at 40, stack_size at 48.
    auto* args = reinterpret_cast<std::uint64_t*>(call.a[0]);
    args[6] -= 8;
    *reinterpret_cast<long*>(args[5] + args[6]) = regs[REG_RIP];
  }
  forward(context, frame, crashcut_forward_thread);
}

bool is_new_thread(const Call& call) {
  const std::uint64_t flags = call.number == SYS_clone ? call.a[0] : *reinterpret_cast<const std::uint64_t*>(call.a[0]);
  const bool has_stack =
      call.number == SYS_clone ? call.a[1] != 0 : reinterpret_cast<std::uint64_t*>(call.a[0])[5] != 0;
  return (flags & CLONE_THREAD) != 0 && has_stack;
}

[[noreturn]] void end_process(int code) {
  if (g.phase == Phase::kExecuting) {
    in_model([code] { end_execution(code); });
  } else if (g.phase == Phase::kRecovering) {
    in_model([code] { finish_recovery(code == 0 ? Outcome::kOk : Outcome::kExited, code); });
  } else {
    user_error("the program ended before main()");
  }
  __builtin_unreachable();
}

}  // namespace

long own_call(Call& call) {
  switch (call.a[0]) {
    case CRASHCUT_OP_BARRIER:
      if (g.phase != Phase::kExecuting) return -EINVAL;
      g.model->recorder->begin_op("crashcut_barrier()");
      g.model->filesystem->make_durable();
      return 0;
    case CRASHCUT_OP_MARK: {
      // A recovery's marks are nobody's to read.
      if (g.model->recorder == nullptr) return 0;
      const std::string text(reinterpret_cast<const char*>(call.a[1]), static_cast<std::size_t>(call.a[2]));
      g.model->recorder->begin_op("crashcut_mark(\"" + text + "\")");
      if (g.phase == Phase::kExecuting) g.model->recorder->mark(text);
      return 0;
    }
    case CRASHCUT_OP_REACHED:
      if (g.phase != Phase::kRecovering) return 0;
      return reached({reinterpret_cast<const char*>(call.a[1]), static_cast<std::size_t>(call.a[2])}) ? 1 : 0;
    case CRASHCUT_OP_ASSUME:
      if (g.phase != Phase::kRecovering)
        user_error(
            "main() called crashcut_assume(), which belongs in crashcut_recover(): it says which recoveries count");
      finish_recovery(Outcome::kAssumedAway, 0);
    default:
      return -ENOSYS;
  }
}

namespace {

bool is_ours(const Call& call, Filter filter) {
  const auto path = [&](int i) { return reinterpret_cast<const char*>(call.a[i]); };
  switch (filter) {
    case Filter::kAlways:
      return true;
    case Filter::kFd:
      return g.models_fd(static_cast<int>(call.a[0]));
    case Filter::kEitherFd:
      return g.models_fd(static_cast<int>(call.a[0])) ||
             g.models_fd(
                 static_cast<int>(call.a[call.number == SYS_copy_file_range || call.number == SYS_splice ? 2 : 1]));
    case Filter::kPath:
      return !surely_outside(AT_FDCWD, path(0));
    case Filter::kAt:
      return !surely_outside(call.a[0], path(1));
    case Filter::kTwoPaths:
      return !surely_outside(AT_FDCWD, path(0)) || !surely_outside(AT_FDCWD, path(1));
    case Filter::kTwoAts:
      return !surely_outside(call.a[0], path(1)) || !surely_outside(call.a[2], path(3));
    case Filter::kPathSecond:
      return !surely_outside(AT_FDCWD, path(1));
    case Filter::kAtSecond:
      return !surely_outside(call.a[1], path(2));
    case Filter::kMapFd:
      return (g.models_fd(static_cast<int>(call.a[4])) && (call.a[3] & MAP_ANONYMOUS) == 0) ||
             ((call.a[3] & MAP_FIXED) != 0 && is_mapped(call.a[0], call.a[1]));
    case Filter::kMapped:
      return is_mapped(call.a[0], call.a[1]);
  }
  return false;
}

}  // namespace

bool is_model_call(const Call& call) {
  const CallEntry& entry = call_entry(call.number);
  return call.number == CRASHCUT_SYSCALL_NUMBER || (entry.function != nullptr && is_ours(call, entry.filter));
}

namespace {

long capture_parts(int stream, const iovec* parts, long count) {
  long total = 0;
  for (long i = 0; i < count; ++i) {
    const std::size_t good = readable_bytes(parts[i].iov_base, parts[i].iov_len);
    in_model([&] { capture_output(stream, parts[i].iov_base, good); });
    total += static_cast<long>(good);
    if (good < parts[i].iov_len) return total > 0 ? total : -EFAULT;
  }
  return total;
}

// What the recovery prints is kept. kForward where the call is none of that.
long captured_call(Call& call) {
  const long fd = call.a[0];
  if (fd < 0 || fd >= static_cast<long>(sizeof g.captured) || g.captured[fd] == 0) return kForward;
  const int stream = g.captured[fd];
  switch (call.number) {
    case SYS_write:
    case SYS_pwrite64: {
      const iovec part{reinterpret_cast<void*>(call.a[1]), static_cast<std::size_t>(call.a[2])};
      return capture_parts(stream, &part, 1);
    }
    case SYS_writev: {
      const auto* parts = reinterpret_cast<const iovec*>(call.a[1]);
      if (call.a[2] < 0 || call.a[2] > IOV_MAX) return -EINVAL;
      const std::size_t bytes = static_cast<std::size_t>(call.a[2]) * sizeof *parts;
      return readable_bytes(parts, bytes) == bytes ? capture_parts(stream, parts, call.a[2]) : -EFAULT;
    }
    case SYS_close:
      g.captured[fd] = 0;
      return kForward;
    case SYS_dup:
    case SYS_dup2:
    case SYS_dup3:
    case SYS_fcntl: {
      if (call.number == SYS_fcntl && call.a[1] != F_DUPFD && call.a[1] != F_DUPFD_CLOEXEC) return kForward;
      if (call.number != SYS_dup && call.number != SYS_fcntl && g.models_fd(static_cast<int>(call.a[1])))
        return kForward;
      spend_image();
      const long made = kernel(call.number, call.a[0], call.a[1], call.a[2]);
      if (made >= 0 && made < static_cast<long>(sizeof g.captured))
        g.captured[made] = static_cast<std::uint8_t>(stream);
      return made;
    }
    default:
      return kForward;
  }
}

long model_call(const CallEntry& entry, Call& call) {
  if (g.phase == Phase::kConstructing) {
    if (entry.filter == Filter::kAlways) return kForward;
    user_error(std::string(entry.name) +
               "() on a modelled file before main(), in a static constructor: only main() and "
               "crashcut_recover() may use files below /crashcut");
  }
  long result = 0;
  in_model([&] {
    g.model->is_changed = false;
    end_loans();
    result = entry.function(call);
    if (g.model->is_changed) refresh_mappings();
    if (g.phase == Phase::kRecovering) note_events_in();
    if (g.narrating && result != kForward) narrate_call(result);
  });
  return result;
}

// kForward: the kernel's.
long dispatch(Call& call) {
  if (g.phase == Phase::kRecovering) {
    const long result = captured_call(call);
    if (result != kForward) return result;
    // dup2 onto a captured descriptor takes its number away.
    if ((call.number == SYS_dup2 || call.number == SYS_dup3) && call.a[1] >= 0 &&
        call.a[1] < static_cast<long>(sizeof g.captured) && call.a[0] != call.a[1]) {
      g.captured[call.a[1]] = 0;
    }
  }
  const CallEntry& entry = call_entry(call.number);
  if (entry.function == nullptr || !is_ours(call, entry.filter)) return kForward;
  return model_call(entry, call);
}

// A signal is for this process: whoever else can be reached from here is crashcut's. Asking whether a process lives
// is free.
void check_signal(const Call& call) {
  const bool is_thread_call = call.number == SYS_tgkill;
  const long signal = call.a[is_thread_call ? 2 : 1];
  if (signal == 0) return;
  if (call.number != SYS_tkill && call.a[0] != kernel(SYS_getpid))
    unsupported("kill() of another process or of a group");
  std::uint32_t nobody = kNotKilled;
  if (signal == SIGKILL && g.slot != nullptr) g.slot->killed.compare_exchange_strong(nobody, kByItself);
}

// Calls that are about this process and not about files. Returns false where they are not among them.
bool process_call(Call& call, ucontext_t& context, volatile ForwardFrame& frame) {
  auto& regs = context.uc_mcontext.gregs;
  switch (call.number) {
    case SYS_rt_sigreturn:
      crashcut_sigreturn(static_cast<std::uint64_t>(regs[REG_RSP]));
    case SYS_rt_sigprocmask:
      regs[REG_RAX] = change_mask(call, context);
      return true;
    case SYS_rt_sigaction:
      regs[REG_RAX] = change_action(call);
      return true;
    case SYS_rt_sigsuspend:
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
      strip_waiting_mask(call, regs);
      forward(context, frame, crashcut_forward);
      return true;
    case SYS_clone:
    case SYS_clone3:
      if (!is_new_thread(call)) unsupported("fork() (or system(), popen(), posix_spawn())");
      start_thread(call, context, frame);
      return true;
    case SYS_kill:
    case SYS_tkill:
    case SYS_tgkill:
      check_signal(call);
      return false;
    case SYS_fork:
      unsupported("fork()");
    case SYS_vfork:
      unsupported("vfork()");
    case SYS_execve:
    case SYS_execveat:
      unsupported("exec()");
    case SYS_exit:
      if (g.threads.fetch_sub(1, std::memory_order_acq_rel) > 1) {
        forward(context, frame, crashcut_forward);
        return true;
      }
      end_process(static_cast<int>(call.a[0]) & 0xff);
    case SYS_exit_group:
      end_process(static_cast<int>(call.a[0]) & 0xff);
    case CRASHCUT_SYSCALL_NUMBER:
      if (g.phase == Phase::kConstructing) {
        regs[REG_RAX] = 0;
        return true;
      }
      in_model([&] {
        regs[REG_RAX] = own_call(call);
        if (g.phase == Phase::kRecovering) note_events_in();
        if (g.narrating) narrate_call(regs[REG_RAX]);
      });
      return true;
    default:
      return false;
  }
}

void on_sigsys(int, siginfo_t* info, void* ucontext) {
  volatile ForwardFrame frame;
  auto& context = *static_cast<ucontext_t*>(ucontext);
  auto& regs = context.uc_mcontext.gregs;
  constexpr int kUserDispatch = 2;  // SYS_USER_DISPATCH
  if (info->si_code != kUserDispatch) return;
  Call call{info->si_syscall, {regs[REG_RDI], regs[REG_RSI], regs[REG_RDX], regs[REG_R10], regs[REG_R8], regs[REG_R9]}};
  if (t_in_runtime) {
    regs[REG_RAX] = crashcut_syscall(call.number, call.a[0], call.a[1], call.a[2], call.a[3], call.a[4], call.a[5]);
    return;
  }
  if (changes_process(call)) spend_image();
  if (process_call(call, context, frame)) return;
  long result = dispatch(call);
  if (result == kForward && g.answer != nullptr && g.answer(call.number, call.a, result)) {
    if (!is_traceless(call)) spend_image();
  }
  if (result == kForward) {
    if (!is_traceless(call)) spend_image();
    forward(context, frame, crashcut_forward);
  } else {
    regs[REG_RAX] = result;
  }
}

struct ModelEntry {
  void (*function)(void*);
  void* argument;
};

// An exception of the model is ours: nothing of it reaches the program.
void enter_model(void* p) {
  const auto& entry = *static_cast<ModelEntry*>(p);
  try {
    entry.function(entry.argument);
  } catch (const std::exception& error) {
    tool_error(std::string("an exception inside crashcut's model: ") + error.what());
  } catch (...) {
    tool_error("an exception inside crashcut's model");
  }
}

}  // namespace

void run_in_model(void (*function)(void*), void* argument) {
  if (t_in_runtime) return function(argument);
  ModelEntry entry{function, argument};
  const int saved_errno = errno;
  lock_model();
  t_in_runtime = true;
  if (g.slot != nullptr) g.slot->in_runtime.store(1, std::memory_order_relaxed);
  crashcut_call_on_stack(enter_model, &entry, g.model_stack_top);
  if (g.slot != nullptr) g.slot->in_runtime.store(0, std::memory_order_relaxed);
  t_in_runtime = false;
  unlock_model();
  errno = saved_errno;
}

bool install_dispatch() {
  const long stack = kernel(SYS_mmap, 0, kModelStackBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (stack < 0 && stack > -4096) return false;
  kernel(SYS_mprotect, stack, kGuardBytes, PROT_NONE);
  g.model_stack_begin = reinterpret_cast<std::byte*>(stack) + kGuardBytes;
  g.model_stack_top = reinterpret_cast<std::byte*>(stack) + kModelStackBytes - 64;
  catch_faults();
  if (!install_sigsys()) return false;
  kernel(SYS_rt_sigprocmask, SIG_UNBLOCK, &kOpenBits, 0, 8);
  return set_dispatch(true) == 0;
}

}  // namespace crashcut::inprocess
