// Fences: the barriers of a log that bind only some of its events, and sets of them.
//
// A fence belongs to a scope (a thread, a machine). The fences of one scope are a chain: each persists after the one
//   before it. The recording says how fences of different scopes are ordered. So the position of a cut among all fences
//   is one number a scope, and each fence has two rows of such numbers:
//     row_below(f)[s]  how many fences of scope s are at or below f. If f is in the cut, these are in;
//     row_above(f)[s]  the first fence of scope s that is at or above f. If f is out, this one and all later ones of
//                      its scope are out.
//
// A set of fences stands for all fences at or below its members (the past of an event), or for all at or above them
//   (the future of an event). It keeps no member that another member implies. Most sets have one member. Equal sets
//   have equal numbers, so the events between two synchronisations share one set.
//
// Invariants: (1) f is at or below g exactly if row_below(g)[scope(f)] >= index(f); (2) rows do not fall along a scope;
//   (3) a set's members are pairwise unordered, unless a barrier of the whole log orders them: the log knows that.
// Cost: a fence costs a number a scope and row, an event costs the number of its set. join() and meet() cost the
//   product of the sizes of two sets, and nothing if the sets are the same.
// Threads: not synchronised; read-only once sealed.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace crashcut::persist {

using EventId = std::uint32_t;
using ScopeId = std::uint32_t;     // the caller's: 0, 1, 2, ... without large gaps
using FenceId = std::uint32_t;     // 1, 2, ... in the order of recording
using FenceSetId = std::uint32_t;  // a FenceId is the set of that fence alone

inline constexpr FenceSetId kNoFences = 0;

class Fences {
 public:
  // The next fence of `scope`. It persists after the previous one of its scope and after those of `below`.
  FenceId add(EventId event, ScopeId scope, FenceSetId below);
  // Builds row_above(). Call once, after the last fence.
  void seal();

  std::size_t count() const { return fences_.size() - 1; }
  std::size_t scope_count() const { return by_scope_.size(); }
  EventId event(FenceId f) const { return fences_[f].event; }
  ScopeId scope(FenceId f) const { return fences_[f].scope; }
  // Its number among the fences of its scope, from 1.
  std::uint32_t index(FenceId f) const { return fences_[f].index; }
  // The fence number `index` of a scope.
  FenceId at(ScopeId s, std::uint32_t index) const { return by_scope_[s][index - 1]; }
  // Scopes that are missing at the row's end have no fence below `f`.
  std::span<const std::uint32_t> row_below(FenceId f) const;
  std::span<const std::uint32_t> row_above(FenceId f) const;  // sealed only; kNever if no fence of the scope is above

  std::span<const FenceId> members(FenceSetId set) const;
  // The fences at or below those of `a` or of `b`.
  FenceSetId join(FenceSetId a, FenceSetId b);
  // The fences at or above those of `a` or of `b`.
  FenceSetId meet(FenceSetId a, FenceSetId b);
  bool is_at_or_below(FenceId low, FenceId high) const;
  // Whether a member of `low` is at or below a member of `high`.
  bool reaches(FenceSetId low, FenceSetId high) const;

  std::size_t memory_bytes() const;

  static constexpr std::uint32_t kNever = ~std::uint32_t{0};

 private:
  static constexpr FenceSetId kFirstLargeSet = FenceSetId{1} << 31;

  struct Fence {
    EventId event = 0;
    ScopeId scope = 0;
    std::uint32_t index = 0;
    std::size_t first_below = 0;  // of its row in below_
    std::uint32_t below_count = 0;
  };

  bool are_on_one_chain(FenceSetId a, FenceSetId b) const;
  template <class Implies>
  FenceSetId unite(FenceSetId a, FenceSetId b, Implies&& implies);
  FenceSetId intern();

  std::vector<Fence> fences_{1};                // [0] is none
  std::vector<FenceId> singles_{0};             // [f] is f: what members() of a single fence points to
  std::vector<std::vector<FenceId>> by_scope_;  // ascending
  std::vector<std::uint32_t> below_, above_;
  std::vector<FenceId> large_sets_;  // the members of all sets of two or more, each set ascending
  std::vector<std::size_t> first_of_large_set_{0};
  std::unordered_multimap<std::uint64_t, FenceSetId> large_set_by_hash_;
  std::vector<FenceId> united_;  // scratch of unite()
};

}  // namespace crashcut::persist
