// All schedules together with all crashes: the scheduler's reductions with store buffers as actors, against the
// unreduced search and against the machine of tests/pmem_machine.h, which knows neither schedules nor recordings.
#include <gtest/gtest.h>

#include "pmem/x86_primitive.h"
#include "scheduler/happens_before.h"
#include "scheduler/order.h"
#include "scheduler/search.h"
#include "tests/pmem_driver.h"
#include "tests/pmem_machine.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

using namespace scheduler;
namespace x86 = pmem::x86;

PrimitiveId x86_primitive() {
  static const PrimitiveId id = add_primitive(x86::kPrimitive);
  return id;
}

// A small program whose threads are actors 0 to n - 1, and whose buffers are actors n to 2n - 1. Each execution is
// recorded, and its recoveries are explored when it has ended.
class BufferedProgram final : public Program {
 public:
  explicit BufferedProgram(const PmemProgram& program) : program_(program), options_() {}

  Execution run(const RunRequest& request) override {
    PmemExecution memory(program_, options_);
    Execution execution;
    State state(execution.objects);
    Director director(request);
    pushed_.assign(program_.threads.size(), 0);
    left_.assign(program_.threads.size(), 0);
    while (true) {
      find_pending(memory, execution.pending);
      const auto chosen = director.choose(state, execution.pending);
      execution.ending = director.ending();
      if (!chosen) break;
      take(memory, state, director, execution, *chosen);
    }
    if (execution.ending == Ending::kCompleted) {
      const Recoveries found = explore_recoveries(program_, *memory.seal(), 0);
      recoveries += found.count;
      outcomes.insert(found.outcomes.begin(), found.outcomes.end());
    }
    return execution;
  }

  std::set<PmemOutcome> outcomes;
  std::size_t recoveries = 0;

 private:
  static constexpr std::uint32_t kFences = 15;

  static ObjectId object(std::uint32_t number) { return make_object_id(x86_primitive(), number); }
  ObjectId buffer(std::uint32_t thread) const { return object(thread); }
  // Behind the buffers; lines of persistent memory, words of ordinary memory.
  ObjectId place(int address) const {
    const int number = program_.is_persistent(address) ? PmemProgram::line_of(address)
                                                       : program_.lines + (address - program_.persistent_bytes()) / 8;
    return object(static_cast<std::uint32_t>(number) + 16);
  }

  void find_pending(PmemExecution& memory, std::vector<Pending>& pending) const {
    pending.clear();
    const auto count = static_cast<std::uint32_t>(program_.threads.size());
    for (std::uint32_t t = 0; t < count; ++t) {
      if (const PmemOp* op = memory.next_op(static_cast<int>(t))) {
        pending.push_back({static_cast<ActorId>(t), operation_of(t, *op)});
      }
    }
    for (std::uint32_t t = 0; t < count; ++t) {
      if (!memory.buffer(t).is_empty()) {
        pending.push_back({static_cast<ActorId>(count + t), leave_operation(memory, t)});
      }
    }
  }

  Operation operation_of(std::uint32_t t, const PmemOp& op) const {
    const auto push = x86::access(buffer(t), x86::kPush, t, pushed_[t]);
    switch (op.kind) {
      case PmemOp::kStore:
      case PmemOp::kClflush:
      case PmemOp::kSfence:
      case PmemOp::kMark:
        return push;
      case PmemOp::kLoad:
        return x86::access(place(op.address), x86::kLoad, t);
      case PmemOp::kXchg:
      case PmemOp::kCas:
        return add_store(Operation(x86::access(buffer(t), x86::kAwaitEmpty, t)), op.address, t);
      case PmemOp::kMfence:
        return x86::access(buffer(t), x86::kAwaitEmpty, t);
      case PmemOp::kClflushopt:
        return x86::access(place(op.address), x86::kFlush, t);
      default:
        ADD_FAILURE() << "not a program for this test";
        return push;
    }
  }

