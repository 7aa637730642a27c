#include "recovery/threads/seeds.h"

#include <algorithm>

#include "recovery/threads/simplest.h"

namespace crashcut::recovery {
namespace {

using result::Bound;
using result::Verdict;

void add_findings(const ThreadResult& earlier, ThreadResult& result) {
  if (result.finding) result.finding->number += earlier.search.executions;
  const bool is_simplest_of_all =
      earlier.finding && (!result.finding || !is_simpler(result.finding->execution, earlier.finding->execution,
                                                         result.finding->actors, true));
  if (is_simplest_of_all) {
    result.finding = earlier.finding;
    result.kept = earlier.kept;
  }
  std::vector<ThreadResult::Kind> kinds = earlier.kinds;
  for (const ThreadResult::Kind& kind : result.kinds) {
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.text == kind.text; });
    if (known == kinds.end()) {
      kinds.push_back(kind);
    } else {
      known->count += kind.count;
    }
  }
  result.kinds = std::move(kinds);
}

// What an earlier schedule gave, before what the last one did. A program of machines has no recoveries.
void add(const ThreadResult& earlier, ThreadResult& result) {
  add_findings(earlier, result);
  result.search += earlier.search;
  result.violations += earlier.violations;
  result.assumed_away += earlier.assumed_away;
  result.threads_most = std::max(result.threads_most, earlier.threads_most);
  result.failure_points += earlier.failure_points;
  result.restored += earlier.restored;
  result.forked += earlier.forked;
  result.races = std::max(result.races, earlier.races);
  result.left_running = std::max(result.left_running, earlier.left_running);
  result.left_executions += earlier.left_executions;
  result.is_resumed = result.is_resumed || earlier.is_resumed;
  result.tally.add(earlier.tally);
  if (earlier.verdict == Verdict::kViolation) result.verdict = Verdict::kViolation;
  if (result.rest) {
    result.rest->counts += earlier.search;
    result.rest->violations += earlier.violations;
    result.rest->assumed_away += earlier.assumed_away;
  }
}

ThreadHooks hooks_of_seed(const ThreadHooks& hooks, std::uint64_t done, std::uint64_t count,
                          const ThreadResult* earlier) {
  ThreadHooks own = hooks;
  if (!hooks.on_progress) return own;
  const std::uint64_t executions = earlier == nullptr ? 0 : earlier->search.executions;
  const double seconds = earlier == nullptr ? 0 : earlier->search.seconds;
  own.on_progress = [&hooks, done, count, executions, seconds](const result::Progress& of_seed) {
    result::Progress progress = of_seed;
    progress.executions += executions;
    progress.seconds += seconds;
    const auto whole = [&](double part) { return (static_cast<double>(done) + part) / static_cast<double>(count); };
    progress.fraction = {whole(of_seed.fraction.low), whole(of_seed.fraction.likely), whole(of_seed.fraction.high)};
    progress.seconds_left = -1;
    hooks.on_progress(progress);
  };
  return own;
}

// The bound on executions was hit between two schedules.
void stop_before(std::uint64_t seed, std::uint64_t left, ThreadResult& result) {
  result.search.bound = Bound::kExecutions;
  if (result.verdict == Verdict::kVerified) result.verdict = Verdict::kBounded;
  ThreadRest rest;
  rest.sketch.is_unbegun = true;
  rest.actors = {{}};
  rest.counts = result.search;
  rest.violations = result.violations;
  rest.assumed_away = result.assumed_away;
  rest.seed = seed;
  rest.seeds_left = left;
  result.rest = std::move(rest);
}

}  // namespace

tl::expected<ThreadResult, result::Failure> check_seeds(const ThreadPlan& plan, const ThreadHooks& hooks,
                                                        const ThreadRest* rest) {
  std::optional<ThreadResult> result;
  for (std::uint64_t done = 0; done < plan.seeds_most; ++done) {
    ThreadPlan one = plan;
    one.seed += done;
    one.seeds_most = 1;
    const std::uint64_t executions = result ? result->search.executions : 0;
    if (plan.executions_most > 0 && executions >= plan.executions_most) {
      stop_before(one.seed, plan.seeds_most - done, *result);
      break;
    }
    if (plan.executions_most > 0) one.executions_most -= executions;
    const ThreadHooks own = hooks_of_seed(hooks, done, plan.seeds_most, result ? &*result : nullptr);
    auto next = check_threads(one, own, done == 0 ? rest : nullptr);
    if (!next) return next;
    if (result) add(*result, *next);
    result = std::move(*next);
    if (result->rest) result->rest->seeds_left = plan.seeds_most - done;
    const bool ends_with_finding = result->verdict == Verdict::kViolation && !plan.wants_all;
    if (ends_with_finding || result->search.bound != Bound::kNone) break;
  }
  return std::move(*result);
}

}  // namespace crashcut::recovery
