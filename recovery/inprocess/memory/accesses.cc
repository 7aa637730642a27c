// Accesses of instrumented code, as the model does them.
//
// Ordinary memory is accessed as it is: for one thread, what it holds is no part of a crash. Locked instructions on it
//   are fences nevertheless.
// The program's own side of a copy is touched before or after the model's code runs, never within it: should it fault,
//   the program dies of it, and not we.
#include "recovery/inprocess/memory/accesses.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "inject/instrument/abi.h"
#include "recovery/inprocess/explorer.h"
#include "recovery/inprocess/memory/memory.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

namespace {

constexpr pmem::ThreadId kThread = 0;
constexpr std::size_t kPieceBytes = 1024;  // copies go through a buffer on the stack

std::uint64_t number_of(const void* at) { return reinterpret_cast<std::uint64_t>(at); }

// While our own code runs. Persistent memory belongs to one thread: there is nobody to lock out.
class OwnCode {
 public:
  OwnCode() {
    if (inject::t_is_own_code) [[unlikely]]
      user_error(
          "a signal handler touched persistent memory while the program did, which crashcut pmem does not model");
    inject::t_is_own_code = true;
    g.slot->in_runtime.store(1, std::memory_order_relaxed);
  }
  ~OwnCode() {
    g.slot->in_runtime.store(0, std::memory_order_relaxed);
    inject::t_is_own_code = false;
  }
};

// A wild address of the window: the program dies as it would without us.
[[gnu::noinline]] void touch_wild(std::uint64_t address, std::size_t bytes) {
  while (is_in_region(address, 1) && bytes-- > 1) ++address;
  (void)*reinterpret_cast<const volatile char*>(address);
}

bool is_recording() { return g.model != nullptr && g.model->memory != nullptr; }
pmem::Recorder& recorder() { return *g.model->memory; }
pmem::PlaceId place_of(const void* code) { return g.model->places.number_of(code); }

// A load that asked is told in the story.
[[gnu::noinline]] void narrate_load(std::uint64_t address, std::span<const std::byte> bytes, const void* code) {
  if (!g_explorer->has_chosen()) return;
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), std::min<std::size_t>(bytes.size(), sizeof value));
  narrate_text(fmt::format("load of {} {} from {} at {}: {:#x}", bytes.size(), bytes.size() == 1 ? "byte" : "bytes",
                           describe_address(address), name_place(number_of(code)), value));
}

}  // namespace

void load_memory(std::uint64_t address, std::span<std::byte> out, const void* code) {
  if (is_recording()) {
    recorder().load(kThread, address, out);
  } else {
    g_explorer->memory()->load(address, out);
  }
  if (g.narrating && g_phase == Phase::kRecovering) narrate_load(address, out, code);
}

void copy_to_memory(std::uint64_t address, std::span<const std::byte> bytes, const void* code) {
  if (is_recording()) {
    recorder().copy(kThread, address, bytes, place_of(code));
  } else {
    g_explorer->memory()->overwrite(address, bytes);
  }
}

void flush_memory(std::uint64_t begin, std::uint64_t end, const void* code) {
  if (!is_recording()) return;
  std::vector<std::uint64_t> used;
  recorder().recording().lines.for_each([&](std::uint64_t line, const auto&) {
    if (line + pmem::kLineBytes > begin && line < end) used.push_back(line);
  });
  for (const std::uint64_t line : used) recorder().clflushopt(kThread, line, place_of(code));
  recorder().sfence(kThread, place_of(code));
}

void begin_call_after_fences() {
  if (is_recording()) g.model->recorder->recording().log.set_common_past(recorder().past_of_call(kThread));
}
void end_call_after_fences() {
  if (is_recording()) g.model->recorder->recording().log.set_common_past(persist::kNoFences);
}

namespace {

// ---- one access to a region, whole

void load_region(const void* at, void* to, std::size_t bytes, const void* code) {
  const std::uint64_t address = number_of(at);
  if (!is_in_region(address, bytes)) return touch_wild(address, bytes);
  std::byte piece[kPieceBytes];
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t count = std::min(bytes - done, sizeof piece);
    {
      const OwnCode own;
      load_memory(address + done, {piece, count}, code);
    }
    std::memcpy(static_cast<std::byte*>(to) + done, piece, count);
    done += count;
  }
}

// `record(recorder, bytes, place)` is how the recorder hears of it.
template <class Record>
void store_region(void* at, std::span<const std::byte> bytes, const void* code, const Record& record) {
  const std::uint64_t address = number_of(at);
  if (!is_in_region(address, bytes.size())) return touch_wild(address, bytes.size());
  const OwnCode own;
  if (is_recording()) {
    record(recorder(), address, bytes, place_of(code));
  } else {
    g_explorer->memory()->overwrite(address, bytes);
  }
}

constexpr auto kAsStore = [](pmem::Recorder& r, std::uint64_t at, std::span<const std::byte> b, pmem::PlaceId place) {
  r.store(kThread, at, b, place);
};
constexpr auto kAsCopy = [](pmem::Recorder& r, std::uint64_t at, std::span<const std::byte> b, pmem::PlaceId place) {
  r.copy(kThread, at, b, place);
};

