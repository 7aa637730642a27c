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

}  // namespace
}  // namespace crashcut
