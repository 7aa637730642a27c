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
#include "recovery/inprocess/memory/stuck.h"
#include "recovery/inprocess/memory/threaded.h"
#include "recovery/inprocess/runtime.h"
#include "scheduler/runtime/regions.h"

namespace crashcut::inprocess {

inline constexpr std::size_t kPieceBytes = 1024;  // copies go through a buffer on the stack

inline std::uint64_t number_of(const void* at) { return reinterpret_cast<std::uint64_t>(at); }

// While our own code runs. One thread runs at a time: there is nobody to lock out.
class OwnCode {
 public:
  OwnCode() {
    if (inject::t_is_own_code) [[unlikely]]
      user_error(
          "a signal handler touched persistent memory while the program did, which crashcut pmem does not model");
    inject::t_is_own_code = true;
    if (g.slot != nullptr) g.slot->in_runtime.store(1, std::memory_order_relaxed);
  }
  ~OwnCode() {
    if (g.slot != nullptr) g.slot->in_runtime.store(0, std::memory_order_relaxed);
    inject::t_is_own_code = false;
    if (g_is_held) [[unlikely]]
      hold_after_operation();
  }
};

// A wild address of the window: the program dies as it would without us.
void touch_wild(std::uint64_t address, std::size_t bytes);

// The memory of threads that are scheduled; null if there are none.
inline ThreadedMemory* threaded() {
  return g_threaded != nullptr && scheduler::runtime::is_scheduling() ? g_threaded : nullptr;
}
// The recorder's number of the thread that runs.
inline pmem::ThreadId own_thread() { return threaded() == nullptr ? 0 : g_threaded->own_thread(); }
// Whether an access of instrumented code may be more than one of ordinary memory.
inline bool needs_model(const void* at) { return is_in_window(at) || (g_watches_all && threaded() != nullptr); }

// Memory that machines share, before they run: what crashcut_setup() writes is how it begins. Null: another address.
inline std::byte* setup_memory(std::uint64_t address) {
  return scheduler::runtime::is_in_region(address) ? scheduler::runtime::own_view(reinterpret_cast<std::byte*>(address))
                                                   : nullptr;
}

inline bool is_recording() { return g.model != nullptr && g.model->memory != nullptr; }
inline pmem::Recorder& recorder() { return *g.model->memory; }
inline pmem::PlaceId place_of(const void* code) { return g.model->places.number_of(code); }

// A load that asked is told in the story. Call if g.narrating, after the load.
void narrate_load(std::uint64_t address, std::span<const std::byte> bytes, const void* code);

// A locked instruction on ordinary memory has been executed (flushes.cc).
void fence_for_locked(const void* code);

// A load of a recovery that is not recorded: decides what survived. Call in the model.
inline void load_after_crash(std::uint64_t address, std::span<std::byte> out, const void* code) {
  g_load_code = code;
  g_explorer->memory()->load(address, out);
  if (g.narrating) narrate_load(address, out, code);
}

// For a caller whose address is checked, in the model.
inline void load_checked(std::uint64_t address, std::span<std::byte> out, const void* code) {
  if (ThreadedMemory* threads = threaded()) return threads->load(address, out, false, code);
  if (std::byte* shared = setup_memory(address)) {
    std::memcpy(out.data(), shared, out.size());
    return;
  }
  if (!is_recording()) return load_after_crash(address, out, code);
  g_load_code = code;
  recorder().load(0, address, out);
  if (g.narrating && g_phase == Phase::kRecovering) narrate_load(address, out, code);
}

inline void load_region(const void* at, void* to, std::size_t bytes, const void* code, bool is_atomic = false) {
  const std::uint64_t address = number_of(at);
  if (is_in_window(at) && !is_in_region(address, bytes)) return touch_wild(address, bytes);
  if (ThreadedMemory* threads = threaded())
    return threads->load(address, {static_cast<std::byte*>(to), bytes}, is_atomic, code);
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

// `record(recorder, bytes, place)` is how the recorder hears of it where threads are not scheduled.
template <class Record>
void store_region(void* at, std::span<const std::byte> bytes, ThreadedMemory::Kind kind, bool is_atomic,
                  const void* code, const Record& record) {
  const std::uint64_t address = number_of(at);
  if (is_in_window(at) && !is_in_region(address, bytes.size())) return touch_wild(address, bytes.size());
  if (ThreadedMemory* threads = threaded()) return threads->store(address, bytes, kind, is_atomic, code);
  const OwnCode own;
  if (std::byte* shared = setup_memory(address)) {
    std::memcpy(shared, bytes.data(), bytes.size());
  } else if (is_recording()) {
    record(recorder(), address, bytes, place_of(code));
  } else {
    g_explorer->memory()->overwrite(address, bytes);
  }
}
inline void store_region(void* at, std::span<const std::byte> bytes, const void* code, bool is_atomic = false) {
  store_region(at, bytes, ThreadedMemory::Kind::kStore, is_atomic, code,
               [is_atomic](pmem::Recorder& r, std::uint64_t to, std::span<const std::byte> b, pmem::PlaceId place) {
                 // Atomic ones no compiler tears.
                 r.store(0, to, b, place, is_atomic ? pmem::StoreForm::kWhole : pmem::StoreForm::kPlain);
               });
}
inline void copy_region(void* at, std::span<const std::byte> bytes, const void* code) {
  store_region(at, bytes, ThreadedMemory::Kind::kCopy, false, code,
               [](pmem::Recorder& r, std::uint64_t to, std::span<const std::byte> b, pmem::PlaceId place) {
                 r.copy(0, to, b, place);
               });
}

}  // namespace crashcut::inprocess
