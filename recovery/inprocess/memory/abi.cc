// What instrumented code calls (inject/instrument/abi.h), inside the library. The work is done behind accesses.h.
#include "inject/instrument/abi.h"

#include <errno.h>
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "inject/interpose.h"
#include "recovery/inprocess/memory/accesses.h"
#include "recovery/inprocess/memory/memory.h"
#include "recovery/inprocess/memory/region_access.h"
#include "recovery/inprocess/memory/scatter.h"
#include "recovery/inprocess/runtime.h"
#include "scheduler/runtime/loops.h"

#define CRASHCUT_EXPORT extern "C" __attribute__((visibility("default")))
#define CRASHCUT_CODE __builtin_return_address(0)

using crashcut::inprocess::g_threaded;
using crashcut::inprocess::is_in_window;
using crashcut::inprocess::needs_model;
using crashcut::inprocess::Scatter;

// Where threads are scheduled, an access that may be one of a loop notes the registers of the thread before anything
// else (scheduler/runtime/loops.h). So do loads of a recovery that may never end (stuck.h).
static bool notes_registers() { return g_threaded != nullptr || crashcut::inprocess::g_is_looking; }
#define CRASHCUT_NOTING(name, result, parameters, arguments)                                                         \
  extern "C" __attribute__((visibility("hidden"))) result crashcut_noting_##name parameters;                         \
  extern "C" __attribute__((visibility("hidden"), used)) result crashcut_noted_##name parameters {                   \
    return crashcut::inprocess::Memory::name arguments;                                                              \
  }                                                                                                                  \
  asm(".text\n.hidden crashcut_noting_" #name "\n.type crashcut_noting_" #name ", @function\ncrashcut_noting_" #name \
      ":\n" CRASHCUT_NOTE_REGISTERS "jmp crashcut_noted_" #name "\n")

CRASHCUT_NOTING(load1, std::uint8_t, (const void* at, const void* code), (at, code));
CRASHCUT_NOTING(load2, std::uint16_t, (const void* at, const void* code), (at, code));
CRASHCUT_NOTING(load4, std::uint32_t, (const void* at, const void* code), (at, code));
CRASHCUT_NOTING(load8, std::uint64_t, (const void* at, const void* code), (at, code));
CRASHCUT_NOTING(load, void, (const void* at, void* to, std::size_t bytes, const void* code), (at, to, bytes, code));
CRASHCUT_NOTING(atomic_load, void, (const void* at, void* to, std::size_t bytes, int order, const void* code),
                (at, to, bytes, order, code));
CRASHCUT_NOTING(atomic_store, void, (void* at, const void* from, std::size_t bytes, int order, const void* code),
                (at, from, bytes, order, code));

// The same for functions with so many arguments that some are on the stack, where a call of another one would add to
// it: they note the registers themselves, whether threads are scheduled or not.
#define CRASHCUT_EXPORT_NOTING(result, name)                                                      \
  asm(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n" CRASHCUT_NOTE_REGISTERS \
      "jmp crashcut_noted_" #name "\n.size " #name ", . - " #name "\n");                          \
  extern "C" __attribute__((visibility("hidden"), used)) result crashcut_noted_##name

namespace {

// For strings.inc too, which reads ordinary memory byte by byte.
struct Memory : crashcut::inprocess::Memory {
  using Base = crashcut::inprocess::Memory;
#define CRASHCUT_WIDTH(bytes, type)                                                                   \
  static type load##bytes(const void* at, const void* code) {                                         \
    if (needs_model(at))                                                                              \
      return notes_registers() ? crashcut_noting_load##bytes(at, code) : Base::load##bytes(at, code); \
    type value;                                                                                       \
    std::memcpy(&value, at, bytes);                                                                   \
    return value;                                                                                     \
  }                                                                                                   \
  static void store##bytes(void* at, type value, const void* code) {                                  \
    if (needs_model(at)) return Base::store##bytes(at, value, code);                                  \
    std::memcpy(at, &value, bytes);                                                                   \
  }
  CRASHCUT_WIDTH(1, std::uint8_t)
  CRASHCUT_WIDTH(2, std::uint16_t)
  CRASHCUT_WIDTH(4, std::uint32_t)
  CRASHCUT_WIDTH(8, std::uint64_t)
#undef CRASHCUT_WIDTH
};

// For heap.inc. What static constructors allocate is ordinary memory: it is the same after a crash.
struct Heap {
  static bool is_persistent() {
    using namespace crashcut::inprocess;
    return g.header != nullptr && g.header->has_memory != 0 && g.header->memory.has_heap && g.model != nullptr &&
           (g_phase == Phase::kExecuting || g_phase == Phase::kRecovering);
  }
  static void* allocate(std::size_t bytes, std::size_t alignment) {
    using namespace crashcut::inprocess;
    if (!is_persistent() || bytes > kWindowBytes || alignment > kWindowBytes) return nullptr;
    end_round();
    std::uint64_t block = 0;
    in_model([&] {
      block = g.model->heap.allocate(bytes, alignment, [](const std::string& name, std::uint64_t region_bytes) {
        return static_cast<std::uint64_t>(make_heap_region(name, region_bytes));
      });
    });
    return reinterpret_cast<void*>(block);
  }
  static bool holds(const void* block) { return is_in_window(block) && is_persistent(); }
  static void release(void* block) {
    using namespace crashcut::inprocess;
    auto freed = PersistentHeap::Freed::kUnknown;
    in_model([&] { freed = g.model->heap.free(reinterpret_cast<std::uint64_t>(block)); });
    if (freed == PersistentHeap::Freed::kYes) return;
    std::fputs(freed == PersistentHeap::Freed::kTwice ? "free(): double free of persistent memory\n"
                                                      : "free(): no block of the persistent heap\n",
               stderr);
    std::abort();
  }
  static std::size_t bytes_of(const void* block) {
    using namespace crashcut::inprocess;
    std::size_t bytes = 0;
    in_model([&] { bytes = g.model->heap.bytes_of(reinterpret_cast<std::uint64_t>(block)); });
    return bytes;
  }
};

}  // namespace

