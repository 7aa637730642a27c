// States: explored states, told for a report. The recoveries of the kept paths are run again, one after the other,
// until the time is up.
#pragma once

#include "recovery/search/front_end.h"
#include "recovery/search/kept_paths.h"
#include "recovery/search/pool.h"

namespace crashcut::search {

struct ToldStates {
  const FrontEnd& front_end;
  Pool& pool;
  const Tally& tally;
  std::size_t question = 0;              // of the counterexample
  const NarratedRun* example = nullptr;  // the counterexample; none: there is none, or it cannot be told again
  std::size_t most = 0;                  // so many states at most
};

result::States states_of(const ToldStates& told, Pool::Clock::time_point deadline);

}  // namespace crashcut::search
