#include "recovery/threads/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "recovery/inprocess/front_end.h"
#include "recovery/run_token.h"
#include "recovery/threads/crashes.h"
#include "recovery/threads/divergence.h"
#include "recovery/threads/joint_program.h"
#include "recovery/threads/replay.h"
#include "recovery/threads/result.h"
#include "recovery/threads/simplest.h"
#include "recovery/threads/symbols.h"
#include "scheduler/deadlocks.h"
#include "scheduler/deepening.h"

namespace crashcut::recovery {
namespace {

using result::Bound;
using result::Failure;
using scheduler::Execution;
using scheduler::runtime::Details;
using scheduler::runtime::FindingKind;
using scheduler::runtime::NameTable;
using scheduler::runtime::ToolError;

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

class Checker {
 public:
  // `rest`: of an earlier search, to go on with; null: from the beginning.
  Checker(const ThreadPlan& plan, const ThreadHooks& hooks, const persist::Deadline& deadline, const ThreadRest* rest)
      : plan_(plan), hooks_(hooks), deadline_(deadline), before_(rest) {
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
      if (!begins_again_) result.search += earlier_;
      const bool is_done = result.verdict == result::Verdict::kViolation ||
                           result.search.bound != Bound::kPreemptions || preemptions_ == most;
      if (!begins_again_ && is_done) return result;
      if (!begins_again_) ++preemptions_;
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
    Programs programs;
    try {
      start(programs);
    } catch (const scheduler::runtime::OutOfTime&) {
      return stopped_before_it_began();
    }
    std::vector<scheduler::Program*> workers;
    for (const auto& program : programs) workers.push_back(program.get());
    result_.has_recover = plan_.machines.empty() && programs[0]->session().has_recover();
    result_.is_resumed = before_ != nullptr;
    scheduler::SearchSetup setup;
    setup.reduction = way_ == Way::kSource ? scheduler::ReductionName::kSource : plan_.reduction;
    // Foresight takes for granted that there are no data races; here they are looked for.
    setup.has_foresight = plan_.has_foresight && !is_instrumented_;
    setup.seed = plan_.crash.seed;
    setup.bounds = plan_.bounds;
    setup.bounds.preemptions_most = preemptions_;
    const double share = way_ == Way::kSource ? 0.5 : 1;  // every order is to have its turn after it
    setup.bounds.time_most_s = deadline_.seconds_left() * share;
    std::uint64_t& most = setup.bounds.executions_most;
    if (most > 0) most -= std::min(earlier_.executions, most - 1);
    setup.on_execution = [&](const Execution& execution) {
      begins_again_ = begins_again_ || learn(execution, programs);
      const bool is_to_go_on = !begins_again_ && note(execution);
      if (!is_to_go_on) has_ended_ = true;
      return is_to_go_on;
    };
    setup.on_progress = hooks_.on_progress;
    setup.stop = deadline_.stop();
    if (before_ != nullptr) setup.rest = &before_->sketch;
    if (go_on_crashing(*programs[0])) {
      if (before_ == nullptr || has_rest(before_->sketch)) {
        result_.search = scheduler::search_deepening(workers, setup);
      } else {
        result_.search.bound = scheduler::bound_of(result_.search.rest = before_->sketch);
      }
    } else {
      result_.search.rest = before_->sketch;
    }
    has_ended_ = false;
    result_.ignores_result = plan_.ignores_result;
    for (const auto& program : programs) {
      result_.ignores_result = result_.ignores_result || program->program().has_no_result();
      result_.has_unseen_machine = result_.has_unseen_machine || program->program().has_unseen_host();
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
    if (!was_stopped() && !result_.finding) compare_first(*programs[0]);
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
      if (!was_stopped() && !is_late()) next_way_ = Way::kAll;
      if (result_.search.bound == Bound::kNone) result_.search.bound = Bound::kNotRepeatable;
      result_.search.rest.nodes.clear();
    }
    if (next_way_) return std::move(result_);
    note_meeting();
    judge();
    note_rest();
    return std::move(result_);
  }

  using Programs = std::vector<std::unique_ptr<JointProgram>>;

