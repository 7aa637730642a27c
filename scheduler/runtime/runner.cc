// Server and runner: see protocol.h.
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <unwind.h>

#include "inject/arena.h"
#include "inject/end.h"
#include "inject/environment.h"
#include "inject/process.h"
#include "scheduler/runtime/channels.h"
#include "scheduler/runtime/files.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/image.h"
#include "scheduler/runtime/machine.h"
#include "scheduler/runtime/meetings.h"
#include "scheduler/runtime/models.h"
#include "scheduler/runtime/world.h"

// Calls function() on another stack; it does not return.
asm(R"(
  .text
  .globl crashcut_leave_to
  .hidden crashcut_leave_to
  .type crashcut_leave_to, @function
crashcut_leave_to:
  movq %rsi, %rsp
  xorl %ebp, %ebp
  call *%rdi
  hlt
)");
extern "C" [[noreturn]] void crashcut_leave_to(void (*function)(), void* stack_top);

namespace crashcut::scheduler::runtime {

namespace {

struct Program {
  int argc;
  char** argv;
  char** envp;
  int (*main)(int, char**, char**);
};
Program g_program;
void* g_next[5];
bool g_is_restorable = false;
std::uint64_t g_main_fs_base = 0;
// The coordinator and its recoveries are not scheduled: they have no Control.
Control* g_kept_control = nullptr;
// One arena for the scheduler's state of an execution and for what the execution records, begun anew with each. Until
// then the coordinator reads the recording in it.
inject::Arena g_kept_arena;
alignas(64) char g_own_stack[64 * 1024];

void wait_while(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  while (word.load(std::memory_order_acquire) == value) kernel(SYS_futex, &word, FUTEX_WAIT, value, 0, 0, 0);
}

void reply() {
  g_control->replies.store(g_control->requests.load(std::memory_order_relaxed), std::memory_order_release);
  kernel(SYS_futex, &g_control->replies, FUTEX_WAKE, 1, 0, 0, 0);
}

[[noreturn]] void leave() {
  g_control->is_leaving = 1;
  reply();
  kernel(SYS_exit_group, 0);
  __builtin_unreachable();
}

// On our own stack: the program's memory is put back, and main() begins again.
[[noreturn]] void go_back() {
  asm volatile("wrfsbase %0" : : "r"(g_main_fs_base));
  end_world();
  inject::shared_arena() = g_kept_arena;
  reply();
  restore_image();
  ++g_control->restored_count;
  __builtin_longjmp(g_next, 1);
}

[[noreturn]] void run_requests() {
  g_is_restorable = save_image(g_control->is_restoring != 0);
  if (__builtin_setjmp(g_next) != 0) asm volatile("" ::: "memory");
  const std::uint32_t seen = g_control->replies.load(std::memory_order_acquire);
  inject::set_dispatch(false);
  wait_while(g_control->requests, seen);
  g_is_spent = false;
  begin_world(__builtin_frame_address(0));
  kFileModel.begin(g_control->has_texts != 0);
  inject::set_dispatch(true);
  const int code = run_main(g_program.main, g_program.argc, g_program.argv, g_program.envp);
  g_control->is_result = true;
  if (is_scheduling()) end_process(code & 0xff, true, __builtin_return_address(0));
  end_execution();
}

[[noreturn]] void become_runner() {
  ++g_control->forked_count;
  g_main_fs_base = read_fs_base();
  inject::install_dispatch(0);
  install_signals();
  trap_instructions();
  run_requests();
}

}  // namespace

void start_threads(char** envp) {
  const char* fds = inject::take_variable(envp, inject::kThreadsVariable);
  if (fds == nullptr) return;
  int control = -1, names = -1;
  if (!inject::parse_descriptors(fds, control, names)) inject::die("a malformed environment");
  g_kept_control = reinterpret_cast<Control*>(inject::map_file(control, sizeof(Control)));
  g_names = reinterpret_cast<Names*>(inject::map_file(names, sizeof(Names)));
  if (g_kept_control == nullptr || g_names == nullptr || g_kept_control->magic != kMagic)
    inject::die("cannot map the memory of the scheduler");
}

void end_with(std::string_view sentence, bool is_users_fault) {
  g_control->failure = is_users_fault ? Failure::kUserError : Failure::kToolError;
  inject::copy_text(sentence, g_control->text);
  leave();
}

void unregister_rseq() {
  constexpr std::uint32_t kBytes = 32, kSignature = 0x53053053;  // as libc registers it
  if (__rseq_size > 0)
    kernel(SYS_rseq, read_fs_base() + static_cast<std::uint64_t>(__rseq_offset), kBytes, RSEQ_FLAG_UNREGISTER,
           kSignature);
}

void end_execution() {
  end_outside(kernel(SYS_getpid));
  end_meetings();
  kFileModel.end();
  end_channels();
  if (g_is_restorable && !g_is_spent) crashcut_leave_to(go_back, g_own_stack + sizeof g_own_stack - 64);
  leave();
}

int serve(int argc, char** argv, char** envp, int (*main)(int, char**, char**)) {
  g_program = {argc, argv, envp, main};
  g_control = g_kept_control;
  g_kept_arena = inject::shared_arena();
  const rlimit no_core{0, 0};
  kernel(SYS_prlimit64, 0, RLIMIT_CORE, &no_core, 0);
  if (!prepare_fibers()) {
    refuse("this libc or this processor has no room for fibers (glibc 2.34 and FSGSBASE are needed)");
  }
  // The unwinder sets itself up once, at the first exception: for the program's threads that would be something to meet
  // in.
  _Unwind_Backtrace([](_Unwind_Context*, void*) { return _URC_END_OF_STACK; }, nullptr);
  fflush(nullptr);
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void*) {
        g_control->program_base = info->dlpi_addr;
        return 1;  // the first is the executable
      },
      nullptr);
  g_control->main_at = reinterpret_cast<std::uint64_t>(main);
  watch_meetings();
  prepare_image();
  const long self = kernel(SYS_getpid);
  while (g_control->is_quitting == 0) {
    g_control->runner.killed = inject::kNotKilled;
    const long pid = inject::fork_child(g_control->runner, self, false);
    if (pid == 0) become_runner();
    if (pid < 0) return 4;
    const int status = inject::wait_for_child(g_control->runner, pid);
    g_control->runner.pid = 0;
    end_outside(pid);
    // It went with its reply given: another takes its place. Else the request is answered for it.
    if (g_control->is_leaving.exchange(0) == 0 && g_control->requests.load() != g_control->replies.load()) {
      g_control->runner_status = status;
      g_control->runner_end = inject::end_of(g_control->runner, status);
      reply();
    }
  }
  kernel(SYS_exit_group, 0);
  __builtin_unreachable();
}

}  // namespace crashcut::scheduler::runtime
