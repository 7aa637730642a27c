#include "recovery/search/states.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace crashcut::search {
namespace {

constexpr std::size_t kHeldMost = 100;             // of one state
constexpr std::size_t kAllHeldMost = 50'000;       // of all
constexpr std::size_t kKeptBytesMost = 1'000'000;  // of State::kept, of all

char letter_of(const result::Operation& operation) {
  if (!operation.has_events()) return '-';
  static constexpr char kLetters[] = {'y', 'p', 'n'};
  return kLetters[static_cast<std::size_t>(operation.fate())];
}

// "y3n2": three operations that persisted, then two that did not.
std::string kept_text(const std::vector<result::Operation>& operations) {
  std::string text;
  for (std::size_t i = 0; i < operations.size();) {
    const char letter = letter_of(operations[i]);
    std::size_t end = i + 1;
    while (end < operations.size() && letter_of(operations[end]) == letter) ++end;
    text += letter + std::to_string(end - i);
    i = end;
  }
  return text;
}

// Locations and their values, each text once.
class Texts {
 public:
  explicit Texts(std::vector<result::HeldLocation>& to) : to_(to) {}

  std::pair<std::uint32_t, std::uint32_t> number_of(const std::string& location, const std::string& value) {
    const auto [at, is_new] = locations_.emplace(location, static_cast<std::uint32_t>(to_.size()));
    if (is_new) to_.push_back({location, {}});
    std::vector<std::string>& values = to_[at->second].values;
    const auto known = values_.emplace(std::pair(at->second, value), static_cast<std::uint32_t>(values.size()));
    if (known.second) values.push_back(value);
    return {at->second, known.first->second};
  }

 private:
  std::vector<result::HeldLocation>& to_;
  std::unordered_map<std::string, std::uint32_t> locations_;
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> values_;
};

class StateList {
 public:
  void add(std::size_t question, const NarratedRun& told, bool is_example) {
    const result::Crash& crash = told.story.crashes.front();
    result::State state;
    state.subject = question;
    state.earliest = crash.earliest;
    state.latest = crash.latest;
    state.crashes = told.run.layer;
    state.outcome = told.run.ending.outcome;
    state.is_violation = told.run.ending.is_violation();
    if (state.is_violation) state.text = told.run.ending.finding.text;
    state.is_example = is_example;
    add_held(told.story, state);
    state.kept = kept_text(crash.operations);
    if (state.kept.size() > kKeptBytesMost - kept_bytes_) state.kept.clear();
    kept_bytes_ += state.kept.size();
    states.list.push_back(std::move(state));
  }

  result::States states{};

 private:
  void add_held(const result::Story& story, result::State& state) {
    for (const result::Crash& crash : story.crashes) {
      for (const result::Call& call : crash.calls) {
        for (const result::Observation& observation : call.observations) {
          if (observation.crash != 1 || observation.taken >= observation.candidates.size()) continue;
          if (state.held.size() == kHeldMost || held_ == kAllHeldMost) {
            ++state.held_left_out;
            continue;
          }
          ++held_;
          state.held.push_back(texts_.number_of(observation.location, observation.candidates[observation.taken]));
        }
      }
      state.held_left_out += crash.calls_left_out;
    }
  }

  Texts texts_{states.locations};
  std::size_t held_ = 0, kept_bytes_ = 0;
};

}  // namespace

result::States states_of(const ToldStates& told, Pool::Clock::time_point deadline) {
  StateList list;
  std::vector<KeptPaths::Entry> entries = told.tally.kept.entries();
  // The counterexample may be smaller than any state that the search met.
  if (told.example != nullptr) {
    std::erase_if(entries, [&](const KeptPaths::Entry& entry) {
      return entry.question == told.question && entry.path == told.example->run.path;
    });
    if (told.example->story.crashes.empty()) return {};  // this front end cannot tell them
    if (told.most > 0 && Pool::Clock::now() < deadline) list.add(told.question, *told.example, true);
  }
  for (const KeptPaths::Entry& entry : entries) {
    if (Pool::Clock::now() >= deadline || list.states.list.size() == told.most) break;
    const bool has_operations = told.example != nullptr || !list.states.list.empty();
    const auto run = told.pool.tell(entry.question, entry.path, deadline, has_operations);
    if (!run || run->run.ending.kind == Ending::Kind::kStopped) break;
    if (run->story.crashes.empty()) break;  // this front end cannot tell them
    // It came out otherwise, or it could not be run.
    const bool counts = run->run.ending.kind == Ending::Kind::kFine || run->run.ending.is_violation();
    if (run->run.diverged || !counts) continue;
    if (!has_operations) list.states.operations = run->story.crashes.front().operations;
    list.add(entry.question, *run, false);
  }
  std::stable_sort(list.states.list.begin(), list.states.list.end(), [](const auto& a, const auto& b) {
    return std::tie(a.earliest, a.latest, a.subject, a.outcome, a.held) <
           std::tie(b.earliest, b.latest, b.subject, b.outcome, b.held);
  });
  list.states.names = told.front_end.names(told.question);
  const std::uint64_t explored = told.tally.recoveries - std::min(told.tally.recoveries, told.tally.assumed_away);
  list.states.left_out = explored - std::min<std::uint64_t>(explored, list.states.list.size());
  return std::move(list.states);
}

}  // namespace crashcut::search
