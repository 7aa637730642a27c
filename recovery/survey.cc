#include "recovery/survey.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>

#include "recovery/result/words.h"

namespace crashcut::recovery {
namespace {

using inprocess::RecordKind;

// Its bytes: two that look alike on one line are not the same.
std::string outcome_of(const inprocess::Recovery& recovery) {
  return std::string(recovery.output) +
         (recovery.output_cut ? fmt::format("... (and more, of hash {:08x})", recovery.output_rest) : "");
}

}  // namespace

FailureKind failure_of(const inprocess::Recovery& recovery) {
  const int code = recovery.kind == RecordKind::kSignalled ? recovery.signal
                   : recovery.kind == RecordKind::kExited  ? recovery.exit_code
                   : recovery.kind == RecordKind::kHung    ? static_cast<int>(recovery.limit.count())
                                                           : 0;
  return FailureKind{recovery.kind, code, result::last_line(recovery.errors)};
}

std::string to_text(const FailureKind& failure) {
  switch (failure.kind) {
    case RecordKind::kOk:
      return "recovery succeeded";
    case RecordKind::kAssumedAway:
      return "recovery was assumed away (crashcut_assume)";
    case RecordKind::kExited:
      return fmt::format("recovery exited with status {}", failure.code);
    case RecordKind::kSignalled:
      if (failure.code == SIGABRT) return "recovery aborted (SIGABRT)";
      return fmt::format("recovery was killed by {} ({})", result::signal_text(failure.code), strsignal(failure.code));
    case RecordKind::kHung:
      return fmt::format("recovery did not end within the limit of {} (--recovery-limit)",
                         result::seconds_text(std::chrono::seconds(failure.code)));
    case RecordKind::kToolError:
      return "crashcut could not run this recovery";
  }
  return "";
}

void Survey::add(const inprocess::Recovery& recovery) {
  switch (recovery.kind) {
    case RecordKind::kOk:
      ++ok_;
      break;
    case RecordKind::kAssumedAway:
      ++assumed_away_;
      return;
    case RecordKind::kToolError:
      return add_not_run(recovery);
    default:
      add_violation(recovery);
  }
  Tally& tally = outcomes_[outcome_of(recovery)];
  ++tally.recoveries;
  if (inprocess::is_violation(recovery.kind)) ++tally.violations;
}

void Survey::add_not_run(const inprocess::Recovery& recovery) {
  ++tool_errors_;
  NotRun& not_run = not_run_[std::string(recovery.text)];
  not_run.blame = recovery.blame;
  ++not_run.recoveries;
}

void Survey::add_violation(const inprocess::Recovery& recovery) {
  ++violations_;
  const FailureKind failure = failure_of(recovery);
  ++failures_[failure];
  // Recoveries come in no order: ties go by path, so that every run names the same one.
  if (smallest_ && std::tie(smallest_->events_in, smallest_->path) <= std::tie(recovery.events_in, recovery.path))
    return;
  smallest_ = Violation{failure, recovery.path, recovery.events_in, recovery.layer};
}

void Survey::add_all(const Survey& other) {
  ok_ += other.ok_;
  assumed_away_ += other.assumed_away_;
  violations_ += other.violations_;
  tool_errors_ += other.tool_errors_;
  for (const auto& [output, tally] : other.outcomes_) {
    outcomes_[output].recoveries += tally.recoveries;
    outcomes_[output].violations += tally.violations;
  }
  for (const auto& [failure, count] : other.failures_) failures_[failure] += count;
  for (const auto& [sentence, not_run] : other.not_run_) {
    not_run_[sentence].blame = not_run.blame;
    not_run_[sentence].recoveries += not_run.recoveries;
  }
}

}  // namespace crashcut::recovery
