#include "recovery/threads/result.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <tuple>

#include "fusefs/unexplored.h"
#include "recovery/result/words.h"
#include "recovery/run_token.h"
#include "recovery/search/check.h"
#include "recovery/source/places.h"
#include "recovery/threads/machine_runs.h"
#include "recovery/threads/story.h"
#include "recovery/threads/token.h"
#include "scheduler/primitive.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::recovery {
namespace {

using result::Bound;
using result::count_text;
using result::or_none;
using result::Setting;
using scheduler::ReductionName;
using scheduler::runtime::FindingKind;

std::string reduction_text(ReductionName name) {
  static constexpr const char* kNames[] = {"none", "source", "optimal", "one"};
  return kNames[static_cast<std::size_t>(name)];
}

std::string kind_text(FindingKind kind) {
  static constexpr const char* kNames[] = {"none",      "deadlock", "livelock", "no progress",  "signal",
                                           "assertion", "misuse",   "exit",     "threads left", "data race"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(FindingKind::kRace) + 1);
  return kNames[static_cast<std::size_t>(kind)];
}

// A search that ends with what it has found is not bounded.
bool ends_with_finding(const ThreadPlan& plan, const ThreadResult& checked) {
  return checked.verdict == result::Verdict::kViolation && !plan.wants_all;
}

Bound bound_of(const ThreadPlan& plan, const ThreadResult& checked) {
  if (ends_with_finding(plan, checked)) return Bound::kNone;
  if (checked.crash_bound != Bound::kNone) return checked.crash_bound;
  const Bound bound = checked.search.bound;
  return bound == Bound::kNone && checked.has_met ? Bound::kUnseenAtomics : bound;
}

std::string failures_text(const ThreadPlan& plan) {
  const std::string count = count_text(plan.machines.size(), "machine", "machines");
  return plan.failures_most == 0 || plan.failing == 0
             ? count + ", of which none fails"
             : fmt::format("{}, at most {}", count, count_text(plan.failures_most, "failure", "failures"));
}

std::string schedules_text(const ThreadPlan& plan) {
  switch (plan.schedules) {
    case ThreadPlan::Schedules::kOne:
      return plan.seeds_most == 1 ? "one schedule" : fmt::format("{} single schedules", plan.seeds_most);
    case ThreadPlan::Schedules::kRandom:
      return count_text(plan.random_most, "random schedule", "random schedules");
    default:
      return "all schedules";
  }
}

// scheduler/runtime/hosts.cc has the budget.
bool has_cache_budget(const ThreadPlan& plan) {
  return plan.schedules == ThreadPlan::Schedules::kOne &&
         std::any_of(plan.region_rules.begin(), plan.region_rules.end(),
                     [](const RegionRule& rule) { return rule.is_incoherent; });
}

std::vector<Setting> bounds_of(const ThreadPlan& plan) {
  const double time_s = plan.time_limit.count();
  const bool has_preemptions = plan.preemptions_most != scheduler::kNoPreemptionBound;
  std::vector<Setting> settings = {
      {"depth", std::uint64_t{plan.depth}, fmt::format("depth {}", plan.depth)},
      {"max_executions", or_none(plan.executions_most),
       plan.executions_most == 0 ? schedules_text(plan) : fmt::format("at most {} executions", plan.executions_most)},
      {"max_recoveries", or_none(plan.max_recoveries),
       plan.max_recoveries == 0 ? "" : fmt::format("at most {} recoveries", plan.max_recoveries)},
      {"time_s", or_none(time_s), time_s > 0 ? fmt::format("at most {:g} s", time_s) : ""},
      {"steps", or_none(std::uint64_t{plan.steps_most}),
       plan.steps_most == 0 ? "" : fmt::format("at most {} a thread", count_text(plan.steps_most, "step", "steps"))},
      {"preemptions", has_preemptions ? Setting::Value(std::uint64_t{plan.preemptions_most}) : Setting::Value(nullptr),
       has_preemptions ? fmt::format("at most {}", count_text(plan.preemptions_most, "preemption", "preemptions"))
                       : ""},
      {"spurious", std::uint64_t{plan.spurious_most},
       plan.spurious_most == 0 ? "" : fmt::format("{} spurious wake-ups a thread", plan.spurious_most)},
      {"timeouts", std::uint64_t{plan.timeouts_most}},
      {"jobs", std::uint64_t{plan.jobs}, count_text(plan.jobs, "job", "jobs")},
      {"recovery_limit_s", static_cast<std::uint64_t>(plan.recovery_limit.count())}};
  const auto is_spurious = [](const Setting& setting) { return setting.name == "spurious"; };
  if (!plan.machines.empty())
    settings.insert(std::find_if(settings.begin(), settings.end(), is_spurious),
                    {"failures", std::uint64_t{plan.failures_most}, failures_text(plan)});
  return settings;
}

bool has_race_before_failure(const ThreadFinding& finding) {
  return !finding.crash && finding.details.race && finding.details.kind != FindingKind::kRace;
}

std::string crash_text(const result::Counterexample& crash) {
  const result::Finding& found = crash.finding;
  return fmt::format("{}{}", found.text, found.message.empty() ? "" : ": " + result::printable(found.message));
}

std::string name_of(const ThreadFinding& finding, scheduler::ActorId actor) {
  const std::vector<std::string> names = actor_names(finding.actors);
  return index(actor) < names.size() ? names[index(actor)] : "a thread";
}

std::string failure_text(const ThreadFinding& finding, FindingKind kind) {
  const scheduler::runtime::Details& d = finding.details;
  if (finding.crash) return fmt::format("after this interleaving and this crash {}", crash_text(*finding.crash));
  const std::string who = name_of(finding, d.actor);
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
      const std::string sender =
          d.text.empty()
              ? ""
              : fmt::format(", which {} sent", name_of(finding, static_cast<scheduler::ActorId>(std::stoul(d.text))));
      return fmt::format("{} died by {}{}", who, result::signal_text(static_cast<int>(d.number)), sender);
    }
    case FindingKind::kAssertion:
      return fmt::format("{} failed: {}", who, d.text);
    case FindingKind::kMisuse:
      return fmt::format("{} {}", who, scheduler::misuse_text(d.number));
    case FindingKind::kExitCode:
      return fmt::format("{} ended the process with exit code {}", who, d.number);
    case FindingKind::kThreadsLeft:
      return fmt::format("{} ended the process while {} {} still running", who, d.number,
                         d.number == 1 ? "thread was" : "threads were");
    case FindingKind::kRace:
      return fmt::format("data race between {} and {}", name_of(finding, d.race->first.actor),
                         name_of(finding, d.race->second.actor));
  }
  return "";
}

