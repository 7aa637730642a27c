// Running crashcut threads on the programs of tests/threads/ and workloads/threads/, for tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace crashcut {

using nlohmann::json;

// The words of a row as the name of its test: letters and digits, with single underscores between.
inline std::string test_name(const std::string& words) {
  std::string name;
  for (const char c : words) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      name += c;
    else if (!name.empty() && name.back() != '_')
      name += '_';
  }
  if (!name.empty() && name.back() == '_') name.pop_back();
  return name;
}

struct Ran {
  int code;
  std::string output;
};

// In the directory of the programs: tokens name them without their path.
inline Ran run(const std::string& arguments) {
  const std::string command =
      std::string("cd ") + CRASHCUT_THREAD_PROGRAMS + " && " + CRASHCUT_COMMAND + " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  Ran ran{-1, ""};
  std::array<char, 4096> part;
  while (const std::size_t got = fread(part.data(), 1, part.size(), pipe)) ran.output.append(part.data(), got);
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

// The replay that a report names.
inline Ran run_replay(const json& report, const std::string& options = "") {
  const std::string command = report["replay"];
  return run("replay " + options + command.substr(command.find(" replay ") + 7));
}

inline std::string program(const std::string& words) { return std::string(CRASHCUT_THREAD_PROGRAMS) + "/" + words; }

inline json report(const std::string& options, const std::string& words, int expected_code) {
  const std::string file = ::testing::TempDir() + "threads_test." + std::to_string(getpid()) + ".json";
  const Ran ran = run("threads --json " + file + " " + options + " " + program(words));
  EXPECT_EQ(ran.code, expected_code) << ran.output;
  std::ifstream in(file);
  return json::parse(in, nullptr, false);
}

// `code`: 3 where its threads meet in atomic variables that are not seen.
inline std::uint64_t executions(const std::string& words, const std::string& options = "", int code = 0) {
  const json r = report("--all " + options, words, code);
  EXPECT_EQ(r["verdict"], code == 0 ? "verified" : "bounded");
  return r["counts"]["executions"];
}

}  // namespace crashcut
