#include "scheduler/dependence.h"

#include <algorithm>

namespace crashcut::scheduler {

namespace {

// Whether `relation` holds of accesses to a common object. Without one, the steps read and write different things.
template <class Relation>
bool any_common(const Operation& x, const Operation& y, Relation relation) {
  // What was not done, since a signal came, is but that.
  const auto is_done = [](const Operation& o, const Access& access) {
    return !o.is_interrupted() || access.is_interruption;
  };
  for (const Access& a : x) {
    if (!is_done(x, a)) continue;
    for (const Access& b : y) {
      if (!is_done(y, b)) continue;
      if (a.object == b.object && relation(primitive_of(a), a, b)) return true;
    }
  }
  return false;
}

// Of two accesses to one object.
bool is_destruction(const Primitive& p, const Access& a, const Access& b) {
  return p.destroys.verb != Primitive::kNoVerb && (a.verb == p.destroys.verb || b.verb == p.destroys.verb);
}

// Calls on files: what one did is what the other sees.
bool files_meet(const Operation& x, const Operation& y) {
  if (!is_file_call(x) || !is_file_call(y)) return false;
  return is_unknown(x) || is_unknown(y) || do_meet(*x.footprint(), *y.footprint());
}

// A host takes its actors along. All other steps commute with its end, unless they saw whether it was up.
bool hosts_meet(const Operation& x, const Operation& y) {
  const ObjectId of_x = host_ended_by(x), of_y = host_ended_by(y);
  return (of_x != kNoHost && depends_on_host(y, of_x)) || (of_y != kNoHost && depends_on_host(x, of_y));
}

}  // namespace

ObjectId host_ended_by(const Operation& x) {
  return (primitive_of(x[0]).traits.ends_host & bit_of_verb(x[0].verb)) != 0 ? x[0].object : kNoHost;
}

bool depends_on_host(const Operation& x, ObjectId host) {
  return x.host() == host || std::any_of(x.begin(), x.end(), [&](const Access& a) {
           return a.seen_host == index(host) || a.seen_host == Access::kAnyHost;
         });
}

bool is_failure(const Operation& x) { return (primitive_of(x[0]).traits.is_failure & bit_of_verb(x[0].verb)) != 0; }

bool need_not_happen(const Operation& x) {
  const Primitive::Traits& traits = primitive_of(x[0]).traits;
  return ((traits.is_failure | traits.happens_by_itself) & bit_of_verb(x[0].verb)) != 0;
}

bool waits_for_time(const Operation& x) {
  return (primitive_of(x[0]).traits.waits_for_time & bit_of_verb(x[0].verb)) != 0;
}

// The end of the process disables every step. A loop looks at memory that we do not see being written, so any step may
// matter to it; and so does what lives on a futex, unless its memory is seen (then it is not opaque).
bool depends_on_all(const Operation& x) {
  const Primitive::Traits& traits = primitive_of(x[0]).traits;
  return x.is_opaque() || ((traits.waits_for_time | traits.meets_all) & bit_of_verb(x[0].verb)) != 0;
}

bool is_unknown(const Operation& x) { return is_file_call(x) && x.footprint() == nullptr; }

bool is_file_call(const Operation& x) { return x.size() > 0 && primitive_of(x[0]).traits.has_footprint; }

bool are_dependent(const Operation& x, const Operation& y) {
  if (depends_on_all(x) || depends_on_all(y)) return true;
  return files_meet(x, y) || hosts_meet(x, y) ||
         any_common(x, y, [](const Primitive& p, const Access& a, const Access& b) {
           return is_destruction(p, a, b) || p.dependent(a, b);
         });
}

// In another state no signal comes instead.
static Operation as_if_done(Operation x) {
  for (Access& access : x) {
    access.result = kNoResult;
    access.is_interruption = false;
    if (x.host() != kNoHost) access.seen_host = Access::kAnyHost;
  }
  return x;
}

bool may_conflict(const Operation& x, const Operation& y) {
  if (x.is_interrupted()) return may_conflict(as_if_done(x), y);
  if (y.is_interrupted()) return may_conflict(x, as_if_done(y));
  if (depends_on_all(x) || depends_on_all(y)) return true;
  return files_meet(x, y) || hosts_meet(x, y) ||
         any_common(x, y, [](const Primitive& p, const Access& a, const Access& b) {
           return is_destruction(p, a, b) || p.conflicting(a, b);
         });
}

bool holds(const State& state, ActorId actor, const Operation& x) {
  return std::any_of(x.begin(), x.end(), [&](const Access& a) {
    return primitive_of(a).holds != nullptr && primitive_of(a).holds(state, actor, a);
  });
}

bool still_commutes(const Step& step, const Step& done, const State& now) {
  if (are_dependent(step.operation, done.operation) || !now.is_enabled(step.actor, step.operation)) return false;
  const bool share =
      any_common(step.operation, done.operation, [](const Primitive&, const Access&, const Access&) { return true; });
  if (!share) return true;
  State after = now;
  Operation again = step.operation;
  after.apply(step.actor, again);
  for (std::size_t i = 0; i < again.size(); ++i) {
    if (again[i].result != step.operation[i].result) return false;
  }
  return true;
}

bool may_be_co_enabled(const Operation& x, const Operation& y) {
  if (waits_for_time(x) || waits_for_time(y)) return false;
  return !any_common(x, y, [](const Primitive& p, const Access& a, const Access& b) {
    return !is_destruction(p, a, b) && !p.co_enabled(a, b);
  });
}

}  // namespace crashcut::scheduler
