// pmem/notes.h: notes on recordings, and on what recoveries load.
#include <gtest/gtest.h>

#include "persist/explore.h"
#include "pmem/notes.h"
#include "tests/pmem_driver.h"
#include "tests/pmem_machine.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

using pmem::NoteKind;

std::shared_ptr<const pmem::Recording> record(const PmemProgram& program,
                                              pmem::Persistency persistency = pmem::Persistency::kPx86) {
  DriverOptions options;
  options.model.persistency = persistency;
  options.model.atomic_bytes = static_cast<unsigned>(program.atomic_bytes);
  options.has_store_buffers = false;
  PmemExecution execution(program, options);
  for (auto steps = execution.enabled(); !steps.empty(); steps = execution.enabled()) execution.take(steps.front());
  return execution.seal();
}

// "kind place other count/all", the most frequent first. A place is the number of the operation.
std::vector<std::string> notes_of(const std::string& layout, const std::string& text) {
  const auto recording = record(parse_pmem_program(layout, text));
  std::vector<std::string> notes;
  for (const pmem::Note& note : pmem::find_notes(*recording, ~0u)) {
    notes.push_back(std::to_string(static_cast<std::uint32_t>(note.kind)) + " " + std::to_string(note.place) + " " +
                    std::to_string(note.other) + (note.load != 0 ? " " + std::to_string(note.load) : "") + " " +
                    std::to_string(note.count) + "/" + std::to_string(note.all));
  }
  return notes;
}

using Texts = std::vector<std::string>;

TEST(PmemNotes, AFlushWithNothingToFlushIsRedundant) {
  EXPECT_EQ(notes_of("x y", "load x; x=1; clflushopt x; sfence; y=1; clflush y"), Texts{});
  EXPECT_EQ(notes_of("x y", "load x; clflushopt x; sfence"), (Texts{"1 1 0 1/1", "2 2 0 1/1"})) << "never stored to";
  EXPECT_EQ(notes_of("x y", "load x; x=1; clflushopt x; clflushopt x; sfence"), Texts{"1 3 0 1/1"}) << "twice";
  EXPECT_EQ(notes_of("x y", "load x; x=1; clflush x; clflush x"), Texts{"1 3 0 1/1"});
  EXPECT_EQ(notes_of("x y", "load x; x=1; clflushopt x; sfence; sfence"), Texts{"2 4 0 1/1"}) << "a fence";
  EXPECT_EQ(notes_of("x y", "load x; nt x=1; sfence"), Texts{}) << "the fence waits for the store";
}

TEST(PmemNotes, AStoreOverWhatIsNotDurableIsAnOverwrite) {
  EXPECT_EQ(notes_of("x y", "load x; x=1; x=2"), Texts{"4 2 1 1/0"});
  EXPECT_EQ(notes_of("x y", "load x; x=1; clflush x; x=2"), Texts{});
  EXPECT_EQ(notes_of("x y", "load x; x=1; clflushopt x; x=2"), Texts{"4 3 1 1/0"}) << "the flush is not complete";
  EXPECT_EQ(notes_of("x,z y", "load x; x=1; z=2"), Texts{}) << "another word of the line";
}

// "kind effect's place, store's place, load's place".
TEST(PmemNotes, AnEffectOfWhatAnotherThreadHasNotMadeDurable) {
  const std::string reader = "load y; load y; wait x; y=1; clflushopt y; sfence";
  EXPECT_EQ(notes_of("x y", "load y; x=1 || " + reader), Texts{"64 1003 1 1002 1/0"});
  EXPECT_EQ(notes_of("x y", "load y; x=1; clflush x || " + reader), Texts{"64 1003 1 1002 1/0"})
      << "the reader does not come after the flush";
  EXPECT_EQ(notes_of("x y", "load y; x=1 || load y; load y; wait x; clflushopt x; sfence; y=1; clflush y"), Texts{});
  EXPECT_EQ(notes_of("x,y z", "load z; x=1 || load z; load z; wait x; y=1; clflush y"), Texts{}) << "one line";
  EXPECT_EQ(notes_of("x y", "load y; x=1 || load y; load y; wait x; y=1"), Texts{}) << "no durable effect";
  EXPECT_EQ(notes_of("x y @f", "load y; x=1; clflush x; f=1 || load y; load y; wait f; wait x; y=1; clflush y"),
            Texts{})
      << "durable when it was read";
  EXPECT_EQ(notes_of("x y", "load y; x=1; load x; y=1; clflush y"), Texts{}) << "its own";
}

