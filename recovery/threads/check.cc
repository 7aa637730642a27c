#include "recovery/threads/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "recovery/inprocess/front_end.h"
#include "recovery/run_token.h"
#include "recovery/threads/crashes.h"
#include "recovery/threads/divergence.h"
#include "recovery/threads/joint_program.h"
#include "recovery/threads/main_result.h"
#include "recovery/threads/result.h"
#include "recovery/threads/symbols.h"
#include "scheduler/deepening.h"

namespace crashcut::recovery {
namespace {

using result::Failure;
using scheduler::Execution;
using scheduler::runtime::Details;
using scheduler::runtime::FindingKind;
using scheduler::runtime::NameTable;
using scheduler::runtime::ToolError;

using Clock = std::chrono::steady_clock;

constexpr const char* kNotRepeatable =
    "The program is not repeatable: under the same schedule it did something else than before. Something that crashcut "
    "does not see decides what it does: a data race, an atomic variable that is not instrumented, the contents of a "
    "file.";

// Random schedules that are tried where no bound says how many.
constexpr std::uint64_t kRandomMost = 1000;

// How the schedules are found. Where a program does something else under a schedule than was foreseen, the next way
// follows.
enum class Way {
  kAsked,   // with the reduction that was asked for
  kSource,  // source sets do not foresee what comes after the step that they turn round
  kAll,     // every order of the operations: threads may meet in variables that are not seen
  kRandom,  // schedules are not repeated at all
};

Failure failure_of(const ToolError& error) {
  return {error.is_users_fault ? result::Blame::kUser : result::Blame::kTool, error.sentence};
}

std::vector<scheduler::ActorId> schedule_of(const Execution& execution) {
  std::vector<scheduler::ActorId> schedule;
  for (const scheduler::Step& step : execution.steps) schedule.push_back(step.actor);
  return schedule;
}

bool is_same_finding(const Details& a, const Details& b) {
  return a.race.has_value() == b.race.has_value() && a.kind == b.kind && a.number == b.number && a.actor == b.actor &&
         a.text == b.text;
}

JointProgram::Setup replay_setup(const std::vector<std::uint64_t>& racy, bool is_loud) {
  return {.is_loud = is_loud, .has_details = true, .racy_count = static_cast<std::uint32_t>(racy.size())};
}

class Checker {
 public:
  // `rest`: of an earlier search, to go on with; null: from the beginning.
  Checker(const ThreadPlan& plan, const ThreadHooks& hooks, const ThreadRest* rest)
      : plan_(plan), hooks_(hooks), before_(rest) {
    if (rest == nullptr) return;
    is_opaque_ = rest->is_opaque;
    is_instrumented_ = rest->is_instrumented;
    racy_ = rest->racy;
    names_.set_actors(rest->actors);
    names_.set_racy(racy_);
  }

  // What is learned of the program on the way may undo what the search took for granted: then it begins again.
  ThreadResult run() {
    const std::uint32_t most = plan_.bounds.preemptions_most;
    // Few preemptions find most bugs: schedules with none first, then one, and so on, each time all of them.
    preemptions_ = before_ != nullptr ? before_->preemptions : most != scheduler::kNoPreemptionBound ? 0 : most;
    while (true) {
      ThreadResult result = run_once();
      if (next_way_ && !begins_again_) {
        go_on_another_way(std::move(result));
        continue;
      }
      if (!begins_again_) add_earlier_ways(result);
      const bool is_done = result.verdict == result::Verdict::kViolation ||
                           result.search.bound != scheduler::BoundHit::kPreemptions || preemptions_ == most;
      if (!begins_again_ && is_done) return result;
      if (!begins_again_) ++preemptions_;
      spent_s_ += result.search.seconds;
      result_ = {};
      executions_ = 0;
      forget_search();
    }
  }

