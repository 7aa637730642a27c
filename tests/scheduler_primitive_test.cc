// A primitive is one file: this one has a primitive of its own, a jar, that no other file knows. Made-up programs with
// it are searched by every reduction, and the reductions find what the unreduced search finds.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "scheduler/edges.h"
#include "scheduler/order.h"
#include "scheduler/primitives/variable.h"
#include "scheduler/search.h"
#include "tests/script_program.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

using namespace scheduler;

// A jar: "put" adds one, "take" waits for one, "peek" tells how many there are, "spill" empties it by chance, "smash"
// ends every hope: it commutes with nothing.
namespace jar {

enum Verb : std::uint8_t { kPut, kTake, kPeek, kSpill, kSmash };
inline constexpr const char* kVerbs[] = {"put", "take", "peek", "spill", "smash"};

auto& count(auto& jar) { return jar.numbers[0]; }

bool enabled(const State& state, ActorId, const Operation&, const Access& access) {
  return (access.verb != kTake && access.verb != kSpill) || count(state.object(access.object)) > 0;
}
std::int64_t apply(State& state, ActorId, const Operation&, const Access& access) {
  std::int64_t& left = count(state.object(access.object));
  switch (access.verb) {
    case kPut:
      ++left;
      return 0;
    case kTake:
      --left;
      return 0;
    case kPeek:
      return left;
    default:
      left = 0;
      return 0;
  }
}
bool conflicting(const Access& x, const Access& y) {
  // Two puts add up in either order, and peeks change nothing. Two takes compete for the last one.
  return !(x.verb == y.verb && (x.verb == kPut || x.verb == kPeek));
}
bool dependent(const Access& x, const Access& y) {
  // Two takes that were both done take in either order.
  return conflicting(x, y) && !(x.verb == kTake && y.verb == kTake);
}
void edges(const Access& access, const EdgeVisitor& visit) {
  if (access.verb == kPut) visit(Edge::kRelease, 0);
  if (access.verb == kTake) visit(Edge::kAcquire, 0);
}

constexpr Primitive kPrimitive{
    .name = "jar",
    .verbs = kVerbs,
    .enabled = enabled,
    .apply = apply,
    .dependent = dependent,
    .conflicting = conflicting,
    .edges = edges,
    .traits = {.meets_all = bit_of_verb(kSmash), .may_stay_away = bit_of_verb(kSpill)},
};

PrimitiveId id() {
  static const PrimitiveId kId = add_primitive(kPrimitive);
  return kId;
}

}  // namespace jar

ObjectId jar_at(std::uint32_t number) { return make_object_id(jar::id(), 1 + number); }
ObjectId variable_at(std::uint32_t number) { return make_object_id(PrimitiveId::kVariable, 5 + number); }

ScriptProgram make_program(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t most) { return random() % most; };
  ScriptProgram program;
  for (std::uint32_t i = 0; i < 2; ++i) {
    program.objects.push_back({jar_at(i), static_cast<std::int64_t>(below(2))});
    program.objects.push_back({variable_at(i)});
  }
  const std::uint64_t actors = 2 + below(2);
  for (std::uint64_t a = 0; a < actors; ++a) {
    Script script;
    for (std::uint64_t steps = 1 + below(3); steps > 0; --steps) {
      const auto object = static_cast<std::uint32_t>(below(2));
      const std::uint64_t what = below(9);
      if (what < 2)
        script.push_back(does(variable::access(variable_at(object), variable::kAdd, 1)));
      else
        script.push_back(does(Access{jar_at(object), static_cast<std::uint8_t>(what == 8   ? jar::kSmash
                                                                               : what < 5  ? jar::kPut
                                                                               : what == 5 ? jar::kPeek
                                                                                           : jar::kTake)}));
    }
    program.scripts.push_back(std::move(script));
  }
  if (below(2) == 0) program.beside.push_back(Access{jar_at(0), jar::kSpill});
  return program;
}

struct Found {
  std::set<std::string> outcomes, classes;
  SearchResult result;
};
Found explore(const ScriptProgram& program, ReductionName reduction) {
  Found found;
  SearchSetup setup;
  setup.reduction = reduction;
  setup.bounds.executions_most = 20'000;
  setup.on_execution = [&](const Execution& execution) {
    found.outcomes.insert(outcome_of(execution));
    found.classes.insert(class_of(execution.steps));
    return true;
  };
  found.result = search_with(program, setup, 1);
  EXPECT_FALSE(found.result.diverged);
  return found;
}

TEST(AddedPrimitive, ReductionsFindWhatTheUnreducedSearchFinds) {
  std::uint64_t compared = 0;
  for_each_seed(300, [&](std::uint64_t seed) {
    const ScriptProgram program = make_program(seed);
    const Found all = explore(program, ReductionName::kNone);
    if (all.result.bound != Bound::kNone) return true;
    ++compared;
    for (const ReductionName reduction : {ReductionName::kSource, ReductionName::kOptimal}) {
      const Found found = explore(program, reduction);
      EXPECT_EQ(found.outcomes, all.outcomes) << "seed " << seed;
      EXPECT_EQ(found.classes, all.classes) << "seed " << seed;
      if (reduction != ReductionName::kOptimal) continue;
      EXPECT_EQ(found.result.executions, found.classes.size()) << "seed " << seed;
      EXPECT_EQ(found.result.asleep, 0u) << "seed " << seed;
    }
    return !::testing::Test::HasFailure();
  });
  EXPECT_GT(compared, 0u);
}

// One execution: what the other actor could do is of no matter, or must not happen.
TEST(AddedPrimitive, SaysWhatSetsItsVerbsApart) {
  ScriptProgram program;
  program.objects = {{jar_at(0), 0}, {jar_at(1), 1}};
  program.scripts = {{does(Access{jar_at(1), jar::kTake})}};
  program.beside = {Access{jar_at(0), jar::kSpill}};
  EXPECT_EQ(program.run({}).ending, Ending::kCompleted);  // the jar that nobody spilled stays away
  program.scripts = {{does(Access{jar_at(0), jar::kTake})}};
  const Execution stuck = program.run({});
  EXPECT_EQ(stuck.ending, Ending::kStuck);
  EXPECT_EQ(to_text(stuck.pending[0].operation), "jar 1 take");
  // It commutes with nothing, not even with what has no object in common with it.
  program.scripts = {{does(Access{jar_at(0), jar::kSmash})},
                     {does(variable::access(variable_at(0), variable::kAdd, 1))}};
  program.beside.clear();
  EXPECT_EQ(explore(program, ReductionName::kOptimal).result.executions, 2u);
}

TEST(AddedPrimitive, TellsItsEdges) {
  const auto edge_of = [](jar::Verb verb) {
    std::string text;
    for_each_edge(Access{jar_at(0), verb, 0, 0}, [&](Edge edge, std::uint32_t channel) {
      text += (edge == Edge::kAcquire ? "acquire " : "release ") + std::to_string(channel);
    });
    return text;
  };
  EXPECT_EQ(edge_of(jar::kPut), "release 0");
  EXPECT_EQ(edge_of(jar::kTake), "acquire 0");
  EXPECT_EQ(edge_of(jar::kPeek), "");
}

}  // namespace
}  // namespace crashcut::tests
