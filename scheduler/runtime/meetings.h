// Meetings: whether threads communicate by atomic variables of code that is not instrumented. They "meet" if they do.
//
// crashcut decodes the code that is loaded and finds the instructions (Site, protocol.h). Until threads are known to
//   meet, each of these instructions begins with a trap. The trap shows which thread touches which bytes; then a copy
//   of the instruction is run elsewhere, and the program goes on behind the original.
// Threads meet if two of them touch the same bytes, one of them by a locked instruction, and no scheduled call orders
//   the two accesses (happens_before.h): then the search does not control their order. They are also taken to meet if
//   one side shows that there must be another one: a fence, a loop that pauses or yields, or an exchange or the like in
//   memory that no other thread was seen to touch while others live (the other side may be a plain load).
// Reference counts are locked additions, which commute: two of them are no meeting as long as neither returns the count
//   nor reaches zero. The thread that frees the counted object must come after all others; else the count decides which
//   thread that is.
// Not watched: libc and the loader; what libstdc++ does to variables of its own, as counting references to the classic
// locale. Threads: one kernel thread.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace crashcut::scheduler::runtime {

// In the server: sets the traps in all code that is loaded. Code that is loaded later gets its traps then.
void watch_meetings();
void begin_meetings();
void end_meetings();
// Another thread begins.
void expect_meetings();
// After a trap: true if it was one of these; then the program goes on.
bool is_meeting_trap(ucontext_t& context);
// For an address in a copy of an instruction: the address in the program.
std::uint64_t original_of(std::uint64_t pc);
// The running thread waits for a variable that crashcut does not see: by a futex of its own, or in a loop.
void note_waiting();
// The running thread frees memory. If it knows by a reference count that nobody uses the memory any more, the accesses
// of all other threads came before.
void note_end_of_memory(std::uint64_t address, std::size_t bytes);

}  // namespace crashcut::scheduler::runtime
