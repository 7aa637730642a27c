#include "scheduler/rounds.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "persist/hash.h"
#include "scheduler/primitive.h"

namespace crashcut::scheduler {

namespace {

using persist::mix;
std::uint64_t mix(std::uint64_t hash, std::int64_t value) { return mix(hash, static_cast<std::uint64_t>(value)); }

std::uint64_t mix(std::uint64_t hash, const Object& o) {
  for (const std::int64_t number : o.numbers) hash = mix(hash, number);
  for (const std::int64_t value : o.lists[0]) hash = mix(hash, value);
  hash = mix(hash, std::uint64_t{o.lists[0].size()});
  for (const std::int64_t value : o.lists[1]) hash = mix(hash, value);
  return hash;
}

}  // namespace

Rounds::Way& Rounds::way_of(ActorId actor) {
  if (index(actor) >= ways_.size()) ways_.resize(index(actor) + 1);
  return ways_[index(actor)];
}

// What a load finds is not among its results.
void Rounds::note_before(const State& before, const Operation& operation) {
  found_ = 0;
  for (const Access& a : operation) {
    if (primitive_of(a.object) == PrimitiveId::kMemory) found_ = mix(found_, before.object(a.object));
  }
}

void Rounds::note(const Step& step) {
  Way& way = way_of(step.actor);
  std::uint64_t hash = mix(way.progress.empty() ? 0 : way.progress.back(), found_);
  for (const Access& a : step.operation) {
    hash = mix(mix(mix(hash, std::uint64_t{static_cast<std::uint32_t>(a.object)}), std::uint64_t{a.verb}), a.argument);
    hash = mix(mix(hash, a.result), a.observed);
  }
  way.progress.push_back(hash);
}

std::uint64_t Rounds::view(std::size_t last, const Order& order, std::span<const ObjectStart> objects,
                           std::span<const Step> steps) const {
  State state(objects);
  std::set<ObjectId> touched;
  std::map<ActorId, std::size_t> known;  // steps
  for (std::size_t k = 0; k <= last; ++k) {
    if (!order.is_before(k, last)) continue;
    Operation operation = steps[k].operation;
    state.apply(steps[k].actor, operation);
    for (const Access& a : operation) touched.insert(a.object);
    ++known[steps[k].actor];
  }
  // What is not in its past must not count: neither that an object is there nor that an actor is.
  std::uint64_t hash = 0;
  for (const ObjectId object : touched)
    hash = mix(mix(hash, std::uint64_t{static_cast<std::uint32_t>(object)}), state.object(object));
  for (const auto& [other, count] : known)
    hash = mix(mix(hash, std::uint64_t{index(other)}), ways_[index(other)].progress[count - 1]);
  return hash;
}

Rounds::Standing Rounds::stand(ActorId actor, std::uint64_t local, std::uint64_t written,
                               std::span<const ObjectStart> objects, std::span<const Step> steps) {
  Way& way = way_of(actor);
  if (way.progress.empty()) return Standing::kNew;
  const auto [it, is_new] = way.visits.try_emplace(local, Visit{way.progress.back(), written, way.progress.size()});
  if (is_new) return Standing::kNew;
  Visit& visit = it->second;
  ++visit.count;
  if (visit.written != written) {
    visit = {way.progress.back(), written, way.progress.size(), visit.count};
    constexpr std::uint32_t kLooksMost = 8;
    return visit.count <= kLooksMost || std::has_single_bit(visit.count) ? Standing::kSeen : Standing::kNew;
  }
  way.progress.back() = visit.progress;
  const Order order(steps);
  if (visit.views.empty())
    visit.views.push_back(view(order.step_of(actor, visit.own_steps - 1), order, objects, steps));
  const std::uint64_t now = view(order.last_of(actor), order, objects, steps);
  if (std::find(visit.views.begin(), visit.views.end(), now) != visit.views.end()) return Standing::kAgain;
  visit.views.push_back(now);
  return Standing::kSeen;
}

std::uint64_t Rounds::fingerprint(const State& now) const {
  std::uint64_t hash = 0;
  for (std::uint32_t i = 0; i < now.object_count(); ++i) hash = mix(hash, now.object(static_cast<ObjectId>(i)));
  for (const Way& way : ways_) hash = mix(hash, way.progress.empty() ? 0 : way.progress.back());
  return hash;
}

}  // namespace crashcut::scheduler
