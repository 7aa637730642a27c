// crashcut cxl --incoherent: memory that no hardware keeps coherent, and several single schedules of one search.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "tests/cli_fixture.h"

namespace crashcut {
namespace {

using Outcomes = std::set<std::string>;

class CxlIncoherentTest : public CliTest {
 protected:
  std::string compile(const std::string& path, const std::vector<std::string>& flags = {}) {
    const std::string sources = CRASHCUT_SOURCE_DIR,
                      made = (directory_ / ("program" + std::to_string(++count_))).string();
    const std::vector<std::string> words = {
        "cc", "--pmem", "-g",       "-O1", "-mclwb", "-I" + sources + "/workloads/cxl", sources + "/" + path,
        "-o", made,     "-lpthread"};
    const Ran built = crashcut(with(words, flags));
    EXPECT_EQ(built.exit_code, 0) << built.err;
    return made;
  }
  // What machine 1 printed, of all executions.
  static Outcomes outcomes_of(const Ran& run) {
    const std::string kMachine = "machine 1: ";
    Outcomes outcomes;
    std::istringstream lines(run.out);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t at = line.find(kMachine);
      if (at != std::string::npos) outcomes.insert(line.substr(at + kMachine.size()));
    }
    return outcomes;
  }
  int count_ = 0;
};

// tests/cxl_litmus_test.cc has the rows of the model. No machine fails here.
TEST_F(CxlIncoherentTest, LitmusIsExact) {
  const std::string program = compile("tests/machines/incoherent.c");
  const std::map<std::string, Outcomes> rows = {
      {"waits", {"10"}},
      {"waits-stale", {"00", "10"}},
      {"flag", {"00", "01", "11"}},
      {"unflushed", {"00", "01", "10", "11"}},
      {"uninvalidated", {"00", "01", "10", "11"}},
      {"clwb-of-reader", {"00", "01", "10", "11"}},
      {"clwb-of-writer", {"00", "01", "11"}},
      {"locked", {"00", "01", "10", "11"}},
  };
  for (const auto& [row, expected] : rows) {
    const std::vector<std::string> words = {"cxl",        "--machines",   "2",   "--failures", "0",
                                            "--outcomes", "--incoherent", "data"};
    const Ran all = crashcut(with(words, {"--schedules", "all", program, row}));
    EXPECT_EQ(all.exit_code, 0) << row << all.out << all.err;
    EXPECT_TRUE(all.says("data is not coherent")) << all.out;
    EXPECT_EQ(outcomes_of(all), expected) << row << all.out;
    const Ran one = crashcut(with(words, {program, row}));
    EXPECT_TRUE(one.says("for one schedule of the threads, with at most 1 step that caches take by themselves"))
        << row << one.out << one.err;
    const Outcomes found = outcomes_of(one);
    EXPECT_FALSE(found.empty()) << row << one.out;
    EXPECT_TRUE(std::includes(expected.begin(), expected.end(), found.begin(), found.end())) << row << one.out;
  }
}

// Machine 1 sees of each of two lines what it was before machine 0 ended, if its cache has fetched it by then.
TEST_F(CxlIncoherentTest, CachesTakeSeveralStepsByThemselves) {
  const std::string program = compile("tests/machines/incoherent.c");
  const std::vector<std::string> words = {"cxl",        "--machines",   "2",   "--failures", "0",
                                          "--outcomes", "--incoherent", "data"};
  const Ran one = crashcut(with(words, {program, "two-lines"}));
  EXPECT_EQ(outcomes_of(one), (Outcomes{"01", "10", "11"})) << one.out << one.err;
  const Ran two = crashcut(with(words, {"--cache-steps", "2", program, "two-lines"}));
  EXPECT_EQ(outcomes_of(two), (Outcomes{"00", "01", "10", "11"})) << two.out << two.err;
  EXPECT_TRUE(two.says("with at most 2 steps that caches take by themselves")) << two.out;
}

// What a machine had in its cache is lost when it fails, but for what the cache had written back by itself.
TEST_F(CxlIncoherentTest, AMachineThatFailsLosesItsCopies) {
  const std::string program = compile("tests/machines/incoherent.c");
  const Ran run = crashcut(
      {"cxl", "--machines", "2", "--never-fails", "1", "--outcomes", "--incoherent", "data", program, "fails"});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_EQ(outcomes_of(run), (Outcomes{"00", "10", "11"})) << run.out;
}

// The same program on coherent memory sees every store at once.
TEST_F(CxlIncoherentTest, OtherMemoryIsCoherent) {
  const std::string program = compile("tests/machines/incoherent.c");
  const Ran run = crashcut({"cxl", "--machines", "2", "--failures", "0", "--outcomes", "--incoherent", "other",
                            "--schedules", "all", program, "waits-stale"});
  EXPECT_EQ(outcomes_of(run), Outcomes{"10"}) << run.out << run.err;
  EXPECT_TRUE(run.says("No machine asked for memory of the name other")) << run.out;
}

TEST_F(CxlIncoherentTest, SoftwareCoherenceIsVerifiedAndItsMistakesAreFound) {
  const std::vector<std::string> words = {"cxl", "--machines", "2", "--incoherent", "rows"};
  const std::string right = compile("workloads/cxl/software_coherence.c");
  for (const char* schedules : {"one", "seeds:4"}) {
    const Ran run = crashcut(with(words, {"--schedules", schedules, right}));
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  }
  struct Row {
    const char *mistake, *text;
  };
  for (const Row& row : {Row{"NO_WRITE_BACK", "assertion"}, Row{"NO_INVALIDATE", "assertion"}, Row{"CLWB", "assertion"},
                         Row{"LATE", "FAILS"}, Row{"IN_PLACE", "by itself writes back line rows"}}) {
    const std::string wrong = compile("workloads/cxl/software_coherence.c", {std::string("-DMISTAKE_") + row.mistake});
    const Ran run = crashcut(with(words, {"--schedules", "seeds:4", wrong}));
    EXPECT_EQ(run.exit_code, 1) << row.mistake << run.out << run.err;
    EXPECT_TRUE(run.says(row.text)) << row.mistake << run.out;
    EXPECT_EQ(crashcut({"replay", token_of(run)}).exit_code, 1) << row.mistake << run.out;
  }
}

TEST_F(CxlIncoherentTest, WhatItDoesNotGoWithIsTold) {
  const std::string program = compile("tests/machines/incoherent.c");
  struct Row {
    std::vector<std::string> options;
    const char* sentence;
  };
  for (const Row& row :
       {Row{{"--incoherent", "data", "--gpf"}, "Leave one of the options out"},
        Row{{"--incoherent", "data", "--poison", "value"}, "Leave one of the options out"},
        Row{{"--incoherent", "data", "--memory-of", "data=0"}, "there is another rule"},
        Row{{"--cache-steps", "2"}, "memory that --incoherent names"},
        Row{{"--incoherent", "data", "--cache-steps", "2", "--schedules", "all"}, "have no such bound"},
        Row{{"--incoherent", ""}, "the name of shared memory has between"}}) {
    const Ran run = crashcut(with(with({"cxl", "--machines", "2"}, row.options), {program, "flag"}));
    EXPECT_EQ(run.exit_code, 2) << run.out << run.err;
    EXPECT_TRUE(run.says(row.sentence)) << run.out << run.err;
  }
  const Ran mutex = crashcut({"cxl", "--machines", "2", "--incoherent", "data", program, "mutex"});
  EXPECT_EQ(mutex.exit_code, 2) << mutex.out << mutex.err;
  EXPECT_TRUE(mutex.says("memory that no hardware keeps coherent")) << mutex.out << mutex.err;
}

class CxlSeedsTest : public CxlIncoherentTest {};

// Each seed has the executions that it has alone; a search that is cut off goes on where it was.
TEST_F(CxlSeedsTest, SeveralSeedsAreSingleSchedules) {
  const std::string program = compile("workloads/cxl/map.c");
  const auto executions = [&](const std::vector<std::string>& options, int expected_code) {
    const Ran run = crashcut(with(with({"cxl", "--machines", "2", "--json", "report.json"}, options), {program, "2"}));
    EXPECT_EQ(run.exit_code, expected_code) << run.out << run.err;
    const auto report = nlohmann::json::parse(read_file(directory_ / "report.json"));
    return report["counts"]["executions"].get<std::uint64_t>();
  };
  std::uint64_t sum = 0;
  for (const char* seed : {"3", "4", "5"}) sum += executions({"--seed", seed}, 0);
  EXPECT_EQ(executions({"--seed", "3", "--schedules", "seeds:3"}, 0), sum);
  EXPECT_EQ(executions(
                {"--seed", "3", "--schedules", "seeds:3", "--max-executions", "50", "--jobs", "1", "--out", "kept"}, 3),
            50u);
  const Ran rest = crashcut({"cxl", "--resume", "kept", "--max-executions", "100000", "--json", "report.json"});
  EXPECT_EQ(rest.exit_code, 0) << rest.out << rest.err;
  const auto report = nlohmann::json::parse(read_file(directory_ / "report.json"));
  EXPECT_EQ(report["counts"]["executions"].get<std::uint64_t>(), sum) << rest.out;
}

// A mistake that the first schedule does not show; its counterexample is that of the first seed that does, and replays.
TEST_F(CxlSeedsTest, MistakesThatOneScheduleDoesNotShowAreFound) {
  const std::string program = compile("workloads/cxl/map.c", {"-DMISTAKE_REPAIR_AT_START"});
  const Ran one = crashcut({"cxl", "--machines", "2", program, "4"});
  EXPECT_EQ(one.exit_code, 0) << one.out << one.err;
  EXPECT_TRUE(one.says("--schedules seeds:N")) << one.out;
  const Ran several = crashcut({"cxl", "--machines", "2", "--schedules", "seeds:12", program, "4"});
  EXPECT_EQ(several.exit_code, 1) << several.out << several.err;
  EXPECT_EQ(crashcut({"replay", token_of(several)}).exit_code, 1);
  const Ran wrong = crashcut({"cxl", "--machines", "2", "--schedules", "seeds:0", program, "4"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_TRUE(wrong.says("it is one, seeds:N, random:N or all")) << wrong.err;
}

}  // namespace
}  // namespace crashcut
