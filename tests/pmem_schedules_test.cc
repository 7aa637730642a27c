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
namespace memory = scheduler::memory;
namespace x86 = pmem::x86;

PrimitiveId x86_primitive() { return x86::primitive(); }

// A small program whose threads are the first actors. Each entry of a store buffer is an actor too. Each execution is
// recorded, and its recoveries are explored when it has ended.
class BufferedProgram final : public Program {
 public:
  // Without values, a compare-exchange counts as a store whatever it finds.
  BufferedProgram(const PmemProgram& program, bool tells_values) : program_(program), tells_values_(tells_values) {}

  Execution run(const RunRequest& request) override {
    PmemExecution memory(program_, DriverOptions{});
    Execution execution;
    State state(execution.objects);
    Director director(request);
    buffers_.assign(program_.threads.size(), {});
    while (true) {
      find_pending(memory, execution.pending);
      const auto chosen = director.choose(state, execution.pending);
      execution.ending = director.ending();
      if (!chosen) break;
      take(memory, state, director, execution, *chosen);
    }
    if (execution.ending == Ending::kCompleted) {
      const Recoveries found = explore_recoveries(program_, *memory.seal(), 0);
      outcomes.insert(found.outcomes.begin(), found.outcomes.end());
    }
    return execution;
  }

  std::set<PmemOutcome> outcomes;

 private:
  static constexpr std::uint32_t kEntriesMost = 64;  // of a thread
  static constexpr std::uint32_t kFences = 15, kFirstPlace = 16, kFirstWord = 64;

  // The entries of a store buffer that are actors: all but clflushopts.
  struct Buffer {
    std::int64_t pushed = 0;
    std::vector<std::int64_t> waiting;  // numbers, oldest first
  };

  static ObjectId object(std::uint32_t number) { return make_object_id(x86_primitive(), number); }
  ObjectId buffer(std::uint32_t thread) const { return object(thread); }
  // Lines of persistent memory, words of ordinary memory.
  ObjectId place(int address) const {
    const int number = program_.is_persistent(address) ? PmemProgram::line_of(address)
                                                       : program_.lines + (address - program_.persistent_bytes()) / 8;
    return object(kFirstPlace + static_cast<std::uint32_t>(number));
  }
  ActorId actor_of_entry(std::uint32_t thread, std::int64_t number) const {
    return static_cast<ActorId>(program_.threads.size() + thread * kEntriesMost + static_cast<std::uint32_t>(number));
  }

  void find_pending(const PmemExecution& memory, std::vector<Pending>& pending) const {
    pending.clear();
    const auto count = static_cast<std::uint32_t>(program_.threads.size());
    for (std::uint32_t t = 0; t < count; ++t) {
      if (const PmemOp* op = memory.next_op(static_cast<int>(t))) {
        pending.push_back({static_cast<ActorId>(t), operation_of(t, *op)});
      }
    }
    for (std::uint32_t t = 0; t < count; ++t) {
      for (std::size_t i = 0; i < buffers_[t].waiting.size(); ++i) {
        pending.push_back({actor_of_entry(t, buffers_[t].waiting[i]), leave_operation(memory, t, i)});
      }
    }
  }

  static std::uint32_t word(int address) { return static_cast<std::uint32_t>(address) / 8; }

  Operation operation_of(std::uint32_t t, const PmemOp& op) const {
    const auto thread = static_cast<std::uint8_t>(t);
    const auto push = [&](x86::Entry::Kind kind) {
      const bool is_store = kind == x86::Entry::kStore || kind == x86::Entry::kNonTemporal;
      const auto pieces = static_cast<std::uint8_t>(is_store ? pieces_of(program_, op).size() : 1);
      const x86::Entry entry{kind, pieces > 1 ? group_of(t) : std::uint8_t{0}, word(op.address),
                             word(op.address + op.bytes - 1)};
      return x86::push(buffer(t), thread, buffers_[t].pushed, entry, pieces);
    };
    switch (op.kind) {
      case PmemOp::kStore:
      case PmemOp::kCopy:
        return push(x86::Entry::kStore);
      case PmemOp::kNonTemporal:
        return push(x86::Entry::kNonTemporal);
      case PmemOp::kClflush:
      case PmemOp::kMark:
        return push(x86::Entry::kFlushOrMark);
      case PmemOp::kSfence:
        return push(x86::Entry::kSfence);
      case PmemOp::kLoad: {
        Operation operation(x86::access(place(op.address), x86::kLoad, thread));
        const ObjectId last = place(op.address + op.bytes - 1);
        if (last != place(op.address)) operation.add(x86::access(last, x86::kLoad, thread));
        return operation;
      }
      case PmemOp::kXchg:
      case PmemOp::kCas: {
        Operation operation(x86::access(buffer(t), x86::kAwaitEmpty, thread));
        add_store(operation, op.address, thread);
        const auto verb = op.kind == PmemOp::kXchg ? memory::kExchange : memory::kCompareExchange;
        return tells_values_ ? operation.add(value_access(op.address, 8, verb, filled(op.value), filled(op.expected)))
                             : operation;
      }
      case PmemOp::kMfence:
        return x86::access(buffer(t), x86::kAwaitEmpty, thread);
      case PmemOp::kClflushopt:
        return x86::access(place(op.address), x86::kFlush, thread);
      default:
        ADD_FAILURE() << "not a program for this test";
        return push(x86::Entry::kStore);
    }
  }
  // A store in several pieces has the number of its first entry.
  std::uint8_t group_of(std::uint32_t t) const { return static_cast<std::uint8_t>(buffers_[t].pushed + 1); }

