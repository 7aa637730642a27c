// The scheduler's oracle: every schedule of a small program by brute force, the classes of schedules, and what the
// primitives claim, checked by its definition.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "scheduler/deadlocks.h"
#include "scheduler/dependence.h"
#include "scheduler/happens_before.h"
#include "scheduler/hash.h"
#include "scheduler/order.h"
#include "scheduler/primitives/host.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/primitives/signal.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/primitives/timer.h"
#include "scheduler/search.h"
#include "tests/script_program.h"

namespace crashcut::tests {

using namespace scheduler;

struct Found {
  std::set<std::string> outcomes, classes;
  std::set<std::string> deadlocks;  // of programs with hosts
  std::uint64_t executions = 0, asleep = 0;
  bool is_whole = false, hit_depth = false, hit_timeouts = false;
};

// Timed waits that may be early only so often are all there is of a program of this kind: such a search is whole.
inline bool is_all(Bound bound) { return bound == Bound::kNone || bound == Bound::kTimeouts; }

// The order by its definition: what depends, and what follows from that.
inline void check_order(const std::vector<Step>& steps) {
  const Order order(steps);
  std::vector<std::vector<bool>> is_before(steps.size(), std::vector<bool>(steps.size(), false));
  for (std::size_t j = 0; j < steps.size(); ++j) {
    is_before[j][j] = true;
    for (std::size_t k = j; k-- > 0;) {
      if (steps[k].actor != steps[j].actor && !are_dependent(steps[k].operation, steps[j].operation)) continue;
      for (std::size_t i = 0; i <= k; ++i) is_before[i][j] = is_before[i][j] || is_before[i][k];
    }
    for (std::size_t i = 0; i <= j; ++i) ASSERT_EQ(order.is_before(i, j), is_before[i][j]) << i << " and " << j;
  }
}

inline Found explore(ScriptProgram& program, ReductionName reduction, std::size_t workers = 1,
                     bool has_foresight = false, std::uint32_t depth_most = 0) {
  Found found;
  SearchSetup setup;
  setup.reduction = reduction;
  setup.has_foresight = has_foresight;
  setup.bounds.executions_most = 8'000;
  setup.bounds.depth_most = depth_most;
  setup.on_execution = [&](const Execution& execution) {
    found.outcomes.insert(outcome_of(execution));
    found.classes.insert(class_of(execution.steps));
    if (execution.ending == Ending::kStuck) found.deadlocks.insert(outcome_of(execution));
    for_each_deadlock(execution, [&](const Execution& stuck) { found.deadlocks.insert(outcome_of(stuck)); });
    check_order(execution.steps);
    return true;
  };
  const SearchResult result = search_with(program, setup, workers);
  EXPECT_FALSE(result.diverged);
  found.executions = result.executions;
  found.asleep = result.asleep;
  found.is_whole = is_all(result.bound);
  found.hit_timeouts = result.rest.hit_timeouts;
  found.hit_depth = result.bound == Bound::kSteps;
  return found;
}

// Classes under swaps that look at the state, by brute force: `schedules` are all there are.
class SwapClasses {
 public:
  void add(const Execution& execution) { schedules_.push_back(execution); }
  std::uint64_t count() {
    std::map<std::string, std::size_t> index;
    for (std::size_t i = 0; i < schedules_.size(); ++i) index[text(schedules_[i].steps)] = i;
    parent_.resize(schedules_.size());
    std::iota(parent_.begin(), parent_.end(), std::size_t{0});
    std::uint64_t left = index.size();
    for (const auto& [key, i] : index) {
      for (std::vector<Step>& swapped : swaps_of(schedules_[i])) {
        const std::size_t a = root(i), b = root(index.at(text(swapped)));
        if (a != b) parent_[a] = b, --left;
      }
    }
    return left;
  }

