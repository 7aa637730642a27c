// Survey: what all recoveries of an exploration gave, added up.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "recovery/inprocess/session.h"

namespace crashcut::recovery {

// How a recovery failed. `message` is the last line that it wrote to stderr: an assertion's text.
struct FailureKind {
  inprocess::RecordKind kind = inprocess::RecordKind::kOk;
  int code = 0;  // exit status, signal, or the limit in seconds
  std::string message;

  bool operator<(const FailureKind& other) const {
    return std::tie(kind, code, message) < std::tie(other.kind, other.code, other.message);
  }
  bool operator==(const FailureKind&) const = default;
};

FailureKind failure_of(const inprocess::Recovery& recovery);
// "recovery aborted (SIGABRT)"
std::string to_text(const FailureKind& failure);

class Survey {
 public:
  struct Tally {
    std::uint64_t recoveries = 0;
    std::uint64_t violations = 0;
  };
  struct Violation {
    FailureKind failure;
    std::vector<std::uint32_t> path;
    std::uint32_t events_in = 0;
    std::uint32_t layer = 1;
  };

  // Recoveries that crashcut could not run, for one reason.
  struct NotRun {
    result::Blame blame = result::Blame::kTool;
    std::uint64_t recoveries = 0;
  };

  void add(const inprocess::Recovery& recovery);
  // All that another one holds, but for its smallest violation, whose path means something to its own execution only.
  void add_all(const Survey& other);

  std::uint64_t recoveries() const { return ok_ + assumed_away_ + violations_ + tool_errors_; }
  std::uint64_t ok() const { return ok_; }
  std::uint64_t assumed_away() const { return assumed_away_; }
  std::uint64_t violations() const { return violations_; }
  std::uint64_t tool_errors() const { return tool_errors_; }

  // What recoveries printed, without the last newline and with the others as "; ". Not those assumed away.
  const std::map<std::string, Tally>& outcomes() const { return outcomes_; }
  const std::map<FailureKind, std::uint64_t>& failures() const { return failures_; }
  // The violation with the fewest events persisted; of several such, the first by path.
  const std::optional<Violation>& smallest() const { return smallest_; }
  // By the sentence that says why.
  const std::map<std::string, NotRun>& not_run() const { return not_run_; }

 private:
  void add_violation(const inprocess::Recovery& recovery);
  void add_not_run(const inprocess::Recovery& recovery);

  std::uint64_t ok_ = 0, assumed_away_ = 0, violations_ = 0, tool_errors_ = 0;
  std::map<std::string, Tally> outcomes_;
  std::map<FailureKind, std::uint64_t> failures_;
  std::optional<Violation> smallest_;
  std::map<std::string, NotRun> not_run_;
};

}  // namespace crashcut::recovery
