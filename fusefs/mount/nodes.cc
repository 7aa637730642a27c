#include "fusefs/mount/nodes.h"

namespace crashcut::fusefs {
namespace {

constexpr int kGenerationShift = 40;
constexpr std::uint64_t kInoMask = Nodes::kSpecialBit - 1;

}  // namespace

void Nodes::restart() {
  ++generation_;
  known_.clear();
  held_count_ = 0;
}

NodeId Nodes::node_of(Ino ino) const {
  return ino == kRootIno ? kRootNode : generation_ << kGenerationShift | static_cast<std::uint64_t>(ino);
}

NodeId Nodes::special_node(std::size_t index) const { return generation_ << kGenerationShift | kSpecialBit | index; }

bool Nodes::is_current(NodeId node) const { return node == kRootNode || node >> kGenerationShift == generation_; }

Ino Nodes::ino_of(NodeId node) const { return node == kRootNode ? kRootIno : Ino{node & kInoMask}; }

bool Nodes::must_hold(Ino ino) {
  const auto found = known_.find(static_cast<std::uint64_t>(ino));
  if (found == known_.end() || found->second.held) return false;
  ++held_count_;
  return found->second.held = true;
}

bool Nodes::forget(NodeId node, std::uint64_t count) {
  if (!is_current(node) || node == kRootNode || is_special(node)) return false;
  const auto found = known_.find(static_cast<std::uint64_t>(ino_of(node)));
  if (found == known_.end()) return false;
  Known& known = found->second;
  known.lookups -= std::min(known.lookups, count);
  if (known.lookups > 0) return false;
  const bool was_held = known.held;
  if (was_held) --held_count_;
  known_.erase(found);
  return was_held;
}

}  // namespace crashcut::fusefs
