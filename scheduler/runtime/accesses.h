// Accesses: what instrumented code does to memory, reported by the compiler's callbacks: which thread touched which
// byte last, and from where. Finds data races.
//
// A plain access is no operation: in a program without data races the operations decide what it sees. A race is found
//   by clocks in every execution of its class (happens_before.h), so the search need not try orders of plain accesses
//   to find one. If the search continues after a race, the bytes that were raced for are known (Names::racy), and
//   accesses to them are operations from then on.
// Threads: one kernel thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/happens_before.h"
#include "scheduler/state.h"

namespace crashcut::scheduler::runtime {

// A place that an actor's loop read.
struct Look {
  std::uint64_t state;  // of the thread, just before: registers and stack
  std::uint64_t address;
  std::uint8_t bytes;
  std::int64_t value;
};

// An actor's part.
struct MemoryView {
  std::uint32_t stack = 0;  // where its calls stand: a node of the tree of call sites
  std::uint64_t stack_top = 0;
  const std::int64_t* granules[Operation::kAccessesMost] = {};  // of its pending operation
  std::vector<Look> looks;                                      // since it last changed anything
  std::uint32_t plain_reads_in_a_row = 0;
};

struct MemoryTouch {
  std::uint64_t address;
  std::size_t bytes;
  bool writes;
  bool is_atomic;
  const void* pc;
  bool frees = false;
  bool is_modelled = false;  // a model of memory does the access: it is no operation here (buffers.h)
};

// Set by the first instrumented module that is loaded.
extern bool g_is_instrumented;

struct MemoryLog;
// Of a new execution; and in a process that takes part in one, whose main() has its stack below `stack_top`.
MemoryLog* begin_accesses();
void join_accesses(MemoryLog* log, const void* stack_top);
void end_accesses();
// An instrumented access of the running actor. May end the execution: a data race.
void note_touch(const MemoryTouch& touch);
// free() by instrumented code: a write to the whole block; every later access to the block is a mistake. (Code that is
// not instrumented may know, by means that crashcut does not see, that nobody uses the block any more.)
void note_freed(std::uint64_t address, std::size_t bytes, const void* pc);
// The module that holds the code is instrumented.
void note_instrumented(const void* code);
// The memory is allocated again: earlier accesses to it do not count.
void forget_touches(std::uint64_t address, std::size_t bytes);
void note_happened(const Step& step);
void note_fence(bool acquires, bool releases);
// Fills in what the memory holds, if the model does not know.
void observe_memory(const MemoryView& view, const State& state, Operation& operation);

// Calls and returns of the running actor.
void enter_function(const void* call_site);
void leave_function();

ObjectId memory_object(std::uint64_t address);

}  // namespace crashcut::scheduler::runtime
