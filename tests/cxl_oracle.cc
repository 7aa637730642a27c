#include <algorithm>
#include <unordered_set>

#include "tests/cxl_program.h"

namespace crashcut::tests {
namespace {

enum Status : std::uint8_t { kUp, kEnded, kFailed };

// A store, or another entry of a store buffer. Halves: four a line, and a fifth for its other 48 bytes.
struct Item {
  enum Kind : std::uint8_t { kWrite, kWeak, kFlush, kFlushOpt, kFence };
  Kind kind;
  std::uint8_t line = 0, halves = 0, value = 0;
  std::uint8_t group = 0;  // of the two pieces of a wide store; 0: alone
  std::uint8_t thread = 0;
};
constexpr int kHalves = 5;
constexpr std::uint8_t kAllHalves = 31;

// The words that the halves are in. The other bytes of the line are words of their own.
std::uint8_t words_of(std::uint8_t halves) {
  return static_cast<std::uint8_t>(((halves & 3) != 0 ? 1 : 0) | ((halves & 12) != 0 ? 2 : 0) |
                                   ((halves & 16) != 0 ? 4 : 0));
}

struct Line {
  std::uint8_t owner = 255;
  std::uint8_t seen[kHalves] = {}, device[kHalves] = {};
  std::uint8_t poisoned = 0, anew = 0;
  std::vector<Item> pending;  // of the owner, oldest first
  // Without coherence: what each machine has of the line.
  struct Copy {
    std::uint8_t halves[kHalves] = {};
    bool is_there = false, is_dirty = false;
  };
  std::vector<Copy> copies;
};
struct Thread {
  std::uint8_t next = 0, loaded = 0;
  std::vector<Item> buffer;
  std::string seen;
};
struct State {
  std::vector<Thread> threads;
  std::vector<Line> lines;
  std::vector<std::uint8_t> status;  // of the machines
  std::uint8_t lock_owner = 255;     // a thread
  std::uint8_t lock_died = 0;
  int failures = 0;

  std::string key() const {
    std::string key;
    const auto add = [&](std::uint8_t byte) { key += static_cast<char>(byte); };
    const auto add_items = [&](const std::vector<Item>& items) {
      add(static_cast<std::uint8_t>(items.size()));
      for (const Item& i : items) {
        for (const std::uint8_t byte : {std::uint8_t(i.kind), i.line, i.halves, i.value, i.group, i.thread}) add(byte);
      }
    };
    for (const Thread& t : threads) {
      add(t.next);
      add(t.loaded);
      add_items(t.buffer);
      add(static_cast<std::uint8_t>(t.seen.size()));
      key += t.seen;
    }
    for (const Line& l : lines) {
      add(l.owner);
      for (int i = 0; i < kHalves; ++i) {
        add(l.seen[i]);
        add(l.device[i]);
      }
      add(l.poisoned);
      add(l.anew);
      add_items(l.pending);
      for (const Line::Copy& copy : l.copies) {
        for (const std::uint8_t half : copy.halves) add(half);
        add(static_cast<std::uint8_t>(copy.is_there ? copy.is_dirty ? 2 : 1 : 0));
      }
    }
    for (const std::uint8_t s : status) add(s);
    add(lock_owner);
    add(lock_died);
    add(static_cast<std::uint8_t>(failures));
    return key;
  }
};

class Oracle {
 public:
  Oracle(const CxlProgram& program, std::size_t states_most) : program_(program), states_most_(states_most) {}

  CxlOracleResult run() {
    State first;
    first.threads.resize(program_.threads.size());
    first.lines.resize(static_cast<std::size_t>(program_.lines));
    for (Line& line : first.lines) line.copies.resize(static_cast<std::size_t>(program_.machines));
    first.status.resize(static_cast<std::size_t>(program_.machines + program_.devices), kUp);
    add(std::move(first));
    while (!open_.empty()) {
      const State state = std::move(open_.back());
      open_.pop_back();
      is_end_ = true;
      for (std::size_t t = 0; t < state.threads.size(); ++t) {
        if (state.status[machine_of(t)] != kUp) continue;
        execute(state, t);
        for (std::size_t i = 0; i < state.threads[t].buffer.size(); ++i) leave(state, t, i);
      }
      if (is_end_) result_.outcomes.insert(outcome_of(state));
      let_caches_act(state);
      fail(state);
    }
    result_.states = visited_.size();
    return result_;
  }

