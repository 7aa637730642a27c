// crashcut cxl with caches, end to end: every row of the litmus of machines that share memory
// (tests/machines/litmus.c), exact with all schedules, and no other outcome with one.
#include <algorithm>
#include <iterator>
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
  struct Row {
    const char *name, *mistakes, *arguments = "";
  };
  // So many seeds, and with them schedules, are tried for a mistake that needs a certain one.
  static constexpr int kSeeds = 12;

  static std::vector<std::string> words_of(const std::string& text) {
    std::istringstream in(text);
    return {std::istream_iterator<std::string>(in), {}};
  }
  std::string program() const { return (directory_ / "program").string(); }

  void build(const Row& row) {
    const std::string sources = std::string(CRASHCUT_SOURCE_DIR) + "/workloads/";
    std::vector<std::string> words = {"cc", "--pmem", "-g", "-O1", "-I" + sources + "cxl", "-I" + sources + "pmem"};
    for (const std::string& mistake : words_of(row.mistakes)) words.push_back("-DMISTAKE_" + mistake);
    const Ran built = crashcut(with(words, {sources + "cxl/" + row.name + ".c", "-o", program(), "-lpthread"}));
    ASSERT_EQ(built.exit_code, 0) << row.name << built.err;
  }
  Ran check(const Row& row, const std::vector<std::string>& options = {}) {
    return crashcut(with(with({"cxl", "--machines", "2"}, options), with({program()}, words_of(row.arguments))));
  }
  // The first seed whose schedule shows it; the last run if none does.
  Ran find(const Row& row, const std::vector<std::string>& options = {}) {
    Ran run;
    for (int seed = 0; seed < kSeeds && run.exit_code != 1; ++seed)
      run = check(row, with(options, {"--seed", std::to_string(seed)}));
    return run;
  }
};

TEST_F(CxlWorkloadsTest, RightIsVerified) {
  for (const Row& row :
       {Row{"ring", "", "10"}, Row{"references", ""}, Row{"commit", ""}, Row{"map", "", "10"}, Row{"map", "", "6 2"},
        Row{"map", "", "4 2 in-turn"}, Row{"list", "", "10"}, Row{"list", "", "6 2"}}) {
    build(row);
    const Ran run = check(row);
    EXPECT_EQ(run.exit_code, 0) << row.name << run.out << run.err;
  }
}

// Two machines of two threads, 10 keys: the setting of CXLMC's Table 5. Several schedules, and all models of memory.
TEST_F(CxlWorkloadsTest, IndexesOfTwoThreadsAreVerified) {
  for (const char* name : {"btree", "extendible_hash", "radix_tree", "lock_free_hash"}) {
    const Row row{name, "", "10 2"};
    build(row);
    for (const char* option : {"--seed=0", "--seed=1", "--seed=2", "--gpf"}) {
      const Ran run = check(row, {option});
      EXPECT_EQ(run.exit_code, 0) << name << " " << option << run.out << run.err;
    }
  }
}

TEST_F(CxlWorkloadsTest, HundredKeysAreVerified) {
  for (const char* name : {"btree", "extendible_hash", "radix_tree", "lock_free_hash"}) {
    const Row row{name, "", "100 2"};
    build(row);
    const Ran run = check(row, {"--time", "300"});
    EXPECT_EQ(run.exit_code, 0) << name << run.out << run.err;
  }
}

// What follows a failure is small, beside what is left without one.
TEST_F(CxlWorkloadsTest, HalfOfASearchIsNotTakenForNothing) {
  const Row row{"btree", "", "10"};
  build(row);
  const auto counts = [&] { return nlohmann::json::parse(read_file(directory_ / "report.json")); };
  ASSERT_EQ(check(row, {"--jobs", "1", "--json", "report.json"}).exit_code, 0);
  const std::uint64_t all = counts().at("counts").at("executions");
  const Ran half =
      check(row, {"--jobs", "1", "--json", "report.json", "--max-executions", std::to_string(2 * all / 3)});
  ASSERT_EQ(half.exit_code, 3) << half.out << half.err;
  const double explored = counts().at("explored_fraction");
  EXPECT_GT(explored, 0.05) << half.out;
  EXPECT_LT(explored, 1) << half.out;
}

TEST_F(CxlWorkloadsTest, MistakesAreFound) {
  for (const Row& row : {
           Row{"ring", "SLOT"},
           Row{"ring", "SENT"},
           Row{"ring", "COUNTERS"},
           Row{"commit", "APPLY"},
           Row{"commit", "DECISION"},
           Row{"commit", "PRESUME"},
           Row{"list", "LINK"},
           Row{"list", "NODE"},
           Row{"list", "READER", "2 2"},
           Row{"list", "HALF_LINK", "2"},
           Row{"references", "DIVIDE"},
           Row{"references", "NO_FREE"},
           Row{"references", "NO_REPAIR"},
           Row{"references", "REFERENCE"},
           Row{"map", "COUNT"},
           Row{"map", "SLOT"},
           Row{"map", "NO_REPAIR", "4"},
           Row{"map", "REPAIR_AT_START", "4"},
           Row{"map", "BOUNDS", "4 1 in-turn"},
           Row{"map", "DIVIDE", "16"},
           Row{"map", "TABLE", "16"},
           Row{"btree", "CONSTRUCTOR"},
           Row{"btree", "ROOT"},
           Row{"btree", "SHIFT", "16"},
           Row{"btree", "SPLIT", "16"},
           Row{"btree", "NO_REPAIR", "16"},
           Row{"btree", "REPAIR_AT_START", "16"},
           Row{"extendible_hash", "CONSTRUCTOR"},
           Row{"extendible_hash", "DIRECTORY"},
           Row{"extendible_hash", "SPLIT", "16"},
           Row{"extendible_hash", "NO_REPAIR", "16 2"},
           Row{"extendible_hash", "REPAIR_AT_START", "16 2"},
           Row{"extendible_hash", "SLOT NO_REPAIR", "4"},
           Row{"radix_tree", "CONSTRUCTOR"},
           Row{"radix_tree", "PLACE"},
           Row{"radix_tree", "GROW", "24"},
           Row{"radix_tree", "POINTER", "24"},
           Row{"radix_tree", "BOUNDS", "16"},
           Row{"lock_free_hash", "CONSTRUCTOR"},
           Row{"lock_free_hash", "HEAD"},
           Row{"lock_free_hash", "WRONG_LINE"},
           Row{"lock_free_hash", "LOCK"},
       }) {
    build(row);
    const Ran run = find(row);
    EXPECT_EQ(run.exit_code, 1) << row.name << " " << row.mistakes << run.out << run.err;
    EXPECT_TRUE(run.says("FAILS")) << row.name << " " << row.mistakes << run.out;
  }
}

