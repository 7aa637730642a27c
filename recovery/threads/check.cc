#include "recovery/threads/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "recovery/source/names.h"
#include "recovery/threads/crashes.h"
#include "recovery/threads/divergence.h"
#include "recovery/threads/replay.h"
#include "recovery/threads/result.h"
#include "recovery/threads/seeds.h"
#include "recovery/threads/simplest.h"
#include "scheduler/deadlocks.h"
#include "scheduler/deepening.h"

namespace crashcut::recovery {
namespace {

using result::Bound;
using result::Failure;
using scheduler::Execution;
using scheduler::runtime::FindingKind;
using scheduler::runtime::ToolError;

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

bool has_rest(const scheduler::TreeSketch& sketch) { return sketch.is_unbegun || !sketch.nodes.empty(); }

void note_unused_rules(const scheduler::runtime::NameTable& names, const ThreadPlan& plan, ThreadResult& result) {
  const auto regions = names.regions();
  for (const RegionRule& rule : plan.region_rules) {
    const auto has_name = [&](const auto& region) { return region.name == rule.name; };
    if (std::none_of(regions.begin(), regions.end(), has_name)) result.unused_rules.push_back(rule.name);
  }
}

// Where atomic variables are not seen, every order of the calls is not every order.
void note_meeting(const scheduler::runtime::NameTable& names, const ThreadRest* before,
                  const std::function<bool()>& is_late, ThreadResult& result) {
  const auto meeting = names.meeting();
  result.shared_files = names.shared_files();
  result.has_met = meeting || (before != nullptr && before->has_met);
  result.may_meet = meeting && !meeting->is_certain;
  result.has_met = result.has_met || result.has_unseen_machine;
  if (!meeting || meeting->file.empty()) return;
  source::Names source(is_late);
  const std::vector<result::SourceLine> frames = source.frames_at(meeting->file, meeting->address);
  const std::string name = frames.empty() ? "" : frames.back().function;
  const std::string file = meeting->file.substr(meeting->file.rfind('/') + 1);
  result.met_in = name.empty() ? file : fmt::format("{} ({})", name, file);
}

void judge(const ThreadRest* before, ThreadResult& result) {
  const bool is_bounded = result.has_met || result.search.bound != Bound::kNone || result.crash_bound != Bound::kNone;
  const bool is_violated =
      result.finding || result.tally.violations > 0 || (before != nullptr && before->violations > 0);
  result.verdict = is_violated  ? result::Verdict::kViolation
                   : is_bounded ? result::Verdict::kBounded
                                : result::Verdict::kVerified;
}

class Checker {
 public:
  // `rest`: of an earlier search, to go on with; null: from the beginning.
  Checker(const ThreadPlan& plan, const ThreadHooks& hooks, const persist::Deadline& deadline, const ThreadRest* rest)
      : plan_(plan), hooks_(hooks), deadline_(deadline), before_(rest), knowledge_(plan, rest) {
    forget_search();
    before_ = rest;
  }

  // What is learned of the program on the way may undo what the search took for granted: then it begins again.
  ThreadResult run() {
    const std::uint32_t most = plan_.preemptions_most;
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
      findings_.forget_counts();
      forget_search();
    }
  }

 private:
  using Programs = std::vector<std::unique_ptr<JointProgram>>;

  ThreadResult run_once() {
    begins_again_ = false;
    next_way_.reset();
    diverged_.reset();
    result_.is_opaque = knowledge_.is_opaque();
    result_.is_instrumented = knowledge_.is_instrumented();
    result_.races = knowledge_.racy().size();
    result_.is_resumed = before_ != nullptr;
    Programs programs;
    try {
      start(programs);
    } catch (const scheduler::runtime::OutOfTime&) {
      return stopped_before_it_began();
    }
    result_.has_recover = plan_.machines.empty() && programs[0]->session().has_recover();
    programs_ = &programs;
    search(programs);
    sum_up(programs);
    // What shows that atomic variables are not seen may be the first thing that does not follow its schedule.
    begins_again_ = begins_again_ || (result_.search.diverged && learn(result_.search.divergence, programs));
    if (begins_again_) return std::move(result_);
    look_for_divergence(*programs[0]);
    if (next_way_) return std::move(result_);
    note_meeting(
        knowledge_.names(), before_, [this] { return deadline_.is_over(); }, result_);
    note_unused_rules(knowledge_.names(), plan_, result_);
    // Of trapped code, plain accesses to ordinary memory are not seen: several threads may meet there.
    if (plan_.traps && plan_.has_memory_steps() && (result_.threads_most > 1 || before_ != nullptr))
      result_.has_met = true;
    result_.kept.actors = knowledge_.names().actors();
    result_.kept.racy = knowledge_.racy();
    judge(before_, result_);
    note_rest();
    return std::move(result_);
  }

