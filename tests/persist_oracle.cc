#include "tests/persist_oracle.h"

#include <algorithm>

namespace crashcut::persist::oracle {

void Spec::record_in(Log& log) const {
  for (Value v : initial) log.add_location(v);
  std::uint32_t op = 0;
  for (const SpecEvent& e : events) {
    switch (e.kind) {
      case SpecEvent::kPlain:
        log.add_event(op++, e.writes, e.after);
        break;
      case SpecEvent::kBarrier:
        log.add_barrier(op++, e.writes, e.after);
        break;
      case SpecEvent::kDurable:
        log.make_durable();
        break;
    }
  }
  log.seal();
}

std::string Spec::to_text() const {
  std::string text = "initial:";
  for (Value v : initial) text += ' ' + std::to_string(v);
  for (std::size_t i = 0; i < events.size(); ++i) {
    static constexpr const char* kNames[] = {"event", "barrier", "durable"};
    text += "\n  " + std::to_string(i) + ' ' + kNames[events[i].kind];
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
};

// All that persists before `event`, which would be the next of `spec`.
Mask mask_below(const Spec& spec, const SpecEvent& event) {
  Mask below = 0;
  for (EventId e : event.after) below |= Mask{1} << e;
  for (std::size_t i = spec.events.size(); i-- > 0;) {
    if (spec.events[i].kind != SpecEvent::kPlain) below |= Mask{1} << i;
    if (!(below >> i & 1)) continue;
    for (EventId e : spec.events[i].after) below |= Mask{1} << e;
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
  const bool is_mark = event.kind == SpecEvent::kBarrier && percent(30);
  for (LocationId l = 0; l < shape.locations; ++l) {
    if (percent(event.kind == SpecEvent::kBarrier ? 25 : 120 / shape.locations)) {
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
  const std::uint32_t coverage = event.kind == SpecEvent::kBarrier ? 10 + random() % 90 : shape.edge_percent;
  for (EventId e = 0; e < id; ++e) {
    if (is_mark) break;
    if (percent(coverage) || (shares_location(spec.events[e]) && percent(shape.chain_percent)))
      event.after.push_back(e);
  }
  hide_writes(random, shape, spec, event);
  std::shuffle(event.writes.begin(), event.writes.end(), random);
  return event;
}

}  // namespace

Spec random_spec(std::mt19937_64& random) {
  const Shape shape{.locations = static_cast<std::uint32_t>(1 + std::max(random() % 5, random() % 5)),
                    .values = static_cast<std::uint32_t>(1 + random() % 5),
                    .edge_percent = static_cast<std::uint32_t>(random() % 4 * 6),
                    .chain_percent = static_cast<std::uint32_t>(random() % 3 * 50),
                    .barrier_percent = static_cast<std::uint32_t>(random() % 4 * 8),
                    .durable_percent = static_cast<std::uint32_t>(random() % 4 == 0 ? 8 : 0),
                    .hidden_percent = static_cast<std::uint32_t>(random() % 3 * 30)};
  Spec spec;
  for (std::uint32_t i = 0; i < shape.locations; ++i) spec.initial.push_back(random() % shape.values);
  const std::size_t events = 1 + std::max(random() % kEventsMax, random() % kEventsMax);
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
  for (std::size_t i = 0; i < count; ++i) {
    below_[i] = Mask{1} << i;
    for (EventId e : spec_.events[i].after) below_[i] |= Mask{1} << e;
    for (std::size_t j = 0; j < i; ++j) {
      if (spec_.events[j].kind != SpecEvent::kPlain) below_[i] |= Mask{1} << j;
    }
    if (spec_.events[i].kind == SpecEvent::kDurable) durable_ = (Mask{2} << i) - 1;
  }
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t i = 0; i < count; ++i) {
      if (below_[i] >> k & 1) below_[i] |= below_[k];
    }
  }
}

bool Oracle::persists_before_plainly(EventId earlier, EventId later) const {
  if (earlier > later) return false;
  const auto& after = spec_.events[later].after;
  if (std::find(after.begin(), after.end(), earlier) != after.end()) return true;
  for (EventId b = earlier; b <= later; ++b) {
    const bool is_between = (below_[b] >> earlier & 1) && (below_[later] >> b & 1);
    if (spec_.events[b].kind != SpecEvent::kPlain && is_between) return true;
  }
  return false;
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
      entry.chained = i == 0 || persists_before_plainly(histories_[l][i - 1].event, entry.event);
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

int Oracle::run_of(LocationId location, Mask cut) const {
  const Entry* entry = latest(location, cut);
  return entry ? entry->run : -1;
}

}  // namespace crashcut::persist::oracle
