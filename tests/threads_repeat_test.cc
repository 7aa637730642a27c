// crashcut threads on programs whose control flow depends on what changes from run to run: the same executions every
// time, or a refusal that names the source. Programs are compiled from tests/threads/.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/threads_command.h"

namespace crashcut {
namespace {

constexpr int kTimes = 3;

// The number of executions; the same every time.
std::uint64_t same_executions(const std::string& words) {
  const std::uint64_t first = executions(words);
  for (int i = 1; i < kTimes; ++i) EXPECT_EQ(executions(words), first) << words;
  return first;
}

class Source : public testing::TestWithParam<const char*> {};

// In main() and in threads; and in a static constructor, which every worker of a search runs once (but there no file
// can be made on the modelled disk, and a program that handles SIGSEGV itself sees the real counter).
TEST_P(Source, IsTheSameInEveryExecution) {
  const std::string source = GetParam();
  EXPECT_GE(same_executions("machine " + source), 2u);
  if (source != "temporary" && source != "tsc-handler") {
    EXPECT_GE(same_executions("machine " + source + " early"), 2u);
  }
}

INSTANTIATE_TEST_SUITE_P(ThreadsRepeat, Source,
                         testing::Values("urandom", "random", "getrandom", "guards", "tsc", "tsc-handler", "rdrand",
                                         "vdso", "clocks", "used", "numbers", "processors", "load", "surroundings",
                                         "own-files", "kernel-files", "links", "fresh-file", "device-times",
                                         "real-file", "descriptors", "temporary", "addresses"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

struct Refused {
  const char* source;
  const char* text;
};
TEST(ThreadsRepeat, RefusesByNameWhatCannotBeMadeTheSame) {
  for (const auto& [source, text] :
       {Refused{"inotify", "inotify_init()"}, Refused{"processes", "a listing of /proc, which changes from run to run"},
        Refused{"smaps", "open() of /proc/self/smaps, which changes from run to run"},
        Refused{"counters", "open() of /proc/interrupts, which changes from run to run"}}) {
    const Ran ran = run("threads " + program(std::string("machine ") + source));
    EXPECT_EQ(ran.code, 2) << source;
    EXPECT_NE(ran.output.find(text), std::string::npos) << ran.output;
  }
}

// Where the stack begins does not depend on the environment (up to steps of 16 KiB), nor do descriptors on what the
// shell has open.
TEST(ThreadsRepeat, TheEnvironmentMovesNothing) {
  const std::string path = getenv("PATH");
  clearenv();
  setenv("PATH", path.c_str(), 1);
  for (const char* source : {"addresses", "descriptors"}) {
    const std::uint64_t before = executions(std::string("machine ") + source);
    for (int i = 1; i < 5; ++i) {
      setenv("CRASHCUT_TEST_VARIABLE", std::string(static_cast<std::size_t>(i) * 37, 'x').c_str(), 1);
      const int open_too = dup(2);
      EXPECT_EQ(executions(std::string("machine ") + source), before) << source << ' ' << i;
      close(open_too);
    }
    unsetenv("CRASHCUT_TEST_VARIABLE");
  }
}

}  // namespace
}  // namespace crashcut
