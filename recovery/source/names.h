// Names: what addresses in the code and data of a program's files are called in its source.
//
// Addresses are those that the file has, before it was loaded somewhere.
// Files are read by libdw in a process of its own, which is started when it is first needed. A damaged or hostile file
//   may kill that process or keep it busy: then nothing is known of this file, and another process reads the others.
// Time: an answer takes no longer than kAnswerMost, and none comes once `is_late` says yes, which is asked some times a
//   second.
// Threads: one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "recovery/result/story.h"

namespace crashcut::source {

using result::SourceLine;

inline constexpr std::chrono::seconds kAnswerMost{20};

class Names {
 public:
  explicit Names(std::function<bool()> is_late = {});
  ~Names();

  // The function that an address in the code is in, and after it those that it was inlined into. Empty: not known.
  std::vector<SourceLine> frames_at(const std::string& file, std::uint64_t address);
  // "forks[1]", "table.slots[3].lock", "counter+4". Empty: no variable is there.
  std::string variable_at(const std::string& file, std::uint64_t address);
  // "main::pool.lock": a variable on the stack of the function that makes the call at `code`.
  struct OnStack {
    std::uint64_t code;
    std::uint64_t begin, end;  // what is the function's on the stack
    std::uint64_t address;
  };
  std::string local_at(const std::string& file, const OnStack& place);

 private:
  class Reader;
  // Of the reader, or as it was answered before. Empty: no answer.
  const std::string& ask(char question, const std::string& file, const OnStack& place);

  std::function<bool()> is_late_;
  std::unique_ptr<Reader> reader_;
  std::set<std::string> unreadable_;
  std::map<std::string, std::string> answers_;
};

// The innermost frame of the program's own code, one with a line if there is any; else the same of libraries. Null:
// there is none.
const SourceLine* best_of(const std::vector<SourceLine>& frames);
// The frames of the program's own code; the best one if there is none. None at all where main() has returned.
std::vector<SourceLine> own_frames(std::vector<SourceLine> frames);

}  // namespace crashcut::source
