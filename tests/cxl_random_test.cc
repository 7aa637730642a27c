// Random programs of several machines through crashcut cxl, against the oracle: all schedules have exactly its
// outcomes, one schedule and random ones have no others.
#include <algorithm>

#include "tests/cli_fixture.h"
#include "tests/cxl_program.h"

namespace crashcut {
namespace {

using tests::CxlOp;
using tests::CxlOutcome;
using tests::CxlProgram;

// What a machine's threads saw, as tests/machines/random.c prints it. Failed machines print nothing.
using Printed = std::string;

struct Family {
  const char* name;
  tests::CxlShape shape;
  std::uint64_t seeds = 8;
  bool has_global_flush = false, has_poison = false;
  bool has_homes = false;  // lines that go away with a machine or a device
  bool is_incoherent = false;
};
std::ostream& operator<<(std::ostream& out, const Family& family) { return out << family.name; }

// As the real calls do it: those that synchronise execute a fence, and a machine joins its threads before it ends.
CxlProgram as_real(CxlProgram program) {
  const auto is_cas = [](const CxlOp& op) { return op.kind == CxlOp::kCas; };
  const bool has_cas = std::any_of(program.threads.begin(), program.threads.end(), [&](const auto& thread) {
    return std::any_of(thread.ops.begin(), thread.ops.end(), is_cas);
  });
  for (CxlProgram::Thread& thread : program.threads) {
    std::vector<CxlOp> ops;
    for (CxlOp op : thread.ops) {
      // A compare-and-exchange of the oracle looks at one half of the word only.
      if (has_cas) op.halves = 3;
      if (op.kind == CxlOp::kWaitMachine || op.kind == CxlOp::kEnd) ops.push_back({.kind = CxlOp::kMfence});
      if (op.kind == CxlOp::kEnd) ops.push_back({.kind = CxlOp::kJoin});
      ops.push_back(op);
    }
    if (ops.back().kind != CxlOp::kEnd) ops.push_back({.kind = CxlOp::kMfence});
    thread.ops = std::move(ops);
  }
  return program;
}

class CxlRandomTest : public CliTest, public testing::WithParamInterface<Family> {
 protected:
  static std::vector<std::string> words_of(const CxlProgram& program) {
    std::vector<std::string> words;
    for (const CxlProgram::Thread& thread : program.threads) {
      words.push_back("@" + std::to_string(thread.machine));
      for (const CxlOp& op : thread.ops) {
        std::string text;
        for (const int part :
             {static_cast<int>(op.kind), op.word, op.halves, op.value, op.expected, op.is_loaded ? 1 : 0})
          text += (text.empty() ? "" : ",") + std::to_string(part);
        words.push_back(text);
      }
    }
    return words;
  }
  static std::vector<std::string> options_of(const CxlProgram& program) {
    const int failures = program.failures_most < 0 ? program.machines : program.failures_most;
    std::vector<std::string> words = {"--failures", std::to_string(failures)};
    for (int m = 0; m < program.machines; ++m) {
      if (program.never_fails[static_cast<std::size_t>(m)])
        words.insert(words.end(), {"--never-fails", std::to_string(m)});
    }
    for (int line = 0; line < program.lines; ++line) {
      const std::string name = "line" + std::to_string(line), home = std::to_string(program.home_of(line));
      if (program.is_incoherent(line)) words.insert(words.end(), {"--incoherent", name});
      if (program.home_of(line) >= program.machines) {
        words.insert(words.end(), {"--device-fails", name});
      } else if (program.home_of(line) >= 0) {
        words.insert(words.end(), {"--memory-of", name + "=" + home});
      }
    }
    if (program.has_global_flush) words.emplace_back("--gpf");
    if (program.has_poison) words.insert(words.end(), {"--poison", "sigbus"});
    return words;
  }
  // The oracle's, as the machines print them.
  static std::set<Printed> printed_by(const CxlProgram& program, const std::set<CxlOutcome>& outcomes) {
    std::set<Printed> all;
    for (const CxlOutcome& outcome : outcomes) {
      std::vector<std::string> of_machines(static_cast<std::size_t>(program.machines));
      std::istringstream parts(outcome);
      std::string part;
      for (const CxlProgram::Thread& thread : program.threads) {
        std::getline(parts, part, '|');
        if (part != "F") of_machines[static_cast<std::size_t>(thread.machine)] += part + "|";
      }
      Printed text;
      for (std::size_t m = 0; m < of_machines.size(); ++m) {
        if (!of_machines[m].empty()) text += "machine " + std::to_string(m) + ": " + of_machines[m] + "\n";
      }
      all.insert(text);
    }
    return all;
  }

