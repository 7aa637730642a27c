// A search over failure points as Jaaru's (section 4 of the paper), as a baseline: the same outcomes, in more
// executions.
//
// The baseline: the program runs up to each failure point, just before an instruction that flushes or fences, and at
// its end; none where nothing was stored since the last one. After each of these runs recoveries are explored
// lazily with an interval for each cache line. pmem/ records one execution and explores the recoveries of all crash
// moments together. One thread, stores of words.
#include <gtest/gtest.h>

#include <cstdio>

#include "persist/explore.h"
#include "tests/pmem_driver.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

// A recovery: reads words (compact addresses), returns what it found.
using Read = std::function<int(int)>;
using Recovery = std::function<std::string(const Read&)>;

struct Count {
  std::set<std::string> outcomes;
  std::size_t executions = 0;  // of the program and of recoveries
  std::size_t failure_points = 0;
};

// ---- the baseline
// ----------------------------------------------------------------------------------------------------

class FailurePoints {
 public:
  FailurePoints(const PmemProgram& program, const Recovery& recovery) : program_(program), recovery_(recovery) {}

  Count run() {
    bool has_stored = true;  // the empty beginning is a failure point too
    const auto& ops = program_.threads[0];
    for (std::size_t i = 0; i <= ops.size(); ++i) {
      const bool is_end = i == ops.size();
      const bool flushes = !is_end && ops[i].kind != PmemOp::kStore && ops[i].kind != PmemOp::kLoad;
      if ((is_end || flushes) && has_stored) {
        fail();
        has_stored = false;
      }
      if (is_end) break;
      execute(ops[i]);
      has_stored |= ops[i].kind == PmemOp::kStore || ops[i].kind == PmemOp::kXchg;
    }
    return count_;
  }

 private:
  struct Stored {
    int value;
    int sequence;
  };
  struct Line {
    int begin = 0;
    int end = 1 << 30;
    int last = 0;  // store or clflush
  };

  void execute(const PmemOp& op) {
    const int line = PmemProgram::line_of(op.address);
    switch (op.kind) {
      case PmemOp::kStore:
        lines_[line].last = ++sequence_;
        stores_[op.address].push_back({op.value, sequence_});
        break;
      case PmemOp::kClflush:
        lines_[line].begin = lines_[line].last = ++sequence_;
        break;
      case PmemOp::kClflushopt:
        flush_buffer_.push_back({line, std::max({sequence_, lines_[line].last, last_sfence_})});
        break;
      case PmemOp::kSfence:
      case PmemOp::kMfence:
      case PmemOp::kXchg:
        last_sfence_ = ++sequence_;
        for (const auto& [flushed, sequence] : flush_buffer_) {
          lines_[flushed].begin = std::max(lines_[flushed].begin, sequence);
        }
        flush_buffer_.clear();
        if (op.kind != PmemOp::kXchg) break;
        lines_[line].last = ++sequence_;
        stores_[op.address].push_back({op.value, sequence_});
        break;
      default:
        break;
    }
  }

  // BuildMayReadFrom and DoRead of the paper's figures 9 and 10. Where there is more than one store to read from, the
  // path says which; a path that is too short is continued.
  int read(int address, std::map<int, Line>& lines, std::vector<std::pair<std::size_t, std::size_t>>& path,
           std::size_t& depth) {
    Line& line = lines[PmemProgram::line_of(address)];
    std::vector<Stored> may{{0, 0}};
    const auto& all = stores_[address];
    for (const Stored& stored : all) {
      if (stored.sequence >= line.end) break;
      if (stored.sequence <= line.begin) may.clear();
      may.push_back(stored);
    }
    std::size_t taken = 0;
    if (may.size() > 1) {
      if (depth == path.size()) path.push_back({0, may.size()});
      taken = path[depth++].first;
    }
    line.begin = std::max(line.begin, may[taken].sequence);
    for (const Stored& stored : all) {
      if (stored.sequence > may[taken].sequence) {
        line.end = std::min(line.end, stored.sequence);
        break;
      }
    }
    return may[taken].value;
  }

