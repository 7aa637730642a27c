#include "scheduler/foresight.h"

#include <algorithm>
#include <map>
#include <span>

#include "scheduler/dependence.h"
#include "scheduler/hash.h"
#include "scheduler/primitives/semaphore.h"

namespace crashcut::scheduler {

namespace {

using scheduler::mix;  // not hidden by the one below

std::uint64_t mix(std::uint64_t hash, const Operation& operation) {
  for (const Access& a : operation) {
    hash = mix(hash, static_cast<std::uint64_t>(a.object));
    hash = mix(hash, a.verb);
    hash = mix(hash, static_cast<std::uint64_t>(a.argument));
    hash = mix(hash, static_cast<std::uint64_t>(a.result));
  }
  return hash;
}

std::uint64_t first_history(ActorId actor) { return mix(1, index(actor)); }

bool is_plain(const Operation& x, std::uint8_t verb) {
  return x.size() == 1 && primitive_of(x[0].object) == PrimitiveId::kSemaphore && x[0].verb == verb && x[0].result != kUseAfterDestroy;
}
bool is_post(const Operation& x) { return is_plain(x, semaphore::kPost); }
bool is_wait(const Operation& x) { return is_plain(x, semaphore::kWait); }

// Whether `y` can be moved before `x`, its left neighbour; `count` is that of y's semaphore before x.
bool can_pass(const Operation& y, const Operation& x, std::int64_t count) {
  if (!are_dependent(x, y)) return true;
  if (x.size() != 1 || y.size() != 1 || x[0].object != y[0].object) return false;
  // A post before a wait that was enabled: it still is, and the count after both is the same.
  if (is_post(y) && is_wait(x)) return true;
  // A wait before a post, where there was something to take without it.
  return is_wait(y) && is_post(x) && count > 0;
}

std::int64_t change_by(const Operation& x, ObjectId semaphore) {
  std::int64_t change = 0;
  for (const Access& a : x) {
    if (a.object != semaphore) continue;
    if (a.verb == semaphore::kPost && a.result != kUseAfterDestroy) change += a.argument == 0 ? 1 : a.argument;
    if (semaphore::takes(a)) --change;
  }
  return change;
}

// Executions as they are put in normal form: step by step, the first of what can be moved to the front. Counts are
// kept high, so that more things commute: posts come before all others, then what touches no semaphore; a wait
// comes, where it can be had, together with all that its actor does up to its next post.
class Normaliser {
 public:
  Normaliser(std::span<const Step> steps, std::span<const ObjectStart> objects) : steps_(steps), words_((steps.size() + 63) / 64) {
    for (const ObjectStart& start : objects) {
      if (primitive_of(start.object) == PrimitiveId::kSemaphore) counts_.push_back({start.object, start.a});
    }
    alive_.assign(words_, 0);
    for (std::size_t k = 0; k < steps.size(); ++k) alive_[k / 64] |= std::uint64_t{1} << k % 64;
    note_blockers();
  }

  std::vector<Step> run() {
    std::vector<Step> ordered;
    while (ordered.size() < steps_.size()) {
      bool takes_block = false;
      const ActorId actor = steps_[choose(takes_block)].actor;
      do {
        ordered.push_back(take_first_of(actor));
      } while (takes_block && !is_post(ordered.back().operation));
    }
    return ordered;
  }

 private:
  enum Rank : std::uint64_t { kPostFirst, kPlain, kBlock, kLoneWait, kNever };
  struct Count {
    ObjectId semaphore;
    std::int64_t value;
  };

  // Of every step, the earlier ones of other actors that it can never pass. What a wait can pass, the count decides.
  void note_blockers() {
    blockers_.assign(steps_.size() * words_, 0);
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      std::size_t own = kNowhere;
      for (std::size_t i = 0; i < k; ++i) {
        if (steps_[i].actor == steps_[k].actor) {
          own = i;
        } else if (!can_pass(steps_[k].operation, steps_[i].operation, 1)) {
          blockers_[k * words_ + i / 64] |= std::uint64_t{1} << i % 64;
        }
      }
      previous_.push_back(own);
    }
  }

