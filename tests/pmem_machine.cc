#include "tests/pmem_machine.h"

#include <unordered_set>

namespace crashcut::tests {
namespace {

// What waits in a store buffer, in a line's queue, or as a non-temporal store.
struct Item {
  enum Kind : std::uint8_t { kWrite, kNonTemporal, kFlush, kFlushOpt, kFence, kMark };
  Kind kind;
  std::uint8_t address, bytes, value;
  std::uint8_t group;  // of the pieces of one store; 0: alone
  std::uint8_t thread;
  std::uint8_t order;  // in which it left its buffer, for non-temporal stores and stores to the same word
};

struct State {
  struct Thread {
    std::uint8_t next = 0;
    std::uint8_t loaded = 0;
    std::vector<Item> buffer;
  };
  std::vector<Thread> threads;
  std::vector<std::vector<Item>> lines;  // oldest first
  std::vector<Item> non_temporal;
  std::vector<std::uint8_t> seen;    // by the threads: the cache
  std::vector<std::uint8_t> medium;  // persistent bytes, then marks
  std::uint8_t left = 0;             // stores that have left a buffer

  std::string key() const {
    std::string key;
    const auto add = [&](const std::vector<Item>& items) {
      key += static_cast<char>(items.size());
      for (const Item& i : items) {
        for (const std::uint8_t byte : {std::uint8_t(i.kind), i.address, i.bytes, i.value, i.group, i.thread, i.order})
          key += static_cast<char>(byte);
      }
    };
    for (const Thread& t : threads) {
      key += static_cast<char>(t.next);
      key += static_cast<char>(t.loaded);
      add(t.buffer);
    }
    for (const auto& line : lines) add(line);
    add(non_temporal);
    key.append(seen.begin(), seen.end());
    key.append(medium.begin(), medium.end());
    return key;
  }
};

class Machine {
 public:
  Machine(const PmemProgram& program, MachineKind kind, std::size_t states_max)
      : program_(program), kind_(kind), states_max_(states_max) {}

  MachineResult run(const PmemOutcome& medium) {
    State first;
    first.threads.resize(program_.threads.size());
    first.lines.resize(static_cast<std::size_t>(program_.lines));
    first.seen.resize(static_cast<std::size_t>(program_.all_bytes()));
    first.medium.resize(static_cast<std::size_t>(program_.persistent_bytes() + program_.marks));
    for (std::size_t i = 0; i < medium.size(); ++i) {
      first.seen[i] = first.medium[i] = static_cast<std::uint8_t>(medium[i]);
    }
    add(std::move(first));
    while (!open_.empty()) {
      const State state = std::move(open_.back());
      open_.pop_back();
      result_.outcomes.emplace(state.medium.begin(), state.medium.end());
      expand(state);
    }
    result_.states = visited_.size();
    return result_;
  }

 private:
  bool is_eager() const { return kind_ != MachineKind::kPx86; }

  void add(State&& state) {
    normalise(state);
    if (visited_.size() >= states_max_) {
      result_.is_complete = false;
      return;
    }
    if (visited_.insert(state.key()).second) open_.push_back(std::move(state));
  }

  // Only the relative order of what is under way matters.
  static void normalise(State& state) {
    std::set<std::uint8_t> used;
    for (const auto& line : state.lines) {
      for (const Item& i : line) used.insert(i.order);
    }
    for (const Item& i : state.non_temporal) used.insert(i.order);
    std::vector<std::uint8_t> rank(256, 0);
    std::uint8_t next = 0;
    for (const std::uint8_t order : used) rank[order] = next++;
    for (auto& line : state.lines) {
      for (Item& i : line) i.order = rank[i.order];
    }
    for (Item& i : state.non_temporal) i.order = rank[i.order];
    state.left = next;
  }

  void expand(const State& state) {
    for (std::size_t t = 0; t < state.threads.size(); ++t) {
      execute(state, t);
      for (std::size_t i = 0; i < state.threads[t].buffer.size(); ++i) leave(state, t, i);
    }
    for (std::size_t l = 0; l < state.lines.size(); ++l) persist_line(state, l);
    for (std::size_t i = 0; i < state.non_temporal.size(); ++i) persist_non_temporal(state, i);
  }

  // ---- a thread executes its next instruction ----

