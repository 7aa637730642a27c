// Programs with loops: what a search finds of them in which actors rest that have come round, against all states that
// the program can reach, by a search that knows nothing of schedules.
#include <gtest/gtest.h>

#include <cerrno>
#include <deque>
#include <map>
#include <random>
#include <set>

#include "scheduler/primitives/mutex.h"
#include "scheduler/primitives/process.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/variable.h"
#include "scheduler/search.h"
#include "tests/known_programs.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

using namespace scheduler;

constexpr std::uint32_t kVariables = 8, kSemaphores = 12;  // numbers of the first

// How all stands: the objects, and what each actor stands before, with its last result.
std::string text_of(const ScriptProgram& program, const State& state, const std::vector<ScriptActor>& actors) {
  std::string text = state.is_over() ? "over " : "";
  for (const ObjectStart& start : program.objects) {
    const Object& o = state.object(start.object);
    text +=
        std::to_string(o.numbers[0]) + "," + std::to_string(o.numbers[1]) + "," + std::to_string(o.numbers[2]) + " ";
  }
  for (const ScriptActor& actor : actors) text += std::to_string(actor.at) + ":" + std::to_string(actor.last) + " ";
  return text;
}

// Every state that can be reached, each once.
class AllStates {
 public:
  AllStates(const ScriptProgram& program, std::size_t most) : program_(&program) {
    State start(program.objects);
    std::vector<ScriptActor> actors = program.actors();
    for (ScriptActor& actor : actors) find_pending(actor);
    reach(start, actors);
    while (!to_do_.empty() && number_.size() < most) {
      const auto [state, standing] = std::move(to_do_.front());
      to_do_.pop_front();
      expand(state, standing);
    }
    is_whole_ = to_do_.empty();
  }
  bool is_whole() const { return is_whole_; }
  const std::set<std::string>& ends() const { return ends_; }
  // Whether there is a state from which no end can be reached.
  bool has_doom() const {
    std::vector<bool> is_saved(number_.size(), false);
    std::vector<std::size_t> work;
    for (const std::string& end : ends_) work.push_back(number_.at(end));
    while (!work.empty()) {
      const std::size_t n = work.back();
      work.pop_back();
      if (is_saved[n]) continue;
      is_saved[n] = true;
      const auto [begin, end] = from_.equal_range(n);
      for (auto it = begin; it != end; ++it) work.push_back(it->second);
    }
    return std::find(is_saved.begin(), is_saved.end(), false) != is_saved.end();
  }

 private:
  std::size_t reach(const State& state, const std::vector<ScriptActor>& actors) {
    const auto [it, is_new] = number_.try_emplace(text_of(*program_, state, actors), number_.size());
    if (is_new) to_do_.push_back({state, actors});
    return it->second;
  }
  void expand(const State& state, const std::vector<ScriptActor>& actors) {
    const std::string text = text_of(*program_, state, actors);
    bool is_end = true;
    for (std::size_t i = 0; i < actors.size(); ++i) {
      if (!actors[i].has_pending || !state.is_enabled(actors[i].id, actors[i].pending)) continue;
      is_end = false;
      State after = state;
      std::vector<ScriptActor> standing = actors;
      Step step{actors[i].id, actors[i].pending};
      after.apply(step);
      standing[i].last = step.operation.result();
      ++standing[i].at;
      find_pending(standing[i]);
      from_.emplace(reach(after, standing), number_.at(text));
    }
    if (is_end) ends_.insert(text);
  }

  const ScriptProgram* program_;
  std::map<std::string, std::size_t> number_;
  std::multimap<std::size_t, std::size_t> from_;
  std::deque<std::pair<State, std::vector<ScriptActor>>> to_do_;
  std::set<std::string> ends_;
  bool is_whole_ = false;
};

struct Found {
  std::set<std::string> ends;
  std::uint64_t executions = 0, livelocks = 0;
  bool is_whole = false;
};

bool is_resting(const Pending& p) { return primitive_of(p.operation[0].object) == PrimitiveId::kSpin; }

