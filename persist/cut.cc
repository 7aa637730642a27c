#include "persist/cut.h"

#include <algorithm>

#include "persist/check.h"

namespace crashcut::persist {

Cut::Cut(const Log& log) : log_(&log), barriers_in_(log.durable_barrier()), mark_(log.event_count(), kOpen) {}

void Cut::reset() {
  for (EventId e : trail_) mark_[e] = kOpen;
  trail_.clear();
  barriers_in_ = log_->durable_barrier();
  first_barrier_out_ = kNoBarrier;
  marked_in_ = 0;
}

// The newest write that is certainly in, or -1: it hides all before it.
std::int32_t Cut::newest_in(LocationId location, std::span<const LocationWrite> history) const {
  if (log_->is_chain(location)) {
    const auto end = std::partition_point(history.begin(), history.end(),
                                          [&](const LocationWrite& w) { return is_in(w.event); });
    return static_cast<std::int32_t>(end - history.begin()) - 1;
  }
  auto at = static_cast<std::int32_t>(history.size()) - 1;
  while (at >= 0 && !is_in(history[at].event)) --at;
  return at;
}

std::span<const Candidate> Cut::candidates(LocationId location, const SameToReader& same) {
  auto history = log_->history(location);
  candidates_.clear();
  // Epochs do not fall along a history, so a barrier that is out cuts off its end.
  const auto end = std::partition_point(history.begin(), history.end(), [&](const LocationWrite& w) {
    return log_->epoch(w.event) < first_barrier_out_;
  });
  history = history.first(end - history.begin());
  const std::int32_t base = newest_in(location, history);
  candidates_.push_back(Candidate{base, base, base < 0 ? log_->initial(location) : history[base].value});
  for (std::int32_t i = base + 1; i < static_cast<std::int32_t>(history.size()); ++i) {
    const LocationWrite& w = history[i];
    if (is_out(w.event)) {
      if (log_->is_chain(location)) break;
      continue;
    }
    Candidate& previous = candidates_.back();
    // One disjunction that two bounds can express: "at least the first of the run", since the rest lie above it.
    if (previous.last == i - 1 && w.chained && same.is_same(previous.value, w.value)) {
      previous.last = i;
    } else {
      candidates_.push_back(Candidate{i, i, w.value});
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
    if (log_->is_chain(location)) break;                              // the rest lie above it
    if (log_->epoch(history[i].event) >= first_barrier_out_) break;  // the rest are out with it
  }
}

void Cut::put_in(EventId e) {
  if (is_in(e)) return;
  BarrierId barrier = barriers_in_;
  stack_.assign(1, e);
  mark_in(e);
  while (!stack_.empty()) {
    const EventId at = stack_.back();
    stack_.pop_back();
    barrier = std::max(barrier, log_->epoch(at));
    for (EventId p : log_->predecessors(at)) {
      if (is_in(p) || log_->cover(p) <= barrier) continue;
      mark_in(p);
      stack_.push_back(p);
    }
  }
  if (barrier > barriers_in_) raise_barriers_in(barrier);
}

void Cut::mark_in(EventId e) {
  mark_[e] = kIn;
  trail_.push_back(e);
  ++marked_in_;
}

// What the barrier covers is no longer in by its mark alone.
void Cut::raise_barriers_in(BarrierId barrier) {
  barriers_in_ = barrier;
  marked_in_ = static_cast<std::size_t>(std::count_if(trail_.begin(), trail_.end(), [&](EventId e) {
    return mark_[e] == kIn && log_->cover(e) > barriers_in_;
  }));
}

void Cut::put_out(EventId e) {
  if (is_out(e)) return;
  stack_.assign(1, e);
  mark_[e] = kOut;
  trail_.push_back(e);
  while (!stack_.empty()) {
    const EventId at = stack_.back();
    stack_.pop_back();
    first_barrier_out_ = std::min(first_barrier_out_, log_->cover(at));
    for (EventId s : log_->successors(at)) {
      if (is_out(s)) continue;
      mark_[s] = kOut;
      trail_.push_back(s);
      stack_.push_back(s);
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

}  // namespace crashcut::persist
