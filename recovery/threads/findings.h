// Findings: what the executions of a search showed: violations by kind, the shortest of each, and counts. All of it
// goes into a ThreadResult.
#pragma once

#include <optional>
#include <string>
#include <unordered_set>

#include "recovery/search/check.h"
#include "recovery/threads/knowledge.h"

namespace crashcut::recovery {

class Findings {
 public:
  // What is to be done after an execution.
  enum class Next {
    kEnd,   // the search ends
    kGoOn,  // with the next execution
    kCrash  // what this one wrote is to be crashed; then as for kGoOn
  };

  Findings(const ThreadPlan& plan, const Knowledge& knowledge, ThreadResult& result)
      : plan_(plan), knowledge_(knowledge), result_(result) {}

  Next note(const scheduler::Execution& execution);
  // A deadlock that is a part of an execution, which was noted. False: the search ends.
  bool note_deadlock(const scheduler::Execution& execution);
  // A recovery after the execution failed.
  void note_crash(const scheduler::Execution& execution, const search::Found& found);

  std::uint64_t executions() const { return executions_; }
  const std::optional<scheduler::Execution>& first() const { return first_; }
  // Threads that go round for good may be meant to, and another schedule may show what is not. So a livelock does not
  // end the search at once.
  bool has_looked_beyond_livelock() const { return is_livelock_known() && executions_ >= look_until_; }
  // Of a search that begins anew; what is in the result stays.
  void forget_first() { first_.reset(); }
  void forget_counts() {
    executions_ = 0;
    failure_points_.clear();
  }

 private:
  bool is_livelock_known() const;
  // What the machines printed, or the program.
  void note_outcome(const scheduler::runtime::Details* details);
  void note_kind(const ThreadFinding& found, const std::string& text);
  void note_failure_points(const scheduler::Execution& execution);
  void keep(const scheduler::Execution& execution);

  const ThreadPlan& plan_;
  const Knowledge& knowledge_;
  ThreadResult& result_;
  std::uint64_t executions_ = 0, look_until_ = 0;
  std::optional<scheduler::Execution> first_;
  std::unordered_set<std::uint64_t> failure_points_;  // hashes of what led to them
};

}  // namespace crashcut::recovery
