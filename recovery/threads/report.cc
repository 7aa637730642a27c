#include "recovery/threads/report.h"

#include <fmt/format.h>

#include <cstring>

#include "recovery/json_report.h"
#include "recovery/report.h"
#include "recovery/threads/rest.h"
#include "recovery/threads/story.h"
#include "recovery/threads/token.h"
#include "scheduler/primitive.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::recovery {
namespace {

using namespace scheduler;
using runtime::FindingKind;

const char* reduction_text(ReductionName name) {
  switch (name) {
    case ReductionName::kNone:
      return "none";
    case ReductionName::kSource:
      return "source";
    case ReductionName::kOptimal:
      return "optimal";
  }
  return "";
}

std::vector<std::string> bound_texts(const ThreadPlan& plan) {
  std::vector<std::string> texts;
  if (plan.bounds.executions_most != 0)
    texts.push_back(count_text(plan.bounds.executions_most, "execution", "executions"));
  if (plan.bounds.time_most_s > 0) texts.push_back(fmt::format("{:g} s", plan.bounds.time_most_s));
  if (plan.bounds.depth_most != 0) texts.push_back(count_text(plan.bounds.depth_most, "step", "steps") + " a thread");
  if (plan.bounds.preemptions_most != kNoPreemptionBound)
    texts.push_back(count_text(plan.bounds.preemptions_most, "preemption", "preemptions"));
  return texts;
}

const char* kind_text(FindingKind kind) {
  switch (kind) {
    case FindingKind::kNone:
      return "none";
    case FindingKind::kDeadlock:
      return "deadlock";
    case FindingKind::kLivelock:
      return "livelock";
    case FindingKind::kNoProgress:
      return "no progress";
    case FindingKind::kSignal:
      return "signal";
    case FindingKind::kAssertion:
      return "assertion";
    case FindingKind::kMisuse:
      return "misuse";
    case FindingKind::kExitCode:
      return "exit";
    case FindingKind::kThreadsLeft:
      return "threads left";
    case FindingKind::kRace:
      return "data race";
  }
  return "";
}

const char* bound_text(BoundHit bound) {
  switch (bound) {
    case BoundHit::kNone:
      return "";
    case BoundHit::kExecutions:
      return "max_executions";
    case BoundHit::kTime:
      return "time";
    case BoundHit::kDepth:
      return "depth";
    case BoundHit::kPreemptions:
      return "preemptions";
    case BoundHit::kTimeouts:
      return "timeouts";
    case BoundHit::kStopped:
      return "interrupt";
    case BoundHit::kCutShort:
      return "cut_short";
    case BoundHit::kNotRepeatable:
      return "not_repeatable";
    case BoundHit::kWork:
      return "work";
  }
  return "";
}

const char* bound_text(const ThreadResult& result) {
  switch (result.crash_bound) {
    case Bound::kRecoveries:
      return "max_recoveries";
    case Bound::kTime:
    case Bound::kTimeInMain:
      return "time";
    case Bound::kInterrupt:
      return "interrupt";
    case Bound::kNotRun:
      return "not_run";
    case Bound::kNone:
      break;
  }
  const char* bound = bound_text(result.search.bound);
  return *bound == 0 && result.has_met ? "unseen_atomics" : bound;
}

std::string counts_text(const SearchResult& search) {
  std::string text = fmt::format("{}, {}", count_text(search.executions, "execution", "executions"),
                                 count_text(search.transitions, "step", "steps"));
  if (search.foreseen > 0) text += fmt::format(", {} more foreseen to be like one of them", search.foreseen);
  if (search.asleep > 0) text += fmt::format(", {} cut short as redundant", search.asleep);
  return text + fmt::format(", {:.2f} s", search.seconds);
}

// "; 34 recoveries of 3 executions; 9 more executions wrote what looks the same to them"
std::string crash_counts_text(const ThreadResult& result) {
  std::string text = result.assumed_away == 0
                         ? ""
                         : fmt::format("; {} assumed away", count_text(result.assumed_away, "execution", "executions"));
  if (!result.has_recover) return text;
  text += fmt::format("; {} of {}", count_text(result.survey.recoveries(), "recovery", "recoveries"),
                      count_text(result.explored, "execution", "executions"));
  if (result.is_resumed) text += " since it was resumed";
  if (result.merged > 0) text += fmt::format(", those of {} more would be the same", result.merged);
  return text;
}

std::string crash_text(const Counterexample& crash) {
  const FailureKind& failure = crash.account.failure;
  return fmt::format("{}{}", to_text(failure), failure.message.empty() ? "" : ": " + printable(failure.message));
}

// What the verdict is about, for its first line: "verified for lock and thread calls; variables are not seen (crashcut
// flags)".
std::string scope_text(const ThreadResult& result) {
  return result.is_instrumented ? " for lock and thread calls and instrumented variables"
                                : " for lock and thread calls; variables are not seen (crashcut flags)";
}

}  // namespace

