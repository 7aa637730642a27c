// pmem/repair.h: a flush that is added to a recording leaves the states of the program that has it.
#include <gtest/gtest.h>

#include "pmem/repair.h"
#include "tests/pmem_driver.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

using Kind = pmem::AddedFlush::Kind;

std::shared_ptr<const pmem::Recording> record(const PmemProgram& program,
                                              const std::vector<pmem::AddedFlush>& added = {}) {
  DriverOptions options;
  options.added = added;
  options.has_store_buffers = false;
  PmemExecution execution(program, options);
  for (auto steps = execution.enabled(); !steps.empty(); steps = execution.enabled()) execution.take(steps.front());
  return execution.seal();
}

PmemOp flush_of(int address) { return PmemOp{.kind = PmemOp::kClflushopt, .address = address}; }

// The program with the flush after the operation number `at`.
PmemProgram with_flush(PmemProgram program, std::size_t at, Kind kind) {
  const PmemOp op = program.threads[0][at];
  std::vector<PmemOp> added;
  if (kind != Kind::kFence) {
    added.push_back(flush_of(op.address));
    const int last = op.address + op.bytes - 1;
    for (int line = PmemProgram::line_of(op.address) + 1; line <= PmemProgram::line_of(last); ++line)
      added.push_back(flush_of(line * PmemProgram::kBytesPerLine));
  }
  if (kind != Kind::kFlush) added.push_back(PmemOp{.kind = PmemOp::kSfence});
  auto& ops = program.threads[0];
  ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(at) + 1, added.begin(), added.end());
  return program;
}

bool may_follow(const PmemProgram& program, const PmemOp& op, Kind kind) {
  if (!program.is_persistent(op.address)) return false;
  if (kind == Kind::kFence && (op.kind == PmemOp::kClflushopt || op.kind == PmemOp::kNonTemporal)) return true;
  return op.kind == PmemOp::kStore || op.kind == PmemOp::kCopy || op.kind == PmemOp::kXchg;
}

TEST(PmemRepair, AnAddedFlushLeavesTheStatesOfTheProgramThatHasIt) {
  std::size_t tried = 0, changed = 0;
  for_each_seed(1500, [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    PmemShape shape{.threads = 1, .ops_max = 8};
    shape.has_non_temporal = seed % 3 == 0;
    const PmemProgram program = random_pmem_program(random, shape);
    const auto recording = record(program);
    // The first operation has no place.
    for (std::size_t at = 1; at < program.threads[0].size(); ++at) {
      for (const Kind kind : {Kind::kFence, Kind::kFlush, Kind::kFlushAndFence}) {
        if (!may_follow(program, program.threads[0][at], kind)) continue;
        const pmem::AddedFlush added{kind, static_cast<pmem::PlaceId>(at)};
        const auto orders = pmem::orders_of(*recording, {&added, 1});
        EXPECT_TRUE(orders.has_value());
        const persist::Log log = recording->log.with_orders(*orders);
        const PmemProgram other = with_flush(program, at, kind);
        const auto expected = explore_recoveries(other, *record(other), seed);
        const auto found = explore_recoveries(program, *recording, log, seed);
        EXPECT_EQ(found.outcomes, expected.outcomes)
            << "seed " << seed << ", kind " << static_cast<int>(kind) << " after " << at << "\n"
            << program.to_text();
        EXPECT_LE(found.count, explore_recoveries(program, *recording, seed).count);
        // As it is done with several threads: the program is recorded again, with the flush.
        EXPECT_EQ(explore_recoveries(program, *record(program, {added}), seed).outcomes, expected.outcomes)
            << "recorded again: seed " << seed << ", kind " << static_cast<int>(kind) << " after " << at << "\n"
            << program.to_text();
        ++tried;
        changed += !orders->empty();
        if (testing::Test::HasFailure()) return false;
      }
    }
    return true;
  });
  EXPECT_GT(tried, least_of(1000));
  EXPECT_GT(changed, least_of(500));
}