 private:
  static std::string text(const std::vector<Step>& steps) {
    std::string t;
    for (const Step& s : steps) t += std::to_string(scheduler::index(s.actor)) + ",";
    return t;
  }
  // Neighbours that give the same results and the same state in either order, where one is a semaphore's.
  static std::vector<std::vector<Step>> swaps_of(const Execution& execution) {
    std::vector<std::vector<Step>> all;
    State state(execution.objects);
    for (std::size_t k = 0; k + 1 < execution.steps.size(); ++k) {
      Step x = execution.steps[k], y = execution.steps[k + 1];
      if (x.actor != y.actor && commute(state, x, y)) {
        all.push_back(execution.steps);
        std::swap(all.back()[k], all.back()[k + 1]);
      }
      state.apply(x);
    }
    return all;
  }
  static bool commute(const State& state, const Step& x, const Step& y) {
    const bool is_semaphores = primitive_of(x.operation[0].object) == PrimitiveId::kSemaphore &&
                               x.operation.size() == 1 && y.operation.size() == 1 &&
                               x.operation[0].object == y.operation[0].object;
    if (!is_semaphores) return !are_dependent(x.operation, y.operation);
    const auto plain = [](const Step& s) {
      return s.operation[0].verb == semaphore::kWait || s.operation[0].verb == semaphore::kPost;
    };
    if (!plain(x) || !plain(y)) return !are_dependent(x.operation, y.operation);
    State swapped = state;
    if (!swapped.is_enabled(y.actor, y.operation)) return false;
    Step a = y, b = x;
    swapped.apply(a);
    return swapped.is_enabled(b.actor, b.operation);
  }
  std::size_t root(std::size_t i) { return parent_[i] == i ? i : parent_[i] = root(parent_[i]); }

  std::vector<Execution> schedules_;
  std::vector<std::size_t> parent_;
};

inline std::string show(const ScriptProgram& program) {
  std::string text;
  for (const ObjectStart& start : program.objects) {
    if (primitive_of(start.object) == PrimitiveId::kSemaphore)
      text +=
          "semaphore " + std::to_string(index(start.object)) + " = " + std::to_string(semaphore::count(start)) + "\n";
  }
  for (const Script& script : program.scripts) {
    for (const Instruction& i : script) {
      text += i.operation.size() == 0 ? "if " + std::to_string(i.value) : to_text(i.operation);
      for (const Access& a : i.operation) {
        if (a.argument != 0 || a.bytes != 0) text += " (" + std::to_string(a.argument) + ")";
        if (a.bytes != 0)
          text +=
              " for " + std::to_string(a.expected) + " at " + std::to_string(a.offset) + "+" + std::to_string(a.bytes);
      }
      text += "; ";
    }
    text += "\n";
  }
  return text;
}

inline bool is_same(const State& x, const State& y) {
  bool is = x.object_count() == y.object_count();
  for (std::uint32_t i = 0; is && i < x.object_count(); ++i)
    is = x.object(make_object_id(PrimitiveId::kProcess, i)) == y.object(make_object_id(PrimitiveId::kProcess, i));
  return is;
}
inline bool is_same(const Operation& x, const Operation& y) {
  bool is = true;
  for (std::size_t i = 0; i < x.size(); ++i) is = is && x[i].result == y[i].result;
  return is;
}

// What the primitives claim of two steps that can be taken one after the other, by its definition (primitive.h). `x` is
// enabled in the state.
inline void check_claims(const State& state, const Step& x, const Pending& next) {
  State one_way = state, other_way = state;
  Step first = x, second{next.actor, next.operation};
  one_way.apply(first);
  if (!one_way.is_enabled(second.actor, second.operation)) {
    EXPECT_TRUE(!state.is_enabled(second.actor, second.operation) || may_conflict(first.operation, second.operation))
        << "disables: " << to_text(first.operation) << " and " << to_text(second.operation);
    return;
  }
  one_way.apply(second);
  const auto text = [&] {
    return to_text(first.operation) + "=" + std::to_string(first.operation.result()) + " and " +
           to_text(second.operation) + "=" + std::to_string(second.operation.result());
  };
  const bool are_independent = !are_dependent(first.operation, second.operation);
  EXPECT_TRUE(are_independent || may_conflict(first.operation, second.operation)) << text();
  if (!state.is_enabled(second.actor, second.operation)) {
    EXPECT_FALSE(are_independent) << "enables: " << text();
    return;
  }
  EXPECT_TRUE(waits_for_time(first.operation) || second.operation.is_interrupted() ||
              may_be_co_enabled(first.operation, next.operation))
      << text();
  EXPECT_TRUE(waits_for_time(first.operation) || may_be_co_enabled(first.operation, second.operation)) << text();
  if (!are_independent) return;
  Step moved{next.actor, next.operation}, last = x;
  other_way.apply(moved);
  EXPECT_TRUE(other_way.is_enabled(last.actor, last.operation)) << "disables: " << text();
  other_way.apply(last);
  EXPECT_TRUE(is_same(first.operation, last.operation) && is_same(second.operation, moved.operation))
      << "results differ: " << text();
  EXPECT_TRUE(is_same(one_way, other_way)) << "states differ: " << text();
}

// After every step of every actor: how many steps of each other actor it may rely on. The same in all executions of a
// class (happens_before.h).
inline std::map<std::pair<ActorId, std::size_t>, std::vector<std::size_t>> what_is_known(
    const std::vector<Step>& steps) {
  HappensBefore order;
  std::map<ActorId, std::vector<std::uint32_t>> epochs;
  for (const Step& step : steps) epochs[step.actor].assign(1, order.epoch(step.actor));
  std::map<std::pair<ActorId, std::size_t>, std::vector<std::size_t>> known;
  for (const Step& step : steps) {
    order.note(step);
    std::vector<std::size_t>& so_far = known[{step.actor, epochs[step.actor].size()}];
    for (const auto& [other, of_other] : epochs) {
      const auto is_before = [&, other = other](std::uint32_t epoch) {
        return order.is_before(other, epoch, step.actor);
      };
      so_far.push_back(other == step.actor
                           ? 0
                           : static_cast<std::size_t>(std::count_if(of_other.begin(), of_other.end(), is_before)));
    }
    epochs[step.actor].push_back(order.epoch(step.actor));
  }
  return known;
}

// Every schedule, by a search that knows nothing of trees, directors and reductions: at every state it asks the state
// which actors can go on. Time passes where none can. With a bound on depth, no actor takes more steps.
class EverySchedule {
 public:
  EverySchedule(const ScriptProgram& program, std::uint64_t most, std::uint32_t depth_most = 0)
      : program_(&program), most_(most), depth_most_(depth_most) {
    try_all(State(program.objects), program.actors());
    check_conflicts();
  }
  const Found& found() const { return found_; }
  // Schedules with at most so many switches away from an actor that could go on.
  std::uint64_t within(std::uint32_t preemptions) const {
    return std::accumulate(by_preemptions_.begin(), by_preemptions_.upper_bound(preemptions), std::uint64_t{0},
                           [](std::uint64_t sum, const auto& one) { return sum + one.second; });
  }

