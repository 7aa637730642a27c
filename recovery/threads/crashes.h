// Crashes: after an execution, the states that a crash can leave of it, within the bounds of a search.
//
// The execution is run again in a process of our own, by its schedule, and its recoveries are explored there as
//   crashcut run does. Not where those of an earlier execution would be the same (log_digest.h).
// Threads: one at a time, by the search's lock.
#pragma once

#include <optional>

#include "recovery/search/check.h"
#include "recovery/source/names.h"
#include "recovery/threads/findings.h"

namespace crashcut::recovery {

// Thrown where an execution that is to be crashed does something else when it is run again.
struct NotRepeatable : scheduler::runtime::ToolError {
  scheduler::Execution expected, found;
};

class Crashes {
 public:
  // What comes of it goes into `findings` and `result`.
  Crashes(const ThreadPlan& plan, Knowledge& knowledge, const persist::Deadline& deadline, Findings& findings,
          ThreadResult& result);

  // False: the search is to end. Throws NotRepeatable, ToolError.
  bool explore(const scheduler::Execution& execution);
  // The execution in whose recoveries an earlier search was stopped; `program` runs it. False: this one ends there,
  // too. Throws ToolError.
  bool go_on(JointProgram& program, const std::vector<scheduler::ActorId>& schedule);
  // Of this execution not all recoveries were run; empty: of all.
  const std::vector<scheduler::ActorId>& unexplored() const { return unexplored_; }
  void leave(const std::vector<scheduler::ActorId>& schedule) { unexplored_ = schedule; }
  // What was found, without the recoveries of the execution that is unexplored: a later search runs all of those.
  const search::Tally& whole() const { return before_part_ ? *before_part_ : result_.tally; }

 private:
  // The recoveries of the execution; nothing where there is nothing new.
  std::optional<search::Found> recover(const scheduler::Execution& execution);
  bool stop_at(const std::vector<scheduler::ActorId>& schedule, result::Bound bound);

  const ThreadPlan& plan_;
  Knowledge& knowledge_;
  const persist::Deadline& deadline_;
  Findings& findings_;
  ThreadResult& result_;
  std::optional<JointProgram> program_;  // from the first execution on that is crashed
  SeenLogs seen_;
  source::Names names_{[this] { return deadline_.is_over(); }};  // of code that notes name
  std::vector<scheduler::ActorId> unexplored_;
  std::optional<search::Tally> before_part_;  // before an execution of which only a part was explored
};

// "The program is not repeatable: ...": a sentence for the user.
extern const char* const kNotRepeatable;

}  // namespace crashcut::recovery