// One of finding_texts(), by its index.
result::Finding finding_at(const ThreadFinding& finding, std::size_t index, std::uint64_t count) {
  const bool is_race = index == 0 && has_race_before_failure(finding);
  result::Finding found;
  found.kind = finding.crash ? "crash" : kind_text(is_race ? FindingKind::kRace : finding.details.kind);
  found.subject = finding.crash ? "recovery" : "threads";
  found.text = finding_texts(finding)[index];
  found.code = finding.crash ? finding.crash->finding.code : is_race ? 0 : static_cast<int>(finding.details.number);
  found.count = count;
  return found;
}

std::vector<std::string> notes_of(const ThreadPlan& plan, const ThreadResult& checked) {
  std::vector<std::string> notes;
  if (checked.left_executions > 0 && !plan.is_strict_exit) {
    notes.push_back(fmt::format(
        "The process ended while {} still running, in {} (--strict-exit takes that for a violation).",
        checked.left_running == 1 ? "a thread was" : fmt::format("up to {} threads were", checked.left_running),
        count_text(checked.left_executions, "execution", "executions")));
  }
  if (checked.is_after_race) {
    notes.emplace_back(
        "What the data race leads to could not be followed: with its accesses as steps the program is not repeatable, "
        "since code that is not instrumented takes part.");
  }
  if (checked.races > 0)
    notes.push_back(fmt::format("Data races: {} of eight bytes.", count_text(checked.races, "place", "places")));
  if (!checked.not_repeatable.empty()) notes.push_back(fmt::format("Not as foreseen: {}", checked.not_repeatable));
  if (!plan.machines.empty() && !plan.caches)
    notes.emplace_back(
        "Memory that machines share is coherent here, and none of it is lost when a machine fails: what was still in "
        "that machine's caches is not modelled. Compiled with crashcut cc --pmem, caches and lost lines are modelled.");
  for (const std::string& file : checked.shared_files) {
    notes.push_back(fmt::format(
        "Machines share more than their memory: {} is used {}. It is a file of the real system. What machines tell one "
        "another by it is no step, and no failure changes it: bugs may be missed.",
        result::printable(file.substr(0, file.find(" by machine "))), file.substr(file.find(" by machine ") + 1)));
  }
  for (const std::string& name : checked.unused_rules)
    notes.push_back(fmt::format("No machine asked for memory of the name {}: the option for it did nothing.",
                                result::printable(name)));
  if (checked.is_resumed && plan.merges_logs)
    notes.emplace_back(
        "Since the search was resumed, recoveries were run again that are like those of executions before it.");
  return notes;
}