 private:
  void try_all(const State& state, const std::vector<ScriptActor>& actors) {
    if (!found_.is_whole) return;
    std::vector<Pending> can_go, for_want_of_others, left;
    bool is_held_back = false;
    for (ScriptActor actor : actors) {
      if (!actor.is_timer) {
        find_pending(actor);
      } else if (primitive_of(actor.pending[0].object) == PrimitiveId::kTimer && !is_exhausted(actor.id)) {
        Operation late = actor.pending;
        late.begin()->verb = timer::kRunOut;
        if (state.is_enabled(actor.id, late)) for_want_of_others.push_back({actor.id, late});
      }
      if (!actor.has_pending || !is_live(state, actor.pending)) continue;
      left.push_back({actor.id, actor.pending});
      const bool is_enabled = state.is_enabled(actor.id, actor.pending);
      if (is_exhausted(actor.id)) {
        is_held_back = is_held_back || is_enabled;
        continue;
      }
      if (is_enabled) can_go.push_back(left.back());
      if (actor.is_sleeping && !state.is_over())
        for_want_of_others.push_back({actor.id, spin::access(actor.pending[0].object, spin::kWakeUp)});
    }
    note_left_out(state, actors, can_go);
    note_deadlock(state, can_go, for_want_of_others, left);
    // Time does not pass while somebody could go on.
    const std::vector<Pending>& next = can_go.empty() && !is_held_back ? for_want_of_others : can_go;
    if (next.empty()) return note_end(state, left, is_held_back);
    const bool is_new = looked_at_.insert(hash_of(state, left)).second;
    for (const Pending& p : next) {
      for (const Pending& other : left) {
        if (!is_new || other.actor == p.actor) continue;
        if (!is_file_call(p.operation) && !is_file_call(other.operation))
          check_claims(state, {p.actor, p.operation}, other);
        note_disabled(state, {p.actor, p.operation}, other);
      }
      const auto is_last = [&](const Pending& other) { return !steps_.empty() && other.actor == steps_.back().actor; };
      const bool preempts = !is_last(p) && std::any_of(can_go.begin(), can_go.end(), is_last);
      preemptions_ += preempts ? 1 : 0;
      take(state, actors, p);
      preemptions_ -= preempts ? 1 : 0;
    }
  }

