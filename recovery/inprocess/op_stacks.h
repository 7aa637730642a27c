// OpStacks: which calls of the program led to each operation of an execution, for reports.
//
// Operations in a loop have equal stacks, which are kept once.
// Threads: the model's lock is held.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace crashcut::inprocess {

// Where calls return to, innermost first; 0 behind the last.
using CallSites = std::array<std::uint64_t, 16>;

class OpStacks {
 public:
  // Of the operation with this number; the last one counts.
  void note(std::size_t operation, const CallSites& calls);
  // Makes texts of addresses, while the files that they lie in are still loaded.
  void name();
  // "{/path/of/file+0x12f4}{...}"; empty: it is not known.
  const std::string& text_of(std::size_t operation) const;

 private:
  std::vector<std::uint32_t> of_operation_;  // index into texts_ + 1; 0: not known
  std::map<CallSites, std::uint32_t> numbers_;
  std::vector<std::string> texts_;
};

// The calls that led to the system call that is being done.
const CallSites& current_calls();
// Finds them. On the program's stack, before the model's lock.
void find_current_calls();
std::string text_of_calls(const CallSites& calls);
// Of the operation that was begun last.
void note_op_stack();

}  // namespace crashcut::inprocess
