// One machine that fails is persistent memory after a crash, through the commands: the programs of workloads/pmem/
// under crashcut pmem, and under crashcut cxl with a machine that may fail and one that then recovers, or restarts the
// first one, which recovers (tests/machines/as_pmem.c).
#include "tests/pmem_fixture.h"

namespace crashcut {
namespace {

struct Workload {
  const char* name;
  std::vector<const char*> mistakes;  // that show without a crash of the recovery
};
std::ostream& operator<<(std::ostream& out, const Workload& workload) { return out << workload.name; }

class CxlPmemCommandTest : public PmemTest, public testing::WithParamInterface<Workload> {
 protected:
  void build(const std::string& mistake) {
    const std::string sources = std::string(CRASHCUT_SOURCE_DIR), folder = sources + "/workloads/pmem";
    const std::string program = folder + "/" + GetParam().name + ".c";
    std::vector<std::string> words = {"cc", "--pmem", "-g", "-O2", "-I" + folder};
    if (!mistake.empty()) words.push_back("-DMISTAKE_" + mistake);
    const Ran one = crashcut(with(words, {program, "-o", "one"}));
    ASSERT_EQ(one.exit_code, 0) << one.err;
    words.push_back("-DPROGRAM=\"" + program + "\"");
    for (const std::string made : {"machines", "restarts"}) {
      if (made == "restarts") words.emplace_back("-DRESTARTS");
      const Ran machines = crashcut(with(words, {sources + "/tests/machines/as_pmem.c", "-o", made, "-lpthread"}));
      ASSERT_EQ(machines.exit_code, 0) << machines.err;
    }
  }
  Ran run_once(const std::string& keys, const std::vector<std::string>& options = {}) {
    return pmem(with(options, {"--recovery-limit", "1", "./one", keys}));
  }
  Ran run_machines(const std::string& keys, const std::vector<std::string>& options = {},
                   const std::string& program = "machines") {
    return crashcut(with(with({"cxl", "--machines", "2", "--never-fails", "1", "--step-limit", "1"}, options),
                         {"./" + program, keys}));
  }
  // What recoveries printed. Where machine 0 failed before its barrier there was nothing to recover.
  static std::set<std::string> printed(const Ran& run) {
    const std::string kMachine = "machine 1: ";  // or 0
    std::set<std::string> all;
    for (const auto& [outcome, count] : outcomes_of(run)) {
      if (outcome != "(no output)")
        all.insert(outcome.starts_with("machine ") ? outcome.substr(kMachine.size()) : outcome);
    }
    return all;
  }
};

TEST_P(CxlPmemCommandTest, RightHasEqualOutcomes) {
  build("");
  for (const char* keys : {"1", "4", "12"}) {
    const Ran one = run_once(keys, {"--outcomes"}), machines = run_machines(keys, {"--outcomes"});
    EXPECT_EQ(one.exit_code, 0) << one.out << one.err;
    EXPECT_EQ(machines.exit_code, 0) << machines.out << machines.err;
    EXPECT_EQ(printed(machines), printed(one)) << keys << machines.out << one.out;
    EXPECT_EQ(printed(one).size(), std::stoul(keys) + 1) << one.out;
    const Ran restarts = run_machines(keys, {"--outcomes"}, "restarts");
    EXPECT_EQ(restarts.exit_code, 0) << restarts.out << restarts.err;
    EXPECT_EQ(printed(restarts), printed(one)) << keys << restarts.out << one.out;
  }
}

TEST_P(CxlPmemCommandTest, MistakesAreFoundBothWays) {
  for (const char* mistake : GetParam().mistakes) {
    build(mistake);
    const Ran one = run_once("12"), machines = run_machines("12"), restarts = run_machines("12", {}, "restarts");
    EXPECT_EQ(one.exit_code, 1) << mistake << one.out << one.err;
    EXPECT_EQ(machines.exit_code, 1) << mistake << machines.out << machines.err;
    EXPECT_EQ(restarts.exit_code, 1) << mistake << restarts.out << restarts.err;
  }
}

// Not MISTAKE_FENCE of the log with checksums: the fence that is missing is that of the mark.
INSTANTIATE_TEST_SUITE_P(All, CxlPmemCommandTest,
                         testing::Values(Workload{"list", {"CONSTRUCTOR", "POINTER", "ORDER", "FENCE"}},
                                         Workload{"append_log", {"RECORD", "ORDER", "COUNTERS", "STRADDLE"}},
                                         Workload{"checksum_log", {"COVERS", "FLUSH"}},
                                         Workload{"undo_log", {"LOG", "ADD", "COMMIT"}},
                                         Workload{"allocator", {"CONSTRUCTOR", "ORDER", "VOLATILE"}},
                                         Workload{"lock_free_hash", {"CONSTRUCTOR", "HEAD", "WRONG_LINE"}},
                                         Workload{"radix_tree", {"CONSTRUCTOR", "GROW", "PLACE", "POINTER"}},
                                         Workload{"extendible_hash", {"CONSTRUCTOR", "DIRECTORY", "SLOT", "SPLIT"}},
                                         Workload{"btree", {"CONSTRUCTOR", "ROOT", "SHIFT", "SPLIT"}}),
                         [](const auto& workload) { return std::string(workload.param.name); });

}  // namespace
}  // namespace crashcut
