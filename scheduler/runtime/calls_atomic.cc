// What -fsanitize=thread makes of atomic accesses: each is an operation.
#include <algorithm>
#include <cstring>
#include <utility>

#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/runtime/access_model.h"
#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/loops.h"

namespace crashcut::scheduler::runtime {

namespace {

using Wide = unsigned __int128;

// By the actor that is running: no other runs between its compare-exchange and its asking.
constinit bool g_exchange_failed = false;

// As C++ numbers them; higher bits are hints.
enum Order : int { kRelaxed, kConsume, kAcquire, kRelease, kAcqRel, kSeqCst };
bool acquires(int order) { return (order &= 7) == kConsume || order == kAcquire || order >= kAcqRel; }
bool releases(int order) { return (order & 7) >= kRelease; }

template <class T>
struct Call {
  T* place;
  memory::Verb verb;
  T operand = 0;
  T expected = 0;
  int order = kSeqCst;
  int order_of_failure = kRelaxed;
  const void* pc = nullptr;
};

template <class T>
T value_after(const Call<T>& call, T before) {
  switch (call.verb) {
    case memory::kStore:
    case memory::kExchange:
      return call.operand;
    case memory::kAdd:
      return static_cast<T>(before + call.operand);
    case memory::kSubtract:
      return static_cast<T>(before - call.operand);
    case memory::kAnd:
      return before & call.operand;
    case memory::kOr:
      return before | call.operand;
    case memory::kXor:
      return before ^ call.operand;
    case memory::kNand:
      return static_cast<T>(~(before & call.operand));
    case memory::kCompareExchange:
      return before == call.expected ? call.operand : before;
    default:
      return before;
  }
}

// Nothing else runs meanwhile: nothing in a runner is atomic but by that. Outside there is one thread.
template <class T>
T execute(const Call<T>& call) {
  T before, after;
  std::memcpy(&before, call.place, sizeof before);
  after = value_after(call, before);
  if (call.verb != memory::kLoad) std::memcpy(call.place, &after, sizeof after);
  return before;
}

std::uint8_t order_bits(int order, int order_of_failure) {
  return static_cast<std::uint8_t>((acquires(order) ? memory::kAcquire : 0) | (releases(order) ? memory::kRelease : 0) |
                                   (acquires(order_of_failure) ? memory::kAcquireIfSame : 0));
}

// One access a granule; where there are two, their values are looked up, not modelled.
template <class T>
Operation operation_of(const Call<T>& call) {
  Operation operation;
  auto address = reinterpret_cast<std::uint64_t>(call.place);
  const std::uint64_t end = address + sizeof(T);
  const bool is_whole = address / memory::kGranule == (end - 1) / memory::kGranule;
  while (address < end) {
    const std::uint64_t granule = address & ~(memory::kGranule - 1);
    const std::uint64_t part_end = end < granule + memory::kGranule ? end : granule + memory::kGranule;
    const memory::Verb verb = is_whole || call.verb == memory::kLoad ? call.verb : memory::kModify;
    Access access = memory::access(memory_object(granule), verb, static_cast<std::uint8_t>(address - granule),
                                   static_cast<std::uint8_t>(part_end - address));
    if (is_whole) {
      access.argument = static_cast<std::int64_t>(call.operand);
      access.expected = static_cast<std::int64_t>(call.expected);
    }
    access.order = order_bits(call.order, call.order_of_failure);
    current_actor().memory.granules[operation.size()] = reinterpret_cast<const std::int64_t*>(granule);
    operation.add(access);
    address = part_end;
  }
  return operation;
}

template <class T>
T act_by_model(const Call<T>& call) {
  T before{};
  kAccessModel.access({call.verb, call.place, &call.operand, &call.expected, &before, sizeof(T),
                       std::min(call.order & 7, int{kSeqCst})},
                      call.pc);
  return before;
}

template <class T>
T act(const Call<T>& call) {
  if (kAccessModel.is_on()) return act_by_model(call);
  if (!is_scheduling()) return execute(call);
  heed_added_locks(call.pc, true);
  // A bad address fails here, as the access would.
  (void)*static_cast<volatile char*>(static_cast<void*>(call.place));
  const auto address = reinterpret_cast<std::uint64_t>(call.place);
  const bool may_loop = call.verb != memory::kStore && sizeof(T) <= memory::kGranule;
  std::uint64_t state = 0;
  Operation operation = operation_of(call);
  if (may_loop && operation.size() == 1) {
    state = state_at_entry(address,
                           static_cast<std::uint64_t>(call.operand) * 31 + static_cast<std::uint64_t>(call.expected));
    if (add_awaits(operation, state, address)) {
      perform(spin::access(loop_object(), spin::kSpin), call.pc);
      operation = operation_of(call);
    }
  }
  perform(operation, call.pc);
  const T before = execute(call);
  if (call.verb == memory::kCompareExchange && before != call.expected) g_exchange_failed = true;
  const bool is_changed = call.verb == memory::kStore || value_after(call, before) != before;
  if (is_changed || !may_loop) {
    note_change();
  } else {
    note_look({state, address, sizeof(T), memory::low_bits(static_cast<std::int64_t>(before), sizeof(T))});
  }
  note_touch({address, sizeof(T), call.verb != memory::kLoad, true, call.pc});
  return before;
}

template <class T>
bool compare_exchange(T* place, T* expected, T desired, int order, int order_of_failure, const void* pc) {
  // What is expected is a variable like others, read here and written.
  const auto touch = [&](bool writes) {
    if (is_scheduling()) note_touch({reinterpret_cast<std::uint64_t>(expected), sizeof(T), writes, false, pc});
  };
  touch(false);
  const T before = act<T>({place, memory::kCompareExchange, desired, *expected, order, order_of_failure, pc});
  if (before == *expected) return true;
  touch(true);
  *expected = before;
  return false;
}

}  // namespace

}  // namespace crashcut::scheduler::runtime