 private:
  std::uint8_t machine_of(std::size_t t) const { return static_cast<std::uint8_t>(program_.threads[t].machine); }

  void add(State&& state) {
    is_end_ = false;
    if (visited_.size() >= states_most_) {
      result_.is_complete = false;
      return;
    }
    if (visited_.insert(state.key()).second) open_.push_back(std::move(state));
  }

  CxlOutcome outcome_of(const State& state) const {
    CxlOutcome text;
    for (std::size_t t = 0; t < state.threads.size(); ++t) {
      text += state.status[machine_of(t)] == kFailed ? "F" : state.threads[t].seen;
      text += '|';
    }
    return text;
  }

  // Of the home of the line.
  bool is_gone(const State& state, int line) const {
    const int home = program_.home_of(line);
    return home >= 0 && state.status[static_cast<std::size_t>(home)] == kFailed;
  }

  // ---- the cache and the device

  static bool is_before(const Item& earlier, const Item& later) {
    if ((words_of(earlier.halves) & words_of(later.halves)) != 0) return true;
    return earlier.kind == Item::kWrite && later.kind == Item::kWrite &&
           (earlier.group == 0 || earlier.group != later.group);
  }
  static void reach_device(Line& line, const Item& store) {
    for (int i = 0; i < kHalves; ++i) {
      if ((store.halves >> i & 1) != 0) line.device[i] = store.value;
    }
  }
  static void write_back(Line& line) {
    for (const Item& store : line.pending) reach_device(line, store);
    line.pending.clear();
  }
  static void come_to(Line& line, std::uint8_t machine) {
    if (line.owner != machine) write_back(line);
  }
  // ---- lines without coherence

  static Line::Copy& have_copy(Line& line, std::uint8_t machine) {
    Line::Copy& copy = line.copies[machine];
    if (!copy.is_there) {
      std::copy(std::begin(line.device), std::end(line.device), std::begin(copy.halves));
      copy.is_there = true;
    }
    return copy;
  }
  static void write_copy_back(Line& line, std::uint8_t machine, bool keeps) {
    Line::Copy& copy = line.copies[machine];
    if (copy.is_dirty) std::copy(std::begin(copy.halves), std::end(copy.halves), std::begin(line.device));
    copy.is_dirty = false;
    if (!keeps) copy = Line::Copy{};
  }
  static void write_incoherently(Line& line, std::uint8_t machine, const Item& store) {
    const bool is_weak = store.kind == Item::kWeak;
    if (is_weak) write_copy_back(line, machine, false);
    std::uint8_t* halves = is_weak ? line.device : have_copy(line, machine).halves;
    for (int i = 0; i < kHalves; ++i) {
      if ((store.halves >> i & 1) != 0) halves[i] = store.value;
    }
    if (!is_weak) line.copies[machine].is_dirty = true;
  }
  // A cache writes a dirty copy back, or fetches the line again. That need not happen: the execution may have ended.
  void let_caches_act(const State& state) {
    for (int l = 0; l < program_.lines; ++l) {
      for (int m = 0; program_.is_incoherent(l) && m < program_.machines; ++m) {
        const auto number = static_cast<std::size_t>(l);
        const auto machine = static_cast<std::uint8_t>(m);
        if (state.status[machine] != kUp) continue;
        State next = state;
        Line& line = next.lines[number];
        if (line.copies[machine].is_dirty) {
          write_copy_back(line, machine, true);
        } else {
          line.copies[machine] = Line::Copy{};
          have_copy(line, machine);
        }
        add(std::move(next));
      }
    }
  }

