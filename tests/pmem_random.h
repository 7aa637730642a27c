// Programs of tests/pmem_program.h as arguments of tests/pmem/random.c, and what its recovery prints.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/pmem_program.h"

namespace crashcut::tests {

// Its operations, behind how many lines there are.
inline void add_program(std::vector<std::string>& words, const PmemProgram& program) {
  words.push_back(std::to_string(program.lines));
  for (std::size_t t = 0; t < program.threads.size(); ++t) {
    if (t > 0) words.emplace_back("/");
    for (const PmemOp& op : program.threads[t]) {
      std::string text;
      for (const int part :
           {static_cast<int>(op.kind), op.address, op.bytes, op.value, op.expected, op.is_loaded ? 1 : 0})
        text += (text.empty() ? "" : ",") + std::to_string(part);
      words.push_back(text);
    }
  }
}

// A mark is reached or not; the machine counts.
inline std::set<std::string> printed_outcomes(const PmemProgram& program, const std::set<PmemOutcome>& outcomes) {
  std::set<std::string> printed;
  for (const PmemOutcome& outcome : outcomes) {
    std::string text;
    for (int i = 0; i < 3 * PmemProgram::kBytesPerLine; ++i)
      text += std::to_string(i < program.persistent_bytes()
                                 ? static_cast<unsigned char>(outcome[static_cast<std::size_t>(i)])
                                 : 0) +
              " ";
    printed.insert(text + (program.marks > 0 && outcome.back() != 0 ? "1" : "0"));
  }
  return printed;
}

}  // namespace crashcut::tests
