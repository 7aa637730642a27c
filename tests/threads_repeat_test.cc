// crashcut threads on programs whose control flow depends on what changes from run to run: the same executions every
// time, or a refusal that names the source. Programs are compiled from tests/threads/.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

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

// Asks for nothing but what is so already: that cpuid is allowed.
bool can_trap_cpuid() {
  constexpr int kSetCpuid = 0x1012;  // ARCH_SET_CPUID
  return syscall(SYS_arch_prctl, kSetCpuid, 1) == 0;
}

class Source : public testing::TestWithParam<const char*> {};

// In main() and in threads; and in a static constructor, which every worker of a search runs once (but there no file
// can be made on the modelled disk, and a program that handles SIGSEGV itself sees the real counter).
TEST_P(Source, IsTheSameInEveryExecution) {
  const std::string source = GetParam();
  if ((source == "rdrand" || source == "processors") && !can_trap_cpuid())
    GTEST_SKIP() << "the processor cannot trap cpuid";
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

// Where the stack begins does not depend on the environment (up to steps of 64 KiB and of 256 variables), nor do
// descriptors on what the shell has open.
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

// The same program in other surroundings: nothing in the environment, much in it, another directory, other addresses.
TEST(ThreadsRepeat, SurroundingsChangeNothing) {
  struct Way {
    const char* name;
    std::string before;
  };
  const std::string large(40'000, 'x');
  for (const char* words :
       {"machine addresses", "machine guards", "machine numbers", "philosophers 4 semaphore", "endless one_order"}) {
    json first;
    for (const Way& way :
         {Way{"as it is", ""}, Way{"no environment", "env -i "}, Way{"a large environment", "env LARGE=" + large + " "},
          Way{"another directory", "cd / && "}, Way{"addresses that stay", "setarch -R "},
          Way{"other limits", "ulimit -s 4096; ulimit -n 200; "}}) {
      const std::string file = ::testing::TempDir() + "threads_repeat_test." + std::to_string(getpid()) + ".json";
      const std::string command = way.before + CRASHCUT_COMMAND " threads --all --max-executions 100 --json " + file +
                                  " " + program(words) + " > /dev/null 2>&1";
      EXPECT_GE(std::system(command.c_str()), 0);
      std::ifstream in(file);
      json now = json::parse(in, nullptr, false);
      std::filesystem::remove(file);
      ASSERT_TRUE(now.is_object()) << words << ", " << way.name;
      if (first.is_null()) first = now;
      EXPECT_EQ(now["verdict"], first["verdict"]) << words << ", " << way.name;
      EXPECT_EQ(now["counts"]["executions"], first["counts"]["executions"]) << words << ", " << way.name;
      EXPECT_EQ(now["counts"]["steps"], first["counts"]["steps"]) << words << ", " << way.name;
    }
  }
}

// A program that is not repeatable: what it did is kept, and the verdict says where it did something else.
TEST(ThreadsRepeat, SaysWhereAProgramDidSomethingElse) {
  for (const char* words : {"mistakes unrepeatable", "mistakes unrepeatable-late", "machine executions"}) {
    const json r = report("--jobs 1", words, 3);
    EXPECT_EQ(r["verdict"], "bounded") << words;
    EXPECT_EQ(r["bound_hit"], "not_repeatable") << words;
    EXPECT_EQ(r["counts"]["random_executions"], 1000) << words;
    EXPECT_NE(r["execution"]["not_repeatable"].get<std::string>().find(
                  "under the same schedule the program did something else"),
              std::string::npos)
        << r["execution"]["not_repeatable"];
  }
  const std::string text = report("--jobs 1", "mistakes unrepeatable", 3)["execution"]["not_repeatable"];
  EXPECT_NE(text.find("At step 1 main was to create"), std::string::npos) << text;
  EXPECT_NE(text.find("main did this instead: lock mutex m."), std::string::npos) << text;
  EXPECT_EQ(report("--jobs 1 --max-executions 50", "mistakes unrepeatable", 3)["counts"]["executions"], 50);
}

TEST(ThreadsRepeat, NamesTheFileThatMayHaveBroughtItAbout) {
  const std::string file = testing::TempDir() + "threads_repeat_test." + std::to_string(getpid());
  const Ran ran = run("threads --jobs 1 " + program("machine file:" + file));
  unlink(file.c_str());
  EXPECT_EQ(ran.code, 3) << ran.output;
  EXPECT_NE(ran.output.find("opened to write " + file), std::string::npos) << ran.output;
}

// It cannot be trapped, and is named.
TEST(ThreadsRepeat, NamesRandomNumbersOfTheProcessor) {
  if (!__builtin_cpu_supports("rdrnd")) GTEST_SKIP() << "the processor has no rdrand";
  const Ran ran = run("threads " + program("machine rdrand-unasked"));
  EXPECT_EQ(ran.code, 3) << ran.output;
  EXPECT_NE(ran.output.find("may have the instructions rdrand or rdseed"), std::string::npos) << ran.output;
}

// It fails in late executions, under whatever schedule they have: no schedule brings it about again.
TEST(ThreadsRepeat, AViolationThatDoesNotComeAgainIsKept) {
  const json r = report("--jobs 1", "machine fails-late", 1);
  EXPECT_EQ(r["verdict"], "violation");
  EXPECT_EQ(r["violation"]["kind"], "signal");
  EXPECT_EQ(r["violation"]["replays"], false);
  const Ran ran = run("threads --jobs 1 " + program("machine fails-late"));
  EXPECT_NE(ran.output.find("Run again, it came out differently"), std::string::npos) << ran.output;
}

// Variables that are not seen decide what a thread does: what was foreseen of it is wrong. Other orders are tried.
TEST(ThreadsRepeat, ThreadsThatMeetInVariablesThatAreNotSeen) {
  const Ran right = run("threads --max-executions 2000 " + program("meets"));
  EXPECT_TRUE(right.code == 0 || right.code == 3) << right.output;
  EXPECT_NE(right.output.find(right.code == 0 ? "verified" : "bounded (max_executions)"), std::string::npos)
      << right.output;
  const json r = report("--max-executions 20000", "meets wrong", 1);
  EXPECT_EQ(r["violation"]["kind"], "signal");
  EXPECT_EQ(r["violation"]["replays"], true);
}

}  // namespace
}  // namespace crashcut