  bool is_alive(std::size_t k) const { return (alive_[k / 64] >> k % 64 & 1) != 0; }

  Step take_first_of(ActorId actor) {
    std::size_t k = 0;
    while (!is_alive(k) || steps_[k].actor != actor) ++k;
    alive_[k / 64] &= ~(std::uint64_t{1} << k % 64);
    for (Count& count : counts_) count.value += change_by(steps_[k].operation, count.semaphore);
    return steps_[k];
  }

  std::size_t choose(bool& takes_block) const {
    std::size_t best = 0;
    Rank best_rank = kNever;
    for (std::size_t k = 0; k < steps_.size(); ++k) {
      if (!is_alive(k) || (previous_[k] != kNowhere && is_alive(previous_[k]))) continue;
      const Rank rank = rank_of(k);
      if (rank < best_rank || (rank == best_rank && rank != kNever && steps_[k].actor < steps_[best].actor)) {
        best = k;
        best_rank = rank;
      }
    }
    takes_block = best_rank == kBlock;
    return best;
  }

  Rank rank_of(std::size_t k) const {
    if (!can_be_first(k, 0)) return kNever;
    const Operation& operation = steps_[k].operation;
    if (is_post(operation)) return kPostFirst;
    if (!is_wait(operation)) return kPlain;
    return is_block(k) ? kBlock : kLoneWait;
  }

  // Whether all that the actor does from its wait at `k` to its next post can come first, in one piece.
  bool is_block(std::size_t k) const {
    std::int64_t taken = 0;
    for (std::size_t i = k; i < steps_.size(); ++i) {
      if (steps_[i].actor != steps_[k].actor) continue;
      if (!can_be_first(i, taken)) return false;
      if (is_post(steps_[i].operation)) return true;
      // A second wait finds less, whichever semaphore it is of.
      if (is_wait(steps_[i].operation)) ++taken;
    }
    return false;
  }

  // The actor's own steps before it apart; `taken` units less are there.
  bool can_be_first(std::size_t k, std::int64_t taken) const {
    for (std::size_t w = 0; w < words_; ++w) {
      if ((blockers_[k * words_ + w] & alive_[w]) != 0) return false;
    }
    const Operation& y = steps_[k].operation;
    if (!is_wait(y)) return true;
    // It must be enabled all the way.
    const auto it = std::find_if(counts_.begin(), counts_.end(), [&](const Count& c) { return c.semaphore == y[0].object; });
    std::int64_t count = (it == counts_.end() ? 0 : it->value) - taken;
    for (std::size_t i = 0; i < k && count > 0; ++i) {
      if (is_alive(i) && steps_[i].actor != steps_[k].actor) count += change_by(steps_[i].operation, y[0].object);
    }
    return count > 0;
  }

  static constexpr std::size_t kNowhere = SIZE_MAX;
  std::span<const Step> steps_;
  std::size_t words_;
  std::vector<std::uint64_t> alive_, blockers_;
  std::vector<std::size_t> previous_;  // of the same actor
  std::vector<Count> counts_;
};

}  // namespace

std::uint64_t normal_form(const Execution& execution) {
  // The second time on high counts: what the first had to leave behind a low one now finds its place.
  const std::vector<Step> relaxed = Normaliser(execution.steps, execution.objects).run();
  std::uint64_t hash = 0;
  for (const Step& step : Normaliser(relaxed, execution.objects).run()) {
    hash = mix(mix(hash, index(step.actor)), step.operation);
    // What was foreseen of a call on files is what it met elsewhere: the swaps hold if it met the same.
    hash = mix(hash, reinterpret_cast<std::uintptr_t>(step.operation.footprint()));
  }
  return hash;
}

