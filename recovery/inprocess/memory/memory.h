// Persistent memory inside the program: where its regions are, and how accesses to them reach the model.
//
// Regions lie in one window of addresses that nothing else uses, the same in every process. The program cannot touch
//   the window: instrumented code calls the functions of inject/instrument/abi.h, which ask the model (abi.cc); what a
//   system call passes is copied to and fro (calls.cc); any other access faults, and the run ends with a sentence that
//   names the library. So no access is missed. The bytes are the model's: those that main() stored are in its
//   recording, those that a recovery finds are in its view of the crash.
// main() is recorded. A recovery loads from pmem::CrashView, which decides what survived. Its stores overwrite the
//   view, or are recorded on top of it where they may be crashed too.
// A region is there, all zero, before anything happens: making it is no event. Its address depends on its name and on
//   the regions that were made before it.
// Threads: those of main() and of recoveries are scheduled (threaded.h, recovery_threads.h). Where they are not, a
//   program that has regions and starts a thread is told so.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inject/call.h"
#include "pmem/line_table.h"
#include "recovery/inprocess/memory/places.h"
#include "recovery/inprocess/recorded.h"

namespace crashcut::inprocess {

// Neither the kernel nor a sanitizer puts anything here.
inline constexpr std::uint64_t kWindowBegin = 0x2000'0000'0000;
inline constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 40;  // persistent_locks.h knows both numbers

using inject::Call;

// Modelled memory: this window, and the regions that machines share (scheduler/runtime/regions.h) below it. Nothing of
// the program's own lies between them.
inline constexpr std::uint64_t kModelledBegin = 0x1400'0000'0000;
inline bool is_in_window(std::uint64_t address) {
  return address - kModelledBegin < kWindowBegin + kWindowBytes - kModelledBegin;
}
inline bool is_in_window(const void* at) { return is_in_window(reinterpret_cast<std::uint64_t>(at)); }

// --- regions.cc
// Reserves the window, if the run is about persistent memory.
void start_memory();
// crashcut_pmem(): the address of the region, which is made if there is none of this name. Call in the model.
long open_region(std::string_view name, std::uint64_t bytes);
bool has_regions();
// As it was asked for; 0: there is no such region.
std::uint64_t region_bytes(std::string_view name);
// The same for a file of the modelled disk: as large as is asked for first. `name` is for reports.
const NamedRegion& open_file_region(std::uint64_t file, const std::string& name, std::uint64_t bytes);
// A region of the heap (heap.h), which no name leads to.
inline constexpr std::uint64_t kHeapFile = UINT64_MAX;
long make_heap_region(const std::string& name, std::uint64_t bytes);
const NamedRegion* find_file_region(std::uint64_t file);
// Whether all of the bytes are in one region. The one that was used last is looked at first.
extern constinit pmem::Region g_last_region;
bool find_in_regions(std::uint64_t address, std::size_t bytes);
inline bool is_in_region(std::uint64_t address, std::size_t bytes) {
  const std::uint64_t offset = address - g_last_region.begin;  // wraps around below the region
  if (offset >= g_last_region.bytes) [[unlikely]]
    return find_in_regions(address, bytes);
  return bytes <= g_last_region.bytes - offset;
}
// "pool+0x40"
std::string describe_address(std::uint64_t address);
// The texts of the places of a recording: "{/path/of/file+0x1234}", which the command turns into source lines.
void name_places(const Places& places, std::vector<std::string>& names);
std::string name_place(std::uint64_t code);

// --- files.cc: files of the modelled disk that are persistent memory.
// Whether mmap() of the descriptor with these flags makes a region. Call in the model, as the rest.
bool is_region_mapping(int fd, long flags);
long map_region(Call& call);
// Calls before the file model does them: fsync() flushes the region too; write() of it is refused.
void prepare_file_call(const Call& call);
// read() and pread() of such a file. False: another call.
bool read_file_region(Call& call, ucontext_t& context);
// munmap(), msync(), mprotect() and madvise() of a range that begins in the window. False: another call.
bool do_range_call(Call& call);

// --- region_access.cc, flushes.cc: accesses of the program's system calls. The bytes are in regions. Call in the
// model.
void load_memory(std::uint64_t address, std::span<std::byte> out, const void* code);
// clwb of every line that was used in the range, and sfence.
void flush_memory(std::uint64_t begin, std::uint64_t end, const void* code);
void copy_to_memory(std::uint64_t address, std::span<const std::byte> bytes, const void* code);

// --- waiting.cc: a load of a recovery that decided nothing, in a single run.
void note_repeated_load(std::uint64_t address, std::span<const std::byte> bytes, const void* code);
// In a single run: the recovery waits for good for a lock ("mutex") at that address.
void note_endless_wait(std::string_view what, std::uint64_t address, const void* code);

// A system call begins, or ends: what it records comes after the fences of the program.
void begin_call_after_fences();
void end_call_after_fences();
// The operation that began last is a mark of this thread.
void note_thread_of_mark();

}  // namespace crashcut::inprocess
