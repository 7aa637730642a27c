// Report: results as text for people, plain ASCII.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "recovery/check.h"

namespace crashcut::recovery {

// How much of a long story is shown.
enum class Detail { kShort, kAll };

// The first line: what runs, model, bounds, seed. `command` is what the user typed, less its options.
std::string report_start(std::string_view command, const Plan& plan);
// The same for a single recovery.
std::string report_replay_start(const Plan& plan);
// One recovery: what the program did, what of it survived, what recovery saw and said.
std::string report_account(const Account& account, Detail detail);
// The violation with its account, the other ways to fail, and what could not be run.
std::string report_violation(const Result& result);
// The recoveries that crashcut could not run, by reason; empty where it ran all.
std::string report_not_run(const Survey& survey);
// Every distinct output with the number of recoveries that gave it.
std::string report_outcomes(const Survey& survey);
// The last line: verdict, counts, replay command.
std::string report_end(const Plan& plan, const Result& result);
// What the verdict is not about, a sentence each.
std::vector<std::string> not_covered(const Result& result);

// Text of unknown origin on one line: control characters and bytes beyond ASCII are escaped.
std::string printable(std::string_view text);
// The same of an outcome, on one line: "(no output)".
std::string printable_outcome(const std::string& output);
// "12%", or "less than 0.0001%"
std::string percent_text(double fraction);
// The bounds of a search, for its first line.
std::string bounds_text(std::uint64_t depth, std::uint64_t max_recoveries, std::chrono::duration<double> time_limit,
                        std::uint64_t jobs);
// 1 recovery, 2 recoveries
std::string count_text(std::uint64_t count, std::string_view one, std::string_view many);

}  // namespace crashcut::recovery
