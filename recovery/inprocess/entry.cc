// The beginning and the end of what the library says to the command.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <cstring>

#include "inject/arena.h"
#include "inject/environment.h"
#include "inject/gate.h"
#include "inject/interpose.h"
#include "inject/process.h"
#include "persist/check.h"
#include "recovery/inprocess/memory/memory.h"
#include "recovery/inprocess/models.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

namespace {

// Out of the way of what the program opens, but below 64: a larger table of descriptors makes forks dearer.
int move_fd_up(int fd) {
  const long moved = kernel(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 56);
  if (moved < 0) return fd;
  kernel(SYS_close, fd);
  return static_cast<int>(moved);
}

[[noreturn]] void end_with(std::string_view sentence, Blame blame,
                           ExecutionKind execution = ExecutionKind::kToolError) {
  if (g_phase == Phase::kExecuting) inject::tell_models(&inject::Model::end_with, sentence, blame == Blame::kUser);
  if (g_phase == Phase::kRecovering || (g.slot != nullptr && g.slot != &slot_at(0))) {
    Slot& slot = *g.slot;
    if (append_stream(slot, kStreamText, sentence.data(), std::min(sentence.size(), kTextMost))) {
      slot.text_bytes += static_cast<std::uint32_t>(std::min(sentence.size(), kTextMost));
    }
    slot.blame = blame;
    slot.outcome = Outcome::kToolError;
  } else if (g.header != nullptr) {
    inject::copy_text(sentence, g.header->execution_text);
    g.header->execution_blame = blame;
    g.header->execution = execution;
    if (g_phase != Phase::kExecuting) {
      const Reply reply{ReplyKind::kExecuted, 0, 0, 0};
      kernel(SYS_sendto, g.socket, &reply, sizeof reply, MSG_NOSIGNAL, 0, 0);
    }
  } else {
    inject::die("out of memory");
  }
  kernel(SYS_exit_group, kExitTool);
  __builtin_unreachable();
}

}  // namespace

void start_files(char** envp) {
  int control = -1, socket = -1;
  if (!inject::parse_descriptors(inject::take_variable(envp, inject::kControlVariable), control, socket))
    inject::die("a malformed environment");
  inject::take_variable(envp, inject::kCallbacksVariable);
  g.control = inject::map_file(control, kControlBytes);
  if (g.control == nullptr) inject::die("cannot map the control file");
  g.header = reinterpret_cast<Header*>(g.control);
  if (g.header->magic != kMagic || g.header->version != kVersion)
    inject::die("the runtime and the command are of different builds");
  inject::limit_arenas(g.header->memory_bytes_most);
  g.socket = move_fd_up(socket);
  g.placeholder = move_fd_up(static_cast<int>(kernel(SYS_memfd_create, "crashcut-modelled-file", MFD_CLOEXEC)));
  kernel(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  inject::thread_id_offset();  // while libc has the id of this thread, and of no child
  g_phase = Phase::kConstructing;
  start_memory();
  if (!start_dispatch()) tool_error("this kernel has no syscall user dispatch (Linux 5.11 and later have it)");
}

}  // namespace crashcut::inprocess

namespace crashcut::inject {

using inprocess::end_with;
using inprocess::kTextMost;
using result::Blame;

void tool_error(std::string_view sentence) { end_with(sentence, Blame::kTool); }
void user_error(std::string_view sentence) { end_with(sentence, Blame::kUser); }
void out_of_memory(std::string_view sentence) {
  // Several schedules share one limit: there the program is to be made smaller.
  if (inprocess::g_phase != inprocess::Phase::kExecuting || schedules_threads()) user_error(sentence);
  end_with(sentence, Blame::kUser, inprocess::ExecutionKind::kOutOfMemory);
}

void unsupported(std::string_view call) {
  const char* where = g_phase == Phase::kRecovering  ? "crashcut_recover()"
                      : g_phase == Phase::kExecuting ? "the program"
                                                     : "the program, before main(),";
  char text[kTextMost];
  std::size_t used = 0;
  const auto put = [&](std::string_view part) {
    const std::size_t count = std::min(part.size(), sizeof text - used);
    std::memcpy(text + used, part.data(), count);
    used += count;
  };
  put(where);
  put(" called ");
  put(call);
  put(!inject::schedules_threads()
          ? ", which cannot be modelled in-process: use the mounted front end, `crashcut check`, instead"
          : ", which cannot be modelled in-process. `crashcut check` takes it, and runs one interleaving");
  user_error({text, used});
}

}  // namespace crashcut::inject

namespace crashcut {

void broken_invariant(const char* file, int line, const char* condition) {
  inject::tool_error(std::string("broken invariant in crashcut at ") + file + ":" + std::to_string(line) + ": " +
                     condition);
}

}  // namespace crashcut
