#include "tests/persist_oracle.h"

#include <algorithm>

namespace crashcut::persist::oracle {

void Spec::record_in(Log& log) const {
  for (LocationId l = 0; l < initial.size(); ++l) {
    if (l < lower.size() && lower[l].layer != kNoLayer) {
      log.add_location_over(lower[l]);
    } else {
      log.add_location(initial[l]);
    }
  }
  std::uint32_t op = 0;
  for (const SpecEvent& e : events) {
    std::vector<EventId> after = e.after;
    FenceSetId past = kNoFences;
    if (e.uses_past) {
      std::erase_if(after, [&](EventId p) {
        if (events[p].kind == SpecEvent::kFence) past = log.join(past, log.past(p));
        return events[p].kind == SpecEvent::kFence;
      });
    }
    switch (e.kind) {
      case SpecEvent::kPlain:
        log.add_event(op++, e.writes, after, past);
        break;
      case SpecEvent::kBarrier:
        log.add_barrier(op++, e.writes, e.after);
        break;
      case SpecEvent::kFence: {
        const EventId fence = log.add_fence(op++, e.writes, after, e.scope, past);
        if (e.is_durable) log.make_durable(fence);
        break;
      }
      case SpecEvent::kDurable:
        log.make_durable();
        break;
    }
  }
}

std::string Spec::to_text() const {
  std::string text = "initial:";
  for (Value v : initial) text += ' ' + std::to_string(v);
  for (LocationId l = 0; l < lower.size(); ++l) {
    if (lower[l].layer == kNoLayer) continue;
    text += " l" + std::to_string(l) + " over layer " + std::to_string(lower[l].layer) + " l" +
            std::to_string(lower[l].location);
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    static constexpr const char* kNames[] = {"event", "barrier", "durable", "fence of "};
    text += "\n  " + std::to_string(i) + ' ' + kNames[events[i].kind];
    if (events[i].kind == SpecEvent::kFence) text += std::to_string(events[i].scope);
    if (events[i].is_durable) text += " durable";
    if (events[i].uses_past) text += " by past";
    for (const Write& w : events[i].writes) {
      text += " l" + std::to_string(w.location) + '=' + std::to_string(w.value);
      if (w.hidden_by != kNoEvent) text += "(hidden by " + std::to_string(w.hidden_by) + ')';
    }
    if (!events[i].after.empty()) text += " after";
    for (EventId e : events[i].after) text += ' ' + std::to_string(e);
  }
  return text + '\n';
}

namespace {

// How one random log is made; drawn once a log, so that dense and sparse orders both come up.
struct Shape {
  std::uint32_t locations;
  std::uint32_t values;
  std::uint32_t edge_percent;
  std::uint32_t chain_percent;  // of the writes: the edge from the location's previous write
  std::uint32_t barrier_percent;
  std::uint32_t durable_percent;
  std::uint32_t hidden_percent;  // of the writes: those that stand before an earlier one
  std::uint32_t scopes;          // with fences; 0: none
  std::uint32_t fence_percent;
};

// What persists directly before the event number `i` of `spec`: its edges, earlier barriers, and the fences of its
// scope.
Mask mask_directly_below(const Spec& spec, std::size_t i, const SpecEvent& event) {
  Mask below = 0;
  for (EventId e : event.after) below |= Mask{1} << e;
  for (std::size_t j = 0; j < i; ++j) {
    const SpecEvent& earlier = spec.events[j];
    const bool is_barrier = earlier.kind == SpecEvent::kBarrier || earlier.kind == SpecEvent::kDurable;
    const bool is_same_scope =
        earlier.kind == SpecEvent::kFence && event.kind == SpecEvent::kFence && earlier.scope == event.scope;
    if (is_barrier || is_same_scope) below |= Mask{1} << j;
  }
  return below;
}

// All that persists before `event`, which would be the next of `spec`.
Mask mask_below(const Spec& spec, const SpecEvent& event) {
  Mask below = mask_directly_below(spec, spec.events.size(), event);
  for (std::size_t i = spec.events.size(); i-- > 0;) {
    if (below >> i & 1) below |= mask_directly_below(spec, i, spec.events[i]);
  }
  return below;
}

// The writers of a location, in the order in which they hide one another.
std::vector<EventId> writers_in_order(const Spec& spec, LocationId location) {
  std::vector<EventId> order;
  for (EventId e = 0; e < spec.events.size(); ++e) {
    for (const Write& w : spec.events[e].writes) {
      if (w.location == location) order.insert(std::find(order.begin(), order.end(), w.hidden_by), e);
    }
  }
  return order;
}

// What hides a write must not persist before it, or the hidden one could never be seen.
void hide_writes(std::mt19937_64& random, const Shape& shape, const Spec& spec, SpecEvent& event) {
  const Mask below = mask_below(spec, event);
  for (Write& w : event.writes) {
    const std::vector<EventId> order = writers_in_order(spec, w.location);
    std::size_t first = order.size();
    while (first > 0 && !(below >> order[first - 1] & 1)) --first;
    if (first == order.size() || random() % 100 >= shape.hidden_percent) continue;
    w.hidden_by = order[first + random() % (order.size() - first)];
  }
}

SpecEvent random_event(std::mt19937_64& random, const Shape& shape, const Spec& spec) {
  auto percent = [&](std::uint32_t p) { return random() % 100 < p; };
  const auto id = static_cast<EventId>(spec.events.size());
  SpecEvent event;
  if (percent(shape.durable_percent)) {
    event.kind = SpecEvent::kDurable;
    for (EventId e = 0; e < id; ++e) event.after.push_back(e);
    return event;
  }
  if (percent(shape.barrier_percent)) event.kind = SpecEvent::kBarrier;
  if (shape.scopes > 0 && percent(shape.fence_percent)) {
    event.kind = SpecEvent::kFence;
    event.scope = static_cast<ScopeId>(random() % shape.scopes);
    event.is_durable = percent(3);
  }
  event.uses_past = percent(50);
  const bool is_plain = event.kind == SpecEvent::kPlain;
  const bool is_mark = !is_plain && percent(event.kind == SpecEvent::kFence ? 10 : 30);
  for (LocationId l = 0; l < shape.locations; ++l) {
    if (percent(is_plain ? 120 / shape.locations : 25)) {
      event.writes.push_back(Write{l, random() % shape.values});
    }
  }
  auto shares_location = [&](const SpecEvent& earlier) {
    for (const Write& a : earlier.writes) {
      for (const Write& b : event.writes) {
        if (a.location == b.location) return true;
      }
    }
    return false;
  };
  const std::uint32_t coverage = is_plain ? shape.edge_percent : static_cast<std::uint32_t>(10 + random() % 90);
  for (EventId e = 0; e < id; ++e) {
    if (is_mark) break;
    // Fences bind much of what is later, and seldom one another.
    const bool is_after_fence = spec.events[e].kind == SpecEvent::kFence;
    const std::uint32_t chance = !is_after_fence                   ? coverage
                                 : event.kind == SpecEvent::kFence ? 10
                                 : event.kind == SpecEvent::kPlain ? 40
                                                                   : coverage;
    if (percent(chance) || (shares_location(spec.events[e]) && percent(shape.chain_percent))) event.after.push_back(e);
  }
  hide_writes(random, shape, spec, event);
  std::shuffle(event.writes.begin(), event.writes.end(), random);
  return event;
}

}  // namespace

Spec random_spec(std::mt19937_64& random, std::size_t events_max) {
  const Shape shape{.locations = static_cast<std::uint32_t>(1 + std::max(random() % 5, random() % 5)),
                    .values = static_cast<std::uint32_t>(1 + random() % 5),
                    .edge_percent = static_cast<std::uint32_t>(random() % 4 * 6),
                    .chain_percent = static_cast<std::uint32_t>(random() % 3 * 50),
                    .barrier_percent = static_cast<std::uint32_t>(random() % 4 * 8),
                    .durable_percent = static_cast<std::uint32_t>(random() % 4 == 0 ? 8 : 0),
                    .hidden_percent = static_cast<std::uint32_t>(random() % 4 * 30),
                    .scopes = static_cast<std::uint32_t>(random() % 2 * (1 + random() % 4)),
                    .fence_percent = static_cast<std::uint32_t>(10 + random() % 4 * 10)};
  Spec spec;
  for (std::uint32_t i = 0; i < shape.locations; ++i) spec.initial.push_back(random() % shape.values);
  const std::size_t events = 1 + std::max({random() % events_max, random() % events_max, random() % events_max});
  while (spec.events.size() < events) spec.events.push_back(random_event(random, shape, spec));
  return spec;
}

Oracle::Oracle(const Spec& spec) : spec_(spec) {
  close_order();
  order_writes();
  find_runs();
  for (Mask m = 0; m < Mask{1} << spec_.events.size(); ++m) {
    if (is_cut(m)) cuts_.push_back(m);
  }
}

void Oracle::close_order() {
  const std::size_t count = spec_.events.size();
  below_.resize(count);
  for (std::size_t i = 0; i < count; ++i) below_[i] = Mask{1} << i | mask_directly_below(spec_, i, spec_.events[i]);
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t i = 0; i < count; ++i) {
      if (below_[i] >> k & 1) below_[i] |= below_[k];
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (spec_.events[i].kind == SpecEvent::kDurable) durable_ |= (Mask{2} << i) - 1;
    if (spec_.events[i].is_durable) durable_ |= below_[i];
  }
}