std::vector<std::string> not_covered(const ThreadPlan& plan, const ThreadResult& checked) {
  std::vector<std::string> sentences;
  if (plan.traps && plan.schedules == ThreadPlan::Schedules::kOne) {
    sentences.emplace_back(
        "Other schedules of the threads: --seed N is another one, --schedules random:N tries some, --schedules all all "
        "orders of what is seen of the threads. What a thread did counts as seen by every thread that goes on later, "
        "since plain accesses to ordinary memory are not seen in code that is trapped.");
  } else if (plan.traps) {
    sentences.emplace_back(
        "Orders of plain accesses to ordinary memory: these are not seen in code that is trapped, and take place "
        "together with the step before them. And what waits in store buffers: stores leave them at once.");
  } else if (plan.schedules == ThreadPlan::Schedules::kOne) {
    sentences.emplace_back(
        plan.machines.empty()
            ? "Other schedules of the threads: --seed N is another one, --schedules random:N tries some, --schedules "
              "all all."
            : "Other schedules of the threads, in which failures may show what they do not show in this one: "
              "--schedules seeds:N searches N such schedules, --schedules random:N tries single executions, "
              "--schedules all all.");
  }
  if (has_cache_budget(plan))
    sentences.emplace_back(fmt::format(
        "What more steps do that caches take by themselves, which write a line back or fetch it anew: in each "
        "execution at most {} {} taken. --cache-steps N takes more, --schedules all tries all.",
        plan.cache_steps_most, plan.cache_steps_most == 1 ? "is" : "are"));
  if (checked.has_threaded_recoveries)
    sentences.emplace_back("Other schedules of the threads of recoveries: each recovery ran by one schedule.");
  if (const auto unexplored = fusefs::unexplored_of(plan.model).sentence; !unexplored.empty())
    sentences.emplace_back(unexplored);
  if (plan.models_memory()) {
    if (plan.has_memory_steps() && !plan.traps)
      sentences.emplace_back("What code that is not instrumented does to variables.");
  } else if (checked.is_instrumented) {
    sentences.emplace_back(
        "What weaker memory than a sequentially consistent one does, and what code that is not instrumented does to "
        "variables.");
  } else {
    sentences.emplace_back(
        "Plain and atomic variables, and so data races: crashcut flags prints how to compile a program whose variables "
        "are seen.");
  }
  const std::string where = checked.met_in.empty() ? "" : fmt::format(", in {}", checked.met_in);
  if (checked.has_unseen_machine) {
    sentences.emplace_back(
        "Whether machines meet in variables of programs that are not instrumented: that is not watched. Source that is "
        "named in place of a program is compiled so that its variables are seen.");
  } else if (checked.may_meet) {
    sentences.push_back(fmt::format("Whether threads meet in atomic variables{}: there was too much to watch.", where));
  } else if (checked.has_met && !plan.traps) {
    sentences.push_back(
        fmt::format("The orders in which threads get to atomic variables that they share{}: {} tried, not what lies "
                    "between. Compiled with crashcut flags, they are seen.",
                    where, checked.is_opaque ? "every order of the calls was" : "orders of the calls were"));
  }
  if (checked.search.rest.unstirred_waits > 0) {
    sentences.push_back(
        fmt::format("Wake-ups of condition variables without a signal, in {}: --spurious {} tries more.",
                    count_text(checked.search.rest.unstirred_waits, "wait", "waits"), plan.spurious_most + 1));
  }
  if (checked.ignores_result)
    sentences.emplace_back(
        "The exit code of main(): main() returns none, or not the same under the same schedule. It was not judged.");
  return sentences;
}

