#include "recovery/search/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "persist/hash.h"
#include "recovery/result/path.h"
#include "recovery/search/pool.h"
#include "recovery/search/states.h"

namespace crashcut::search {
namespace {

using Clock = Pool::Clock;
using result::Verdict;

constexpr std::chrono::seconds kMinimiseLimit{10};
// Where --time is up, or the search was interrupted: a violation is told within this, or not at all.
constexpr std::chrono::milliseconds kLastWords{1200};
// How long states are told for a report.
constexpr std::chrono::seconds kStatesLimit{2};

std::string capitalised(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

bool is_same_kind(const Run& run, const ViolationKey& key) {
  return !run.diverged && run.ending.is_violation() && run.ending.finding.kind == key.kind &&
         run.ending.finding.code == key.code;
}

// Until when a violation may be told, and made smaller.
struct Deadlines {
  Clock::time_point tell, shrink;

  static Deadlines of(const Plan& plan, const Explored& explored, Clock::time_point begin) {
    const auto now = Clock::now();
    if (explored.bound == Bound::kInterrupt) return {now + kLastWords, now + kLastWords};
    if (plan.time_limit.count() == 0) return {Clock::time_point::max(), now + kMinimiseLimit};
    const auto end = std::max(begin + std::chrono::duration_cast<Clock::duration>(plan.time_limit), now + kLastWords);
    return {end, std::min(end, now + kMinimiseLimit)};
  }
};

// Drops one event after the other, newest first, for as long as the violation stays of the same kind. False where the
// time was up.
tl::expected<bool, Failure> shrink(Pool& pool, const ViolationKey& key, Clock::time_point deadline, NarratedRun& told) {
  std::set<std::uint32_t> durable;
  for (const result::Operation& operation : told.story.crashes.front().operations) {
    for (const result::Event& event : operation.events) {
      if (event.durable) durable.insert(event.id);
    }
  }
  std::vector<std::uint32_t> events = told.story.crashes.front().persisted;
  for (std::size_t left = events.size(); left > 0;) {
    const std::uint32_t event = events[--left];
    if (durable.contains(event)) continue;
    if (Clock::now() >= deadline) return false;
    const auto run = pool.run_cut(key.question, events, event, deadline);
    if (!run) return tl::unexpected(run.error());
    if (run->ending.kind == Ending::Kind::kStopped) return false;
    if (!is_same_kind(*run, key) || run->events_in >= events.size()) continue;
    auto smaller = pool.tell(key.question, run->path, deadline);
    if (!smaller) return tl::unexpected(smaller.error());
    if (!is_same_kind(smaller->run, key)) continue;
    told = std::move(*smaller);
    events = told.story.crashes.front().persisted;
    left = events.size();
  }
  return true;
}

result::Counterexample counterexample_of(const FrontEnd& front_end, std::size_t question, const NarratedRun& told) {
  const std::vector<std::string> subjects = front_end.subjects();
  result::Counterexample example;
  example.finding = finding_of(key_of(question, told.run.ending), subjects.at(question), 1);
  if (!front_end.names_kind()) example.label = example.finding.kind;
  example.sentence = front_end.explain(question, told);
  example.story = told.story;
  example.story.names = front_end.names(question);
  example.path = result::path_text(told.run.path);
  return example;
}

// The worst kind of violation, its smallest one. Where that cannot be told, the violation is still one. Returns what
// was told, if it came out the same again.
std::optional<NarratedRun> tell_worst(FrontEnd& front_end, const Deadlines& deadlines, Pool& pool,
                                      const Explored& explored, Found& found) {
  const auto& classes = explored.tally.classes;
  const auto worst = std::min_element(classes.begin(), classes.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first.rank, a.second.layer, a.second.events_in, a.first.question, a.second.path) <
           std::tie(b.first.rank, b.second.layer, b.second.events_in, b.first.question, b.second.path);
  });
  const auto& [key, smallest] = *worst;
  found.question = key.question;
  found.path = smallest.path;
  auto told = pool.tell(key.question, smallest.path, deadlines.tell);
  if (!told) {
    found.result.unexplained = told.error().sentence;
    return std::nullopt;
  }
  if (told->run.ending.kind == Ending::Kind::kStopped) {
    found.result.unexplained = "there was no time left to run it again. crashcut replay tells it.";
    return std::nullopt;
  }
  const bool replays = is_same_kind(told->run, key);
  bool is_smallest = explored.bound == Bound::kNone;
  if (replays && !is_smallest && smallest.layer == 1 && !smallest.is_slow) {
    is_smallest = shrink(pool, key, deadlines.shrink, *told).value_or(false);
    found.path = told->run.path;
  }
  // What was found is what is said, though this time it came out otherwise.
  if (!replays) {
    told->run.ending.kind = Ending::Kind::kViolation;
    told->run.ending.rank = key.rank;
    told->run.ending.finding = finding_of(key, "", 1);
  }
  found.result.counterexample = counterexample_of(front_end, key.question, *told);
  found.result.counterexample->is_smallest = replays && is_smallest;
  found.result.counterexample->replays = replays;
  if (!replays) return std::nullopt;
  return std::move(*told);
}

// Of several reasons one of ours is the one to tell: nothing that the user changes would help.
Failure failure_of(const Tally& tally) {
  for (const auto& [sentence, reason] : tally.not_run) {
    if (reason.blame == result::Blame::kTool) return result::tools_failure(sentence);
  }
  return result::users_failure(tally.not_run.begin()->first);
}

// Of the violations that were found before, those of this recording and of a question that is asked again.
std::vector<Pool::Known> fitting(const std::vector<result::Token>& tokens, const FrontEnd& front_end,
                                 std::uint64_t fingerprint) {
  std::vector<Pool::Known> known;
  const std::size_t question_count = tokens.empty() ? 0 : front_end.subjects().size();
  for (std::size_t question = 0; question < question_count; ++question) {
    const result::Token own = front_end.token(question);
    for (const result::Token& token : tokens) {
      if (token.fingerprint == fingerprint && token.command == own.command && token.arguments == own.arguments &&
          token.model.settings == own.model.settings && token.own == own.own)
        known.push_back({question, token.path});
    }
  }
  return known;
}

void fill(const FrontEnd& front_end, const RecordingFacts& facts, const Explored& explored, result::Result& result) {
  const Tally& tally = explored.tally;
  add_recoveries(tally, result);
  result.bound = explored.bound;
  result.explored_fraction = explored.fraction;
  result.seconds = explored.seconds;
  result.counts.sampled = explored.sampled;
  result.counts.violations = tally.violations;
  result.counts.operations = facts.operations;
  result.counts.events = facts.events;
  result.subjects = front_end.subjects();
  result.findings_left_out = tally.classes_cut;
  for (const auto& [key, known] : tally.classes)
    result.findings.push_back(finding_of(key, result.subjects.at(key.question), known.count));
}

// For a report, in what is left of the time: a search that was interrupted, or whose time is up, tells none.
void tell_states(const FrontEnd& front_end, const Plan& plan, Clock::time_point begin, Pool& pool,
                 const NarratedRun* example, Found& found) {
  auto deadline = Clock::now() + kStatesLimit;
  if (plan.time_limit.count() > 0)
    deadline = std::min(deadline, begin + std::chrono::duration_cast<Clock::duration>(plan.time_limit));
  if (found.result.bound == Bound::kInterrupt) deadline = Clock::now();
  // To tell a state costs one to three recoveries. States that nobody asked for must not make a search much longer.
  constexpr std::size_t kStatesLeast = 10;
  constexpr std::uint64_t kStatesShare = 100;
  const std::uint64_t some = std::max<std::uint64_t>(kStatesLeast, found.tally.recoveries / kStatesShare);
  const std::size_t most = plan.wants_all_states ? KeptPaths::kEntriesMost : std::min(some, KeptPaths::kEntriesMost);
  result::States states = states_of({front_end, pool, found.tally, found.question, example, most}, deadline);
  if (!states.list.empty()) found.result.states = std::move(states);
}

}  // namespace

