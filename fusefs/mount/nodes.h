// Nodes: the numbers under which the kernel knows inodes, and what it holds of them.
//
// A number is the generation of the volume and the inode's own, so that no number of one crash state is ever valid
//   in another. The root has FUSE's fixed number in every generation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "fusefs/types.h"

namespace crashcut::fusefs {

using NodeId = std::uint64_t;
inline constexpr NodeId kRootNode = 1;

class Nodes {
 public:
  static constexpr std::uint64_t kSpecialBit = std::uint64_t{1} << 39;

  // Forgets everything: a new generation.
  void restart();
  std::uint64_t generation() const { return generation_; }

  NodeId node_of(Ino ino) const;
  // The number of the special directory (0) or of its n-th file (n + 1).
  NodeId special_node(std::size_t index) const;

  bool is_current(NodeId node) const;
  bool is_special(NodeId node) const { return (node & kSpecialBit) != 0; }
  std::size_t special_index(NodeId node) const { return node & (kSpecialBit - 1); }
  Ino ino_of(NodeId node) const;

  // The kernel was told of the inode; it will forget() it as often.
  void add_lookup(Ino ino) { ++known_[static_cast<std::uint64_t>(ino)].lookups; }
  // Before its last name goes: whether the caller is to hold it open for the kernel's sake.
  bool must_hold(Ino ino);
  bool holds_any() const { return held_count_ > 0; }
  // Whether nothing is left that was held.
  bool forget(NodeId node, std::uint64_t count);

 private:
  struct Known {
    std::uint64_t lookups = 0;
    bool held = false;
  };
  std::uint64_t generation_ = 0;
  std::size_t held_count_ = 0;
  std::unordered_map<std::uint64_t, Known> known_;
};

}  // namespace crashcut::fusefs
