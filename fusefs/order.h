// Order: applies a profile's rules to events as they come, keeping only the edges that no other edge implies.
//
// For each rule and scope it keeps a frontier: the events of the rule's `before` kinds that a later event of its
//   `after` kinds must follow directly. Rules that chain their own kinds keep one event there, so the number of
//   edges grows with the number of events, not with its square.
// Invariants: the transitive closure of the edges is that of the rules (tests/random_programs_test.cc).
// Threads: the caller serialises.
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "fusefs/effects.h"
#include "fusefs/profile.h"
#include "fusefs/recording.h"
#include "persist/log.h"

namespace crashcut::fusefs {

// What an event is about: which rules' scopes it falls into.
struct Touch {
  std::span<const Ino> inos;
  BlockId block = kNoBlock;
  std::uint32_t sector = 0;  // within the block
};

class Order {
 public:
  Order(std::vector<Rule> rules, const persist::Log& log)
      : rules_(std::move(rules)), log_(log), frontiers_(rules_.size()) {}

  // Reports the rules by which an event of this kind comes before other events, or after them.
  void report(Kinds kind, const Touch& touch, std::uint64_t block_name, Effects& effects) const;

  // Adds to `after` the events that a new event must follow.
  void find_predecessors(Kinds kind, const Touch& touch, std::vector<persist::EventId>& after);
  // The new event, once the log has it.
  void add(persist::EventId event, Kinds kind, const Touch& touch);
  // Whether a c-later event of kind `later` follows an earlier one of kind `earlier` that touches the same file.
  bool is_ordered(Kinds earlier, Kinds later) const;
  // The same for events that touch the same block.
  bool is_ordered_in_block(Kinds earlier, Kinds later) const;
  // Gives the memory back. No event may follow.
  void forget() {
    decltype(frontiers_)().swap(frontiers_);
    decltype(last_in_sector_)().swap(last_in_sector_);
  }

 private:
  struct Frontier {
    std::vector<persist::EventId> events;
    std::size_t prune_at = 64;
  };

  template <class Visit>
  void visit_keys(const Rule& rule, const Touch& touch, Visit&& visit) const;
  bool implies(Scope wider, Scope narrower) const { return static_cast<int>(wider) >= static_cast<int>(narrower); }
  // Whether an event of `kinds` comes before all later events of `later` in (at least) `scope`.
  bool precedes_all(Kinds kinds, Scope scope, Kinds later) const;
  void find_rising(const Touch& touch, std::vector<persist::EventId>& after) const;
  void push(Frontier& frontier, persist::EventId event);

  std::vector<Rule> rules_;
  const persist::Log& log_;
  std::vector<std::unordered_map<std::uint64_t, Frontier>> frontiers_;
  std::unordered_map<BlockId, std::vector<persist::EventId>> last_in_sector_;
};

}  // namespace crashcut::fusefs
