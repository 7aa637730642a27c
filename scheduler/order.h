// Order: what happens before what in one execution: the smallest order in which dependent steps, and the steps of
// one actor, keep theirs.
#pragma once

#include <span>
#include <vector>

#include "scheduler/operation.h"

namespace crashcut::scheduler {

class Order {
 public:
  explicit Order(std::span<const Step> steps);
  // Whether step i happens before step j, or is it.
  bool is_before(std::size_t i, std::size_t j) const { return clock(j)[actor_[i]] > place_[i]; }
  // The step before j of the same actor, or kNone.
  std::size_t previous_of(std::size_t j) const { return previous_[j]; }
  static constexpr std::size_t kNone = SIZE_MAX;

 private:
  const std::uint32_t* clock(std::size_t j) const { return clocks_.data() + j * actor_count_; }

  std::size_t actor_count_ = 0;
  std::vector<std::uint32_t> clocks_;      // a step, an actor: how many of its steps are in the past
  std::vector<std::uint32_t> actor_, place_;
  std::vector<std::size_t> previous_;
};

// A text that is the same for equivalent executions and differs for others: the steps in the order of the smallest
// actor that can go next.
std::string class_of(std::span<const Step> steps);

}  // namespace crashcut::scheduler
