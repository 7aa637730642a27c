// Company: before which steps of an execution two actors exist that have steps left. At the other steps nothing else
// could have been done, so their nodes say nothing of how many branches a node has (estimate.cc).
#pragma once

#include <vector>

#include "scheduler/execution.h"

namespace crashcut::scheduler {

class Company {
 public:
  explicit Company(const Execution& execution);
  // `before`: the state before step `k`. Asked for rising steps.
  bool is_at(std::size_t k, const State& before);

 private:
  struct Member {
    const Operation* first_operation;
    std::size_t first, last;  // its steps
    bool is_there = false;    // an actor may exist before its first step
  };
  std::vector<Member> members_;
};

}  // namespace crashcut::scheduler