// Which stores of two threads come before which.
TEST(PmemNotes, ThreadsAreOrderedByWhatTheyRead) {
  const pmem::Meeting meetings[] = {
      {.from = 0, .to = 1, .from_op = 3, .to_op = 5},
      {.from = 1, .to = 2, .from_op = 6, .to_op = 8},
      {.from = 1, .to = 0, .from_op = 4, .to_op = 9},
  };
  const pmem::ThreadOrder order{meetings};
  EXPECT_TRUE(order.is_before(0, 3, 1, 5));
  EXPECT_TRUE(order.is_before(0, 2, 1, 7));
  EXPECT_FALSE(order.is_before(0, 4, 1, 7)) << "after what was read";
  EXPECT_FALSE(order.is_before(0, 3, 1, 4)) << "before it was read";
  EXPECT_TRUE(order.is_before(1, 6, 2, 8));
  EXPECT_TRUE(order.is_before(0, 3, 2, 8)) << "by way of thread 1";
  EXPECT_FALSE(order.is_before(0, 4, 2, 8));
  EXPECT_TRUE(order.is_before(1, 4, 0, 9));
  EXPECT_FALSE(order.is_before(1, 5, 0, 9));
  EXPECT_TRUE(order.is_before(2, 1, 2, 2)) << "its own order";
  EXPECT_FALSE(order.is_before(2, 2, 2, 2));
}

// What a recovery that loads everything finds is robust if a crash of the machine whose stores persist in order leaves
// the same, in some schedule; and if no such crash of the same execution does, it is not robust. With one thread these
// two are one. Values are distinct, so they tell which stores were found.
class Noting final : public persist::Chooser {
 public:
  Noting(persist::ChoiceTree& tree, const pmem::Recording& recording) : tree_(tree), recording_(recording) {}
  std::uint32_t choose(const persist::Choice& choice) override {
    const std::uint32_t taken = tree_.choose(choice);
    is_over_ = moment_.add(recording_, choice.location, choice.candidates[taken], pmem::kAllBytes, 0) || is_over_;
    return taken;
  }
  void note_certain(persist::LocationId location, const persist::Candidate& candidate) {
    is_over_ = moment_.add(recording_, location, candidate, pmem::kAllBytes, 0) || is_over_;
  }
  void reset() {
    moment_ = {};
    is_over_ = false;
  }
  bool is_robust() const { return !is_over_; }
  // The pair of stores.
  std::string text() const {
    if (!is_over_) return "";
    const auto operation = [this](persist::EventId e) {
      return "operation " + std::to_string(recording_.log.op(e)) + " of thread " +
             std::to_string(recording_.events[e].thread);
    };
    return operation(moment_.lost()) + " was lost, " + operation(moment_.found()) + " was not";
  }

 private:
  persist::ChoiceTree& tree_;
  const pmem::Recording& recording_;
  pmem::CrashMoment moment_;
  bool is_over_ = false;
};

struct Counts {
  std::size_t robust = 0, not_robust = 0;
};