  void write(State& state, std::size_t t, const Item& store) const {
    if (is_gone(state, store.line)) return;
    if (program_.is_incoherent(store.line)) return write_incoherently(state.lines[store.line], machine_of(t), store);
    Line& line = state.lines[store.line];
    come_to(line, machine_of(t));
    line.owner = machine_of(t);
    for (int i = 0; i < kHalves; ++i) {
      if ((store.halves >> i & 1) != 0) line.seen[i] = store.value;
    }
    line.pending.push_back(store);
    line.anew |= store.halves;
    if (line.anew == kAllHalves) line.poisoned = 0;
  }
  void flush(State& state, std::size_t t, std::uint8_t number) const {
    Line& line = state.lines[number];
    if (line.owner != machine_of(t)) return;
    // Ordinary stores, and what must be there before them.
    complete(line, [](const Item& store) { return store.kind == Item::kWrite; });
  }
  template <class IsWanted>
  static void complete(Line& line, IsWanted&& is_wanted) {
    std::vector<bool> goes(line.pending.size());
    for (std::size_t i = line.pending.size(); i-- > 0;) {
      goes[i] = goes[i] || is_wanted(line.pending[i]);
      for (std::size_t j = 0; goes[i] && j < i; ++j) {
        if (is_before(line.pending[j], line.pending[i])) goes[j] = true;
      }
    }
    std::vector<Item> left;
    for (std::size_t i = 0; i < line.pending.size(); ++i) {
      if (goes[i]) reach_device(line, line.pending[i]);
      if (!goes[i]) left.push_back(line.pending[i]);
    }
    line.pending = left;
  }
  // Of the thread: its non-temporal stores are durable. Flushes have taken place: they leave the buffer before it.
  void fence(State& state, std::size_t t) const {
    for (Line& line : state.lines) {
      if (line.owner == machine_of(t))
        complete(line, [&](const Item& store) { return store.kind == Item::kWeak && store.thread == t; });
    }
  }

  // ---- steps of a thread

  // False: the line is poisoned.
  bool load(State& state, std::size_t t, int word, std::uint8_t (&halves)[2]) const {
    Line& line = state.lines[static_cast<std::size_t>(CxlProgram::line_of(word))];
    const int first = 2 * (word % 2);
    bool is_own[2] = {};
    for (const Item& i : state.threads[t].buffer) {
      if (i.kind > Item::kWeak || i.line != CxlProgram::line_of(word)) continue;
      for (int h = 0; h < 2; ++h) {
        if ((i.halves >> (first + h) & 1) == 0) continue;
        halves[h] = i.value;
        is_own[h] = true;
      }
    }
    if (is_own[0] && is_own[1]) return true;
    if (program_.is_incoherent(CxlProgram::line_of(word))) {
      for (int h = 0; h < 2; ++h) {
        if (!is_own[h]) halves[h] = have_copy(line, machine_of(t)).halves[first + h];
      }
      return true;
    }
    come_to(line, machine_of(t));
    if (line.poisoned != 0) return false;
    for (int h = 0; h < 2; ++h) {
      if (!is_own[h]) halves[h] = line.seen[first + h];
    }
    return true;
  }
  static void note(Thread& thread, const std::string& what) { thread.seen += what + " "; }
  // Loads into the thread; false: poison.
  bool look(State& state, std::size_t t, int word) const {
    std::uint8_t halves[2] = {};
    Thread& thread = state.threads[t];
    if (!load(state, t, word, halves)) {
      note(thread, "P");
      return false;
    }
    thread.loaded = halves[0];
    note(thread, std::to_string(halves[0]) + "," + std::to_string(halves[1]));
    return true;
  }

  static bool touches(const CxlOp& op) {
    return op.kind <= CxlOp::kCas || op.kind == CxlOp::kClflush || op.kind == CxlOp::kClflushopt ||
           op.kind == CxlOp::kClwb;
  }