  static bool touch(const Item& item, int address) {
    return item.address <= address && address < item.address + item.bytes;
  }
  std::uint8_t load(const State& state, std::size_t t, int address) const {
    std::uint8_t value = state.seen[static_cast<std::size_t>(address)];
    for (const Item& i : state.threads[t].buffer) {
      if ((i.kind == Item::kWrite || i.kind == Item::kNonTemporal) && touch(i, address)) value = i.value;
    }
    return value;
  }
  bool has_unfinished(const State& state, std::size_t t) const {
    for (const auto& line : state.lines) {
      for (const Item& i : line) {
        if (i.kind == Item::kFlushOpt && i.thread == t) return true;
      }
    }
    for (const Item& i : state.non_temporal) {
      if (i.thread == t) return true;
    }
    return false;
  }

  void execute(const State& state, std::size_t t) {
    const auto& ops = program_.threads[t];
    const State::Thread& thread = state.threads[t];
    if (thread.next == ops.size()) return;
    const PmemOp& op = ops[thread.next];
    State next = state;
    State::Thread& after = next.threads[t];
    ++after.next;
    const auto item = [&](Item::Kind kind) {
      return Item{kind, std::uint8_t(op.address), std::uint8_t(op.bytes), std::uint8_t(op.value), 0, std::uint8_t(t),
                  0};
    };
    switch (op.kind) {
      case PmemOp::kStore:
      case PmemOp::kCopy:
      case PmemOp::kNonTemporal: {
        const bool is_weak = op.kind == PmemOp::kNonTemporal && kind_ != MachineKind::kStrict;
        const auto pieces = pieces_of(program_, op);
        for (const PmemPiece& piece : pieces) {
          Item i = item(is_weak ? Item::kNonTemporal : Item::kWrite);
          i.address = std::uint8_t(piece.address);
          i.bytes = std::uint8_t(piece.bytes);
          if (op.is_loaded) i.value = std::uint8_t(i.value + thread.loaded);
          if (pieces.size() > 1) i.group = std::uint8_t(thread.next + 1);
          after.buffer.push_back(i);
        }
        return add(std::move(next));
      }
      case PmemOp::kLoad:
        after.loaded = load(state, t, op.address);
        return add(std::move(next));
      case PmemOp::kWait: {
        const std::uint8_t value = load(state, t, op.address);
        if (op.value == 0 ? value == 0 : value != op.value) return;
        after.loaded = value;
        return add(std::move(next));
      }
      case PmemOp::kXchg:
      case PmemOp::kCas:
      case PmemOp::kMfence:
        if (!thread.buffer.empty() || has_unfinished(state, t)) return;
        if (op.kind == PmemOp::kXchg || (op.kind == PmemOp::kCas && load(state, t, op.address) == op.expected)) {
          Item i = item(Item::kWrite);
          if (op.kind == PmemOp::kXchg) after.loaded = load(state, t, op.address);
          write(next, i);
        } else if (op.kind == PmemOp::kCas) {
          after.loaded = load(state, t, op.address);
        }
        return add(std::move(next));
      case PmemOp::kSfence:
        after.buffer.push_back(item(Item::kFence));
        return add(std::move(next));
      case PmemOp::kClflush:
        after.buffer.push_back(item(Item::kFlush));
        return add(std::move(next));
      case PmemOp::kClflushopt:
        after.buffer.push_back(item(Item::kFlushOpt));
        return add(std::move(next));
      case PmemOp::kMark:
        after.buffer.push_back(item(Item::kMark));
        return add(std::move(next));
    }
  }

  // ---- an entry leaves a store buffer ----

  static bool is_same_word(const Item& a, const Item& b) {
    return a.address / 8 <= (b.address + b.bytes - 1) / 8 && b.address / 8 <= (a.address + a.bytes - 1) / 8;
  }

  // The table of the paper, for what goes through the buffer.
  bool is_kept(const Item& a, const Item& b) const {
    const bool is_same_line = program_.is_persistent(a.address) && program_.is_persistent(b.address) &&
                              PmemProgram::line_of(a.address) == PmemProgram::line_of(b.address);
    const auto writes = [](const Item& i) { return i.kind == Item::kWrite || i.kind == Item::kNonTemporal; };
    if (a.kind == Item::kFence || b.kind == Item::kFence) return true;
    if (a.kind == Item::kNonTemporal || b.kind == Item::kNonTemporal)
      return writes(a) && writes(b) && is_same_word(a, b);
    if (a.kind == Item::kFlushOpt) return b.kind == Item::kFlush && is_same_line;
    if (b.kind == Item::kFlushOpt) return (a.kind == Item::kWrite || a.kind == Item::kFlush) && is_same_line;
    if (a.group != 0 && a.group == b.group) return false;
    return true;
  }

