// Reports of a check: text for people, JSON, JUnit XML for CI systems.
#pragma once

#include <string>

#include "recovery/mounted/check.h"

namespace crashcut::mounted {

// The first line: which command, what runs, model, bounds, seed.
std::string report_start(std::string_view command, const std::vector<std::string>& program, std::string_view model,
                         const CheckPlan& plan);
// How the recorded run went.
std::string report_recorded(const Recorded& recorded, const CheckPlan& plan);
// Every distinct outcome with the number of recoveries that gave it.
std::string report_outcomes(const CheckResult& result);
std::string report_violation(const Counterexample& example, bool is_whole_story);
// All kinds of violation, a line each.
std::string report_classes(const CheckResult& result);
// The last line: verdict, counts, replay command.
std::string report_end(const CheckResult& result, const std::string& crashcut);

Json to_json(const CheckPlan& plan, const std::vector<std::string>& program, const Recorded& recorded,
             const CheckResult& result);
std::string to_junit(const std::vector<std::string>& program, const CheckResult& result);

}  // namespace crashcut::mounted
