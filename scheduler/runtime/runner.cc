// Server and runner: see protocol.h.
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/rseq.h>
#include <unwind.h>

#include "inject/arena.h"
#include "inject/end.h"
#include "inject/environment.h"
#include "inject/process.h"
#include "inject/program_function.h"
#include "scheduler/runtime/channels.h"
#include "scheduler/runtime/files.h"
#include "scheduler/runtime/first_signals.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/hold.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/image.h"
#include "scheduler/runtime/machine.h"
#include "scheduler/runtime/meetings.h"
#include "scheduler/runtime/models.h"
#include "scheduler/runtime/own_world.h"
#include "scheduler/runtime/regions.h"
#include "scheduler/runtime/shared_files.h"
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
bool g_is_setting_up = false;  // this process runs crashcut_setup()
bool g_is_restarted = false;   // main() begins again in the same execution

void wait_while(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  while (word.load(std::memory_order_acquire) == value) kernel(SYS_futex, &word, FUTEX_WAIT, value, 0, 0, 0);
}

HostPart& own_part() { return g_control->hosts[g_host]; }

void reply_to_crashcut() {
  g_control->replies.store(g_control->requests.load(std::memory_order_relaxed), std::memory_order_release);
  kernel(SYS_futex, &g_control->replies, FUTEX_WAKE, 1, 0, 0, 0);
}

// With hosts, the last of them replies.
void reply() { is_hosted() ? pass_end_on(reply_to_crashcut) : reply_to_crashcut(); }

[[noreturn]] void leave() {
  own_part().is_leaving = 1;
  reply();
  kernel(SYS_exit_group, 0);
  __builtin_unreachable();
}

// On our own stack: the program's memory is put back, and main() begins again.
[[noreturn]] void go_back() {
  asm volatile("wrfsbase %0" : : "r"(g_main_fs_base));
  end_world();
  inject::shared_arena() = g_kept_arena;
  if (!g_is_restarted) reply();
  g_is_restarted = false;
  restore_signals();
  restore_image();
  ++g_control->restored_count;
  __builtin_longjmp(g_next, 1);
}

// Waits for a request, or for this host's turn in the execution of one.
void begin_or_join_world(const void* stack_top) {
  const bool is_first = g_host == 0 && own_part().joined == 0;
  if (!is_hosted() || is_first) {
    const std::uint32_t seen =
        is_first && is_hosted() ? own_part().done.load() : g_control->replies.load(std::memory_order_acquire);
    wait_while(g_control->requests, seen);
  } else {
    wait_for_first_turn();
  }
  g_is_spent = false;
  if (!is_hosted()) return begin_world(stack_top);
  if (is_first) begin_hosted_world();
  join_hosted_world(stack_top);
}

[[noreturn]] void run_requests() {
  g_is_restorable = save_image(g_control->is_restoring != 0);
  if (__builtin_setjmp(g_next) != 0) asm volatile("" ::: "memory");
  inject::set_dispatch(false);
  begin_or_join_world(__builtin_frame_address(0));
  hold_if_asked();
  kFileModel.begin(g_control->has_texts != 0);
  for (Printed& printed : own_part().printed) printed.bytes = 0;
  inject::set_dispatch(true);
  const int code = run_main(g_program.main, g_program.argc, g_program.argv, g_program.envp);
  g_control->is_result = true;
  if (is_scheduling()) end_process(code & 0xff, true, __builtin_return_address(0));
  end_execution();
}

// The hosts of an execution run one at a time: giving the turn to another one is cheaper if they share a processor.
void stay_on_processor() {
  if (!is_hosted()) return;
  std::uint64_t mask[16] = {};
  mask[g_control->processor / 64 % 16] = std::uint64_t{1} << g_control->processor % 64;
  kernel(SYS_sched_setaffinity, 0, sizeof mask, mask);
}

// crashcut_setup() runs in a process of its own: what it leaves in its own memory is gone.
void set_up(void (*setup)()) {
  inject::ChildState& child = own_part().runner;
  const long pid = inject::fork_child(child, kernel(SYS_getpid), false);
  if (pid == 0) {
    g_is_setting_up = true;
    inject::install_dispatch(0);
    install_signals();
    inject::set_dispatch(true);
    setup();
    kernel(SYS_exit_group, 0);
  }
  const int status = pid < 0 ? -1 : inject::wait_for_child(child, pid);
  child.pid = 0;
  if (status == 0) return keep_start();
  const bool has_text = g_control->failure == Failure::kUnsupported || g_control->failure == Failure::kToolError ||
                        g_control->failure == Failure::kUserError;
  if (!has_text) inject::copy_text("crashcut_setup() failed", g_control->text);
  g_control->failure = Failure::kUnsupported;
  kernel(SYS_exit_group, 4);
}

