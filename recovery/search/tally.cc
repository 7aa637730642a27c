#include "recovery/search/tally.h"

#include <algorithm>
#include <tuple>

#include "persist/hash.h"

namespace crashcut::search {
namespace {

using Kind = Ending::Kind;

bool is_smaller(const ViolationClass& a, const ViolationClass& b) {
  return std::tie(a.layer, a.events_in, a.path) < std::tie(b.layer, b.events_in, b.path);
}

void add_class(ViolationClass& to, const ViolationClass& from) {
  const std::uint64_t count = to.count + from.count;
  if (to.count == 0 || is_smaller(from, to)) to = from;
  to.count = count;
}

// The entry of the key, where there is one or room for one; else null.
template <class Map, class Key>
auto* entry_of(Map& map, const Key& key, std::size_t most) {
  return map.size() < most || map.contains(key) ? &map[key] : nullptr;
}

// The same for recoveries that a report takes for one kind: they ended alike.
std::uint64_t hash_of(std::size_t question, const Ending& ending) {
  std::uint64_t hash = persist::mix(persist::mix_bytes(persist::kHashStart, ending.outcome), question);
  if (ending.is_violation()) hash = persist::mix_bytes(hash, ending.finding.kind + ending.finding.text);
  return hash;
}

Json to_json(const KeptPaths& kept) {
  Json list = Json::array();
  for (const KeptPaths::Entry& entry : kept.entries())
    list.push_back({entry.question, entry.outcome, to_binary(entry.path)});
  return list;
}

Json to_json(const Failure& failure) { return {static_cast<int>(failure.blame), failure.sentence}; }
Failure failure_from(const Json& json) { return {static_cast<result::Blame>(json.at(0).get<int>()), json.at(1)}; }

}  // namespace

ViolationKey key_of(std::size_t question, const Ending& ending) {
  const result::Finding& finding = ending.finding;
  return {ending.rank, question, finding.kind, finding.text, finding.message, finding.code};
}

result::Finding finding_of(const ViolationKey& key, const std::string& subject, std::uint64_t count) {
  return {key.kind, subject, key.text, key.message, key.code, count};
}

bool Tally::keeps_path(std::size_t question, const Ending& ending, std::size_t answers) const {
  return ending.is_violation() || kept.wants(hash_of(question, ending), answers);
}

void Tally::add(std::size_t question, const Run& run) {
  const Ending& ending = run.ending;
  ++recoveries;
  for (const std::string& fact : ending.facts) ++facts[fact];
  if (run.diverged && not_deterministic.empty()) not_deterministic = "in the same state it asked for other things";
  switch (ending.kind) {
    case Kind::kAssumedAway:
      ++assumed_away;
      return;
    case Kind::kNotRun: {
      NotRun& reason = not_run[ending.failure.sentence];
      reason.blame = ending.failure.blame;
      ++reason.recoveries;
      return;
    }
    case Kind::kFailed:
      failure = ending.failure;
      return;
    default:
      break;
  }
  const bool violates = ending.is_violation();
  violations += violates;
  const std::uint64_t hash = hash_of(question, ending);
  if (!run.diverged && run.has_path) kept.add({question, hash, run.path});
  if (OutcomeCount* count = entry_of(outcomes, ending.outcome, kOutcomesMost)) {
    ++count->recoveries;
    count->violations += violates;
  } else {
    outcomes_cut = true;
  }
  if (!violates) return;
  if (ViolationClass* known = entry_of(classes, key_of(question, ending), kClassesMost)) {
    add_class(*known, ViolationClass{1, run.path, run.events_in, run.layer, ending.is_slow});
  } else {
    ++classes_cut;
  }
}

void Tally::add(const Tally& other) {
  recoveries += other.recoveries;
  violations += other.violations;
  assumed_away += other.assumed_away;
  for (const auto& [outcome, more] : other.outcomes) {
    if (OutcomeCount* count = entry_of(outcomes, outcome, kOutcomesMost)) {
      count->recoveries += more.recoveries;
      count->violations += more.violations;
    } else {
      outcomes_cut = true;
    }
  }
  outcomes_cut = outcomes_cut || other.outcomes_cut;
  for (const auto& [key, found] : other.classes) {
    if (ViolationClass* known = entry_of(classes, key, kClassesMost)) {
      add_class(*known, found);
    } else {
      classes_cut += found.count;
    }
  }
  classes_cut += other.classes_cut;
  for (const auto& [sentence, reason] : other.not_run) {
    not_run[sentence].blame = reason.blame;
    not_run[sentence].recoveries += reason.recoveries;
  }
  for (const auto& [fact, count] : other.facts) facts[fact] += count;
  kept.add(other.kept);
  if (not_deterministic.empty()) not_deterministic = other.not_deterministic;
  if (!failure) failure = other.failure;
}

Json to_json(const Tally& tally) {
  Json outcomes = Json::array(), classes = Json::array(), not_run = Json::array(), facts = Json::array();
  for (const auto& [outcome, count] : tally.outcomes) outcomes.push_back({outcome, count.recoveries, count.violations});
  for (const auto& [key, found] : tally.classes) {
    classes.push_back({key.rank, key.question, key.kind, key.text, key.message, key.code, found.count,
                       to_binary(found.path), found.events_in, found.layer, found.is_slow});
  }
  for (const auto& [sentence, reason] : tally.not_run)
    not_run.push_back({sentence, static_cast<int>(reason.blame), reason.recoveries});
  for (const auto& [fact, count] : tally.facts) facts.push_back({fact, count});
  return {{"recoveries", tally.recoveries},
          {"violations", tally.violations},
          {"assumed_away", tally.assumed_away},
          {"outcomes", std::move(outcomes)},
          {"outcomes_cut", tally.outcomes_cut},
          {"classes", std::move(classes)},
          {"classes_cut", tally.classes_cut},
          {"not_run", std::move(not_run)},
          {"facts", std::move(facts)},
          {"kept", to_json(tally.kept)},
          {"not_deterministic", tally.not_deterministic},
          {"failure", tally.failure ? to_json(*tally.failure) : Json()}};
}

Tally tally_from(const Json& json) {
  Tally tally;
  tally.recoveries = json.at("recoveries");
  tally.violations = json.at("violations");
  tally.assumed_away = json.at("assumed_away");
  for (const Json& entry : json.at("outcomes")) tally.outcomes[entry.at(0)] = {entry.at(1), entry.at(2)};
  tally.outcomes_cut = json.at("outcomes_cut");
  for (const Json& entry : json.at("classes")) {
    tally.classes[ViolationKey{entry.at(0), entry.at(1), entry.at(2), entry.at(3), entry.at(4), entry.at(5)}] =
        ViolationClass{entry.at(6), numbers_from(entry.at(7)), entry.at(8), entry.at(9), entry.at(10)};
  }
  tally.classes_cut = json.at("classes_cut");
  for (const Json& entry : json.at("not_run"))
    tally.not_run[entry.at(0)] = {static_cast<result::Blame>(entry.at(1).get<int>()), entry.at(2)};
  for (const Json& entry : json.at("facts")) tally.facts[entry.at(0)] = entry.at(1);
  for (const Json& entry : json.at("kept")) tally.kept.add({entry.at(0), entry.at(1), numbers_from(entry.at(2))});
  tally.not_deterministic = json.at("not_deterministic");
  if (!json.at("failure").is_null()) tally.failure = failure_from(json.at("failure"));
  return tally;
}

Json to_json(const Run& run) {
  const Ending& ending = run.ending;
  const result::Finding& finding = ending.finding;
  return {{"kind", static_cast<int>(ending.kind)},
          {"outcome", ending.outcome},
          {"finding", {finding.kind, finding.text, finding.message, finding.code}},
          {"rank", ending.rank},
          {"is_slow", ending.is_slow},
          {"failure", to_json(ending.failure)},
          {"output", ending.output},
          {"errors", ending.errors},
          {"output_cut", ending.output_cut},
          {"errors_cut", ending.errors_cut},
          {"own", ending.own},
          {"path", to_binary(run.path)},
          {"events_in", run.events_in},
          {"layer", run.layer},
          {"diverged", run.diverged}};
}

Run run_from(const Json& json) {
  Run run;
  Ending& ending = run.ending;
  ending.kind = static_cast<Kind>(json.at("kind").get<int>());
  ending.outcome = json.at("outcome");
  const Json& finding = json.at("finding");
  ending.finding.kind = finding.at(0);
  ending.finding.text = finding.at(1);
  ending.finding.message = finding.at(2);
  ending.finding.code = finding.at(3);
  ending.rank = json.at("rank");
  ending.is_slow = json.at("is_slow");
  ending.failure = failure_from(json.at("failure"));
  ending.output = json.at("output");
  ending.errors = json.at("errors");
  ending.output_cut = json.at("output_cut");
  ending.errors_cut = json.at("errors_cut");
  ending.own = json.at("own");
  run.path = numbers_from(json.at("path"));
  run.events_in = json.at("events_in");
  run.layer = json.at("layer");
  run.diverged = json.at("diverged");
  return run;
}

}  // namespace crashcut::search
