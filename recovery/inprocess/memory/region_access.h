// One access of the program to a region, whole: from the checked address to the recorder or the view of the crash.
//
// The program's own side of a copy is touched before or after the model's code runs, never within it: should it fault,
//   the program dies of it, and not we.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "recovery/inprocess/explorer.h"
#include "recovery/inprocess/memory/memory.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

inline constexpr pmem::ThreadId kThread = 0;
inline constexpr std::size_t kPieceBytes = 1024;  // copies go through a buffer on the stack

inline std::uint64_t number_of(const void* at) { return reinterpret_cast<std::uint64_t>(at); }

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
void touch_wild(std::uint64_t address, std::size_t bytes);

inline bool is_recording() { return g.model != nullptr && g.model->memory != nullptr; }
inline pmem::Recorder& recorder() { return *g.model->memory; }
inline pmem::PlaceId place_of(const void* code) { return g.model->places.number_of(code); }

// A load that asked is told in the story. Call if g.narrating, after the load.
void narrate_load(std::uint64_t address, std::span<const std::byte> bytes, const void* code);

// A locked instruction on ordinary memory has been executed (flushes.cc).
void fence_for_locked(const void* code);

// For a caller whose address is checked, in the model.
inline void load_checked(std::uint64_t address, std::span<std::byte> out, const void* code) {
  if (is_recording()) {
    recorder().load(kThread, address, out);
  } else {
    g_explorer->memory()->load(address, out);
  }
  if (g.narrating && g_phase == Phase::kRecovering) narrate_load(address, out, code);
}

inline void load_region(const void* at, void* to, std::size_t bytes, const void* code) {
  const std::uint64_t address = number_of(at);
  if (!is_in_region(address, bytes)) return touch_wild(address, bytes);
  std::byte piece[kPieceBytes];
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t count = std::min(bytes - done, sizeof piece);
    {
      const OwnCode own;
      load_checked(address + done, {piece, count}, code);
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

inline constexpr auto kAsStore = [](pmem::Recorder& r, std::uint64_t at, std::span<const std::byte> b,
                                    pmem::PlaceId place) { r.store(kThread, at, b, place); };
inline constexpr auto kAsCopy = [](pmem::Recorder& r, std::uint64_t at, std::span<const std::byte> b,
                                   pmem::PlaceId place) { r.copy(kThread, at, b, place); };

}  // namespace crashcut::inprocess
