// crashcut cxl with caches, end to end: every row of the litmus of machines that share memory
// (tests/machines/litmus.c), exact with all schedules, and no other outcome with one.
#include <map>
#include <set>
#include <sstream>

#include "tests/cli_fixture.h"

namespace crashcut {
namespace {

class CxlCommandTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    const std::string source = std::string(CRASHCUT_SOURCE_DIR) + "/tests/machines/litmus.c";
    const Ran built = crashcut({"cc", "--pmem", "-g", "-O1", "-mclflushopt", source, "-o", program(), "-lpthread"});
    ASSERT_EQ(built.exit_code, 0) << built.err;
  }
  std::string program() const { return (directory_ / "litmus").string(); }

  Ran cxl(const std::vector<std::string>& options, const std::string& row) {
    return crashcut(
        with(with({"cxl", "--machines", "2", "--never-fails", "1", "--outcomes"}, options), {program(), row}));
  }
  // What machine 1 printed.
  static std::set<std::string> outcomes_of(const Ran& run) {
    std::set<std::string> outcomes;
    std::istringstream lines(run.out);
    const std::string kMachine = "machine 1: ";
    for (std::string line; std::getline(lines, line);) {
      const std::size_t at = line.find(kMachine);
      if (at != std::string::npos) outcomes.insert(line.substr(at + kMachine.size()));
    }
    return outcomes;
  }
};

TEST_F(CxlCommandTest, LitmusIsExact) {
  const std::map<std::string, std::set<std::string>> rows = {
      {"one", {"0", "1"}},
      {"line", {"00", "10", "11"}},
      {"lines", {"00", "01", "10", "11"}},
      {"flushed", {"00", "01", "11"}},
      {"half-flushed", {"00", "01", "10", "11"}},
      {"optimised", {"00", "01", "11"}},
      {"seven", {"00", "10", "12", "32", "34", "54", "56"}},
      {"before-x", {"00", "01", "11"}},
      {"before-y", {"00", "01", "11"}},
      {"threads", {"00", "01", "10", "11"}},
      {"lock", {"000", "011", "100", "110", "111"}},
  };
  for (const auto& [row, expected] : rows) {
    const Ran all = cxl({"--schedules", "all"}, row);
    EXPECT_EQ(all.exit_code, 0) << row << all.out << all.err;
    EXPECT_TRUE(all.says("verified for all schedules")) << row << all.out;
    EXPECT_EQ(outcomes_of(all), expected) << row << all.out;
    const Ran one = cxl({}, row);
    EXPECT_TRUE(one.says("verified for one schedule of the threads")) << row << one.out;
    const std::set<std::string> found = outcomes_of(one);
    EXPECT_FALSE(found.empty()) << row << one.out;
    EXPECT_TRUE(std::includes(expected.begin(), expected.end(), found.begin(), found.end())) << row << one.out;
  }
}

// A machine that fails keeps what had reached its caches, and dies between any two stores all the same.
TEST_F(CxlCommandTest, GlobalPersistentFlushKeepsTheOrderOfStores) {
  EXPECT_EQ(outcomes_of(cxl({"--gpf", "--schedules", "all"}, "lines")), (std::set<std::string>{"00", "10", "11"}));
  EXPECT_EQ(outcomes_of(cxl({"--gpf"}, "lines")), (std::set<std::string>{"00", "10", "11"}));
}

TEST_F(CxlCommandTest, WithoutFailuresNothingIsLost) {
  EXPECT_EQ(outcomes_of(cxl({"--failures", "0", "--schedules", "all"}, "lines")), (std::set<std::string>{"11"}));
}

TEST_F(CxlCommandTest, PoisonShowsAsASignalOrAsAValue) {
  const Ran signal = cxl({"--poison", "sigbus"}, "one");
  EXPECT_EQ(signal.exit_code, 1) << signal.out << signal.err;
  EXPECT_TRUE(signal.says("SIGBUS")) << signal.out;
  const std::set<std::string> values = outcomes_of(cxl({"--poison", "value"}, "one"));
  EXPECT_EQ(values.size(), 3u);
  EXPECT_TRUE(values.contains("0") && values.contains("1"));
}

