// Tally: what recoveries gave, added up. Workers send theirs; the whole is the sum.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "recovery/search/channel.h"
#include "recovery/search/front_end.h"
#include "recovery/search/kept_paths.h"

namespace crashcut::search {

// One kind of violation, the worst first.
struct ViolationKey {
  int rank = 0;
  std::size_t question = 0;
  std::string kind, text, message;
  int code = 0;

  auto operator<=>(const ViolationKey&) const = default;
};

// How many there were of a kind, and the smallest: the fewest crashes, then the fewest events.
struct ViolationClass {
  std::uint64_t count = 0;
  std::vector<std::uint32_t> path;
  std::uint32_t events_in = 0;
  std::uint32_t layer = 1;
  bool is_slow = false;
};

struct OutcomeCount {
  std::uint64_t recoveries = 0;
  std::uint64_t violations = 0;
};

// Recoveries that could not be run, for one reason.
struct NotRun {
  result::Blame blame = result::Blame::kTool;
  std::uint64_t recoveries = 0;
};

struct Tally {
  std::uint64_t recoveries = 0;
  std::uint64_t violations = 0;
  std::uint64_t assumed_away = 0;
  std::map<std::string, OutcomeCount> outcomes;
  bool outcomes_cut = false;  // there were more than kOutcomesMost
  std::map<ViolationKey, ViolationClass> classes;
  std::uint64_t classes_cut = 0;          // recoveries whose kind is not among them, as there were too many kinds
  std::map<std::string, NotRun> not_run;  // by the sentence that says why
  std::map<std::string, std::uint64_t> facts;
  KeptPaths kept;
  std::string not_deterministic;   // how a recovery was seen to be so
  std::optional<Failure> failure;  // ends the search

  static constexpr std::size_t kOutcomesMost = 10000;
  static constexpr std::size_t kClassesMost = 1000;

  void add(std::size_t question, const Run& run);
  // Whether add() looks at the path of a run that ended so, which has so many answers.
  bool keeps_path(std::size_t question, const Ending& ending, std::size_t answers) const;
  void add(const Tally& other);
  bool empty() const { return recoveries == 0 && !failure && not_deterministic.empty(); }
};

Json to_json(const Tally& tally);
// Throws what nlohmann::json throws where it is none.
Tally tally_from(const Json& json);

Json to_json(const Run& run);
Run run_from(const Json& json);

ViolationKey key_of(std::size_t question, const Ending& ending);
// As reports have it.
result::Finding finding_of(const ViolationKey& key, const std::string& subject, std::uint64_t count);

}  // namespace crashcut::search
