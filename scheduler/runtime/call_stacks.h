// Call stacks: which calls of the program led to a step, for reports. Taken only where an execution is told in words
// (Control::has_texts): the stack is unwound by the tables that compilers leave for exceptions.
//
// Also which files that code was loaded from. Code without such tables ends a stack.
#pragma once

#include "scheduler/runtime/protocol.h"

struct link_map;

namespace crashcut::scheduler::runtime {

// Where the running actor's calls return to, innermost first; none of this library's own code.
CallStack call_stack();

// Where a loaded file's memory ends; 0 if that cannot be told.
std::uint64_t end_of_memory(const link_map& map);
// The file; empty: it has no name, or a longer one than fits.
std::string_view path_of(const link_map& map, char (&room)[kPathMost]);

}  // namespace crashcut::scheduler::runtime