  struct Searched {
    Ran run;
    std::set<Printed> outcomes;
  };
  Searched search(const CxlProgram& program, const std::vector<std::string>& schedules) {
    std::vector<std::string> words = {"cxl",    "--outcomes",  "--jobs",     "1",
                                      "--json", "report.json", "--machines", std::to_string(program.machines)};
    words = with(with(with(words, schedules), options_of(program)), {CRASHCUT_CXL_RANDOM});
    Searched searched{crashcut(with(words, words_of(program))), {}};
    const auto report = nlohmann::json::parse(read_file(directory_ / "report.json"), nullptr, false);
    if (report.is_discarded() || !report.contains("outcomes") || !report["outcomes"].is_array()) return searched;
    for (const auto& outcome : report["outcomes"]) searched.outcomes.insert(outcome["stdout"].get<std::string>());
    return searched;
  }

  static std::string difference(const std::set<Printed>& expected, const std::set<Printed>& found) {
    std::string text;
    for (const Printed& o : expected) {
      if (!found.contains(o)) text += "missing:\n" + o;
    }
    for (const Printed& o : found) {
      if (!expected.contains(o)) text += "invented:\n" + o;
    }
    return text;
  }

  // False: the program has more executions than the test takes the time for.
  bool compare(const CxlProgram& program) {
    const tests::CxlOracleResult oracle = tests::run_cxl_oracle(program, 200'000);
    if (!oracle.is_complete) return false;
    const std::set<Printed> expected = printed_by(program, oracle.outcomes);
    const Searched all = search(program, {"--schedules", "all", "--max-executions", "1500"});
    if (all.run.exit_code == 3) {
      EXPECT_TRUE(std::includes(expected.begin(), expected.end(), all.outcomes.begin(), all.outcomes.end()))
          << program.to_text() << difference(expected, all.outcomes);
      return false;
    }
    EXPECT_EQ(all.run.exit_code, 0) << program.to_text() << all.run.out << all.run.err;
    EXPECT_EQ(difference(expected, all.outcomes), "") << program.to_text();
    for (const char* schedules : {"one", "random:3"}) {
      const Searched some = search(program, {"--schedules", schedules});
      EXPECT_TRUE(some.run.exit_code == 0 || some.run.exit_code == 3) << some.run.out << some.run.err;
      EXPECT_FALSE(some.outcomes.empty()) << program.to_text() << some.run.out << some.run.err;
      EXPECT_TRUE(std::includes(expected.begin(), expected.end(), some.outcomes.begin(), some.outcomes.end()))
          << schedules << "\n"
          << program.to_text() << difference(expected, some.outcomes);
    }
    return true;
  }
};

// A few programs of each family; CRASHCUT_LONG=1: hundreds.
TEST_P(CxlRandomTest, HasTheOutcomesOfTheOracle) {
  const Family& family = GetParam();
  std::size_t all = 0, checked = 0;
  tests::for_each_seed(family.seeds, [&](std::uint64_t seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed * 131 + std::hash<std::string>()(family.name));
    CxlProgram program = random_cxl_program(random, family.shape);
    program.failures_most = seed % 4 == 0 ? 0 : seed % 4 == 1 ? 1 : -1;
    if (seed % 4 == 3) program.never_fails.back() = true;
    program.has_global_flush = family.has_global_flush;
    program.has_poison = family.has_poison;
    for (int line = 0; family.is_incoherent && line < program.lines; ++line)
      program.incoherent.push_back(line == 0 || seed % 2 == 0);
    // Each line of a device has one of its own.
    for (int line = 0; family.has_homes && line < program.lines; ++line) {
      const int home = static_cast<int>((seed + static_cast<std::uint64_t>(line)) % 4);
      program.homes.push_back(home < 2 ? home : home == 2 ? program.machines + program.devices++ : -1);
    }
    ++all;
    checked += compare(as_real(program)) ? 1 : 0;
    return !HasFailure();
  });
  if (std::getenv("CRASHCUT_SEED") != nullptr) return;
  if (all > 3) {  // one or two may be large ones
    EXPECT_GE(checked * 2, all) << "most programs must be small enough: " << checked << " of " << all;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, CxlRandomTest,
    testing::Values(Family{"TwoMachines", {.machines = 2, .threads_most = 0, .ops_most = 3}, 12},
                    Family{"TwoMachinesOfTwoThreads", {.machines = 2, .threads_most = 2, .ops_most = 2}},
                    Family{"ThreeMachines", {.machines = 3, .threads_most = 0, .ops_most = 2}},
                    Family{"GlobalFlush", {.machines = 2, .threads_most = 1, .ops_most = 2}, 8, true},
                    Family{"Poison", {.machines = 2, .threads_most = 1, .ops_most = 2}, 8, false, true},
                    Family{"Homes", {.machines = 2, .threads_most = 1, .ops_most = 2}, 8, false, false, true},
                    Family{"Incoherent",
                           {.machines = 2, .threads_most = 0, .ops_most = 2, .lines_most = 2, .has_clwb = true},
                           6,
                           false,
                           false,
                           false,
                           true}),
    [](const auto& family) { return family.param.name; });

}  // namespace
}  // namespace crashcut
