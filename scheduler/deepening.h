// Deepening: the search of a program that may not come to an end.
//
// A thread that loops for good has no end of schedules, and an execution in which it runs alone says nothing of the
//   others. So where an execution is too long, the program is searched in levels: first all schedules in which no
//   actor takes more than 4 steps, then 6, 8, 12, 16 and so on. A bug that takes few steps is found early, whatever
//   lies behind it.
// A level that takes too long is left for the next, four times as deep: what comes late in long executions is looked at
//   too. There the actors take turns (RunRequest::turn_most). How much a level gets is counted in executions and steps,
//   so that what is found does not depend on the machine; where the caller bounds time or executions, its share of
//   these bounds it too, and what is left then goes to the levels that were left, the shallow ones first.
// A program all of whose executions come to an end is searched once, as search() does it.
#pragma once

#include "scheduler/search.h"

namespace crashcut::scheduler {

// Steps in a row of one actor, in executions that may be long.
inline constexpr std::uint32_t kTurn = 64;

SearchResult search_deepening(const std::vector<Program*>& workers, const SearchSetup& setup);

}  // namespace crashcut::scheduler