 private:
  ThreadResult run_once() {
    result_.is_opaque = is_opaque_;
    begins_again_ = false;
    next_way_.reset();
    diverged_.reset();
    result_.is_instrumented = is_instrumented_;
    result_.races = racy_.size();
    std::vector<std::unique_ptr<JointProgram>> programs;
    std::vector<scheduler::Program*> workers;
    for (std::uint32_t i = 0; i < plan_.jobs; ++i) {
      programs.push_back(std::make_unique<JointProgram>(plan_, names_,
                                                        JointProgram::Setup{.is_opaque = is_opaque_,
                                                                            .has_digest = plan_.merges_logs,
                                                                            .is_watching = true,
                                                                            .racy_count = racy_count(),
                                                                            .stop = hooks_.stop}));
      workers.push_back(programs.back().get());
    }
    result_.has_recover = programs[0]->session().has_recover();
    result_.is_resumed = before_ != nullptr;
    began_ = Clock::now();
    scheduler::SearchSetup setup;
    setup.reduction = way_ == Way::kSource ? scheduler::ReductionName::kSource : plan_.reduction;
    // Foresight takes for granted that there are no data races; here they are looked for.
    setup.has_foresight = plan_.has_foresight && !is_instrumented_;
    setup.bounds = plan_.bounds;
    setup.bounds.preemptions_most = preemptions_;
    const double share = way_ == Way::kSource ? 0.5 : 1;  // every order is to have its turn after it
    double& time_s = setup.bounds.time_most_s;
    if (time_s > 0) time_s = std::max((time_s - spent_s_) * share, 0.001);
    std::uint64_t& most = setup.bounds.executions_most;
    if (most > 0) most -= std::min(earlier_.executions, most - 1);
    setup.on_execution = [&](const Execution& execution) {
      begins_again_ = begins_again_ || learn(execution, programs);
      return !begins_again_ && note(execution);
    };
    setup.on_progress = hooks_.on_progress;
    setup.stop = hooks_.stop;
    if (before_ != nullptr) setup.rest = &before_->sketch;
    if (go_on_crashing(*programs[0])) {
      if (before_ == nullptr || !before_->sketch.nodes.empty()) {
        result_.search = scheduler::search_deepening(workers, setup);
      } else {
        result_.search.bound = scheduler::bound_of(result_.search.rest = before_->sketch);
      }
    } else {
      result_.search.rest = before_->sketch;
    }
    result_.ignores_result = plan_.ignores_result;
    for (const auto& program : programs) {
      result_.ignores_result = result_.ignores_result || program->program().has_no_result();
      result_.restored += program->program().restored_count();
      result_.forked += program->program().forked_count();
    }
    if (crashes_) {
      result_.explored += crashes_->counts().explored;
      result_.merged += crashes_->counts().merged;
    }
    // What shows that atomic variables are not seen may be the first thing that does not follow its schedule.
    begins_again_ = begins_again_ || (result_.search.diverged && learn(result_.search.divergence, programs));
    if (begins_again_) return std::move(result_);
    if (result_.search.bound != scheduler::BoundHit::kStopped && !result_.finding) compare_first(*programs[0]);
    if (result_.search.diverged)
      diverged_ = {result_.search.diverged_at, result_.search.expected, result_.search.divergence, true};
    if (diverged_ && race_) {
      result_.finding = race_;
      result_.violations = std::max<std::uint64_t>(result_.violations, 1);
      result_.is_after_race = true;
    } else if (diverged_) {
      note_divergence(*programs[0]);
    } else if (way_ == Way::kSource && !ends_with_finding()) {
      // It tried other orders, but not all of them.
      if (result_.search.bound != scheduler::BoundHit::kStopped && !is_late()) next_way_ = Way::kAll;
      if (result_.search.bound == scheduler::BoundHit::kNone)
        result_.search.bound = scheduler::BoundHit::kNotRepeatable;
      result_.search.rest.nodes.clear();
    }
    if (next_way_) return std::move(result_);
    note_meeting();
    const bool is_bounded = result_.has_met || result_.search.bound != scheduler::BoundHit::kNone ||
                            result_.crash_bound != result::Bound::kNone;
    const bool is_violated =
        result_.finding || result_.tally.violations > 0 || (before_ != nullptr && before_->violations > 0);
    result_.verdict = is_violated  ? result::Verdict::kViolation
                      : is_bounded ? result::Verdict::kBounded
                                   : result::Verdict::kVerified;
    note_rest();
    return std::move(result_);
  }