TEST_F(CxlCommandTest, CachesAreForProgramsThatAreCompiledForThem) {
  const Ran plain = crashcut({"cxl", "--machines", "2", "--gpf", "/bin/true"});
  EXPECT_EQ(plain.exit_code, 2) << plain.out << plain.err;
  EXPECT_TRUE(plain.says("crashcut cc --pmem")) << plain.err;
}

// The programs of workloads/cxl/ on two machines with caches: one schedule, all failures, all answers.
class CxlWorkloadsTest : public CliTest {
 protected:
  Ran check(const std::string& name, const std::string& mistake, const std::string& keys) {
    const std::string sources = std::string(CRASHCUT_SOURCE_DIR) + "/workloads/";
    const std::string program = (directory_ / "program").string();
    std::vector<std::string> words = {"cc", "--pmem", "-g", "-O1", "-I" + sources + "cxl", "-I" + sources + "pmem"};
    if (!mistake.empty()) words.push_back("-DMISTAKE_" + mistake);
    const Ran built = crashcut(with(words, {sources + "cxl/" + name + ".c", "-o", program, "-lpthread"}));
    EXPECT_EQ(built.exit_code, 0) << name << built.err;
    std::vector<std::string> run = {"cxl", "--machines", "2", program};
    if (!keys.empty()) run.push_back(keys);
    return crashcut(run);
  }
};

TEST_F(CxlWorkloadsTest, RightIsVerified) {
  for (const char* name : {"ring", "map", "list", "btree", "extendible_hash", "radix_tree", "lock_free_hash"}) {
    const Ran run = check(name, "", "10");
    EXPECT_EQ(run.exit_code, 0) << name << run.out << run.err;
  }
  for (const char* name : {"references", "commit"}) {
    const Ran run = check(name, "", "");
    EXPECT_EQ(run.exit_code, 0) << name << run.out << run.err;
  }
}

TEST_F(CxlWorkloadsTest, MistakesAreFound) {
  struct Row {
    const char *name, *mistake, *keys = "";
  };
  for (const Row& row : {
           Row{"ring", "SLOT"},
           Row{"ring", "SENT"},
           Row{"ring", "COUNTERS"},
           Row{"commit", "APPLY"},
           Row{"commit", "DECISION"},
           Row{"commit", "PRESUME"},
           Row{"list", "LINK"},
           Row{"list", "NODE"},
           Row{"references", "DIVIDE"},
           Row{"references", "NO_FREE"},
           Row{"references", "REFERENCE"},
           Row{"map", "COUNT"},
           Row{"map", "SLOT"},
           Row{"map", "DIVIDE", "16"},
           Row{"map", "TABLE", "16"},
           Row{"btree", "CONSTRUCTOR"},
           Row{"btree", "ROOT"},
           Row{"btree", "SHIFT", "16"},
           Row{"btree", "SPLIT", "16"},
           Row{"btree", "NO_REPAIR", "16"},
           Row{"extendible_hash", "CONSTRUCTOR"},
           Row{"extendible_hash", "DIRECTORY"},
           Row{"extendible_hash", "SPLIT", "16"},
           Row{"radix_tree", "CONSTRUCTOR"},
           Row{"radix_tree", "PLACE"},
           Row{"radix_tree", "BOUNDS", "16"},
           Row{"lock_free_hash", "CONSTRUCTOR"},
           Row{"lock_free_hash", "HEAD"},
           Row{"lock_free_hash", "WRONG_LINE"},
       }) {
    const Ran run = check(row.name, row.mistake, row.keys);
    EXPECT_EQ(run.exit_code, 1) << row.name << " " << row.mistake << run.out << run.err;
    EXPECT_TRUE(run.says("FAILS")) << row.name << " " << row.mistake << run.out;
  }
}

}  // namespace
}  // namespace crashcut