template <class T>
void store_value(void* at, T value, const void* code) {
  store_region(at, std::as_bytes(std::span(&value, 1)), code, kAsStore);
}
template <class T>
T load_value(const void* at, const void* code) {
  T value{};
  load_region(at, &value, sizeof value, code);
  return value;
}

// ---- locked instructions

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

bool exchange16(void* at, Word16& expected, const Word16& desired) {
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

void fence_for_locked(const void* code) {
  if (!is_recording() || g_phase == Phase::kConstructing) return;
  const OwnCode own;
  recorder().mfence(kThread, place_of(code));
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

// A locked instruction on a region: decide(old bytes) says what is stored, an empty span nothing.
template <class Decide>
void lock(void* at, std::size_t bytes, const void* code, const Decide& decide) {
  const std::uint64_t address = number_of(at);
  if (!is_in_region(address, bytes)) return touch_wild(address, bytes);
  const OwnCode own;
  std::byte old[16];
  const std::span<std::byte> before(old, bytes);
  if (is_recording()) {
    recorder().begin_locked(kThread, address, before, place_of(code));
  } else {
    g_explorer->memory()->load(address, before);
  }
  if (g.narrating && g_phase == Phase::kRecovering) narrate_load(address, before, code);
  const std::span<const std::byte> stored = decide(before);
  if (stored.empty()) return;
  if (is_recording()) {
    recorder().store_locked(kThread, address, stored, place_of(code));
  } else {
    g_explorer->memory()->overwrite(address, stored);
  }
}

// ---- flushes and fences

enum class Flush { kClflush, kClflushopt };

void flush(const void* at, Flush how, const void* code) {
  if (!is_in_window(at)) return;
  const std::uint64_t address = number_of(at);
  if (!is_in_region(address, 1)) return touch_wild(address, 1);
  if (!is_recording()) return;
  const OwnCode own;
  if (how == Flush::kClflush) {
    recorder().clflush(kThread, address, place_of(code));
  } else {
    recorder().clflushopt(kThread, address, place_of(code));
  }
}

// ---- copies

// Calls function(room for so many bytes), which lies outside of the program's reach.
template <class Function>
void with_copy(std::size_t bytes, const Function& function) {
  if (bytes == 0) return;
  if (bytes <= kPieceBytes) {
    std::byte piece[kPieceBytes];
    return function(piece);
  }
  std::byte* piece;
  {
    const OwnCode own;
    piece = new std::byte[bytes];
  }
  function(piece);
  const OwnCode own;
  delete[] piece;
}

// Words that one copy writes have no order among themselves, so a copy is one operation of the recorder.
void copy_into_region(void* to, const void* from, std::size_t bytes, const void* code) {
  with_copy(bytes, [&](std::byte* copy) {
    Memory::load(from, copy, bytes, code);
    store_region(to, {copy, bytes}, code, kAsCopy);
  });
}

}  // namespace

#define CRASHCUT_WIDTH(bytes, type)                                                                 \
  type Memory::load##bytes(const void* at, const void* code) { return load_value<type>(at, code); } \
  void Memory::store##bytes(void* at, type value, const void* code) { store_value(at, value, code); }
CRASHCUT_WIDTH(1, std::uint8_t)
CRASHCUT_WIDTH(2, std::uint16_t)
CRASHCUT_WIDTH(4, std::uint32_t)
CRASHCUT_WIDTH(8, std::uint64_t)
#undef CRASHCUT_WIDTH

void Memory::load(const void* at, void* to, std::size_t bytes, const void* code) {
  if (is_in_window(at)) return load_region(at, to, bytes, code);
  std::memcpy(to, at, bytes);
}

void Memory::store(void* at, const void* from, std::size_t bytes, const void* code) {
  if (is_in_window(at)) return store_region(at, {static_cast<const std::byte*>(from), bytes}, code, kAsStore);
  std::memcpy(at, from, bytes);
}

void Memory::store_lanes(void* at, const void* from, std::size_t lane_bytes, std::uint64_t lanes, const void* code) {
  if (lanes == 0) return;
  // From the first lane to the last: the others may be where nothing is.
  const auto first = static_cast<std::size_t>(std::countr_zero(lanes));
  const auto count = static_cast<std::size_t>(std::bit_width(lanes)) - first;
  auto* to = static_cast<std::byte*>(at) + first * lane_bytes;
  const auto* bytes = static_cast<const std::byte*>(from) + first * lane_bytes;
  lanes >>= first;
  if (is_in_window(to) && is_recording()) {
    return store_region(to, {bytes, count * lane_bytes}, code,
                        [&](pmem::Recorder& r, std::uint64_t address, std::span<const std::byte> b,
                            pmem::PlaceId place) { r.store_lanes(kThread, address, b, lane_bytes, lanes, place); });
  }
  for (std::size_t i = 0; i < count; ++i) {
    if ((lanes >> i & 1) != 0) store(to + i * lane_bytes, bytes + i * lane_bytes, lane_bytes, code);
  }
}

void Memory::load_lanes(const void* at, void* to, std::size_t lane_bytes, std::uint64_t lanes, const void* code) {
  for (std::size_t i = 0; lanes != 0; ++i, lanes >>= 1) {
    const std::size_t offset = i * lane_bytes;
    if ((lanes & 1) != 0)
      load(static_cast<const std::byte*>(at) + offset, static_cast<std::byte*>(to) + offset, lane_bytes, code);
  }
}

void Memory::atomic_load(const void* at, void* to, std::size_t bytes, int, const void* code) {
  if (is_in_window(at)) return load_region(at, to, bytes, code);
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
  if (order == __ATOMIC_SEQ_CST && is_in_window(at)) {
    return store_region(
        at, {stored, bytes}, code,
        [](pmem::Recorder& r, std::uint64_t address, std::span<const std::byte> b, pmem::PlaceId place) {
          r.mfence(kThread, place);
          r.store_locked(kThread, address, b, place);
        });
  }
  if (is_in_window(at)) return store_region(at, {stored, bytes}, code, kAsStore);
  std::byte old[16];
  with_width(bytes, [&](auto value) { rmw_in_dram<decltype(value)>(__CRASHCUT_XCHG, at, from, old); });
  if (order == __ATOMIC_SEQ_CST) fence_for_locked(code);
}

void Memory::rmw(int operation, void* at, const void* operand, void* old, std::size_t bytes, int, const void* code) {
  if (!is_in_window(at)) {
    with_width(bytes, [&](auto value) { rmw_in_dram<decltype(value)>(operation, at, operand, old); });
    return fence_for_locked(code);
  }
  std::byte before[16] = {}, after[16];
  lock(at, bytes, code, [&](std::span<std::byte> found) {
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
  if (!is_in_window(at)) {
    const bool is_stored =
        with_width(bytes, [&](auto value) { return cmpxchg_in_dram<decltype(value)>(at, expected, desired); });
    fence_for_locked(code);
    return is_stored ? 1 : 0;
  }
  bool is_equal = false;
  std::byte wanted[16], found[16] = {};
  std::memcpy(wanted, expected, bytes);
  lock(at, bytes, code, [&](std::span<std::byte> before) {
    std::memcpy(found, before.data(), bytes);
    is_equal = std::memcmp(wanted, found, bytes) == 0;
    return is_equal ? std::span(static_cast<const std::byte*>(desired), bytes) : std::span<const std::byte>{};
  });
  std::memcpy(expected, found, bytes);
  return is_equal ? 1 : 0;
}

void Memory::store_nt(void* at, const void* from, std::size_t bytes, int is_whole, const void* code) {
  if (!is_in_window(at)) {
    std::memcpy(at, from, bytes);
    return;
  }
  store_region(at, {static_cast<const std::byte*>(from), bytes}, code,
               [&](pmem::Recorder& r, std::uint64_t address, std::span<const std::byte> b, pmem::PlaceId place) {
                 r.store_non_temporal(kThread, address, b, place, is_whole != 0);
               });
}

void Memory::begin_locked(void* at, void* to, std::size_t bytes, const void* code) {
  lock(at, bytes, code, [&](std::span<std::byte> found) {
    std::memcpy(to, found.data(), bytes);
    return std::span<const std::byte>{};
  });
}

void Memory::store_locked(void* at, const void* from, std::size_t bytes, const void* code) {
  store_region(at, {static_cast<const std::byte*>(from), bytes}, code,
               [&](pmem::Recorder& r, std::uint64_t address, std::span<const std::byte> b, pmem::PlaceId place) {
                 r.store_locked(kThread, address, b, place);
               });
}

void Memory::memmove(void* to, const void* from, std::size_t bytes, const void* code) {
  if (is_in_window(to)) return copy_into_region(to, from, bytes, code);
  if (is_in_window(from)) return load_region(from, to, bytes, code);
  std::memmove(to, from, bytes);
}

void Memory::memset(void* to, int value, std::size_t bytes, const void* code) {
  if (!is_in_window(to)) {
    std::memset(to, value, bytes);
    return;
  }
  with_copy(bytes, [&](std::byte* copy) {
    std::memset(copy, value, bytes);
    store_region(to, {copy, bytes}, code, kAsCopy);
  });
}

void Memory::clflush(const void* at, const void* code) { flush(at, Flush::kClflush, code); }
void Memory::clwb(const void* at, const void* code) { flush(at, Flush::kClflushopt, code); }

void Memory::sfence(const void* code) {
  asm volatile("sfence" ::: "memory");
  if (!is_recording()) return;
  const OwnCode own;
  recorder().sfence(kThread, place_of(code));
}

void Memory::mfence(const void* code) {
  asm volatile("mfence" ::: "memory");
  fence_for_locked(code);
}

}  // namespace crashcut::inprocess