static bool has_race_before_failure(const ThreadFinding& finding) {
  return !finding.crash && finding.details.race && finding.details.kind != FindingKind::kRace;
}

static std::string failure_text(const ThreadFinding& finding, FindingKind kind) {
  const runtime::Details& d = finding.details;
  if (finding.crash) return fmt::format("after this interleaving and this crash {}", crash_text(*finding.crash));
  const auto name_of = [&](ActorId actor) {
    if (index(actor) == 0) return std::string("main");
    std::uint32_t number = 0;
    for (std::uint32_t i = 1; i <= index(actor) && i < finding.actors.size(); ++i)
      number += runtime::Names::is_thread(finding.actors[i].ordinal) ? 1 : 0;
    return fmt::format("thread {}", number);
  };
  const std::string who = name_of(d.actor);
  switch (kind) {
    case FindingKind::kNone:
      return "nothing was found";
    case FindingKind::kDeadlock:
      return "deadlock";
    case FindingKind::kLivelock:
      return "livelock: all that is left loops and waits";
    case FindingKind::kNoProgress:
      return fmt::format("{} runs on without an operation that others could notice", who);
    case FindingKind::kSignal: {
      const char* abbreviation = sigabbrev_np(static_cast<int>(d.number));
      const std::string sender =
          d.text.empty() ? "" : ", which " + name_of(static_cast<ActorId>(std::stoul(d.text))) + " sent";
      return fmt::format(
          "{} died by {}{}", who,
          abbreviation != nullptr ? fmt::format("SIG{}", abbreviation) : fmt::format("signal {}", d.number), sender);
    }
    case FindingKind::kAssertion:
      return fmt::format("{} failed: {}", who, d.text);
    case FindingKind::kMisuse:
      return fmt::format("{} {}", who, misuse_text(d.number));
    case FindingKind::kExitCode:
      return fmt::format("{} ended the process with exit code {}", who, d.number);
    case FindingKind::kThreadsLeft:
      return fmt::format("{} ended the process while {} {} still running", who, d.number,
                         d.number == 1 ? "thread was" : "threads were");
    case FindingKind::kRace:
      return fmt::format("data race between {} and {}", name_of(d.race->first.actor), name_of(d.race->second.actor));
  }
  return "";
}

std::string finding_text(const ThreadFinding& finding) {
  return fmt::format("{}", fmt::join(finding_texts(finding), ", and in the same execution: "));
}

std::vector<std::string> finding_texts(const ThreadFinding& finding) {
  // A race may be the cause of what comes after it.
  if (has_race_before_failure(finding))
    return {failure_text(finding, FindingKind::kRace), failure_text(finding, finding.details.kind)};
  return {failure_text(finding, finding.details.kind)};
}

// What may be meant, and may be a mistake.
static std::vector<std::string> notes(const ThreadPlan& plan, const ThreadResult& result) {
  if (result.left_executions == 0 || plan.is_strict_exit) return {};
  return {
      fmt::format("The process ended while {} still running, in {} (--strict-exit takes that for a violation).",
                  result.left_running == 1 ? "a thread was" : fmt::format("up to {} threads were", result.left_running),
                  count_text(result.left_executions, "execution", "executions"))};
}