  // One a worker. Throws ToolError.
  void start(Programs& programs) {
    JointProgram::Setup setup{
        .is_opaque = is_opaque_,
        .has_digest = plan_.merges_logs,
        .is_watching = true,
        .racy_count = racy_count(),
        .is_late = [this] { return has_ended_ || deadline_.is_over(); },
    };
    for (std::uint32_t i = 0; i < plan_.jobs; ++i) {
      setup.worker = i;
      programs.push_back(std::make_unique<JointProgram>(plan_, names_, setup));
    }
  }

  // The program did not even come to main(): all is still to do.
  ThreadResult stopped_before_it_began() {
    result_.is_resumed = before_ != nullptr;
    result_.search.bound = deadline_.hit();
    result_.search.fraction = 0;
    if (before_ != nullptr) {
      result_.search.rest = before_->sketch;
      unexplored_crashes_ = before_->unexplored_crashes;
    } else {
      result_.search.rest.is_unbegun = true;
    }
    judge();
    note_rest();
    return std::move(result_);
  }

  static bool has_rest(const scheduler::TreeSketch& sketch) { return sketch.is_unbegun || !sketch.nodes.empty(); }

  // By a signal, or since enough was found.
  bool was_stopped() const {
    return result_.search.bound == Bound::kInterrupt || result_.search.bound == Bound::kEnoughFound;
  }

  void judge() {
    const bool is_bounded =
        result_.has_met || result_.search.bound != Bound::kNone || result_.crash_bound != Bound::kNone;
    const bool is_violated =
        result_.finding || result_.tally.violations > 0 || (before_ != nullptr && before_->violations > 0);
    result_.verdict = is_violated  ? result::Verdict::kViolation
                      : is_bounded ? result::Verdict::kBounded
                                   : result::Verdict::kVerified;
  }

  // Where atomic variables are not seen, every order of the calls is not every order.
  void note_meeting() {
    const auto meeting = names_.meeting();
    result_.shared_files = names_.shared_files();
    result_.has_met = meeting || (before_ != nullptr && before_->has_met);
    result_.may_meet = meeting && !meeting->is_certain;
    result_.has_met = result_.has_met || result_.has_unseen_machine;
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
    if (again.ending != scheduler::Ending::kStopped) diverged_ = compare(*first_, again);
  }

  bool ends_with_finding() const { return result_.finding && !plan_.continue_after_violation; }

  bool is_late() const {
    return deadline_.is_over() || (plan_.bounds.executions_most != 0 &&
                                   earlier_.executions + result_.search.executions >= plan_.bounds.executions_most);
  }

  // The program did something else than before: says what, and goes on another way. What was found is kept.
  void note_divergence(JointProgram& program) {
    if (before_ != nullptr && executions_ == 0) throw ToolError{true, kNotRepeatable};
    const Execution& found = diverged_->found;
    is_by_order_ =
        is_by_order_ && diverged_->is_foreseen && first_ && repeats(program, *first_) && repeats(program, found);
    if (result_.not_repeatable.empty())
      result_.not_repeatable =
          describe(plan_, *diverged_, is_by_order_, names_, program, [this] { return deadline_.is_past_telling(); });
    // What came instead was run to its end, and is judged like any other.
    if (result_.search.diverged && found.ending != scheduler::Ending::kDiverged &&
        found.ending != scheduler::Ending::kCutShort) {
      ++result_.search.executions;
      result_.search.transitions += found.steps.size();
      note(found);
    }
    result_.search.bound = Bound::kNotRepeatable;
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
    result_.search.seconds = deadline_.seconds() - earlier_.seconds;
  }

  // What was found and counted stays; the search begins anew.
  void go_on_another_way(ThreadResult result) {
    way_ = *next_way_;
    if (way_ == Way::kAll) is_opaque_ = true;
    earlier_ += result.search;
    result_ = std::move(result);
    result_.search = {};
    result_.crash_bound = Bound::kNone;
    forget_search();
  }

  void forget_search() {
    first_.reset();
    before_ = nullptr;
    unexplored_crashes_.clear();
    crashes_.reset();
    deadlocks_.reset();
  }

  // Counts of both searches, and what is left of this one.
  void note_rest() {
    scheduler::SearchResult& search = result_.search;
    if (before_ != nullptr) {
      search += before_->counts;
      result_.violations += before_->violations;
      result_.assumed_away += before_->assumed_away;
    }
    const bool ends_with_finding = result_.verdict == result::Verdict::kViolation && !plan_.continue_after_violation;
    if (ends_with_finding || (!has_rest(search.rest) && unexplored_crashes_.empty())) return;
    result_.rest = ThreadRest{search.rest,          names_.actors(),    racy_,        is_opaque_, is_instrumented_,
                              plan_.ignores_result, result_.has_met,    preemptions_, search,     result_.violations,
                              result_.assumed_away, unexplored_crashes_};
  }