// Of a program that may not come to an end: how deep was looked.
std::string deepening_text(const scheduler::SearchResult& search) {
  std::string text = "the program may not come to an end, an execution became too long and was cut. Tried: ";
  if (search.depth_whole > 0)
    text += fmt::format("every schedule in which no thread takes more than {} steps", search.depth_whole);
  if (search.depth_whole > 0 && search.depth_tried > search.depth_whole) text += ", and ";
  if (search.depth_tried > search.depth_whole)
    text += fmt::format("some in which threads take up to {} steps", search.depth_tried);
  if (search.depth_tried == 0) text += "that one only";
  return text + fmt::format(". {} tries more", search.bound == Bound::kTime         ? "A longer --time"
                                               : search.bound == Bound::kExecutions ? "A larger --max-executions"
                                                                                    : "--time SECONDS");
}

// Bounds on steps, preemptions and timeouts leave schedules out, and all others are tried. Empty: the estimate says it.
std::string coverage_text(const ThreadPlan& plan, const ThreadResult& checked, Bound bound) {
  if (bound == Bound::kNotRepeatable) {
    return checked.random_executions == 0
               ? "not all was tried"
               : fmt::format("{} of the executions were under random schedules", checked.random_executions);
  }
  if (checked.search.is_too_long) return deepening_text(checked.search);
  if (bound == Bound::kUnseenAtomics && plan.traps)
    return "every order of the calls, locked instructions, fences, and accesses to persistent memory was tried";
  if (bound == Bound::kUnseenAtomics) return "every order of the lock and thread calls that matters was tried";
  if (checked.search.fraction.likely != 1 || checked.crash_bound != Bound::kNone) return "";
  // Stopped while it looked for further schedules: the tree knows of none, and there may be many.
  if (result::is_partial(bound)) return "how much is left is not known";
  if (bound == Bound::kSteps)
    return fmt::format("every schedule was tried in which no thread takes more than {}",
                       count_text(checked.search.depth_whole, "step", "steps"));
  return "all that the bound leaves was tried";
}

result::Race race_of(const ThreadStory& story, const scheduler::runtime::Race& race) {
  result::Race told{story.variable_text(race.address), {}};
  for (const auto* side : {&race.first, &race.second}) {
    told.accesses.push_back({story.actor_text(side->actor), story.access_text(*side, race.address), side->writes,
                             side->frees, side->is_atomic, side->step, story.stack_of(*side)});
  }
  return told;
}

void add_counts(const ThreadResult& checked, result::Counts& counts) {
  counts.executions = checked.search.executions;
  counts.steps = checked.search.transitions;
  counts.foreseen = checked.search.foreseen;
  counts.asleep = checked.search.asleep;
  counts.random_executions = checked.random_executions;
  counts.assumed_away_executions = checked.assumed_away;
  counts.crashed_executions = checked.explored;
  counts.merged_executions = checked.merged;
  counts.restored_images = checked.restored;
  counts.processes = checked.forked;
  counts.violations = checked.violations;
}

}  // namespace