std::vector<std::string> not_covered(const ThreadPlan& plan, const ThreadResult& result) {
  std::vector<std::string> sentences;
  if (result.is_instrumented) {
    sentences.push_back(
        "What weaker memory than a sequentially consistent one does, and what code that is not instrumented does to "
        "variables.");
  } else {
    sentences.push_back(
        "Plain and atomic variables, and so data races: crashcut flags prints how to compile a program whose variables "
        "are seen.");
  }
  const std::string where = result.met_in.empty() ? "" : fmt::format(", in {}", result.met_in);
  if (result.may_meet) {
    sentences.push_back(fmt::format("Whether threads meet in atomic variables{}: there was too much to watch.", where));
  } else if (result.has_met) {
    sentences.push_back(
        fmt::format("The orders in which threads get to atomic variables that they share{}: {} tried, not what lies "
                    "between. Compiled with crashcut flags, they are seen.",
                    where, result.is_opaque ? "every order of the calls was" : "orders of the calls were"));
  }
  if (result.search.rest.unstirred_waits > 0) {
    sentences.push_back(
        fmt::format("Wake-ups of condition variables without a signal, in {}: --spurious {} tries more.",
                    count_text(result.search.rest.unstirred_waits, "wait", "waits"), plan.spurious_most + 1));
  }
  if (result.ignores_result)
    sentences.push_back(
        "The exit code of main(): main() returns none, or not the same under the same schedule. It was not judged.");
  return sentences;
}

static std::string not_covered_text(const ThreadPlan& plan, const ThreadResult& result) {
  std::string text;
  for (const std::string& sentence : not_covered(plan, result)) text += fmt::format("Not covered: {}\n", sentence);
  for (const std::string& sentence : notes(plan, result)) text += fmt::format("Note: {}\n", sentence);
  return text;
}

static std::string race_text(const ThreadStory& story, const runtime::Race& race) {
  std::string text = "\n  The data race: nothing orders these two accesses:\n";
  for (const runtime::Race::Side* side : {&race.first, &race.second}) {
    text += fmt::format("\n    {}, after step {}\n", story.access_text(*side, race.address), side->step);
    for (const SourceLine& line : story.stack_of(*side))
      text += fmt::format("        {}{}\n", line.function,
                          line.file.empty() ? "" : fmt::format(" at {}:{}", line.file, line.line));
  }
  return text;
}

static nlohmann::json race_json(const ThreadStory& story, const runtime::Race& race) {
  nlohmann::json accesses = nlohmann::json::array();
  for (const runtime::Race::Side* side : {&race.first, &race.second}) {
    nlohmann::json stack = nlohmann::json::array();
    for (const SourceLine& line : story.stack_of(*side))
      stack.push_back({{"function", line.function}, {"file", line.file}, {"line", line.line}});
    accesses.push_back({{"thread", story.actor_text(side->actor)},
                        {"writes", side->writes},
                        {"frees", side->frees},
                        {"atomic", side->is_atomic},
                        {"step", side->step},
                        {"stack", stack}});
  }
  return {{"variable", story.variable_text(race.address)}, {"accesses", accesses}};
}

std::string report_threads_start(const std::string& command, const ThreadPlan& plan) {
  const std::vector<std::string> bounds = bound_texts(plan);
  std::string text = fmt::format("{}: reduction {}; bounds: {}; {}", command, reduction_text(plan.reduction),
                                 bounds.empty() ? "none" : fmt::format("{}", fmt::join(bounds, ", ")),
                                 count_text(plan.jobs, "job", "jobs"));
  if (plan.spurious_most > 0) text += fmt::format("; {} spurious wake-ups a thread", plan.spurious_most);
  return text + fmt::format("; files: {}\n", fusefs::describe(plan.crash.model));
}

std::vector<std::string> schedule_lines(const ThreadPlan& plan, const ThreadFinding& finding) {
  const ThreadStory story(plan, finding);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < finding.execution.steps.size(); ++i) {
    const Step& step = finding.execution.steps[i];
    const std::string place = i < finding.details.callers.size() ? story.place_text(finding.details.callers[i]) : "";
    lines.push_back(fmt::format("{:>4}  {:<12} {}{}", i + 1, story.actor_text(step.actor), story.step_text(i),
                                place.empty() ? "" : "  [" + place + "]"));
  }
  return lines;
}