  // Where atomic variables are not seen, every order of the calls is not every order.
  void note_meeting() {
    const auto meeting = names_.meeting();
    result_.has_met = meeting || (before_ != nullptr && before_->has_met);
    result_.may_meet = meeting && !meeting->is_certain;
    if (!meeting || meeting->file.empty()) return;
    const std::string name = Symbols::of(meeting->file).name_of_function(meeting->address, 0);
    const std::string file = meeting->file.substr(meeting->file.rfind('/') + 1);
    result_.met_in = name.empty() ? file : fmt::format("{} ({})", name, file);
  }

  // Branches show whether a program does the same again up to where they begin. What it does after the last of them,
  // the first execution run once more shows.
  void compare_first(JointProgram& program) {
    if (!first_) return;
    scheduler::RunRequest request;
    request.prefix = schedule_of(*first_);
    request.ends_with_prefix = true;
    const Execution again = program.run(request);
    if (again.ending != scheduler::Ending::kStopped) compare(*first_, again);
  }

  void compare(const Execution& expected, const Execution& found) {
    const auto step = first_difference(expected, found);
    if (!step) return;
    diverged_ = {*step, std::nullopt, found, false};
    if (*step < expected.steps.size()) diverged_->expected = expected.steps[*step];
  }

  bool ends_with_finding() const { return result_.finding && !plan_.goes_on; }

  bool is_late() const {
    if (hooks_.stop != nullptr && hooks_.stop->load()) return true;
    if (plan_.bounds.time_most_s > 0 &&
        spent_s_ + std::chrono::duration<double>(Clock::now() - began_).count() >= plan_.bounds.time_most_s)
      return true;
    return plan_.bounds.executions_most != 0 &&
           earlier_.executions + result_.search.executions >= plan_.bounds.executions_most;
  }

  // The program did something else than before: says what, and goes on another way. What was found is kept.
  void note_divergence(JointProgram& program) {
    if (before_ != nullptr && executions_ == 0) throw ToolError{true, kNotRepeatable};
    const Execution& found = diverged_->found;
    is_by_order_ =
        is_by_order_ && diverged_->is_foreseen && first_ && repeats(program, *first_) && repeats(program, found);
    if (result_.not_repeatable.empty()) result_.not_repeatable = describe(program, *diverged_);
    // What came instead was run to its end, and is judged like any other.
    if (result_.search.diverged && found.ending != scheduler::Ending::kDiverged &&
        found.ending != scheduler::Ending::kCutShort) {
      ++result_.search.executions;
      result_.search.transitions += found.steps.size();
      note(found);
    }
    result_.search.bound = scheduler::BoundHit::kNotRepeatable;
    const std::uint64_t unstirred_waits = result_.search.rest.unstirred_waits;
    result_.search.rest = {};
    result_.search.rest.unstirred_waits = unstirred_waits;
    if (ends_with_finding() || is_late()) return;
    const bool has_other_ways = is_by_order_ && !is_opaque_ && preemptions_ == scheduler::kNoPreemptionBound &&
                                plan_.reduction != scheduler::ReductionName::kNone;
    if (has_other_ways && way_ == Way::kAsked && plan_.reduction == scheduler::ReductionName::kOptimal) {
      next_way_ = Way::kSource;
    } else if (has_other_ways) {
      next_way_ = Way::kAll;
    } else {
      run_by_chance(program);
    }
  }

  // Whether the schedule, run again, leads to the same. Then the program is repeatable, and what was foreseen was
  // wrong: threads meet in variables that are not seen, and an order that should make no difference makes one.
  bool repeats(JointProgram& program, const Execution& found) const {
    constexpr int kTimes = 3;
    for (int i = 0; i < kTimes; ++i) {
      scheduler::RunRequest request;
      request.prefix = schedule_of(found);
      request.ends_with_prefix = true;
      const Execution again = program.run(request);
      const bool is_cut = found.ending == scheduler::Ending::kDiverged;
      const auto step = first_difference(found, again);
      if (step && !(is_cut && *step == found.steps.size())) return false;
    }
    return true;
  }

