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

std::shared_ptr<const pmem::Recording> record(const PmemProgram& program) {
  DriverOptions options;
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
                    std::to_string(note.other) + " " + std::to_string(note.count) + "/" + std::to_string(note.all));
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

// A recovery that loads everything is robust exactly if a crash of the machine whose stores persist in order leaves the
// same. Values are distinct, so they tell which stores were found.
class Noting final : public persist::Chooser {
 public:
  Noting(persist::ChoiceTree& tree, const persist::Log& log) : tree_(tree), log_(log) {}
  std::uint32_t choose(const persist::Choice& choice) override {
    const std::uint32_t taken = tree_.choose(choice);
    is_over_ = moment_.add(log_, choice.location, choice.candidates[taken], 0) || is_over_;
    return taken;
  }
  void reset() {
    moment_ = {};
    is_over_ = false;
  }
  bool is_robust() const { return !is_over_; }

 private:
  persist::ChoiceTree& tree_;
  const persist::Log& log_;
  pmem::CrashMoment moment_;
  bool is_over_ = false;
};

struct Counts {
  std::size_t robust = 0, not_robust = 0;
};

void check_robustness(const PmemProgram& program, const std::set<PmemOutcome>& strict, Counts& counts) {
  const auto recording = record(program);
  persist::Cut cut(recording->log);
  persist::ChoiceTree tree;
  Noting noting(tree, recording->log);
  pmem::CrashView view(*recording, cut, noting);
  persist::explore(tree, persist::Budget{}, [&](persist::ChoiceTree&) {
    cut.reset();
    view.reset();
    noting.reset();
    PmemOutcome outcome(static_cast<std::size_t>(program.persistent_bytes() + program.marks), 0);
    for (int at = 0; at < program.persistent_bytes(); at += 8)
      view.load(real_address(program, at),
                std::as_writable_bytes(std::span(outcome).subspan(static_cast<std::size_t>(at), 8)));
    for (int mark = 0; mark < program.marks; ++mark) {
      outcome[static_cast<std::size_t>(program.persistent_bytes() + mark)] =
          static_cast<char>(view.times_reached(std::to_string(mark)));
    }
    EXPECT_EQ(noting.is_robust(), strict.contains(outcome)) << program.to_text();
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
    if (strict.is_complete) check_robustness(program, strict.outcomes, counts);
    return !testing::Test::HasFailure();
  });
  EXPECT_GT(counts.robust, 2000u);
  EXPECT_GT(counts.not_robust, 2000u);
}

}  // namespace
}  // namespace crashcut::tests