// The first host that has a crashcut_setup() runs it.
void prepare_host() {
  for (std::uint32_t i = 0; i < g_host; ++i) wait_while(g_control->hosts[i].is_ready, 0);
  own_part().is_instrumented = g_is_instrumented;
  void (*const setup)() = inject::find_program_function("crashcut_setup", "_Z14crashcut_setupv");
  if (setup != nullptr && g_control->is_set_up.exchange(1) == 0) set_up(setup);
  own_part().is_ready = 1;
  kernel(SYS_futex, &own_part().is_ready, FUTEX_WAKE, kHostsMost, 0, 0, 0);
}

[[noreturn]] void become_runner() {
  ++g_control->forked_count;
  stay_on_processor();
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
  const char* host = inject::take_variable(envp, inject::kHostVariable);
  const long number = host == nullptr ? 0 : std::strtol(host, nullptr, 10);
  if (!inject::parse_descriptors(fds, control, names) || number < 0 || number >= long{kHostsMost})
    inject::die("a malformed environment");
  if (host != nullptr && !map_hosts(control, static_cast<std::uint32_t>(number)))
    inject::die("cannot map the memory that machines share");
  g_kept_control = reinterpret_cast<Control*>(inject::map_file(control, sizeof(Control)));
  g_names = reinterpret_cast<Names*>(inject::map_file(names, sizeof(Names)));
  if (g_kept_control == nullptr || g_names == nullptr || g_kept_control->magic != kMagic)
    inject::die("cannot map the memory of the scheduler");
}

void end_with(std::string_view sentence, bool is_users_fault) {
  g_control->failure = is_users_fault ? Failure::kUserError : Failure::kToolError;
  inject::copy_text(sentence, g_control->text);
  if (g_is_setting_up) kernel(SYS_exit_group, 4);
  leave();
}

void unregister_rseq() {
  constexpr std::uint32_t kBytes = 32, kSignature = 0x53053053;  // as libc registers it
  if (__rseq_size > 0)
    kernel(SYS_rseq, read_fs_base() + static_cast<std::uint64_t>(__rseq_offset), kBytes, RSEQ_FLAG_UNREGISTER,
           kSignature);
}

// What this process has begun in the execution.
static void end_own_part() {
  end_outside(kernel(SYS_getpid));
  end_meetings();
  kFileModel.end();
  end_channels();
  end_shared_files();
  if (is_hosted()) leave_common_heap();
}

void end_execution() {
  if (has_own_world()) end_own_world();
  if (g_is_setting_up) kernel(SYS_exit_group, 4);
  end_own_part();
  if (g_is_restorable && !g_is_spent) crashcut_leave_to(go_back, g_own_stack + sizeof g_own_stack - 64);
  leave();
}

void begin_again() {
  end_own_part();
  g_is_restarted = true;
  if (g_is_restorable && !g_is_spent) crashcut_leave_to(go_back, g_own_stack + sizeof g_own_stack - 64);
  own_part().is_leaving = 1;
  kernel(SYS_exit_group, 0);
  __builtin_unreachable();
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
        own_part().program_base = info->dlpi_addr;
        return 1;  // the first is the executable
      },
      nullptr);
  own_part().main_at = reinterpret_cast<std::uint64_t>(main);
  watch_meetings();
  prepare_image();
  if (is_hosted()) prepare_host();
  const long self = kernel(SYS_getpid);
  inject::ChildState& runner = own_part().runner;
  while (g_control->is_quitting == 0) {
    runner.killed = inject::kNotKilled;
    const long pid = inject::fork_child(runner, self, false);
    if (pid == 0) become_runner();
    if (pid < 0) return 4;
    const int status = inject::wait_for_child(runner, pid);
    runner.pid = 0;
    end_outside(pid);
    // It went with its reply given: another takes its place. Else the request is answered for it. A host that the
    // execution does not need is replaced, too.
    if (own_part().is_leaving.exchange(0) == 0 && g_control->requests.load() != g_control->replies.load() &&
        (!is_hosted() || has_turn_or_joined())) {
      g_control->runner_status = status;
      g_control->runner_end = inject::end_of(runner, status);
      reply();
    }
  }
  kernel(SYS_exit_group, 0);
  __builtin_unreachable();
}

}  // namespace crashcut::scheduler::runtime
