// Meetings: whether threads meet in atomic variables of code that is not instrumented, by instructions and not by
// calls.
//
// The instructions (Site, protocol.h) are found by crashcut, which decodes what is loaded. Here each of them begins
//   with a trap as long as it is not known that threads meet. The trap tells who touches which bytes; the instruction
//   itself is then run in a copy of it that lies elsewhere and goes back.
// Threads meet where two of them touch the same bytes, one of them by a locked instruction, and no call that is
//   scheduled orders the two (happens_before.h): then the order of these is a choice that nobody makes. And where one
//   side shows that there is another: a fence, a loop that pauses or yields, or an exchange or the like, whose other
//   side may be a plain load, in memory that no other thread was seen to touch while others live.
// Counts of references are locked additions, and commute: two of them are no meeting as long as neither tells the
//   count nor comes to zero. Who frees what was counted must come after all others: else the count tells who it is.
// Not watched: libc and the loader; what libstdc++ does to variables of its own, as counting references to the classic
// locale. Threads: one kernel thread.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>

namespace crashcut::scheduler::runtime {

// In the server: the traps are set, in all that is loaded. What is loaded later gets its own then.
void watch_meetings();
void begin_meetings();
void end_meetings();
// Another thread begins.
void expect_meetings();
// A trap: true where it was one of these, and the program goes on.
bool is_meeting_trap(ucontext_t& context);
// Where the program is, for an address in a copy.
std::uint64_t original_of(std::uint64_t pc);
// The running thread waits for a variable that is not seen: by a futex of its own, or in a loop.
void note_waiting();
// The running thread frees memory. Where it is told by a count that nobody uses it any more, all others have come
// before.
void note_end_of_memory(std::uint64_t address, std::size_t bytes);

}  // namespace crashcut::scheduler::runtime
