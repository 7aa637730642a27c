// Regions: memory that hosts share. A region has a name, and one address on all hosts.
//
// Coherent: what one host has written, all others read. It survives every host. It begins as crashcut_setup() left it,
//   else with zeroes, in every execution.
// Not modelled: caches, lost lines. Pages of a region that the program has not asked for are not accessible.
#pragma once

#include <cstddef>
#include <cstdint>

namespace crashcut::scheduler::runtime {

// Maps the regions; the descriptor is that of the worker's memory. False if the system refuses.
bool map_regions(int control_fd);
// The region of that name; null if there is no room, or if it has fewer bytes.
void* open_region(const char* name, std::size_t bytes);
// What the regions hold now is how they begin.
void keep_start();
// Every region is as it began.
void restore_regions();
// Calls visit() with what was written to. False if that is too much to look at.
bool for_each_region(void (*visit)(const char* begin, const char* end));

}  // namespace crashcut::scheduler::runtime