std::vector<std::string> finding_texts(const ThreadFinding& finding) {
  // A race may be the cause of what comes after it.
  if (has_race_before_failure(finding))
    return {failure_text(finding, FindingKind::kRace), failure_text(finding, finding.details.kind)};
  return {failure_text(finding, finding.details.kind)};
}

std::string finding_text(const ThreadFinding& finding) {
  return fmt::format("{}", fmt::join(finding_texts(finding), ", and in the same execution: "));
}

static persist::ModelSpec model_of(const ThreadPlan& plan) {
  persist::ModelSpec model = fusefs::spec_of(plan.model);
  std::string memory;
  if (plan.caches) {
    memory = "CXL memory shared by machines";
    if (plan.caches->has_global_flush) memory += ", global persistent flush";
    if (plan.caches->has_poison)
      memory += plan.caches->poison_is_value ? ", poison shows as a value" : ", poison shows as SIGBUS";
    for (const RegionRule& rule : plan.region_rules) {
      if (rule.home && *rule.home < plan.machines.size())
        memory += fmt::format(", {} is of machine {}", result::printable(rule.name), *rule.home);
      if (rule.home && *rule.home >= plan.machines.size())
        memory += fmt::format(", {} may fail", result::printable(rule.name));
      if (rule.is_incoherent) memory += fmt::format(", {} is not coherent", result::printable(rule.name));
    }
    model.settings.emplace_back("global_flush", plan.caches->has_global_flush);
    model.settings.emplace_back("poison", plan.caches->has_poison);
  } else if (!plan.machines.empty()) {
    memory = "coherent shared memory, none of it lost";
  } else if (plan.memory) {
    const persist::ModelSpec spec = plan.memory->spec();
    memory = plan.has_store_buffers ? "x86 memory with store buffers" : spec.text;
    if (!plan.has_store_buffers)
      model.settings.insert(model.settings.end(), spec.settings.begin(), spec.settings.end());
  }
  if (!memory.empty()) model.text = memory + ", files on " + model.text;
  return model;
}

result::Head head_of(const ThreadPlan& plan, const std::vector<std::string>& words) {
  result::Head head;
  head.command = command_of(plan);
  head.program = words;
  head.model = model_of(plan);
  head.settings = {{"from", plan.from_directory,
                    plan.from_directory.empty() ? "" : "disk from " + result::printable(plan.from_directory)},
                   {"reduction", reduction_text(plan.reduction), "reduction " + reduction_text(plan.reduction)}};
  head.bounds = bounds_of(plan);
  head.seed = plan.seed;
  return head;
}

result::Counterexample counterexample_of(const ThreadPlan& plan, const ThreadFinding& finding,
                                         const std::function<bool()>& is_late) {
  const ThreadStory story(plan, finding, is_late);
  result::Counterexample told = finding.crash.value_or(result::Counterexample{});
  if (plan.memory) {
    source::Names names(is_late);
    source::name_source_places(names, told.story);
  }
  told.finding = finding_at(finding, 0, 1);
  told.sentence = finding_text(finding);
  if (finding.crash && finding.crash->finding.kind == "hang" && !told.story.wait.empty())
    told.sentence += ": " + told.story.wait;
  if (has_race_before_failure(finding)) told.then = finding_at(finding, 1, 1);
  told.execution = finding.number;
  told.was_run_again = finding.was_run_again;
  told.replays = finding.replays;
  told.mends.insert(told.mends.end(), finding.mends.begin(), finding.mends.end());
  if (!finding.no_mend.empty()) told.no_mend = finding.no_mend;
  told.story.machines = static_cast<std::uint32_t>(plan.machines.size());
  told.story.schedule = schedule_steps(plan, finding, story);
  for (std::size_t i = 0; i < finding.execution.pending.size(); ++i) {
    const scheduler::Pending& p = finding.execution.pending[i];
    if (story.is_thread(p.actor) && story.is_here(p))
      told.story.waiting.push_back(
          {story.actor_text(p.actor), story.held_by(p.actor), story.waiting_text(p), story.stack_of_pending(i)});
  }
  if (finding.details.race) told.story.race = race_of(story, *finding.details.race);
  if (!finding.crash && plan.machines.empty()) {
    told.story.names.recovery = told.story.names.program = "the program";
    std::tie(told.story.output, told.story.errors) = std::tie(finding.details.output, finding.details.errors);
    told.story.output_cut = finding.details.output_cut;
    told.story.errors_cut = finding.details.errors_cut;
  }
  told.story.is_one_of_class = finding.is_loosened && !plan.models_memory();
  return told;
}

