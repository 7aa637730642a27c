// Random programs of several machines: the model with all schedules, failures and answers against the oracle.
#include <gtest/gtest.h>

#include "tests/cxl_schedules.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

using scheduler::ReductionName;

struct Family {
  const char* name;
  CxlShape shape;
  bool has_global_flush = false, has_poison = false;
  std::uint64_t seeds = 100;
  bool has_homes = false;  // lines that go away with a machine or a device
  bool is_incoherent = false;
};
std::ostream& operator<<(std::ostream& out, const Family& family) { return out << family.name; }

CxlProgram make_program(const Family& family, std::uint64_t seed) {
  std::mt19937_64 random(seed * 977 + std::hash<std::string>()(family.name));
  CxlProgram program = random_cxl_program(random, family.shape);
  program.failures_most = seed % 4 == 0 ? 0 : seed % 4 == 1 ? 1 : -1;
  if (seed % 4 == 3) program.never_fails.back() = true;
  program.has_global_flush = family.has_global_flush;
  program.has_poison = family.has_poison;
  for (int line = 0; family.is_incoherent && line < program.lines; ++line)
    program.incoherent.push_back(line == 0 || random() % 2 == 0);
  if (family.has_homes) {
    program.devices = 1;
    for (int line = 0; line < program.lines; ++line)
      program.homes.push_back(static_cast<int>(random() % static_cast<unsigned>(program.machines + 2)) - 1);
  }
  return program;
}

std::string difference(const std::set<CxlOutcome>& expected, const std::set<CxlOutcome>& found) {
  std::string text;
  for (const CxlOutcome& o : expected) {
    if (!found.contains(o)) text += "missing " + o + "\n";
  }
  for (const CxlOutcome& o : found) {
    if (!expected.contains(o)) text += "invented " + o + "\n";
  }
  return text;
}

class CxlOracle : public testing::TestWithParam<Family> {};

TEST_P(CxlOracle, EqualOutcomes) {
  const Family& family = GetParam();
  std::size_t all = 0, checked = 0;
  for_each_seed(family.seeds, [&](std::uint64_t seed) {
    ++all;
    const CxlProgram program = make_program(family, seed);
    const CxlOracleResult oracle = run_cxl_oracle(program, 50'000);
    if (!oracle.is_complete) return true;
    const CxlFound found = explore_cxl(program, ReductionName::kOptimal, 1'500);
    if (!found.is_whole) {
      for (const CxlOutcome& o : found.outcomes) EXPECT_TRUE(oracle.outcomes.contains(o)) << o << program.to_text();
      return !testing::Test::HasFailure();
    }
    ++checked;
    EXPECT_EQ(difference(oracle.outcomes, found.outcomes), "") << "seed " << seed << "\n" << program.to_text();
    EXPECT_EQ(found.asleep, 0u) << "seed " << seed;
    EXPECT_EQ(found.executions, found.classes.size()) << "seed " << seed << "\n" << program.to_text();
    return !testing::Test::HasFailure();
  });
  if (std::getenv("CRASHCUT_SEED") != nullptr) return;
  // Few seeds may have more than their share of large programs.
  EXPECT_GE(checked * (kIsSanitized ? 4 : 2), all)
      << "most programs must be small enough: " << checked << " of " << all;
}

// No reduction loses a class of executions, and the optimal one runs none twice.
TEST_P(CxlOracle, ReductionsHaveAllClasses) {
  Family family = GetParam();
  // With a home, or with caches that fetch by themselves, most programs are too large for a search without reduction.
  const bool is_large = family.is_incoherent || (family.has_homes && family.shape.machines > 2);
  family.shape.ops_most = is_large ? 1 : 2;
  std::size_t checked = 0;
  for_each_seed(is_large ? 120 : 30, [&](std::uint64_t seed) {
    const CxlProgram program = make_program(family, seed + 10'000);
    const CxlFound whole = explore_cxl(program, ReductionName::kNone, 2'500);
    if (!whole.is_whole) return true;
    ++checked;
    EXPECT_TRUE(explore_cxl(program, ReductionName::kSource, 0).classes == whole.classes) << "seed " << seed << "\n"
                                                                                          << program.to_text();
    EXPECT_TRUE(explore_cxl(program, ReductionName::kOptimal, 0).classes == whole.classes) << "seed " << seed << "\n"
                                                                                           << program.to_text();
    return !testing::Test::HasFailure();
  });
  if (std::getenv("CRASHCUT_SEED") != nullptr || kIsSanitized) return;
  EXPECT_GE(checked, 5u);
}

INSTANTIATE_TEST_SUITE_P(
    Families, CxlOracle,
    testing::Values(Family{"TwoMachines", {.machines = 2, .threads_most = 0, .ops_most = 4}},
                    Family{"TwoMachinesOfTwoThreads", {.machines = 2, .threads_most = 2, .ops_most = 2}},
                    Family{"ThreeMachines", {.machines = 3, .threads_most = 0, .ops_most = 2}},
                    Family{"OneLine", {.machines = 2, .threads_most = 1, .ops_most = 3, .lines_most = 1}},
                    Family{"GlobalFlush", {.machines = 2, .threads_most = 1, .ops_most = 3}, true},
                    Family{"Poison", {.machines = 2, .threads_most = 1, .ops_most = 3}, false, true},
                    Family{"Homes", {.machines = 2, .threads_most = 1, .ops_most = 2}, false, false, 100, true},
                    Family{"HomesOfThree", {.machines = 3, .threads_most = 0, .ops_most = 2}, false, false, 60, true},
                    Family{"HomesAndPoison", {.machines = 2, .threads_most = 0, .ops_most = 2}, false, true, 60, true},
                    Family{"Incoherent",
                           {.machines = 2, .threads_most = 0, .ops_most = 2, .lines_most = 2, .has_clwb = true},
                           false,
                           false,
                           60,
                           false,
                           true},
                    Family{"IncoherentLine",
                           {.machines = 2, .threads_most = 0, .ops_most = 3, .lines_most = 1, .has_clwb = true},
                           false,
                           false,
                           60,
                           false,
                           true}),
    [](const auto& family) { return family.param.name; });

}  // namespace
}  // namespace crashcut::tests