using namespace crashcut::scheduler;
using namespace crashcut::scheduler::runtime;

#define MODIFY(bits, T, name, verb)                                                       \
  EXPORT_NOTING_REGISTERS(T, __tsan_atomic##bits##_##name)(T * p, T operand, int order) { \
    return act<T>({p, verb, operand, 0, order, kRelaxed, CALLER});                        \
  }
#define COMPARE(bits, T, name)                                                              \
  EXPORT_NOTING_REGISTERS(int, __tsan_atomic##bits##_##name)                                \
  (T * p, T * expected, T desired, int order, int order_of_failure) {                       \
    return compare_exchange(p, expected, desired, order, order_of_failure, CALLER) ? 1 : 0; \
  }
#define ATOMIC(bits, T)                                                                               \
  EXPORT_NOTING_REGISTERS(T, __tsan_atomic##bits##_load)(T * p, int order) {                          \
    return act<T>({p, memory::kLoad, 0, 0, order, kRelaxed, CALLER});                                 \
  }                                                                                                   \
  EXPORT(void, __tsan_atomic##bits##_store)(T * p, T value, int order) {                              \
    act<T>({p, memory::kStore, value, 0, order, kRelaxed, CALLER});                                   \
  }                                                                                                   \
  MODIFY(bits, T, exchange, memory::kExchange)                                                        \
  MODIFY(bits, T, fetch_add, memory::kAdd)                                                            \
  MODIFY(bits, T, fetch_sub, memory::kSubtract)                                                       \
  MODIFY(bits, T, fetch_and, memory::kAnd)                                                            \
  MODIFY(bits, T, fetch_or, memory::kOr)                                                              \
  MODIFY(bits, T, fetch_xor, memory::kXor)                                                            \
  MODIFY(bits, T, fetch_nand, memory::kNand)                                                          \
  COMPARE(bits, T, compare_exchange_strong)                                                           \
  COMPARE(bits, T, compare_exchange_weak)                                                             \
  EXPORT_NOTING_REGISTERS(T, __tsan_atomic##bits##_compare_exchange_val)                              \
  (T * p, T expected, T desired, int order, int order_of_failure) {                                   \
    return act<T>({p, memory::kCompareExchange, desired, expected, order, order_of_failure, CALLER}); \
  }

ATOMIC(8, std::uint8_t)
ATOMIC(16, std::uint16_t)
ATOMIC(32, std::uint32_t)
ATOMIC(64, std::uint64_t)
ATOMIC(128, Wide)

EXPORT(void, __tsan_atomic_thread_fence)(int order) {
  if (kAccessModel.is_on() && (order & 7) == kSeqCst) return kAccessModel.fence(CALLER);
  if (is_scheduling()) note_fence(acquires(order), releases(order));
}
EXPORT(void, __tsan_atomic_signal_fence)(int) {}

// For scheduler/instrument/atomic_wait.h.
EXPORT(int, crashcut_exchange_failed)() { return std::exchange(g_exchange_failed, false) ? 1 : 0; }
