// Initials: which actors can begin a sequence of steps, up to equivalence (Abdulla et al., Source Sets, 2017).
#pragma once

#include <span>

#include "scheduler/operation.h"
#include "scheduler/state.h"

namespace crashcut::scheduler {

inline constexpr std::size_t kNotThere = SIZE_MAX;
// Where in `sequence` the actor's first step is.
std::size_t find_actor(std::span<const Step> sequence, ActorId actor);
// Whether the step at `place` depends on none before it.
bool is_initial(std::span<const Step> sequence, std::size_t place);
// Whether `sequence`, from `state`, is equivalent to one that begins with `first`, maybe longer by it. `first` holds
// the results that it has in `state`.
bool is_weak_initial(std::span<const Step> sequence, const State& state, const Step& first);
// Whether one of the sleepers, whose branches are explored, is such a step.
bool is_vouched_for(std::span<const Step> sleepers, const State& state, std::span<const Step> sequence);

}  // namespace crashcut::scheduler