  void fail() {
    ++count_.failure_points;
    std::vector<std::pair<std::size_t, std::size_t>> path;
    do {
      std::size_t depth = 0;
      std::map<int, Line> lines = lines_;
      count_.outcomes.insert(recovery_([&](int address) { return read(address, lines, path, depth); }));
      ++count_.executions;
      while (!path.empty() && path.back().first + 1 == path.back().second) path.pop_back();
      if (!path.empty()) ++path.back().first;
    } while (!path.empty());
  }

  const PmemProgram& program_;
  const Recovery& recovery_;
  std::map<int, Line> lines_;
  std::map<int, std::vector<Stored>> stores_;
  std::vector<std::pair<int, int>> flush_buffer_;
  int sequence_ = 0;
  int last_sfence_ = 0;
  Count count_;
};

// ---- pmem/
// -----------------------------------------------------------------------------------------------------------

Count run_recording(const PmemProgram& program, const Recovery& recovery) {
  Count count;
  PmemExecution execution(program, DriverOptions{.has_store_buffers = false});
  while (!execution.enabled().empty()) execution.take(execution.enabled().front());
  const auto recording = execution.seal();
  persist::Cut cut(recording->log);
  persist::ChoiceTree tree;
  pmem::CrashView view(*recording, cut, tree);
  persist::explore(tree, {}, [&](persist::ChoiceTree&) {
    cut.reset();
    view.reset();
    count.outcomes.insert(recovery([&](int address) {
      std::uint64_t value = 0;
      view.load(real_address(program, address), std::as_writable_bytes(std::span(&value, 1)));
      return static_cast<int>(value & 0xff);
    }));
    ++count.executions;
  });
  return count;
}

std::string read_all(const PmemProgram& program, const Read& read) {
  std::string text;
  for (int at = 0; at < program.persistent_bytes(); at += 8) text += std::to_string(read(at)) + " ";
  return text;
}

TEST(PmemJaaru, RandomProgramsHaveTheSameOutcomes) {
  for_each_seed(2000, [](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    PmemShape shape{.threads = 1, .ops_max = 10, .dram_words_max = 0};
    shape.has_parts = shape.has_non_temporal = false;
    shape.has_distinct_values = true;
    PmemProgram program = random_pmem_program(random, shape);
    std::erase_if(program.threads[0], [](const PmemOp& op) {
      return op.kind == PmemOp::kMark || op.kind == PmemOp::kCas || op.kind == PmemOp::kCopy;
    });
    program.marks = 0;
    const Recovery recovery = [&](const Read& read) { return read_all(program, read); };
    const Count baseline = FailurePoints(program, recovery).run(), ours = run_recording(program, recovery);
    EXPECT_TRUE(baseline.outcomes == ours.outcomes) << "seed " << seed << "\n" << program.to_text();
    EXPECT_LE(ours.executions, baseline.executions) << "seed " << seed << "\n" << program.to_text();
    EXPECT_EQ(ours.executions, ours.outcomes.size()) << "seed " << seed << "\n" << program.to_text();
    return !testing::Test::HasFailure();
  });
}

// ---- structures
// ------------------------------------------------------------------------------------------------------

struct Structure {
  std::string name;
  PmemProgram program;
  Recovery recovery;
};

int line_address(int line) { return line * PmemProgram::kBytesPerLine; }

void add(PmemProgram& program, PmemOp::Kind kind, int address = 0, int value = 0) {
  program.threads[0].push_back(PmemOp{.kind = kind, .address = address, .value = value});
}
void persist(PmemProgram& program, int address) {
  add(program, PmemOp::kClflushopt, address);
  add(program, PmemOp::kSfence);
}

PmemProgram empty_program(int lines) {
  PmemProgram program;
  program.lines = lines;
  program.threads.resize(1);
  return program;
}