  // The place of entry number i of those that are actors in the recorder's buffer.
  static std::size_t position(const pmem::StoreBuffer& buffer, std::size_t i) {
    std::size_t at = 0;
    while (buffer[at].kind == pmem::EntryKind::kClflushopt || i-- > 0) ++at;
    return at;
  }
  Operation leave_operation(const PmemExecution& memory, std::uint32_t t, std::size_t i) const {
    const auto thread = static_cast<std::uint8_t>(t);
    const pmem::BufferEntry& entry = memory.buffer(t)[position(memory.buffer(t), i)];
    x86::Entry own{.kind = x86::Entry::kFlushOrMark, .group = 0};
    if (entry.kind == pmem::EntryKind::kStore) own.kind = x86::Entry::kStore;
    if (entry.kind == pmem::EntryKind::kNonTemporalStore) own.kind = x86::Entry::kNonTemporal;
    if (entry.kind == pmem::EntryKind::kSfence) own.kind = x86::Entry::kSfence;
    if (entry.group != 0) own.group = static_cast<std::uint8_t>(entry.place % 1000 + 1);  // which operation it is of
    if (entry.is_store()) {
      own.first_word = word(memory.compact(entry.address));
      own.last_word = word(memory.compact(entry.address + entry.bytes - 1));
    }
    Operation operation(x86::leave(buffer(t), thread, buffers_[t].waiting[i], own));
    if (entry.is_store()) return add_buffered_store(operation, memory.compact(entry.address), entry, thread);
    if (entry.kind == pmem::EntryKind::kClflush)
      operation.add(x86::access(place(memory.compact(entry.address)), x86::kFlush, thread));
    if (entry.kind == pmem::EntryKind::kSfence) operation.add(x86::access(object(kFences), x86::kLeaveFence, thread));
    return operation;
  }
  void add_store(Operation& operation, int address, std::uint8_t thread) const {
    operation.add(x86::access(place(address), x86::kStore, thread));
    if (program_.is_persistent(address)) operation.add(x86::access(object(kFences), x86::kStoreAnywhere, thread));
  }
  Operation add_buffered_store(Operation operation, int address, const pmem::BufferEntry& entry,
                               std::uint8_t thread) const {
    add_store(operation, address, thread);
    if (!tells_values_ || address / 8 != (address + entry.bytes - 1) / 8) return operation;
    std::int64_t value = 0;
    std::memcpy(&value, entry.data.data(), entry.bytes);
    return operation.add(value_access(address, entry.bytes, memory::kStore, value, 0));
  }
  // Each word is an object of memory.
  static Access value_access(int address, int bytes, memory::Verb verb, std::int64_t value, std::int64_t expected) {
    return memory::access(make_object_id(PrimitiveId::kMemory, kFirstWord + word(address)), verb,
                          static_cast<std::uint8_t>(address % 8), static_cast<std::uint8_t>(bytes), value, expected);
  }
  static std::int64_t filled(int byte) { return byte * 0x0101010101010101; }

  void take(PmemExecution& memory, State& state, Director& director, Execution& execution, ActorId actor) {
    const auto count = static_cast<std::uint32_t>(program_.threads.size());
    const auto found = std::find_if(execution.pending.begin(), execution.pending.end(),
                                    [&](const Pending& p) { return p.actor == actor; });
    Step step{actor, found->operation};
    if (index(actor) < count) {
      memory.take({static_cast<int>(index(actor)), -1});
      const Access& first = step.operation[0];
      Buffer& own = buffers_[index(actor)];
      for (int i = 0; first.verb == x86::kPush && i < first.bytes; ++i) own.waiting.push_back(own.pushed++);
    } else {
      const std::uint32_t t = (index(actor) - count) / kEntriesMost;
      auto& waiting = buffers_[t].waiting;
      const auto number = std::find(waiting.begin(), waiting.end(), step.operation[0].argument);
      const auto i = static_cast<std::size_t>(number - waiting.begin());
      memory.take({static_cast<int>(t), static_cast<int>(position(memory.buffer(t), i))});
      waiting.erase(number);
    }
    state.apply(step);
    director.note(step, state);
    execution.steps.push_back(step);
  }