  // One a worker. Throws ToolError.
  void start(Programs& programs) {
    JointProgram::Setup setup = knowledge_.setup([this] { return has_ended_ || deadline_.is_over(); });
    setup.has_digest = plan_.merges_logs;
    setup.is_watching = true;
    for (std::uint32_t i = 0; i < plan_.jobs; ++i) {
      setup.worker = i;
      setup.begins_late = i > 0 && !plan_.machines.empty();
      programs.push_back(std::make_unique<JointProgram>(plan_, knowledge_.names(), setup));
    }
  }

  // The program did not even come to main(): all is still to do.
  ThreadResult stopped_before_it_began() {
    result_.search.bound = deadline_.hit();
    result_.search.fraction = 0;
    if (before_ != nullptr) {
      result_.search.rest = before_->sketch;
      crashes_->leave(before_->unexplored_crashes);
    } else {
      result_.search.rest.is_unbegun = true;
    }
    judge(before_, result_);
    note_rest();
    return std::move(result_);
  }

  scheduler::SearchSetup search_setup(const Programs& programs) {
    scheduler::SearchSetup setup;
    setup.reduction = plan_.schedules == ThreadPlan::Schedules::kOne ? scheduler::ReductionName::kOne
                      : way_ == Way::kSource                         ? scheduler::ReductionName::kSource
                                                                     : plan_.reduction;
    // Foresight takes for granted that there are no data races; here they are looked for.
    setup.has_foresight = plan_.has_foresight && !knowledge_.is_instrumented() && !plan_.models_memory();
    setup.seed = plan_.seed;
    setup.bounds.executions_most = plan_.executions_most;
    if (plan_.executions_most > 0)
      setup.bounds.executions_most -= std::min(earlier_.executions, plan_.executions_most - 1);
    setup.bounds.depth_most = plan_.steps_most;
    setup.bounds.preemptions_most = preemptions_;
    const double share = way_ == Way::kSource ? 0.5 : 1;  // every order is to have its turn after it
    setup.bounds.time_most_s = deadline_.seconds_left() * share;
    setup.on_execution = [&](const Execution& execution) {
      begins_again_ = begins_again_ || learn(execution, programs);
      const bool is_to_go_on = !begins_again_ && note(execution);
      if (!is_to_go_on) has_ended_ = true;
      return is_to_go_on;
    };
    setup.on_progress = hooks_.on_progress;
    // To start the processes of a second worker's machines takes as long as some hundred executions.
    if (!plan_.machines.empty()) setup.others_begin_after = std::chrono::milliseconds(100);
    setup.stop = deadline_.stop();
    if (before_ != nullptr) setup.rest = &before_->sketch;
    return setup;
  }

  void search(const Programs& programs) {
    const bool is_to_go_on =
        before_ == nullptr || crash([&] { return crashes_->go_on(*programs[0], before_->unexplored_crashes); });
    if (!is_to_go_on) {
      result_.search.rest = before_->sketch;
    } else if (plan_.schedules == ThreadPlan::Schedules::kRandom) {
      run_by_chance(*programs[0], plan_.seed, plan_.random_most);
      if (result_.search.bound == Bound::kNone) result_.search.bound = Bound::kExecutions;
    } else if (before_ == nullptr || has_rest(before_->sketch)) {
      std::vector<scheduler::Program*> workers;
      for (const auto& program : programs) workers.push_back(program.get());
      result_.search = scheduler::search_deepening(workers, search_setup(programs));
    } else {
      result_.search.bound = scheduler::bound_of(result_.search.rest = before_->sketch);
    }
    has_ended_ = false;
  }

  // What the programs themselves know.
  void sum_up(const Programs& programs) {
    result_.ignores_result = plan_.ignores_result;
    for (const auto& program : programs) {
      if (!program->has_begun()) continue;
      result_.ignores_result = result_.ignores_result || program->program().has_no_result();
      result_.has_unseen_machine = result_.has_unseen_machine || program->program().has_unseen_host();
      result_.restored += program->program().restored_count();
      result_.forked += program->program().forked_count();
    }
  }

  bool learn(const Execution& execution, const Programs& programs) {
    return knowledge_.learn(execution, programs, findings_.executions() + 1);
  }

  // False where the search is to end.
  bool note(const Execution& execution) {
    switch (findings_.note(execution)) {
      case Findings::Next::kEnd:
        return false;
      case Findings::Next::kCrash:
        if (result_.has_recover && !crash([&] { return crashes_->explore(execution); })) return false;
        break;
      case Findings::Next::kGoOn:
        break;
    }
    return note_deadlocks(execution) && !findings_.has_looked_beyond_livelock();
  }

