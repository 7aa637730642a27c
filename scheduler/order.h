// Order: which steps of one execution happen before which others: the smallest order that keeps the order of dependent
// steps and of the steps of one actor.
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
  // How many steps of each actor happen before j, itself among them.
  std::span<const std::uint32_t> past_of(std::size_t j) const { return {clock(j), actor_count_}; }
  // The actor's step at that place among its own.
  std::size_t step_of(ActorId actor, std::size_t place) const { return steps_of_[index(actor)][place]; }
  // The actor's last step, or kNone.
  std::size_t last_of(ActorId actor) const;
  // Fills `steps`, the last first, with the steps of other actors that happen before j and not before `since`, a step
  // of the same actor or kNone. If j is beyond the end, all steps count as before it. Over all steps of one actor, each
  // step of another actor is listed once.
  void list_new(std::size_t j, ActorId actor, std::size_t since, std::vector<std::size_t>& steps) const;
  static constexpr std::size_t kNone = SIZE_MAX;

 private:
  // The steps that touch one object are a chain.
  struct Link {
    std::uint32_t previous = kNoLink;
    bool is_after_all = false;  // all before it in the chain happen before it
  };
  static constexpr std::uint32_t kNoLink = 0xffffffff;

  const std::uint32_t* clock(std::size_t j) const { return clocks_.data() + j * actor_count_; }
  bool is_in(const std::uint32_t* clock, std::size_t i) const { return clock[actor_[i]] > place_[i]; }
  void join(std::uint32_t* into, std::size_t i) const;
  void order_after_all(std::size_t j);
  void order_after_chain(std::span<const Step> steps, std::size_t j, std::size_t k);
  void order_by_hosts(const Operation& operation, std::size_t j);
  const Link& link_of(const Step& step, std::size_t i, ObjectId object) const;

  std::size_t actor_count_ = 0;
  std::vector<std::uint32_t> clocks_;  // a step, an actor: how many of its steps are in the past
  std::vector<std::uint32_t> actor_, place_;
  std::vector<std::size_t> previous_;
  std::vector<std::vector<std::uint32_t>> steps_of_;  // an actor
  std::vector<Link> links_;                           // a step, an access
  std::vector<std::uint32_t> newest_;                 // an object: the last step that touched it, or kNoLink
  std::size_t barrier_ = kNone;                       // the last step that depends on all
  struct Host {
    ObjectId object;
    std::vector<std::uint32_t> dependent;  // steps that depend on its end, since the last one
    std::size_t last_end = kNone;
  };
  void add_host(ObjectId object);
  std::vector<Host> hosts_;  // that end or fail in this execution
};

// A text that is the same for equivalent executions and differs for others: the steps in the order of the smallest
// actor that can go next.
std::string class_of(std::span<const Step> steps);

}  // namespace crashcut::scheduler
