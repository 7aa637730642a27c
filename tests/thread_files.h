// crashcut threads on programs with files, as a user runs it, and what its JSON says.
#pragma once

#include <set>

#include "tests/threads_command.h"

namespace crashcut::tests {

// The report, or nothing where there is none. `expected_code` -1: any.
inline nlohmann::json run_threads(const std::string& options, const std::string& words, int expected_code) {
  const std::string file = ::testing::TempDir() + "thread_files." + std::to_string(getpid()) + ".json";
  std::remove(file.c_str());
  const Ran ran = run("threads --json " + file + " " + options + " " + words);
  if (expected_code != -1) {
    EXPECT_EQ(ran.code, expected_code) << options << " " << words << "\n" << ran.output;
  }
  std::ifstream in(file);
  nlohmann::json report = nlohmann::json::parse(in, nullptr, false);
  std::remove(file.c_str());
  return report.is_discarded() ? nlohmann::json() : report;
}

inline std::set<std::string> outcomes_of(const nlohmann::json& report) {
  std::set<std::string> outcomes;
  if (!report.contains("outcomes")) return outcomes;
  for (const auto& outcome : report["outcomes"]) outcomes.insert(outcome["output"].get<std::string>());
  return outcomes;
}

}  // namespace crashcut::tests
