#include "tests/pmem_closure.h"

namespace crashcut::tests {
namespace {

using Mask = std::uint32_t;
using Kind = PmemNode::Kind;

class Closure {
 public:
  Closure(const PmemProgram& program, const std::vector<PmemNode>& nodes, MachineKind kind)
      : program_(program), nodes_(nodes), kind_(kind), before_(nodes.size()), medium_before_(nodes.size()) {}

  std::set<PmemOutcome> outcomes() {
    order();
    for (Mask executed = 0; executed < Mask{1} << nodes_.size(); ++executed) {
      if (is_closed(executed, before_)) crash(executed);
    }
    return std::move(outcomes_);
  }

 private:
  static bool has(Mask mask, std::size_t i) { return mask >> i & 1; }
  bool is_store(std::size_t i) const {
    const PmemNode& n = nodes_[i];
    return n.bytes > 0 && program_.is_persistent(n.address) &&
           (n.kind == PmemNode::kWrite || n.kind == PmemNode::kNonTemporal || n.kind == PmemNode::kLocked);
  }
  bool is_on_chain(std::size_t i) const { return is_store(i) && nodes_[i].kind != PmemNode::kNonTemporal; }
  bool is_flush(std::size_t i) const {
    return nodes_[i].kind == PmemNode::kFlush || nodes_[i].kind == PmemNode::kFlushOpt;
  }
  bool is_fence(std::size_t i) const {
    const Kind k = nodes_[i].kind;
    return k == PmemNode::kLocked || k == PmemNode::kMfence || k == PmemNode::kSfence;
  }
  static int line(const PmemNode& n) { return PmemProgram::line_of(n.address); }
  static bool is_same_word(const PmemNode& a, const PmemNode& b) {
    return a.address / 8 <= (b.address + b.bytes - 1) / 8 && b.address / 8 <= (a.address + a.bytes - 1) / 8;
  }
  static bool are_pieces(const PmemNode& a, const PmemNode& b) {
    return a.is_piece && b.is_piece && a.thread == b.thread && a.op == b.op;
  }

  // The table of px86.md, row by row; non-temporal stores and marks have their own lines.
  bool is_kept(const PmemNode& a, const PmemNode& b) const {
    const bool same_line = program_.is_persistent(a.address) && program_.is_persistent(b.address) && line(a) == line(b);
    const auto writes = [](Kind k) { return k == PmemNode::kWrite || k == PmemNode::kNonTemporal; };
    if (a.kind == PmemNode::kRead || a.kind == PmemNode::kLocked || a.kind == PmemNode::kMfence) return true;
    if (b.kind == PmemNode::kLocked || b.kind == PmemNode::kMfence) return true;
    if (b.kind == PmemNode::kRead) return false;
    if (a.kind == PmemNode::kSfence || b.kind == PmemNode::kSfence) return true;
    if (a.kind == PmemNode::kNonTemporal || b.kind == PmemNode::kNonTemporal)
      return writes(a.kind) && writes(b.kind) && is_same_word(a, b);
    if (a.kind == PmemNode::kMark) return b.kind != PmemNode::kFlushOpt;
    if (b.kind == PmemNode::kMark) return a.kind != PmemNode::kFlushOpt;
    switch (a.kind) {
      case PmemNode::kWrite:
      case PmemNode::kFlush:
        return b.kind == PmemNode::kFlushOpt ? same_line : true;
      case PmemNode::kFlushOpt:
        return b.kind == PmemNode::kFlush && same_line;
      default:
        return false;
    }
  }