  void execute(const State& state, std::size_t t) {
    const auto& ops = program_.threads[t].ops;
    if (state.threads[t].next == ops.size()) return;
    const CxlOp& op = ops[state.threads[t].next];
    State next = state;
    Thread& thread = next.threads[t];
    ++thread.next;
    const auto line = static_cast<std::uint8_t>(CxlProgram::line_of(op.word));
    const auto both = static_cast<std::uint8_t>(3 << 2 * (op.word % 2));
    const bool is_drained = state.threads[t].buffer.empty();
    Item item{Item::kWrite, line, both, static_cast<std::uint8_t>(op.value), 0, static_cast<std::uint8_t>(t)};
    if (touches(op) && is_gone(state, line)) {
      if ((op.kind == CxlOp::kXchg || op.kind == CxlOp::kCas) && !is_drained) return;
      note(thread, "P");
      return add(std::move(next));
    }
    switch (op.kind) {
      case CxlOp::kStore:
        item.halves = static_cast<std::uint8_t>(op.halves << 2 * (op.word % 2));
        if (op.is_loaded) item.value = static_cast<std::uint8_t>(item.value + thread.loaded);
        thread.buffer.push_back(item);
        break;
      case CxlOp::kStoreBoth:
        item.group = thread.next;
        item.halves = 3;
        thread.buffer.push_back(item);
        item.halves = 12;
        thread.buffer.push_back(item);
        break;
      case CxlOp::kNonTemporal:
      case CxlOp::kFill:
        item.kind = Item::kWeak;
        if (op.kind == CxlOp::kFill) item.halves = kAllHalves;
        thread.buffer.push_back(item);
        break;
      case CxlOp::kLoad:
        look(next, t, op.word);
        break;
      case CxlOp::kXchg:
      case CxlOp::kCas:
        if (!is_drained) return;
        fence(next, t);
        if (look(next, t, op.word) && (op.kind == CxlOp::kXchg || next.threads[t].loaded == op.expected))
          write(next, t, item);
        break;
      case CxlOp::kMfence:
        if (!is_drained) return;
        fence(next, t);
        break;
      case CxlOp::kSfence:
        thread.buffer.push_back({Item::kFence});
        break;
      case CxlOp::kClflush:
      case CxlOp::kClflushopt:
      case CxlOp::kClwb: {
        // Without coherence all of them are ordered as clflush is. The value says whether the copy is kept.
        const bool is_ordered = op.kind == CxlOp::kClflush || program_.is_incoherent(line);
        thread.buffer.push_back({is_ordered ? Item::kFlush : Item::kFlushOpt, line, 0,
                                 static_cast<std::uint8_t>(op.kind == CxlOp::kClwb ? 1 : 0)});
        break;
      }
      case CxlOp::kLock:
        if (!is_drained || next.lock_owner != 255) return;
        fence(next, t);
        note(thread, next.lock_died != 0 ? "died" : "locked");
        next.lock_owner = static_cast<std::uint8_t>(t);
        next.lock_died = 0;
        break;
      case CxlOp::kUnlock:
        if (!is_drained) return;
        fence(next, t);
        next.lock_owner = 255;
        break;
      case CxlOp::kWaitMachine: {
        const std::uint8_t status = next.status[static_cast<std::size_t>(op.word)];
        if (status == kUp) return;
        note(thread, status == kEnded ? "ended" : "failed");
        break;
      }
      case CxlOp::kJoin:
        for (std::size_t o = 0; o < next.threads.size(); ++o) {
          if (o != t && machine_of(o) == machine_of(t) && next.threads[o].next < program_.threads[o].ops.size()) return;
        }
        break;
      case CxlOp::kEnd:
        for (std::size_t o = 0; o < next.threads.size(); ++o) {
          if (machine_of(o) == machine_of(t) && !next.threads[o].buffer.empty()) return;
        }
        next.status[machine_of(t)] = kEnded;
        for (Line& l : next.lines) write_copy_back(l, machine_of(t), false);
        let_locks_go(next, machine_of(t));
        break;
    }
    add(std::move(next));
  }

  void let_locks_go(State& state, std::uint8_t machine) const {
    if (state.lock_owner == 255 || machine_of(state.lock_owner) != machine) return;
    state.lock_owner = 255;
    state.lock_died = 1;
  }

