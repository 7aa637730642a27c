// Failure: why crashcut has no result, and whose mistake it is: exit code 2 or 4. A violation is no failure.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace crashcut::result {

enum class Blame : std::uint32_t {
  kUser,  // the program, or how crashcut is used: there is something to change
  kTool,  // crashcut, or the system that it runs on
};

struct Failure {
  Blame blame;
  std::string sentence;  // what is wrong, and what to do about it
};

inline Failure users_failure(std::string sentence) { return {Blame::kUser, std::move(sentence)}; }
inline Failure tools_failure(std::string sentence) { return {Blame::kTool, std::move(sentence)}; }

inline tl::unexpected<Failure> wrong_use(std::string sentence) {
  return tl::unexpected(users_failure(std::move(sentence)));
}
inline tl::unexpected<Failure> tool_failed(std::string sentence) {
  return tl::unexpected(tools_failure(std::move(sentence)));
}

}  // namespace crashcut::result
