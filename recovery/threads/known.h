// Known: violations of a threaded program that earlier searches found, tried before a search begins.
#pragma once

#include <optional>
#include <vector>

#include "recovery/result/token.h"
#include "recovery/threads/check.h"

namespace crashcut::recovery {

// The first violation that is still one, as the result of a search that ended with it; none: the search is to be done.
// Tokens of other commands, other arguments or other options are passed over, and so is a schedule that the program
// does not follow any more. The program itself may have changed. Half of the time is for the search: after that no
// further one is begun.
std::optional<ThreadResult> try_known(const ThreadPlan& plan, const std::vector<result::Token>& tokens,
                                      const persist::Deadline& deadline);

}  // namespace crashcut::recovery
