// Accesses of instrumented code, as the model does them: the functions of inject/instrument/abi.h, each with the
// address of the code that it is done for.
//
// Addresses outside of the window are ordinary memory, and are accessed as they are. load1() to store8() take addresses
//   of the window only. "to", "from", "old", "operand", "expected" and "desired" are ordinary memory, but for
//   memmove().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace crashcut::inprocess {

struct Memory {
  static std::uint8_t load1(const void* at, const void* code);
  static std::uint16_t load2(const void* at, const void* code);
  static std::uint32_t load4(const void* at, const void* code);
  static std::uint64_t load8(const void* at, const void* code);
  static void store1(void* at, std::uint8_t value, const void* code);
  static void store2(void* at, std::uint16_t value, const void* code);
  static void store4(void* at, std::uint32_t value, const void* code);
  static void store8(void* at, std::uint64_t value, const void* code);
  static void load(const void* at, void* to, std::size_t bytes, const void* code);
  static void store(void* at, const void* from, std::size_t bytes, const void* code);
  // A store instruction, as it is: no compiler tears it.
  static void store_whole(void* at, const void* from, std::size_t bytes, const void* code);
  static void load_lanes(const void* at, void* to, std::size_t lane_bytes, std::uint64_t lanes, const void* code);
  static void store_lanes(void* at, const void* from, std::size_t lane_bytes, std::uint64_t lanes, const void* code);
  static void atomic_load(const void* at, void* to, std::size_t bytes, int order, const void* code);
  static void atomic_store(void* at, const void* from, std::size_t bytes, int order, const void* code);
  static void rmw(int operation, void* at, const void* operand, void* old, std::size_t bytes, int order,
                  const void* code);
  static int cmpxchg(void* at, void* expected, const void* desired, std::size_t bytes, int order, int failure_order,
                     const void* code);
  static void store_nt(void* at, const void* from, std::size_t bytes, int is_whole, const void* code);
  // A locked instruction: decide(bytes that it finds) says what it stores, an empty span nothing. Of ordinary memory
  // only where threads are scheduled.
  using Decide = std::function<std::span<const std::byte>(std::span<const std::byte>)>;
  static void lock(void* at, std::size_t bytes, const Decide& decide, const void* code);
  static void memmove(void* to, const void* from, std::size_t bytes, const void* code);
  static void memset(void* to, int value, std::size_t bytes, const void* code);
  static void clflush(const void* at, const void* code);
  static void clflushopt(const void* at, const void* code);
  static void clwb(const void* at, const void* code);
  static void sfence(const void* code);
  static void mfence(const void* code);
};

}  // namespace crashcut::inprocess