RecordingFacts facts_of(const persist::Recording& recording) {
  std::uint64_t hash = persist::kHashStart;
  const auto add = [&](std::uint64_t value) { hash = persist::mix(hash, value); };
  for (const std::string_view op : recording.ops) hash = persist::mix_bytes(hash, op);
  const persist::Log& log = recording.log;
  for (persist::EventId e = 0; e < log.event_count(); ++e) {
    for (const std::uint32_t part : {log.op(e), log.epoch(e), log.cover(e)}) add(part);
    add(log.predecessors(e).size());
    for (const persist::EventId before : log.predecessors(e)) add(before);
  }
  return {hash, recording.ops.size(), log.event_count()};
}

void add_recoveries(const Tally& tally, result::Result& result) {
  result.counts.recoveries = tally.recoveries;
  result.counts.assumed_away = tally.assumed_away;
  for (const auto& [output, count] : tally.outcomes)
    result.outcomes.push_back({output, count.recoveries, count.violations});
  result.outcomes_cut = tally.outcomes_cut;
  for (const auto& [sentence, reason] : tally.not_run) {
    result.not_run.push_back({sentence, reason.recoveries});
    result.counts.not_run += reason.recoveries;
  }
}

tl::expected<Found, Failure> check(FrontEnd& front_end, const Plan& plan, const Hooks& hooks, const Rest* before) {
  const auto begin = Clock::now();
  const RecordingFacts facts = front_end.facts();
  const std::uint64_t fingerprint = facts.fingerprint;
  const std::size_t question_count = front_end.subjects().size();
  if (before != nullptr) {
    const bool fits = before->fingerprint == fingerprint &&
                      std::all_of(before->units.begin(), before->units.end(),
                                  [&](const Unit& unit) { return unit.question < question_count; });
    if (!fits)
      return result::wrong_use(
          "What was left of the search is of another recording: the program has changed since. Search it anew.");
  }
  auto pool = Pool::start(front_end, plan);
  if (!pool) return tl::unexpected(pool.error());
  auto explored = (*pool)->explore(hooks, before, fitting(plan.known, front_end, fingerprint));
  if (!explored) return tl::unexpected(explored.error());
  Found found;
  found.tally = explored->tally;
  found.fingerprint = fingerprint;
  fill(front_end, facts, *explored, found.result);
  found.rest = std::move(explored->rest);
  if (found.rest) found.rest->fingerprint = fingerprint;
  const Tally& tally = found.tally;
  if (tally.violations == 0) {
    if (!tally.not_run.empty()) return tl::unexpected(failure_of(tally));
    if (!tally.not_deterministic.empty()) {
      return tl::unexpected(result::users_failure(fmt::format(
          "{} is not deterministic: {}. A verdict needs one that answers the same for the same state; time, random "
          "numbers and threads are what usually differs.",
          capitalised(front_end.names(question_count - 1).recovery), tally.not_deterministic)));
    }
    found.result.verdict = explored->bound == Bound::kNone ? Verdict::kVerified : Verdict::kBounded;
    if (plan.wants_states) tell_states(front_end, plan, begin, **pool, nullptr, found);
    return found;
  }
  found.result.verdict = Verdict::kViolation;
  const auto example = tell_worst(front_end, Deadlines::of(plan, *explored, begin), **pool, *explored, found);
  if (plan.wants_states) tell_states(front_end, plan, begin, **pool, example ? &*example : nullptr, found);
  result::Token token = front_end.token(found.question);
  token.depth = plan.depth;
  token.seed = plan.seed;
  token.fingerprint = fingerprint;
  token.path = found.path;
  found.result.token = result::encode(token);
  return found;
}

