// Bound: what ended a search before everything was tried. Every search says it by these names;
// recovery/result/verdict.h has the words.
#pragma once

namespace crashcut::persist {

enum class Bound {
  kNone,
  kRecoveries,
  kExecutions,
  kTime,
  kTimeInProgram,
  kInterrupt,
  kMemory,
  kMemoryInProgram,
  kNotRun,
  kEnoughFound,
  kNotDeterministic,
  kProgramLimit,
  kRecordingCut,
  kSteps,
  kPreemptions,
  kTimeouts,
  kCutShort,
  kNotRepeatable,
  kWork,
  kUnseenAtomics,
  kKernel,
};

}  // namespace crashcut::persist
