// Verdict: what a search says of a program; Bound: what ended it before everything was tried.
#pragma once

#include <string_view>

namespace crashcut::result {

enum class Verdict {
  kVerified,   // everything was tried, under the named model and bounds, and nothing failed
  kViolation,  // something failed
  kBounded,    // nothing failed, and not everything was tried
};

std::string_view to_text(Verdict verdict);
// 0, 1 or 3.
int exit_code(Verdict verdict);

enum class Bound {
  kNone,
  kRecoveries,
  kExecutions,
  kTime,
  kTimeInProgram,
  kInterrupt,
  kMemory,
  kNotRun,
  kEnoughFound,
  kNotDeterministic,
  kProgramLimit,
  kSteps,
  kPreemptions,
  kTimeouts,
  kCutShort,
  kNotRepeatable,
  kWork,
  kUnseenAtomics,
};

// For reports that programs read: "max_recoveries". Empty for kNone.
std::string_view name_of(Bound bound);
// A clause: "--max-recoveries was reached". Empty for kNone.
std::string_view clause_of(Bound bound);
// Whether the search stopped somewhere in the middle, so that an estimate says how much of the whole was done.
bool is_partial(Bound bound);

}  // namespace crashcut::result