  // `explore` crashes an execution. False where the search is to end.
  bool crash(const std::function<bool()>& explore) try { return explore(); } catch (const NotRepeatable& error) {
    // Under random schedules none may be repeatable: then the execution stays without its crashes.
    if (way_ == Way::kRandom) return true;
    diverged_ = compare(error.expected, error.found);
    return false;
  }

  // The program may hang where the execution went on by a machine's failure. Each such moment is run.
  bool note_deadlocks(const Execution& execution) {
    if (plan_.failing == 0) return true;
    bool is_to_go_on = true;
    const auto for_each = plan_.schedules == ThreadPlan::Schedules::kOne ? scheduler::for_each_deadlock_of_schedule
                                                                         : scheduler::for_each_deadlock;
    for_each(execution, [&](const Execution& stuck) {
      if (!is_to_go_on) return;
      if (!deadlocks_)
        deadlocks_ = std::make_unique<JointProgram>(plan_, knowledge_.names(),
                                                    knowledge_.setup([this] { return deadline_.is_past_telling(); }));
      const Execution again = repeat(*deadlocks_, stuck);
      if (again.ending == scheduler::Ending::kStuck) is_to_go_on = findings_.note_deadlock(again);
    });
    return is_to_go_on;
  }

  static Execution repeat(JointProgram& program, const Execution& execution) {
    scheduler::RunRequest request;
    request.prefix = schedule_of(execution);
    request.ends_with_prefix = true;
    return program.run(request);
  }

  // By a signal, or since enough was found.
  bool was_stopped() const {
    return result_.search.bound == Bound::kInterrupt || result_.search.bound == Bound::kEnoughFound;
  }

  bool ends_with_finding() const { return result_.finding && !plan_.wants_all; }

  bool is_late() const {
    return deadline_.is_over() ||
           (plan_.executions_most != 0 && earlier_.executions + result_.search.executions >= plan_.executions_most);
  }

  // Whether the program did something else under a schedule than before, and what follows from that.
  void look_for_divergence(JointProgram& program) {
    if (!was_stopped() && !result_.finding) compare_first(program);
    if (result_.search.diverged)
      diverged_ = {result_.search.diverged_at, result_.search.expected, result_.search.divergence, true};
    if (diverged_ && knowledge_.race()) {
      result_.finding = knowledge_.race();
      result_.violations = std::max<std::uint64_t>(result_.violations, 1);
      result_.is_after_race = true;
    } else if (diverged_) {
      note_divergence(program);
    } else if (way_ == Way::kSource && !ends_with_finding()) {
      // It tried other orders, but not all of them.
      if (!was_stopped() && !is_late()) next_way_ = Way::kAll;
      if (result_.search.bound == Bound::kNone) result_.search.bound = Bound::kNotRepeatable;
      result_.search.rest.nodes.clear();
    }
  }

  // Branches show whether a program does the same again up to where they begin. What it does after the last of them,
  // the first execution run once more shows.
  void compare_first(JointProgram& program) {
    if (!findings_.first()) return;
    const Execution again = repeat(program, *findings_.first());
    if (again.ending != scheduler::Ending::kStopped) diverged_ = compare(*findings_.first(), again);
  }

  // The program did something else than before: says what, and goes on another way. What was found is kept.
  void note_divergence(JointProgram& program) {
    if (before_ != nullptr && findings_.executions() == 0) throw ToolError{true, kNotRepeatable};
    const Execution& found = diverged_->found;
    const auto& first = findings_.first();
    is_by_order_ =
        is_by_order_ && diverged_->is_foreseen && first && repeats(program, *first) && repeats(program, found);
    if (result_.not_repeatable.empty())
      result_.not_repeatable = describe(plan_, *diverged_, is_by_order_, knowledge_.names(), program,
                                        [this] { return deadline_.is_past_telling(); });
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
    if (!ends_with_finding() && !is_late()) choose_next_way(program);
  }

  void choose_next_way(JointProgram& program) {
    const bool has_other_ways = is_by_order_ && !knowledge_.is_opaque() &&
                                preemptions_ == scheduler::kNoPreemptionBound &&
                                plan_.reduction != scheduler::ReductionName::kNone;
    if (has_other_ways && way_ == Way::kAsked && plan_.reduction == scheduler::ReductionName::kOptimal) {
      next_way_ = Way::kSource;
    } else if (has_other_ways) {
      next_way_ = Way::kAll;
    } else {
      const bool is_bounded = plan_.time_limit.count() > 0 || plan_.executions_most != 0;
      run_by_chance(program, 0, is_bounded ? ~std::uint64_t{0} : kRandomMost);
    }
  }

