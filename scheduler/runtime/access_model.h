// AccessModel: what code that was compiled with -fsanitize=thread tells of its memory, for a model that does the
// accesses itself (recovery/inprocess/memory/callbacks.cc).
//
// Atomic accesses and copies are calls, so the model can do them. A plain access is told before the program does it,
//   and flushes and fences are not told at all: the model sees these in another way, or not.
#pragma once

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
};
extern const AccessModel kAccessModel;

}  // namespace crashcut::scheduler::runtime
