#include "recovery/survey.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>

namespace crashcut::recovery {
namespace {

using inprocess::RecordKind;

// Its bytes: two that look alike on one line are not the same.
std::string outcome_of(const inprocess::Recovery& recovery) {
  return std::string(recovery.output) +
         (recovery.output_cut ? fmt::format("... (and more, of hash {:08x})", recovery.output_rest) : "");
}

// As a string of C.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      out += "\\n";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  return out + "\"";
}

std::string last_line(std::string_view text) {
  const std::size_t end = text.find_last_not_of(" \n\r\t");
  if (end == std::string_view::npos) return "";
  text = text.substr(0, end + 1);
  const std::size_t newline = text.rfind('\n');
  return std::string(newline == std::string_view::npos ? text : text.substr(newline + 1));
}

}  // namespace

FailureKind failure_of(const inprocess::Recovery& recovery) {
  const int code = recovery.kind == RecordKind::kSignalled ? recovery.signal
                   : recovery.kind == RecordKind::kExited  ? recovery.exit_code
                   : recovery.kind == RecordKind::kHung    ? static_cast<int>(recovery.limit.count())
                                                           : 0;
  return FailureKind{recovery.kind, code, last_line(recovery.errors)};
}

std::string signal_text(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string seconds_text(std::chrono::seconds time) {
  return fmt::format("{} second{}", time.count(), time.count() == 1 ? "" : "s");
}

std::string outcome_text(std::string_view output) {
  if (output.ends_with('\n')) output.remove_suffix(1);
  std::string joined;
  for (const char c : output) joined += c == '\n' ? std::string("; ") : std::string(1, c);
  return joined;
}

std::vector<std::string> texts_of(const std::vector<std::string>& outputs,
                                  const std::function<std::string(const std::string&)>& text) {
  std::vector<std::string> texts;
  for (const std::string& output : outputs) texts.push_back(text(output));
  // One in quotes may look like another as it is, which then needs them too.
  for (bool is_done = false; !is_done;) {
    is_done = true;
    std::map<std::string, int> counts;
    for (const std::string& one : texts) ++counts[one];
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (counts[texts[i]] == 1 || texts[i] == quoted(outputs[i])) continue;
      texts[i] = quoted(outputs[i]);
      is_done = false;
    }
  }
  return texts;
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
      return fmt::format("recovery was killed by {} ({})", signal_text(failure.code), strsignal(failure.code));
    case RecordKind::kHung:
      return fmt::format("recovery did not end within the limit of {} (--recovery-limit)",
                         seconds_text(std::chrono::seconds(failure.code)));
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
