// What locked instructions compute, and how they are carried out on ordinary memory.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "inject/instrument/abi.h"

namespace crashcut::inprocess {

template <class T>
T apply(int operation, T a, T b) {
  using Signed = std::make_signed_t<T>;
  const auto sa = static_cast<Signed>(a), sb = static_cast<Signed>(b);
  switch (operation) {
    case __CRASHCUT_XCHG:
      return b;
    case __CRASHCUT_ADD:
      return static_cast<T>(a + b);
    case __CRASHCUT_SUB:
      return static_cast<T>(a - b);
    case __CRASHCUT_AND:
      return static_cast<T>(a & b);
    case __CRASHCUT_NAND:
      return static_cast<T>(~(a & b));
    case __CRASHCUT_OR:
      return static_cast<T>(a | b);
    case __CRASHCUT_XOR:
      return static_cast<T>(a ^ b);
    case __CRASHCUT_MAX:
      return sa > sb ? a : b;
    case __CRASHCUT_MIN:
      return sa < sb ? a : b;
    case __CRASHCUT_UMAX:
      return a > b ? a : b;
    case __CRASHCUT_UMIN:
      return a < b ? a : b;
    default:
      break;
  }
  if constexpr (sizeof(T) == 4) {
    const float x = std::bit_cast<float>(a), y = std::bit_cast<float>(b);
    return std::bit_cast<T>(operation == __CRASHCUT_FADD4 ? x + y : x - y);
  } else if constexpr (sizeof(T) == 8) {
    const double x = std::bit_cast<double>(a), y = std::bit_cast<double>(b);
    return std::bit_cast<T>(operation == __CRASHCUT_FADD8 ? x + y : x - y);
  }
  return b;
}

struct Word16 {
  std::uint64_t low, high;
  bool operator==(const Word16&) const = default;
};

inline bool exchange16(void* at, Word16& expected, const Word16& desired) {
  bool is_equal;
  asm volatile("lock cmpxchg16b %1"
               : "=@ccz"(is_equal), "+m"(*static_cast<Word16*>(at)), "+a"(expected.low), "+d"(expected.high)
               : "b"(desired.low), "c"(desired.high)
               : "memory");
  return is_equal;
}

// Calls function(value of the type that has so many bytes).
template <class Function>
auto with_width(std::size_t bytes, const Function& function) {
  switch (bytes) {
    case 1:
      return function(std::uint8_t{});
    case 2:
      return function(std::uint16_t{});
    case 4:
      return function(std::uint32_t{});
    case 8:
      return function(std::uint64_t{});
    default:
      return function(Word16{});
  }
}

template <class T>
T new_value(int operation, const T& old, const void* operand) {
  T b;
  std::memcpy(&b, operand, sizeof b);
  if constexpr (std::is_same_v<T, Word16>) {
    return b;  // 16 bytes are exchanged only
  } else {
    return apply(operation, old, b);
  }
}

template <class T>
void rmw_in_dram(int operation, void* at, const void* operand, void* old) {
  T seen{};
  if constexpr (std::is_same_v<T, Word16>) {
    while (!exchange16(at, seen, new_value(operation, seen, operand))) {
    }
  } else {
    std::atomic_ref<T> memory(*static_cast<T*>(at));
    seen = memory.load(std::memory_order_relaxed);
    while (!memory.compare_exchange_weak(seen, new_value(operation, seen, operand))) {
    }
  }
  std::memcpy(old, &seen, sizeof seen);
}

template <class T>
bool cmpxchg_in_dram(void* at, void* expected, const void* desired) {
  T old, wanted;
  std::memcpy(&old, expected, sizeof old);
  std::memcpy(&wanted, desired, sizeof wanted);
  bool is_stored;
  if constexpr (std::is_same_v<T, Word16>) {
    is_stored = exchange16(at, old, wanted);
  } else {
    is_stored = std::atomic_ref<T>(*static_cast<T*>(at)).compare_exchange_strong(old, wanted);
  }
  std::memcpy(expected, &old, sizeof old);
  return is_stored;
}

}  // namespace crashcut::inprocess
