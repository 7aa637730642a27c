// SourceLines: the calls of the program that led to the operations of its recording, by their lines in its source.
//
// The trace has them as addresses in files. A file that is another one by now, by its build id or its age, tells
// nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "fusefs/trace.h"
#include "recovery/result/result.h"
#include "recovery/source/names.h"

namespace crashcut::mounted {

class SourceLines {
 public:
  // None are looked up from `end` on.
  SourceLines(const fusefs::TraceReader& trace, std::chrono::steady_clock::time_point end);

  void add_to(result::Story& story);
  void add_to(result::States& states) { add_to(states.operations); }

 private:
  void add_to(std::vector<result::Operation>& operations);

  std::vector<std::uint32_t> stack_of_;  // by operation; into texts_; empty: no operation has any
  std::vector<std::string> texts_;       // "{/path/of/file+0x12f4}{...}"
  source::Names names_;
};

}  // namespace crashcut::mounted
