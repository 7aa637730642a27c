// Code that was compiled with -fsanitize=thread (g++), with persistent memory: its atomic accesses and its copies are
// calls, and are done here. Its plain accesses, flushes and fences are not: they are trapped (trap.h).
#include <cstring>

#include "inject/instrument/abi.h"
#include "recovery/inprocess/memory/accesses.h"
#include "recovery/inprocess/memory/trap.h"
#include "recovery/inprocess/runtime.h"
#include "scheduler/runtime/access_model.h"

namespace crashcut::scheduler::runtime {

namespace {

using inprocess::Memory;

int operation_of(memory::Verb verb) {
  switch (verb) {
    case memory::kAdd:
      return __CRASHCUT_ADD;
    case memory::kSubtract:
      return __CRASHCUT_SUB;
    case memory::kAnd:
      return __CRASHCUT_AND;
    case memory::kNand:
      return __CRASHCUT_NAND;
    case memory::kOr:
      return __CRASHCUT_OR;
    case memory::kXor:
      return __CRASHCUT_XOR;
    default:
      return __CRASHCUT_XCHG;
  }
}

void access(const AccessModel::Atomic& atomic, const void* pc) {
  switch (atomic.verb) {
    case memory::kLoad:
      return Memory::atomic_load(atomic.place, atomic.before, atomic.bytes, atomic.order, pc);
    case memory::kStore:
      return Memory::atomic_store(atomic.place, atomic.operand, atomic.bytes, atomic.order, pc);
    case memory::kCompareExchange:
      std::memcpy(atomic.before, atomic.expected, atomic.bytes);
      Memory::cmpxchg(atomic.place, atomic.before, atomic.operand, atomic.bytes, atomic.order, atomic.order, pc);
      return;
    default:
      return Memory::rmw(operation_of(atomic.verb), atomic.place, atomic.operand, atomic.before, atomic.bytes,
                         atomic.order, pc);
  }
}

void note_module() {
  using inprocess::g;
  if (g.header != nullptr && g.header->has_memory != 0) g.header->instrumentation |= inprocess::kCalledBack;
}

}  // namespace

const AccessModel kAccessModel{
    .note_module = note_module,
    .is_on = inprocess::is_trapping,
    .access = access,
    .copy = Memory::memmove,
    .fill = Memory::memset,
    .fence = Memory::mfence,
    .do_trap = inprocess::do_trap,
};

}  // namespace crashcut::scheduler::runtime
