// Loads, stores and copies of instrumented code, as the model does them. Ordinary memory is accessed as it is, unless
// threads share it (threaded.h).
#include "recovery/inprocess/memory/accesses.h"

#include <bit>
#include <cstring>

#include "persist/hash.h"
#include "recovery/inprocess/memory/region_access.h"

namespace crashcut::inprocess {

namespace {

template <class T>
void store_value(void* at, T value, const void* code) {
  store_region(at, std::as_bytes(std::span(&value, 1)), code);
}
template <class T>
T load_value(const void* at, const void* code) {
  T value{};
  const std::uint64_t address = number_of(at);
  if (threaded() != nullptr) [[unlikely]] {
    load_region(at, &value, sizeof value, code);
    return value;
  }
  if (!is_in_region(address, sizeof value)) [[unlikely]] {
    touch_wild(address, sizeof value);
    return value;
  }
  count_load(at, 0, code);
  const OwnCode own;
  load_checked(address, std::as_writable_bytes(std::span(&value, 1)), code);
  return value;
}

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
    copy_region(to, {copy, bytes}, code);
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
  if (is_in_window(at)) count_load(at, persist::mix(number_of(to), bytes), code);
  if (needs_model(at)) return load_region(at, to, bytes, code);
  std::memcpy(to, at, bytes);
}

void Memory::store(void* at, const void* from, std::size_t bytes, const void* code) {
  if (needs_model(at)) return store_region(at, {static_cast<const std::byte*>(from), bytes}, code);
  std::memcpy(at, from, bytes);
}

void Memory::store_whole(void* at, const void* from, std::size_t bytes, const void* code) {
  store_region(at, {static_cast<const std::byte*>(from), bytes}, ThreadedMemory::Kind::kAtomicStore, false, code,
               [](pmem::Recorder& r, std::uint64_t address, std::span<const std::byte> b, pmem::PlaceId place) {
                 r.store(0, address, b, place, pmem::StoreForm::kWhole);
               });
}

void Memory::store_lanes(void* at, const void* from, std::size_t lane_bytes, std::uint64_t lanes, const void* code) {
  if (lanes == 0) return;
  // From the first lane to the last: the others may be where nothing is.
  const auto first = static_cast<std::size_t>(std::countr_zero(lanes));
  const auto count = static_cast<std::size_t>(std::bit_width(lanes)) - first;
  auto* to = static_cast<std::byte*>(at) + first * lane_bytes;
  const auto* bytes = static_cast<const std::byte*>(from) + first * lane_bytes;
  lanes >>= first;
  if (is_in_window(to) && threaded() != nullptr) {
    if (!is_in_region(number_of(to), count * lane_bytes)) return touch_wild(number_of(to), count * lane_bytes);
    return threaded()->store_lanes(number_of(to), {bytes, count * lane_bytes}, lane_bytes, lanes, code);
  }
  if (is_in_window(to) && is_recording()) {
    return store_region(to, {bytes, count * lane_bytes}, ThreadedMemory::Kind::kStore, false, code,
                        [&](pmem::Recorder& r, std::uint64_t address, std::span<const std::byte> b,
                            pmem::PlaceId place) { r.store_lanes(0, address, b, lane_bytes, lanes, place); });
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

void Memory::store_nt(void* at, const void* from, std::size_t bytes, int is_whole, const void* code) {
  if (!needs_model(at)) {
    std::memcpy(at, from, bytes);
    return;
  }
  store_region(at, {static_cast<const std::byte*>(from), bytes},
               is_whole != 0 ? ThreadedMemory::Kind::kNonTemporalWhole : ThreadedMemory::Kind::kNonTemporal, false,
               code, [&](pmem::Recorder& r, std::uint64_t address, std::span<const std::byte> b, pmem::PlaceId place) {
                 r.store_non_temporal(0, address, b, place, is_whole != 0);
               });
}

void Memory::memmove(void* to, const void* from, std::size_t bytes, const void* code) {
  if (needs_model(to)) return copy_into_region(to, from, bytes, code);
  if (needs_model(from)) return load_region(from, to, bytes, code);
  std::memmove(to, from, bytes);
}

void Memory::memset(void* to, int value, std::size_t bytes, const void* code) {
  if (!needs_model(to)) {
    std::memset(to, value, bytes);
    return;
  }
  with_copy(bytes, [&](std::byte* copy) {
    std::memset(copy, value, bytes);
    copy_region(to, {copy, bytes}, code);
  });
}

}  // namespace crashcut::inprocess
