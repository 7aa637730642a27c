#include "scheduler/order.h"

#include <algorithm>
#include <functional>

#include "scheduler/dependence.h"

namespace crashcut::scheduler {

Order::Order(std::span<const Step> steps) {
  for (const Step& s : steps) actor_count_ = std::max<std::size_t>(actor_count_, index(s.actor) + 1);
  clocks_.resize(steps.size() * actor_count_);
  links_.resize(steps.size() * Operation::kAccessesMost);
  steps_of_.resize(actor_count_);
  for (const Step& s : steps) {
    if (const ObjectId ended = host_ended_by(s.operation); ended != kNoHost) add_host(ended);
  }
  for (std::size_t j = 0; j < steps.size(); ++j) {
    const std::uint32_t actor = index(steps[j].actor);
    const std::size_t previous = last_of(steps[j].actor);
    actor_.push_back(actor);
    place_.push_back(static_cast<std::uint32_t>(steps_of_[actor].size()));
    previous_.push_back(previous);
    if (previous != kNone) join(clocks_.data() + j * actor_count_, previous);
    if (depends_on_all(steps[j].operation)) {
      order_after_all(j);
    } else {
      if (barrier_ != kNone) join(clocks_.data() + j * actor_count_, barrier_);
      for (std::size_t k = 0; k < steps[j].operation.size(); ++k) order_after_chain(steps, j, k);
    }
    if (!hosts_.empty()) order_by_hosts(steps[j].operation, j);
    clocks_[j * actor_count_ + actor] = place_[j] + 1;
    steps_of_[actor].push_back(static_cast<std::uint32_t>(j));
  }
}

void Order::join(std::uint32_t* into, std::size_t i) const {
  for (std::size_t a = 0; a < actor_count_; ++a) into[a] = std::max(into[a], clock(i)[a]);
}

void Order::order_after_all(std::size_t j) {
  for (const std::vector<std::uint32_t>& own : steps_of_) {
    if (!own.empty()) join(clocks_.data() + j * actor_count_, own.back());
  }
  barrier_ = j;
  std::fill(newest_.begin(), newest_.end(), kNoLink);  // chains begin anew
}

// Steps without a common object do not depend on each other, so only the chain of each object is looked at, backwards,
// until all that is left of it is in the past.
void Order::order_after_chain(std::span<const Step> steps, std::size_t j, std::size_t k) {
  const ObjectId object = steps[j].operation[k].object;
  if (index(object) >= newest_.size()) newest_.resize(index(object) + 1, kNoLink);
  std::uint32_t& newest = newest_[index(object)];
  if (newest == j) return;  // an access before it touches the same
  std::uint32_t* own = clocks_.data() + j * actor_count_;
  bool is_after_all = true;
  for (std::uint32_t i = newest; i != kNoLink;) {
    const Link& link = link_of(steps[i], i, object);
    if (!is_in(own, i)) {
      if (are_dependent(steps[i].operation, steps[j].operation)) {
        join(own, i);
      } else {
        is_after_all = false;
      }
    }
    if (link.is_after_all && is_in(own, i)) break;
    i = link.previous;
  }
  links_[j * Operation::kAccessesMost + k] = {newest, is_after_all};
  newest = static_cast<std::uint32_t>(j);
}

void Order::add_host(ObjectId object) {
  if (std::none_of(hosts_.begin(), hosts_.end(), [&](const Host& h) { return h.object == object; }))
    hosts_.push_back({.object = object});
}

// The end of a host comes after all steps of its actors, and has an order with all steps that saw whether the host was
// up. Actors of a restarted host begin after the restart, which the chain of the host's object knows.
void Order::order_by_hosts(const Operation& operation, std::size_t j) {
  std::uint32_t* own = clocks_.data() + j * actor_count_;
  for (Host& host : hosts_) {
    if (depends_on_host(operation, host.object)) {
      if (host.last_end != kNone) join(own, host.last_end);
      host.dependent.push_back(static_cast<std::uint32_t>(j));
    }
    if (host_ended_by(operation) != host.object) continue;
    for (const std::uint32_t i : host.dependent) {
      if (i != j && !is_in(own, i)) join(own, i);
    }
    host.dependent.clear();
    host.last_end = j;
  }
}

const Order::Link& Order::link_of(const Step& step, std::size_t i, ObjectId object) const {
  const auto is_it = [&](const Access& a) { return a.object == object; };
  const auto k = static_cast<std::size_t>(std::find_if(step.operation.begin(), step.operation.end(), is_it) -
                                          step.operation.begin());
  return links_[i * Operation::kAccessesMost + k];
}

std::size_t Order::last_of(ActorId actor) const {
  return index(actor) >= steps_of_.size() || steps_of_[index(actor)].empty() ? kNone : steps_of_[index(actor)].back();
}

void Order::list_new(std::size_t j, ActorId actor, std::size_t since, std::vector<std::size_t>& steps) const {
  steps.clear();
  for (std::size_t a = 0; a < actor_count_; ++a) {
    if (a == index(actor)) continue;
    const std::size_t begin = since == kNone ? 0 : clock(since)[a];
    const std::size_t end = j < actor_.size() ? clock(j)[a] : steps_of_[a].size();
    for (std::size_t place = begin; place < end; ++place) steps.push_back(steps_of_[a][place]);
  }
  std::sort(steps.begin(), steps.end(), std::greater<>());
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
    for (const Access& a : steps[best].operation)
      text += '=' + std::to_string(a.argument) + '>' + std::to_string(a.result);
    text += ';';
  }
  return text;
}

}  // namespace crashcut::scheduler
