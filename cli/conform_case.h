// ConformCase: a program that crashcut conform runs on the model and on the kernel.
//
// Two kinds: sequences of calls (recovery/kernel/workloads.h), run by conform/calls, which also says what it finds; and
//   any program with main() and crashcut_recover(), of which conform/recover.so calls the latter on a mounted disk.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "cli/program.h"
#include "recovery/kernel/states.h"
#include "recovery/result/failure.h"

namespace crashcut::cli {

// What to compare, as typed.
struct ConformSets {
  bool is_seq1 = false;
  std::uint32_t seq2_count = 0, random_count = 0, limit = 0, step = 1;
  std::uint64_t seed = 0;
  std::string litmus;                 // a directory of programs in C
  std::vector<std::string> programs;  // with arguments, in words
  std::vector<std::string> calls;     // one sequence by hand
};

struct ConformCase {
  std::string set;                 // "seq-1": a row of the table
  std::string text;                // what a person can type: "--call creat:foo sync", "--program 'save.c notes'"
  std::vector<std::string> words;  // the same, to be typed by a program
  std::string executable;
  std::vector<std::string> kernel_arguments, model_arguments;
  kernel::Looking looking;
  std::string operation;  // the last one of a sequence of calls
};

struct ConformCases {
  std::vector<ConformCase> cases;  // those of one set beside each other
  std::vector<Program> compiled;   // what the cases run; lives as long as they do
};
// Programs are compiled, which takes a while. Nothing once `should_stop` says yes.
tl::expected<std::optional<ConformCases>, result::Failure> cases_of(const ConformSets& sets,
                                                                    const std::function<bool()>& should_stop = {});
// The one program that the words of a case name. Throws nothing: wrong words are a failure.
tl::expected<ConformCases, result::Failure> case_of(const std::vector<std::string>& words);

}  // namespace crashcut::cli
