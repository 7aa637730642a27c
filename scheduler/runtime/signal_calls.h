// Signals that threads of the program send each other: operations of the scheduler (primitives/signal.h). Faults, and
// signals from outside of the program, are the kernel's (signals.cc).
#pragma once

#include <signal.h>

#include <cstdint>
#include <optional>

#include "scheduler/runtime/channels.h"
#include "scheduler/runtime/world.h"

namespace crashcut::scheduler::runtime {

// Whether the program may send signals to itself, or wait for them: then they are operations, and every operation may
// be interrupted by a handler.
bool has_signals();
// An execution begins: its main thread; another thread is made, begins and ends.
void begin_signals(Actor& main);
void announce_handlers();
void add_signals_of(Actor& child, Operation& create);
void let_signals_in(const Actor& actor, Operation& start);
void end_signals_of(const Actor& actor, Operation& end);
// Adds to the operation of an actor the access that says when a handler may run.
void add_interruption(Actor& actor, Operation& operation);
// After a delivery to an actor that stands before `operation`: runs the handler. As the kernel does, a call that may be
// interrupted first looks whether it has to wait. It stands there again; or the operation is done; or it is
// interrupted, and is not done.
enum class Heeded { kStandsAgain, kIsDone, kIsInterrupted };
Heeded heed_delivery(Actor& self, const Operation& operation, OnSignal on_signal, const void* caller);
// Before an operation that a handler may interrupt: a signal that comes now came before the call.
void enter_call(const void* caller);

// signalfd: polling looks for these, and what a poll found of them; reading takes one, -EAGAIN where it tries and there
// is none, nothing where the thread was cancelled.
Access look_for_signals(std::uint64_t set);
std::uint64_t readable_signals(const Operation& done);
std::optional<long> take_signal(std::uint64_t set, bool tries, siginfo_t& out, const void* caller);
// SIGPIPE, to the running thread.
void signal_broken_pipe(const void* caller);
// Waits for a handler to run. False: the thread was cancelled.
bool wait_for_handler(const void* caller);
int send_to_thread(Actor& target, int number, const void* caller);

// Blocks other signals while a call waits, as ppoll() does. Null: the same ones.
class WithMask {
 public:
  WithMask(const std::uint64_t* mask, const void* caller);
  ~WithMask();
  WithMask(const WithMask&) = delete;

 private:
  const void* caller_;
  bool is_used_;
};

// A system call of the program. `result` is a negative errno on failure.
Answer do_signal_call(long number, const long* a, const void* caller, long& result);

}  // namespace crashcut::scheduler::runtime
