// Knowledge: what a search learns of the program while it runs, and takes for granted from then on.
#pragma once

#include <optional>
#include <vector>

#include "recovery/threads/joint_program.h"

namespace crashcut::recovery {

class Knowledge {
 public:
  // `rest`: of an earlier search, which knew something already; null: there was none.
  Knowledge(const ThreadPlan& plan, const ThreadRest* rest);

  // Learns from an execution of one of the programs; `number`: of the execution. True: the search took something else
  // for granted, and must begin again.
  bool learn(const scheduler::Execution& execution, const std::vector<std::unique_ptr<JointProgram>>& programs,
             std::uint64_t number);
  // Threads meet in variables that are not seen: steps that look independent may not be.
  void expect_unseen_meetings() { is_opaque_ = true; }

  bool is_opaque() const { return is_opaque_; }
  bool is_instrumented() const { return is_instrumented_; }
  const std::vector<std::uint64_t>& racy() const { return racy_; }
  scheduler::runtime::NameTable& names() { return names_; }
  const scheduler::runtime::NameTable& names() const { return names_; }
  // The first execution with a data race, where the search began again to follow the race.
  const std::optional<ThreadFinding>& race() const { return race_; }

  // A program that is run by what is known.
  JointProgram::Setup setup(std::function<bool()> is_late) const;
  ThreadFinding finding_of(const scheduler::Execution& execution, const scheduler::runtime::Details& details,
                           std::uint64_t number) const;

 private:
  const ThreadPlan& plan_;
  bool is_opaque_ = false, is_instrumented_ = false;
  std::vector<std::uint64_t> racy_;  // places where accesses are operations
  scheduler::runtime::NameTable names_;
  std::optional<ThreadFinding> race_;
};

}  // namespace crashcut::recovery