std::string report_threads_finding(const ThreadPlan& plan, const ThreadFinding& finding, Detail detail) {
  const ThreadStory story(plan, finding);
  std::string text = fmt::format("violation: {}\n\n  The schedule that leads there:\n\n", finding_text(finding));
  for (const std::string& line : schedule_lines(plan, finding)) text += "    " + line + "\n";
  if (!finding.execution.pending.empty()) {
    text += "\n  Where the others stand:\n\n";
    for (const Pending& p : finding.execution.pending) {
      if (!story.is_thread(p.actor)) continue;
      const std::vector<std::string> held = story.held_by(p.actor);
      text += fmt::format("          {:<12} {}{}\n", story.actor_text(p.actor),
                          held.empty() ? "" : fmt::format("holds {}; ", fmt::join(held, ", ")), story.waiting_text(p));
    }
  }
  if (finding.details.race) text += race_text(story, *finding.details.race);
  if (finding.crash) {
    text += "\n  Then the power went";
    if (finding.is_loosened)
      text +=
          " (calls that nothing but the journal orders stand in one of their orders; the disk may have had the other)";
    text += fmt::format(":\n\n{}", report_account(finding.crash->account, detail));
  }
  return text;
}

std::string report_threads_kinds(const ThreadPlan& plan, const ThreadResult& result, const std::string& crashcut) {
  if (result.kinds.size() < 2) return "";
  std::string text = "  All kinds of violation, in how many executions, and the shortest of each:\n\n";
  for (const ThreadResult::Kind& kind : result.kinds) {
    text += fmt::format("    {:>6}  {}\n            {} replay {}\n", kind.count, kind.text, crashcut,
                        encode(make_token(plan, kind.finding)));
  }
  return text + "\n";
}

// Of a program that may not come to an end: how deep was looked.
static std::string deepening_text(const SearchResult& search) {
  std::string text = "the program may not come to an end: an execution became too long and was cut.\nTried: ";
  if (search.depth_whole > 0)
    text += fmt::format("every schedule in which no thread takes more than {} steps", search.depth_whole);
  if (search.depth_whole > 0 && search.depth_tried > search.depth_whole) text += ", and ";
  if (search.depth_tried > search.depth_whole)
    text += fmt::format("some in which threads take up to {} steps", search.depth_tried);
  if (search.depth_tried == 0) text += "that one only";
  return text + fmt::format(". {} tries more", search.bound == BoundHit::kTime         ? "A longer --time"
                                               : search.bound == BoundHit::kExecutions ? "A larger --max-executions"
                                                                                       : "--time SECONDS");
}

// Bounds on depth, preemptions and timeouts leave schedules out, and all others are tried.
static std::string covered_text(const ThreadResult& result) {
  if (result.search.bound == BoundHit::kNotRepeatable) {
    return result.random_executions == 0 ? "and not all was tried"
                                         : fmt::format("{} of them under random schedules", result.random_executions);
  }
  if (result.search.is_too_long) return deepening_text(result.search);
  if (bound_text(result) == std::string_view("unseen_atomics"))
    return "every order of the lock and thread calls that matters";
  const bool is_whole = result.search.fraction == 1 && result.crash_bound == Bound::kNone;
  if (is_whole && result.search.bound == BoundHit::kDepth)
    return fmt::format("every schedule in which no thread takes more than {}",
                       count_text(result.search.depth_whole, "step", "steps"));
  return is_whole ? "all that the bound leaves"
                  : fmt::format("an estimated {} of all", percent_text(result.search.fraction));
}

static std::string not_repeatable_text(const ThreadResult& result) {
  return result.not_repeatable.empty() ? "" : fmt::format("Not as foreseen: {}\n", result.not_repeatable);
}