Found explore(const ScriptProgram& program, ReductionName reduction, std::size_t workers = 1,
              std::uint64_t most = 20'000) {
  Found found;
  SearchSetup setup;
  setup.reduction = reduction;
  setup.bounds.executions_most = most;
  setup.on_execution = [&](const Execution& execution) {
    State state(execution.objects);
    std::vector<ScriptActor> actors = program.actors();
    for (const Step& step : execution.steps) {
      ScriptActor& actor = actors[index(step.actor)];
      Step mine = step;
      state.apply(mine);
      if (primitive_of(step.operation[0].object) == PrimitiveId::kSpin) continue;
      find_pending(actor);
      actor.last = step.operation.result();
      ++actor.at;
    }
    for (ScriptActor& actor : actors) find_pending(actor);
    if (execution.ending == Ending::kStuck &&
        std::any_of(execution.pending.begin(), execution.pending.end(), is_resting)) {
      ++found.livelocks;
    } else {
      found.ends.insert(text_of(program, state, actors));
    }
    return true;
  };
  const SearchResult result = search_with(program, setup, workers);
  EXPECT_FALSE(result.diverged);
  found.executions = result.executions;
  found.is_whole = result.bound == Bound::kNone;
  return found;
}

Instruction tries(std::uint32_t number) {
  return does(mutex::access(object(PrimitiveId::kMutex, number), mutex::kTryLock));
}
Instruction reads(std::uint32_t number) {
  return does(variable::access(object(PrimitiveId::kVariable, kVariables + number), variable::kRead));
}
Instruction writes(std::uint32_t number, std::int64_t value) {
  return does(variable::access(object(PrimitiveId::kVariable, kVariables + number), variable::kWrite, value));
}

ScriptProgram empty_program() {
  ScriptProgram p;
  p.has_loops = true;
  for (std::uint32_t i = 0; i < 3; ++i) {
    p.objects.push_back({object(PrimitiveId::kMutex, i)});
    p.objects.push_back({object(PrimitiveId::kVariable, kVariables + i)});
    p.objects.push_back({object(PrimitiveId::kSemaphore, kSemaphores + i), i});
  }
  return p;
}

void append(Script& script, const Script& more) { script.insert(script.end(), more.begin(), more.end()); }

// As std::lock does it: who cannot have both gives back what it has, and begins with the other.
Script lock_both(std::uint32_t a, std::uint32_t b) {
  return {locks(a), tries(b), skip_if(0, 6), unlocks(a), locks(b), tries(a), skip_if(0, 2), unlocks(b), back_if(0, 8)};
}

