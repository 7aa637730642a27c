// Programs in Rust, built by whatever rustc there is, and a C program of the same system calls.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/threads_command.h"

namespace crashcut {
namespace {

namespace fs = std::filesystem;

// rustc is where rustup puts it, or on the path. Empty: there is none.
std::string find_rustc() {
  const char* home = std::getenv("HOME");
  for (const std::string& candidate :
       {std::string("rustc"), std::string(home == nullptr ? "" : home) + "/.cargo/bin/rustc"}) {
    if (std::system(("exec >/dev/null 2>&1; " + candidate + " --version").c_str()) == 0) return candidate;
  }
  return "";
}

struct Row {
  const char* word;
  bool is_deadlock;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.word; }

// Threads meet in what is not seen: nothing may be found where there is nothing, but how much was covered is another
// matter.
void judge(const std::string& executable, const Row& row) {
  const std::string file = ::testing::TempDir() + "threads_rust_test." + std::to_string(getpid()) + ".json";
  const Ran ran = run("threads --all --time 60 --json " + file + " " + executable + " " + row.word);
  std::ifstream in(file);
  const json r = json::parse(in, nullptr, false);
  ASSERT_FALSE(r.is_discarded()) << ran.output;
  if (row.is_deadlock) {
    ASSERT_EQ(r["verdict"], "violation") << ran.output;
    EXPECT_EQ(r["violation"]["kind"], "deadlock") << ran.output;
    EXPECT_TRUE(r["violation"]["replays"].get<bool>());
  } else {
    EXPECT_TRUE(r["verdict"] == "verified" || r["verdict"] == "bounded") << ran.output;
    EXPECT_GT(r["counts"]["executions"].get<int>(), 0);
  }
}

class Rust : public ::testing::TestWithParam<Row> {};

// The programs of locks.rs, for as long as this process lives.
class Compiled {
 public:
  explicit Compiled(const std::string& rustc)
      // No dot: rustc names its own files by what stands before one, and tests run side by side.
      : path_(::testing::TempDir() + "locks_" + std::to_string(getpid())) {
    const std::string command = rustc + " --edition 2021 -O -o " + path_ + " " + CRASHCUT_THREAD_SOURCES + "/locks.rs";
    EXPECT_EQ(std::system(command.c_str()), 0) << "it does not compile";
  }
  ~Compiled() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Empty where there is no compiler.
std::string compiled() {
  static const std::string rustc = find_rustc();
  if (rustc.empty()) return "";
  static const Compiled executable(rustc);
  return executable.path();
}

TEST_P(Rust, IsJudgedRightly) {
  const std::string executable = compiled();
  if (executable.empty()) GTEST_SKIP() << "there is no rustc";
  judge(executable, GetParam());
}

// Two locks crosswise with no operation between them: the deadlock is not seen, and nothing is said to be verified.
TEST(RustUnseen, WhatIsNotSeenIsNotVerified) {
  const std::string executable = compiled();
  if (executable.empty()) GTEST_SKIP() << "there is no rustc";
  const std::string file = ::testing::TempDir() + "threads_rust_test." + std::to_string(getpid()) + ".json";
  const Ran ran = run("threads --all --json " + file + " " + executable + " crossed-at-once");
  EXPECT_EQ(ran.code, 3) << ran.output;
  std::ifstream in(file);
  const json r = json::parse(in, nullptr, false);
  ASSERT_FALSE(r.is_discarded()) << ran.output;
  EXPECT_EQ(r["verdict"], "bounded") << r.dump(1);
  EXPECT_NE(r.dump().find("unseen_atomics"), std::string::npos) << r.dump(1);
}

INSTANTIATE_TEST_SUITE_P(Threads, Rust,
                         ::testing::Values(Row{"counts", false}, Row{"crossed", true}, Row{"in-order", false},
                                           Row{"told-too-early", true}, Row{"condition", false}, Row{"rwlock", false},
                                           Row{"channel", false}, Row{"barrier", false}, Row{"once", false},
                                           Row{"scope", false}),
                         [](const auto& info) { return test_name(info.param.word); });

class Futexes : public ::testing::TestWithParam<Row> {};
TEST_P(Futexes, AreJudgedRightly) { judge(program("futexes"), GetParam()); }
INSTANTIATE_TEST_SUITE_P(Threads, Futexes,
                         ::testing::Values(Row{"counts", false}, Row{"crossed", true}, Row{"in-order", false},
                                           Row{"told-too-early", true}, Row{"condition", false}),
                         [](const auto& info) { return test_name(info.param.word); });

}  // namespace
}  // namespace crashcut
