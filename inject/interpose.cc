#include "inject/interpose.h"

#include <dlfcn.h>

#include <cstddef>
#include <cstring>
#include <initializer_list>

#include "inject/environment.h"

// Keeps the arguments of the call that came here, fills the table, and calls again.
asm(R"(
  .text
  .type crashcut_first_call, @function
  .globl crashcut_first_call
  .hidden crashcut_first_call
crashcut_first_call:
  pushq %rax
  pushq %rdi
  pushq %rsi
  pushq %rdx
  pushq %rcx
  pushq %r8
  pushq %r9
  pushq %r11
  subq $8, %rsp
  call crashcut_choose_functions
  addq $8, %rsp
  popq %r11
  popq %r9
  popq %r8
  popq %rcx
  popq %rdx
  popq %rsi
  popq %rdi
  popq %rax
  jmp *%r11
)");

extern "C" void* __libc_stack_end;  // the loader's: where the kernel put argc

namespace crashcut::inject {

namespace {

struct Interposed {
  void* function;  // that the name leads to
  void* ours;
  const char* name;
};

extern "C" {
extern Interposed __start_crashcut_interposed[] __attribute__((visibility("hidden")));
extern Interposed __stop_crashcut_interposed[] __attribute__((visibility("hidden")));
}

bool g_is_chosen = false;
bool g_schedules_threads = false;

// The environment as the kernel made it: libc's own is not set up yet.
char** first_environment() {
  auto** stack = static_cast<char**>(__libc_stack_end);
  const auto argument_count = reinterpret_cast<std::size_t>(stack[0]);
  return stack + 1 + argument_count + 1;
}

void choose(Interposed& f) {
  void* real = g_schedules_threads ? nullptr : find_real(f.name);
  f.function = real == nullptr ? f.ours : real;
}

}  // namespace

bool schedules_threads() { return g_schedules_threads; }

void* find_real(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) dlerror();  // the program is not to find our message
  return found;
}

void crashcut_choose_functions() {
  if (g_is_chosen) return;
  g_is_chosen = true;
  g_schedules_threads = find_variable(first_environment(), kThreadsVariable) != nullptr;
  // dlsym() allocates memory where it finds nothing.
  for (Interposed* f = __start_crashcut_interposed; f != __stop_crashcut_interposed; ++f) {
    for (const char* name : {"malloc", "calloc", "realloc", "free"}) {
      if (std::strcmp(f->name, name) == 0) choose(*f);
    }
  }
  for (Interposed* f = __start_crashcut_interposed; f != __stop_crashcut_interposed; ++f) choose(*f);
}

}  // namespace crashcut::inject