  // The execution in whose recoveries the earlier search was stopped. False where this one is to end there too.
  bool go_on_crashing(JointProgram& program) {
    if (before_ == nullptr || before_->unexplored_crashes.empty()) return true;
    scheduler::RunRequest request;
    request.prefix = before_->unexplored_crashes;
    request.ends_with_prefix = true;
    const Execution execution = program.run(request);
    if (execution.ending == scheduler::Ending::kStopped) {
      result_.crash_bound = deadline_.hit();
      unexplored_crashes_ = before_->unexplored_crashes;
      return false;
    }
    if (execution.steps.size() != before_->unexplored_crashes.size()) throw ToolError{true, kNotRepeatable};
    return crash(execution);
  }

  // Whether the search must begin again.
  bool learn(const Execution& execution, const Programs& programs) {
    const auto is_instrumented = [](const auto& program) { return program->program().is_instrumented(); };
    if (!is_instrumented_ && std::any_of(programs.begin(), programs.end(), is_instrumented))
      return is_instrumented_ = true;
    // A futex shows that threads meet in atomic variables, and so does a thread that runs on until another has taken a
    // step. Where these are not seen, what looked independent may not be.
    if (!is_opaque_ && std::any_of(execution.steps.begin(), execution.steps.end(), is_opaque)) return is_opaque_ = true;
    if (!plan_.continue_after_violation || names_.racy().size() == racy_.size()) return false;
    if (const auto* details = dynamic_cast<const Details*>(execution.note.get()); !race_ && details != nullptr) {
      race_ = finding_of(execution, *details);
      ++race_->number;
    }
    racy_ = names_.racy();
    return true;
  }

  // False where the search is to end.
  bool note(const Execution& execution) {
    return note_finding(execution) && note_deadlocks(execution) && !(is_livelock_known() && executions_ >= look_until_);
  }

  // The program may hang where the execution went on by a machine's failure. Each such moment is run.
  bool note_deadlocks(const Execution& execution) {
    if (plan_.failing == 0) return true;
    bool is_to_go_on = true;
    scheduler::for_each_deadlock(execution, [&](const Execution& stuck) {
      if (!is_to_go_on) return;
      if (!deadlocks_)
        deadlocks_ = std::make_unique<JointProgram>(
            plan_, names_, JointProgram::Setup{.is_opaque = is_opaque_, .racy_count = racy_count(), .is_late = [this] {
                                                 return deadline_.is_past_telling();
                                               }});
      scheduler::RunRequest request;
      request.prefix = schedule_of(stuck);
      request.ends_with_prefix = true;
      const Execution again = deadlocks_->run(request);
      if (again.ending != scheduler::Ending::kStuck) return;
      is_to_go_on = note_finding(again);
      --executions_;  // it is a part of one that was counted
    });
    return is_to_go_on;
  }

  // Threads that go round for good may be meant to, and another schedule may show what is not. So a livelock does not
  // end the search at once.
  bool is_livelock_known() const {
    return !plan_.continue_after_violation && result_.finding &&
           result_.finding->details.kind == FindingKind::kLivelock;
  }

  bool note_finding(const Execution& execution) {
    ++executions_;
    if (!first_) first_ = execution;
    for (const scheduler::Step& s : execution.steps)
      result_.threads_most = std::max<std::uint64_t>(result_.threads_most, index(s.actor) + 1);
    result_.left_running = std::max(result_.left_running, execution.left_running);
    result_.left_executions += execution.left_running > 0 ? 1 : 0;
    const auto* details = dynamic_cast<const Details*>(execution.note.get());
    note_outcome(details);
    if (details == nullptr || details->kind == FindingKind::kNone) {
      if (!scheduler::is_assumed_away(execution.pending)) return !result_.has_recover || crash(execution);
      ++result_.assumed_away;
      return true;
    }
    ++result_.violations;
    const bool is_better = !result_.finding || (is_livelock_known() && details->kind != FindingKind::kLivelock) ||
                           (result_.finding->details.kind == details->kind &&
                            is_simpler(execution, result_.finding->execution, names_.actors(), has_machines()));
    constexpr std::uint64_t kLookOn = 1000;
    if (!result_.finding) look_until_ = executions_ + kLookOn;
    const ThreadFinding found = finding_of(execution, *details);
    if (is_better) result_.finding = found;
    for (const std::string& text : finding_texts(found)) note_kind(found, text);
    if (is_livelock_known()) return true;
    if (!plan_.continue_after_violation) return false;
    // Who hangs is switched off, too: what it wrote up to there is crashed like all else.
    return !result_.has_recover || execution.ending == scheduler::Ending::kCutShort || crash(execution);
  }

