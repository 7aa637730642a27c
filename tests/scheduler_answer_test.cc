// Steps with several answers (scheduler/primitives/answer.h): each answer is explored, and the reductions find what the
// unreduced search finds. The made-up programs have cells that keep all that was stored in them: a load gets any store
// that is not older than the actor's own last one.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "scheduler/order.h"
#include "scheduler/primitives/answer.h"
#include "scheduler/primitives/mutex.h"
#include "scheduler/search.h"
#include "tests/script_program.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

using namespace scheduler;

// A cell with a weak memory: how many stores there were, and, an actor, its own last one: it reads none before that.
namespace cell {

enum Verb : std::uint8_t { kStore, kLoad };
inline constexpr const char* kVerbs[] = {"store", "load"};

auto& stores(auto& cell) { return cell.numbers[0]; }
std::int64_t& first_of(Object& cell, ActorId actor) {
  auto& seen = cell.lists[0];
  if (seen.size() <= index(actor)) seen.resize(index(actor) + 1);
  return seen[index(actor)];
}

// A load asks which store it gets: the initial value is store 0.
std::int64_t apply(State& state, ActorId actor, const Operation& operation, const Access& access) {
  Object& o = state.object(access.object);
  if (access.verb == kStore) {
    first_of(o, actor) = ++stores(o);
    return 0;
  }
  answer::possible(state.object(operation[1].object)) =
      answer::bits_below(stores(o) + 1) & ~answer::bits_below(first_of(o, actor));
  return 0;
}
// Loads change nothing that others see.
bool dependent(const Access& x, const Access& y) { return x.verb == kStore || y.verb == kStore; }

constexpr Primitive kPrimitive{
    .name = "cell",
    .verbs = kVerbs,
    .apply = apply,
    .dependent = dependent,
    .conflicting = dependent,
};
PrimitiveId id() {
  static const PrimitiveId kId = add_primitive(kPrimitive);
  return kId;
}

}  // namespace cell

constexpr std::uint32_t kActorsMost = 3;
constexpr std::int64_t kAnswersMost = 4;
ObjectId cell_at(std::uint32_t number) { return make_object_id(cell::id(), 1 + number); }
ObjectId mutex_at(std::uint32_t number) { return make_object_id(PrimitiveId::kMutex, 3 + number); }
ObjectId answer_of(std::size_t actor) {
  return make_object_id(PrimitiveId::kAnswer, 5 + static_cast<std::uint32_t>(actor));
}

void load(Script& script, std::size_t actor, ObjectId cell) {
  script.push_back(does(Operation(Access{cell, cell::kLoad}).add(answer::ask(answer_of(actor)))));
  script.push_back(does(answer::take(answer_of(actor))));
}

void add_answerers(ScriptProgram& program) {
  for (std::size_t actor = 0; actor < program.scripts.size(); ++actor) {
    program.objects.push_back({answer_of(actor)});
    for (std::int64_t number = 0; number < kAnswersMost; ++number)
      program.beside.push_back(answer::give(answer_of(actor), number));
  }
}

struct Found {
  std::set<std::string> outcomes, classes;
  std::set<std::vector<ActorId>> schedules;
  SearchResult result;
};
Found explore(const ScriptProgram& program, ReductionName reduction) {
  Found found;
  SearchSetup setup;
  setup.reduction = reduction;
  setup.has_foresight = false;
  setup.bounds.executions_most = 5'000;
  setup.on_execution = [&](const Execution& execution) {
    found.outcomes.insert(outcome_of(execution));
    found.classes.insert(class_of(execution.steps));
    std::vector<ActorId> schedule;
    for (const Step& step : execution.steps) schedule.push_back(step.actor);
    found.schedules.insert(std::move(schedule));
    return true;
  };
  found.result = search_with(program, setup, 1);
  EXPECT_FALSE(found.result.diverged);
  return found;
}

// One actor that asks: as many executions as answers, whatever the others do meanwhile.
TEST(Answers, EachIsGivenOnce) {
  for (std::int64_t count = 1; count <= kAnswersMost; ++count) {
    ScriptProgram program;
    program.objects = {{mutex_at(0), mutex::kNormal}};
    program.scripts = {{does(answer::ask(answer_of(0), answer::bits_below(count))), does(answer::take(answer_of(0)))},
                       {does(mutex::access(mutex_at(0), mutex::kLock))}};
    add_answerers(program);
    const Found found = explore(program, ReductionName::kOptimal);
    EXPECT_EQ(found.result.executions, static_cast<std::uint64_t>(count));
    EXPECT_EQ(found.outcomes.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(found.result.asleep, 0u);
    // The schedule alone tells the answer.
    for (const std::vector<ActorId>& schedule : found.schedules) {
      RunRequest request;
      request.prefix = schedule;
      ScriptProgram again = program;
      EXPECT_TRUE(found.outcomes.contains(outcome_of(again.run(request))));
    }
    EXPECT_EQ(found.schedules.size(), static_cast<std::size_t>(count));
  }
}

// A store and a load that race: the load gets the old value in both orders, and the new one in one of them.
TEST(Answers, DependOnTheState) {
  ScriptProgram program;
  program.objects = {{cell_at(0)}};
  program.scripts = {{does(Access{cell_at(0), cell::kStore})}, {}};
  load(program.scripts[1], 1, cell_at(0));
  add_answerers(program);
  EXPECT_EQ(explore(program, ReductionName::kOptimal).result.executions, 3u);
}

TEST(Answers, ReductionsFindWhatTheUnreducedSearchFinds) {
  std::uint64_t compared = 0, answered = 0;
  for_each_seed(150, [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint64_t most) { return random() % most; };
    ScriptProgram program;
    for (std::uint32_t i = 0; i < 2; ++i) {
      program.objects.push_back({cell_at(i)});
      program.objects.push_back({mutex_at(i), mutex::kNormal});
    }
    const std::uint64_t actors = 2 + below(kActorsMost - 1);
    int stores = 0;
    for (std::size_t a = 0; a < actors; ++a) {
      Script script;
      for (std::uint64_t steps = 1 + below(actors == 2 ? 3 : 2); steps > 0; --steps) {
        const auto object = static_cast<std::uint32_t>(below(2));
        const std::uint64_t what = below(6);
        if (what < 2 && ++stores < kAnswersMost) {
          script.push_back(does(Access{cell_at(object), cell::kStore}));
        } else if (what < 5) {
          load(script, a, cell_at(object));
          ++answered;
        } else {
          script.push_back(does(mutex::access(mutex_at(object), mutex::kLock)));
        }
      }
      program.scripts.push_back(std::move(script));
    }
    add_answerers(program);
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
  EXPECT_GT(answered, compared);
}

}  // namespace
}  // namespace crashcut::tests