  void run_by_chance(JointProgram& program) {
    way_ = Way::kRandom;
    const bool is_bounded = plan_.bounds.time_most_s > 0 || plan_.bounds.executions_most != 0;
    for (std::uint64_t seed = 1; !is_late() && (is_bounded || seed <= kRandomMost); ++seed) {
      scheduler::RunRequest request;
      request.depth_most = plan_.bounds.depth_most;
      request.seed = seed;
      const Execution execution = program.run(request);
      if (execution.ending == scheduler::Ending::kStopped) return;
      ++result_.random_executions;
      ++result_.search.executions;
      result_.search.transitions += execution.steps.size();
      if (!note(execution)) break;
    }
    result_.search.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  }

  struct Diverged {
    std::size_t step;
    std::optional<scheduler::Step> expected;
    Execution found;
    bool is_foreseen;  // from executions under other schedules
  };
  // An execution tells addresses and callers only if it is asked to, so the schedule is run again: in a new process,
  // where it may do the same again, and in one of the search's, where it may do something else again.
  std::string describe(JointProgram& program, const Diverged& diverged) {
    ThreadFinding found;
    found.execution = diverged.found;
    found.actors = names_.actors();
    scheduler::RunRequest request;
    request.prefix = schedule_of(diverged.found);
    request.ends_with_prefix = true;
    if (const auto* details = dynamic_cast<const Details*>(diverged.found.note.get())) found.details = *details;
    auto addresses = found.details.addresses;
    const auto add_addresses = [&](const Details& details) {
      addresses.insert(addresses.end(), details.addresses.begin(), details.addresses.end());
    };
    try {
      // The table of names is the search's, so that the same objects have the same numbers.
      JointProgram again(plan_, names_, replay_setup(racy_, false));
      const Execution execution = again.run(request);
      if (const auto* details = dynamic_cast<const Details*>(execution.note.get())) found.details = *details;
      found.details.pending_callers.clear();
      if (const auto same = first_difference(diverged.found, execution)) {
        found.details.callers.resize(std::min(found.details.callers.size(), *same));
        found.details.texts.resize(std::min(found.details.texts.size(), *same));
      }
      add_addresses(found.details);
      const Execution other = program.run(request);
      if (const auto* details = dynamic_cast<const Details*>(other.note.get())) add_addresses(*details);
    } catch (const ToolError&) {
      // The text then has fewer names.
    }
    found.details.addresses = std::move(addresses);
    return divergence_text(plan_, diverged.step, diverged.expected, found, is_by_order_);
  }

  // What was found and counted stays; the search begins anew.
  void go_on_another_way(ThreadResult result) {
    way_ = *next_way_;
    if (way_ == Way::kAll) is_opaque_ = true;
    earlier_.executions += result.search.executions;
    earlier_.asleep += result.search.asleep;
    earlier_.foreseen += result.search.foreseen;
    earlier_.transitions += result.search.transitions;
    earlier_.seconds += result.search.seconds;
    spent_s_ += result.search.seconds;
    result_ = std::move(result);
    result_.search = {};
    result_.crash_bound = result::Bound::kNone;
    forget_search();
  }

  void add_earlier_ways(ThreadResult& result) const {
    result.search.executions += earlier_.executions;
    result.search.asleep += earlier_.asleep;
    result.search.foreseen += earlier_.foreseen;
    result.search.transitions += earlier_.transitions;
    result.search.seconds += earlier_.seconds;
  }

  void forget_search() {
    first_.reset();
    before_ = nullptr;
    uncrashed_.clear();
    crashes_.reset();
  }

  // Counts of both searches, and what is left of this one.
  void note_rest() {
    scheduler::SearchResult& search = result_.search;
    if (before_ != nullptr) {
      search.executions += before_->executions;
      result_.violations += before_->violations;
      result_.assumed_away += before_->assumed_away;
      search.asleep += before_->asleep;
      search.foreseen += before_->foreseen;
      search.transitions += before_->transitions;
      search.seconds += before_->seconds;
    }
    const bool ends_with_finding = result_.verdict == result::Verdict::kViolation && !plan_.goes_on;
    if (ends_with_finding || (search.rest.nodes.empty() && uncrashed_.empty())) return;
    result_.rest = ThreadRest{search.rest,        names_.actors(),      racy_,           is_opaque_,
                              is_instrumented_,   plan_.ignores_result, result_.has_met, preemptions_,
                              search.executions,  search.asleep,        search.foreseen, search.transitions,
                              result_.violations, result_.assumed_away, search.seconds,  uncrashed_};
  }

