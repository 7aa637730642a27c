// crashcut in GoogleTest: a search as an assertion. Its failure message is crashcut's report.
//
//   EXPECT_TRUE(crashcut::survives_crashes({"check", "--file", "notes.txt", "--", "/usr/bin/save", "notes.txt"}));
//
// The words are those of a crashcut command. True: crashcut has verified the program. False: there is a violation, a
// bound ended the search with nothing found, or crashcut could not run. With CMake: find_package(crashcut COMPONENTS
// test), and link crashcut::gtest. Otherwise crashcut is looked for in PATH.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#ifndef CRASHCUT_COMMAND
#define CRASHCUT_COMMAND "crashcut"
#endif

namespace crashcut {
namespace gtest_internal {

// All that is written to the pipe until its other end is closed.
inline std::string read_all(int fd) {
  std::string text;
  char bytes[4096];
  for (;;) {
    const ssize_t count = read(fd, bytes, sizeof bytes);
    if (count > 0) {
      text.append(bytes, static_cast<std::size_t>(count));
    } else if (count == 0 || errno != EINTR) {
      return text;
    }
  }
}

// Starts crashcut with its output and errors in `fd`. 0, or an error number.
inline int start(std::vector<std::string>& words, int fd, pid_t& child) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fd, STDERR_FILENO);
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

}  // namespace gtest_internal

inline testing::AssertionResult survives_crashes(std::vector<std::string> words) {
  words.insert(words.begin(), CRASHCUT_COMMAND);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return testing::AssertionFailure() << "pipe2: " << std::strerror(errno);
  pid_t child = -1;
  const int error = gtest_internal::start(words, ends[1], child);
  close(ends[1]);
  const std::string report = error == 0 ? gtest_internal::read_all(ends[0]) : "";
  close(ends[0]);
  if (error != 0) return testing::AssertionFailure() << "cannot start " << words[0] << ": " << std::strerror(error);
  int status = 0;
  while (waitpid(child, &status, 0) == -1 && errno == EINTR) {
  }
  const bool is_verified = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return (is_verified ? testing::AssertionSuccess() : testing::AssertionFailure()) << "\n" << report;
}

}  // namespace crashcut
