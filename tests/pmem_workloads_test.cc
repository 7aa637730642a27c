// The programs of workloads/pmem/: the right ones are verified, every seeded mistake is found.
#include <climits>

#include "tests/cli_fixture.h"

namespace crashcut {
namespace {

struct Workload {
  const char* name;
  int recoveries;        // with 4 keys: as many as distinct reads
  int jaaru_executions;  // of a structure of the same kind with 4 keys (figure 14 of the paper); 0: there is none
  int thousand;          // recoveries with 1,000 keys
  std::vector<std::string> mistakes;
};

const Workload kWorkloads[] = {
    {"list", 5, 0, 1001, {"CONSTRUCTOR", "POINTER", "ORDER", "FENCE"}},
    {"append_log", 5, 0, 1001, {"RECORD", "ORDER", "COUNTERS", "STRADDLE"}},
    {"checksum_log", 289, 0, 72001, {"COVERS", "FLUSH", "FENCE"}},
    {"undo_log", 17, 0, 4001, {"LOG", "ADD", "COMMIT", "RECOVERY"}},
    {"allocator", 9, 0, 2001, {"CONSTRUCTOR", "ORDER", "VOLATILE"}},
    {"lock_free_hash", 9, 25, 2001, {"CONSTRUCTOR", "HEAD", "WRONG_LINE", "LOCK"}},
    {"radix_tree", 9, 174, 2043, {"CONSTRUCTOR", "GROW", "PLACE", "POINTER"}},
    {"extendible_hash", 10, 891, 3285, {"CONSTRUCTOR", "DIRECTORY", "SLOT", "SPLIT"}},
    {"btree", 16, 170, 6178, {"CONSTRUCTOR", "ROOT", "SHIFT", "SPLIT"}},
};

class PmemWorkloadsTest : public CliTest, public testing::WithParamInterface<Workload> {
 protected:
  // Compiled; `mistake` may be empty.
  void build(const std::string& name, const std::string& mistake, const std::string& way = "-O2") {
    std::vector<std::string> words = {"cc", "--pmem", "-Wall", "-Wextra", "-Werror"};
    std::istringstream more(way);
    for (std::string word; more >> word;) words.push_back(word);
    if (!mistake.empty()) words.push_back("-DMISTAKE_" + mistake);
    const std::string source = std::string(CRASHCUT_SOURCE_DIR) + "/workloads/pmem/" + name + ".c";
    const Ran built = crashcut(with(words, {source, "-o", (directory_ / "program").string()}));
    ASSERT_EQ(built.exit_code, 0) << name << " " << mistake << built.err;
  }
  Ran check(const std::string& keys, const std::string& depth = "1") {
    return crashcut({"pmem", "--depth", depth, "--recovery-limit", "1", (directory_ / "program").string(), keys});
  }
};

TEST_P(PmemWorkloadsTest, RightIsVerified) {
  const Workload& workload = GetParam();
  for (const char* way : {"--late -O2", "-O2"}) {
    build(workload.name, "", way);
    const Ran run = check("4");
    EXPECT_EQ(run.exit_code, 0) << way << run.out << run.err;
    EXPECT_TRUE(run.says("all " + std::to_string(workload.recoveries) + " recoveries, none failed"))
        << way << run.last_line();
  }
  EXPECT_LE(workload.recoveries, workload.jaaru_executions == 0 ? INT_MAX : workload.jaaru_executions);
  EXPECT_EQ(check("12").exit_code, 0);
  EXPECT_EQ(check("3", "2").exit_code, 0) << "a crash in recovery";
  EXPECT_EQ(std::system(((directory_ / "program").string() + " 1000").c_str()), 0) << "without crashcut";
}

// The list in every run; CRASHCUT_LONG=1: all of them, some minutes.
TEST_P(PmemWorkloadsTest, AThousandKeysAreVerified) {
  const Workload& workload = GetParam();
  if (std::string(workload.name) != "list" && std::getenv("CRASHCUT_LONG") == nullptr)
    GTEST_SKIP() << "CRASHCUT_LONG=1";
  build(workload.name, "");
  const Ran run = crashcut({"pmem", "--recovery-limit", "60", (directory_ / "program").string(), "1000"});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_TRUE(run.says("all " + std::to_string(workload.thousand) + " recoveries, none failed")) << run.last_line();
}

// 12 keys: nodes of trees shift across a line, grow and split, and segments of the hash split. A mistake in recovery
// needs a second crash.
TEST_P(PmemWorkloadsTest, EveryMistakeIsFound) {
  const Workload& workload = GetParam();
  for (const std::string& mistake : workload.mistakes) {
    build(workload.name, mistake);
    const bool hangs = mistake == "LOCK";  // each recovery that hangs takes the whole limit
    const Ran run = check(hangs ? "1" : "12", mistake == "RECOVERY" ? "2" : "1");
    EXPECT_EQ(run.exit_code, 1) << mistake << run.last_line() << run.err;
    EXPECT_EQ(run.says("recovery did not end"), hangs) << mistake;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PmemWorkloadsTest, testing::ValuesIn(kWorkloads),
                         [](const auto& workload) { return std::string(workload.param.name); });

}  // namespace
}  // namespace crashcut
