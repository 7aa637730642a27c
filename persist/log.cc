#include "persist/log.h"

#include <algorithm>
#include <numeric>

#include "persist/check.h"

namespace crashcut::persist {

LocationId Log::add_location(Value initial) {
  CHECK(!sealed_);
  initial_.push_back(initial);
  current_.push_back(initial);
  last_write_.push_back(kNoEvent);
  return static_cast<LocationId>(initial_.size() - 1);
}

EventId Log::append(std::uint32_t op, std::span<const Write> writes, std::span<const EventId> after) {
  CHECK(!sealed_);
  const auto id = static_cast<EventId>(events_.size());
  CHECK(id < kNoEvent);
  events_.push_back(Event{op, barrier_count(), kNoBarrier, static_cast<std::uint32_t>(predecessors_.size()),
                          static_cast<std::uint32_t>(writes_.size()), kNoChain});
  for (EventId e : after) {
    CHECK(e < id);
    // What an earlier barrier covers is below us through the epoch already.
    if (events_[e].cover > barrier_count()) predecessors_.push_back(e);
  }
  std::sort(predecessors_.begin() + events_[id].first_predecessor, predecessors_.end());
  for (const Write& w : writes) {
    CHECK(w.location < initial_.size() && last_write_[w.location] != id);
    writes_.push_back(w);
    if (w.hidden_by != kNoEvent) continue;
    current_[w.location] = w.value;
    last_write_[w.location] = id;
  }
  return id;
}

EventId Log::add_event(std::uint32_t op, std::span<const Write> writes, std::span<const EventId> after) {
  return append(op, writes, after);
}

EventId Log::add_barrier(std::uint32_t op, std::span<const Write> writes, std::span<const EventId> after) {
  const EventId id = append(op, writes, after);
  barriers_.push_back(id);
  events_[id].epoch = barrier_count();
  cover_below(id, barrier_count());
  return id;
}

// Every event is covered once, so all calls together cost as much as there are edges.
void Log::cover_below(EventId barrier_event, BarrierId barrier) {
  stack_.assign(1, barrier_event);
  events_[barrier_event].cover = barrier;
  while (!stack_.empty()) {
    const EventId e = stack_.back();
    stack_.pop_back();
    for (EventId p : predecessors(e)) {
      if (events_[p].cover != kNoBarrier) continue;
      events_[p].cover = barrier;
      stack_.push_back(p);
    }
  }
}

void Log::make_durable() {
  CHECK(!sealed_);
  std::vector<EventId> all;
  // The durable prefix is covered already.
  for (EventId e = durable_ == 0 ? 0 : barrier_event(durable_); e < events_.size(); ++e) {
    if (events_[e].cover == kNoBarrier) all.push_back(e);
  }
  add_barrier(events_.empty() ? 0 : events_.back().op, {}, all);
  durable_ = barrier_count();
}

std::span<const EventId> Log::predecessors(EventId e) const {
  const std::size_t begin = events_[e].first_predecessor;
  const std::size_t end = e + 1 < events_.size() ? events_[e + 1].first_predecessor : predecessors_.size();
  return {predecessors_.data() + begin, end - begin};
}

std::span<const Write> Log::writes(EventId e) const {
  const std::size_t begin = events_[e].first_write;
  const std::size_t end = e + 1 < events_.size() ? events_[e + 1].first_write : writes_.size();
  return {writes_.data() + begin, end - begin};
}

std::span<const EventId> Log::successors(EventId e) const {
  return {successors_.data() + first_successor_[e], first_successor_[e + 1] - first_successor_[e]};
}

std::span<const EventId> Log::chain_events(ChainId c) const {
  return {chain_events_.data() + first_of_chain_[c], first_of_chain_[c + 1] - first_of_chain_[c]};
}

std::span<const LocationWrite> Log::history(LocationId l) const {
  return {history_.data() + first_history_[l], first_history_[l + 1] - first_history_[l]};
}

void Log::build_successors() {
  first_successor_.assign(events_.size() + 1, 0);
  // An edge into a barrier is what cover() says already, and a barrier's own successors are all later events.
  auto is_stored = [&](EventId from, EventId to) { return barrier_of(to) == 0 && barrier_of(from) == 0; };
  for (EventId e = 0; e < events_.size(); ++e) {
    for (EventId p : predecessors(e)) {
      if (is_stored(p, e)) ++first_successor_[p + 1];
    }
  }
  for (std::size_t i = 1; i < first_successor_.size(); ++i) first_successor_[i] += first_successor_[i - 1];
  successors_.resize(first_successor_.back());
  std::vector<std::uint32_t> next(first_successor_.begin(), first_successor_.end() - 1);
  for (EventId e = 0; e < events_.size(); ++e) {
    for (EventId p : predecessors(e)) {
      if (is_stored(p, e)) successors_[next[p]++] = e;
    }
  }
}

// Each event goes to the end of the longest chain that one of its predecessors ends: a journal stays one chain
// though its entries also wait for data.
void Log::build_chains() {
  std::vector<EventId> last(1, kNoEvent);   // of each chain
  std::vector<std::uint32_t> length(1, 0);  // of each chain
  std::vector<EventId> chain_before(events_.size(), kNoEvent);
  for (EventId e = 0; e < events_.size(); ++e) {
    if (barrier_of(e) != 0) continue;
    EventId best = kNoEvent;
    for (EventId p : predecessors(e)) {
      if (last[chain(p)] != p) continue;
      if (best == kNoEvent || length[chain(p)] >= length[chain(best)]) best = p;
    }
    chain_before[e] = best;
    if (best == kNoEvent) {
      events_[e].chain = static_cast<ChainId>(last.size());
      last.push_back(e);
      length.push_back(1);
    } else {
      events_[e].chain = chain(best);
      last[chain(e)] = e;
      ++length[chain(e)];
    }
  }
  list_chains(length);
  link_sides(chain_before);
}

void Log::list_chains(std::span<const std::uint32_t> lengths) {
  first_of_chain_.assign(lengths.size() + 1, 0);
  std::partial_sum(lengths.begin(), lengths.end(), first_of_chain_.begin() + 1);
  chain_events_.resize(first_of_chain_.back());
  std::vector<std::uint32_t> end(first_of_chain_.begin(), first_of_chain_.end() - 1);
  for (EventId e = 0; e < events_.size(); ++e) {
    if (chain(e) != kNoChain) chain_events_[end[chain(e)]++] = e;
  }
}

void Log::count_covered() {
  covered_count_.assign(barriers_.size() + 1, 0);
  for (const Event& e : events_) {
    if (e.cover != kNoBarrier) ++covered_count_[e.cover];
  }
  std::partial_sum(covered_count_.begin(), covered_count_.end(), covered_count_.begin());
}

void Log::link_sides(const std::vector<EventId>& chain_before) {
  sides_.assign(events_.size(), Sides{kNoEvent, kNoEvent});
  for (EventId e = 0; e < events_.size(); ++e) {
    const EventId before = chain_before[e];
    if (before == kNoEvent) continue;
    const bool has_sides = predecessors(before).size() > (chain_before[before] == kNoEvent ? 0u : 1u);
    sides_[e].below = has_sides ? before : sides_[before].below;
  }
  std::vector<bool> is_last(events_.size(), true);
  for (auto e = static_cast<EventId>(events_.size()); e-- > 0;) {
    const EventId before = chain_before[e];
    if (before == kNoEvent) continue;
    const bool has_sides = successors(e).size() > (is_last[e] ? 0u : 1u);
    sides_[before].above = has_sides ? e : sides_[e].above;
    is_last[before] = false;
  }
}

bool Log::persists_after_directly(EventId later, EventId earlier) const {
  if (events_[earlier].cover <= events_[later].epoch) return true;
  const auto before = predecessors(later);
  return std::binary_search(before.begin(), before.end(), earlier);
}

void Log::build_histories() {
  first_history_.assign(initial_.size() + 1, 0);
  for (const Write& w : writes_) ++first_history_[w.location + 1];
  for (std::size_t i = 1; i < first_history_.size(); ++i) first_history_[i] += first_history_[i - 1];
  history_.resize(writes_.size());
  std::vector<std::uint32_t> end(first_history_.begin(), first_history_.end() - 1);
  for (EventId e = 0; e < events_.size(); ++e) {
    for (const Write& w : writes(e)) {
      history_[end[w.location]++] = LocationWrite{e, true, w.value};
      if (w.hidden_by == kNoEvent) continue;
      const auto last = history_.begin() + end[w.location] - 1;
      const auto hider = std::find_if(history_.begin() + first_history_[w.location], last,
                                      [&](const LocationWrite& other) { return other.event == w.hidden_by; });
      std::rotate(hider, last, last + 1);
    }
  }
  mark_chains();
}

void Log::mark_chains() {
  is_chain_.assign(initial_.size(), true);
  has_rising_epochs_.assign(initial_.size(), true);
  for (LocationId l = 0; l < initial_.size(); ++l) {
    for (std::uint32_t at = first_history_[l] + 1; at < first_history_[l + 1]; ++at) {
      const EventId before = history_[at - 1].event;
      history_[at].chained = before < history_[at].event && persists_after_directly(history_[at].event, before);
      if (!history_[at].chained) is_chain_[l] = false;
      if (epoch(before) > epoch(history_[at].event)) has_rising_epochs_[l] = false;
    }
  }
}

void Log::seal() {
  CHECK(!sealed_);
  sealed_ = true;
  stack_ = {};
  build_successors();
  build_chains();
  count_covered();
  build_histories();
}

std::size_t Log::memory_bytes() const {
  auto bytes = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  return bytes(events_) + bytes(predecessors_) + bytes(writes_) + bytes(barriers_) + bytes(initial_) + bytes(current_) +
         bytes(last_write_) + bytes(first_successor_) + bytes(successors_) + bytes(first_history_) + bytes(history_) +
         bytes(sides_) + bytes(first_of_chain_) + bytes(chain_events_) + bytes(covered_count_) +
         is_chain_.capacity() / 8 + has_rising_epochs_.capacity() / 8;
}

}  // namespace crashcut::persist
