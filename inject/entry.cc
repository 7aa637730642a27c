// How the library gets into the program: LD_PRELOAD, a constructor before all others, and libc's own entry.
#include <cstring>

#include "inject/arena.h"
#include "inject/end.h"
#include "inject/environment.h"
#include "inject/interpose.h"
#include "inject/model.h"

namespace crashcut::inject {

namespace {

constinit Main g_main = nullptr;

__attribute__((constructor(101))) void enter(int, char**, char** envp) {
  crashcut_choose_functions();
  if (!map_arenas()) die("cannot map memory for the models");
  if (find_variable(envp, kControlVariable) == nullptr) return;  // loaded without crashcut: do nothing
  restore_preload(envp);
  while (take_variable(envp, kPaddingName) != nullptr) {
  }
  // Set by Session: what is bound lazily would be bound again in every recovery.
  if (take_variable(envp, kBindNowMark) != nullptr) take_variable(envp, "LD_BIND_NOW");
  for (std::size_t i = 0; i < kModelCount; ++i) {
    if (kModels[i]->start != nullptr) kModels[i]->start(envp);
  }
}

int instead_of_main(int argc, char** argv, char** envp) { return run_program(argc, argv, envp, g_main); }

}  // namespace

void die(const char* sentence) {
  kernel(SYS_write, 2, "crashcut: ", 10);
  kernel(SYS_write, 2, sentence, std::strlen(sentence));
  kernel(SYS_write, 2, "\n", 1);
  kernel(SYS_exit_group, 4);
  __builtin_unreachable();
}

}  // namespace crashcut::inject

extern "C" __attribute__((visibility("default"))) int __libc_start_main(int (*main)(int, char**, char**), int argc,
                                                                        char** argv, void (*init)(), void (*fini)(),
                                                                        void (*rtld_fini)(), void* stack_end) {
  using Start = int (*)(int (*)(int, char**, char**), int, char**, void (*)(), void (*)(), void (*)(), void*);
  using namespace crashcut::inject;
  const auto real = reinterpret_cast<Start>(find_real("__libc_start_main"));
  if (g_phase == Phase::kIdle) return real(main, argc, argv, init, fini, rtld_fini, stack_end);
  g_main = main;
  return real(instead_of_main, argc, argv, init, fini, rtld_fini, stack_end);
}
