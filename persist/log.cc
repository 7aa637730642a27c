#include "persist/log.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "persist/check.h"

namespace crashcut::persist {

// How far is_below() searches for a path between two neighbouring writes of a location. A longer path is not found: the
// writes then count as not chained, and two of equal value stay two candidates. That is more recoveries than need be,
// and no wrong one.
static constexpr std::size_t kChainStepsMax = 64;

LocationId Log::add_location(Value initial) {
  CHECK(!sealed_);
  locations_.push_back(Location{.current = initial});
  histories_.push_back(History{.initial = initial});
  return static_cast<LocationId>(locations_.size() - 1);
}

LocationId Log::add_location_over(LowerLocation lower) {
  const LocationId location = add_location(0);
  lower_.resize(locations_.size());
  lower_.back() = lower;
  return location;
}

void Log::add_common_past(FenceSetId& past, bool keeps_fences) {
  past = fences_.join(past, common_past_);
  if (!keeps_fences) return;
  for (const FenceId f : fences_.members(common_past_)) {
    const EventId e = fences_.event(f);
    if (events_[e].cover > barrier_count()) predecessors_.push_back(e);
  }
}

// The event's edges. Adds to `past` the fences that `after` names or implies.
EventId Log::append(std::uint32_t op, std::span<const EventId> after, FenceSetId& past, bool keeps_fences) {
  CHECK(!sealed_);
  const auto id = static_cast<EventId>(events_.size());
  CHECK(id < kNoEvent);
  const auto first_predecessor = static_cast<std::uint32_t>(predecessors_.size());
  if (common_past_ != kNoFences) add_common_past(past, keeps_fences);
  for (const EventId e : after) {
    CHECK(e < id);
    // What an earlier barrier covers is below this event already, by its epoch.
    if (events_[e].cover <= barrier_count()) continue;
    if (has_fences()) {
      past = fences_.join(past, fence_links_[e].past);
      if (fence_of(e) != 0 && !keeps_fences) continue;
    }
    predecessors_.push_back(e);
  }
  if (predecessors_.size() - first_predecessor > 1) {
    std::sort(predecessors_.begin() + first_predecessor, predecessors_.end());
  }
  events_.push_back(Event{.op = op,
                          .epoch = barrier_count(),
                          .cover = kNoBarrier,
                          .first_predecessor = first_predecessor,
                          .first_write = static_cast<std::uint32_t>(writes_.size()),
                          .chain = kNoChain,
                          .has_side_below = false});
  if (!sides_.empty()) sides_.push_back(Sides{kNoEvent, kNoEvent});
  if (has_fences()) fence_links_.push_back(FenceLinks{past, kNoFences});
  return id;
}

// Each event goes to the end of the longest chain that one of its predecessors ends: a journal stays one chain
// though its entries also wait for data.
void Log::append_to_chain(EventId e) {
  EventId before = kNoEvent;
  for (const EventId p : predecessors(e)) {
    if (chains_[chain(p)].last != p) continue;
    if (before == kNoEvent || chains_[chain(p)].length >= chains_[chain(before)].length) before = p;
  }
  Event& event = events_[e];
  for (const EventId p : predecessors(e)) {
    if (p == before) continue;
    side_edges_.push_back(Edge{p, e});
    event.has_side_below = true;
    sides_.resize(events_.size(), Sides{kNoEvent, kNoEvent});
  }
  if (before == kNoEvent) {
    event.chain = static_cast<ChainId>(chains_.size());
    chains_.push_back(Chain{e, 1});
    return;
  }
  event.chain = events_[before].chain;
  if (!sides_.empty()) sides_[e].below = events_[before].has_side_below ? before : sides_[before].below;
  chains_[event.chain] = Chain{e, chains_[event.chain].length + 1};
}

void Log::append_writes(EventId e, std::span<const Write> writes) {
  for (const Write& w : writes) {
    CHECK(w.location < locations_.size());
    Location& location = locations_[w.location];
    CHECK(location.last_write != e && location.write_count + 1u < 1u << 30);
    writes_.push_back(w);
    ++location.write_count;
    if (w.hidden_by != kNoEvent) {
      location.has_hidden_writes = true;
      continue;
    }
    location.current = w.value;
    location.last_write = e;
  }
}

EventId Log::add_event(std::uint32_t op, std::span<const Write> writes, std::span<const EventId> after,
                       FenceSetId past) {
  const EventId id = append(op, after, past, false);
  append_to_chain(id);
  append_writes(id, writes);
  return id;
}

EventId Log::add_barrier(std::uint32_t op, std::span<const Write> writes, std::span<const EventId> after) {
  FenceSetId past = kNoFences;
  const EventId id = append(op, after, past, true);
  if (has_fences()) fence_links_[id].past = kNoFences;  // its epoch and cover say all
  barriers_.push_back(id);
  covered_count_.push_back(0);
  events_[id].epoch = barrier_count();
  cover_below(id, barrier_count());
  append_writes(id, writes);
  return id;
}

EventId Log::add_fence(std::uint32_t op, std::span<const Write> writes, std::span<const EventId> after, ScopeId scope,
                       FenceSetId past) {
  const EventId id = append(op, after, past, false);
  fence_links_.resize(events_.size(), FenceLinks{kNoFences, kNoFences});
  const FenceId fence = fences_.add(id, scope, past);
  fence_links_[id] = FenceLinks{fence, fence};
  append_writes(id, writes);
  return id;
}

// Every event is covered once, so all calls together cost as much as there are edges, and a number a scope for each
// fence.
void Log::cover_below(EventId barrier_event, BarrierId barrier) {
  stack_.clear();
  const auto cover = [&](EventId e) {
    if (events_[e].cover != kNoBarrier) return;
    events_[e].cover = barrier;
    ++covered_count_[barrier];
    stack_.push_back(e);
  };
  cover(barrier_event);
  while (!stack_.empty()) {
    const EventId e = stack_.back();
    stack_.pop_back();
    for (const EventId p : predecessors(e)) cover(p);
    for_each_fence_below(e, cover);
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

void Log::make_durable(EventId fence) {
  CHECK(!sealed_ && fence < events_.size() && fence_of(fence) != 0);
  durable_fences_ = fences_.join(durable_fences_, fence_of(fence));
}

// ---- sealing -------------------------------------------------------------------------------------------------------

// From the last event down, so that the future of an event is known before it is handed to the events below.
void Log::build_futures() {
  for (auto e = static_cast<EventId>(events_.size()); e-- > 0;) {
    if (barrier_of(e) != 0 || future(e) == kNoFences) continue;
    for (const EventId p : predecessors(e)) {
      fence_links_[p].future = fences_.meet(fence_links_[p].future, future(e));
    }
  }
}

void Log::build_side_successors() {
  if (side_edges_.empty()) return;
  first_side_successor_.assign(events_.size() + 1, 0);
  for (const Edge& edge : side_edges_) ++first_side_successor_[edge.from + 1];
  std::partial_sum(first_side_successor_.begin(), first_side_successor_.end(), first_side_successor_.begin());
  side_successors_.resize(side_edges_.size());
  std::vector<std::uint32_t> next(first_side_successor_.begin(), first_side_successor_.end() - 1);
  for (const Edge& edge : side_edges_) side_successors_[next[edge.from]++] = edge.to;
  side_edges_ = {};
  link_sides_above();
}

void Log::link_sides_above() {
  std::vector<EventId> nearest(chains_.size(), kNoEvent);
  for (auto e = static_cast<EventId>(events_.size()); e-- > 0;) {
    if (chain(e) == kNoChain) continue;
    sides_[e].above = nearest[chain(e)];
    if (!side_successors(e).empty()) nearest[chain(e)] = e;
  }
}

// Whether it is seen at a glance that `low`, an earlier event, persists before `high`. If `high` is a barrier or a
// fence, this says all.
bool Log::is_plainly_below(EventId low, EventId high) const {
  if (cover(low) <= epoch(high)) return true;
  if (chain(low) != kNoChain && chain(low) == chain(high)) return true;
  return has_fences() && fences_.reaches(future(low), past(high));
}

// Whether `e` persists after `before`, the event of the previous write of a location that `e` writes.
bool Log::is_chained(const LastWrite& before, EventId e) const {
  if (before.cover <= epoch(e)) return true;
  if (before.chain != kNoChain && before.chain == chain(e)) return true;
  const auto below = predecessors(e);
  if (below.empty() && past(e) == kNoFences) return false;
  if (std::binary_search(below.begin(), below.end(), before.event)) return true;
  return is_below(before.event, e, kChainStepsMax, [](EventId) { return false; });
}

// The first entry of a chain stands one to the right until all entries are in place. By then it is the first entry of
// the next chain. (Many logs have as many chains as events, so a second array would count.)
void Log::list_chains_and_histories() {
  first_of_chain_.assign(chains_.size() + 1, 0);
  std::uint32_t first = 0;
  for (std::size_t c = 0; c < chains_.size(); ++c) {
    first_of_chain_[c + 1] = std::exchange(first, first + chains_[c].length);
  }
  chain_events_.resize(first);
  history_.resize(writes_.size());
  // What is needed of a location's last write stands here, so that no earlier event is looked at.
  std::vector<LastWrite> last(locations_.size());
  first = 0;
  for (LocationId l = 0; l < locations_.size(); ++l) {
    histories_[l].count = locations_[l].write_count;
    histories_[l].first = last[l].end = std::exchange(first, first + locations_[l].write_count);
  }
  for (EventId e = 0; e < events_.size(); ++e) {
    if (chain(e) != kNoChain) chain_events_[first_of_chain_[chain(e) + 1]++] = e;
    for (const Write& w : writes(e)) {
      LastWrite& before = last[w.location];
      const bool is_chained_write = before.event == kNoEvent || is_chained(before, e);
      if (!is_chained_write) histories_[w.location].is_chain = false;
      history_[before.end] = LocationWrite{e, is_chained_write, w.value};
      if (w.hidden_by != kNoEvent) place_hidden_write(w, before.end);
      before = LastWrite{before.end + 1, e, cover(e), chain(e)};
    }
  }
  for (LocationId l = 0; l < locations_.size(); ++l) {
    if (locations_[l].has_hidden_writes) mark_chains(l);
  }
}

// Moves a write that was put at the end of its history to its place before the write that hides it.
void Log::place_hidden_write(const Write& w, std::uint32_t at) {
  const auto last = history_.begin() + at;
  const auto first = history_.begin() + histories_[w.location].first;
  const auto hider = std::find_if(first, last, [&](const LocationWrite& other) { return other.event == w.hidden_by; });
  std::rotate(hider, last, last + 1);
}

void Log::mark_chains(LocationId l) {
  History& history = histories_[l];
  history.is_chain = true;
  for (std::uint32_t at = history.first; at < history.first + history.count; ++at) {
    LocationWrite& write = history_[at];
    write.chained = true;
    if (at == history.first) continue;
    const EventId before = history_[at - 1].event;
    write.chained =
        before < write.event && is_below(before, write.event, kChainStepsMax, [](EventId) { return false; });
    if (!write.chained) history.is_chain = false;
    if (epoch(before) > epoch(write.event)) history.has_rising_epochs = false;
  }
}

void Log::seal() {
  CHECK(!sealed_);
  sealed_ = true;
  stack_ = {};
  if (has_fences()) build_futures();
  fences_.seal();
  build_side_successors();
  std::partial_sum(covered_count_.begin(), covered_count_.end(), covered_count_.begin());
  list_chains_and_histories();
}

std::size_t Log::memory_bytes() const {
  auto bytes = [](const auto& v) { return v.capacity() * sizeof(v[0]); };
  return bytes(events_) + bytes(predecessors_) + bytes(writes_) + bytes(barriers_) + bytes(locations_) +
         bytes(histories_) + bytes(lower_) + bytes(chains_) + bytes(covered_count_) + bytes(sides_) +
         fences_.memory_bytes() + bytes(fence_links_) + bytes(side_edges_) + bytes(first_side_successor_) +
         bytes(side_successors_) + bytes(first_of_chain_) + bytes(chain_events_) + bytes(history_);
}

}  // namespace crashcut::persist