  // The oldest entry that is no clflushopt leaves, and with it the clflushopts that wait for nothing else.
  static std::size_t oldest(const pmem::StoreBuffer& buffer) {
    std::size_t i = 0;
    while (buffer[i].kind == pmem::EntryKind::kClflushopt) ++i;
    return i;
  }
  Operation leave_operation(const PmemExecution& memory, std::uint32_t t) const {
    const pmem::StoreBuffer& entries = memory.buffer(t);
    const std::size_t first = oldest(entries);
    Operation operation(x86::access(buffer(t), x86::kLeave, t, left_[t]));
    const pmem::BufferEntry& entry = entries[first];
    if (entry.is_store()) return add_store(operation, memory.compact(entry.address), t);
    if (entry.kind == pmem::EntryKind::kClflush)
      operation.add(x86::access(place(memory.compact(entry.address)), x86::kFlush, t));
    if (entry.kind == pmem::EntryKind::kSfence) operation.add(x86::access(object(kFences), x86::kLeaveFence, t));
    return operation;
  }
  Operation add_store(Operation operation, int address, std::uint32_t t) const {
    operation.add(x86::access(place(address), x86::kStore, t));
    if (program_.is_persistent(address)) operation.add(x86::access(object(kFences), x86::kStoreAnywhere, t));
    return operation;
  }

  void take(PmemExecution& memory, State& state, Director& director, Execution& execution, ActorId actor) {
    const auto count = static_cast<std::uint32_t>(program_.threads.size());
    const auto found = std::find_if(execution.pending.begin(), execution.pending.end(),
                                    [&](const Pending& p) { return p.actor == actor; });
    Step step{actor, found->operation};
    for (const Access& a : step.operation) {
      if (a.verb == x86::kPush) ++pushed_[index(actor)];
      if (a.verb == x86::kLeave) ++left_[index(actor) - count];
    }
    if (index(actor) < count) {
      memory.take({static_cast<int>(index(actor)), -1});
    } else {
      const std::uint32_t t = index(actor) - count;
      memory.take({static_cast<int>(t), static_cast<int>(oldest(memory.buffer(t)))});
    }
    state.apply(step);
    director.note(step, state);
    execution.steps.push_back(step);
  }

  const PmemProgram& program_;
  DriverOptions options_;
  std::vector<std::int64_t> pushed_, left_;
};

struct Found {
  std::set<PmemOutcome> outcomes;
  std::set<std::string> classes;
  std::uint64_t executions = 0, asleep = 0;
  bool is_whole = false;
};

Found explore(const PmemProgram& program, ReductionName reduction, std::uint64_t executions_most) {
  Found found;
  BufferedProgram buffered(program);
  SearchSetup setup;
  setup.reduction = reduction;
  setup.has_foresight = false;
  setup.bounds.executions_most = executions_most;
  setup.on_execution = [&](const Execution& execution) {
    EXPECT_EQ(execution.ending, Ending::kCompleted);
    found.classes.insert(class_of(execution.steps));
    return true;
  };
  const SearchResult result = search({&buffered}, setup);
  EXPECT_FALSE(result.diverged) << program.to_text();
  found.outcomes = std::move(buffered.outcomes);
  found.executions = result.executions;
  found.asleep = result.asleep;
  found.is_whole = result.bound == Bound::kNone;
  return found;
}

// Programs whose entries leave in order: no wide and no non-temporal stores, and nothing that waits for a value.
PmemProgram make_program(std::uint64_t seed, int ops_max) {
  std::mt19937_64 random(seed);
  PmemShape shape{.threads = 2, .ops_max = ops_max, .lines_max = 2, .dram_words_max = 1};
  shape.has_parts = shape.has_non_temporal = false;
  shape.is_communicating = true;
  PmemProgram program = random_pmem_program(random, shape);
  for (auto& ops : program.threads) {
    for (PmemOp& op : ops) {
      if (op.kind == PmemOp::kWait) op = PmemOp{.kind = PmemOp::kLoad, .address = op.address};
      if (op.kind == PmemOp::kCopy) op.kind = PmemOp::kStore;
    }
  }
  return program;
}

