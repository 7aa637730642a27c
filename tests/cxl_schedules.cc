#include "tests/cxl_schedules.h"

#include <gtest/gtest.h>

#include "scheduler/normal_form.h"
#include "tests/cxl_execution.h"

namespace crashcut::tests {
namespace {

class MachinesProgram final : public Program {
 public:
  explicit MachinesProgram(const CxlProgram& program) : program_(program) {}

  Execution run(const RunRequest& request) override {
    CxlExecution machines(program_);
    Execution execution;
    execution.objects = machines.objects();
    State state(execution.objects);
    Director director(request);
    while (true) {
      execution.pending = machines.pending();
      const auto chosen = director.choose(state, execution.pending);
      execution.ending = director.ending();
      if (!chosen) break;
      const auto found = std::find_if(execution.pending.begin(), execution.pending.end(),
                                      [&](const Pending& p) { return p.actor == *chosen; });
      Step step{*chosen, found->operation};
      machines.look(step);
      state.apply(step);
      machines.take(step);
      director.note(step, state);
      execution.steps.push_back(step);
    }
    if (execution.ending == Ending::kCompleted) outcomes.insert(machines.outcome(state));
    return execution;
  }

  std::set<CxlOutcome> outcomes;

 private:
  const CxlProgram& program_;
};

}  // namespace

namespace {

// Runs the schedule of a seed and takes the answers from a path, which it makes longer with first answers.
class OneSchedule {
 public:
  OneSchedule(const CxlProgram& program, std::uint64_t seed, bool before_every_step)
      : program_(program), seed_(seed), before_every_step_(before_every_step) {}

  CxlFailures explore(std::uint64_t executions_most) {
    do {
      if (result_.executions >= executions_most) {
        result_.is_whole = false;
        break;
      }
      run();
    } while (advance());
    return result_;
  }

 private:
  struct Choice {
    std::uint32_t answer, count;
  };

  std::uint32_t choose(std::uint32_t count) {
    if (at_ == path_.size()) path_.push_back({0, count});
    CHECK(path_[at_].count == count);
    return path_[at_++].answer;
  }
  bool advance() {
    while (!path_.empty() && path_.back().answer + 1 == path_.back().count) path_.pop_back();
    if (path_.empty()) return false;
    ++path_.back().answer;
    return true;
  }

  void take(CxlExecution& machines, State& state, const Pending& next) {
    Step step{next.actor, next.operation};
    machines.look(step);
    if (!machines.is_of_thread(step.actor)) last_point_.forget();
    const std::uint32_t actor = index(step.actor);
    const bool was_asking = actor < machines.thread_count() && machines.has_asked(actor);
    state.apply(step);
    machines.take(step);
    if (actor >= machines.thread_count() || was_asking || !machines.has_asked(actor)) return;
    // The answer follows at once.
    std::uint32_t count = 0;
    for (const Access& access : step.operation) count = std::max(count, static_cast<std::uint32_t>(access.observed));
    const ActorId given = machines.answer_actor(actor, choose(count));
    for (const ActorId next_actor : {given, step.actor}) {
      for (const Pending& p : machines.pending()) {
        if (p.actor == next_actor) {
          take(machines, state, p);
          break;
        }
      }
    }
  }

  // What the step does, without doing it.
  static Operation executed(CxlExecution& machines, const State& state, const Pending& next) {
    State after = state;
    Step step{next.actor, next.operation};
    machines.look(step);
    after.apply(step);
    return step.operation;
  }

  // A cache takes a step by itself before `taken`, where that may make a difference; null: where nobody goes on. Caches
  // do so a bounded number of times, as in crashcut cxl.
  bool act_by_itself(CxlExecution& machines, State& state, const Operation* taken) {
    if (cache_steps_ == program_.cache_steps_most) return false;
    std::vector<Pending> possible;
    for (const Pending& p : machines.pending()) {
      if (!machines.is_of_cache(p.actor) || !state.is_enabled(p.actor, p.operation)) continue;
      const bool is_point =
          before_every_step_ ||
          (taken != nullptr &&
           incoherent::matters_before(state, p.operation, *taken, cache_steps_ + 1 < program_.cache_steps_most));
      if (is_point) possible.push_back(p);
    }
    const std::uint32_t chosen = possible.empty() ? 0 : choose(static_cast<std::uint32_t>(possible.size() + 1));
    if (chosen == 0) return false;
    take(machines, state, possible[chosen - 1]);
    ++cache_steps_;
    return true;
  }

