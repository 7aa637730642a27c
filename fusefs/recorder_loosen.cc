// Why a loosened recording has exactly the crashes of all executions of its class:
//   Each execution of the class has the loosened order and more, so it leaves nothing else. The other way round, let S
//   be a set of events that is down-closed in the loosened order. It is down-closed in this execution of the class:
//   first what must come before the syncs in S (all of it is in S, or not of the kinds that the sync waits for); then
//   what need not come after any event of the rules' `before` kinds that S lacks; then the rest. A rule b before a,
//   with a in S and b not, would need b to come before a; b is in the rest, and a is not, or the loosened order would
//   have b before a too. Rules about one file hold between calls that keep their order in the whole class, so they are
//   the same in all of it.
// tests/thread_files_test.cc compares with all executions, none loosened.
#include <algorithm>
#include <map>

#include "fusefs/recorder_impl.h"
#include "persist/check.h"

namespace crashcut::fusefs {

using persist::EventId;

namespace {

// The events of the `before` kinds of one rule about the whole disk, by who made them.
class WholeDiskRule {
 public:
  WholeDiskRule(Kinds before, Kinds after) : before_(before), after_(after) {}

  template <class IsBefore>
  void find_predecessors(Kinds kind, const std::vector<Kind>& kinds, IsBefore&& is_before,
                         std::vector<EventId>& after) const {
    if ((kind & after_) == 0) return;
    for (const auto& [actor, events] : events_) {
      for (auto it = events.rbegin(); it != events.rend(); ++it) {
        if (!is_before(*it)) continue;
        after.push_back(*it);
        if ((kinds[*it] & after_) != 0) break;  // it follows those before it, by this rule
      }
    }
  }
  void add(EventId event, Kinds kind, std::uint32_t actor) {
    if ((kind & before_) != 0) events_[actor].push_back(event);
  }

 private:
  Kinds before_, after_;
  std::map<std::uint32_t, std::vector<EventId>> events_;
};

}  // namespace

void Recorder::Impl::stamp(const Touch& touch) {
  stamps.push_back({effects->now(), after, {touch.inos.begin(), touch.inos.end()}, touch.block, touch.sector});
}

bool Recorder::is_concurrent() const {
  const std::vector<Stamp>& stamps = impl_->stamps;
  return std::any_of(stamps.begin(), stamps.end(),
                     [&](const Stamp& s) { return s.moment.actor != stamps.front().moment.actor; });
}

void Recorder::loosen(const std::function<bool(std::uint32_t, std::uint32_t)>& is_before) {
  const Recording& recording = impl_->recording;
  const persist::Log& tight = recording.log;
  const std::vector<Stamp>& stamps = impl_->stamps;
  CHECK(stamps.size() == tight.event_count());
  persist::Log loose;
  std::vector<Rule> about_files;
  std::vector<WholeDiskRule> about_the_disk = {{kBarriers, kEverything}};
  for (const Rule& rule : rules(recording.options)) {
    if (rule.scope != Scope::kAnywhere) {
      about_files.push_back(rule);
    } else {
      about_the_disk.emplace_back(rule.before, rule.after);
    }
  }
  Order order(about_files, loose);
  for (persist::LocationId l = 0; l < tight.location_count(); ++l) loose.add_location(tight.initial(l));
  const EventId durable =
      tight.durable_barrier() == 0 ? persist::kNoEvent : tight.barrier_event(tight.durable_barrier());
  std::map<std::uint32_t, persist::ScopeId> scopes;  // of each thread
  std::vector<EventId> after;
  for (EventId e = 0; e < tight.event_count(); ++e) {
    if (e == durable) {
      loose.make_durable();
      continue;
    }
    const Kind kind = recording.event_kinds[e];
    const Stamp& stamp = stamps[e];
    const Touch touch{stamp.inos, stamp.block, stamp.sector};
    after = stamp.after;
    for (const WholeDiskRule& rule : about_the_disk) {
      rule.find_predecessors(
          kind, recording.event_kinds,
          [&](EventId i) {
            const Effects::Moment &first = stamps[i].moment, &second = stamp.moment;
            return first.actor == second.actor || is_before(first.step, second.step);
          },
          after);
    }
    order.find_predecessors(kind, touch, after);
    if ((kind & kBarriers) != 0) {
      // The rule about barriers orders those of one thread, so they are fences of one scope.
      const auto scope = scopes.try_emplace(stamp.moment.actor, static_cast<persist::ScopeId>(scopes.size())).first;
      loose.add_fence(tight.op(e), tight.writes(e), after, scope->second);
    } else {
      loose.add_event(tight.op(e), tight.writes(e), after);
    }
    order.add(e, kind, touch);
    for (WholeDiskRule& rule : about_the_disk) rule.add(e, kind, stamp.moment.actor);
  }
  impl_->recording.log = std::move(loose);
  impl_->is_loosened = true;
}

}  // namespace crashcut::fusefs
