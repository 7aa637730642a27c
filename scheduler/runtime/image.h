// Image: the program's memory just before main(), and the way back to it.
//
// Held: what inject::Snapshot holds, outside of the runtime's own memory, and the heap (heap.cc). The stacks of fibers
//   are cleared.
// Not held: what the kernel knows of the process. An execution that changes that is the last one of its process
// (gate.h).
#pragma once

#include <cstdint>

namespace crashcut::scheduler::runtime {

// In the server, once, before runners are forked.
void prepare_image();
// In a runner, just before main(). False if the process cannot go back to this image.
bool save_image(bool is_restoring);
// Call on a stack of the runtime's own.
void restore_image();
// A hash of all that the program can write, except for the running actor's stack; 0 if it is not known or too large.
std::uint64_t hash_memory();

}  // namespace crashcut::scheduler::runtime
