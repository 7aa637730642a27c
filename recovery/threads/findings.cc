#include "recovery/threads/findings.h"

#include <algorithm>

#include "persist/hash.h"
#include "recovery/threads/result.h"
#include "recovery/threads/simplest.h"
#include "recovery/threads/story.h"
#include "scheduler/dependence.h"
#include "scheduler/primitive.h"

namespace crashcut::recovery {

using scheduler::Execution;
using scheduler::runtime::Details;
using scheduler::runtime::FindingKind;

// So many executions after a livelock may show something else.
static constexpr std::uint64_t kLookOn = 1000;
static constexpr std::size_t kKindsMost = 100;

bool Findings::is_livelock_known() const {
  return !plan_.wants_all && result_.finding && result_.finding->details.kind == FindingKind::kLivelock;
}

Findings::Next Findings::note(const Execution& execution) {
  ++executions_;
  if (!first_) first_ = execution;
  for (const scheduler::Step& s : execution.steps)
    result_.threads_most = std::max<std::uint64_t>(result_.threads_most, index(s.actor) + 1);
  if (!plan_.machines.empty()) note_failure_points(execution);
  if (!plan_.machines.empty() && plan_.wants_states) keep(execution);
  result_.left_running = std::max(result_.left_running, execution.left_running);
  result_.left_executions += execution.left_running > 0 ? 1 : 0;
  const auto* details = dynamic_cast<const Details*>(execution.note.get());
  note_outcome(details);
  if (details != nullptr && details->is_added_lock_unclear) {
    result_.is_added_lock_unclear = true;
    return Next::kEnd;
  }
  if (details == nullptr || details->kind == FindingKind::kNone) {
    if (!scheduler::is_assumed_away(execution.pending)) return Next::kCrash;
    ++result_.assumed_away;
    return Next::kGoOn;
  }
  ++result_.violations;
  const bool is_better =
      !result_.finding || (is_livelock_known() && details->kind != FindingKind::kLivelock) ||
      (result_.finding->details.kind == details->kind &&
       is_simpler(execution, result_.finding->execution, knowledge_.names().actors(), !plan_.machines.empty()));
  if (!result_.finding) look_until_ = executions_ + kLookOn;
  const ThreadFinding found = knowledge_.finding_of(execution, *details, executions_);
  if (is_better) result_.finding = found;
  for (const std::string& text : finding_texts(found)) note_kind(found, text);
  if (is_livelock_known()) return Next::kGoOn;
  if (!plan_.wants_all) return Next::kEnd;
  // A program that hangs is switched off, too: what it wrote up to there is crashed like all else.
  return execution.ending == scheduler::Ending::kCutShort ? Next::kGoOn : Next::kCrash;
}

void Findings::keep(const Execution& execution) {
  KeptExecutions& kept = result_.kept;
  if (kept.schedules.size() == kept.kExecutionsMost || kept.steps + execution.steps.size() > kept.kStepsMost) return;
  kept.steps += execution.steps.size();
  kept.schedules.push_back(schedule_of(execution));
}

// Executions that differ only by what was left after a failure have the same one. One at which no failure was run,
// since an earlier one left the same, is one all the same.
void Findings::note_failure_points(const Execution& execution) {
  constexpr std::uint64_t kCovered = 0xc04e4ed;
  std::uint64_t way = persist::kHashStart;
  std::uint32_t failures = 0;
  for (const scheduler::Step& step : execution.steps) {
    const std::uint32_t own = 1u << machine_of(knowledge_.names().actors(), index(step.actor));
    const bool is_covered = (step.operation.failure_points() & step.operation.covered_failures() & own) != 0;
    if (is_covered && failures < plan_.failures_most) failure_points_.insert(persist::mix(way, kCovered));
    way = persist::mix(way, index(step.actor));
    if (!scheduler::is_failure(step.operation)) continue;
    ++failures;
    failure_points_.insert(way);
  }
  result_.failure_points = failure_points_.size();
}

bool Findings::note_deadlock(const Execution& execution) {
  const Next next = note(execution);
  --executions_;
  return next != Next::kEnd;
}

void Findings::note_crash(const Execution& execution, const search::Found& found) {
  ++result_.violations;
  if (!found.result.counterexample) {
    result_.unexplained = found.result.unexplained;
    return;
  }
  const bool is_better =
      !result_.finding || (result_.finding->crash && execution.steps.size() < result_.finding->execution.steps.size());
  Details details;
  if (const auto* known = dynamic_cast<const Details*>(execution.note.get())) details = *known;
  ThreadFinding crash = knowledge_.finding_of(execution, details, executions_);
  crash.crash = found.result.counterexample;
  crash.states = found.result.states;
  crash.crash_path = found.path;
  crash.fingerprint = found.fingerprint;
  crash.is_loosened = knowledge_.is_instrumented() && plan_.reduction != scheduler::ReductionName::kNone;
  note_kind(crash, finding_text(crash));
  if (is_better) result_.finding = crash;
}

void Findings::note_outcome(const Details* details) {
  if (details == nullptr || !details->outcome || result_.has_recover) return;  // then they are those of recoveries
  auto& outcomes = result_.tally.outcomes;
  if (!outcomes.contains(*details->outcome) && outcomes.size() == search::Tally::kOutcomesMost) {
    result_.tally.outcomes_cut = true;
    return;
  }
  ++outcomes[*details->outcome].recoveries;
  if (details->kind != FindingKind::kNone) ++outcomes[*details->outcome].violations;
}

void Findings::note_kind(const ThreadFinding& found, const std::string& text) {
  auto it = std::find_if(result_.kinds.begin(), result_.kinds.end(),
                         [&](const ThreadResult::Kind& kind) { return kind.text == text; });
  if (it == result_.kinds.end()) {
    if (result_.kinds.size() == kKindsMost) return;
    it = result_.kinds.insert(it, {text, found, 0});
  } else if (is_simpler(found.execution, it->finding.execution, found.actors, !plan_.machines.empty())) {
    it->finding = found;
  }
  ++it->count;
}

}  // namespace crashcut::recovery