TEST(PmemSchedules, ReductionsHaveAllOutcomesAndNoScheduleTwice) {
  std::size_t checked = 0, all = 0;
  for_each_seed(400, [&](std::uint64_t seed) {
    const PmemProgram program = make_program(seed, 2);
    ++all;
    const Found whole = explore(program, ReductionName::kNone, 3'000);
    const Found optimal = explore(program, ReductionName::kOptimal, 3'000);
    const MachineResult machine = run_machine(program, MachineKind::kPx86, 200'000);
    EXPECT_TRUE(optimal.is_whole) << "seed " << seed;
    EXPECT_TRUE(optimal.outcomes == machine.outcomes) << "seed " << seed << "\n" << program.to_text();
    EXPECT_EQ(optimal.asleep, 0u) << "seed " << seed;
    EXPECT_EQ(optimal.executions, optimal.classes.size()) << "seed " << seed << "\n" << program.to_text();
    if (!whole.is_whole) return !testing::Test::HasFailure();
    ++checked;
    EXPECT_TRUE(whole.outcomes == optimal.outcomes) << "seed " << seed << "\n" << program.to_text();
    EXPECT_EQ(whole.classes, optimal.classes) << "seed " << seed << "\n" << program.to_text();
    return !testing::Test::HasFailure();
  });
  EXPECT_GE(checked * 2, all) << "most programs must be small enough for the unreduced search";
}

TEST(PmemSchedules, OptimalReductionAgainstTheMachine) {
  std::size_t checked = 0, all = 0;
  for_each_seed(200, [&](std::uint64_t seed) {
    ++all;
    const PmemProgram program = make_program(seed + 100'000, 4);
    const MachineResult machine = run_machine(program, MachineKind::kPx86, 60'000);
    const Found optimal = explore(program, ReductionName::kOptimal, 4'000);
    if (!machine.is_complete || !optimal.is_whole) return true;
    ++checked;
    EXPECT_TRUE(optimal.outcomes == machine.outcomes) << "seed " << seed << "\n" << program.to_text();
    EXPECT_EQ(optimal.executions, optimal.classes.size()) << "seed " << seed << "\n" << program.to_text();
    return !testing::Test::HasFailure();
  });
  EXPECT_GE(checked * 3, all * 2) << "most programs must be small enough";
}

// A clflushopt that waits for an sfence takes its place when that leaves. So it matters whether another thread's store
// to the line comes before that moment or after it, though the sfence names no line.
TEST(PmemSchedules, ALeavingSfenceDoesNotCommuteWithStores) {
  PmemLayout names;
  const PmemProgram program = parse_pmem_program("x y @z", "z=1; sfence; clflushopt x; sfence; y=1 || x=1", &names);
  const auto has_lost_x = [&](bool is_stored_first) {
    PmemExecution execution(program, {});
    for (int i = 0; i < 5; ++i) execution.take({0, -1});
    execution.take({1, -1});
    if (is_stored_first) execution.take({1, 0});
    execution.take({0, 0});  // z
    execution.take({0, 0});  // the first sfence, and with it the clflushopt
    if (!is_stored_first) execution.take({1, 0});
    execution.take({0, 0});
    execution.take({0, 0});
    for (const PmemOutcome& outcome : explore_recoveries(program, *execution.seal(), 0).outcomes) {
      if (outcome[static_cast<std::size_t>(names.address["x"])] == 0 &&
          outcome[static_cast<std::size_t>(names.address["y"])] == 1)
        return true;
    }
    return false;
  };
  EXPECT_TRUE(has_lost_x(false));
  EXPECT_FALSE(has_lost_x(true));
  const ObjectId fences = make_object_id(x86_primitive(), 0);
  const auto leave = x86::access(fences, x86::kLeaveFence, 0), store = x86::access(fences, x86::kStoreAnywhere, 1);
  EXPECT_TRUE(x86::dependent(leave, store));
  EXPECT_TRUE(x86::dependent(store, leave));
  EXPECT_FALSE(x86::dependent(store, x86::access(fences, x86::kStoreAnywhere, 0)));
  EXPECT_FALSE(x86::dependent(leave, x86::access(fences, x86::kLeaveFence, 1)));
}

// Both threads load 0, which no order of the instructions alone explains; with mfence they do not.
TEST(PmemSchedules, StoreBufferingIsFound) {
  for (const bool has_fence : {false, true}) {
    const std::string fence = has_fence ? " mfence;" : "";
    PmemLayout names;
    const PmemProgram program =
        parse_pmem_program("p q @x @y", "x=1;" + fence + " load y; p=r+10 || y=1;" + fence + " load x; q=r+10", &names);
    const Found found = explore(program, ReductionName::kOptimal, 0);
    bool is_found = false;
    for (const PmemOutcome& outcome : found.outcomes) {
      is_found |= outcome[static_cast<std::size_t>(names.address["p"])] == 10 &&
                  outcome[static_cast<std::size_t>(names.address["q"])] == 10;
    }
    EXPECT_EQ(is_found, !has_fence);
    EXPECT_TRUE(found.is_whole);
    EXPECT_EQ(found.executions, has_fence ? 3u : 4u);
  }
}

}  // namespace
}  // namespace crashcut::tests
