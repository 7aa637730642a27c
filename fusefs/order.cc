#include "fusefs/order.h"

#include <algorithm>

namespace crashcut::fusefs {

using persist::EventId;
using persist::kNoEvent;

template <class Visit>
void Order::visit_keys(const Rule& rule, const Touch& touch, Visit&& visit) const {
  switch (rule.scope) {
    case Scope::kAnywhere:
      visit(0);
      return;
    case Scope::kSameFile:
      for (Ino ino : touch.inos) visit(static_cast<std::uint64_t>(ino));
      return;
    case Scope::kSameBlock:
      if (touch.block != kNoBlock) visit(touch.block);
      return;
    case Scope::kSameSector:
      if (touch.block != kNoBlock) visit(std::uint64_t{touch.block} << 32 | touch.sector);
      return;
    case Scope::kRisingInBlock:
      return;  // find_rising
  }
}

// Blocks by their place in the file: the ids depend on the order of the calls. All writes to one block keep their
// order, also where the offset falls: the rule orders them the other way round.
void Order::report(Kinds kind, const Touch& touch, std::uint64_t block_name, Effects& effects) const {
  for (std::size_t r = 0; r < rules_.size(); ++r) {
    const Rule& rule = rules_[r];
    const int part =
        ((kind & rule.before) != 0 ? Effects::kSource : 0) | ((kind & rule.after) != 0 ? Effects::kTarget : 0);
    if (part == 0) continue;
    const auto say = [&](std::uint64_t about, std::uint64_t sector) {
      effects.touch(Effects::Thing::kRule, static_cast<Effects::Part>(part), r, about, sector);
    };
    switch (rule.scope) {
      case Scope::kAnywhere:
        if (!effects.loosens()) say(0, 0);
        break;
      case Scope::kSameFile:
        for (Ino ino : touch.inos) say(static_cast<std::uint64_t>(ino), 0);
        break;
      case Scope::kSameSector:
        if (touch.block != kNoBlock) say(block_name, touch.sector + 1);
        break;
      case Scope::kSameBlock:
      case Scope::kRisingInBlock:
        if (touch.block != kNoBlock) say(block_name, 0);
        break;
    }
  }
}

bool Order::precedes_all(Kinds kinds, Scope scope, Kinds later) const {
  if ((kinds & ~kBarriers) == 0) return true;
  return std::any_of(rules_.begin(), rules_.end(), [&](const Rule& r) {
    return r.scope != Scope::kRisingInBlock && implies(r.scope, scope) && (kinds & ~r.before) == 0 &&
           (later & ~r.after) == 0;
  });
}

bool Order::is_ordered(Kinds earlier, Kinds later) const { return precedes_all(earlier, Scope::kSameFile, later); }

bool Order::is_ordered_in_block(Kinds earlier, Kinds later) const {
  return precedes_all(earlier, Scope::kSameBlock, later);
}

// Lower sectors of the block, and this one: the newest write of each, unless a newer one between it and us
// already follows it.
void Order::find_rising(const Touch& touch, std::vector<EventId>& after) const {
  const auto found = last_in_sector_.find(touch.block);
  if (found == last_in_sector_.end()) return;
  EventId newest = kNoEvent;
  for (std::size_t i = std::min<std::size_t>(touch.sector + 1, found->second.size()); i-- > 0;) {
    const EventId e = found->second[i];
    if (e == kNoEvent || (newest != kNoEvent && e < newest)) continue;
    after.push_back(e);
    newest = e;
  }
}

void Order::find_predecessors(Kinds kind, const Touch& touch, std::vector<EventId>& after) {
  for (std::size_t r = 0; r < rules_.size(); ++r) {
    const Rule& rule = rules_[r];
    if ((rule.after & kind) == 0) continue;
    if (rule.scope == Scope::kRisingInBlock) {
      find_rising(touch, after);
      continue;
    }
    visit_keys(rule, touch, [&](std::uint64_t key) {
      const auto found = frontiers_[r].find(key);
      if (found == frontiers_[r].end()) return;
      const auto& events = found->second.events;
      after.insert(after.end(), events.begin(), events.end());
      // Whoever comes next follows this event, and so what this one followed.
      if (precedes_all(kind, rule.scope, rule.after)) found->second.events.clear();
    });
  }
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
}

void Order::push(Frontier& frontier, EventId event) {
  frontier.events.push_back(event);
  if (frontier.events.size() < frontier.prune_at) return;
  // What a barrier covers needs no edge any more; looking each time the list has doubled keeps this cheap.
  std::erase_if(frontier.events, [&](EventId e) { return log_.cover(e) != persist::kNoBarrier; });
  frontier.prune_at = std::max<std::size_t>(64, 2 * frontier.events.size());
}

void Order::add(EventId event, Kinds kind, const Touch& touch) {
  for (std::size_t r = 0; r < rules_.size(); ++r) {
    const Rule& rule = rules_[r];
    if ((rule.before & kind) == 0 || log_.cover(event) != persist::kNoBarrier) continue;
    if (rule.scope == Scope::kRisingInBlock) {
      auto& last = last_in_sector_[touch.block];
      if (last.size() <= touch.sector) last.resize(touch.sector + 1, kNoEvent);
      last[touch.sector] = event;
      continue;
    }
    visit_keys(rule, touch, [&](std::uint64_t key) {
      Frontier& frontier = frontiers_[r][key];
      // Where all that the frontier can hold precedes this event, it stands for them.
      if (precedes_all(rule.before & ~kBarriers, rule.scope, kind)) frontier.events.clear();
      push(frontier, event);
    });
  }
}

}  // namespace crashcut::fusefs
