// AccessModel: what code that was compiled with -fsanitize=thread tells of its memory, for a model that does the
// accesses itself (recovery/inprocess/memory/callbacks.cc).
//
// Atomic accesses and copies are calls, so the model can do them. A plain access is told before the program does it,
//   and flushes and fences are not told at all: the model traps these, and so it does with all of code that tells
//   nothing. Handlers of faults and breakpoints run on the thread's own stack then, since threads take turns in them.
#pragma once

#include <signal.h>
#include <ucontext.h>

#include <cstddef>

#include "scheduler/primitives/memory.h"

namespace crashcut::scheduler::runtime {

struct AccessModel {
  // A module of the program was compiled so.
  void (*note_module)();
  // Whether the functions below do the accesses of this run.
  bool (*is_on)();
  // What was in the place before goes to `before`. `order` is C++'s, as its number.
  struct Atomic {
    memory::Verb verb;
    void* place;
    const void* operand;
    const void* expected;  // of a compare-exchange
    void* before;
    std::size_t bytes;
    int order;
  };
  void (*access)(const Atomic& atomic, const void* pc);
  void (*copy)(void* to, const void* from, std::size_t bytes, const void* pc);
  void (*fill)(void* to, int value, std::size_t bytes, const void* pc);
  // atomic_thread_fence(seq_cst)
  void (*fence)(const void* pc);
  // A breakpoint, or a single step. False: not the model's.
  bool (*do_trap)(const siginfo_t& info, ucontext_t& context);
};
extern const AccessModel kAccessModel;

}  // namespace crashcut::scheduler::runtime
