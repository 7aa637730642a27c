#include "scheduler/seen_calls.h"

#include <algorithm>

#include "scheduler/dependence.h"
#include "scheduler/hash.h"

namespace crashcut::scheduler {

namespace {

void mix_in(StepName& name, std::uint64_t value) {
  name.a = mix(name.a, value);
  name.b = mix(name.b, ~value);
}

bool is_same(const Operation& x, const Operation& y) {
  const auto is_same_access = [](const Access& a, const Access& b) {
    return a.object == b.object && a.verb == b.verb && a.argument == b.argument;
  };
  return x.footprint() == y.footprint() && std::equal(x.begin(), x.end(), y.begin(), y.end(), is_same_access);
}

}  // namespace

NamedSteps::NamedSteps(std::span<const Step> steps, const Order& order) : steps_(steps), order_(&order) {
  for (std::size_t k = 0; k < steps.size(); ++k) names_.push_back(name_after(steps[k], order.past_of(k)));
}

// `past` counts the steps of each actor, and may count the step itself.
StepName NamedSteps::name_after(const Step& step, std::span<const std::uint32_t> past) const {
  StepName name{1, 2};
  mix_in(name, index(step.actor));
  mix_in(name, reinterpret_cast<std::uintptr_t>(step.operation.footprint()));
  for (const Access& a : step.operation) {
    mix_in(name, static_cast<std::uint64_t>(a.object) << 8 | a.verb);
    mix_in(name, static_cast<std::uint64_t>(a.argument));
  }
  for (std::size_t a = 0; a < past.size(); ++a) {
    const std::size_t known = past[a] == 0 ? Order::kNone : order_->step_of(static_cast<ActorId>(a), past[a] - 1);
    // Its own name is still to be found.
    const std::size_t last = known != names_.size() ? known : order_->previous_of(known);
    if (last == Order::kNone) continue;
    mix_in(name, a);
    mix_in(name, names_[last].a);
    mix_in(name, names_[last].b);
  }
  return name;
}

StepName NamedSteps::name_of(const Step& call, const std::vector<bool>& is_before) const {
  std::vector<std::uint32_t> past;
  for (std::size_t k = steps_.size(); k-- > 0;) {
    if (!is_before[k]) continue;
    const std::span<const std::uint32_t> of_k = order_->past_of(k);
    past.resize(of_k.size());
    if (past[index(steps_[k].actor)] >= of_k[index(steps_[k].actor)]) continue;  // it is in it already
    if (steps_[k].actor != call.actor && !are_dependent(steps_[k].operation, call.operation)) continue;
    for (std::size_t a = 0; a < past.size(); ++a) past[a] = std::max(past[a], of_k[a]);
  }
  return name_after(call, past);
}

void SeenCalls::learn(const NamedSteps& execution) {
  std::map<ActorId, std::size_t> places;
  for (std::size_t k = 0; k < execution.steps().size(); ++k) {
    const Step& step = execution.steps()[k];
    const std::size_t place = places[step.actor]++;
    if (!is_file_call(step.operation) || is_unknown(step.operation) || names_.size() >= kNamesMost) continue;
    if (!names_.insert(execution.name_of(k)).second) continue;
    std::vector<Operation>& known = calls_[{step.actor, place}];
    if (std::none_of(known.begin(), known.end(), [&](const Operation& call) { return is_same(call, step.operation); }))
      known.push_back(step.operation);
  }
}

const Operation* SeenCalls::find(const NamedSteps& execution, const std::vector<bool>& is_before, ActorId actor) const {
  std::size_t place = 0;
  for (std::size_t k = 0; k < execution.steps().size(); ++k)
    place += is_before[k] && execution.steps()[k].actor == actor ? 1 : 0;
  const auto known = calls_.find({actor, place});
  if (known == calls_.end()) return nullptr;
  const auto it = std::find_if(known->second.begin(), known->second.end(), [&](const Operation& call) {
    return names_.contains(execution.name_of({actor, call}, is_before));
  });
  return it == known->second.end() ? nullptr : &*it;
}

}  // namespace crashcut::scheduler