#include "inject/instrument/libraries.inc"

#define CRASHCUT_WIDTH(bytes, type)                                                                              \
  CRASHCUT_EXPORT type __crashcut_load##bytes(const void* at) { return Memory::load##bytes(at, CRASHCUT_CODE); } \
  CRASHCUT_EXPORT void __crashcut_store##bytes(void* at, type value) { Memory::store##bytes(at, value, CRASHCUT_CODE); }
CRASHCUT_WIDTH(1, std::uint8_t)
CRASHCUT_WIDTH(2, std::uint16_t)
CRASHCUT_WIDTH(4, std::uint32_t)
CRASHCUT_WIDTH(8, std::uint64_t)
#undef CRASHCUT_WIDTH

CRASHCUT_EXPORT void __crashcut_module(std::uint32_t abi, const char* when) {
  using namespace crashcut::inprocess;
  if (g.header == nullptr || (g.header->has_memory == 0 && g.header->has_shared_memory == 0)) return;
  if (crashcut::inject::schedules_threads()) crashcut::scheduler::runtime::g_is_instrumented = true;
  if (abi != CRASHCUT_INSTRUMENT_ABI) {
    user_error(
        fmt::format("the program was instrumented by another version of crashcut (interface {}, here it is {}): "
                    "compile it again",
                    abi, CRASHCUT_INSTRUMENT_ABI));
  }
  g.header->instrumentation |= std::strcmp(when, "late") == 0 ? kInstrumentedLate : kInstrumentedEarly;
}