// `strict`: of the same execution; `any_strict`: of any schedule.
void check_robustness(const PmemProgram& program, const std::set<PmemOutcome>& strict,
                      const std::set<PmemOutcome>& any_strict, Counts& counts) {
  const auto recording = record(program);
  persist::Cut cut(recording->log);
  persist::ChoiceTree tree;
  Noting noting(tree, *recording);
  pmem::CrashView view(*recording, cut, noting);
  view.tell_of_certain([&](persist::LocationId l, const persist::Candidate& c) { noting.note_certain(l, c); });
  persist::explore(tree, persist::Budget{}, [&](persist::ChoiceTree&) {
    cut.reset();
    view.reset();
    noting.reset();
    PmemOutcome outcome(static_cast<std::size_t>(program.persistent_bytes() + program.marks), 0);
    for (int at = 0; at < program.persistent_bytes(); at += 8)
      view.load(real_address(program, at),
                std::as_writable_bytes(std::span(outcome).subspan(static_cast<std::size_t>(at), 8)));
    for (int mark = 0; mark < program.marks; ++mark) {
      const std::string text = std::to_string(mark);
      if (const auto at = recording->mark_locations.find(text); at != recording->mark_locations.end()) {
        const auto candidates = cut.candidates(at->second);
        if (candidates.size() == 1) noting.note_certain(at->second, persist::Candidate(candidates.front()));
      }
      outcome[static_cast<std::size_t>(program.persistent_bytes() + mark)] =
          static_cast<char>(view.times_reached(std::to_string(mark)));
    }
    const auto text = [&] { return program.to_text() + testing::PrintToString(outcome) + noting.text(); };
    EXPECT_TRUE(noting.is_robust() || !strict.contains(outcome)) << text();
    EXPECT_TRUE(any_strict.contains(outcome) || !noting.is_robust()) << text();
    ++(noting.is_robust() ? counts.robust : counts.not_robust);
  });
}

TEST(PmemNotes, RobustIsWhatACrashOfStoresInOrderLeaves) {
  Counts counts;
  for_each_seed(2000, [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    PmemShape shape{.threads = 1, .ops_max = 8};
    shape.has_distinct_values = true;
    const PmemProgram program = random_pmem_program(random, shape);
    const MachineResult strict = run_machine(program, MachineKind::kStrict, 200'000);
    if (strict.is_complete) check_robustness(program, strict.outcomes, strict.outcomes, counts);
    return !testing::Test::HasFailure();
  });
  EXPECT_GT(counts.robust, least_of(2000));
  EXPECT_GT(counts.not_robust, least_of(2000));
}

bool has_shared_mark(const PmemProgram& program) {
  std::set<int> marks;
  for (const auto& thread : program.threads) {
    std::set<int> own;
    for (const PmemOp& op : thread) {
      if (op.kind == PmemOp::kMark) own.insert(op.value);
    }
    for (const int mark : own) {
      if (!marks.insert(mark).second) return true;
    }
  }
  return false;
}

TEST(PmemNotes, WithTwoThreadsSomeScheduleLeavesWhatIsRobust) {
  Counts counts;
  for_each_seed(1500, [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    PmemShape shape{.threads = 2, .ops_max = 5, .is_communicating = seed % 2 == 0};
    shape.has_distinct_values = true;
    const PmemProgram program = random_pmem_program(random, shape);
    if (has_shared_mark(program)) return true;  // it does not tell whose mark was reached
    const MachineResult machine = run_machine(program, MachineKind::kStrict, 200'000);
    const auto strict = explore_recoveries(program, *record(program, pmem::Persistency::kStrict), seed);
    if (machine.is_complete) check_robustness(program, strict.outcomes, machine.outcomes, counts);
    return !testing::Test::HasFailure();
  });
  EXPECT_GT(counts.robust, least_of(1000));
  EXPECT_GT(counts.not_robust, least_of(1000));
}

// By what the other thread reads, through ordinary memory too.
TEST(PmemNotes, RobustnessReachesAcrossThreads) {
  const auto count = [](const std::string& layout, const std::string& text) {
    const PmemProgram program = parse_pmem_program(layout, text);
    Counts counts;
    check_robustness(program, explore_recoveries(program, *record(program, pmem::Persistency::kStrict), 1).outcomes,
                     run_machine(program, MachineKind::kStrict, 200'000).outcomes, counts);
    return counts.not_robust;
  };
  EXPECT_EQ(count("x y", "x=1 || wait x; y=2"), 1u);
  EXPECT_EQ(count("x y", "x=1 || y=2"), 0u) << "nothing orders the two";
  EXPECT_EQ(count("x y", "x=1 || wait x; clflushopt x; sfence; y=2"), 0u);
  EXPECT_EQ(count("x y @f", "x=1; f=1 || wait f; y=2"), 1u);
  EXPECT_EQ(count("x y @f", "x=1; clflush x; f=1 || wait f; y=2"), 0u);
}

}  // namespace
}  // namespace crashcut::tests
