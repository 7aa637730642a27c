#include "scheduler/order.h"

#include <algorithm>

#include "scheduler/dependence.h"

namespace crashcut::scheduler {

Order::Order(std::span<const Step> steps) {
  for (const Step& s : steps) actor_count_ = std::max<std::size_t>(actor_count_, index(s.actor) + 1);
  clocks_.resize(steps.size() * actor_count_);
  std::vector<std::size_t> last(actor_count_, kNone);
  std::vector<std::uint32_t> count(actor_count_, 0);
  for (std::size_t j = 0; j < steps.size(); ++j) {
    const std::uint32_t actor = index(steps[j].actor);
    actor_.push_back(actor);
    place_.push_back(count[actor]++);
    previous_.push_back(last[actor]);
    std::uint32_t* own = clocks_.data() + j * actor_count_;
    if (last[actor] != kNone) std::copy_n(clock(last[actor]), actor_count_, own);
    own[actor] = place_[j] + 1;
    last[actor] = j;
    for (std::size_t i = j; i-- > 0;) {
      if (own[actor_[i]] > place_[i] || !are_dependent(steps[i].operation, steps[j].operation)) continue;
      for (std::size_t a = 0; a < actor_count_; ++a) own[a] = std::max(own[a], clock(i)[a]);
    }
  }
}

std::string class_of(std::span<const Step> steps) {
  const Order order(steps);
  std::vector<bool> done(steps.size(), false);
  std::string text;
  for (std::size_t taken = 0; taken < steps.size(); ++taken) {
    std::size_t best = steps.size();
    for (std::size_t j = 0; j < steps.size(); ++j) {
      if (done[j] || (best < steps.size() && steps[best].actor <= steps[j].actor)) continue;
      bool is_ready = true;
      for (std::size_t i = 0; i < j && is_ready; ++i) is_ready = done[i] || !order.is_before(i, j);
      if (is_ready) best = j;
    }
    done[best] = true;
    text += std::to_string(index(steps[best].actor)) + ':' + to_text(steps[best].operation);
    for (const Access& a : steps[best].operation) text += '=' + std::to_string(a.argument) + '>' + std::to_string(a.result);
    text += ';';
  }
  return text;
}

}  // namespace crashcut::scheduler