// Which events a crash left, by numbers.
pmem::DecidedEvents decided(std::set<persist::EventId> in, std::set<persist::EventId> out) {
  return {[in](persist::EventId e) { return in.contains(e); }, [out](persist::EventId e) { return out.contains(e); }};
}

// With several threads a flush can follow a load: the states are those of the program that has it, under each schedule.
TEST(PmemRepair, AFlushAfterALoadOfAnotherThread) {
  const auto outcomes = [](const std::string& text, const std::vector<pmem::AddedFlush>& added) {
    DriverOptions options;
    options.added = added;
    return run_driver(parse_pmem_program("x y z", text), options).outcomes;
  };
  const std::string writer = "load z; x=1 || ";
  // Places of the second thread's operations begin at 1000.
  EXPECT_EQ(outcomes(writer + "load z; load x; y=r+1", {{Kind::kFlushAndFence, 1001}}),
            outcomes(writer + "load z; load x; clflushopt x; sfence; y=r+1", {}));
  EXPECT_NE(outcomes(writer + "load z; load x; y=r+1", {}),
            outcomes(writer + "load z; load x; clflushopt x; sfence; y=r+1", {}));
  // What waited in the buffer does not come after the fence.
  EXPECT_EQ(outcomes(writer + "load z; z=1; load x; y=r+1", {{Kind::kFlushAndFence, 1002}}),
            outcomes(writer + "load z; z=1; load x; clflushopt x; sfence; y=r+1", {}));
}

TEST(PmemRepair, TheSmallestChangeComesFirst) {
  // d is flushed, not fenced; p is not flushed. The first operation has no place.
  const PmemProgram program = parse_pmem_program("a d p", "load a; d=1; clflushopt d; p=1");
  const auto recording = record(program);
  ASSERT_EQ(recording->events.size(), 2u);
  const auto found = find_missing_flushes(*recording, decided({1}, {0}));
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].flush, (pmem::AddedFlush{Kind::kFence, 2}));
  EXPECT_EQ(found[1].flush, (pmem::AddedFlush{Kind::kFlushAndFence, 1}));
}

TEST(PmemRepair, AFlushIsEnoughIfAFenceFollows) {
  const PmemProgram program = parse_pmem_program("a d e p", "load a; d=1; e=1; clflushopt e; sfence; p=1");
  const auto recording = record(program);
  const auto found = find_missing_flushes(*recording, decided({1, 2, 3}, {0}));
  ASSERT_GE(found.size(), 2u);
  EXPECT_EQ(found[0].flush, (pmem::AddedFlush{Kind::kFlush, 1}));
  EXPECT_EQ(found[1].flush, (pmem::AddedFlush{Kind::kFlushAndFence, 1}));
}

TEST(PmemRepair, NeighbouringLinesAreOneObject) {
  const PmemProgram program = parse_pmem_program("d e p", "load p; d=1; e=1; p=1");
  const auto recording = record(program);
  const auto found = find_missing_flushes(*recording, decided({2}, {0, 1}));
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].flush, (pmem::AddedFlush{Kind::kFlushAndFence, 2}));
  EXPECT_EQ(found[1].flush, (pmem::AddedFlush{Kind::kFlushAndFence, 1}));
  EXPECT_EQ(found[2].flush, (pmem::AddedFlush{Kind::kObject, 2}));
  EXPECT_EQ(found[2].lines, 2u);
}

TEST(PmemRepair, NothingHelpsIfNothingEarlierWasLost) {
  const PmemProgram program = parse_pmem_program("a p d", "load a; p=1; d=1");
  const auto recording = record(program);
  EXPECT_TRUE(find_missing_flushes(*recording, decided({0}, {1})).empty());
  EXPECT_FALSE(has_lost_earlier(*recording, decided({0}, {1})));
  EXPECT_TRUE(has_lost_earlier(*recording, decided({1}, {0})));
}

}  // namespace
}  // namespace crashcut::tests
