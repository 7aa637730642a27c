// The programs of workloads/pmem/: the right ones are verified, every seeded mistake is found.
#include "tests/cli_fixture.h"

namespace crashcut {
namespace {

struct Workload {
  const char* name;
  int recoveries;  // with 4 keys: as many as distinct reads
  std::vector<const char*> mistakes;
};

const Workload kWorkloads[] = {
    {"list", 5, {"CONSTRUCTOR", "POINTER", "ORDER", "FENCE"}},
    {"append_log", 5, {"RECORD", "ORDER", "COUNTERS", "STRADDLE"}},
    {"checksum_log", 289, {"COVERS", "FLUSH", "FENCE"}},
    {"undo_log", 17, {"LOG", "ADD", "COMMIT", "RECOVERY"}},
    {"allocator", 9, {"CONSTRUCTOR", "ORDER", "VOLATILE"}},
    {"lock_free_hash", 9, {"CONSTRUCTOR", "HEAD", "WRONG_LINE", "LOCK"}},
    {"btree", 16, {"CONSTRUCTOR", "ROOT", "SHIFT", "SPLIT"}},
};

class PmemWorkloadsTest : public CliTest {
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
    return crashcut({"pmem", "--depth", depth, "--recovery-limit", "2", (directory_ / "program").string(), keys});
  }
};

TEST_F(PmemWorkloadsTest, RightProgramsAreVerified) {
  for (const Workload& workload : kWorkloads) {
    for (const char* way : {"-O2", "--late -O2"}) {
      build(workload.name, "", way);
      const Ran run = check("4");
      EXPECT_EQ(run.exit_code, 0) << workload.name << way << run.out << run.err;
      EXPECT_TRUE(run.says("all " + std::to_string(workload.recoveries) + " recoveries, none failed"))
          << workload.name << way << run.last_line();
    }
    build(workload.name, "");
    EXPECT_EQ(check("12").exit_code, 0) << workload.name;
    EXPECT_EQ(check("3", "2").exit_code, 0) << workload.name << ": a crash in recovery";
  }
}

// 8 keys: a node of the tree shifts across a line and splits. A mistake in recovery needs a second crash.
TEST_F(PmemWorkloadsTest, EveryMistakeIsFound) {
  for (const Workload& workload : kWorkloads) {
    for (const char* mistake : workload.mistakes) {
      build(workload.name, mistake);
      const Ran run = check("8", std::string(mistake) == "RECOVERY" ? "2" : "1");
      EXPECT_EQ(run.exit_code, 1) << workload.name << " " << mistake << run.last_line() << run.err;
      EXPECT_EQ(run.says("recovery did not end"), std::string(mistake) == "LOCK") << workload.name << " " << mistake;
    }
  }
}

// Without crashcut they run to their end.
TEST_F(PmemWorkloadsTest, RunWithoutCrashcut) {
  for (const Workload& workload : kWorkloads) {
    build(workload.name, "");
    EXPECT_EQ(std::system(((directory_ / "program").string() + " 1000").c_str()), 0) << workload.name;
  }
}

}  // namespace
}  // namespace crashcut
