// crashcut at the command line, in a directory of its own.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "tests/seeds.h"

namespace crashcut {

namespace fs = std::filesystem;

struct Ran {
  int exit_code = -1;
  std::string out, err;

  std::string first_line() const { return out.substr(0, out.find('\n')); }
  std::string last_line() const {
    const std::string text = out.substr(0, out.find_last_not_of('\n') + 1);
    return text.substr(text.rfind('\n') + 1);
  }
  bool says(std::string_view words) const { return (out + err).find(words) != std::string::npos; }
};

inline std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

constexpr const char* kHeaders =
    "#include <assert.h>\n#include <fcntl.h>\n#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
    "#include <string.h>\n#include <unistd.h>\n#include \"crashcut.h\"\n";
constexpr const char* kWriteA =
    "int main(void) { int f = open(\"a\", O_CREAT | O_WRONLY, 0644); return write(f, \"x\", 1) == 1 ? 0 : 1; }\n";

class CliTest : public testing::Test {
 protected:
  // TMPDIR is ours, so that what crashcut leaves behind is seen.
  CliTest()
      : directory_(fs::temp_directory_path() / ("cli_test." + std::to_string(getpid()))),
        temporary_(directory_ / "tmp") {
    fs::remove_all(directory_);
    fs::create_directories(temporary_);
  }
  ~CliTest() override {
    EXPECT_TRUE(fs::is_empty(temporary_)) << fs::directory_iterator(temporary_)->path() << " was left behind";
    fs::remove_all(directory_);
  }

  pid_t start(std::vector<std::string> words) {
    const pid_t child = fork();
    if (child != 0) return child;
    execute(std::move(words), open((directory_ / "err").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644));
  }
  // In a child.
  [[noreturn]] void execute(std::vector<std::string> words, int error_fd) {
    words.insert(words.begin(), CRASHCUT_BINARY);
    setenv("TMPDIR", temporary_.c_str(), 1);
    if (chdir(directory_.c_str()) != 0) _exit(99);
    dup2(open((directory_ / "out").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644), 1);
    dup2(error_fd, 2);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(98);
  }
  Ran finish(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return Ran{WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(directory_ / "out"),
               read_file(directory_ / "err")};
  }
  Ran crashcut(std::vector<std::string> words) { return finish(start(std::move(words))); }

  // Writes a program; returns its name.
  std::string program(const std::string& name, const std::string& text) {
    std::ofstream(directory_ / name) << kHeaders << text;
    return name;
  }
  std::string recovery_of_a(const std::string& body) {
    return program("p.c", std::string(kWriteA) + "void crashcut_recover(void) { " + body + " }\n");
  }
  static std::string example(const std::string& name) {
    return std::string(CRASHCUT_SOURCE_DIR) + "/workloads/examples/" + name;
  }
  // The words of the command that a report ends with, less crashcut's own name.
  static std::vector<std::string> replay_of(const Ran& run) {
    const std::size_t at = run.out.rfind(" replay ");
    std::istringstream text(at == std::string::npos ? "" : run.out.substr(at));
    std::vector<std::string> words;
    for (std::string word; text >> word;) words.push_back(word);
    return words;
  }
  static std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static std::string token_of(const Ran& run) {
    const auto at = run.out.rfind("cc2");
    return at == std::string::npos ? "" : run.out.substr(at, run.out.find_first_of(" \n", at) - at);
  }
  void expect_refused(const std::vector<std::string>& words, const std::string& sentence) {
    const Ran run = crashcut(words);
    EXPECT_EQ(run.exit_code, 2) << words.back() << run.out << run.err;
    EXPECT_NE(run.err.find(sentence), std::string::npos) << words.back() << ": " << run.err;
  }

  fs::path directory_;
  fs::path temporary_;
};

}  // namespace crashcut
