// Atomic accesses and locked instructions. A locked instruction on ordinary memory is a fence nevertheless.
#include <cstring>

#include "persist/hash.h"
#include "recovery/inprocess/memory/accesses.h"
#include "recovery/inprocess/memory/ordinary_atomics.h"
#include "recovery/inprocess/memory/region_access.h"

namespace crashcut::inprocess {

namespace {

// Atomic accesses of ordinary memory are the model's where threads are scheduled.
bool is_modelled(const void* at) { return is_in_window(at) || threaded() != nullptr; }

// What the scheduler knows of a locked instruction.
std::int64_t number_in(const void* bytes, std::size_t count) {
  std::int64_t number = 0;
  std::memcpy(&number, bytes, std::min(count, sizeof number));
  return number;
}
ThreadedMemory::Change change_of(int operation, const void* operand, std::size_t bytes) {
  using namespace scheduler::memory;
  const auto verb = operation == __CRASHCUT_XCHG   ? kExchange
                    : operation == __CRASHCUT_ADD  ? kAdd
                    : operation == __CRASHCUT_SUB  ? kSubtract
                    : operation == __CRASHCUT_AND  ? kAnd
                    : operation == __CRASHCUT_NAND ? kNand
                    : operation == __CRASHCUT_OR   ? kOr
                    : operation == __CRASHCUT_XOR  ? kXor
                                                   : kModify;
  return {verb, number_in(operand, bytes)};
}

// A locked instruction on a region: decide(old bytes) says what is stored, an empty span nothing.
template <class Decide>
void do_locked(void* at, std::size_t bytes, const ThreadedMemory::Change& change, const void* code,
               const Decide& decide) {
  const std::uint64_t address = number_of(at);
  if (is_in_window(at) && !is_in_region(address, bytes)) return touch_wild(address, bytes);
  if (ThreadedMemory* threads = threaded()) return threads->lock(address, bytes, change, decide, code);
  const OwnCode own;
  std::byte old[16];
  const std::span<std::byte> before(old, bytes);
  std::byte* const shared = setup_memory(address);
  if (shared != nullptr) {
    std::memcpy(old, shared, bytes);
  } else if (is_recording()) {
    recorder().begin_locked(0, address, before, place_of(code));
  } else {
    g_load_code = code;
    g_explorer->memory()->load(address, before);
  }
  if (g.narrating && g_phase == Phase::kRecovering) narrate_load(address, before, code);
  const std::span<const std::byte> stored = decide(before);
  if (stored.empty()) return;
  if (shared != nullptr) {
    std::memcpy(shared, stored.data(), stored.size());
  } else if (is_recording()) {
    recorder().store_locked(0, address, stored, place_of(code));
  } else {
    g_explorer->memory()->overwrite(address, stored);
  }
}

}  // namespace

void Memory::atomic_load(const void* at, void* to, std::size_t bytes, int, const void* code) {
  if (is_in_window(at)) count_load(at, persist::mix(number_of(to), bytes), code);
  if (is_modelled(at)) return load_region(at, to, bytes, code, true);
  with_width(bytes, [&](auto value) {
    using T = decltype(value);
    auto* memory = static_cast<T*>(const_cast<void*>(at));
    if constexpr (std::is_same_v<T, Word16>) {
      exchange16(memory, value, value);
    } else {
      value = std::atomic_ref<T>(*memory).load();
    }
    std::memcpy(to, &value, sizeof value);
  });
}

void Memory::atomic_store(void* at, const void* from, std::size_t bytes, int order, const void* code) {
  const auto* stored = static_cast<const std::byte*>(from);
  // xchg, but nobody asks what was there before: a recovery need not decide that.
  if (order == __ATOMIC_SEQ_CST && threaded() != nullptr)
    return do_locked(at, bytes, {scheduler::memory::kStore, number_in(from, bytes)}, code,
                     [&](std::span<const std::byte>) { return std::span(stored, bytes); });
  if (order == __ATOMIC_SEQ_CST && is_in_window(at)) {
    return store_region(
        at, {stored, bytes}, ThreadedMemory::Kind::kStore, true, code,
        [](pmem::Recorder& r, std::uint64_t address, std::span<const std::byte> b, pmem::PlaceId place) {
          r.mfence(0, place);
          r.store_locked(0, address, b, place);
        });
  }
  if (is_modelled(at)) return store_region(at, {stored, bytes}, code, true);
  std::byte old[16];
  with_width(bytes, [&](auto value) { rmw_in_dram<decltype(value)>(__CRASHCUT_XCHG, at, from, old); });
  if (order == __ATOMIC_SEQ_CST) fence_for_locked(code);
}

void Memory::rmw(int operation, void* at, const void* operand, void* old, std::size_t bytes, int, const void* code) {
  if (is_in_window(at)) {
    using persist::mix;
    count_load(at, mix(mix(mix(static_cast<std::uint64_t>(operation), number_of(operand)), number_of(old)), bytes),
               code);
  }
  if (!is_modelled(at)) {
    forget_registers();
    with_width(bytes, [&](auto value) { rmw_in_dram<decltype(value)>(operation, at, operand, old); });
    return fence_for_locked(code);
  }
  std::byte before[16] = {}, after[16];
  do_locked(at, bytes, change_of(operation, operand, bytes), code, [&](std::span<const std::byte> found) {
    with_width(bytes, [&](auto value) {
      std::memcpy(&value, found.data(), sizeof value);
      std::memcpy(before, &value, sizeof value);
      value = new_value(operation, value, operand);
      std::memcpy(after, &value, sizeof value);
    });
    return std::span<const std::byte>(after, bytes);
  });
  std::memcpy(old, before, bytes);
}

int Memory::cmpxchg(void* at, void* expected, const void* desired, std::size_t bytes, int, int, const void* code) {
  if (is_in_window(at))
    count_load(at, persist::mix(persist::mix(number_of(expected), number_of(desired)), bytes), code);
  if (!is_modelled(at)) {
    forget_registers();
    const bool is_stored =
        with_width(bytes, [&](auto value) { return cmpxchg_in_dram<decltype(value)>(at, expected, desired); });
    fence_for_locked(code);
    return is_stored ? 1 : 0;
  }
  bool is_equal = false;
  std::byte wanted[16], found[16] = {};
  std::memcpy(wanted, expected, bytes);
  const ThreadedMemory::Change change{scheduler::memory::kCompareExchange, number_in(desired, bytes),
                                      number_in(wanted, bytes)};
  do_locked(at, bytes, change, code, [&](std::span<const std::byte> before) {
    std::memcpy(found, before.data(), bytes);
    is_equal = std::memcmp(wanted, found, bytes) == 0;
    return is_equal ? std::span(static_cast<const std::byte*>(desired), bytes) : std::span<const std::byte>{};
  });
  std::memcpy(expected, found, bytes);
  return is_equal ? 1 : 0;
}

void Memory::lock(void* at, std::size_t bytes, const Decide& decide, const void* code) {
  do_locked(at, bytes, {}, code, decide);
}

}  // namespace crashcut::inprocess
