#include "scheduler/foresight.h"

#include <algorithm>
#include <map>

#include "scheduler/hash.h"
#include "scheduler/normal_form.h"
#include "scheduler/primitive.h"

namespace crashcut::scheduler {

namespace {

using scheduler::mix;  // not hidden by the one below

std::uint64_t mix(std::uint64_t hash, const Operation& operation) {
  for (const Access& a : operation) {
    hash = mix(hash, std::uint64_t{static_cast<std::uint32_t>(a.object)} << 8 | a.verb);
    hash = mix(hash, static_cast<std::uint64_t>(a.argument));
    hash = mix(hash, static_cast<std::uint64_t>(a.result));
  }
  return hash;
}

std::uint64_t first_history(ActorId actor) { return mix(1, index(actor)); }

// Measured: a step takes 0.2 to 0.4 us to run and 0.2 to 0.7 us to foresee, the more the longer the execution is. To
// begin an execution takes about 0.1 ms.
constexpr std::uint64_t kForeseenCost = 2, kStartSteps = 250;
// In steps that are run: a search of few executions is foreseen in any case.
constexpr std::uint64_t kPatience = 50'000;

}  // namespace

const Foresight::Next* Foresight::next_of(ActorId actor, std::uint64_t history) const {
  const auto it = next_.find(mix(history, index(actor)));
  return it == next_.end() || !it->second.is_known ? nullptr : &it->second;
}

void Foresight::note_next(ActorId actor, std::uint64_t history, const Operation* operation) {
  const auto [it, is_new] = next_.try_emplace(mix(history, index(actor)));
  Next& next = it->second;
  if (is_new) {
    if (operation == nullptr) return;
    next.operation = *operation;
    for (Access& a : *next.operation) a.result = kNoResult;
    return;
  }
  const bool same = next.operation.has_value() == (operation != nullptr) &&
                    (operation == nullptr || next.operation->is_same_call(*operation));
  if (!same) next.is_known = false;
}

// What every actor stands before: those that are live, in their order. False where one's next step is not known.
bool Foresight::list_pending(const State& state, const std::vector<const Next*>& next, std::vector<Pending>& pending) {
  pending.clear();
  for (std::uint32_t i = 0; i < next.size(); ++i) {
    if (next[i] == nullptr) return false;
    const auto& operation = next[i]->operation;
    if (operation && is_live(state, *operation)) pending.push_back({static_cast<ActorId>(i), *operation});
  }
  return true;
}

std::optional<Execution> Foresight::simulate(const RunRequest& request, std::size_t& looked_at) const {
  Execution execution;
  execution.objects = objects_;
  State state(objects_);
  Director director(request);
  std::vector<std::uint64_t> history;
  std::vector<const Next*> next;
  for (std::uint32_t i = 0; i < actor_count_; ++i) {
    history.push_back(first_history(static_cast<ActorId>(i)));
    next.push_back(next_of(static_cast<ActorId>(i), history.back()));
  }
  std::vector<Pending>& pending = execution.pending;
  if (!list_pending(state, next, pending)) return std::nullopt;
  execution.steps.reserve(request.prefix.size() + 64);
  while (const auto chosen = director.choose(state, pending)) {
    ++looked_at;
    const std::uint32_t i = index(*chosen);
    Step& step = execution.steps.emplace_back(Step{*chosen, *next[i]->operation});
    state.apply(step);
    director.note(step, state);
    history[i] = mix(history[i], step.operation);
    next[i] = next_of(*chosen, history[i]);
    if (next[i] == nullptr) return std::nullopt;
    // Only a thread's own steps change whether there is anything to stand before.
    const bool changes_who_is_live = !next[i]->operation || primitive_of(step.operation[0]).is_there != nullptr;
    if (!changes_who_is_live) {
      const auto own =
          std::find_if(pending.begin(), pending.end(), [&](const Pending& p) { return p.actor == *chosen; });
      own->operation = *next[i]->operation;
    } else if (!list_pending(state, next, pending)) {
      return std::nullopt;
    }
  }
  execution.ending = director.ending();
  execution.hit_depth = director.hit_depth();
  if (execution.ending == Ending::kDiverged || execution.ending == Ending::kAsleep) return std::nullopt;
  execution.is_foreseen = true;
  return execution;
}

std::optional<Execution> Foresight::foresee(const RunRequest& request, std::size_t& looked_at) {
  std::unique_lock lock(mutex_);
  if (!has_semaphores_ || has_given_up_) return std::nullopt;
  auto foreseen = simulate(request, looked_at);
  if (!foreseen) return std::nullopt;
  lock.unlock();
  const std::uint64_t form = normal_form(*foreseen);
  lock.lock();
  // Somebody may be running its class just now: then it is vouched for, or not, when that is done.
  changed_.wait(lock, [&] { return in_flight_.count(form) == 0; });
  if (seen_.contains(form)) return foreseen;
  in_flight_.insert(form);
  foreseen->outcome = form;
  foreseen->is_foreseen = false;
  return foreseen;
}

// Whether what was foreseen is what came.
static bool is_same(const Execution& foreseen, const Execution& execution) {
  const auto is_same_step = [](const Step& x, const Step& y) {
    if (x.actor != y.actor || x.operation.size() != y.operation.size() ||
        x.operation.footprint() != y.operation.footprint())
      return false;
    return std::equal(
        x.operation.begin(), x.operation.end(), y.operation.begin(), [](const Access& a, const Access& b) {
          return a.object == b.object && a.verb == b.verb && a.argument == b.argument && a.result == b.result;
        });
  };
  return std::equal(foreseen.steps.begin(), foreseen.steps.end(), execution.steps.begin(), execution.steps.end(),
                    is_same_step);
}

void Foresight::learn(const Execution& execution, const Execution* foreseen) {
  const auto is_semaphores = [](const Step& step) {
    return is_plain_post(step.operation) || is_plain_wait(step.operation);
  };
  if (has_given_up()) return;
  const bool has_semaphores = std::any_of(execution.steps.begin(), execution.steps.end(), is_semaphores);
  if (!has_semaphores && !is_of_use()) return;
  const std::uint64_t form =
      foreseen != nullptr && is_same(*foreseen, execution) ? foreseen->outcome : normal_form(execution);
  const std::lock_guard lock(mutex_);
  has_semaphores_ = true;
  std::map<ActorId, std::uint64_t> history;
  const auto of = [&](ActorId actor) -> std::uint64_t& {
    return history.try_emplace(actor, first_history(actor)).first->second;
  };
  for (const Step& step : execution.steps) {
    std::uint64_t& own = of(step.actor);
    note_next(step.actor, own, &step.operation);
    own = mix(own, step.operation);
    actor_count_ = std::max(actor_count_, index(step.actor) + 1);
  }
  std::vector<bool> is_left(actor_count_, false);
  for (const Pending& p : execution.pending) {
    if (index(p.actor) >= is_left.size()) is_left.resize(index(p.actor) + 1);
    is_left[index(p.actor)] = true;
    actor_count_ = std::max(actor_count_, index(p.actor) + 1);
    note_next(p.actor, of(p.actor), &p.operation);
  }
  // Who took steps and is not left has come to its end.
  for (const auto& [actor, own] : history) {
    if (!is_left[index(actor)]) note_next(actor, own, nullptr);
  }
  for (const ObjectStart& start : execution.objects) {
    const bool is_new =
        std::none_of(objects_.begin(), objects_.end(), [&](const ObjectStart& s) { return s.object == start.object; });
    if (is_new) objects_.push_back(start);
  }
  if (execution.ending != Ending::kAsleep) seen_.insert(form);
}

void Foresight::weigh(const Execution& execution) {
  const std::lock_guard lock(mutex_);
  if (!has_semaphores_ || has_given_up_) return;
  // As if it had been foreseen whole: how far it was may depend on what another worker had learned by then.
  foreseen_cost_ += kForeseenCost * execution.steps.size();
  (execution.is_foreseen ? saved_cost_ : run_cost_) += kStartSteps + execution.steps.size();
  has_given_up_ = foreseen_cost_ > saved_cost_ + run_cost_ + kPatience;
  if (!has_given_up_) return;
  next_ = {};
  seen_ = {};
}

Execution ForesightProgram::run(const RunRequest& request) {
  std::size_t looked_at = 0;
  auto foreseen = foresight_->foresee(request, looked_at);
  if (foreseen && foreseen->is_foreseen) {
    foreseen->foreseen_steps = looked_at;
    return std::move(*foreseen);
  }
  // However the run ends: others wait for it.
  struct Landing {
    Foresight* foresight;
    const std::optional<Execution>& foreseen;
    ~Landing() {
      if (foreseen) foresight->land(foreseen->outcome);
    }
  } landing{foresight_, foreseen};
  Execution execution = program_->run(request);
  execution.foreseen_steps = looked_at;
  if (execution.ending != Ending::kStopped) foresight_->learn(execution, foreseen ? &*foreseen : nullptr);
  return execution;
}

void Foresight::land(std::uint64_t form) {
  const std::lock_guard lock(mutex_);
  in_flight_.erase(in_flight_.find(form));
  changed_.notify_all();
}

}  // namespace crashcut::scheduler