  search::Hooks crash_hooks() {
    search::Hooks hooks;
    hooks.is_interrupted = [this] { return deadline_.is_over(); };
    return hooks;
  }

  // The states that a crash can leave of what the execution wrote. False where the search is to end.
  bool crash(const Execution& execution) {
    const std::uint64_t most = plan_.crash.max_recoveries;
    if (most != 0 && result_.tally.recoveries >= most) {
      result_.crash_bound = Bound::kRecoveries;
      unexplored_crashes_ = schedule_of(execution);
      return false;
    }
    if (!crashes_)
      crashes_.emplace(plan_, names_,
                       JointProgram::Setup{.is_opaque = is_opaque_,
                                           .racy_count = racy_count(),
                                           .is_late = [this] { return deadline_.is_past_telling(); }},
                       crash_hooks());
    std::optional<search::Found> found;
    try {
      found = crashes_->explore(execution, most == 0 ? 0 : most - result_.tally.recoveries, deadline_.seconds_left());
    } catch (const scheduler::runtime::OutOfTime&) {
      result_.crash_bound = deadline_.hit();
      unexplored_crashes_ = schedule_of(execution);
      return false;
    } catch (const NotRepeatable& error) {
      // Under random schedules none may be repeatable: then it stays without its crashes.
      if (way_ == Way::kRandom) return true;
      diverged_ = compare(error.expected, error.found);
      return false;
    }
    if (!found) return true;
    result_.tally.add(found->tally);
    const Bound bound = found->result.bound;
    const bool is_violation = found->result.verdict == result::Verdict::kViolation;
    if (bound != Bound::kNone) {
      // An end by time is an interruption there, too.
      result_.crash_bound = bound == Bound::kInterrupt ? deadline_.hit() : bound;
      unexplored_crashes_ = schedule_of(execution);
    }
    if (is_violation) note_crash(execution, *found);
    return bound == Bound::kNone && (!is_violation || plan_.continue_after_violation);
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
    ThreadFinding crash = finding_of(execution, details);
    crash.crash = found.result.counterexample;
    crash.crash_path = found.path;
    crash.fingerprint = found.fingerprint;
    crash.is_loosened = is_instrumented_ && plan_.reduction != scheduler::ReductionName::kNone;
    note_kind(crash, finding_text(crash));
    if (is_better) result_.finding = crash;
  }

  ThreadFinding finding_of(const Execution& execution, const Details& details) const {
    ThreadFinding finding;
    finding.execution = execution;
    finding.details = details;
    finding.actors = names_.actors();
    finding.number = executions_;
    finding.racy = racy_;
    finding.ignores_result = plan_.ignores_result;
    return finding;
  }

  void note_kind(const ThreadFinding& found, const std::string& text) {
    auto it = std::find_if(result_.kinds.begin(), result_.kinds.end(),
                           [&](const ThreadResult::Kind& kind) { return kind.text == text; });
    constexpr std::size_t kKindsMost = 100;
    if (it == result_.kinds.end()) {
      if (result_.kinds.size() == kKindsMost) return;
      it = result_.kinds.insert(it, {text, found, 0});
    } else if (is_simpler(found.execution, it->finding.execution, found.actors, has_machines())) {
      it->finding = found;
    }
    ++it->count;
  }

  bool has_machines() const { return !plan_.machines.empty(); }

  void note_outcome(const Details* details) {
    if (details == nullptr || !details->outcome) return;
    auto& outcomes = result_.tally.outcomes;
    if (!outcomes.contains(*details->outcome) && outcomes.size() == search::Tally::kOutcomesMost) {
      result_.tally.outcomes_cut = true;
      return;
    }
    ++outcomes[*details->outcome].recoveries;
    if (details->kind != FindingKind::kNone) ++outcomes[*details->outcome].violations;
  }

