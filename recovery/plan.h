// Plan: what is to be checked, under which model, and how far to go.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fusefs/profile.h"
#include "pmem/model.h"
#include "recovery/search/plan.h"

namespace crashcut::recovery {

// How long main() and one recovery may take where nothing else was asked for.
inline constexpr std::chrono::seconds kMainLimit{60};
inline constexpr std::chrono::seconds kRecoveryLimit{10};

// Its bounds say how much is explored, not what a recovery is, so a token does not hold them.
struct Plan : search::Plan {
  std::string named;                   // the executable, or the source it is made from, as typed
  std::string program;                 // the same, absolute
  std::string program_id;              // its build id, or a checksum
  std::string executable;              // what is run
  std::vector<std::string> arguments;  // argv[1] on
  std::string from_named;              // the directory that the disk starts as; empty: an empty one
  std::string from_directory;          // the same, absolute
  fusefs::ModelOptions model;
  bool expects_prefix = false;              // of what recoveries print (inprocess/prefixes.h)
  std::optional<pmem::MemoryModel> memory;  // there is persistent memory: crashcut pmem
  std::uint32_t notes = 0;                  // pmem::NoteKind bits: crashcut pmem --notes
  bool traps = false;                       // accesses of code that is not instrumented: crashcut pmem --trap
  std::chrono::seconds main_limit = kMainLimit;
  std::chrono::seconds recovery_limit = kRecoveryLimit;
  int main_stdout_fd = -1, main_stderr_fd = -1;  // -1: ours
  std::uint64_t memory_limit = 0;                // in bytes, of all processes
  std::string runtime;                           // path of libcrashcut_runtime.so
  std::string crashcut = "crashcut";             // how the user calls us, for commands to paste
};

}  // namespace crashcut::recovery