// A mistake goes away with global persistent flush if it shows only by what was lost. Whether that is so, a run says in
// which all that the machine had stored is there, though nothing was flushed on failure: with --poison, a load of a
// line of which something was lost ends the machine before it can notice anything else.
TEST_F(CxlWorkloadsTest, GlobalPersistentFlushHidesWhatIsLost) {
  for (const Row& row : {
           Row{"ring", "SLOT"},
           Row{"ring", "COUNTERS"},
           Row{"commit", "APPLY"},
           Row{"commit", "DECISION"},
           Row{"commit", "PRESUME"},
           Row{"list", "LINK"},
           Row{"list", "HALF_LINK", "2"},
           Row{"references", "DIVIDE"},
           Row{"references", "REFERENCE"},
           Row{"map", "COUNT"},
           Row{"map", "BOUNDS", "4 1 in-turn"},
           Row{"btree", "ROOT"},
           Row{"btree", "NO_REPAIR", "16"},
           Row{"lock_free_hash", "HEAD"},
           Row{"lock_free_hash", "LOCK"},
       }) {
    build(row);
    const Ran flushed = check(row, {"--gpf"});
    // Of all violations, those that are no SIGBUS.
    const Ran poisoned = check(row, {"--poison", "sigbus", "--all"});
    const bool shows_without_loss = poisoned.says("assertion") || poisoned.says("SIGFPE") || poisoned.says("deadlock");
    EXPECT_EQ(flushed.exit_code, shows_without_loss ? 1 : 0)
        << row.name << " " << row.mistakes << flushed.out << flushed.err << poisoned.out;
  }
}

// The report says which stores the machine had in its caches, where they come from, and which load found them lost.
TEST_F(CxlWorkloadsTest, LossesAreTold) {
  build({"lock_free_hash", "HEAD"});
  const Ran run = check({"lock_free_hash", "HEAD"}, {"--json", "report.json"});
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  const auto report = nlohmann::json::parse(read_file(directory_ / "report.json"));
  std::size_t failure = 0, finding = 0;
  const auto& steps = report["violation"]["steps"];
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::string text = steps[i]["text"];
    const bool is_told = text.find("8 bytes at hash") != std::string::npos &&
                         text.find("by machine 0 in insert lock_free_hash.c:") != std::string::npos;
    if (is_told && text.find("machine 0 fails; in its caches: ") != std::string::npos) failure = i;
    if (is_told && text.find("lost: ") != std::string::npos && steps[i]["machine"] == 1) finding = i;
  }
  EXPECT_GT(failure, 0u) << steps.dump(2);
  EXPECT_GT(finding, failure) << steps.dump(2);
}

// A failure is not run where an earlier one has left the same, and keeps what makes it another one (LastFailurePoint).
TEST_F(CxlWorkloadsTest, ExecutionsAreAboutAsManyAsFailurePoints) {
  for (const char* name : {"btree", "extendible_hash", "radix_tree", "lock_free_hash"}) {
    const Row row{name, "", "10 2"};
    build(row);
    check(row, {"--json", "report.json"});
    const auto report = nlohmann::json::parse(read_file(directory_ / "report.json"));
    const double executions = report["counts"]["executions"], points = report["execution"]["failure_points"];
    EXPECT_LE(executions, 1.1 * points) << name;
  }
}

// gdb at the moment of failure, in the machine that fails; and at the end, in the machine that noticed.
TEST_F(CxlWorkloadsTest, MachinesAreDebugged) {
  if (std::system("gdb --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "there is no gdb";
  build({"lock_free_hash", "HEAD"});
  check({"lock_free_hash", "HEAD"}, {"--json", "report.json"});
  const auto report = nlohmann::json::parse(read_file(directory_ / "report.json"));
  const std::string token = report["token"];
  const Ran end = crashcut({"gdb", token, "-batch", "-ex", "backtrace"});
  EXPECT_TRUE(end.says(" check (")) << end.out << end.err;
  const auto& steps = report["violation"]["steps"];
  std::size_t failure = 0;
  while (failure < steps.size() && !steps[failure].contains("died_before")) ++failure;
  ASSERT_LT(failure, steps.size()) << steps.dump();
  const Ran before =
      crashcut({"gdb", token, "-batch", "-ex", "crashcut goto " + std::to_string(failure), "-ex", "backtrace"});
  EXPECT_TRUE(before.says(" insert_keys (")) << before.out << before.err;
  const Ran fails =
      crashcut({"gdb", token, "-batch", "-ex", "crashcut goto " + std::to_string(failure + 1), "-ex", "backtrace"});
  EXPECT_TRUE(fails.says(" insert_keys (")) << fails.out << fails.err;
}

}  // namespace
}  // namespace crashcut