  // The execution in whose recoveries the earlier search was stopped. False where this one is to end there too.
  bool go_on_crashing(JointProgram& program) {
    if (before_ == nullptr || before_->uncrashed.empty()) return true;
    scheduler::RunRequest request;
    request.prefix = before_->uncrashed;
    request.ends_with_prefix = true;
    const Execution execution = program.run(request);
    if (execution.ending == scheduler::Ending::kStopped) {
      result_.crash_bound = result::Bound::kInterrupt;
      uncrashed_ = before_->uncrashed;
      return false;
    }
    if (execution.steps.size() != before_->uncrashed.size()) throw ToolError{true, kNotRepeatable};
    return crash(execution);
  }

  // Whether the search must begin again.
  bool learn(const Execution& execution, const std::vector<std::unique_ptr<JointProgram>>& programs) {
    const auto is_instrumented = [](const auto& program) { return program->program().is_instrumented(); };
    if (!is_instrumented_ && std::any_of(programs.begin(), programs.end(), is_instrumented))
      return is_instrumented_ = true;
    // A futex shows that threads meet in atomic variables, and so does a thread that runs on until another has taken a
    // step. Where these are not seen, what looked independent may not be.
    if (!is_opaque_ && std::any_of(execution.steps.begin(), execution.steps.end(), is_opaque)) return is_opaque_ = true;
    if (!plan_.goes_on || names_.racy().size() == racy_.size()) return false;
    if (const auto* details = dynamic_cast<const Details*>(execution.note.get()); !race_ && details != nullptr) {
      race_ = ThreadFinding{execution, *details, names_.actors(),     executions_ + 1, false, racy_,
                            {},        0,        plan_.ignores_result};
    }
    racy_ = names_.racy();
    return true;
  }

  // False where the search is to end.
  bool note(const Execution& execution) {
    return note_finding(execution) && !(is_livelock_known() && executions_ >= look_until_);
  }

  // Threads that go round for good may be meant to, and another schedule may show what is not. So a livelock does not
  // end the search at once.
  bool is_livelock_known() const {
    return !plan_.goes_on && result_.finding && result_.finding->details.kind == FindingKind::kLivelock;
  }

  bool note_finding(const Execution& execution) {
    ++executions_;
    if (!first_) first_ = execution;
    for (const scheduler::Step& s : execution.steps)
      result_.threads_most = std::max<std::uint64_t>(result_.threads_most, index(s.actor) + 1);
    result_.left_running = std::max(result_.left_running, execution.left_running);
    result_.left_executions += execution.left_running > 0 ? 1 : 0;
    const auto* details = dynamic_cast<const Details*>(execution.note.get());
    if (details == nullptr || details->kind == FindingKind::kNone) {
      if (!scheduler::is_assumed_away(execution.pending)) return !result_.has_recover || crash(execution);
      ++result_.assumed_away;
      return true;
    }
    ++result_.violations;
    const bool is_better = !result_.finding || (is_livelock_known() && details->kind != FindingKind::kLivelock) ||
                           (result_.finding->details.kind == details->kind &&
                            execution.steps.size() < result_.finding->execution.steps.size());
    constexpr std::uint64_t kLookOn = 1000;
    if (!result_.finding) look_until_ = executions_ + kLookOn;
    const ThreadFinding found{execution, *details, names_.actors(),     executions_, false, racy_,
                              {},        0,        plan_.ignores_result};
    if (is_better) result_.finding = found;
    for (const std::string& text : finding_texts(found)) note_kind(found, text);
    if (is_livelock_known()) return true;
    if (!plan_.goes_on) return false;
    // Who hangs is switched off, too: what it wrote up to there is crashed like all else.
    return !result_.has_recover || execution.ending == scheduler::Ending::kCutShort || crash(execution);
  }