// Entry i in line i, the number of entries in the last line. Its recovery reads the number, then so many entries.
Structure append_log(int entries, bool is_right) {
  Structure log{is_right ? "append log" : "append log, entries not flushed", empty_program(entries + 1), {}};
  for (int i = 0; i < entries; ++i) {
    add(log.program, PmemOp::kStore, line_address(i), i + 1);
    if (is_right) persist(log.program, line_address(i));
    add(log.program, PmemOp::kStore, line_address(entries), i + 1);
    persist(log.program, line_address(entries));
  }
  log.recovery = [entries](const Read& read) {
    const int count = read(line_address(entries));
    std::string text = std::to_string(count) + ":";
    for (int i = 0; i < count; ++i) text += " " + std::to_string(read(line_address(i)));
    return text;
  };
  return log;
}

// Node i in line i: value, next. The head in the last line. New nodes come to the front.
Structure linked_list(int nodes, bool is_right) {
  Structure list{is_right ? "linked list" : "linked list, node not flushed", empty_program(nodes + 1), {}};
  for (int i = 0; i < nodes; ++i) {
    add(list.program, PmemOp::kStore, line_address(i), 10 + i);
    add(list.program, PmemOp::kStore, line_address(i) + 8, i);  // the node before, from 1; 0: none
    if (is_right) persist(list.program, line_address(i));
    add(list.program, PmemOp::kStore, line_address(nodes), i + 1);
    persist(list.program, line_address(nodes));
  }
  list.recovery = [nodes](const Read& read) {
    std::string text;
    int node = read(line_address(nodes));
    for (int i = 0; node != 0 && i < nodes + 1; ++i) {
      text += " " + std::to_string(read(line_address(node - 1)));
      node = read(line_address(node - 1) + 8);
    }
    return text;
  };
  return list;
}

// All entries are read and their sum is compared: the worst case of a lazy search.
Structure checksum_log(int entries) {
  Structure log{"checksum log", empty_program(entries + 1), {}};
  for (int i = 0; i < entries; ++i) add(log.program, PmemOp::kStore, line_address(i), i + 1);
  add(log.program, PmemOp::kStore, line_address(entries), entries * (entries + 1) / 2);
  for (int i = 0; i <= entries; ++i) add(log.program, PmemOp::kClflushopt, line_address(i));
  add(log.program, PmemOp::kSfence);
  log.recovery = [entries](const Read& read) {
    const int expected = read(line_address(entries));
    int sum = 0;
    for (int i = 0; i < entries; ++i) sum += read(line_address(i));
    return sum == expected ? "good " + std::to_string(sum) : "bad " + std::to_string(sum);
  };
  return log;
}

TEST(PmemJaaru, TableOfStructures) {
  std::printf("%-34s %10s %14s %10s %10s\n", "structure", "outcomes", "failure points", "baseline", "pmem");
  for (const Structure& structure :
       {append_log(4, true), append_log(4, false), append_log(20, true), linked_list(4, true), linked_list(4, false),
        linked_list(20, true), checksum_log(4), checksum_log(8)}) {
    const Count baseline = FailurePoints(structure.program, structure.recovery).run();
    const Count ours = run_recording(structure.program, structure.recovery);
    std::printf("%-34s %10zu %14zu %10zu %10zu\n", structure.name.c_str(), ours.outcomes.size(),
                baseline.failure_points, baseline.executions, ours.executions);
    EXPECT_TRUE(baseline.outcomes == ours.outcomes) << structure.name;
    EXPECT_LE(ours.executions, baseline.executions) << structure.name;
  }
  // One recovery for each number of entries.
  EXPECT_EQ(run_recording(append_log(20, true).program, append_log(20, true).recovery).executions, 21u);
  EXPECT_EQ(run_recording(linked_list(20, true).program, linked_list(20, true).recovery).executions, 21u);
}

}  // namespace
}  // namespace crashcut::tests