  const PmemProgram& program_;
  bool tells_values_;
  std::vector<Buffer> buffers_;
};

struct Found {
  std::set<PmemOutcome> outcomes;
  std::set<std::string> classes;
  std::uint64_t executions = 0, asleep = 0;
  bool is_whole = false;
};

Found explore(const PmemProgram& program, ReductionName reduction, std::uint64_t executions_most,
              bool tells_values = true) {
  Found found;
  BufferedProgram buffered(program, tells_values);
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

// Programs in which nothing waits for a value. Every third one has parts of words, wide and non-temporal stores.
PmemProgram make_program(std::uint64_t seed, int ops_max) {
  std::mt19937_64 random(seed);
  PmemShape shape{.threads = 2, .ops_max = ops_max, .lines_max = 2, .dram_words_max = 1};
  shape.has_parts = shape.has_non_temporal = seed % 3 == 0;
  shape.is_communicating = true;
  PmemProgram program = random_pmem_program(random, shape);
  for (auto& ops : program.threads) {
    for (PmemOp& op : ops) {
      if (op.kind == PmemOp::kWait) op = PmemOp{.kind = PmemOp::kLoad, .address = op.address};
    }
  }
  return program;
}

// One or two operations of a thread: mostly compare-exchanges, on two words of a line and one of ordinary memory.
std::vector<PmemOp> random_compare_exchanges(std::mt19937_64& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<std::uint64_t>(n)); };
  std::vector<PmemOp> ops;
  for (int i = below(2); i < 2; ++i) {
    PmemOp op{.kind = PmemOp::kCas, .address = below(4) * 8, .value = 1 + below(2), .expected = below(2)};
    if (below(4) == 0) op = {.kind = PmemOp::kClflushopt, .address = 0};
    ops.push_back(op);
  }
  return ops;
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

// Counters that threads raise by compare-exchanges: one that fails stores nothing, so two of them commute.
TEST(PmemSchedules, FailedCompareExchangesAreLoads) {
  struct Row {
    const char *layout, *program;
    std::uint64_t as_stores, as_loads;
  };
  for (const Row& row : {
           Row{"x", "x=1 || cas x,2,3 || cas x,2,4", 6, 4},
           Row{"x", "cas x,0,1 || cas x,0,2 || cas x,0,3", 6, 3},
           Row{"x,y", "y=1; clflush y || cas x,1,2", 3, 2},
           Row{"x y", "x=1; clflushopt x; sfence; y=1 || cas x,2,3", 5, 2},
           Row{"p @x", "x=1 || cas x,2,3 || cas x,2,4", 6, 4},
       }) {
    SCOPED_TRACE(row.program);
    const PmemProgram program = parse_pmem_program(row.layout, row.program);
    const Found as_stores = explore(program, ReductionName::kOptimal, 0, false);
    const Found as_loads = explore(program, ReductionName::kOptimal, 0);
    EXPECT_EQ(as_stores.executions, row.as_stores);
    EXPECT_EQ(as_loads.executions, row.as_loads);
    EXPECT_TRUE(as_loads.outcomes == as_stores.outcomes);
    EXPECT_TRUE(as_loads.outcomes == run_machine(program, MachineKind::kPx86, 60'000).outcomes);
  }
}

// The reduction with values is held to the machine and to the unreduced search, among programs of three threads too.
TEST(PmemSchedules, CompareExchangesOfThreeThreads) {
  std::size_t fewer = 0;
  for_each_seed(150, [&](std::uint64_t seed) {
    std::mt19937_64 random(seed + 200'000);
    PmemProgram program{.lines = 1, .dram_words = 1};
    for (int thread = 0; thread < 3; ++thread) program.threads.push_back(random_compare_exchanges(random));
    const Found as_stores = explore(program, ReductionName::kOptimal, 6'000, false);
    const Found optimal = explore(program, ReductionName::kOptimal, 6'000);
    EXPECT_TRUE(optimal.is_whole) << program.to_text();
    EXPECT_EQ(optimal.asleep, 0u) << program.to_text();
    EXPECT_EQ(optimal.executions, optimal.classes.size()) << program.to_text();
    EXPECT_TRUE(optimal.outcomes == run_machine(program, MachineKind::kPx86, 200'000).outcomes) << program.to_text();
    if (as_stores.is_whole) {
      EXPECT_LE(optimal.executions, as_stores.executions) << program.to_text();
      fewer += optimal.executions < as_stores.executions ? 1 : 0;
    }
    const Found whole = explore(program, ReductionName::kNone, 3'000);
    if (whole.is_whole) {
      EXPECT_EQ(whole.classes, optimal.classes) << program.to_text();
    }
    return !testing::Test::HasFailure();
  });
  EXPECT_GE(fewer, least_of(30));
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
