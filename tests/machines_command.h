// What tests of crashcut cxl share: programs of tests/machines/, compiled and run.
#pragma once

#include <filesystem>

#include "threads_command.h"

namespace crashcut {

namespace fs = std::filesystem;

inline std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> part;
  while (const std::size_t got = fread(part.data(), 1, part.size(), pipe)) output.append(part.data(), got);
  pclose(pipe);
  while (!output.empty() && output.back() == '\n') output.pop_back();
  return output;
}

class Machines : public ::testing::Test {
 protected:
  Machines()
      : directory_(fs::path(::testing::TempDir()) / ("machines." + std::to_string(getpid()) + "." +
                                                     ::testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(directory_);
  }
  ~Machines() override { fs::remove_all(directory_); }

  // tests/machines/SOURCE.c, so compiled that its variables are seen.
  std::string compile(const std::string& source, const std::string& flags = "", bool is_instrumented = true) {
    static const std::string kFlags = output_of(std::string(CRASHCUT_COMMAND) + " flags gcc");
    const std::string made = (directory_ / (source + std::to_string(++count_))).string();
    const std::string command = "gcc -w -g " + (is_instrumented ? kFlags : std::string()) + " " + flags + " -I" +
                                CRASHCUT_INCLUDE + " -o " + made + " " + CRASHCUT_MACHINE_SOURCES + "/" + source +
                                ".c -pthread";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return made;
  }

  json check(const std::string& arguments, int expected_code, const std::string& command = "cxl") {
    const std::string file = (directory_ / "report.json").string();
    const Ran ran = run(command + " --json " + file + " " + arguments);
    EXPECT_EQ(ran.code, expected_code) << arguments << "\n" << ran.output;
    std::ifstream in(file);
    json report = json::parse(in, nullptr, false);
    if (report.is_discarded()) report = json::object();
    report["output"] = ran.output;
    return report;
  }
  std::uint64_t executions(const std::string& arguments, const std::string& command = "cxl") {
    const json report = check("--all " + arguments, 0, command);
    return report.value("/counts/executions"_json_pointer, std::uint64_t{0});
  }

  fs::path directory_;
  int count_ = 0;
};

}  // namespace crashcut
