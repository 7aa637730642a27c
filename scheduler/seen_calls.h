// SeenCalls: what calls on files were seen to do, by all that came before them.
//
// What a call does at another place in a schedule is known only when it is done there. But the steps that happen before
//   it decide what it does: after the same steps, in an equivalent order, it does the same again. Steps get names that
//   are equal in exactly these cases.
// Does not keep: more than kNamesMost names. What is not known costs executions in vain, and loses nothing.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "scheduler/order.h"

namespace crashcut::scheduler {

// Of a step: who takes it, what it meets, and the names of all that happens before it. 128 bits: two steps that differ
// do not come to have one name.
struct StepName {
  std::uint64_t a = 0, b = 0;
  bool operator==(const StepName&) const = default;
};
struct StepNameHash {
  std::size_t operator()(const StepName& name) const { return name.a; }
};

// Steps with their names.
class NamedSteps {
 public:
  NamedSteps(std::span<const Step> steps, const Order& order);
  // The name of that call, as it was done, which comes after those of the steps that `is_before` tells, and no others.
  StepName name_of(const Step& call, const std::vector<bool>& is_before) const;
  StepName name_of(std::size_t k) const { return names_[k]; }
  std::span<const Step> steps() const { return steps_; }

 private:
  StepName name_after(const Step& step, std::span<const std::uint32_t> past) const;

  std::span<const Step> steps_;
  const Order* order_;
  std::vector<StepName> names_;
};

class SeenCalls {
 public:
  void learn(const NamedSteps& execution);
  // What the actor's next call does after these; null where it was not seen there.
  const Operation* find(const NamedSteps& execution, const std::vector<bool>& is_before, ActorId actor) const;

 private:
  static constexpr std::size_t kNamesMost = 1 << 23;
  std::unordered_set<StepName, StepNameHash> names_;
  // What the actor's step at that place among its own was seen to do. It may have found a lock taken, or not.
  std::map<std::pair<ActorId, std::size_t>, std::vector<Operation>> calls_;
};

}  // namespace crashcut::scheduler