  // A store reaches the cache.
  void write(State& state, Item item) {
    for (int i = 0; i < item.bytes; ++i) state.seen[static_cast<std::size_t>(item.address + i)] = item.value;
    if (!program_.is_persistent(item.address)) return;
    item.order = state.left++;
    if (item.kind == Item::kNonTemporal) {
      state.non_temporal.push_back(item);
    } else if (is_eager()) {  // caches are durable; but what is below it on the word must be there first
      persist_older(state, item);
      persist(state, item);
    } else {
      state.lines[static_cast<std::size_t>(PmemProgram::line_of(item.address))].push_back(item);
    }
  }

  void leave(const State& state, std::size_t t, std::size_t index) {
    const auto& buffer = state.threads[t].buffer;
    for (std::size_t i = 0; i < index; ++i) {
      if (is_kept(buffer[i], buffer[index])) return;
    }
    const Item item = buffer[index];
    State next = state;
    next.threads[t].buffer.erase(next.threads[t].buffer.begin() + static_cast<std::ptrdiff_t>(index));
    switch (item.kind) {
      case Item::kWrite:
      case Item::kNonTemporal:
        write(next, item);
        break;
      case Item::kFlush:
        if (!is_eager() && !state.lines[static_cast<std::size_t>(PmemProgram::line_of(item.address))].empty()) return;
        break;
      case Item::kFlushOpt:
        if (!is_eager()) next.lines[static_cast<std::size_t>(PmemProgram::line_of(item.address))].push_back(item);
        break;
      case Item::kFence:
        if (has_unfinished(state, t)) return;
        break;
      case Item::kMark:
        ++next.medium[static_cast<std::size_t>(program_.persistent_bytes() + item.value)];
        break;
    }
    add(std::move(next));
  }

  // ---- something reaches the medium ----

  static void persist(State& state, const Item& item) {
    for (int i = 0; i < item.bytes; ++i) state.medium[static_cast<std::size_t>(item.address + i)] = item.value;
  }
  static void persist_older(State& state, const Item& item) {
    for (std::size_t i = 0; i < state.non_temporal.size();) {
      const Item other = state.non_temporal[i];
      if (!is_same_word(other, item) || other.order > item.order) {
        ++i;
        continue;
      }
      persist(state, other);
      state.non_temporal.erase(state.non_temporal.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  // Stores to one word reach the medium in the order of the cache, whatever their kinds.
  static bool has_older(const State& state, const Item& item) {
    const auto is_older = [&](const Item& other) {
      const bool is_write = other.kind == Item::kWrite || other.kind == Item::kNonTemporal;
      return is_write && is_same_word(other, item) && other.order < item.order;
    };
    for (const auto& line : state.lines) {
      for (const Item& i : line) {
        if (is_older(i)) return true;
      }
    }
    for (const Item& i : state.non_temporal) {
      if (is_older(i)) return true;
    }
    return false;
  }

  void persist_line(const State& state, std::size_t l) {
    if (state.lines[l].empty()) return;
    const Item item = state.lines[l].front();
    if (item.kind == Item::kWrite && has_older(state, item)) return;
    State next = state;
    next.lines[l].erase(next.lines[l].begin());
    if (item.kind == Item::kWrite) persist(next, item);
    add(std::move(next));
  }

  void persist_non_temporal(const State& state, std::size_t index) {
    const Item item = state.non_temporal[index];
    if (has_older(state, item)) return;
    State next = state;
    next.non_temporal.erase(next.non_temporal.begin() + static_cast<std::ptrdiff_t>(index));
    persist(next, item);
    add(std::move(next));
  }

  const PmemProgram& program_;
  MachineKind kind_;
  std::size_t states_max_;
  std::unordered_set<std::string> visited_;
  std::vector<State> open_;
  MachineResult result_;
};

}  // namespace

MachineResult run_machine(const PmemProgram& program, MachineKind kind, std::size_t states_max,
                          const PmemOutcome& medium) {
  return Machine(program, kind, states_max).run(medium);
}

}  // namespace crashcut::tests
