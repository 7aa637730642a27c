// FreshStack: what the kernel puts on the stack of a program that was just executed, made the same in every run, before
// the program's first instruction.
//
// Random bytes (AT_RANDOM) are fixed: the stack protector, the pointer guard and seeds of hash tables come from them.
// The vDSO is hidden (AT_SYSINFO_EHDR), which tells the time without a system call.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace crashcut::inprocess {

// Variables to add to the environment so that the stack begins at the same address whatever else is in it. The library
// takes them out again (inject::kPaddingName).
std::vector<std::string> stack_padding(const std::string& program, const std::vector<char*>& argv,
                                       const std::vector<char*>& envp);

// In the child, before it executes the program. False where it may not be traced.
bool ask_to_be_traced();
// In the parent: waits for the program's first instruction, makes the stack the same, and lets the program go on
// untraced. False where the child has ended before.
bool fix_fresh_stack(pid_t child);

}  // namespace crashcut::inprocess