  // Whether the later entry may not leave before the earlier one: the table of the paper.
  static bool is_kept(const Item& a, const Item& b) {
    const auto writes = [](const Item& i) { return i.kind <= Item::kWeak; };
    if (a.kind == Item::kFence || b.kind == Item::kFence) return true;
    if (a.kind == Item::kWeak || b.kind == Item::kWeak)
      return writes(a) && writes(b) && a.line == b.line && (words_of(a.halves) & words_of(b.halves)) != 0;
    if (b.kind == Item::kFlushOpt) return a.kind != Item::kFlushOpt && a.line == b.line;
    if (a.kind == Item::kFlushOpt) return b.kind == Item::kFlush && a.line == b.line;
    return a.group == 0 || a.group != b.group;
  }

  void leave(const State& state, std::size_t t, std::size_t i) {
    const auto& buffer = state.threads[t].buffer;
    for (std::size_t j = 0; j < i; ++j) {
      if (is_kept(buffer[j], buffer[i])) return;
    }
    State next = state;
    const Item item = buffer[i];
    next.threads[t].buffer.erase(next.threads[t].buffer.begin() + static_cast<std::ptrdiff_t>(i));
    if (item.kind <= Item::kWeak) write(next, t, item);
    if (item.kind == Item::kFlush || item.kind == Item::kFlushOpt) {
      if (program_.is_incoherent(item.line)) {
        write_copy_back(next.lines[item.line], machine_of(t), item.value != 0);
      } else {
        flush(next, t, item.line);
      }
    }
    if (item.kind == Item::kFence) fence(next, t);
    add(std::move(next));
  }

  // ---- failures

  void fail(const State& state) {
    for (int m = 0; m < program_.machines + program_.devices; ++m) {
      const auto machine = static_cast<std::uint8_t>(m);
      const bool is_device = m >= program_.machines;
      if (state.status[machine] != kUp) continue;
      if (!is_device && program_.failures_most >= 0 && state.failures >= program_.failures_most) continue;
      if (!is_device && program_.never_fails[machine]) continue;
      State next = state;
      if (!is_device) ++next.failures;
      next.status[machine] = kFailed;
      for (int l = 0; l < program_.lines; ++l) {
        Line& line = next.lines[static_cast<std::size_t>(l)];
        if (!is_device) line.copies[machine] = Line::Copy{};
        if (!is_gone(next, l)) continue;
        line = Line{};
        line.copies.resize(static_cast<std::size_t>(program_.machines));
      }
      for (std::size_t t = 0; t < next.threads.size(); ++t) {
        if (machine_of(t) != machine) continue;
        next.threads[t] = Thread{};
      }
      let_locks_go(next, machine);
      lose(next, machine, 0);
    }
  }
  // From this line on.
  void lose(const State& state, std::uint8_t machine, std::size_t l) {
    if (l == state.lines.size()) return add(State(state));
    const Line& line = state.lines[l];
    if (line.owner != machine) return lose(state, machine, l + 1);
    const std::size_t count = line.pending.size();
    for (std::uint32_t kept = 0; kept < 1u << count; ++kept) {
      if (program_.has_global_flush && kept + 1 != 1u << count) continue;
      bool is_closed = true;
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t j = 0; j < i; ++j) {
          if ((kept >> i & 1) != 0 && (kept >> j & 1) == 0 && is_before(line.pending[j], line.pending[i]))
            is_closed = false;
        }
      }
      if (!is_closed) continue;
      State next = state;
      Line& after = next.lines[l];
      for (std::size_t i = 0; i < count; ++i) {
        if ((kept >> i & 1) != 0) reach_device(after, line.pending[i]);
      }
      std::copy(std::begin(after.device), std::end(after.device), std::begin(after.seen));
      after.pending.clear();
      after.owner = 255;
      if (program_.has_poison && kept + 1 != 1u << count) {
        after.poisoned = 1;
        after.anew = 0;
      }
      lose(next, machine, l + 1);
    }
  }

  const CxlProgram& program_;
  std::size_t states_most_;
  CxlOracleResult result_;
  std::unordered_set<std::string> visited_;
  std::vector<State> open_;
  bool is_end_ = false;
};

}  // namespace

CxlOracleResult run_cxl_oracle(const CxlProgram& program, std::size_t states_most) {
  return Oracle(program, states_most).run();
}

}  // namespace crashcut::tests