// A search that ends with what it has found is not bounded.
static bool ends_with_finding(const ThreadPlan& plan, const ThreadResult& result) {
  return result.verdict == ThreadVerdict::kViolation && !plan.goes_on;
}

// After a violation: what is left.
static std::string rest_text(const ThreadPlan& plan, const ThreadResult& result, const std::string& crashcut) {
  if (*bound_text(result) == 0 || ends_with_finding(plan, result)) return "";
  return fmt::format("Not everything was tried: bounded ({})\n", bound_text(result)) +
         (result.rest ? fmt::format("Go on: {} threads --resume {}\n", crashcut, encode_rest(plan, *result.rest)) : "");
}

std::string report_threads_end(const ThreadPlan& plan, const ThreadResult& result, const std::string& crashcut) {
  const std::string counts = counts_text(result.search) + crash_counts_text(result);
  switch (result.verdict) {
    case ThreadVerdict::kVerified:
      return fmt::format("verified{}: every schedule that matters{}, none failed: {}\n{}{}", scope_text(result),
                         result.has_recover ? " and every crash of it" : "", counts, not_covered_text(plan, result),
                         not_repeatable_text(result));
    case ThreadVerdict::kBounded:
      return fmt::format("bounded ({}): nothing found in {}, {}\n{}", bound_text(result), counts, covered_text(result),
                         not_covered_text(plan, result)) +
             not_repeatable_text(result) +
             (result.rest ? fmt::format("Go on: {} threads --resume {}\n", crashcut, encode_rest(plan, *result.rest))
                          : "");
    case ThreadVerdict::kViolation: {
      if (!result.finding && result.unexplained.empty()) {
        return fmt::format("violation: {} before the search was resumed, and none since, in {}\n{}",
                           count_text(result.violations, "violation", "violations"), counts,
                           rest_text(plan, result, crashcut));
      }
      if (!result.finding)
        return fmt::format("violation: a recovery failed in {}; it could not be told: {}\n", counts,
                           result.unexplained);
      std::string text = fmt::format("violation: {}; {} in {}\n", finding_text(*result.finding),
                                     count_text(result.violations, "violation", "violations"), counts);
      text += rest_text(plan, result, crashcut);
      if (result.is_after_race)
        text +=
            "What the data race leads to could not be followed: with its accesses as steps the program is not "
            "repeatable, since code that is not instrumented takes part.\n";
      if (result.races > 0)
        text += fmt::format("Data races: {} of eight bytes\n", count_text(result.races, "place", "places"));
      text += not_covered_text(plan, result) + not_repeatable_text(result);
      if (!result.finding->replays)
        return text + "It did not come again when its schedule was run again: the program is not repeatable.\n";
      const std::string token = encode(make_token(plan, *result.finding));
      return text + fmt::format("Debug: {} gdb {}\nReplay: {} replay --print {}\n", crashcut, token, crashcut, token);
    }
  }
  return "";
}

