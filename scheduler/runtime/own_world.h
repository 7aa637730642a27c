// OwnWorld: threads of a process that no command schedules: those of a recovery. They run by one schedule, always the
// same one, as fibers of one thread of the kernel's.
//
// A runner shares a Control with the command (protocol.h). Here the Control is private memory, and what would be a
//   reply there ends the process here, as OwnWorldHooks say. fork() copies the whole world, with all threads.
// Does not model: other schedules (may miss bugs).
#pragma once

#include <string>
#include <string_view>

namespace crashcut::scheduler::runtime {

struct OwnWorldHooks {
  void (*thread_begun)();  // the first thread besides main()
  // How the process ends. None of these returns.
  void (*exit)(int code);  // a thread called exit(), main() returned, or the last thread has ended
  // A signal that nobody handles; or a mistake, such as to unlock a mutex of another thread: then `why` says which, and
  // the signal is SIGABRT.
  void (*die)(int signal, std::string_view why);
  void (*hang)();  // threads are left, and none can ever go on: see text_of_waiting()
};

// Once in a process. The running thread becomes main(); its stack is below `stack_top`.
void begin_own_world(const OwnWorldHooks& hooks, const void* stack_top);
// Whether this process has such a world.
bool has_own_world();
// "thread 1", in the order in which they were begun; empty for the only thread that there is.
std::string name_of_running();
// Who waits for what at the end: name_place(code) tells where.
std::string text_of_waiting(std::string (*name_place)(std::uint64_t code));

// --- for the rest of this folder
// end_execution() of such a world.
[[noreturn]] void end_own_world();
void note_thread_begun();

}  // namespace crashcut::scheduler::runtime