const Foresight::Next* Foresight::next_of(ActorId actor, std::uint64_t history) const {
  const auto it = next_.find(mix(history, index(actor)));
  return it == next_.end() || !it->second.is_known ? nullptr : &it->second;
}

void Foresight::note_next(ActorId actor, std::uint64_t history, const Operation* operation) {
  Next next;
  if (operation != nullptr) {
    next.operation = *operation;
    for (Access& a : *next.operation) a.result = kNoResult;
  }
  const auto [it, is_new] = next_.try_emplace(mix(history, index(actor)), next);
  if (is_new) return;
  const bool same = it->second.operation.has_value() == next.operation.has_value() &&
                    (!next.operation || it->second.operation->is_same_call(*next.operation));
  if (!same) it->second.is_known = false;
}

std::optional<Execution> Foresight::simulate(const RunRequest& request) const {
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
  while (true) {
    execution.pending.clear();
    for (std::uint32_t i = 0; i < actor_count_; ++i) {
      if (next[i] == nullptr) return std::nullopt;
      const auto& operation = next[i]->operation;
      if (operation && is_live(state, *operation)) execution.pending.push_back({static_cast<ActorId>(i), *operation});
    }
    const auto chosen = director.choose(state, execution.pending);
    if (!chosen) break;
    const std::uint32_t i = index(*chosen);
    Step step{*chosen, *next[i]->operation};
    state.apply(step);
    director.note(step, state);
    history[i] = mix(history[i], step.operation);
    next[i] = next_of(*chosen, history[i]);
    execution.steps.push_back(step);
  }
  execution.ending = director.ending();
  execution.hit_depth = director.hit_depth();
  if (execution.ending == Ending::kDiverged || execution.ending == Ending::kAsleep) return std::nullopt;
  execution.is_foreseen = true;
  return execution;
}

std::optional<Execution> Foresight::foresee(const RunRequest& request) {
  std::unique_lock lock(mutex_);
  if (!has_semaphores_) return std::nullopt;
  auto foreseen = simulate(request);
  if (!foreseen) return std::nullopt;
  const std::uint64_t form = normal_form(*foreseen);
  // Somebody may be running its class just now: then it is vouched for, or not, when that is done.
  changed_.wait(lock, [&] { return in_flight_.count(form) == 0; });
  if (seen_.contains(form)) return foreseen;
  in_flight_.insert(form);
  foreseen->outcome = form;
  foreseen->is_foreseen = false;
  return foreseen;
}

void Foresight::learn(const Execution& execution) {
  const std::lock_guard lock(mutex_);
  const auto is_semaphores = [](const Step& step) { return is_post(step.operation) || is_wait(step.operation); };
  has_semaphores_ = has_semaphores_ || std::any_of(execution.steps.begin(), execution.steps.end(), is_semaphores);
  if (!has_semaphores_) return;
  std::map<ActorId, std::uint64_t> history;
  const auto of = [&](ActorId actor) -> std::uint64_t& { return history.try_emplace(actor, first_history(actor)).first->second; };
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
    const bool is_new = std::none_of(objects_.begin(), objects_.end(), [&](const ObjectStart& s) { return s.object == start.object; });
    if (is_new) objects_.push_back(start);
  }
  if (execution.ending != Ending::kAsleep) seen_.insert(normal_form(execution));
}

Execution ForesightProgram::run(const RunRequest& request) {
  auto foreseen = foresight_->foresee(request);
  if (foreseen && foreseen->is_foreseen) return std::move(*foreseen);
  Execution execution = program_->run(request);
  if (execution.ending != Ending::kStopped) foresight_->learn(execution);
  if (foreseen) foresight_->land(foreseen->outcome);
  return execution;
}

void Foresight::land(std::uint64_t form) {
  const std::lock_guard lock(mutex_);
  in_flight_.erase(in_flight_.find(form));
  changed_.notify_all();
}

}  // namespace crashcut::scheduler
