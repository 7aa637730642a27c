// crashcut check: bounds hold with large recordings, and for programs that take much memory.
#include "tests/check_fixture.h"
#include "tests/seeds.h"

namespace crashcut {
namespace {

using Clock = std::chrono::steady_clock;

class CheckBoundsTest : public CheckTest {
 protected:
  // writer COUNT BYTES: so many writes of so many random bytes to one file.
  std::string writer() {
    return compile(
        "writer",
        "#include <fcntl.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
        "int main(int argc, char** argv) {\n"
        "  long count = atol(argv[1]), bytes = atol(argv[2]); char* b = malloc(bytes);\n"
        "  unsigned long long x = 88172645463325252ull; int f = open(\"f\", O_CREAT | O_WRONLY, 0644);\n"
        "  for (long i = 0; i < count; ++i) {\n"
        "    for (long k = 0; k + 8 <= bytes; k += 8) {\n"
        "      x ^= x << 13; x ^= x >> 7; x ^= x << 17; memcpy(b + k, &x, 8); }\n"
        "    if (write(f, b, bytes) != bytes) { perror(\"write\"); return 1; } }\n"
        "  return close(f); }\n",
        "-O1");
  }
  Words check_of(Words options, Words program) {
    fs::remove_all(directory_ / "results");
    options.insert(options.begin(), {CRASHCUT_BINARY, "check", "--out", "results"});
    options.emplace_back("--");
    options.insert(options.end(), program.begin(), program.end());
    return options;
  }
  // Of a process and all below it, in MiB: what is theirs, each page once. Mapped files are not.
  static std::uint64_t memory_of(pid_t root) {
    std::uint64_t kib = 0;
    std::vector<pid_t> all{root};
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string base = "/proc/" + std::to_string(all[i]);
      std::istringstream children(read_file(base + "/task/" + std::to_string(all[i]) + "/children"));
      for (pid_t child; children >> child;) all.push_back(child);
      std::istringstream lines(read_file(base + "/smaps_rollup"));
      for (std::string line; std::getline(lines, line);) {
        if (line.starts_with("Pss_Anon:") || line.starts_with("Pss_Shmem:"))
          kib += std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10);
      }
    }
    return kib >> 10;
  }
};

// How much memory crashcut itself takes.
class CheckMemoryTest : public CheckBoundsTest {
 protected:
  void SetUp() override {
    CheckBoundsTest::SetUp();
    if (tests::kIsSanitized) GTEST_SKIP() << "a sanitizer's own memory counts too";
  }
};

TEST_F(CheckMemoryTest, ALargeRecordingTakesLittleMemoryAndASmallReport) {
  const std::string program = writer();
  const pid_t child = start(check_of({"--file", "f", "--max-recoveries", "20"}, {program, "20000", "10240"}));
  std::uint64_t most = 0;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    most = std::max(most, memory_of(child));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_EQ(WEXITSTATUS(status), 1) << read_file(directory_ / "err");
  // In proportion 2 GB for 1 GiB in 100,000 writes; seen: 1.7.
  EXPECT_LT(most, 400u) << "MiB, for 195 MiB that were written";
  EXPECT_LT(fs::file_size(directory_ / "results/result.json"), 4u << 20);
  const Json json = result();
  const Json& crash = json["violation"]["crashes"][0];
  EXPECT_EQ(crash["operations"].size(), 2000u);
  EXPECT_EQ(crash["operations"].size() + crash["operations_left_out"].get<std::size_t>(),
            json["counts"]["operations"].get<std::size_t>() + 1);
  EXPECT_LE(crash["persisted"].size(), 10000u);
  EXPECT_GE(crash["persisted_count"], crash["persisted"].size());
  for (const Json& call : crash["calls"]) {
    for (const Json& choice : call["choices"]) {
      EXPECT_LE(choice["candidates"].size(), 100u);
      EXPECT_LT(choice["taken"], choice["candidates"].size());
      EXPECT_TRUE(choice["candidates"].size() == 100 || choice["candidates_left_out"] == 0) << choice["location"];
    }
  }
  EXPECT_EQ(json["bounds"].contains("memory_limit_bytes"), true);
  EXPECT_LT(read_file(directory_ / "out").size(), 1u << 20);
}

TEST_F(CheckMemoryTest, AProgramThatWritesMoreThanTheLimitGetsAVerdict) {
  const std::string program = writer();
  const Ran ran =
      run(check_of({"--check", "true", "--memory-limit", "64M", "--max-recoveries", "4"}, {program, "40000", "10240"}));
  EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("--memory-limit")) << ran.out;
  const Json json = result();
  EXPECT_EQ(json["verdict"], "bounded");
  EXPECT_LT(json["counts"]["operations"], 40000);
  EXPECT_GT(json["counts"]["operations"], 500);
}

