// Regions: memory that hosts share. A region has a name, and one address on all hosts.
//
// Coherent: what one host has written, all others read. It survives every host. It begins as crashcut_setup() left it,
//   else with zeroes, or with garbage if that was asked for, in every execution.
// Where a model of memory has the regions (buffers.h), these bytes are only how they begin, and hold libc's objects;
// the
//   program cannot access them. Else they are the memory itself. Pages of a region that the program has not asked for
//   are not accessible.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scheduler/runtime/protocol.h"

namespace crashcut::scheduler::runtime {

// The runtime's own view of the regions, at one address on all hosts.
inline constexpr std::uint64_t kViewAt = 0x160000000000;
// An object of libc's, a mutex or the like, as the runtime may touch it, wherever it lies.
template <class T>
T* own_view(T* object) {
  const auto address = reinterpret_cast<std::uint64_t>(object);
  return is_in_region(address) ? reinterpret_cast<T*>(address - kRegionsAt + kViewAt) : object;
}

// Maps the regions; the descriptor is that of the worker's memory. False if the system refuses.
bool map_regions(int control_fd);
// The region of that name; null if there is no room, or if it has fewer bytes. The first call decides how large it is.
void* open_region(const char* name, std::size_t bytes);
// Whether all of the bytes are in one region that a program has asked for.
bool is_in_open_region(std::uint64_t address, std::size_t bytes);
// The same for a region that may grow: makes accessible what lies between.
void* open_growing_region(const char* name, std::uint64_t begin, std::uint64_t end);
inline constexpr std::uint64_t kGrowingMost = std::uint64_t{1} << 30;
// Null if there is none.
Names::Region* find_region(const char* name);
// The region that has the address; null if there is none.
Names::Region* find_region_at(std::uint64_t address);
// What is special about the memory at this address (Control::region_rules); null: nothing.
const Control::RegionRule* find_region_rule(std::uint64_t address);
// What the regions hold now is how they begin.
void keep_start();
// Every region is as it began.
void restore_regions();
// Calls visit() with what was written to. False if that is too much to look at.
bool for_each_region(void (*visit)(const char* begin, const char* end));

}  // namespace crashcut::scheduler::runtime