// A write stands behind all earlier ones of its location, or halfway between the one that hides it and the one
// before that.
void Oracle::order_writes() {
  histories_.resize(spec_.initial.size());
  for (EventId e = 0; e < spec_.events.size(); ++e) {
    for (const Write& w : spec_.events[e].writes) {
      double limit = 1;
      double before = 0;
      for (const Entry& other : histories_[w.location]) {
        if (other.event == w.hidden_by) limit = other.rank;
      }
      for (const Entry& other : histories_[w.location]) {
        if (other.rank < limit) before = std::max(before, other.rank);
      }
      histories_[w.location].push_back(Entry{e, w.value, (before + limit) / 2, true, 0});
    }
  }
  for (auto& history : histories_) {
    std::sort(history.begin(), history.end(), [](const Entry& a, const Entry& b) { return a.rank < b.rank; });
  }
}

void Oracle::find_runs() {
  for (LocationId l = 0; l < histories_.size(); ++l) {
    Value previous = spec_.initial[l];
    int run = -1;
    for (std::size_t i = 0; i < histories_[l].size(); ++i) {
      Entry& entry = histories_[l][i];
      entry.chained = i == 0 || persists_before(histories_[l][i - 1].event, entry.event);
      entry.run = run = entry.chained && previous == entry.value ? run : static_cast<int>(i);
      previous = entry.value;
    }
  }
}