// All of what was recorded was tried: the verdict says that it is not all of the program, and how far it went.
TEST_F(CheckMemoryTest, ACutRecordingIsABoundOfItsOwn) {
  const std::string program = writer();
  const Ran ran = run(check_of({"--check", "true", "--memory-limit", "64M"}, {program, "40000", "10240"}));
  EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("recorded: the program was stopped (--memory-limit) after ")) << ran.out;
  EXPECT_TRUE(ran.says("the program was stopped: its recording takes more memory than --memory-limit allows"))
      << ran.out;
  EXPECT_TRUE(ran.says("bounded (recording_cut): ")) << ran.out;
  EXPECT_TRUE(ran.says(": every crash of the program's first ")) << ran.out;
  const Json json = result();
  EXPECT_EQ(json["bound_hit"], "recording_cut");
  EXPECT_EQ(json["execution"]["out_of_memory"], true);
  EXPECT_EQ(json["explored_fraction"], 1);
}

TEST_F(CheckMemoryTest, AViolationInWhatFitsIsFound) {
  const std::string program = writer();
  const Ran ran = run(check_of({"--check", "test ! -s f", "--memory-limit", "128M", "--max-recoveries", "50"},
                               {program, "80000", "10240"}));
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  // The trace was cut: the same recording is found again.
  EXPECT_EQ(crashcut({"replay", "--results", "results", token()}).exit_code, 1);
}

TEST_F(CheckBoundsTest, AProgramThatTakesTooMuchMemoryIsStoppedAndTold) {
  const std::string program =
      compile("eater",
              "#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n"
              "int main() { for (;;) { memset(malloc(1 << 24), 1, 1 << 24); usleep(20000); } }\n");
  const auto begin = Clock::now();
  const Ran ran = run(check_of({"--check", "true", "--memory-limit", "200M"}, {program}));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(60));
  EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("it took more memory than --memory-limit allows")) << ran.out << ran.err;
  EXPECT_EQ(wait_for_no_processes(), "");
}

// However long it takes to read what was recorded.
TEST_F(CheckBoundsTest, TimeAndSignalsHoldWhereTheRecordingIsLarge) {
  const std::string program = writer();
  constexpr std::chrono::seconds kSlack{4};  // 2, and a machine that has other things to do
  const auto begin = Clock::now();
  const Ran ran = run(check_of({"--file", "f", "--time", "3"}, {program, "1000000", "10240"}));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(3) + kSlack);
  EXPECT_TRUE(ran.exit_code == 1 || ran.exit_code == 3) << ran.exit_code << ran.out << ran.err;
  EXPECT_EQ(wait_for_no_processes(), "");
  for (const int pause_ms : {300, 1500, 3000, 5000}) {
    const pid_t child = start(check_of({"--file", "f"}, {program, "20000", "10240"}));
    std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
    const auto killed = Clock::now();
    kill(child, SIGTERM);
    const Ran ended = finish(child);
    EXPECT_LT(Clock::now() - killed, kSlack) << "after " << pause_ms << " ms";
    EXPECT_TRUE(ended.exit_code == 1 || ended.exit_code == 3) << ended.exit_code << ended.out << ended.err;
    EXPECT_EQ(wait_for_no_processes(), "");
  }
}

TEST_F(CheckBoundsTest, AFullDiskIsToldAsWhatItIs) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to mount a small disk";
  const std::string program = writer();
  const Ran ran =
      run({"unshare", "-m", "sh", "-c", "mkdir small && mount -t tmpfs -o size=8m none small && exec \"$@\"", "sh",
           CRASHCUT_BINARY, "check", "--out", "small/results", "--check", "true", "--", program, "100000", "10240"});
  EXPECT_EQ(ran.exit_code, 2) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("No space left on device")) << ran.out << ran.err;
}

TEST_F(CheckBoundsTest, WrongLimitsOfMemoryAreRefusedEverywhere) {
  for (const char* command : {"run", "check", "compare", "threads", "replay", "mount", "pmem", "cxl"}) {
    for (const char* wrong : {"0", "lots", "-5G", "1K", "12Q", "2GG", "nan", "G"}) {
      const Ran ran = crashcut({command, "--memory-limit", wrong, "true"});
      EXPECT_EQ(ran.exit_code, 2) << command << " " << wrong;
      EXPECT_TRUE(ran.says("--memory-limit")) << ran.err;
      EXPECT_TRUE(ran.says("It is a number of bytes, or one with K, M, G or T after it")) << ran.err;
    }
    const Ran help = crashcut({command, "--help"});
    EXPECT_TRUE(help.says("--memory-limit SIZE")) << command;
  }
}

}  // namespace
}  // namespace crashcut
