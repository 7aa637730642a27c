// crashcut check at the command line, in a directory of its own: nothing may stay behind.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <thread>

namespace crashcut {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

struct Ran {
  int exit_code = -1;
  std::string out, err;
  bool says(std::string_view words) const { return (out + err).find(words) != std::string::npos; }
};

inline std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

inline bool has_fuse() { return access("/dev/fuse", R_OK | W_OK) == 0; }

class CheckTest : public testing::Test {
 protected:
  CheckTest() : directory_(fs::temp_directory_path() / ("check_test." + std::to_string(getpid()))) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  ~CheckTest() override {
    EXPECT_EQ(wait_for_no_processes(), "") << "left running";
    EXPECT_EQ(read_file("/proc/self/mountinfo").find(directory_.string()), std::string::npos) << "left mounted";
    fs::remove_all(directory_);
  }
  void SetUp() override {
    if (!has_fuse()) GTEST_SKIP() << "no access to /dev/fuse";
  }

  pid_t start(Words words) {
    const pid_t child = fork();
    if (child != 0) return child;
    setpgid(0, 0);
    if (chdir(directory_.c_str()) != 0) _exit(99);
    setenv("PATH", (fs::path(CRASHCUT_BINARY).parent_path().string() + ":" + getenv("PATH")).c_str(), 1);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(open((directory_ / "out").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644), 1);
    dup2(open((directory_ / "err").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644), 2);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(98);
  }
  Ran finish(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return Ran{WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(directory_ / "out"),
               read_file(directory_ / "err")};
  }
  Ran run(Words words) { return finish(start(std::move(words))); }
  Ran crashcut(Words words) {
    words.insert(words.begin(), CRASHCUT_BINARY);
    return run(std::move(words));
  }
  // crashcut check with these options on `sh -c script`.
  Ran check(Words options, const std::string& script) {
    fs::remove_all(directory_ / "results");
    options.insert(options.begin(), {"check", "--out", "results"});
    options.insert(options.end(), {"--", "sh", "-c", script});
    return crashcut(options);
  }
  Json result() { return Json::parse(read_file(directory_ / "results/result.json"), nullptr, false); }
  std::string token() {
    std::string text = read_file(directory_ / "results/token");
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }
  // How many recoveries failed in this way.
  static std::uint64_t count_of(const Json& json, const std::string& kind) {
    return json["kinds"].value(kind, std::uint64_t{0});
  }
  std::set<std::string> outcomes() {
    std::set<std::string> texts;
    const Json json = result();
    for (const Json& outcome : json["outcomes"]) texts.insert(outcome["output"]);
    return texts;
  }
  std::string script(const std::string& name, const std::string& text) {
    std::ofstream(directory_ / name) << "#!/bin/sh\n" << text;
    fs::permissions(directory_ / name, fs::perms::all);
    return "./" + name;
  }
  std::string compile(const std::string& name, const std::string& text, const std::string& flags = "") {
    std::ofstream(directory_ / (name + ".c")) << text;
    const std::string command = "cc " + flags + " -I" CRASHCUT_SOURCE_DIR "/include -o " +
                                (directory_ / name).string() + " " + (directory_ / (name + ".c")).string();
    EXPECT_EQ(std::system(command.c_str()), 0);
    return "./" + name;
  }

  // Names of processes that have anything to do with our directory.
  std::string processes_here() {
    std::string found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos || name == std::to_string(getpid())) continue;
      std::error_code error;
      const std::string cwd = fs::read_symlink(entry.path() / "cwd", error);
      const std::string command = read_file(entry.path() / "cmdline");
      const bool is_zombie = read_file(entry.path() / "stat").find(") Z") != std::string::npos;
      if (!is_zombie &&
          (cwd.starts_with(directory_.string()) || command.find(directory_.string()) != std::string::npos)) {
        found += name + " " + command.substr(0, command.find('\0')) + "\n";
      }
    }
    return found;
  }
  std::string wait_for_no_processes() {
    std::string found = processes_here();
    for (int tries = 0; tries < 100 && !found.empty(); ++tries, found = processes_here()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return found;
  }

  fs::path directory_;
};

// Where namespaces are not to be had: inside of some in which there can be no more. Exit code 77: something stays
// mounted.
inline Words without_namespaces(Words words) {
  words.insert(words.begin(),
               {"unshare", "-Urm", "sh", "-c",
                "echo 0 > /proc/sys/user/max_pid_namespaces && echo 0 > /proc/sys/user/max_user_namespaces || exit 76; "
                "\"$@\"; code=$?; i=0; while [ $i -lt 100 ]; do grep -q \" $PWD/\" /proc/self/mountinfo || exit $code; "
                "sleep 0.05; i=$((i+1)); done; exit 77",
                "sh"});
  return words;
}

}  // namespace crashcut
