// Tally: what recoveries gave, added up. Workers send theirs; the whole is the sum.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "recovery/mounted/channel.h"
#include "recovery/mounted/explorer.h"

namespace crashcut::mounted {

struct ViolationKey {
  Finding finding;
  std::size_t question;
  std::string message;  // the outcome in words; for a checker what it printed
  std::string end;      // how a checker ended: "ended with status 3"; empty for files

  auto operator<=>(const ViolationKey&) const = default;
};

// The smallest violation of its kind, and how many there were.
struct ViolationClass {
  std::uint64_t count = 0;
  std::vector<std::uint32_t> path;
  std::uint32_t events_in = 0;
  std::uint32_t layer = 1;
};

struct OutcomeCount {
  std::uint64_t recoveries = 0;
  std::uint64_t violations = 0;
};

struct Tally {
  std::uint64_t recoveries = 0;
  std::uint64_t violations = 0;
  std::uint64_t assumed_away = 0;
  std::uint64_t checker_runs = 0;
  std::uint64_t not_found = 0;  // the checker ended with 127, which is what a shell says of a command that is not there
  std::string not_found_text;   // what it printed then
  std::map<std::string, OutcomeCount> outcomes;
  bool outcomes_cut = false;  // there were more than kOutcomesMost
  std::map<ViolationKey, ViolationClass> classes;
  std::string not_deterministic;  // how a checker was seen to be so
  std::string failure;            // of crashcut or of the user's set-up
  bool is_users_failure = false;
  bool read_by_pages = false;

  static constexpr std::size_t kOutcomesMost = 10000;

  void add(std::size_t question, const Run& run);
  void add(const Tally& other);
  std::uint64_t count(Finding finding) const;
};

Json to_json(const Tally& tally);
Tally tally_from(const Json& json);

// What a recovery is called: what a checker printed, on one line.
std::string outcome_of(const CommandResult& result);
// How a checker ended: "ended with status 3", "was killed by SIGSEGV", "did not end in time". Empty for files.
std::string end_of(const CommandResult& result);

}  // namespace crashcut::mounted