bool Oracle::is_cut(Mask events) const {
  if ((events & durable_) != durable_) return false;
  for (std::size_t i = 0; i < below_.size(); ++i) {
    if ((events >> i & 1) && (events & below_[i]) != below_[i]) return false;
  }
  return true;
}

const Oracle::Entry* Oracle::latest(LocationId location, Mask cut) const {
  const Entry* latest = nullptr;
  for (const Entry& entry : histories_[location]) {
    if (cut >> entry.event & 1) latest = &entry;
  }
  return latest;
}

Value Oracle::value(LocationId location, Mask cut) const {
  const Entry* entry = latest(location, cut);
  return entry ? entry->value : spec_.initial[location];
}

int Oracle::index_of(LocationId location, Mask cut) const {
  const Entry* entry = latest(location, cut);
  return entry ? static_cast<int>(entry - histories_[location].data()) : -1;
}

int Oracle::run_of(LocationId location, Mask cut) const {
  const Entry* entry = latest(location, cut);
  return entry ? entry->run : -1;
}

// ---- stacks --------------------------------------------------------------------------------------------------------

std::vector<LowerLocation> StackSpec::places() const {
  std::vector<LowerLocation> places;
  for (LayerId layer = 0; layer < layers.size(); ++layer) {
    for (LocationId l = 0; l < layers[layer].initial.size(); ++l) places.push_back({layer, l});
  }
  return places;
}

std::string StackSpec::to_text() const {
  std::string text;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    text += "layer " + std::to_string(i) + (is_live[i] ? ", live, " : ", ") + layers[i].to_text();
  }
  return text;
}

namespace {

bool all_writes_precede(const Spec& spec, LocationId lower, LocationId upper) {
  EventId last_lower = 0, first_upper = kNoEvent;
  for (EventId e = 0; e < spec.events.size(); ++e) {
    for (const Write& w : spec.events[e].writes) {
      if (w.location == lower) last_lower = e + 1;
      if (w.location == upper) first_upper = std::min(first_upper, e);
    }
  }
  return last_lower <= first_upper;
}

// Whether the links from each location end, and meet the locations of one log in the order in which they were written.
bool are_links_good(const StackSpec& stack) {
  for (const LowerLocation& top : stack.places()) {
    std::vector<LowerLocation> path;
    for (LowerLocation at = top; at.layer != kNoLayer; at = stack.layers[at.layer].lower[at.location]) {
      for (const LowerLocation& upper : path) {
        if (upper.layer != at.layer) continue;
        if (upper.location == at.location) return false;
        if (!all_writes_precede(stack.layers[at.layer], at.location, upper.location)) return false;
      }
      path.push_back(at);
    }
  }
  return true;
}

}  // namespace

StackSpec random_stack(std::mt19937_64& random) {
  StackSpec stack;
  const std::size_t count = 2 + random() % 2;
  for (std::size_t i = 0; i < count; ++i) {
    stack.layers.push_back(random_spec(random, count == 2 ? 6 : 4));
    stack.is_live.push_back(random() % 6 == 0);
    stack.layers.back().lower.resize(stack.layers.back().initial.size());
  }
  // Most locations lie over one of an earlier layer; a few over one of a later layer.
  for (std::size_t layer = 0; layer < count; ++layer) {
    for (LowerLocation& lower : stack.layers[layer].lower) {
      const std::size_t below = random() % count;
      if (below == layer || (below > layer ? random() % 3 != 0 : random() % 5 == 0)) continue;
      lower = LowerLocation{static_cast<LayerId>(below),
                            static_cast<LocationId>(random() % stack.layers[below].initial.size())};
      if (!are_links_good(stack)) lower = LowerLocation{};
    }
  }
  return stack;
}

