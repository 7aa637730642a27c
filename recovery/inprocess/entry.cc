// How the runtime gets into the program: LD_PRELOAD, a constructor before all others, and libc's own entry.
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#include <cstring>

#include "inject/environment.h"
#include "inject/interpose.h"
#include "recovery/inprocess/arena.h"
#include "recovery/inprocess/fresh_stack.h"
#include "recovery/inprocess/gate.h"
#include "recovery/inprocess/runtime.h"
#include "recovery/inprocess/runtime_check.h"

namespace crashcut::inprocess {

namespace {

using Main = int (*)(int, char**, char**);
constinit Main g_real_main = nullptr;

[[noreturn]] void die(const char* sentence) {
  kernel(SYS_write, 2, "crashcut: ", 10);
  kernel(SYS_write, 2, sentence, std::strlen(sentence));
  kernel(SYS_write, 2, "\n", 1);
  kernel(SYS_exit_group, 4);
  __builtin_unreachable();
}

void copy_text(std::string_view from, char (&to)[kTextMost]) {
  const std::size_t count = std::min(from.size(), kTextMost - 1);
  std::memcpy(to, from.data(), count);
  to[count] = 0;
}

// Out of the way of what the program opens, but below 64: a larger table of descriptors makes forks dearer.
int move_fd_up(int fd) {
  const long moved = kernel(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 56);
  if (moved < 0) return fd;
  kernel(SYS_close, fd);
  return static_cast<int>(moved);
}

// libc keeps the main thread's id where the kernel is to clear it; children of ours need theirs there.
void find_thread_id() {
  int* address = nullptr;
  char* self;
  asm("movq %%fs:0x10, %0" : "=r"(self));
  const long own = kernel(SYS_gettid);
  constexpr int kGetTidAddress = 40;  // PR_GET_TID_ADDRESS
  if (kernel(SYS_prctl, kGetTidAddress, &address) == 0 && address != nullptr && *address == own) {
    g.tid_offset = reinterpret_cast<char*>(address) - self;
    return;
  }
  for (long offset = 0; offset < 2048; offset += 4) {
    if (*reinterpret_cast<int*>(self + offset) == own) {
      g.tid_offset = offset;
      return;
    }
  }
}

void attach(int control_fd, int socket_fd) {
  const long guard =
      kernel(SYS_mmap, 0, kGuardBytes + kControlBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  const long at = guard < 0 && guard > -4096
                      ? guard
                      : kernel(SYS_mmap, guard + kGuardBytes, kControlBytes, PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_NORESERVE | MAP_FIXED, control_fd, 0);
  if (at < 0 && at > -4096) die("cannot map the control file");
  kernel(SYS_close, control_fd);
  g.control = reinterpret_cast<std::byte*>(at);
  g.header = reinterpret_cast<Header*>(at);
  if (g.header->magic != kMagic || g.header->version != kVersion)
    die("the runtime and the command are of different builds");
  limit_arenas(g.header->memory_bytes_most);
  g.socket = move_fd_up(socket_fd);
  g.placeholder = move_fd_up(static_cast<int>(kernel(SYS_memfd_create, "crashcut-modelled-file", MFD_CLOEXEC)));
  kernel(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  find_thread_id();
  g.phase = Phase::kConstructing;
  if (!install_dispatch()) tool_error("this kernel has no syscall user dispatch (Linux 5.11 and later have it)");
}

__attribute__((constructor(101))) void enter(int, char**, char** envp) {
  using inject::take_variable;
  inject::crashcut_choose_functions();
  if (!map_arenas()) die("cannot map memory for the model");
  const char* fds = take_variable(envp, kEnvironment);
  if (fds == nullptr) return;  // loaded without crashcut: do nothing
  inject::restore_preload(envp);
  while (take_variable(envp, kPaddingName) != nullptr) {
  }
  // Set by Session: what is bound lazily would be bound again in every recovery.
  if (take_variable(envp, kBindNowMark) != nullptr) take_variable(envp, "LD_BIND_NOW");
  int control = -1, socket = -1;
  if (!inject::parse_descriptors(fds, control, socket)) die("a malformed environment");
  attach(control, socket);
}

int wrapped_main(int argc, char** argv, char** envp) { return coordinate(argc, argv, envp, g_real_main); }

[[noreturn]] void end_with(std::string_view sentence, Blame blame) {
  if (g.on_error != nullptr && g.phase == Phase::kExecuting) g.on_error(sentence, blame);
  if (g.phase == Phase::kRecovering || (g.slot != nullptr && g.slot != &slot_at(0))) {
    Slot& slot = *g.slot;
    if (append_stream(slot, kStreamText, sentence.data(), std::min(sentence.size(), kTextMost))) {
      slot.text_bytes += static_cast<std::uint32_t>(std::min(sentence.size(), kTextMost));
    }
    slot.blame = blame;
    slot.outcome = Outcome::kToolError;
  } else if (g.header != nullptr) {
    copy_text(sentence, g.header->execution_text);
    g.header->execution_blame = blame;
    g.header->execution = ExecutionKind::kToolError;
    if (g.phase != Phase::kExecuting) {
      const Reply reply{ReplyKind::kExecuted, 0, 0, 0};
      kernel(SYS_sendto, g.socket, &reply, sizeof reply, MSG_NOSIGNAL, 0, 0);
    }
  } else {
    die("out of memory");
  }
  kernel(SYS_exit_group, kExitTool);
  __builtin_unreachable();
}

}  // namespace

void tool_error(std::string_view sentence) { end_with(sentence, Blame::kTool); }
void user_error(std::string_view sentence) { end_with(sentence, Blame::kUser); }

void unsupported(std::string_view call) {
  const char* where = g.phase == Phase::kRecovering  ? "crashcut_recover()"
                      : g.phase == Phase::kExecuting ? "the program"
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
  put(g.serve_threads == nullptr
          ? ", which cannot be modelled in-process: use the mounted front end, `crashcut check`, instead"
          : ", which cannot be modelled in-process. `crashcut check` takes it, and runs one interleaving");
  user_error({text, used});
}

void broken_invariant(const char* file, int line, const char* condition) {
  tool_error(std::string("broken invariant in crashcut at ") + file + ":" + std::to_string(line) + ": " + condition);
}

}  // namespace crashcut::inprocess

extern "C" __attribute__((visibility("default"))) int __libc_start_main(int (*main)(int, char**, char**), int argc,
                                                                        char** argv, void (*init)(), void (*fini)(),
                                                                        void (*rtld_fini)(), void* stack_end) {
  using Start = int (*)(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
  const auto real = reinterpret_cast<Start>(crashcut::inject::find_real("__libc_start_main"));
  using namespace crashcut::inprocess;
  if (g.phase == Phase::kIdle) return real(main, argc, argv, init, fini, rtld_fini, stack_end);
  g_real_main = main;
  return real(wrapped_main, argc, argv, init, fini, rtld_fini, stack_end);
}