tl::expected<Replayed, Failure> replay(FrontEnd& front_end, const result::Token& token, std::size_t question) {
  if (token.fingerprint != front_end.facts().fingerprint) {
    return result::wrong_use(
        "The program does not do what it did when this token was made: it has changed since, or it depends on "
        "something outside the model (time, random numbers, its input). Search it anew.");
  }
  Plan plan;
  plan.depth = token.depth;
  auto pool = Pool::start(front_end, plan);
  if (!pool) return tl::unexpected(pool.error());
  const auto told = (*pool)->tell(question, token.path, Clock::time_point::max());
  if (!told) return tl::unexpected(told.error());
  const Ending& ending = told->run.ending;
  if (ending.kind == Ending::Kind::kNotRun || ending.kind == Ending::Kind::kFailed)
    return tl::unexpected(ending.failure);
  if (told->run.diverged) {
    return result::wrong_use(
        fmt::format("{} did not ask for the same things as when this violation was found: it has changed since, or "
                    "it is not deterministic.",
                    capitalised(front_end.names(question).recovery)));
  }
  Replayed replayed{counterexample_of(front_end, question, *told), ending.is_violation()};
  replayed.told.is_smallest = replayed.told.replays = true;  // as far as this run tells
  return replayed;
}

}  // namespace crashcut::search
