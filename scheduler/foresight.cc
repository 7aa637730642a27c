#include "scheduler/foresight.h"

#include <algorithm>
#include <map>

#include "scheduler/dependence.h"
#include "scheduler/primitives/semaphore.h"

namespace crashcut::scheduler {

namespace {

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  hash *= 0xff51afd7ed558ccd;
  return hash ^ hash >> 32;
}

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
  return x.size() == 1 && primitive_of(x[0].object) == PrimitiveId::kSemaphore && x[0].verb == verb;
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
    if (a.verb == semaphore::kPost) change += a.argument == 0 ? 1 : a.argument;
    if ((semaphore::is_wait(a) && semaphore::took(a)) || a.verb == semaphore::kTakeTurn) --change;
  }
  return change;
}

// Executions as they are put in normal form: step by step, the first of what can be moved to the front. Counts are
// kept high, so that more things commute: posts come before all others, then what touches no semaphore; a wait
// comes, where it can be had, together with all that its actor does up to its next post.
class Normaliser {
 public:
  explicit Normaliser(const Execution& execution) : left_(execution.steps) {
    for (const ObjectStart& start : execution.objects) {
      if (primitive_of(start.object) == PrimitiveId::kSemaphore) counts_[start.object] = start.a;
    }
  }

  std::vector<Step> run() {
    std::vector<Step> ordered;
    while (!left_.empty()) {
      bool takes_block = false;
      const std::size_t chosen = choose(takes_block);
      const ActorId actor = left_[chosen].actor;
      do {
        ordered.push_back(take_first_of(actor));
      } while (takes_block && !is_post(ordered.back().operation));
    }
    return ordered;
  }

 private:
  enum Rank : std::uint64_t { kPostFirst, kPlain, kBlock, kLoneWait, kNever };

  Step take_first_of(ActorId actor) {
    const auto it = std::find_if(left_.begin(), left_.end(), [&](const Step& s) { return s.actor == actor; });
    const Step step = *it;
    for (auto& [semaphore, count] : counts_) count += change_by(step.operation, semaphore);
    left_.erase(it);
    return step;
  }

  std::size_t choose(bool& takes_block) const {
    std::size_t best = 0;
    Rank best_rank = kNever;
    for (std::size_t k = 0; k < left_.size(); ++k) {
      const auto is_own = [&](const Step& s) { return s.actor == left_[k].actor; };
      if (std::any_of(left_.begin(), left_.begin() + static_cast<std::ptrdiff_t>(k), is_own)) continue;
      const Rank rank = rank_of(k);
      if (rank < best_rank || (rank == best_rank && rank != kNever && left_[k].actor < left_[best].actor)) {
        best = k;
        best_rank = rank;
      }
    }
    takes_block = best_rank == kBlock;
    return best;
  }

  Rank rank_of(std::size_t k) const {
    if (!can_be_first(k, 0)) return kNever;
    const Operation& operation = left_[k].operation;
    if (is_post(operation)) return kPostFirst;
    if (!is_wait(operation)) return kPlain;
    return is_block(k) ? kBlock : kLoneWait;
  }

  // Whether all that the actor does from its wait at `k` to its next post can come first, in one piece.
  bool is_block(std::size_t k) const {
    std::int64_t taken = 0;
    for (std::size_t i = k; i < left_.size(); ++i) {
      if (left_[i].actor != left_[k].actor) continue;
      if (!can_be_first(i, taken)) return false;
      if (is_post(left_[i].operation)) return true;
      // A second wait finds less, whichever semaphore it is of.
      if (is_wait(left_[i].operation)) ++taken;
    }
    return false;
  }

  // The actor's own steps before it apart; `taken` units less are there.
  bool can_be_first(std::size_t k, std::int64_t taken) const {
    const Operation& y = left_[k].operation;
    const bool waits = is_wait(y);
    std::int64_t count = 0;
    if (waits) {
      const auto it = counts_.find(y[0].object);
      count = (it == counts_.end() ? 0 : it->second) - taken;
    }
    // A wait must be enabled all the way.
    for (std::size_t i = 0; i < k; ++i) {
      if (left_[i].actor == left_[k].actor) continue;
      if (waits && count <= 0) return false;
      if (!can_pass(y, left_[i].operation, count)) return false;
      if (waits) count += change_by(left_[i].operation, y[0].object);
    }
    return !waits || count > 0;
  }

  std::vector<Step> left_;
  std::map<ObjectId, std::int64_t> counts_;
};

}  // namespace

std::uint64_t normal_form(const Execution& execution) {
  // The second time on high counts: what the first had to leave behind a low one now finds its place.
  Execution relaxed;
  relaxed.objects = execution.objects;
  relaxed.steps = Normaliser(execution).run();
  std::uint64_t hash = 0;
  for (const Step& step : Normaliser(relaxed).run()) hash = mix(mix(hash, index(step.actor)), step.operation);
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
  const auto is_semaphore = [](const ObjectStart& start) { return primitive_of(start.object) == PrimitiveId::kSemaphore; };
  has_semaphores_ = has_semaphores_ || std::any_of(execution.objects.begin(), execution.objects.end(), is_semaphore);
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
  // Who took steps and is not left has come to its end; a timer may be set again.
  for (const auto& [actor, own] : history) {
    if (!is_left[index(actor)] && execution.ending != Ending::kProcessEnded) note_next(actor, own, nullptr);
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
  foresight_->learn(execution);
  if (foreseen) foresight_->land(foreseen->outcome);
  return execution;
}

void Foresight::land(std::uint64_t form) {
  const std::lock_guard lock(mutex_);
  in_flight_.erase(in_flight_.find(form));
  changed_.notify_all();
}

}  // namespace crashcut::scheduler
