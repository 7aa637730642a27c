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
// Does not model: threads. A program that has regions and starts a thread is refused.
// Threads: the model's lock.
#pragma once

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
inline constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 40;

using inject::Call;

inline bool is_in_window(std::uint64_t address) { return address - kWindowBegin < kWindowBytes; }
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
// Whether all of the bytes are in one region.
bool is_in_region(std::uint64_t address, std::size_t bytes);
// "pool+0x40"
std::string describe_address(std::uint64_t address);
// The texts of the places of a recording: "{/path/of/file+0x1234}", which the command turns into source lines.
void name_places(const Places& places, std::vector<std::string>& names);
std::string name_place(std::uint64_t code);

// --- files.cc: files of the modelled disk that are persistent memory.
// Whether mmap() of the descriptor with these flags makes a region. Call in the model, as the rest.
bool is_region_mapping(int fd, long flags);
long map_region(Call& call);
// Calls before the file model does them: fsync() flushes the region too; read() and write() of it are refused.
void prepare_file_call(const Call& call);
// munmap(), msync(), mprotect() and madvise() of a range that begins in the window. False: another call.
bool do_range_call(Call& call);

// --- accesses.cc: the program's accesses, as the model does them. The bytes are in regions. Call in the model.
void load_memory(std::uint64_t address, std::span<std::byte> out, const void* code);
// clwb of every line that was used in the range, and sfence.
void flush_memory(std::uint64_t begin, std::uint64_t end, const void* code);
void copy_to_memory(std::uint64_t address, std::span<const std::byte> bytes, const void* code);

// --- waiting.cc: a load of a recovery that decided nothing, in a single run.
void note_repeated_load(std::uint64_t address, std::span<const std::byte> bytes, const void* code);

// A system call begins, or ends: what it records comes after the fences of the program.
void begin_call_after_fences();
void end_call_after_fences();

}  // namespace crashcut::inprocess
