// Code: the machine code of an ELF file, decoded function by function, so that data among it is not taken for code.
//
// What it looks for: instructions by which threads may meet without a call that crashcut schedules (Site, protocol.h).
// Functions are those of the unwind tables and of the symbols; code that has neither is not looked at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "scheduler/runtime/protocol.h"

namespace crashcut::recovery {

// Sorted by address; addresses are the file's. Empty where there are none, or the file is not to be read. Of each file
// once in a process, by any thread.
const std::vector<scheduler::runtime::Site>& sites_of(const std::string& file);

struct CallSite {
  std::uint64_t address = 0;  // that the call returns to
  bool follows = false;       // the code runs on to it from the call before it
};
// The calls between two addresses that calls return to, these two among them. Empty where that is no code.
std::vector<CallSite> calls_between(const std::string& file, std::uint64_t first, std::uint64_t last);

// Whether a function leaves to chance what is in the register of results: every way out of it comes from a library's
// function, or, as g++ without optimisation marks it, from the end of a function without a result.
bool leaves_no_result(const std::string& file, std::uint64_t function);

}  // namespace crashcut::recovery
