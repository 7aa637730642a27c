// The coordinator: the program's process, kept warm just before main().
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cstring>

#include "inject/arena.h"
#include "inject/interpose.h"
#include "inject/process.h"
#include "inject/program_function.h"
#include "recovery/inprocess/memory/recovery_threads.h"
#include "recovery/inprocess/runtime.h"
#include "recovery/inprocess/user_memory.h"
#include "recovery/inprocess/work.h"
#include "scheduler/runtime/world.h"

// How libc's pthread_exit() finds the place where a thread began.
extern "C" void __pthread_register_cancel(__pthread_unwind_buf_t*);
extern "C" void __pthread_unregister_cancel(__pthread_unwind_buf_t*);

namespace crashcut::inprocess {

namespace {

void send_reply(const Reply& reply) { kernel(SYS_sendto, g.socket, &reply, sizeof reply, MSG_NOSIGNAL, 0, 0); }

[[noreturn]] void leave() {
  kernel(SYS_exit_group, 0);
  __builtin_unreachable();
}

std::span<const std::uint32_t> payload_of(const Request& request) {
  return {reinterpret_cast<const std::uint32_t*>(g.control + kRequestOffset), request.length};
}

RunRequest read_request(const Request& request) {
  const std::span<const std::uint32_t> numbers = payload_of(request);
  RunRequest run{request.kind, {}, {}, request.drop};
  if (request.kind == RequestKind::kReplay) run.path.assign(numbers.begin(), numbers.end());
  if (request.kind == RequestKind::kRunCut) run.events.assign(numbers.begin(), numbers.end());
  return run;
}

// What main() and recoveries have in common: they are the program, not the coordinator.
void become_program(Phase phase) {
  g_phase = phase;
  kernel(SYS_close, g.socket);
  g.socket = -1;
}

void classify_execution(int status) {
  Header& header = *g.header;
  if (header.execution != ExecutionKind::kRunning) return;  // it said so itself
  const inject::ChildEnd end = end_of(slot_at(0), status);
  if (end == inject::ChildEnd::kSignalled || end == inject::ChildEnd::kKilledFromOutside) {
    header.execution = ExecutionKind::kKilled;
    header.signal = WTERMSIG(status);
  } else if (end == inject::ChildEnd::kTooLate) {
    header.execution = ExecutionKind::kHung;
  } else {
    header.execution = ExecutionKind::kToolError;
    header.execution_blame = Blame::kTool;
    std::strcpy(header.execution_text, "crashcut's own code died inside main()");
  }
}

// True in E, which then runs main().
bool execute() {
  Slot& slot = slot_at(0);
  slot.state = SlotState::kTaken;
  slot.layer = 0;
  const Child child = fork_child(&slot);
  if (child.pid == 0) {
    become_program(Phase::kExecuting);
    slot.began_ns = 0;
    if (g.header->has_memory != 0) inject::record_privately();
    in_model([] { start_execution_model(); });
    slot.began_ns = now_ns();  // copying a tree onto the disk is not main()'s time
    g_is_held = g.header->hold_operation != 0;
    set_dispatch(true);
    return true;
  }
  classify_execution(child.pid > 0 ? wait_for(child) : 0);
  slot.began_ns = 0;
  slot.pid = 0;
  send_reply({ReplyKind::kExecuted, 0, 0, 0});
  if (g.header->execution != ExecutionKind::kEnded) leave();
  g.recorded = reinterpret_cast<const Recorded*>(g.header->recording_address);
  return false;
}

// Threads are scheduled: a child runs main() under one schedule after the other, and what it records is recovered from
// here.
void start_threads(int argc, char** argv, char** envp, inject::Main real_main) {
  Slot& slot = slot_at(0);
  slot.state = SlotState::kTaken;
  slot.layer = 0;
  const Child child = fork_child(&slot);
  slot.began_ns = 0;  // others watch it
  if (child.pid == 0) {
    become_program(Phase::kExecuting);
    g.slot = nullptr;
    trust_program();
    scheduler::runtime::serve(argc, argv, envp, real_main);
    leave();
  }
  if (child.pid < 0) tool_error("the system has no room for another process (fork failed)");
  g.header->threads_pid = static_cast<std::int32_t>(child.pid);
  // A program with persistent memory that has no crashcut_recover() is run again.
  g.header->has_recover = g.recover != nullptr || g.header->recovers_by_main != 0 ? 1 : 0;
  // And main() has threads.
  g.header->schedules_recoveries = g.recover == nullptr && g.header->recovers_by_main != 0 ? 1 : 0;
  g.header->execution = ExecutionKind::kEnded;
  send_reply({ReplyKind::kExecuted, 0, 0, 0});
}

// A process with the crashed disk ready, as the request says.
Child start_root(const Request& request, std::uint32_t job) {
  Slot* slot = take_slot();
  if (slot == nullptr) return {-1, nullptr};
  slot->job = job;
  const Child child = fork_child(slot);
  if (child.pid != 0) return child;
  inject::use_private_arena();
  pin_to_job(job);
  in_model([&] {
    if (request.kind == RequestKind::kExplore && job == 0) add_first_work(payload_of(request));
    begin_recovery(read_request(request));
  });
  prepare_recoveries();
  if (request.kind == RequestKind::kReplay || request.kind == RequestKind::kRunCut) run_recovery();
  slot->in_runtime = 1;
  slot->began_ns = 0;
  if (request.kind == RequestKind::kSample) serve_samples(request);
  serve_recoveries();
}

// Servers end when all is explored; one that dies is recorded as our failure, which stops the others.
bool wait_for_servers(Child* servers, std::uint32_t count) {
  bool all = true;
  for (std::uint32_t left = count; left > 0; --left) {
    int status = 0;
    long pid;
    while ((pid = kernel(SYS_wait4, -1, &status, __WALL, 0)) == -EINTR) {
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      if (servers[i].pid == pid) settle(servers[i], status);
    }
    all = all && pid > 0;
  }
  return all;
}

Reply explore(const Request& request) {
  static Child servers[kJobsMost];
  clear_work();
  if (g.header->depth > 1) start_zygotes();
  std::uint32_t count = 0;
  // Samples are few, and which ones they are is the seed's to say.
  const std::uint32_t jobs = request.kind == RequestKind::kSample ? 1 : g.header->jobs;
  for (; count < jobs; ++count) {
    servers[count] = start_root(request, count);
    if (servers[count].pid < 0) break;
  }
  const bool ran = wait_for_servers(servers, count) && count > 0;
  stop_zygotes();
  return {ran ? ReplyKind::kDone : ReplyKind::kFailed, g.header->diverged, 0, 0};
}

Reply run_single(const Request& request) {
  Header& header = *g.header;
  const std::uint64_t record = header.record_count;
  bool ran = false, was_scheduled;
  do {
    was_scheduled = header.schedules_recoveries != 0;
    header.diverged = 0;
    header.trace_bytes = 0;
    std::memset(g.control + kReplyOffset + kReplyBytes / 2, 0, 4);
    if (header.depth > 1) start_zygotes();
    const Child child = start_root(request, 0);
    ran = child.pid > 0 && settle(child, wait_for(child));
    stop_zygotes();
  } while (!ran && !was_scheduled && header.schedules_recoveries != 0);  // it needs threads (recovery_threads.h)
  finish_trace();
  // With several layers the last record is that of the first; the one asked for came before it.
  return {ran && header.record_count > record ? ReplyKind::kDone : ReplyKind::kFailed, header.diverged, record,
          header.trace_bytes};
}

// In a child: describing needs memory, and the coordinator stays as it is.
Reply describe(void (*describe_all)()) {
  g.header->trace_bytes = 0;
  Slot* slot = take_slot();
  if (slot == nullptr) return {ReplyKind::kFailed, 0, 0, 0};
  const Child child = fork_child(slot);
  if (child.pid == 0) {
    inject::use_private_arena();
    in_model([=] { describe_all(); });
    slot->outcome = Outcome::kInner;  // no record
    kernel(SYS_exit_group, 0);
  }
  settle(child, wait_for(child));
  return {slot->outcome == Outcome::kInner ? ReplyKind::kDone : ReplyKind::kFailed, 0, 0, g.header->trace_bytes};
}

Reply answer(const Request& request) {
  g.recorded = reinterpret_cast<const Recorded*>(g.header->recording_address);
  switch (request.kind) {
    case RequestKind::kExplore:
    case RequestKind::kSample:
      return explore(request);
    case RequestKind::kReplay:
    case RequestKind::kRunCut:
      return run_single(request);
    case RequestKind::kDescribe:
      return describe([] { describe_recording(1, *g.recorded); });
    case RequestKind::kFindNotes:
      return describe(describe_notes);
    case RequestKind::kFindFlushes:
      return describe(describe_missing_flushes);
    case RequestKind::kFindSyncs:
      return describe(describe_missing_syncs);
    case RequestKind::kQuit:
      leave();
  }
  return {ReplyKind::kFailed, 0, 0, 0};
}

[[noreturn]] void serve_requests() {
  while (true) {
    Request request;
    const long got = kernel(SYS_recvfrom, g.socket, &request, sizeof request, 0, 0, 0);
    if (got == -EINTR) continue;
    if (got != sizeof request) leave();  // crashcut is gone
    send_reply(answer(request));
  }
}

}  // namespace

int coordinate(int argc, char** argv, char** envp, inject::Main real_main) {
  set_dispatch(false);
  g_phase = Phase::kCoordinating;
  fflush(nullptr);  // what static constructors printed is printed once
  if (g.threads != 1)
    user_error("a static constructor started a thread: crashcut needs the program single-threaded when main() begins");
  g.recover = inject::find_program_function("crashcut_recover", "_Z16crashcut_recoverv");
  g.main = real_main;
  g.argc = argc;
  g.argv = argv;
  g.envp = envp;
  if (g.recover == nullptr && !inject::schedules_threads() && g.header->has_memory == 0) {
    user_error(
        "the program has no function crashcut_recover (or was stripped of its symbols): write one, see crashcut.h");
  }
  g.pid = static_cast<int>(kernel(SYS_getpid));
  const rlimit no_core{0, 0};
  kernel(SYS_prlimit64, 0, RLIMIT_CORE, &no_core, 0);
  if (inject::schedules_threads()) {
    start_threads(argc, argv, envp, real_main);
  } else if (execute()) {
    return real_main(argc, argv, envp);
  }
  set_up_jobs();
  serve_requests();
}

void prepare_recoveries() {
  // In memory of ours: a buffer from malloc() would cost every recovery three pages.
  static char output_buffer[4096];
  become_program(Phase::kRecovering);
  g.captured[1] = 1;
  g.captured[2] = 2;
  const long null = kernel(SYS_open, "/dev/null", O_RDONLY);
  if (null > 0) {
    kernel(SYS_dup2, null, 0);
    kernel(SYS_close, null);
  }
  // The heap exists before recoveries do, so that small ones need nothing of the kernel.
  free(malloc(1));
  // By lines: an abort must not take along what was printed before.
  setvbuf(stdout, output_buffer, _IOLBF, sizeof output_buffer);
}

// Its exit handlers and destructors run too.
[[noreturn]] static void run_main_again() {
  static const auto real_exit = reinterpret_cast<void (*)(int)>(inject::find_real("exit"));
  real_exit(g.main(g.argc, g.argv, g.envp));
  __builtin_unreachable();
}

// The recovery's threads are scheduled. It ends when crashcut_recover() returns, or main() does, or by its last thread.
[[noreturn]] static void run_scheduled_recovery() {
  const auto recover = [](int, char**, char**) { return g.recover(), 0; };
  const int code = scheduler::runtime::run_main(g.recover == nullptr ? g.main : recover, g.argc, g.argv, g.envp);
  if (g.recover == nullptr) exit(code);
  fflush(nullptr);
  in_model([] { finish_recovery(Outcome::kOk, 0); });
  leave();
}

void run_recovery() {
  const bool is_scheduled = g.header->schedules_recoveries != 0;
  if (is_scheduled) schedule_recovery(__builtin_frame_address(0));
  set_dispatch(true);
  note_events_in();
  g.slot->in_runtime = 0;
  if (is_scheduled) {
    hold_after_answers(0);
    run_scheduled_recovery();
  }
  // pthread_exit() ends the recovery's only thread, and with it the process: as if it had returned.
  __pthread_unwind_buf_t end;
  if (__sigsetjmp(reinterpret_cast<__jmp_buf_tag*>(end.__cancel_jmp_buf), 0) == 0) {
    __pthread_register_cancel(&end);
    hold_after_answers(0);
    if (g.recover == nullptr) run_main_again();
    g.recover();
    __pthread_unregister_cancel(&end);
  }
  fflush(nullptr);
  in_model([] { finish_recovery(Outcome::kOk, 0); });
  leave();
}

}  // namespace crashcut::inprocess

int crashcut::inject::run_program(int argc, char** argv, char** envp, Main main) {
  return inprocess::coordinate(argc, argv, envp, main);
}
