#include "recovery/threads/simplest.h"

#include <algorithm>
#include <tuple>

#include "scheduler/runtime/protocol.h"

namespace crashcut::recovery {

using scheduler::Execution;
using scheduler::Step;
using scheduler::runtime::ActorName;

static bool is_failure(const Step& step, const std::vector<ActorName>& actors) {
  return index(step.actor) < actors.size() && scheduler::runtime::Names::is_failure(actors[index(step.actor)].ordinal);
}

std::size_t failures_in(const Execution& execution, const std::vector<ActorName>& actors) {
  return static_cast<std::size_t>(std::count_if(execution.steps.begin(), execution.steps.end(),
                                                [&](const Step& step) { return is_failure(step, actors); }));
}

// Steps that caches without coherence take by themselves.
static std::size_t steps_of_caches(const Execution& execution, const std::vector<ActorName>& actors) {
  return static_cast<std::size_t>(std::count_if(execution.steps.begin(), execution.steps.end(), [&](const Step& step) {
    return index(step.actor) < actors.size() && scheduler::runtime::Names::is_cache(actors[index(step.actor)].ordinal);
  }));
}

static std::size_t switches_in(const Execution& execution) {
  std::size_t switches = 0;
  for (std::size_t i = 1; i < execution.steps.size(); ++i)
    switches += execution.steps[i].actor != execution.steps[i - 1].actor ? 1 : 0;
  return switches;
}

bool is_simpler(const Execution& execution, const Execution& other, const std::vector<ActorName>& actors,
                bool has_machines) {
  if (!has_machines) return execution.steps.size() < other.steps.size();
  const auto cost = [&](const Execution& e) {
    return std::tuple(failures_in(e, actors), steps_of_caches(e, actors), switches_in(e), e.steps.size());
  };
  return cost(execution) < cost(other);
}

}  // namespace crashcut::recovery