  void note_step(const CxlExecution& machines, const State& state, const Pending& next, const Operation& done) {
    std::uint32_t points = 0;
    for (int m = 0; m < program_.machines + program_.devices; ++m)
      points |= machines.is_failure_point(next, static_cast<cxl::MachineId>(m), state) ? 1u << m : 0;
    last_point_.note_step(machines.machine_of(next.actor), points, CxlExecution::is_simple(done),
                          machines.store_count());
  }

  void run() {
    ++result_.executions;
    at_ = 0;
    cache_steps_ = 0;
    last_point_.forget();
    CxlExecution machines(program_);
    State state(machines.objects());
    std::uint64_t points = 0;
    while (true) {
      const std::vector<Pending> pending = machines.pending();
      const Pending* next = nullptr;
      for (const Pending& p : pending) {
        if (!machines.is_of_thread(p.actor) || !state.is_enabled(p.actor, p.operation)) continue;
        if (next == nullptr || machines.rank(p.actor, seed_) > machines.rank(next->actor, seed_)) next = &p;
      }
      const std::optional<Operation> done =
          next == nullptr ? std::nullopt : std::optional(executed(machines, state, *next));
      if (act_by_itself(machines, state, done ? &*done : nullptr)) continue;
      // A wait that nothing but a failure ends is a point, too.
      bool has_failed = false;
      for (int m = 0; m < program_.machines + program_.devices && !has_failed; ++m) {
        const auto fails = std::find_if(pending.begin(), pending.end(),
                                        [&](const Pending& p) { return p.actor == machines.failure_of(m); });
        if (fails == pending.end() || !state.is_enabled(fails->actor, fails->operation)) continue;
        const bool is_point = before_every_step_ || next == nullptr ||
                              machines.is_failure_point(*next, static_cast<cxl::MachineId>(m), state) ||
                              is_awaited(machines, pending, m, state);
        const bool is_covered = !before_every_step_ && (last_point_.covered(machines.store_count()) >> m & 1) != 0;
        if (!is_point || is_covered) continue;
        ++points;
        if (choose(2) == 0) continue;
        Step failure{fails->actor, fails->operation};
        while (act_by_itself(machines, state, &failure.operation)) {
        }
        if (!before_every_step_) machines.set_tried(last_point_.stores_at(static_cast<cxl::MachineId>(m)));
        take(machines, state, {failure.actor, failure.operation});
        has_failed = true;
      }
      if (has_failed) continue;
      if (next == nullptr) break;
      note_step(machines, state, *next, *done);
      take(machines, state, *next);
    }
    result_.points_most = std::max(result_.points_most, points);
    result_.outcomes.insert(machines.outcome(state));
  }

  // Whether somebody else waits for what only a failure of the machine, or its own steps, can give: a lock or its end.
  static bool is_awaited(const CxlExecution& machines, const std::vector<Pending>& pending, int m, const State& state) {
    for (const Pending& p : pending) {
      if (machines.is_of_thread(p.actor) && !state.is_gone(p.operation) && !state.is_enabled(p.actor, p.operation) &&
          machines.is_failure_point(p, static_cast<cxl::MachineId>(m), state))
        return true;
    }
    return false;
  }

  const CxlProgram& program_;
  std::uint64_t seed_;
  bool before_every_step_;
  std::vector<Choice> path_;
  std::size_t at_ = 0;
  int cache_steps_ = 0;
  cxl::LastFailurePoint last_point_;
  CxlFailures result_;
};

}  // namespace

CxlFailures explore_cxl_failures(const CxlProgram& program, std::uint64_t seed, bool before_every_step,
                                 std::uint64_t executions_most) {
  return OneSchedule(program, seed, before_every_step).explore(executions_most);
}

CxlFound explore_cxl(const CxlProgram& program, ReductionName reduction, std::uint64_t executions_most) {
  CxlFound found;
  MachinesProgram machines(program);
  SearchSetup setup;
  setup.reduction = reduction;
  setup.has_foresight = false;
  setup.bounds.executions_most = executions_most;
  setup.on_execution = [&](const Execution& execution) {
    EXPECT_EQ(execution.ending, Ending::kCompleted) << program.to_text();
    found.classes.insert(class_of(execution.steps));
    return true;
  };
  const SearchResult result = search({&machines}, setup);
  EXPECT_FALSE(result.diverged) << program.to_text();
  found.outcomes = std::move(machines.outcomes);
  found.executions = result.executions;
  found.asleep = result.asleep;
  found.is_whole = result.bound == Bound::kNone;
  return found;
}

}  // namespace crashcut::tests