  double seconds_left() const {
    if (plan_.bounds.time_most_s <= 0) return 0;
    const double used = std::chrono::duration<double>(Clock::now() - began_).count();
    return std::max(plan_.bounds.time_most_s - used, 0.001);
  }

  search::Hooks crash_hooks() {
    search::Hooks hooks;
    hooks.is_interrupted = [this] { return hooks_.stop != nullptr && hooks_.stop->load(); };
    return hooks;
  }

  // The states that a crash can leave of what the execution wrote. False where the search is to end.
  bool crash(const Execution& execution) {
    const std::uint64_t most = plan_.crash.max_recoveries;
    if (most != 0 && result_.tally.recoveries >= most) {
      result_.crash_bound = result::Bound::kRecoveries;
      uncrashed_ = schedule_of(execution);
      return false;
    }
    if (!crashes_)
      crashes_.emplace(plan_, names_, JointProgram::Setup{.is_opaque = is_opaque_, .racy_count = racy_count()},
                       crash_hooks());
    std::optional<search::Found> found;
    try {
      found = crashes_->explore(execution, most == 0 ? 0 : most - result_.tally.recoveries, seconds_left());
    } catch (const NotRepeatable& error) {
      // Under random schedules none may be repeatable: then it stays without its crashes.
      if (way_ == Way::kRandom) return true;
      compare(error.expected, error.found);
      return false;
    }
    if (!found) return true;
    result_.tally.add(found->tally);
    const result::Bound bound = found->result.bound;
    const bool is_violation = found->result.verdict == result::Verdict::kViolation;
    if (bound != result::Bound::kNone) {
      result_.crash_bound = bound;
      uncrashed_ = schedule_of(execution);
    }
    if (is_violation) note_crash(execution, *found);
    return bound == result::Bound::kNone && (!is_violation || plan_.goes_on);
  }

  void note_crash(const Execution& execution, const search::Found& found) {
    ++result_.violations;
    if (!found.result.counterexample) {
      result_.unexplained = found.result.unexplained;
      return;
    }
    const bool is_better = !result_.finding ||
                           (result_.finding->crash && execution.steps.size() < result_.finding->execution.steps.size());
    Details details;
    if (const auto* known = dynamic_cast<const Details*>(execution.note.get())) details = *known;
    ThreadFinding crash{execution,
                        details,
                        names_.actors(),
                        executions_,
                        false,
                        racy_,
                        found.result.counterexample,
                        found.fingerprint,
                        plan_.ignores_result,
                        is_instrumented_ && plan_.reduction != scheduler::ReductionName::kNone};
    crash.crash_path = found.path;
    note_kind(crash, finding_text(crash));
    if (is_better) result_.finding = crash;
  }

  void note_kind(const ThreadFinding& found, const std::string& text) {
    auto it = std::find_if(result_.kinds.begin(), result_.kinds.end(),
                           [&](const ThreadResult::Kind& kind) { return kind.text == text; });
    constexpr std::size_t kKindsMost = 100;
    if (it == result_.kinds.end()) {
      if (result_.kinds.size() == kKindsMost) return;
      it = result_.kinds.insert(it, {text, found, 0});
    } else if (found.execution.steps.size() < it->finding.execution.steps.size()) {
      it->finding = found;
    }
    ++it->count;
  }

  std::uint32_t racy_count() const { return static_cast<std::uint32_t>(racy_.size()); }

  static bool is_opaque(const scheduler::Step& step) { return step.operation.is_opaque(); }

  struct Counts {
    std::uint64_t executions = 0, asleep = 0, foreseen = 0, transitions = 0;
    double seconds = 0;
  };