  // Nobody can go on, unless a host fails.
  void note_deadlock(const State& state, const std::vector<Pending>& can_go,
                     const std::vector<Pending>& for_want_of_others, const std::vector<Pending>& left) {
    if (state.is_over() || !for_want_of_others.empty() || depth_most_ != 0) return;
    if (!std::all_of(can_go.begin(), can_go.end(), [](const Pending& p) { return is_failure(p.operation); })) return;
    if (std::none_of(left.begin(), left.end(), [&](const Pending& p) { return is_left_undone(state, p.operation); }))
      return;
    Execution execution;
    execution.objects = program_->objects;
    execution.steps = steps_;
    execution.pending = left;
    execution.ending = Ending::kStuck;
    found_.deadlocks.insert(outcome_of(execution));
  }

  // Most schedules lead to states that others have led to.
  static std::uint64_t hash_of(const State& state, const std::vector<Pending>& left) {
    std::uint64_t hash = state.is_over() ? 1 : 0;
    const auto add = [&](std::int64_t value) { hash = mix(hash, static_cast<std::uint64_t>(value)); };
    for (std::uint32_t i = 0; i < state.object_count(); ++i) {
      const Object& o = state.object(make_object_id(PrimitiveId::kProcess, i));
      for (const std::int64_t value : o.numbers) add(value);
      add(o.is_destroyed ? 1 : 0);
      for (const auto* list : {&o.lists[0], &o.lists[1]}) {
        add(static_cast<std::int64_t>(list->size()));
        for (const std::int64_t value : *list) add(value);
      }
    }
    for (const Pending& p : left) {
      add(index(p.actor));
      add(static_cast<std::int64_t>(state.steps_of_others(p.actor)));
      for (const Access& a : p.operation) {
        for (const std::int64_t value : {std::int64_t{index(a.object)}, std::int64_t{a.verb}, a.argument, a.expected,
                                         std::int64_t{a.offset} << 16 | a.bytes << 8 | a.order})
          add(value);
      }
    }
    return hash;
  }
  // A call of an actor, whatever comes of it.
  static std::string call_of(ActorId actor, const Operation& operation) {
    std::string text = std::to_string(index(actor)) + to_text(operation);
    for (const Access& a : operation) text += "," + std::to_string(a.argument) + "," + std::to_string(a.expected);
    return text;
  }
  void note_disabled(const State& state, Step step, const Pending& other) {
    if (!state.is_enabled(other.actor, other.operation)) return;
    State after = state;
    after.apply(step);
    if (after.is_enabled(other.actor, other.operation)) return;
    std::string key = call_of(other.actor, other.operation) + " by " + call_of(step.actor, step.operation);
    for (const Access& a : step.operation) key += "=" + std::to_string(a.result);
    disabled_.try_emplace(key, step.operation, call_of(other.actor, other.operation));
  }
  // Who is disabled by a step goes on later, or otherwise: its step then has other results, and conflicts all the same.
  void check_conflicts() const {
    for (const auto& [key, pair] : disabled_) {
      const auto [begin, end] = done_.equal_range(pair.second);
      for (auto it = begin; it != end; ++it) {
        EXPECT_TRUE(may_conflict(pair.first, it->second)) << key << ", done with " << it->second.result();
        EXPECT_TRUE(waits_for_time(pair.first) || waits_for_time(it->second) ||
                    may_be_co_enabled(pair.first, it->second))
            << key << ", done with " << it->second.result();
      }
    }
  }
  void note_done(const Step& step) {
    if (is_file_call(step.operation)) return;
    const std::string call = call_of(step.actor, step.operation);
    const auto [begin, end] = done_.equal_range(call);
    if (std::none_of(begin, end, [&](const auto& known) { return is_same(known.second, step.operation); }))
      done_.emplace(call, step.operation);
  }

