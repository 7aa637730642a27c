// Debian's libpmemobj as it is, under crashcut pmem --trap: the programs of workloads/pmem/pmemobj/.
//
// A recovery opens a pool, which takes some thousands of trapped accesses. So the suite runs a few of the programs;
// CRASHCUT_LONG=1 runs them all.
#include <filesystem>

#include "tests/pmem_fixture.h"

namespace crashcut {
namespace {

struct Mistake {
  const char* program;
  const char* mistake;
  const char* found;
  bool is_short;
};
const Mistake kMistakes[] = {
    {"list", "ADD", "recovery aborted", true},   {"list", "PERSIST", "found == list->length", false},
    {"queue", "ADD", "recovery aborted", false}, {"queue", "PERSIST", "OID_EQUALS", false},
    {"tree", "ADD", "recovery aborted", false},  {"tree", "PERSIST", "found == tree->keys", false},
    {"pool", "NAME", "pmemobj_open: ", true},
};

class PmemobjTest : public PmemTest {
 protected:
  void SetUp() override {
    PmemTest::SetUp();
    if (!std::filesystem::exists("/usr/include/libpmemobj.h")) GTEST_SKIP() << "libpmemobj-dev is not installed";
  }
  static bool is_long() { return std::getenv("CRASHCUT_LONG") != nullptr; }

  // Compiled without instrumentation.
  std::string built(const std::string& name, const std::string& mistake = "") {
    const std::string made = (directory_ / (name + mistake)).string(), root = CRASHCUT_SOURCE_DIR;
    const std::string command = "cc -O2 -g -Wall -Wextra -Werror -I" + root + "/include " +
                                (mistake.empty() ? "" : "-DMISTAKE_" + mistake + " ") + root +
                                "/workloads/pmem/pmemobj/" + name + ".c -o " + made + " -lpmemobj";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return made;
  }
  Ran trap(const std::string& program, std::vector<std::string> options = {}) {
    return pmem(with(with({"--trap", "--outcomes", "--recovery-limit", "120"}, options), {program}));
  }
};

TEST_F(PmemobjTest, APoolThatIsNamedWhenItIsWholeIsVerified) {
  const Ran run = trap(built("pool"));
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_EQ(outcomes_of(run), (std::map<std::string, int>{{"no pool", 2}, {"a pool", 1}})) << run.out;
}

TEST_F(PmemobjTest, TransactionsAreVerified) {
  if (!is_long()) GTEST_SKIP() << "half a minute of processor time for each structure: CRASHCUT_LONG=1";
  for (const char* name : {"list", "queue", "tree"}) {
    const Ran run = trap(built(name));
    EXPECT_EQ(run.exit_code, 0) << name << run.out << run.err;
    EXPECT_TRUE(run.says("verified for code that was trapped as it is")) << name << run.last_line();
    EXPECT_EQ(outcomes_of(run).size(), 2u) << name << run.out;
  }
}

// The first recoveries: those that have most of what was written.
TEST_F(PmemobjTest, MistakesAreFoundAndReplayed) {
  for (const Mistake& m : kMistakes) {
    if (!m.is_short && !is_long()) continue;
    const Ran run = trap(built(m.program, m.mistake), {"--max-recoveries", "16"});
    EXPECT_EQ(run.exit_code, 1) << m.program << " " << m.mistake << run.out << run.err;
    EXPECT_TRUE(run.says(m.found)) << m.program << " " << m.mistake << run.out;
    const std::string last = run.last_line();
    const std::size_t token = last.find("crashcut replay ");
    ASSERT_NE(token, std::string::npos) << last;
    std::istringstream rest(last.substr(token + 16));
    std::vector<std::string> replay = {"replay"};
    for (std::string word; rest >> word;) replay.push_back(word);
    const Ran again = crashcut(replay);
    EXPECT_EQ(again.exit_code, 1) << m.program << " " << m.mistake << again.out << again.err;
  }
}

}  // namespace
}  // namespace crashcut