  void order() {
    for (std::size_t j = 0; j < nodes_.size(); ++j) {
      const PmemNode& b = nodes_[j];
      for (const int from : b.reads_from) before_[j] |= Mask{1} << from;
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        const PmemNode& a = nodes_[i];
        if (a.thread == b.thread && a.op < b.op && is_kept(a, b)) before_[j] |= Mask{1} << i;
      }
      for (std::size_t i = 0; i < j; ++i) {
        const PmemNode& a = nodes_[i];
        const bool is_word_order =
            is_store(i) && is_store(j) && !(is_on_chain(i) && is_on_chain(j)) && is_same_word(a, b);
        const bool is_line_order = is_on_chain(i) && is_on_chain(j) && line(a) == line(b) && !are_pieces(a, b);
        const bool is_flush_order = kind_ == MachineKind::kPx86 && line(a) == line(b) &&
                                    ((is_flush(i) && is_on_chain(j)) || (is_on_chain(i) && is_flush(j)));
        if (is_word_order || is_line_order) medium_before_[j] |= Mask{1} << i;
        if (is_word_order || is_line_order || is_flush_order) before_[j] |= Mask{1} << i;
      }
    }
    for (std::vector<Mask>* matrix : {&before_, &medium_before_}) close(*matrix);
  }

  void close(std::vector<Mask>& matrix) const {
    for (std::size_t k = 0; k < nodes_.size(); ++k) {
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (has(matrix[i], k)) matrix[i] |= matrix[k];
      }
    }
  }

  bool is_closed(Mask set, const std::vector<Mask>& matrix) const {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (has(set, i) && (matrix[i] & ~set) != 0) return false;
    }
    return true;
  }

  bool is_fenced(std::size_t i, Mask executed) const {
    for (std::size_t j = 0; j < nodes_.size(); ++j) {
      if (has(executed, j) && is_fence(j) && nodes_[j].thread == nodes_[i].thread && nodes_[j].op > nodes_[i].op)
        return true;
    }
    return false;
  }

  // The stores that must be on the medium if the crash comes when these nodes were executed.
  Mask durable(Mask executed) const {
    Mask durable = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (!has(executed, i)) continue;
      if (kind_ != MachineKind::kPx86 && is_on_chain(i)) durable |= Mask{1} << i;
      if (nodes_[i].kind == PmemNode::kNonTemporal && is_store(i) && is_fenced(i, executed)) durable |= Mask{1} << i;
      const bool is_done = nodes_[i].kind == PmemNode::kFlush || (is_flush(i) && is_fenced(i, executed));
      if (!is_done || kind_ != MachineKind::kPx86) continue;
      for (std::size_t j = 0; j < i; ++j) {
        if (is_on_chain(j) && line(nodes_[j]) == line(nodes_[i])) durable |= Mask{1} << j;
      }
    }
    return durable;
  }

  void crash(Mask executed) {
    const Mask must = durable(executed);
    Mask stores = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (has(executed, i) && is_store(i)) stores |= Mask{1} << i;
    }
    for (Mask medium = stores;; medium = (medium - 1) & stores) {
      Mask closed = medium;
      for (std::size_t i = 0; i < nodes_.size(); ++i) {
        if (has(medium, i)) closed |= medium_before_[i];
      }
      if (closed == medium && (must & ~medium) == 0) show(executed, medium);
      if (medium == 0) return;
    }
  }

  void show(Mask executed, Mask medium) {
    PmemOutcome outcome(static_cast<std::size_t>(program_.persistent_bytes() + program_.marks), 0);
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const PmemNode& n = nodes_[i];
      if (has(executed, i) && n.kind == PmemNode::kMark)
        ++outcome[static_cast<std::size_t>(program_.persistent_bytes() + n.value)];
      if (!has(medium, i)) continue;
      for (int at = n.address; at < n.address + n.bytes; ++at) {
        outcome[static_cast<std::size_t>(at)] = static_cast<char>(n.value);
      }
    }
    outcomes_.insert(std::move(outcome));
  }

  const PmemProgram& program_;
  const std::vector<PmemNode>& nodes_;
  MachineKind kind_;
  std::vector<Mask> before_, medium_before_;
  std::set<PmemOutcome> outcomes_;
};

}  // namespace

std::set<PmemOutcome> outcomes_of_schedule(const PmemProgram& program, const std::vector<PmemNode>& nodes,
                                           MachineKind kind) {
  return Closure(program, nodes, kind).outcomes();
}

}  // namespace crashcut::tests