  // A wait whose time cannot run out early any more, while others go on.
  void note_left_out(const State& state, const std::vector<ScriptActor>& actors, const std::vector<Pending>& can_go) {
    for (ScriptActor actor : actors) {
      if (actor.is_timer) continue;
      find_pending(actor);
      if (!actor.has_pending) continue;
      const Access& first = actor.pending[0];
      const bool waits = !primitive_of(first).enabled(state, actor.id, actor.pending, first);
      for (const Access& a : actor.pending) {
        const Object& timer = state.object(a.object);
        if (primitive_of(a.object) == PrimitiveId::kTimer && a.verb == timer::kTake &&
            timer::stage(timer) == timer::kArmed && timer::early_left(timer) == 0 && waits && !can_go.empty())
          found_.hit_timeouts = true;
      }
    }
  }

  bool is_exhausted(ActorId actor) const {
    return depth_most_ != 0 &&
           std::count_if(steps_.begin(), steps_.end(), [&](const Step& s) { return s.actor == actor; }) >= depth_most_;
  }

  void take(State state, std::vector<ScriptActor> actors, const Pending& p) {
    Step step{p.actor, p.operation};
    if (is_file_call(step.operation)) {
      ScriptFiles files;
      for (Step done : steps_) {
        if (is_file_call(done.operation)) files.perform(done.operation);
      }
      files.perform(step.operation);
    }
    state.apply(step);
    note_done(step);
    ScriptActor& actor = actors[index(p.actor)];
    if (!actor.is_timer) {
      find_pending(actor);  // past jumps
      go_on(actor, step.operation);
    }
    steps_.push_back(step);
    try_all(state, actors);
    steps_.pop_back();
  }

  void note_end(const State& state, const std::vector<Pending>& left, bool is_held_back) {
    Execution execution;
    execution.objects = program_->objects;
    execution.steps = steps_;
    execution.pending = left;
    const bool is_done = std::all_of(left.begin(), left.end(), [&](const Pending& p) {
      return index(p.actor) >= program_->scripts.size() || state.is_gone(p.operation) ||
             (primitive_of(p.operation[0].object) == PrimitiveId::kSignal && p.operation[0].verb == signal::kDeliver);
    });
    execution.ending = state.is_over() ? Ending::kProcessEnded
                       : is_held_back  ? Ending::kDepth
                       : is_done       ? Ending::kCompleted
                                       : Ending::kStuck;
    found_.outcomes.insert(outcome_of(execution));
    const std::string its_class = class_of(steps_);
    found_.classes.insert(its_class);
    const auto [known, is_first] = known_.try_emplace(its_class);
    if (is_first) known->second = what_is_known(steps_);
    EXPECT_EQ(known->second, what_is_known(steps_)) << its_class;
    found_.is_whole = ++found_.executions < most_;
    ++by_preemptions_[preemptions_];
    found_.hit_depth = found_.hit_depth ||
                       std::any_of(left.begin(), left.end(), [&](const Pending& p) { return is_exhausted(p.actor); });
  }

  const ScriptProgram* program_;
  std::uint64_t most_;
  std::uint32_t depth_most_;
  std::vector<Step> steps_;
  std::map<std::string, std::map<std::pair<ActorId, std::size_t>, std::vector<std::size_t>>> known_;  // a class
  std::set<std::uint64_t> looked_at_;                                                                 // states
  std::map<std::string, std::pair<Operation, std::string>> disabled_;  // by a step, a call
  std::multimap<std::string, Operation> done_;                         // a call, with its results
  std::uint32_t preemptions_ = 0;
  std::map<std::uint32_t, std::uint64_t> by_preemptions_;
  Found found_{.is_whole = true};
};

}  // namespace crashcut::tests
