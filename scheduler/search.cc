#include "scheduler/search.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "scheduler/foresight.h"
#include "scheduler/left_out.h"

namespace crashcut::scheduler {

namespace {

class Searcher {
 public:
  explicit Searcher(const SearchSetup& setup) : setup_(setup), deadline_(setup.bounds.time_most_s, setup.stop) {
    reduction_ = bounds_preemptions() ? make_none(setup.bounds.preemptions_most) : make_reduction(setup.reduction);
    reduction_->depth_most = setup.bounds.depth_most;
    reduction_->is_late = [this] { return deadline_.is_over(); };
    tree_.emplace(reduction_->has_sleepers(), reduction_->has_wakeup_trees(), reduction_->looks_at_states());
  }

  SearchResult run(const std::vector<Program*>& workers) {
    if (setup_.rest != nullptr && !tree_->restore(*setup_.rest, *workers[0], setup_.bounds.depth_most)) {
      // Where it was stopped on the way, all is still to do.
      result_.bound = deadline_.hit();
      result_.diverged = result_.bound == Bound::kNone;
      result_.rest = *setup_.rest;
      result_.fraction = 0;
      return std::move(result_);
    }
    fraction_at_start_ = tree_->explored_fraction().likely;
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < workers.size(); ++i)
      threads.emplace_back([this, program = workers[i]] {
        if (is_long()) work_guarded(*program);
      });
    work_guarded(*workers[0]);
    for (std::thread& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
    result_.seconds = deadline_.seconds();
    result_.fraction = tree_->explored_fraction();
    result_.gave_up_foresight = foresight_.has_given_up();
    if (!tree_->is_explored() && !result_.is_too_long) result_.rest = tree_->sketch();
    const TreeSketch before = setup_.rest == nullptr ? TreeSketch{} : *setup_.rest;
    result_.rest.hit_depth = hit_depth_ || before.hit_depth;
    result_.rest.hit_timeouts = hit_timeouts_ || before.hit_timeouts;
    result_.rest.unstirred_waits = std::max(unstirred_waits_, before.unstirred_waits);
    result_.rest.hit_preemptions = reduction_->has_left_out || before.hit_preemptions;
    if (tree_->is_explored() && result_.bound == Bound::kNone) result_.bound = bound_of(result_.rest);
    return std::move(result_);
  }

 private:
  bool bounds_preemptions() const { return setup_.bounds.preemptions_most != kNoPreemptionBound; }

  // Waits for what makes other workers than the first worth their start. False: the search was over by then.
  bool is_long() {
    std::unique_lock lock(mutex_);
    return !changed_.wait_for(lock, setup_.others_begin_after, [this] { return is_over_; });
  }

  void work_guarded(Program& program) {
    try {
      ForesightProgram foreseeing(program, foresight_);
      work(setup_.has_foresight && !bounds_preemptions() && setup_.reduction != ReductionName::kNone ? foreseeing
                                                                                                     : program);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      is_over_ = true;
      changed_.notify_all();
    }
  }

  // Whoever finds the next result of the depth-first order ready digests it; who does not, runs it, or runs ahead.
  void work(Program& program) {
    std::unique_lock lock(mutex_);
    while (!is_over_) {
      if (!current_) current_ = tree_->take();
      if (!current_) {
        is_over_ = true;
        break;
      }
      Run& needed = *current_->run;
      // With one worker it would have been run. So it is with several.
      if (needed.stage == Run::Stage::kDone && needed.execution.is_foreseen && foresight_.has_given_up())
        needed.stage = Run::Stage::kWaiting;
      if (needed.stage == Run::Stage::kDone) {
        learn(*current_);
        current_.reset();
        changed_.notify_all();
      } else if (needed.stage == Run::Stage::kWaiting) {
        execute(program, current_->run, lock);
      } else if (std::shared_ptr<Run> early = tree_->take_ahead(!setup_.has_foresight || !foresight_.is_of_use())) {
        execute(program, early, lock);
      } else {
        changed_.wait(lock);
      }
    }
    changed_.notify_all();
  }

  void execute(Program& program, std::shared_ptr<Run> run, std::unique_lock<std::mutex>& lock) {
    run->stage = Run::Stage::kRunning;
    run->request.depth_most = setup_.bounds.depth_most;
    if (!bounds_preemptions()) {
      run->request.turn_most = setup_.turn_most;
      run->request.seed = setup_.seed;
      run->request.is_one_schedule = setup_.reduction == ReductionName::kOne;
    }
    lock.unlock();
    Execution execution = program.run(run->request);
    lock.lock();
    run->execution = std::move(execution);
    run->stage = Run::Stage::kDone;
    changed_.notify_all();
  }