nlohmann::json threads_to_json(const ThreadPlan& plan, const ThreadResult& result, const std::string& crashcut) {
  using nlohmann::json;
  const auto or_null = [](auto value) { return value == 0 ? json(nullptr) : json(value); };
  json violation, token, replay;
  if (result.finding) {
    const ThreadFinding& finding = *result.finding;
    const ThreadStory story(plan, finding);
    json steps = json::array(), waiting = json::array();
    for (std::size_t i = 0; i < finding.execution.steps.size(); ++i) {
      const Step& step = finding.execution.steps[i];
      steps.push_back({{"thread", story.actor_text(step.actor)},
                       {"text", story.step_text(i)},
                       {"function", story.place_text(finding.details.callers[i])}});
    }
    for (const Pending& p : finding.execution.pending) {
      if (!story.is_thread(p.actor)) continue;
      waiting.push_back(
          {{"thread", story.actor_text(p.actor)}, {"holds", story.held_by(p.actor)}, {"text", story.waiting_text(p)}});
    }
    const bool is_crash = finding.crash.has_value();
    const FindingKind kind = has_race_before_failure(finding) ? FindingKind::kRace : finding.details.kind;
    json then;
    if (kind != finding.details.kind)
      then = {{"kind", kind_text(finding.details.kind)},
              {"code", finding.details.number},
              {"text", finding_texts(finding)[1]}};
    violation = {{"kind", is_crash ? "crash" : kind_text(kind)},
                 {"then", then},
                 {"code", is_crash         ? finding.crash->account.failure.code
                          : then.is_null() ? finding.details.number
                                           : 0},
                 {"text", finding_text(finding)},
                 {"execution", finding.number},
                 {"replays", finding.replays},
                 {"steps", steps},
                 {"waiting", waiting},
                 {"race", finding.details.race ? race_json(story, *finding.details.race) : json(nullptr)}};
    if (is_crash) violation["crash"] = json(counterexample_to_json(*finding.crash));
    token = encode(make_token(plan, finding));
    replay = crashcut + " replay --print " + token.get<std::string>();
  }
  json kinds = json::array();
  for (const ThreadResult::Kind& kind : result.kinds)
    kinds.push_back(
        {{"text", kind.text}, {"executions", kind.count}, {"token", encode(make_token(plan, kind.finding))}});
  const char* verdict = result.verdict == ThreadVerdict::kVerified  ? "verified"
                        : result.verdict == ThreadVerdict::kBounded ? "bounded"
                                                                    : "violation";
  return {{"format", 1},
          {"program", plan.program},
          {"arguments", plan.arguments},
          {"kinds", kinds},
          {"reduction", reduction_text(plan.reduction)},
          {"bounds",
           {{"max_executions", or_null(plan.bounds.executions_most)},
            {"time_s", or_null(plan.bounds.time_most_s)},
            {"depth", or_null(plan.bounds.depth_most)},
            {"preemptions",
             plan.bounds.preemptions_most == kNoPreemptionBound ? json(nullptr) : json(plan.bounds.preemptions_most)},
            {"spurious", plan.spurious_most},
            {"timeouts", plan.timeouts_most},
            {"jobs", plan.jobs},
            {"max_recoveries", or_null(plan.crash.max_recoveries)},
            {"crashes", plan.crash.depth},
            {"recovery_limit_s", plan.crash.recovery_limit.count()}}},
          {"verdict", verdict},
          {"exit_code", exit_code(result.verdict)},
          {"not_covered", not_covered(plan, result)},
          {"notes", notes(plan, result)},
          {"model", json(model_to_json(plan.crash.model))},
          {"from", plan.crash.from_directory.empty() ? json(nullptr) : json(plan.crash.from_directory)},
          {"bound_hit",
           *bound_text(result) == 0 || ends_with_finding(plan, result) ? json(nullptr) : json(bound_text(result))},
          {"explored_fraction", result.search.fraction},
          {"may_not_end", result.search.is_too_long},
          {"whole_depth", or_null(result.search.depth_whole)},
          {"seconds", result.search.seconds},
          {"opaque", result.is_opaque},
          {"not_repeatable", result.not_repeatable.empty() ? json(nullptr) : json(result.not_repeatable)},
          {"unseen_atomics", result.has_met ? json({{"function", result.met_in}}) : json(nullptr)},
          {"resumed", result.is_resumed},
          {"instrumented", result.is_instrumented},
          {"counts",
           {{"executions", result.search.executions},
            {"foreseen", result.search.foreseen},
            {"asleep", result.search.asleep},
            {"transitions", result.search.transitions},
            {"violations", result.violations},
            {"assumed_away_executions", result.assumed_away},
            {"crashed_executions", result.explored},
            {"merged_executions", result.merged},
            {"recoveries", result.survey.recoveries()},
            {"assumed_away", result.survey.assumed_away()},
            {"random_executions", result.random_executions},
            {"restored_images", result.restored},
            {"processes", result.forked}}},
          {"outcomes", result.has_recover ? json(outcomes_to_json(result.survey)) : json(nullptr)},
          {"violation", violation},
          {"token", token},
          {"replay", replay},
          {"resume",
           result.rest ? json(crashcut + " threads --resume " + encode_rest(plan, *result.rest)) : json(nullptr)}};
}

}  // namespace crashcut::recovery
