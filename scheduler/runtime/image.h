// Image: the program's memory just before main(), and the way back to it.
//
// Held: every private writable mapping (data of the program and its libraries, libc's own, main's thread-local
//   storage, the used part of main's stack) but for the runtime's own, the heap (heap.cc) and fibers' stacks.
// Not held: anything that the kernel knows of the process: an execution that asks for that is the last of its process
//   (gate.h). Copying all is cheaper here than asking which pages changed: it is some hundred kilobytes.
#pragma once

#include <cstdint>

namespace crashcut::scheduler::runtime {

// False where it is too large or the system does not tell what is needed.
bool save_image();
// Call on a stack that is not the program's.
void restore_image();
// A hash of all that the program can write but for the running actor's stack; 0 where there is no image or it is too
// large.
std::uint64_t hash_memory();

}  // namespace crashcut::scheduler::runtime