  std::uint32_t racy_count() const { return static_cast<std::uint32_t>(racy_.size()); }

  static bool is_opaque(const scheduler::Step& step) { return step.operation.is_opaque(); }

  const ThreadPlan& plan_;
  const ThreadHooks& hooks_;
  const persist::Deadline& deadline_;
  const ThreadRest* before_;
  std::vector<scheduler::ActorId> unexplored_crashes_;  // ThreadRest
  std::uint32_t preemptions_ = scheduler::kNoPreemptionBound;
  bool begins_again_ = false, is_opaque_ = false, is_instrumented_ = false;
  std::vector<std::uint64_t> racy_;
  NameTable names_;
  ThreadResult result_{};
  Way way_ = Way::kAsked;
  std::optional<Way> next_way_;
  std::optional<Diverged> diverged_;
  scheduler::SearchCounts earlier_;  // of searches that went another way
  bool is_by_order_ = true;          // all that diverged did so by an order that should make no difference
  std::uint64_t executions_ = 0, look_until_ = 0;
  std::optional<Execution> first_;
  std::optional<Crashes> crashes_;
  std::unique_ptr<JointProgram> deadlocks_;  // for moments that an execution did not stop at
  std::optional<ThreadFinding> race_;        // the first, where the search began again to follow it
  std::atomic<bool> has_ended_{false};       // the search is over: what other workers still run is of no use
};

}  // namespace

// The same with fewer failures, if that is found as fast.
static void look_for_fewer_failures(const ThreadPlan& plan, const ThreadHooks& hooks, const persist::Deadline& deadline,
                                    ThreadResult& result) {
  const std::size_t failures = failures_in(result.finding->execution, result.finding->actors);
  for (std::uint32_t fewer = 0; fewer < failures && !deadline.is_over(); ++fewer) {
    ThreadPlan other = plan;
    other.failures_most = fewer;
    if (fewer == 0) other.failing = 0;
    other.bounds.executions_most = std::max<std::uint64_t>(result.search.executions, 1);
    ThreadResult found = Checker(other, hooks, deadline, nullptr).run();
    if (!found.finding || found.finding->details.kind != result.finding->details.kind) continue;
    result.finding = std::move(found.finding);
    result.kinds = std::move(found.kinds);
    return;
  }
}

std::string command_of(const ThreadPlan& plan) { return plan.machines.empty() ? "threads" : "cxl"; }

tl::expected<ThreadResult, Failure> check_threads(const ThreadPlan& asked, const ThreadHooks& hooks,
                                                  const ThreadRest* rest) try {
  const persist::Deadline none;
  const persist::Deadline& deadline = hooks.deadline != nullptr ? *hooks.deadline : none;
  const auto is_late = [&] { return deadline.is_past_telling(); };
  ThreadPlan plan = asked;
  if (rest != nullptr) plan.ignores_result = rest->ignores_result;
  ThreadResult result = Checker(plan, hooks, deadline, rest).run();
  const auto is_meaningless = [&](const ThreadResult::Kind& kind) {
    return is_meaningless_result(plan, is_late, kind.finding);
  };
  if (!plan.ignores_result && std::any_of(result.kinds.begin(), result.kinds.end(), is_meaningless)) {
    plan.ignores_result = true;
    result = Checker(plan, hooks, deadline, rest).run();
  }
  if (result.finding && !plan.machines.empty() && !plan.continue_after_violation)
    look_for_fewer_failures(plan, hooks, deadline, result);
  if (result.finding) {
    ThreadFinding& finding = *result.finding;
    if (!plan.continue_after_violation && !finding.crash && finding.execution.ending == scheduler::Ending::kCutShort &&
        finding.details.kind == FindingKind::kRace) {
      follow_race(plan, is_late, finding);
      result.kinds.clear();
      for (const std::string& text : finding_texts(finding)) result.kinds.push_back({text, finding, 1});
    }
    replay_finding(plan, is_late, finding);
  }
  return result;
} catch (const ToolError& error) {
  return tl::unexpected(Failure{error.is_users_fault ? result::Blame::kUser : result::Blame::kTool, error.sentence});
}

}  // namespace crashcut::recovery