CRASHCUT_EXPORT void __crashcut_load(const void* at, void* to, std::size_t bytes) {
  notes_registers() ? crashcut_noting_load(at, to, bytes, CRASHCUT_CODE) : Memory::load(at, to, bytes, CRASHCUT_CODE);
}
CRASHCUT_EXPORT void __crashcut_store(void* at, const void* from, std::size_t bytes) {
  Memory::store(at, from, bytes, CRASHCUT_CODE);
}
CRASHCUT_EXPORT void __crashcut_store_lanes(void* at, const void* from, std::size_t lane_bytes, std::uint64_t lanes) {
  Memory::store_lanes(at, from, lane_bytes, lanes, CRASHCUT_CODE);
}
CRASHCUT_EXPORT void __crashcut_scatter(void* const* to, const void* from, std::size_t lane_bytes,
                                        std::uint64_t lanes) {
  Scatter scatter(CRASHCUT_CODE);
  const auto* lane = static_cast<const std::byte*>(from);
  for (; lanes != 0; ++to, lane += lane_bytes, lanes >>= 1) {
    if ((lanes & 1) != 0) scatter.store(*to, lane, lane_bytes);
  }
  scatter.finish();
}
CRASHCUT_EXPORT void __crashcut_load_lanes(const void* at, void* to, std::size_t lane_bytes, std::uint64_t lanes) {
  Memory::load_lanes(at, to, lane_bytes, lanes, CRASHCUT_CODE);
}
CRASHCUT_EXPORT void __crashcut_atomic_load(const void* at, void* to, std::size_t bytes, int order) {
  notes_registers() ? crashcut_noting_atomic_load(at, to, bytes, order, CRASHCUT_CODE)
                    : Memory::atomic_load(at, to, bytes, order, CRASHCUT_CODE);
}
CRASHCUT_EXPORT void __crashcut_atomic_store(void* at, const void* from, std::size_t bytes, int order) {
  notes_registers() ? crashcut_noting_atomic_store(at, from, bytes, order, CRASHCUT_CODE)
                    : Memory::atomic_store(at, from, bytes, order, CRASHCUT_CODE);
}
CRASHCUT_EXPORT_NOTING(void, __crashcut_rmw)
(int operation, void* at, const void* operand, void* old, std::size_t bytes, int order) {
  Memory::rmw(operation, at, operand, old, bytes, order, CRASHCUT_CODE);
}
CRASHCUT_EXPORT_NOTING(int, __crashcut_cmpxchg)
(void* at, void* expected, const void* desired, std::size_t bytes, int order, int failure_order) {
  return Memory::cmpxchg(at, expected, desired, bytes, order, failure_order, CRASHCUT_CODE);
}
CRASHCUT_EXPORT void __crashcut_store_nt(void* at, const void* from, std::size_t bytes, int is_whole) {
  Memory::store_nt(at, from, bytes, is_whole, CRASHCUT_CODE);
}
CRASHCUT_EXPORT void* __crashcut_memcpy(void* to, const void* from, std::size_t bytes) {
  Memory::memmove(to, from, bytes, CRASHCUT_CODE);
  return to;
}
CRASHCUT_EXPORT void* __crashcut_memmove(void* to, const void* from, std::size_t bytes) {
  Memory::memmove(to, from, bytes, CRASHCUT_CODE);
  return to;
}
CRASHCUT_EXPORT void* __crashcut_memset(void* to, int value, std::size_t bytes) {
  Memory::memset(to, value, bytes, CRASHCUT_CODE);
  return to;
}
CRASHCUT_EXPORT void __crashcut_clflush(const void* at) { Memory::clflush(at, CRASHCUT_CODE); }
CRASHCUT_EXPORT void __crashcut_clflushopt(const void* at) { Memory::clflushopt(at, CRASHCUT_CODE); }
CRASHCUT_EXPORT void __crashcut_clwb(const void* at) { Memory::clwb(at, CRASHCUT_CODE); }
CRASHCUT_EXPORT void __crashcut_sfence(void) { Memory::sfence(CRASHCUT_CODE); }
CRASHCUT_EXPORT void __crashcut_mfence(void) { Memory::mfence(CRASHCUT_CODE); }

// ---- libpmem's mappings: a region that has the file's path for a name. There is no file: what else the program does
// with the path is about a file of the modelled disk.

CRASHCUT_EXPORT void* __crashcut_pmem_map_file(const char* path, std::size_t bytes, int flags, mode_t,
                                               std::size_t* mapped_bytes, int* is_pmem) {
  using namespace crashcut::inprocess;
  enum { kCreate = 1, kExclusive = 2, kTemporary = 8 };
  if (g.header == nullptr || g.header->has_memory == 0) {
    errno = ENOTSUP;
    return nullptr;
  }
  if ((flags & kTemporary) != 0) unsupported("pmem_map_file(PMEM_FILE_TMPFILE)");
  long at = 0;
  std::uint64_t size = bytes;
  in_model([&] {
    const std::uint64_t known = region_bytes(path);
    if ((flags & kCreate) == 0) size = known;
    at = size == 0 ? -ENOENT : known != 0 && (flags & kExclusive) != 0 ? -EEXIST : open_region(path, size);
  });
  if (at < 0) {
    errno = static_cast<int>(-at);
    return nullptr;
  }
  if (mapped_bytes != nullptr) *mapped_bytes = size;
  if (is_pmem != nullptr) *is_pmem = 1;
  return reinterpret_cast<void*>(at);
}
CRASHCUT_EXPORT int __crashcut_pmem_unmap(void*, std::size_t) { return 0; }
CRASHCUT_EXPORT int __crashcut_pmem_is_pmem(const void* at, std::size_t) { return is_in_window(at) ? 1 : 0; }
CRASHCUT_EXPORT int __crashcut_pmem_msync(const void* at, std::size_t bytes) {
  __crashcut_pmem_persist(at, bytes);
  return 0;
}
