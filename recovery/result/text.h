// Text: a result for people, plain ASCII. First line: what runs, model, bounds, seed. Last line: verdict, counts, and
// the command that replays.
#pragma once

#include <string>
#include <vector>

#include "recovery/result/result.h"

namespace crashcut::result {

// How much of a long story is shown.
enum class Detail { kShort, kAll };

std::string head_text(const Head& head);
// Every distinct outcome with the number of recoveries that gave it.
std::string outcomes_text(const Result& result);
// The counterexample, the other ways to fail, and what could not be run.
std::string violation_text(const Result& result, Detail detail);
// One run, with its headline and its story.
std::string counterexample_text(const Counterexample& example, Detail detail);
// Schedule, crashes, what recovery saw and said. (story_text.cc)
std::string story_text(const Story& story, Detail detail);
// One line for each step: "   3  thread 1     lock mutex forks  [dine]".
std::vector<std::string> schedule_lines(const Story& story);
// The same with a column for each machine, time downwards; with a heading. (columns.cc)
std::vector<std::string> machine_columns(const Story& story);
// Notes, the verdict with counts, and what to do next. `crashcut` is the command as the user typed it.
std::string end_text(const Result& result, const std::string& crashcut);
// One line: "violation: ..." or "no violation: ...".
std::string replay_end_text(const Counterexample& example, bool is_violation);

// One program under several models: a row a model, then which model gives which outcome.
std::string comparison_text(const std::vector<Result>& rows);
std::string comparison_end_text(const std::vector<Result>& rows, std::size_t expected_count,
                                const std::string& crashcut);

std::string progress_text(const Progress& progress);

}  // namespace crashcut::result
