// How the runtime gets into the program: LD_PRELOAD, a constructor, and libc's own entry.
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <csignal>
#include <cstring>

#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/world.h"

namespace crashcut::scheduler::runtime {

namespace {

int (*g_real_main)(int, char**, char**) = nullptr;

// Takes the variable out of the environment; the program must not see it.
const char* take_variable(char** envp, const char* name) {
  const std::size_t length = std::strlen(name);
  for (char** at = envp; *at != nullptr; ++at) {
    if (std::strncmp(*at, name, length) != 0 || (*at)[length] != '=') continue;
    const char* value = *at + length + 1;
    for (char** rest = at; *rest != nullptr; ++rest) rest[0] = rest[1];
    return value;
  }
  return nullptr;
}

void* map_shared(int fd, std::size_t bytes) {
  const long at = kernel(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  kernel(SYS_close, fd);
  return at < 0 && at > -4096 ? nullptr : reinterpret_cast<void*>(at);
}

__attribute__((constructor(101))) void enter(int, char**, char** envp) {
  const char* fds = take_variable(envp, kEnvironment);
  if (fds == nullptr) return;  // loaded without crashcut: do nothing
  take_variable(envp, "LD_PRELOAD");
  take_variable(envp, "LD_BIND_NOW");
  char* rest = nullptr;
  const long control = std::strtol(fds, &rest, 10);
  if (*rest != ',') return;
  g_control = static_cast<Control*>(map_shared(static_cast<int>(control), sizeof(Control)));
  g_names = static_cast<Names*>(map_shared(static_cast<int>(std::strtol(rest + 1, nullptr, 10)), sizeof(Names)));
  if (g_control == nullptr || g_names == nullptr || g_control->magic != kMagic) kernel(SYS_exit_group, 4);
  kernel(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
}

int wrapped_main(int argc, char** argv, char** envp) { return serve(argc, argv, envp, g_real_main); }

}  // namespace

void* find_real(const char* name) { return dlsym(RTLD_NEXT, name); }

}  // namespace crashcut::scheduler::runtime

extern "C" __attribute__((visibility("default"))) int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(),
                                                                        void (*fini)(), void (*rtld_fini)(), void* stack_end) {
  using Start = int (*)(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
  const auto real = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  using namespace crashcut::scheduler::runtime;
  if (g_control == nullptr) return real(main, argc, argv, init, fini, rtld_fini, stack_end);
  g_real_main = main;
  return real(wrapped_main, argc, argv, init, fini, rtld_fini, stack_end);
}
