// Pipes, eventfds and epoll within the program: operations of the scheduler (primitives/channel.h). Descriptors that
// lead outside of the program, such as those that it was started with, are polled at once and never waited for.
#pragma once

namespace crashcut::scheduler::runtime {

enum class Answer { kNotOurs, kDone, kCancelled };

// A system call of the program. `result` is a negative errno on failure. `a` may be changed for the kernel.
Answer do_channel_call(long number, long* a, const void* caller, long& result);
// The execution is over.
void end_channels();

}  // namespace crashcut::scheduler::runtime
