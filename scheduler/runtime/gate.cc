#include "scheduler/runtime/gate.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/uio.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>

#include "include/crashcut.h"
#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/channels.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/meetings.h"
#include "scheduler/runtime/models.h"
#include "scheduler/runtime/shared_files.h"
#include "scheduler/runtime/signal_calls.h"
#include "scheduler/runtime/world.h"

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

namespace {

using inject::Call;
using inject::Fate;

constexpr const char* kNotPrograms[] = {"libcrashcut_runtime", "/libc.so", "/ld-linux", "vdso"};

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

// It may wait for a variable that is not seen.
void hurry(ucontext_t& context) {
  const auto* pc = reinterpret_cast<void*>(original_of(static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RIP])));
  if (is_scheduling() && !inject::t_is_own_code && is_programs_code(pc)) wait_for_others(pc);
}

Fate fate_of(Answer answer, gregset_t& regs) {
  if (answer == Answer::kNotOurs) return Fate::kNotMine;
  if (answer == Answer::kDone) return Fate::kDone;
  end_after(regs);
  return Fate::kLeft;
}

Fate done(Call& call, long result) {
  call.result = result;
  return Fate::kDone;
}

// Copies memory that the program named: as much as can be read.
std::size_t copy_named(void* to, const void* from, std::size_t bytes) {
  const iovec there{const_cast<void*>(from), bytes}, here{to, bytes};
  const long copied = inject::crashcut_syscall(SYS_process_vm_readv, g_control->hosts[g_host].runner.pid,
                                               reinterpret_cast<long>(&here), 1, reinterpret_cast<long>(&there), 1, 0);
  return copied < 0 ? 0 : static_cast<std::size_t>(copied);
}

// The first bytes that the program prints are kept: they are the execution's outcome, and are told with a violation.
void keep_output(const Call& call) {
  if ((call.a[0] != 1 && call.a[0] != 2) || (call.number != SYS_write && call.number != SYS_writev)) return;
  Printed& printed = g_control->hosts[g_host].printed[call.a[0] - 1];
  iovec one{reinterpret_cast<void*>(call.a[1]), static_cast<std::size_t>(call.a[2])};
  const auto* parts = reinterpret_cast<const iovec*>(call.a[1]);
  const long count = call.number == SYS_write ? 1 : call.a[2];
  for (long i = 0; i < count && printed.bytes < kOutputMost; ++i) {
    if (call.number == SYS_writev && copy_named(&one, parts + i, sizeof one) < sizeof one) return;
    const std::size_t bytes = std::min<std::size_t>(one.iov_len, kOutputMost - printed.bytes);
    printed.bytes += static_cast<std::uint32_t>(copy_named(printed.text + printed.bytes, one.iov_base, bytes));
  }
}

Fate do_call(Call& call, ucontext_t& context) {
  auto& regs = context.uc_mcontext.gregs;
  keep_output(call);
  // Also how libc's exit() ends, after its handlers.
  if (call.number == SYS_exit_group || call.number == SYS_exit) {
    if (is_scheduling()) end_process(static_cast<int>(call.a[0] & 0xff), false, call.caller);
    end_execution();
  }
  if (call.number == CRASHCUT_SYSCALL_NUMBER && do_host_call(call.a, call.caller, call.result)) return Fate::kDone;
  if (is_hosted() && do_shared_file_call(call)) return Fate::kDone;
  if (is_cancelled_before(call.number, call.caller)) return fate_of(Answer::kCancelled, regs);
  Fate fate = fate_of(do_channel_call(call.number, call.a, call.caller, call.result), regs);
  if (fate != Fate::kNotMine) return fate;
  // What the kernel has blocked while a handler of a fault runs is let in again, as a program that leaves it by
  // siglongjmp() asks for.
  if (call.number == SYS_rt_sigprocmask && call.a[1] != 0) let_in(context, call.a);
  fate = fate_of(do_signal_call(call.number, call.a, call.caller, call.result), regs);
  if (fate != Fate::kNotMine) return fate;
  translate_pids(call.number, call.a);
  if (call.number == SYS_futex && is_scheduling()) {
    if (const char* name = name_openmp(nullptr, call.caller)) refuse(name);
    return done(call, futex_of_libc(call.a, call.caller));
  }
  if (call.number == SYS_timerfd_create && is_scheduling()) refuse("timerfd_create()");
  if (call.number == SYS_rt_sigaction) {
    if (call.a[1] != 0) g_is_spent = true;
    return done(call,
                change_action(static_cast<int>(call.a[0]), reinterpret_cast<const inject::KernelSigaction*>(call.a[1]),
                              reinterpret_cast<inject::KernelSigaction*>(call.a[2])));
  }
  return Fate::kNotMine;
}

// Fresh images have the heap of their own, and what was printed stays printed.
bool undoes(const Call& call) {
  const bool prints = call.number == SYS_write || call.number == SYS_writev;
  return call.number == SYS_madvise || (prints && (call.a[0] == 1 || call.a[0] == 2));
}

}  // namespace

const inject::Model kThreadModel{
    .name = "threads",
    .start = start_threads,
    .is_active = [] { return g_control != nullptr; },
    .do_call = do_call,
    .hurry = hurry,
    .spend_image = [] { g_is_spent = true; },
    .undoes = undoes,
    .refuse = refuse,
    .end_with = end_with,
};

}  // namespace crashcut::scheduler::runtime