  void learn(const Tree::Task& task) {
    const Execution& execution = task.run->execution;
    const std::uint32_t depth = task.leaf->depth;
    if (execution.ending == Ending::kStopped) {
      tree_->put_back();
      const Bound late = deadline_.hit();
      return end(late == Bound::kNone ? Bound::kTime : late);  // the caller's time may end a moment before ours
    }
    if (execution.ending == Ending::kCutShort && execution.steps.size() < depth) return end_at(execution);
    if (execution.ending == Ending::kTooLong) return end_at_too_long(execution);
    const Tree::Extended extended = tree_->extend(task.leaf, execution);
    if (extended == Tree::Extended::kDiverged) {
      result_.diverged = true;
      result_.divergence = execution;
      result_.diverged_at = tree_->divergence().step;
      result_.expected = tree_->divergence().expected;
      is_over_ = true;
      return;
    }
    foresight_.weigh(execution);
    result_.foreseen_steps += execution.foreseen_steps;
    const bool is_in_vain = extended == Tree::Extended::kInVain || execution.ending == Ending::kAsleep;
    if (execution.is_foreseen) {
      ++result_.foreseen;
    } else {
      ++(is_in_vain ? result_.asleep : result_.executions);
      result_.transitions += execution.steps.size();
      result_.new_steps += execution.steps.size() - depth;
    }
    result_.work += execution.steps.size();
    hit_depth_ = hit_depth_ || execution.hit_depth || is_held_back(execution);
    if (!is_in_vain) {
      hit_timeouts_ = hit_timeouts_ || leaves_out_timeout(execution);
      unstirred_waits_ = std::max(unstirred_waits_, count_unstirred_waits(execution));
    }
    if (extended == Tree::Extended::kYes) result_.work += reduction_->add_branches(*tree_, execution);
    if (reduction_->was_stopped)
      tree_->take_back(task.leaf);  // where the search goes on, this execution is run once more
    else
      tree_->prune([this](std::span<const Step> before, ActorId actor) { return reduction_->foresee(before, actor); });
    const bool was_run = !execution.is_foreseen && !is_in_vain;
    if (was_run && setup_.on_execution && !setup_.on_execution(execution)) end(Bound::kEnoughFound);
    if (reduction_->was_stopped && !is_over_) {
      result_.bound = deadline_.hit();
      is_over_ = true;
    }
    check_bounds();
  }

  // Whoever is left with all its steps taken might have gone on, if not now, then before another kept it from it.
  bool is_held_back(const Execution& execution) const {
    return std::any_of(execution.pending.begin(), execution.pending.end(),
                       [&](const Pending& p) { return is_exhausted(execution, p.actor, setup_.bounds.depth_most); });
  }

  // What comes after cannot be known: the search ends with this finding.
  void end_at(const Execution& execution) {
    ++result_.executions;
    result_.transitions += execution.steps.size();
    if (setup_.on_execution) setup_.on_execution(execution);
    result_.bound = Bound::kCutShort;
    is_over_ = true;
  }

  // Some actor may loop for good, and others were left where they stood: what they do next is not known, and there is
  // no end of schedules to try.
  void end_at_too_long(const Execution& execution) {
    ++result_.executions;
    result_.transitions += execution.steps.size();
    result_.work += execution.steps.size();
    result_.is_too_long = !setup_.on_execution || setup_.on_execution(execution);
    result_.bound = result_.is_too_long ? Bound::kSteps : Bound::kEnoughFound;
    hit_depth_ = is_over_ = true;
  }

  void end(Bound bound) {
    if (tree_->is_explored() || is_over_) return;
    result_.bound = bound;
    is_over_ = true;
  }

  void check_bounds() {
    const Bounds& bounds = setup_.bounds;
    if (bounds.executions_most != 0 && result_.executions >= bounds.executions_most) end(Bound::kExecutions);
    if (bounds.work_most != 0 && result_.work >= bounds.work_most) end(Bound::kWork);
    if (const Bound late = deadline_.hit(); late != Bound::kNone) end(late);
    show_progress();
  }

  void show_progress() {
    const double now = deadline_.seconds();
    if (!setup_.on_progress || now < next_progress_s_) return;
    next_progress_s_ = now + setup_.progress_every_s;
    Progress progress;
    progress.seconds = now;
    progress.executions = result_.executions;
    progress.fraction = tree_->explored_fraction();
    // Of a search that was resumed, a part was done before its time began.
    const double done = progress.fraction.likely, gained = done - fraction_at_start_;
    if (fraction_at_start_ > 0 && gained > 0) progress.seconds_left = now * (1 - done) / gained;
    setup_.on_progress(progress);
  }

  const SearchSetup& setup_;
  persist::Deadline deadline_;
  std::unique_ptr<Reduction> reduction_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Tree> tree_;
  Foresight foresight_;
  SearchResult result_;
  std::optional<Tree::Task> current_;
  bool is_over_ = false, hit_depth_ = false, hit_timeouts_ = false;
  std::uint64_t unstirred_waits_ = 0;  // TreeSketch
  double next_progress_s_ = setup_.progress_every_s, fraction_at_start_ = 0;
  std::exception_ptr error_;
};

}  // namespace

SearchCounts& SearchCounts::operator+=(const SearchCounts& other) {
  executions += other.executions;
  asleep += other.asleep;
  foreseen += other.foreseen;
  foreseen_steps += other.foreseen_steps;
  transitions += other.transitions;
  new_steps += other.new_steps;
  work += other.work;
  seconds += other.seconds;
  return *this;
}

Bound bound_of(const TreeSketch& rest) {
  if (rest.hit_preemptions) return Bound::kPreemptions;
  if (rest.hit_depth) return Bound::kSteps;
  return rest.hit_timeouts ? Bound::kTimeouts : Bound::kNone;
}

SearchResult search(const std::vector<Program*>& workers, const SearchSetup& setup) {
  return Searcher(setup).run(workers);
}

}  // namespace crashcut::scheduler
