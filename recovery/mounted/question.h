// Question: what is asked of every crash state: whether a file is whole (answered in this process), or what the user's
// checker says (on a mount).
#pragma once

#include <string>
#include <variant>

#include "recovery/mounted/expectations.h"

namespace crashcut::mounted {

struct CommandQuestion {};  // the user's checker
using Question = std::variant<FileQuestion, CommandQuestion>;

inline bool is_for_checker(const Question& question) { return std::holds_alternative<CommandQuestion>(question); }
// "notes.txt", "the checker"
inline std::string subject_of(const Question& question) {
  const auto* file = std::get_if<FileQuestion>(&question);
  return file ? file->path : "the checker";
}

// What is counted of checkers' runs (search::Ending::facts).
inline constexpr const char* kCheckerRan = "checker ran";
inline constexpr const char* kCheckerNotFound = "checker not found";
inline constexpr const char* kReadByPages = "read by pages";
// What a shell says of a command that is not there.
inline constexpr int kNotFoundStatus = 127;

}  // namespace crashcut::mounted