StackOracle::StackOracle(const StackSpec& spec, const Observer& observer)
    : spec_(spec), observer_(observer), places_(spec.places()) {
  combinations_.emplace_back();
  for (std::size_t i = 0; i < spec.layers.size(); ++i) {
    const Oracle& layer = layers_.emplace_back(spec.layers[i]);
    const Mask all = (Mask{1} << spec.layers[i].events.size()) - 1;
    std::vector<Combination> extended;
    for (const Combination& lower : combinations_) {
      for (const Mask cut : spec.is_live[i] ? std::vector{all} : layer.cuts()) {
        extended.push_back(lower);
        extended.back().push_back(cut);
      }
    }
    combinations_ = std::move(extended);
  }
  recovery_of_.resize(combinations_.size(), -1);
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < combinations_.size(); ++i) {
    number_of_[combinations_[i]] = i;
    all.push_back(i);
  }
  split(observer.begin(), all, {});
}

int StackOracle::recovery_of(const Combination& combination) const {
  const auto found = number_of_.find(combination);
  return found == number_of_.end() ? -1 : recovery_of_[found->second];
}

int StackOracle::index_at(LowerLocation at, const Combination& combination) const {
  return layers_[at.layer].index_of(at.location, combination[at.layer]);
}

Value StackOracle::value(LowerLocation at, const Combination& combination) const {
  const Spec& layer = spec_.layers[at.layer];
  if (const int index = index_at(at, combination); index >= 0) {
    return layers_[at.layer].value_of(at.location, static_cast<std::size_t>(index));
  }
  const LowerLocation lower = layer.lower[at.location];
  return lower.layer == kNoLayer ? layer.initial[at.location] : value(lower, combination);
}

// The first write of the run of equal, chained writes that this one is in.
int StackOracle::start_of_run(LowerLocation at, int index) const {
  const Oracle& layer = layers_[at.layer];
  auto value_of = [&](int i) { return layer.value_of(at.location, static_cast<std::size_t>(i)); };
  while (index > 0 && layer.chained(at.location, static_cast<std::size_t>(index)) &&
         value_of(index - 1) == value_of(index)) {
    --index;
  }
  return index;
}

// Where each of the combinations that are left reads the location from.
std::vector<StackOracle::Source> StackOracle::find_sources(LowerLocation at, const std::vector<std::size_t>& left) {
  std::vector<std::size_t> without;  // the combinations that have no write of this location
  for (const std::size_t i : left) {
    if (index_at(at, combinations_[i]) < 0) without.push_back(i);
  }
  const LowerLocation lower = spec_.layers[at.layer].lower[at.location];
  std::vector<Source> below;  // of `without`
  if (lower.layer == kNoLayer) {
    below.assign(without.size(), Source{at, -1});
  } else {
    below = find_sources(lower, without);
  }
  const bool is_one = !below.empty() && std::all_of(below.begin(), below.end(), [&](auto& s) { return s == below[0]; });
  std::vector<Source> sources;
  std::size_t next = 0;
  for (const std::size_t i : left) {
    const int index = index_at(at, combinations_[i]);
    if (index < 0) {
      sources.push_back(below[next++]);
      continue;
    }
    const int start = start_of_run(at, index);
    const bool is_merged = start == 0 && is_one && value(at, combinations_[i]) == value(at, combinations_[without[0]]);
    has_merged_layers_ |= is_merged && lower.layer != kNoLayer;
    sources.push_back(is_merged ? below[0] : Source{at, start});
  }
  return sources;
}

void StackOracle::split(const Observer::Step& step, const std::vector<std::size_t>& left, const Observation& seen) {
  if (observer_.is_done(step)) {
    for (const std::size_t i : left) recovery_of_[i] = static_cast<int>(observations_.size());
    observations_.push_back(seen);
    return;
  }
  const LowerLocation at = places_[observer_.location(step)];
  const std::vector<Source> sources = find_sources(at, left);
  std::map<Source, std::vector<std::size_t>> parts;
  for (std::size_t i = 0; i < left.size(); ++i) parts[sources[i]].push_back(left[i]);
  for (const auto& [source, part] : parts) {
    has_fallen_through_ |= source.at.layer != at.layer && parts.size() > 1;
    const Value read = value(at, combinations_[part[0]]);
    Observation now = seen;
    now.emplace_back(observer_.location(step), read);
    split(observer_.next(step, read), part, now);
  }
}

}  // namespace crashcut::persist::oracle
