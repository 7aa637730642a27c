// Call stack: which calls of the program led to the running code, by the tables that compilers leave for exceptions.
//
// A program may have put anything on its stack, and code without such tables ends what can be followed. The unwinder
//   then stops; where it faults, the stack is what it had found. Costs some microseconds, and two system calls.
// Threads: all of it is reentrant. The caller sees to it that libc's locks are not scheduled meanwhile.
#pragma once

#include <cstdint>

namespace crashcut::inject {

// Where the calls return to, innermost first, none of this library's own: the first `most` of them. Returns how many.
// `frames`: what is on the stack of the function that made the call.
struct StackFrame {
  std::uint64_t begin, end;
};
std::uint32_t unwind(std::uint64_t* calls, std::uint32_t most, StackFrame* frames = nullptr);

}  // namespace crashcut::inject
