#include "persist/cut.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "persist/check.h"

namespace crashcut::persist {

Cut::Cut(const Log& log)
    : log_(&log),
      has_fences_(log.has_fences()),
      has_lower_(log.has_lower()),
      positions_(log.chain_count()),
      fence_positions_(log.fences().scope_count()) {
  CHECK(log.is_sealed());
  begin();
}

void Cut::reset() {
  for (ChainId chain : trail_) positions_[chain] = Position{};
  trail_.clear();
  if (has_fences_) std::fill(fence_positions_.begin(), fence_positions_.end(), FencePosition{});
  places_.clear();
  begin();
}

// What is durable is in.
void Cut::begin() {
  barriers_in_ = log_->durable_barrier();
  first_barrier_out_ = kNoBarrier;
  if (!has_fences_) return;
  for (const FenceId f : log_->fences().members(log_->durable_fences())) {
    barriers_in_ = std::max(barriers_in_, log_->epoch(log_->fences().event(f)));
    put_fences_in(f);
  }
}

bool Cut::is_any_fence_in(FenceSetId set) const {
  for (const FenceId f : log_->fences().members(set)) {
    if (log_->fences().index(f) <= fence_positions_[log_->fences().scope(f)].last_in) return true;
  }
  return false;
}

bool Cut::is_any_fence_out(FenceSetId set) const {
  for (const FenceId f : log_->fences().members(set)) {
    if (log_->fences().index(f) >= fence_positions_[log_->fences().scope(f)].first_out) return true;
  }
  return false;
}

// The positions among the fences stay closed: below a fence that is in, and above a fence that is out, rows say all.
void Cut::put_fences_in(FenceSetId set) {
  for (const FenceId f : log_->fences().members(set)) {
    if (is_any_fence_in(f)) continue;
    const auto row = log_->fences().row_below(f);
    for (ScopeId s = 0; s < row.size(); ++s) {
      fence_positions_[s].last_in = std::max(fence_positions_[s].last_in, row[s]);
    }
  }
}

void Cut::put_fences_out(FenceSetId set) {
  for (const FenceId f : log_->fences().members(set)) {
    if (is_any_fence_out(f)) continue;
    const auto row = log_->fences().row_above(f);
    for (ScopeId s = 0; s < row.size(); ++s) {
      fence_positions_[s].first_out = std::min(fence_positions_[s].first_out, row[s]);
    }
  }
}

// How many entries of the history satisfy `holds`, which no entry does after one that does not. The last entry is
// looked at first: a recovery that has read a few locations has most of the others decided.
template <class Holds>
[[gnu::always_inline]] static inline std::size_t count_first(std::span<const LocationWrite> history, Holds&& holds) {
  if (history.empty() || holds(history.back().event)) return history.size();
  const auto end =
      std::partition_point(history.begin(), history.end() - 1, [&](const LocationWrite& w) { return holds(w.event); });
  return static_cast<std::size_t>(end - history.begin());
}

// The newest write that is certainly in, or -1: it hides all before it.
inline std::int32_t Cut::newest_in(LocationId location, std::span<const LocationWrite> history) const {
  if (log_->is_chain(location)) {
    return static_cast<std::int32_t>(count_first(history, [&](EventId e) { return is_in(e); })) - 1;
  }
  auto at = static_cast<std::int32_t>(history.size()) - 1;
  while (at >= 0 && !is_in(history[at].event)) --at;
  return at;
}

// The history without the end that is known to be out, as far as that is seen at a glance.
inline std::span<const LocationWrite> Cut::possible_history(LocationId location) const {
  auto history = log_->history(location);
  if (log_->has_rising_epochs(location)) {  // then a barrier that is out cuts off its end
    history = history.first(count_first(history, [&](EventId e) { return log_->epoch(e) < first_barrier_out_; }));
  }
  if (log_->is_chain(location)) {  // what lies above a write that is out is out
    history = history.first(count_first(history, [&](EventId e) { return !is_out(e); }));
  }
  return history;
}

inline void Cut::find_candidates(LocationId location, const Value* base_value, const SameToReader& same,
                                 std::vector<Candidate>& to) const {
  const auto history = possible_history(location);
  const std::int32_t base = newest_in(location, history);
  const bool is_base_known = base >= 0 || base_value != nullptr;
  const bool is_chain = log_->is_chain(location);
  const std::size_t first = to.size();
  to.push_back(Candidate{base, base, base >= 0 ? history[base].value : is_base_known ? *base_value : 0, location});
  for (std::int32_t i = base + 1; i < static_cast<std::int32_t>(history.size()); ++i) {
    const LocationWrite& w = history[i];
    if (!is_chain && is_out(w.event)) continue;
    Candidate& previous = to.back();
    // One disjunction that two bounds can express: "at least the first of the run", since the rest lie above it.
    if (previous.last == i - 1 && w.chained && (is_base_known || i > 0) && same.is_same(previous.value, w.value)) {
      previous.last = i;
    } else {
      to.push_back(Candidate{i, i, w.value, location});
    }
  }
  std::reverse(to.begin() + static_cast<std::ptrdiff_t>(first), to.end());
}

std::span<const Candidate> Cut::candidates(LocationId location, const SameToReader& same) {
  const Value initial = log_->initial(location);
  candidates_.clear();
  find_candidates(location, &initial, same, candidates_);
  return candidates_;
}

void Cut::add_candidates(LocationId location, const Value* base, const SameToReader& same,
                         std::vector<Candidate>& to) const {
  find_candidates(location, base, same, to);
}

bool Cut::is_written(LocationId location) const { return newest_in(location, possible_history(location)) >= 0; }

Value Cut::read(LocationId location, Chooser& chooser, const SameToReader& same) {
  CHECK(!has_lower_ || log_->lower(location).layer == kNoLayer);
  const auto found = candidates(location, same);
  if (found.size() == 1) return found[0].value;
  const std::uint32_t taken = chooser.choose(Choice{*log_, location, found});
  CHECK(taken < found.size());
  const Candidate candidate = found[taken];
  settle(location, candidate);
  return candidate.value;
}

void Cut::settle(LocationId location, const Candidate& candidate) {
  const auto history = log_->history(location);
  if (candidate.first >= 0) put_in(history[candidate.first].event);
  for (std::size_t i = candidate.last + 1; i < history.size(); ++i) {
    put_out(history[i].event);
    if (log_->is_chain(location)) break;  // the rest lie above it
    const bool is_past_barrier = log_->epoch(history[i].event) >= first_barrier_out_;
    if (is_past_barrier && log_->has_rising_epochs(location)) break;  // the rest are out with it
  }
}

// Below an event that is in there is nothing but events that are in.
bool Cut::is_below(EventId low, EventId high) const {
  if (is_in(low)) return true;
  constexpr auto kNoLimit = std::numeric_limits<std::size_t>::max();
  return log_->is_below(low, high, kNoLimit, [&](EventId e) { return is_in(e); });
}

void Cut::include(EventId e) {
  CHECK(!is_out(e));
  put_in(e);
}

void Cut::exclude(EventId e) {
  CHECK(!is_in(e));
  put_out(e);
}

Cut::Position& Cut::touch(ChainId chain) {
  if (positions_[chain] == Position{}) trail_.push_back(chain);
  return positions_[chain];
}

void Cut::put_in(EventId e) {
  stack_.assign(1, e);
  while (!stack_.empty()) {
    EventId at = stack_.back();
    stack_.pop_back();
    if (is_in(at)) continue;
    barriers_in_ = std::max(barriers_in_, log_->epoch(at));  // epochs do not fall along a chain, nor do pasts
    if (has_fences_) put_fences_in(log_->past(at));
    if (log_->chain(at) == kNoChain) continue;  // a barrier or a fence: it covers all that lies below it
    const EventId old_end = std::exchange(touch(log_->chain(at)).end_in, at + 1);
    // Where a barrier or a fence settled an event, it settled what lies below it, further down the chain too.
    for (; at != kNoEvent && at >= old_end && !is_settled_in(at); at = log_->side_below(at)) {
      for (EventId p : log_->predecessors(at)) {
        if (!is_in(p)) stack_.push_back(p);
      }
    }
  }
}

void Cut::put_out(EventId e) {
  stack_.assign(1, e);
  while (!stack_.empty()) {
    EventId at = stack_.back();
    stack_.pop_back();
    if (is_out(at)) continue;
    first_barrier_out_ = std::min(first_barrier_out_, log_->cover(at));  // covers do not fall along a chain
    if (has_fences_) put_fences_out(log_->future(at));
    if (log_->chain(at) == kNoChain) continue;  // a barrier or a fence: all events above it are out with it
    const EventId old_first = std::exchange(touch(log_->chain(at)).first_out, at);
    for (; at != kNoEvent && at < old_first && !is_settled_out(at); at = log_->side_above(at)) {
      for (EventId s : log_->side_successors(at)) {
        if (!is_out(s)) stack_.push_back(s);
      }
    }
  }
}

std::vector<EventId> Cut::events_in() const {
  std::vector<EventId> in;
  for (EventId e = 0; e < log_->event_count(); ++e) {
    if (is_in(e)) in.push_back(e);
  }
  return in;
}

std::size_t Cut::count_in() const {
  if (has_fences_) return events_in().size();
  std::size_t count = log_->covered_count(barriers_in_);
  for (ChainId chain : trail_) {
    // The events that a barrier covers stand at the chain's beginning and are counted already.
    const auto events = log_->chain_events(chain);
    const auto covered =
        std::ranges::partition_point(events, [&](EventId e) { return log_->cover(e) <= barriers_in_; });
    const auto end = std::ranges::lower_bound(events, positions_[chain].end_in);
    if (end > covered) count += static_cast<std::size_t>(end - covered);
  }
  return count;
}

}  // namespace crashcut::persist
