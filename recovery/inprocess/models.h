// Models: the lines of the library's table of models that are made here.
#pragma once

#include "inject/model.h"

namespace crashcut::inprocess {

extern const inject::Model kMemoryModel, kProcessModel, kFileModel;

// --- process_calls.cc: every system call comes to us from now on. False where the kernel lacks syscall user dispatch.
bool start_dispatch();
// --- entry.cc
void start_files(char** envp);
// --- memory/calls.cc: a call with addresses of persistent memory.
inject::Fate do_memory_call(inject::Call& call, ucontext_t& context);
// --- server.cc: this recovery is the last of its process.
void spend_series();

}  // namespace crashcut::inprocess
