// Token: all that is needed to run one violation again, as a string without spaces. All front ends use it.
//
// A token holds no absolute path: it travels to another machine with the program, or with the directory of the results.
//   docs/tokens.md has the bytes. A token is input from anywhere: decode() trusts no part of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "persist/recording.h"

namespace crashcut::result {

inline constexpr std::string_view kTokenPrefix = "cc2";
inline constexpr std::uint32_t kDepthMost = 64;

struct Token {
  std::string command;     // the command that made it: "run", "check", "threads"
  std::string program;     // the path as typed if it was relative; else its last part
  std::string program_id;  // build id or checksum: the program must have the same one
  std::vector<std::string> arguments;
  std::string from;  // the directory of --from, in the form of `program`; empty: none
  persist::ModelSpec model;
  std::uint32_t depth = 1;
  std::uint64_t seed = 0;
  std::uint64_t fingerprint = 0;    // of the recording; the replay must have the same one
  std::vector<std::uint32_t> path;  // the answers, kCrashAgain between crashes
  std::string own;                  // what only the front end understands
};

std::string encode(const Token& token);
// The error is a sentence.
tl::expected<Token, std::string> decode(std::string_view text);

// The form that a path has in tokens.
std::string portable_path(const std::string& typed);

}  // namespace crashcut::result
