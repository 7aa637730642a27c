// Model: a part of a program's world that the library stands in for. The table has one line a model.
//
// What happens to a system call: the models are asked in the order of the table until one does it. A call that no model
//   does is refused (calls.cc) or goes to the kernel. The model that schedules the program's threads comes first; it
//   lets the others do a call when the turn of the calling thread has come.
// Null functions do nothing.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "inject/call.h"

namespace crashcut::inject {

using Main = int (*)(int, char**, char**);

struct Model {
  const char* name;
  // Called for every model before the program's static constructors run. Takes the model's variables out of the
  // environment.
  void (*start)(char** envp) = nullptr;

  // Whether the model takes part in what this process does now. The functions below are called only if so.
  bool (*is_active)();
  Fate (*do_call)(Call& call, ucontext_t& context) = nullptr;
  // crashcut has sent SIGSYS: the program ran for long without a call.
  void (*hurry)(ucontext_t& context) = nullptr;
  // The kernel is about to do something that restoring the image does not undo.
  void (*spend_image)() = nullptr;
  // Whether the way back to a fresh image undoes what the call changes.
  bool (*undoes)(const Call& call) = nullptr;
  // SIGSEGV: whether it was raised on the model's behalf; if so, the model has dealt with it. leave_faults(): from now
  // on the program handles the signal itself.
  bool (*do_fault)(const siginfo_t& info, void* ucontext) = nullptr;
  void (*leave_faults)() = nullptr;
  // The program begins a thread, or waits for one, where no threads are scheduled.
  void (*need_threads)() = nullptr;
  // crashcut cannot go on: with a call that is refused; with a sentence. They end the process, or the execution.
  void (*refuse)(const char* call) = nullptr;
  void (*end_with)(std::string_view sentence, bool is_users_fault) = nullptr;
};

// The table, in the order in which the models are asked. The library that is built of the models defines it.
extern const Model* const kModels[];
extern const std::size_t kModelCount;

template <class F, class... A>
void tell_models(F Model::*function, A&&... arguments) {
  for (std::size_t i = 0; i < kModelCount; ++i) {
    const Model& model = *kModels[i];
    if (model.*function != nullptr && model.is_active()) (model.*function)(arguments...);
  }
}

inline void spend_image() { tell_models(&Model::spend_image); }
// The first that says yes.
bool do_fault(const siginfo_t& info, void* ucontext);
// Ends the process, or the execution: the program made a call that is refused.
[[noreturn]] void refuse(const char* call);

// What this process does: nothing for crashcut; static constructors of the program; it forks the others (C); main()
// (E); a recovery (R).
enum class Phase { kIdle, kConstructing, kCoordinating, kExecuting, kRecovering };
extern Phase g_phase;
// Set if this process is a recovery that runs its threads as fibers.
extern bool g_has_fibers;
// Whether this process runs main(), or a recovery, with its threads as fibers.
bool is_scheduled();

// In place of main(): runs it, and the recoveries. The model that talks to the command defines it.
int run_program(int argc, char** argv, char** envp, Main main);

// --- dispatch.cc
// The SIGSYS handler, from now on, of this process and its children. `mask` is blocked meanwhile.
bool install_dispatch(std::uint64_t mask);
// The same for a call that needs no signal: asks the models. False: none of them does it.
bool do_without_signal(Call& call);
// Whether the program, or a library of its, has set how it handles a signal.
bool has_own_handlers();
// Set while our own code runs on this thread: a libc function that we called after all goes to the kernel.
extern constinit thread_local bool t_is_own_code __attribute__((tls_model("initial-exec")));

}  // namespace crashcut::inject
