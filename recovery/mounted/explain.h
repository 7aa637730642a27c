// Explain: a violation in one sentence that a user understands.
#pragma once

#include <string>

#include "recovery/mounted/question.h"
#include "recovery/search/front_end.h"

namespace crashcut::mounted {

// "after `nano` had exited, a crash can leave notes.txt empty: the truncation had persisted, the 25 bytes written had
//  not; no fsync separates them". `program` is its name.
std::string explain(const Question& question, const search::NarratedRun& told, std::string_view program);

}  // namespace crashcut::mounted
