// After the in-process front end has set itself up (recovery/inprocess/entry.cc): the scheduler's side of it.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cstring>

#include "inject/environment.h"
#include "recovery/inprocess/gate.h"
#include "recovery/inprocess/runtime.h"
#include "recovery/joint/joint.h"
#include "scheduler/runtime/files.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/machine.h"
#include "scheduler/runtime/world.h"

namespace crashcut::joint {

namespace {

using scheduler::runtime::g_control;
using scheduler::runtime::g_names;

// The coordinator and its recoveries are not scheduled: they have no Control.
scheduler::runtime::Control* g_kept_control = nullptr;

void serve_threads(int argc, char** argv, char** envp, int (*real_main)(int, char**, char**)) {
  g_control = g_kept_control;
  keep_memory();
  scheduler::runtime::serve(argc, argv, envp, real_main);
}

// Whatever stops the model stops the execution, and all of them.
void on_error(std::string_view sentence, result::Blame blame) {
  using scheduler::runtime::Failure;
  g_control->failure = blame == result::Blame::kUser ? Failure::kUserError : Failure::kToolError;
  const std::size_t count = std::min<std::size_t>(sentence.size(), scheduler::runtime::kTextMost - 1);
  std::memcpy(g_control->text, sentence.data(), count);
  g_control->text[count] = 0;
  g_control->is_leaving = 1;
  g_control->replies.store(g_control->requests.load());
  inprocess::kernel(SYS_futex, &g_control->replies, 1 /* FUTEX_WAKE */, 1, 0, 0, 0);
  inprocess::kernel(SYS_exit_group, 0);
}

void on_spend() { scheduler::runtime::g_is_spent = true; }

void* map_shared(long fd, std::size_t bytes) {
  const long at = inprocess::kernel(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  inprocess::kernel(SYS_close, fd);
  return at < 0 && at > -4096 ? nullptr : reinterpret_cast<void*>(at);
}

// Before main() there is no model to ask.
bool answer_getcwd(long number, const long* a, long& result) {
  if (number != SYS_getcwd) return false;
  const long bytes = static_cast<long>(std::strlen(inprocess::kModelRoot)) + 1;
  result = a[1] < bytes ? -ERANGE : bytes;
  if (result > 0) std::memcpy(reinterpret_cast<void*>(a[0]), inprocess::kModelRoot, static_cast<std::size_t>(bytes));
  return true;
}

__attribute__((constructor(102))) void enter(int, char**, char** envp) {
  const char* fds = inject::take_variable(envp, inject::kThreadsVariable);
  int control = -1, names = -1;
  if (fds == nullptr || inprocess::g.header == nullptr || !inject::parse_descriptors(fds, control, names)) return;
  g_kept_control = static_cast<scheduler::runtime::Control*>(map_shared(control, sizeof(scheduler::runtime::Control)));
  g_names = static_cast<scheduler::runtime::Names*>(map_shared(names, sizeof(scheduler::runtime::Names)));
  if (g_kept_control == nullptr || g_names == nullptr || g_kept_control->magic != scheduler::runtime::kMagic)
    inprocess::kernel(SYS_exit_group, 4);
  scheduler::runtime::g_refuse_elsewhere = [](const char* call) { inprocess::unsupported(call); };
  inprocess::g.serve_threads = serve_threads;
  inprocess::g.on_error = on_error;
  inprocess::g.on_spend = on_spend;
  scheduler::runtime::g_start_directory = inprocess::kModelRoot;
  scheduler::runtime::g_is_constructing = [] { return inprocess::g.phase == inprocess::Phase::kConstructing; };
  inprocess::g.answer = [](long number, long* a, long& result) {
    namespace runtime = scheduler::runtime;
    if (runtime::g_is_constructing() && (runtime::answer_number(number, result) || answer_getcwd(number, a, result)))
      return true;
    return runtime::answer_query(number, a, nullptr, result) || runtime::do_outside_call(number, a, result);
  };
  inprocess::g.emulate = scheduler::runtime::emulate_instruction;
  inprocess::g.stop_emulating = scheduler::runtime::run_instructions;
  scheduler::runtime::unregister_rseq();
  scheduler::runtime::trap_instructions();
  install_model();
}

}  // namespace

}  // namespace crashcut::joint
