#include "scheduler/runtime/gate.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <ucontext.h>

#include <algorithm>
#include <iterator>
#include <string_view>

#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/channels.h"
#include "scheduler/runtime/files.h"
#include "scheduler/runtime/machine.h"
#include "scheduler/runtime/meetings.h"
#include "scheduler/runtime/signal_calls.h"
#include "scheduler/runtime/world.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

asm(R"(
  .pushsection crashcut_gate, "ax", @progbits
  .balign 64
  .globl crashcut_threads_syscall, crashcut_threads_restorer
  .hidden crashcut_threads_syscall, crashcut_threads_restorer
  .type crashcut_threads_syscall, @function
crashcut_threads_syscall:
  .cfi_startproc
  movq %rdi, %rax
  movq %rsi, %rdi
  movq %rdx, %rsi
  movq %rcx, %rdx
  movq %r8, %r10
  movq %r9, %r8
  movq 8(%rsp), %r9
  syscall
  ret
  .cfi_endproc
  nop
  .type crashcut_threads_restorer, @function
crashcut_threads_restorer:
  movl $15, %eax
  syscall
  hlt                                  # the kernel looks at the address after the call
  .popsection
)");
extern "C" void crashcut_threads_restorer();

namespace crashcut::scheduler::runtime {

// That the code was loaded from.
static std::string_view file_of(const void* pc) {
  Dl_info info{};
  return dladdr(pc, &info) == 0 || info.dli_fname == nullptr ? "" : info.dli_fname;
}

const char* name_openmp(const char* call, const void* pc) {
  const std::string_view file = file_of(pc);
  for (const char* library : {"libgomp", "libomp", "libiomp"}) {
    if (file.find(library) != file.npos) return "the runtime of OpenMP";
  }
  return call;
}

bool g_is_spent = false;
bool g_is_own_call = false;

namespace {

constexpr const char* kNotPrograms[] = {"libcrashcut_runtime", "/libc.so", "/ld-linux", "vdso"};

// Queries, and what the image forgets.
bool is_traceless(long number, const long* a) {
  switch (number) {
    case SYS_getuid:
    case SYS_geteuid:
    case SYS_getgid:
    case SYS_getegid:
    case SYS_getcwd:
    case SYS_getrlimit:
    case SYS_clock_getres:
    case SYS_sched_yield:
    case SYS_access:
    case SYS_faccessat:
    case SYS_faccessat2:
    case SYS_sched_getparam:
    case SYS_sched_getscheduler:
    case SYS_sched_get_priority_max:
    case SYS_sched_get_priority_min:
      return true;
    case SYS_prlimit64:
      return a[2] == 0;
    case SYS_write:
    case SYS_writev:
      return a[0] == 1 || a[0] == 2;
    case SYS_ioctl:
      return a[1] == 0x5401 /* TCGETS */;
    case SYS_rt_sigprocmask:
      return a[1] == 0;
    case SYS_rt_sigaction:
      return a[1] == 0;
    case SYS_madvise:
      return true;
    case SYS_brk:
      return a[0] == 0;
    default:
      return false;
  }
}

// What cannot go on under one kernel thread of ours.
const char* refused(long number, const long* a) {
  switch (number) {
    case SYS_clone:
    case SYS_clone3:
    case SYS_fork:
    case SYS_vfork:
      return "fork() (or system(), popen(), posix_spawn(), or what makes libc begin a thread of its own, as "
             "timer_create() may)";
    case SYS_execve:
    case SYS_execveat:
      return "exec()";
    case SYS_socket:
    case SYS_socketpair:
    case SYS_accept:
    case SYS_accept4:
    case SYS_connect:
      return "socket()";
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_poll:
    case SYS_ppoll:
    case SYS_select:
    case SYS_pselect6:
      return is_scheduling() ? "epoll_wait() of an epoll instance that was made before main()"
                             : "poll() or select() outside of main()";
    case SYS_kill:
      return a[0] == kernel(SYS_getpid) || a[1] == 0 ? nullptr : "kill() of another process or of a group";
    case SYS_ptrace:
      return "ptrace()";
    case SYS_io_uring_setup:
    case SYS_io_setup:
      return "asynchronous I/O";
    case SYS_inotify_init:
    case SYS_inotify_init1:
    case SYS_fanotify_init:
      return "inotify_init() (or fanotify_init()), which tells of changes by other processes";
    case SYS_perf_event_open:
      return "perf_event_open()";
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_msgrcv:
    case SYS_msgsnd:
      return "semop(), msgsnd() or msgrcv(), waits between processes";
    case SYS_mq_open:
      return "mq_open(), a queue between processes";
    case SYS_timerfd_create:
      return is_scheduling() ? "timerfd_create()" : nullptr;
    default:
      return nullptr;
  }
}

// The kernel's numbers in place of the program's, for signals that it sends itself: it has one thread.
void translate_pids(long number, long* a) {
  const bool names_process = number == SYS_kill || number == SYS_tgkill || number == SYS_tkill;
  if (!names_process) return;
  const long self = kernel(SYS_getpid);
  const auto is_own = [](long id) { return id >= kProgramPid && id < kProgramPid + kActorsMost; };
  if (number == SYS_kill ? a[0] == kProgramPid : is_own(a[0])) a[0] = self;
  if (number == SYS_tgkill && is_own(a[1])) a[1] = self;
}

// Where a cancelled actor goes on instead of its system call.
__attribute__((force_align_arg_pointer)) void cancelled_entry() { end_actor(PTHREAD_CANCELED); }

// As if the interrupted function had called it where it made the system call, so that its stack can be unwound.
void end_after(gregset_t& regs) {
  regs[REG_RSP] -= sizeof(greg_t);
  *reinterpret_cast<greg_t*>(regs[REG_RSP]) = regs[REG_RIP];
  regs[REG_RIP] = reinterpret_cast<greg_t>(cancelled_entry);
}

// Takes effect when the handler returns. To the kernel all fibers have one mask, and nothing is blocked.
void let_in(ucontext_t& context, const long* a) {
  auto& mask = *reinterpret_cast<std::uint64_t*>(&context.uc_sigmask);
  const std::uint64_t wanted = *reinterpret_cast<const std::uint64_t*>(a[1]);
  if (a[0] == SIG_UNBLOCK) mask &= ~wanted;
  if (a[0] == SIG_SETMASK) mask &= wanted;
}

// Whether the code may be left for another thread's: it holds nothing of libc's or of ours.
bool is_programs_code(const void* pc) {
  const std::string_view file = file_of(pc);
  return std::none_of(std::begin(kNotPrograms), std::end(kNotPrograms),
                      [&](const char* part) { return file.find(part) != file.npos; });
}

void on_sigsys(int, siginfo_t* info, void* ucontext) {
  auto& regs = static_cast<ucontext_t*>(ucontext)->uc_mcontext.gregs;
  constexpr int kUserDispatch = 2;
  if (info->si_code != kUserDispatch) {
    // crashcut asks, after --step-limit.
    const auto* pc = reinterpret_cast<void*>(original_of(static_cast<std::uint64_t>(regs[REG_RIP])));
    if (is_scheduling() && !g_is_own_call && is_programs_code(pc)) wait_for_others(pc);
    return;
  }
  const long number = info->si_syscall;
  long a[6] = {static_cast<long>(regs[REG_RDI]), static_cast<long>(regs[REG_RSI]), static_cast<long>(regs[REG_RDX]),
               static_cast<long>(regs[REG_R10]), static_cast<long>(regs[REG_R8]),  static_cast<long>(regs[REG_R9])};
  if (number == SYS_rt_sigreturn) {
    // The program's own handler returns: its frame is where its stack pointer is.
    asm volatile("movq %0, %%rsp; jmp crashcut_threads_restorer" : : "r"(regs[REG_RSP]));
    __builtin_unreachable();
  }
  // Also how libc's exit() ends, after its handlers.
  if (number == SYS_exit_group || number == SYS_exit) {
    if (is_scheduling()) end_process(static_cast<int>(a[0] & 0xff), false, reinterpret_cast<void*>(regs[REG_RIP]));
    end_execution();
  }
  if (!g_is_own_call) {
    if (is_cancelled_before(number, reinterpret_cast<void*>(regs[REG_RIP]))) return end_after(regs);
    long result = 0;
    const auto* caller = reinterpret_cast<void*>(regs[REG_RIP]);
    const Answer answer = do_channel_call(number, a, caller, result);
    if (answer == Answer::kCancelled) return end_after(regs);
    if (answer == Answer::kDone) {
      regs[REG_RAX] = result;
      return;
    }
    // What the kernel has blocked while a handler of a fault runs is let in again, as who leaves it by siglongjmp()
    // asks for.
    if (number == SYS_rt_sigprocmask && a[1] != 0) let_in(*static_cast<ucontext_t*>(ucontext), a);
    const Answer of_signals = do_signal_call(number, a, caller, result);
    if (of_signals == Answer::kCancelled) return end_after(regs);
    if (of_signals == Answer::kDone) {
      regs[REG_RAX] = result;
      return;
    }
    translate_pids(number, a);
    if (answer_number(number, result) || answer_query(number, a, caller, result) ||
        do_file_call(number, a, caller, result) || do_outside_call(number, a, result)) {
      regs[REG_RAX] = result;
      return;
    }
    if (number == SYS_futex && is_scheduling()) {
      if (const char* name = name_openmp(nullptr, reinterpret_cast<void*>(regs[REG_RIP]))) refuse(name);
      regs[REG_RAX] = futex_of_libc(a, reinterpret_cast<void*>(regs[REG_RIP]));
      return;
    }
    if (const char* call = refused(number, a)) refuse(call);
    if (!is_traceless(number, a)) g_is_spent = true;
    if (number == SYS_rt_sigaction) {
      regs[REG_RAX] = change_action(static_cast<int>(a[0]), reinterpret_cast<const KernelSigaction*>(a[1]),
                                    reinterpret_cast<KernelSigaction*>(a[2]));
      return;
    }
  }
  regs[REG_RAX] = crashcut_threads_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

}  // namespace

void set_dispatch(bool on) {
  if (on) {
    kernel(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, 1, __start_crashcut_gate,
           __stop_crashcut_gate - __start_crashcut_gate, 0);
  } else {
    kernel(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0);
  }
}

bool install_handler(int signal, void (*handler)(int, siginfo_t*, void*), bool on_own_stack) {
  KernelSigaction action{};
  // A loop over a watched instruction is in the handler of SIGTRAP most of the time. crashcut's wish that it lets
  // others go on waits for the end of the handler, where the thread is in the program's code.
  if (signal == SIGTRAP) action.mask = std::uint64_t{1} << (SIGSYS - 1);
  action.handler = reinterpret_cast<void*>(handler);
  action.flags = SA_SIGINFO | SA_NODEFER | 0x04000000 /* SA_RESTORER */ | (on_own_stack ? SA_ONSTACK : 0);
  action.restorer = reinterpret_cast<void*>(crashcut_threads_restorer);
  return kernel(SYS_rt_sigaction, signal, &action, 0, 8) == 0;
}

bool install_dispatch() { return install_handler(SIGSYS, on_sigsys, false); }

}  // namespace crashcut::scheduler::runtime
