#include "persist/cut.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "persist/check.h"

namespace crashcut::persist {

Cut::Cut(const Log& log) : log_(&log), barriers_in_(log.durable_barrier()), positions_(log.chain_count()) {}

void Cut::reset() {
  for (ChainId chain : trail_) positions_[chain] = Position{};
  trail_.clear();
  barriers_in_ = log_->durable_barrier();
  first_barrier_out_ = kNoBarrier;
  places_.clear();
}

// The newest write that is certainly in, or -1: it hides all before it.
std::int32_t Cut::newest_in(LocationId location, std::span<const LocationWrite> history) const {
  if (log_->is_chain(location)) {
    const auto end =
        std::partition_point(history.begin(), history.end(), [&](const LocationWrite& w) { return is_in(w.event); });
    return static_cast<std::int32_t>(end - history.begin()) - 1;
  }
  auto at = static_cast<std::int32_t>(history.size()) - 1;
  while (at >= 0 && !is_in(history[at].event)) --at;
  return at;
}

std::span<const Candidate> Cut::candidates(LocationId location, const SameToReader& same) {
  auto history = log_->history(location);
  candidates_.clear();
  if (log_->has_rising_epochs(location)) {  // then a barrier that is out cuts off its end
    const auto end = std::partition_point(history.begin(), history.end(), [&](const LocationWrite& w) {
      return log_->epoch(w.event) < first_barrier_out_;
    });
    history = history.first(end - history.begin());
  }
  if (log_->is_chain(location)) {  // what lies above a write that is out is out
    const auto end =
        std::partition_point(history.begin(), history.end(), [&](const LocationWrite& w) { return !is_out(w.event); });
    history = history.first(end - history.begin());
  }
  const std::int32_t base = newest_in(location, history);
  candidates_.push_back(Candidate{base, base, base < 0 ? log_->initial(location) : history[base].value, location});
  for (std::int32_t i = base + 1; i < static_cast<std::int32_t>(history.size()); ++i) {
    const LocationWrite& w = history[i];
    if (!log_->is_chain(location) && is_out(w.event)) continue;
    Candidate& previous = candidates_.back();
    // One disjunction that two bounds can express: "at least the first of the run", since the rest lie above it.
    if (previous.last == i - 1 && w.chained && same.is_same(previous.value, w.value)) {
      previous.last = i;
    } else {
      candidates_.push_back(Candidate{i, i, w.value, location});
    }
  }
  std::reverse(candidates_.begin(), candidates_.end());
  return candidates_;
}

Value Cut::read(LocationId location, Chooser& chooser, const SameToReader& same) {
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

// Edges lead from lower to higher numbers, so the search downwards ends where the numbers are below `low`.
bool Cut::is_below(EventId low, EventId high) const {
  if (low == high || is_in(low) || log_->cover(low) <= log_->epoch(high)) return true;
  std::vector<EventId> open{high};
  std::unordered_set<EventId> seen;
  while (!open.empty()) {
    const EventId at = open.back();
    open.pop_back();
    for (const EventId p : log_->predecessors(at)) {
      if (p == low) return true;
      // Below an event that is in there is nothing but events that are in.
      if (p > low && !is_in(p) && seen.insert(p).second) open.push_back(p);
    }
  }
  return false;
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
    barriers_in_ = std::max(barriers_in_, log_->epoch(at));  // epochs do not fall along a chain
    if (log_->barrier_of(at) != 0) continue;                 // it covers all that lies below it
    const EventId old_end = std::exchange(touch(log_->chain(at)).end_in, at + 1);
    // Where a barrier settled an event, it settled what lies below it, further down the chain too.
    for (; at != kNoEvent && at >= old_end && log_->cover(at) > barriers_in_; at = log_->side_below(at)) {
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
    if (log_->barrier_of(at) != 0) continue;                             // all later events are out with it
    const EventId old_first = std::exchange(touch(log_->chain(at)).first_out, at);
    for (; at != kNoEvent && at < old_first && log_->epoch(at) < first_barrier_out_; at = log_->side_above(at)) {
      for (EventId s : log_->successors(at)) {
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
  std::size_t count = log_->covered_count(barriers_in_);
  for (ChainId chain : trail_) {
    // Those that a barrier covers stand at the chain's beginning and are counted already.
    const auto events = log_->chain_events(chain);
    const auto covered =
        std::ranges::partition_point(events, [&](EventId e) { return log_->cover(e) <= barriers_in_; });
    const auto end = std::ranges::lower_bound(events, positions_[chain].end_in);
    if (end > covered) count += static_cast<std::size_t>(end - covered);
  }
  return count;
}

}  // namespace crashcut::persist
