// Failure points: one schedule, with failures at the points of cxl/failure_points.h, against failures before every
// step.
#include <gtest/gtest.h>

#include "tests/cxl_schedules.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

struct Shape {
  const char* name;
  CxlShape shape;
  bool has_global_flush = false, has_poison = false;
  bool has_homes = false;
  bool is_incoherent = false;  // the first line, and maybe others
  int cache_steps_most = 1;
};
std::ostream& operator<<(std::ostream& out, const Shape& shape) { return out << shape.name; }

class CxlFailurePoints : public testing::TestWithParam<Shape> {};

TEST_P(CxlFailurePoints, LoseNoOutcome) {
  const Shape& shape = GetParam();
  std::uint64_t fewer = 0, all = 0, checked = 0;
  for_each_seed(300, [&](std::uint64_t seed) {
    std::mt19937_64 random(seed * 31 + shape.shape.machines);
    CxlProgram program = random_cxl_program(random, shape.shape);
    program.failures_most = seed % 3 == 0 ? 1 : -1;
    program.has_global_flush = shape.has_global_flush;
    program.has_poison = shape.has_poison;
    if (shape.has_homes) {
      program.devices = 1;
      program.homes = {program.machines, static_cast<int>(seed % 2)};
    }
    if (shape.is_incoherent) program.incoherent = {true, seed % 2 == 0, seed % 3 == 0};
    program.cache_steps_most = shape.cache_steps_most;
    const CxlFailures every = explore_cxl_failures(program, seed, true, 20'000);
    const CxlFailures points = explore_cxl_failures(program, seed, false, 20'000);
    if (!every.is_whole || !points.is_whole) return true;
    ++checked;
    fewer += points.executions;
    all += every.executions;
    std::string lost;
    for (const CxlOutcome& outcome : every.outcomes) {
      if (!points.outcomes.contains(outcome)) lost += outcome + "\n";
    }
    EXPECT_EQ(lost, "") << "seed " << seed << "\n" << program.to_text();
    return !testing::Test::HasFailure();
  });
  if (std::getenv("CRASHCUT_SEED") != nullptr) return;
  EXPECT_GE(checked, kIsSanitized ? 10u : 100u);
  RecordProperty("executions_at_points", static_cast<int>(fewer));
  RecordProperty("executions_before_every_step", static_cast<int>(all));
  EXPECT_LT(fewer * 2, all) << "points must save more than half";
}

constexpr CxlShape kOfCaches{.machines = 2, .threads_most = 0, .ops_most = 3, .has_clwb = true};

INSTANTIATE_TEST_SUITE_P(
    Shapes, CxlFailurePoints,
    testing::Values(Shape{"TwoMachines", {.machines = 2, .threads_most = 0, .ops_most = 6}},
                    Shape{"TwoMachinesOfTwoThreads", {.machines = 2, .threads_most = 2, .ops_most = 4}},
                    Shape{"ThreeMachines", {.machines = 3, .threads_most = 0, .ops_most = 4}},
                    Shape{"GlobalFlush", {.machines = 2, .threads_most = 1, .ops_most = 4}, true},
                    Shape{"Poison", {.machines = 2, .threads_most = 1, .ops_most = 4}, false, true},
                    Shape{"Homes", {.machines = 2, .threads_most = 1, .ops_most = 3}, false, false, true},
                    Shape{"Incoherent", kOfCaches, false, false, false, true},
                    Shape{"IncoherentTwoSteps", kOfCaches, false, false, false, true, 2}),
    [](const auto& shape) { return shape.param.name; });

}  // namespace
}  // namespace crashcut::tests
