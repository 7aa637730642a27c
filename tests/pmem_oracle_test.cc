// pmem/ against the machine of tests/pmem_machine.h: random programs must have the same outcomes.
//
// One thread: one recording has all outcomes of all crash moments. Two threads: one recording for each class of
// schedules, and their outcomes together. Where all stored numbers differ, each recovery has another outcome than the
// others of its recording: none is run twice.
#include <gtest/gtest.h>

#include "tests/pmem_driver.h"
#include "tests/pmem_machine.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

std::string to_text(const std::set<PmemOutcome>& outcomes, const std::set<PmemOutcome>& without) {
  std::string text;
  for (const PmemOutcome& outcome : outcomes) {
    if (without.contains(outcome)) continue;
    text += "\n  ";
    for (const char byte : outcome) text += std::to_string(byte) + " ";
  }
  return text;
}

bool is_equal(const PmemProgram& program, const DriverOptions& options, MachineKind kind, bool has_distinct_values,
              std::size_t states_max, std::size_t* skipped = nullptr) {
  const MachineResult expected = run_machine(program, kind, states_max);
  if (!expected.is_complete) {
    if (skipped != nullptr) ++*skipped;
    return true;
  }
  // Each recording has the crashes of its own class of schedules, no fewer.
  const CheckClass check = [&](const PmemExecution& execution, const Recoveries& recoveries) {
    if (!options.has_store_buffers || execution.nodes().size() > 12 || testing::Test::HasFailure()) return;
    const auto rules = outcomes_of_schedule(program, execution.nodes(), kind);
    EXPECT_EQ(to_text(rules, recoveries.outcomes), "") << "lost by one schedule of\n" << program.to_text();
    EXPECT_EQ(to_text(recoveries.outcomes, rules), "") << "invented by one schedule of\n" << program.to_text();
  };
  const DriverResult found = run_driver(program, options, check);
  if (!found.is_complete) {
    if (skipped != nullptr) ++*skipped;
    return true;
  }
  EXPECT_EQ(to_text(expected.outcomes, found.outcomes), "") << "lost, of\n" << program.to_text();
  EXPECT_EQ(to_text(found.outcomes, expected.outcomes), "") << "invented, of\n" << program.to_text();
  if (has_distinct_values) {
    EXPECT_EQ(found.recoveries, found.distinct_recoveries) << program.to_text();
  }
  return !testing::Test::HasFailure();
}

DriverOptions options_for(MachineKind kind, std::uint64_t seed) {
  DriverOptions options;
  options.model.persistency = kind == MachineKind::kPx86   ? pmem::Persistency::kPx86
                              : kind == MachineKind::kEadr ? pmem::Persistency::kEadr
                                                           : pmem::Persistency::kStrict;
  options.reading_order = seed % 3 == 0 ? 0 : seed;
  return options;
}

void check_one_thread(MachineKind kind, std::uint64_t count) {
  for_each_seed(count, [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    PmemShape shape{.threads = 1, .ops_max = 8};
    shape.has_distinct_values = seed % 2 == 0;
    const PmemProgram program = random_pmem_program(random, shape);
    DriverOptions options = options_for(kind, seed);
    options.has_store_buffers = false;
    SCOPED_TRACE("seed " + std::to_string(seed));
    return is_equal(program, options, kind, shape.has_distinct_values, 200'000);
  });
}

void check_two_threads(MachineKind kind, std::uint64_t count, bool has_parts) {
  std::size_t skipped = 0, all = 0;
  for_each_seed(count, [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    PmemShape shape{.threads = 2, .ops_max = 4, .lines_max = 2, .dram_words_max = 2, .has_parts = has_parts};
    shape.has_non_temporal = seed % 3 == 0;
    shape.has_distinct_values = seed % 2 == 0;
    shape.is_communicating = seed % 4 != 0;
    const PmemProgram program = random_pmem_program(random, shape);
    DriverOptions options = options_for(kind, seed);
    options.classes_max = 3'000;
    SCOPED_TRACE("seed " + std::to_string(seed));
    ++all;
    return is_equal(program, options, kind, shape.has_distinct_values, 60'000, &skipped);
  });
  EXPECT_LE(skipped * 10, all) << "most programs must be small enough";
}

TEST(PmemOracle, OneThreadPx86) { check_one_thread(MachineKind::kPx86, 4000); }
TEST(PmemOracle, OneThreadEadr) { check_one_thread(MachineKind::kEadr, 1000); }
TEST(PmemOracle, OneThreadStrict) { check_one_thread(MachineKind::kStrict, 1000); }
TEST(PmemOracle, TwoThreadsPx86) { check_two_threads(MachineKind::kPx86, 1500, false); }
TEST(PmemOracle, TwoThreadsPx86PartsOfWords) { check_two_threads(MachineKind::kPx86, 500, true); }
TEST(PmemOracle, TwoThreadsEadr) { check_two_threads(MachineKind::kEadr, 500, true); }
TEST(PmemOracle, TwoThreadsStrict) { check_two_threads(MachineKind::kStrict, 300, true); }

}  // namespace
}  // namespace crashcut::tests