  const ThreadPlan& plan_;
  const ThreadHooks& hooks_;
  const ThreadRest* before_;
  std::vector<scheduler::ActorId> uncrashed_;  // ThreadRest
  std::uint32_t preemptions_ = scheduler::kNoPreemptionBound;
  double spent_s_ = 0;  // in rounds before this one
  bool begins_again_ = false, is_opaque_ = false, is_instrumented_ = false;
  std::vector<std::uint64_t> racy_;
  NameTable names_;
  ThreadResult result_{};
  Way way_ = Way::kAsked;
  std::optional<Way> next_way_;
  std::optional<Diverged> diverged_;
  Counts earlier_;           // of searches that went another way
  bool is_by_order_ = true;  // all that diverged did so by an order that should make no difference
  std::uint64_t executions_ = 0, look_until_ = 0;
  std::optional<Execution> first_;
  std::optional<Crashes> crashes_;
  std::optional<ThreadFinding> race_;  // the first, where the search began again to follow it
  Clock::time_point began_;
};

}  // namespace

// A data race ended the execution: what comes of it if the program goes on, as far as it can be followed.
static void follow_race(const ThreadPlan& plan, ThreadFinding& finding) try {
  NameTable names;
  names.set_actors(finding.actors);
  ThreadPlan impatient = plan;
  impatient.step_limit_s = std::min(plan.step_limit_s, 1.0);  // a thread that hangs then is no news
  JointProgram program(impatient, names, {.has_details = true});
  scheduler::RunRequest request;
  request.prefix = schedule_of(finding.execution);
  request.goes_on_after_race = true;
  request.turn_most = scheduler::kTurn;
  const Execution execution = program.run(request);
  const auto* details = dynamic_cast<const Details*>(execution.note.get());
  const bool has_failed = details != nullptr && details->race && details->kind != FindingKind::kRace &&
                          details->kind != FindingKind::kNoProgress;
  if (!has_failed || execution.ending == scheduler::Ending::kDiverged ||
      execution.ending == scheduler::Ending::kTooLong)
    return;
  finding.execution = execution;
  finding.details = *details;
  finding.actors = names.actors();
} catch (const ToolError&) {
}

// Runs what was found once more.
static void replay_finding(const ThreadPlan& plan, ThreadFinding& finding) {
  const std::vector<scheduler::ActorId> schedule = schedule_of(finding.execution);
  if (finding.crash) {
    const auto again =
        replay_crash(plan, finding.actors, finding.racy, schedule, {finding.fingerprint, finding.crash_path}, false);
    const auto failure_of = [](const ThreadFinding& found) {
      const result::Finding& failure = found.crash->finding;
      return std::tie(failure.kind, failure.code, failure.message);
    };
    finding.replays = again && failure_of(*again) == failure_of(finding);
    if (again) finding.details = again->details;  // in words, too
  } else {
    const auto again = replay_threads(plan, finding.actors, finding.racy, schedule, false);
    finding.replays = again && is_same_finding(again->details, finding.details);
    if (finding.replays) finding.details = again->details;
  }
}

// A finding that is no more than what main() returned, where that means nothing: main() is declared to return nothing,
// or returns something else under the same schedule.
static bool is_meaningless_result(const ThreadPlan& plan, ThreadFinding finding) {
  if (finding.crash || finding.details.kind != FindingKind::kExitCode || !finding.details.is_result) return false;
  if (has_no_result(plan.executable, finding.details.main_at - finding.details.program_base)) return true;
  replay_finding(plan, finding);
  return !finding.replays;
}

tl::expected<ThreadResult, Failure> check_threads(const ThreadPlan& asked, const ThreadHooks& hooks,
                                                  const ThreadRest* rest) try {
  ThreadPlan plan = asked;
  if (rest != nullptr) plan.ignores_result = rest->ignores_result;
  ThreadResult result = Checker(plan, hooks, rest).run();
  const auto is_meaningless = [&](const ThreadResult::Kind& kind) { return is_meaningless_result(plan, kind.finding); };
  if (!plan.ignores_result && std::any_of(result.kinds.begin(), result.kinds.end(), is_meaningless)) {
    plan.ignores_result = true;
    if (plan.bounds.time_most_s > 0)
      plan.bounds.time_most_s = std::max(plan.bounds.time_most_s - result.search.seconds, 0.001);
    result = Checker(plan, hooks, rest).run();
  }
  if (result.finding) {
    ThreadFinding& finding = *result.finding;
    if (!plan.goes_on && !finding.crash && finding.execution.ending == scheduler::Ending::kCutShort &&
        finding.details.kind == FindingKind::kRace) {
      follow_race(plan, finding);
      result.kinds.clear();
      for (const std::string& text : finding_texts(finding)) result.kinds.push_back({text, finding, 1});
    }
    replay_finding(plan, finding);
  }
  return result;
} catch (const ToolError& error) {
  return tl::unexpected(failure_of(error));
}

namespace {

tl::expected<ThreadFinding, Failure> replay_schedule(JointProgram& program, const NameTable& names,
                                                     const std::vector<scheduler::ActorId>& schedule) {
  scheduler::RunRequest request;
  request.prefix = schedule;
  request.ends_with_prefix = true;
  ThreadFinding finding;
  finding.execution = program.run(request);
  finding.details = dynamic_cast<const Details&>(*finding.execution.note);
  finding.actors = names.actors();
  finding.racy = names.racy();
  if (finding.execution.ending == scheduler::Ending::kDiverged) {
    return tl::unexpected(Failure{
        result::Blame::kUser,
        fmt::format("The replay diverged at step {}: the program did something else than when the token was made.",
                    finding.execution.steps.size() + 1)});
  }
  return finding;
}

}  // namespace

tl::expected<ThreadFinding, Failure> replay_threads(const ThreadPlan& plan,
                                                    const std::vector<scheduler::runtime::ActorName>& actors,
                                                    const std::vector<std::uint64_t>& racy,
                                                    const std::vector<scheduler::ActorId>& schedule, bool is_loud) try {
  NameTable names;
  names.set_actors(actors);
  names.set_racy(racy);
  JointProgram program(plan, names, replay_setup(racy, is_loud));
  return replay_schedule(program, names, schedule);
} catch (const ToolError& error) {
  return tl::unexpected(failure_of(error));
}

tl::expected<ThreadFinding, Failure> replay_crash(const ThreadPlan& plan,
                                                  const std::vector<scheduler::runtime::ActorName>& actors,
                                                  const std::vector<std::uint64_t>& racy,
                                                  const std::vector<scheduler::ActorId>& schedule,
                                                  const CrashReplay& crash, bool is_loud) try {
  NameTable names;
  names.set_actors(actors);
  names.set_racy(racy);
  JointProgram program(plan, names, replay_setup(racy, is_loud));
  auto finding = replay_schedule(program, names, schedule);
  if (!finding) return finding;
  program.session().read_execution();
  finding->fingerprint = program.session().execution().fingerprint;
  if (finding->fingerprint != crash.fingerprint) {
    return tl::unexpected(Failure{result::Blame::kUser,
                                  "The program wrote other things than when the token was made: it has changed since, "
                                  "or it depends on something outside the model. Run crashcut threads again."});
  }
  result::Token token = token_of("threads", plan.crash);
  token.fingerprint = crash.fingerprint;
  token.path = crash.path;
  inprocess::ProgramFrontEnd front_end(program.session(), token);
  auto replayed = search::replay(front_end, token, 0);
  if (!replayed) return tl::unexpected(replayed.error());
  finding->crash = std::move(replayed->told);
  finding->crash_path = crash.path;
  finding->is_crash_violation = replayed->is_violation;
  finding->is_loosened = program.program().is_instrumented() && plan.reduction != scheduler::ReductionName::kNone;
  return finding;
} catch (const ToolError& error) {
  return tl::unexpected(failure_of(error));
}

tl::expected<void, Failure> hold_threads(const ThreadPlan& plan,
                                         const std::vector<scheduler::runtime::ActorName>& actors,
                                         const std::vector<std::uint64_t>& racy,
                                         const std::vector<scheduler::ActorId>& schedule, std::uint32_t step,
                                         const std::function<void(int process)>& on_held) try {
  NameTable names;
  names.set_actors(actors);
  names.set_racy(racy);
  JointProgram::Setup setup = replay_setup(racy, true);
  setup.stop_at_step = step;
  JointProgram program(plan, names, setup);
  scheduler::RunRequest request;
  request.prefix = schedule;
  const int process = program.run_held(request);
  if (process == 0)
    return tl::unexpected(Failure{result::Blame::kUser, fmt::format("The program did not come to step {}.", step)});
  on_held(process);
  return {};
} catch (const ToolError& error) {
  return tl::unexpected(failure_of(error));
}

}  // namespace crashcut::recovery
