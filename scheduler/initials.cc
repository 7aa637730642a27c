#include "scheduler/initials.h"

#include <algorithm>

#include "scheduler/dependence.h"

namespace crashcut::scheduler {

std::size_t find_actor(std::span<const Step> sequence, ActorId actor) {
  const auto it = std::find_if(sequence.begin(), sequence.end(), [&](const Step& s) { return s.actor == actor; });
  return it == sequence.end() ? kNotThere : static_cast<std::size_t>(it - sequence.begin());
}

bool is_initial(std::span<const Step> sequence, std::size_t place) {
  return std::none_of(sequence.begin(), sequence.begin() + static_cast<std::ptrdiff_t>(place),
                      [&](const Step& s) { return are_dependent(s.operation, sequence[place].operation); });
}

bool is_weak_initial(std::span<const Step> sequence, const State& state, const Step& first) {
  const std::size_t place = find_actor(sequence, first.actor);
  if (place != kNotThere && !is_unknown(sequence[place].operation)) return is_initial(sequence, place);
  // What is not known does there what it would do first, if that commutes with all before it.
  State after = state;
  for (const Step& s : sequence.first(std::min(place, sequence.size()))) {
    Operation operation = s.operation;
    after.apply(s.actor, operation);
    if (!still_commutes(first, s, after)) return false;
  }
  return true;
}

bool is_vouched_for(std::span<const Step> sleepers, const State& state, std::span<const Step> sequence) {
  return std::any_of(sleepers.begin(), sleepers.end(),
                     [&](const Step& sleeper) { return is_weak_initial(sequence, state, sleeper); });
}

}  // namespace crashcut::scheduler