result::Result result_of(const ThreadPlan& plan, const result::Head& head, const ThreadResult& checked,
                         const std::string& crashcut, const std::function<bool()>& is_late) {
  result::Result result;
  result.head = head;
  result.execution = {{"instrumented", checked.is_instrumented},
                      {"failure_points", or_none(checked.failure_points)},
                      {"opaque", checked.is_opaque},
                      {"may_not_end", checked.search.is_too_long},
                      {"whole_depth", or_none(std::uint64_t{checked.search.depth_whole})},
                      {"unseen_atomics", checked.has_met ? Setting::Value(checked.met_in) : Setting::Value(nullptr)},
                      {"not_repeatable", or_none(checked.not_repeatable)},
                      {"resumed", checked.is_resumed}};
  result.verdict = checked.verdict;
  result.bound = bound_of(plan, checked);
  const bool is_one = plan.schedules == ThreadPlan::Schedules::kOne;
  result.scope = plan.traps && is_one      ? " for trapped code, for one schedule of the threads"
                 : plan.traps              ? " for trapped code, for all schedules"
                 : is_one                  ? " for " + schedules_text(plan) + " of the threads"
                 : plan.models_memory()    ? " for all schedules"
                 : checked.is_instrumented ? " for lock and thread calls and instrumented variables"
                                           : " for lock and thread calls; variables are not seen (crashcut flags)";
  if (has_cache_budget(plan))
    result.scope += fmt::format(", with at most {} that caches take by themselves",
                                count_text(plan.cache_steps_most, "step", "steps"));
  if (checked.has_threaded_recoveries) result.scope += ", and one schedule of the threads of recoveries";
  result.scope += fusefs::unexplored_of(plan.model).scope;
  result.explored_fraction = checked.search.fraction;
  result.coverage = coverage_text(plan, checked, result.bound);
  result.seconds = checked.search.seconds;
  add_counts(checked, result.counts);
  result.has_recoveries = checked.has_recover;
  search::add_recoveries(checked.tally, result);
  result.subjects = {"threads"};
  if (checked.has_recover) result.subjects.emplace_back("recovery");
  for (const ThreadResult::Kind& kind : checked.kinds) {
    const std::vector<std::string> texts = finding_texts(kind.finding);
    const std::size_t which = texts.size() > 1 && texts[1] == kind.text ? 1 : 0;
    result.findings.push_back(finding_at(kind.finding, which, kind.count));
    result.findings.back().token = encode(make_token(plan, kind.finding));
  }
  result.not_covered = not_covered(plan, checked);
  result.notes = notes_of(plan, checked);
  result.memory_notes = checked.notes.notes;
  result.memory_notes_left_out = checked.notes.left_out;
  result.facts = tell_machine_runs(plan, checked, is_late);
  if (checked.finding) {
    result.counterexample = counterexample_of(plan, *checked.finding, is_late);
    result.states = checked.finding->states;
    if (result.states) {
      for (result::State& state : result.states->list) state.subject = result.subjects.size() - 1;  // the recovery
    }
    if (checked.finding->replays || !checked.finding->was_run_again) {
      result.token = encode(make_token(plan, *checked.finding));
      result.replay_options = replay_options(plan);
      result.debug = fmt::format("{} gdb {}{}", crashcut, result.replay_options, result.token);
    }
  } else if (checked.verdict == result::Verdict::kViolation) {
    result.unexplained =
        checked.unexplained.empty() ? "The violations were found before the search was resumed." : checked.unexplained;
  }
  return result;
}

}  // namespace crashcut::recovery