  void run_by_chance(JointProgram& program, std::uint64_t first_seed, std::uint64_t most) {
    way_ = Way::kRandom;
    for (std::uint64_t i = 1; !is_late() && i <= most; ++i) {
      scheduler::RunRequest request;
      request.depth_most = plan_.steps_most;
      request.seed = first_seed + i;
      const Execution execution = program.run(request);
      if (execution.ending == scheduler::Ending::kStopped) return;
      if (plan_.has_memory_steps() && learn(execution, *programs_)) {
        begins_again_ = true;  // with these accesses as steps
        return;
      }
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
    if (way_ == Way::kAll) knowledge_.expect_unseen_meetings();
    earlier_ += result.search;
    result_ = std::move(result);
    result_.search = {};
    result_.crash_bound = Bound::kNone;
    forget_search();
  }

  void forget_search() {
    findings_.forget_first();
    before_ = nullptr;
    crashes_.emplace(plan_, knowledge_, deadline_, findings_, result_);
    deadlocks_.reset();
  }

  // Counts of both searches, and what is left of this one.
  void note_rest() {
    scheduler::SearchResult& search = result_.search;
    search::Tally whole = crashes_->whole();
    if (before_ != nullptr) {
      whole.add(before_->tally);
      result_.tally.add(before_->tally);
      search += before_->counts;
      result_.violations += before_->violations;
      result_.assumed_away += before_->assumed_away;
    }
    const bool ends_with_finding = result_.verdict == result::Verdict::kViolation && !plan_.wants_all;
    if (ends_with_finding || (!has_rest(search.rest) && crashes_->unexplored().empty())) return;
    result_.rest = ThreadRest{.sketch = search.rest,
                              .actors = knowledge_.names().actors(),
                              .racy = knowledge_.racy(),
                              .is_opaque = knowledge_.is_opaque(),
                              .is_instrumented = knowledge_.is_instrumented(),
                              .ignores_result = plan_.ignores_result,
                              .has_met = result_.has_met,
                              .preemptions = preemptions_,
                              .counts = search,
                              .violations = result_.violations,
                              .assumed_away = result_.assumed_away,
                              .unexplored_crashes = crashes_->unexplored(),
                              .tally = std::move(whole),
                              .seed = plan_.seed};
  }

  const ThreadPlan& plan_;
  const ThreadHooks& hooks_;
  const persist::Deadline& deadline_;
  const ThreadRest* before_;
  std::uint32_t preemptions_ = scheduler::kNoPreemptionBound;
  bool begins_again_ = false;
  ThreadResult result_{};
  Knowledge knowledge_;
  Findings findings_{plan_, knowledge_, result_};
  const Programs* programs_ = nullptr;  // of this search, as the next
  std::optional<Crashes> crashes_;
  std::unique_ptr<JointProgram> deadlocks_;  // for moments that an execution did not stop at
  Way way_ = Way::kAsked;
  std::optional<Way> next_way_;
  std::optional<Diverged> diverged_;
  scheduler::SearchCounts earlier_;     // of searches that went another way
  bool is_by_order_ = true;             // all that diverged did so by an order that should make no difference
  std::atomic<bool> has_ended_{false};  // the search is over: what other workers still run is of no use
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
    other.executions_most = std::max<std::uint64_t>(result.search.executions, 1);
    ThreadResult found = Checker(other, hooks, deadline, nullptr).run();
    if (!found.finding || found.finding->details.kind != result.finding->details.kind) continue;
    result.finding = std::move(found.finding);
    result.kinds = std::move(found.kinds);
    result.kept = std::move(found.kept);
    return;
  }
}

std::string token_command_of(const ThreadPlan& plan) { return plan.machines.empty() ? "threads" : "cxl"; }
std::string command_of(const ThreadPlan& plan) {
  return plan.memory && !plan.has_store_buffers ? "pmem" : token_command_of(plan);
}

tl::expected<ThreadResult, Failure> check_threads(const ThreadPlan& asked, const ThreadHooks& hooks,
                                                  const ThreadRest* rest) try {
  if (asked.seeds_most > 1) return check_seeds(asked, hooks, rest);
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
  if (result.finding && !plan.machines.empty() && !plan.wants_all && plan.added_flushes.empty())
    look_for_fewer_failures(plan, hooks, deadline, result);
  if (result.finding) {
    ThreadFinding& finding = *result.finding;
    if (!plan.wants_all && !finding.crash && finding.execution.ending == scheduler::Ending::kCutShort &&
        finding.details.kind == FindingKind::kRace) {
      follow_race(plan, is_late, finding);
      result.kinds.clear();
      for (const std::string& text : finding_texts(finding)) result.kinds.push_back({text, finding, 1});
    }
    replay_finding(plan, is_late, finding);
    add_missing_flush(
        plan, [&] { return deadline.is_over(); }, finding);
  }
  return result;
} catch (const ToolError& error) {
  return tl::unexpected(Failure{error.is_users_fault ? result::Blame::kUser : result::Blame::kTool, error.sentence});
}

}  // namespace crashcut::recovery