TEST(Rounds, TwoThatLockBothAreDoneInEitherOrder) {
  ScriptProgram p = empty_program();
  for (const bool is_second : {false, true}) {
    Script script = lock_both(is_second ? 1 : 0, is_second ? 0 : 1);
    append(script, {writes(0, is_second ? 1 : 2), unlocks(0), unlocks(1)});
    p.scripts.push_back(script);
  }
  const AllStates all(p, 100'000);
  const Found found = explore(p, ReductionName::kOptimal);
  EXPECT_TRUE(found.is_whole);
  EXPECT_EQ(found.ends, all.ends());
  EXPECT_EQ(found.livelocks, 0u);
  EXPECT_LE(found.executions, 38u);
}

Script poll(std::uint32_t m, std::uint32_t v, std::int64_t until) {
  return {locks(m), reads(v), skip_if(until, 2), unlocks(m), back_if(0, 4), unlocks(m)};
}

TEST(Rounds, WhoPollsUnderAMutexSeesTheFlag) {
  ScriptProgram p = empty_program();
  p.scripts.push_back(poll(0, 0, 1));
  p.scripts.push_back({locks(0), unlocks(0), locks(0), writes(0, 1), unlocks(0), locks(0), unlocks(0)});
  const Found found = explore(p, ReductionName::kOptimal);
  EXPECT_TRUE(found.is_whole);
  EXPECT_EQ(found.livelocks, 0u);
  EXPECT_EQ(found.ends, AllStates(p, 100'000).ends());
  EXPECT_LE(found.executions, 18u);
}

TEST(Rounds, TwoThatPollForEachOtherAreALivelock) {
  ScriptProgram p = empty_program();
  for (std::uint32_t i = 0; i < 2; ++i) {
    Script script = poll(0, i, 1);
    append(script, {locks(0), writes(1 - i, 1), unlocks(0)});
    p.scripts.push_back(script);
  }
  const AllStates all(p, 100'000);
  EXPECT_TRUE(all.has_doom());
  const Found found = explore(p, ReductionName::kOptimal);
  EXPECT_TRUE(found.is_whole);
  EXPECT_GT(found.livelocks, 0u);
  EXPECT_EQ(found.ends, all.ends());
}

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}
  ScriptProgram make() {
    ScriptProgram p = empty_program();
    const std::size_t actors = 2 + pick(2);
    for (std::size_t i = 0; i < actors; ++i) {
      Script script;
      const std::size_t pieces = 1 + pick(actors == 2 ? 2 : 1);
      for (std::size_t k = 0; k < pieces; ++k) add(script);
      p.scripts.push_back(script);
    }
    return p;
  }

 private:
  std::uint32_t pick(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }
  void add(Script& script) {
    const std::uint32_t m = pick(2), v = pick(2), other = 1 - m;
    const std::int64_t value = 1 + pick(2);
    switch (pick(10)) {
      case 0:
        return append(script, poll(m, v, value));
      case 1:
        return append(script, {locks(m), reads(v), skip_if(0, 1), writes(1 - v, value), unlocks(m)});
      case 2:
        append(script, lock_both(m, other));
        append(script, {writes(v, value)});
        return append(script, {unlocks(m), unlocks(other)});
      case 3:
        return append(script, {tries(m), back_if(EBUSY, 1), writes(v, value), unlocks(m)});
      case 4:
        return append(script, {locks(m), tries(other), skip_if(0, 2), unlocks(m), back_if(0, 4), writes(v, value),
                               unlocks(other), unlocks(m)});
      case 5:
        return append(script, {locks(m), writes(v, value), unlocks(m)});
      case 6:
        return append(script, {locks(m), writes(v, 0), unlocks(m)});
      case 7:
        return append(script, {reads(v), fail_if(value)});
      case 8: {
        // A semaphore in place of a mutex.
        const ObjectId s = object(PrimitiveId::kSemaphore, kSemaphores + 1);
        const Instruction waits = does(semaphore::access(s, semaphore::kWait)),
                          posts = does(semaphore::access(s, semaphore::kPost));
        return append(script, {waits, reads(v), skip_if(value, 2), posts, back_if(0, 4), posts});
      }
      default: {
        const ObjectId s = object(PrimitiveId::kSemaphore, kSemaphores + pick(3));
        if (pick(2) == 0) return append(script, {does(semaphore::access(s, semaphore::kPost))});
        return append(script, {does(semaphore::access(s, semaphore::kTryWait)), back_if(EAGAIN, 1)});
      }
    }
  }
  std::mt19937_64 random_;
};

TEST(Rounds, NothingIsLostThatAllStatesHave) {
  std::uint64_t checked = 0, left_out = 0, executions = 0, most = 0, dooms = 0;
  for_each_seed(600, [&](std::uint64_t seed) {
    const ScriptProgram program = Generator(seed).make();
    const AllStates all(program, 20'000);
    const Found found = explore(program, ReductionName::kOptimal, 1, 1'000);
    if (!all.is_whole() || !found.is_whole) return ++left_out, true;
    ++checked;
    executions += found.executions;
    most = std::max(most, found.executions);
    EXPECT_EQ(found.ends, all.ends()) << "CRASHCUT_SEED=" << seed;
    EXPECT_EQ(found.livelocks > 0, all.has_doom()) << "CRASHCUT_SEED=" << seed;
    dooms += all.has_doom();
    const Found source = explore(program, ReductionName::kSource, 2, 1'000);
    EXPECT_TRUE(!source.is_whole || source.ends == all.ends()) << "source, two workers, CRASHCUT_SEED=" << seed;
    return !::testing::Test::HasFailure();
  });
  std::printf("%lu programs, %lu left out, %lu executions, %lu at most, %lu with livelocks\n", checked, left_out,
              executions, most, dooms);
  EXPECT_GT(checked * 10, left_out * 9);
  EXPECT_GT(dooms, 0u);
}

}  // namespace
}  // namespace crashcut::tests
