#include "recovery/mounted/tally.h"

#include <fmt/format.h>

#include <algorithm>

#include "recovery/result/words.h"

namespace crashcut::mounted {
namespace {

bool is_smaller(const ViolationClass& a, const ViolationClass& b) {
  return std::tie(a.layer, a.events_in, a.path) < std::tie(b.layer, b.events_in, b.path);
}

void add_class(ViolationClass& to, const ViolationClass& from) {
  const std::uint64_t count = to.count + from.count;
  if (to.count == 0 || is_smaller(from, to)) to = from;
  to.count = count;
}

}  // namespace

std::string outcome_of(const CommandResult& result) {
  if (!result.answer.outcome.empty()) return result.answer.outcome;
  std::string text = result.output;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at)) text.replace(at, 1, "; ");
  constexpr std::size_t kLongest = 400;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

std::string end_of(const CommandResult& result) {
  if (result.answer.finding == Finding::kCheckHung) return "did not end in time";
  if (result.answer.finding != Finding::kCheckFailed) return "";
  return result.signal != 0 ? fmt::format("was killed by {}", result::signal_text(result.signal))
                            : fmt::format("ended with status {}", result.code);
}

void Tally::add(std::size_t question, const Run& run) {
  ++recoveries;
  const CommandResult& result = run.result;
  read_by_pages = read_by_pages || result.read_by_pages;
  if (!result.failure.empty()) {
    failure = result.failure;
    is_users_failure = result.is_users_fault;
    return;
  }
  if (run.diverged && not_deterministic.empty()) not_deterministic = "in the same state it asked for other things";
  if (result.answer.finding == Finding::kAssumedAway) {
    ++assumed_away;
    return;
  }
  checker_runs += result.answer.outcome.empty();
  if (result.code == 127 && result.answer.outcome.empty()) {
    ++not_found;
    not_found_text = result.errors;
  }
  const bool violates = is_violation(result.answer.finding);
  violations += violates;
  const std::string outcome = outcome_of(result);
  if (outcomes.size() < kOutcomesMost || outcomes.contains(outcome)) {
    OutcomeCount& count = outcomes[outcome];
    ++count.recoveries;
    count.violations += violates;
  } else {
    outcomes_cut = true;
  }
  if (!violates) return;
  add_class(classes[ViolationKey{result.answer.finding, question, outcome, end_of(result)}],
            ViolationClass{1, run.path, run.events_in, run.layer});
}

void Tally::add(const Tally& other) {
  recoveries += other.recoveries;
  violations += other.violations;
  assumed_away += other.assumed_away;
  checker_runs += other.checker_runs;
  not_found += other.not_found;
  if (not_found_text.empty()) not_found_text = other.not_found_text;
  for (const auto& [outcome, count] : other.outcomes) {
    if (outcomes.size() >= kOutcomesMost && !outcomes.contains(outcome)) {
      outcomes_cut = true;
      continue;
    }
    outcomes[outcome].recoveries += count.recoveries;
    outcomes[outcome].violations += count.violations;
  }
  outcomes_cut = outcomes_cut || other.outcomes_cut;
  for (const auto& [key, found] : other.classes) add_class(classes[key], found);
  if (not_deterministic.empty()) not_deterministic = other.not_deterministic;
  if (failure.empty()) {
    failure = other.failure;
    is_users_failure = other.is_users_failure;
  }
  read_by_pages = read_by_pages || other.read_by_pages;
}

std::uint64_t Tally::count(Finding finding) const {
  std::uint64_t count = 0;
  for (const auto& [key, found] : classes) count += key.finding == finding ? found.count : 0;
  return count;
}

Json to_json(const Tally& tally) {
  Json outcomes = Json::array();
  for (const auto& [outcome, count] : tally.outcomes) outcomes.push_back({outcome, count.recoveries, count.violations});
  Json classes = Json::array();
  for (const auto& [key, found] : tally.classes) {
    classes.push_back({static_cast<int>(key.finding), key.question, key.message, key.end, found.count, found.path,
                       found.events_in, found.layer});
  }
  return {{"recoveries", tally.recoveries},
          {"violations", tally.violations},
          {"assumed_away", tally.assumed_away},
          {"outcomes", outcomes},
          {"outcomes_cut", tally.outcomes_cut},
          {"classes", classes},
          {"not_deterministic", tally.not_deterministic},
          {"failure", tally.failure},
          {"is_users_failure", tally.is_users_failure},
          {"checker_runs", tally.checker_runs},
          {"not_found", tally.not_found},
          {"not_found_text", tally.not_found_text},
          {"read_by_pages", tally.read_by_pages}};
}

Tally tally_from(const Json& json) {
  Tally tally;
  tally.recoveries = json.at("recoveries");
  tally.violations = json.at("violations");
  tally.assumed_away = json.at("assumed_away");
  tally.checker_runs = json.at("checker_runs");
  tally.not_found = json.at("not_found");
  tally.not_found_text = json.at("not_found_text");
  for (const Json& entry : json.at("outcomes")) tally.outcomes[entry.at(0)] = {entry.at(1), entry.at(2)};
  tally.outcomes_cut = json.at("outcomes_cut");
  for (const Json& entry : json.at("classes")) {
    tally.classes[ViolationKey{static_cast<Finding>(entry.at(0).get<int>()), entry.at(1), entry.at(2), entry.at(3)}] =
        ViolationClass{entry.at(4), entry.at(5).get<std::vector<std::uint32_t>>(), entry.at(6), entry.at(7)};
  }
  tally.not_deterministic = json.at("not_deterministic");
  tally.failure = json.at("failure");
  tally.is_users_failure = json.at("is_users_failure");
  tally.read_by_pages = json.at("read_by_pages");
  return tally;
}

}  // namespace crashcut::mounted
