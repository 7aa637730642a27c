// Litmus for x86 persistent memory: the table of what may pass what, cell by cell, and small programs with their exact
// outcomes.
//
// Each program is also run by the machine of tests/pmem_machine.h, which must have the same outcomes.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/pmem_driver.h"
#include "tests/pmem_machine.h"

namespace crashcut::tests {
namespace {

struct Explored {
  PmemProgram program;
  PmemLayout names;
  DriverResult result;

  std::uint8_t value(const PmemOutcome& outcome, const std::string& name) const {
    if (name == "m") return static_cast<std::uint8_t>(outcome[static_cast<std::size_t>(program.persistent_bytes())]);
    return static_cast<std::uint8_t>(outcome[static_cast<std::size_t>(names.address.at(name))]);
  }
};

Explored explore(const std::string& layout, const std::string& text) {
  Explored explored;
  explored.program = parse_pmem_program(layout, text, &explored.names);
  explored.result = run_driver(explored.program);
  EXPECT_TRUE(explored.result.is_complete);
  const MachineResult machine = run_machine(explored.program);
  EXPECT_TRUE(machine.is_complete);
  EXPECT_TRUE(machine.outcomes == explored.result.outcomes) << text << ": the machine has other outcomes";
  return explored;
}

// ---- exact outcomes
// --------------------------------------------------------------------------------------------------

struct Row {
  const char* layout;
  const char* program;
  const char* variables;  // "x y": what the outcomes say
  const char* outcomes;   // in order: "00 01 10 11"
};

constexpr Row kRows[] = {
    {"x y", "x=1; y=1", "x y", "00 01 10 11"},
    {"x,y", "x=1; y=1", "x y", "00 10 11"},
    {"x y", "x=1; clflush x; y=1", "x y", "00 10 11"},
    {"x y", "x=1; clflushopt x; y=1", "x y", "00 01 10 11"},
    {"x y", "x=1; clflushopt x; sfence; y=1", "x y", "00 10 11"},
    {"x y", "x=1; clflushopt x; xchg y,1", "x y", "00 10 11"},
    {"x y", "x=1; sfence; y=1", "x y", "00 01 10 11"},
    {"x y z", "x=1; clflushopt x; y=1; clflush y; z=1", "x y z", "000 010 011 100 110 111"},
    {"x y z", "x=1; clflushopt x; y=1; clflushopt y; sfence; z=1", "x y z", "000 010 100 110 111"},
    {"x", "x=1; clflush x; mark 0", "x m", "00 10 11"},
    {"x", "x=1; clflushopt x; mark 0", "x m", "00 01 10 11"},
    {"d p", "d=1; clflush d; p=1; clflush p", "d p", "00 10 11"},
    {"d p", "d=1; p=1; clflush p", "d p", "00 01 10 11"},
    {"x y", "x=1 || wait x; clflushopt x; sfence; y=1", "x y", "00 10 11"},
    {"x y", "x=1 || wait x; y=1", "x y", "00 01 10 11"},
    {"x y", "x=1 || y=1; clflush y", "x y", "00 01 10 11"},
    {"a0,a1 b0,b1", "a0=1; b0=1 || b1=1; a1=1", "a0 a1 b0 b1",
     "0000 0001 0010 0011 0100 0101 0111 1000 1001 1010 1011 1100 1101 1110 1111"},
    {"x y", "nt x=1; sfence; y=1", "x y", "00 10 11"},
    // More than px86.md lists.
    {"x y", "nt x=1; y=1", "x y", "00 01 10 11"},
    {"x,y", "nt x=1; nt y=1", "x y", "00 01 10 11"},
    {"x y", "nt x=1; clflush x; y=1", "x y", "00 01 10 11"},
    {"x,y", "copy x..y=1", "x y", "00 01 10 11"},
    {"x,y z", "copy x..y=1; clflush x; z=1", "x y z", "000 010 100 110 111"},
    {"x,y", "copy x..y=1; y=2", "x y", "00 01 10 11 12"},
    {"x y @f", "x=1; clflushopt x; xchg f,1; y=1", "x y", "00 10 11"},
    {"x y @f", "x=1; clflushopt x; cas f,5,1; y=1", "x y", "00 10 11"},
    {"x", "x=1; clflushopt x; sfence; mark 0", "x m", "00 10 11"},
    {"x", "x=1; mark 0", "x m", "00 01 10 11"},
    {"x", "x=1; x=2; x=1", "x", "0 1 2"},
    // A fence is no global barrier: the second thread has not heard of it.
    {"x y z", "x=1; clflush x; y=1 || z=1", "x y z", "000 001 100 101 110 111"},
    // Through ordinary memory, and its wrong twin.
    {"x y @f", "x=1; clflush x; f=1 || wait f; y=1", "x y", "00 10 11"},
    {"x y @f", "x=1; clflushopt x; f=1 || wait f; y=1", "x y", "00 01 10 11"},
    {"x y @f", "x=1; clflushopt x; f=1 || wait f; sfence; y=1", "x y", "00 01 10 11"},
};

TEST(PmemLitmus, ExactOutcomes) {
  for (const Row& row : kRows) {
    const Explored explored = explore(row.layout, row.program);
    std::set<std::string> found;
    for (const PmemOutcome& outcome : explored.result.outcomes) {
      std::istringstream names(row.variables);
      std::string text;
      for (std::string name; names >> name;) text += std::to_string(explored.value(outcome, name));
      found.insert(text);
    }
    std::string all;
    for (const std::string& text : found) all += (all.empty() ? "" : " ") + text;
    EXPECT_EQ(all, row.outcomes) << row.program;
  }
}

// One thread without store buffers is one recording, and each outcome is one recovery.
TEST(PmemLitmus, OneThreadIsOneRecording) {
  for (const Row& row : kRows) {
    const PmemProgram program = parse_pmem_program(row.layout, row.program);
    if (program.threads.size() != 1) continue;
    const DriverResult found = run_driver(program, DriverOptions{.has_store_buffers = false});
    EXPECT_EQ(found.classes, 1u) << row.program;
    EXPECT_TRUE(found.outcomes == run_machine(program).outcomes) << row.program;
    if (std::string(row.program) != "x=1; x=2; x=1") {
      EXPECT_EQ(found.recoveries, found.outcomes.size()) << row.program;
    }
  }
}

// ---- the table, cell by cell
// ------------------------------------------------------------------------------------------

struct Cell {
  const char* earlier;
  const char* later;
  const char* layout;
  const char* program;
  const char* outcome;  // the one that shows the swap
  bool is_allowed;
};

// Three ways to see a swap. Store buffering: both threads load 0 (10 with the 10 that is added). Message passing: the
// flag is seen, the data is not. A flush that comes too early: the second thread stores to x and then does not see z,
// so x was in the cache before z was; a flush after z covers it.
constexpr Cell kCells[] = {
    {"read", "read", "x y p q", "x=1; y=1 || load y; p=r+10; load x; q=r+10", "p=11 q=10", false},
    {"read", "write", "x y p q", "load x; p=r+10; y=1 || load y; q=r+10; x=1", "p=11 q=11", false},
    {"read", "rmw", "x y p q", "load x; p=r+10; xchg y,1 || load y; q=r+10; xchg x,1", "p=11 q=11", false},
    {"read", "mfence", "x y p q", "load x; mfence; p=r+10; y=1 || load y; mfence; q=r+10; x=1", "p=11 q=11", false},
    {"read", "sfence", "a y @f", "a=1; clflush a; f=1 || load f; sfence; y=r", "a=0 y=1", false},
    {"read", "clflushopt", "x y", "x=1 || wait x; clflushopt x; sfence; y=1", "x=0 y=1", false},
    {"read", "clflush", "x y", "x=1 || wait x; clflush x; y=1", "x=0 y=1", false},

    {"write", "read", "x y p q", "x=1; load y; p=r+10 || y=1; load x; q=r+10", "p=10 q=10", true},
    {"write", "write", "x y p q", "x=1; y=1 || load y; p=r+10; load x; q=r+10", "p=11 q=10", false},
    {"write", "rmw", "x y p q @d @e", "x=1; xchg d,1; load y; p=r+10 || y=1; xchg e,1; load x; q=r+10", "p=10 q=10",
     false},
    {"write", "mfence", "x y p q", "x=1; mfence; load y; p=r+10 || y=1; mfence; load x; q=r+10", "p=10 q=10", false},
    {"write", "sfence", "x y p q", "x=1; sfence; y=1 || load y; p=r+10; load x; q=r+10", "p=11 q=10", false},
    {"write", "clflushopt", "x y", "x=1; clflushopt x; sfence; y=1", "x=0 y=1", false},
    {"write", "clflushopt", "x,z y p", "z=1; clflushopt x; sfence; y=1 || x=1; mfence; load z; p=r+10", "p=10 y=1 x=0",
     false},
    {"write", "clflushopt, other line", "x y p @z", "z=1; clflushopt x; sfence; y=1 || x=1; mfence; load z; p=r+10",
     "p=10 y=1 x=0", true},
    {"write", "clflush", "x y p @z", "z=1; clflush x; y=1 || x=1; mfence; load z; p=r+10", "p=10 y=1 x=0", false},

    {"rmw", "read", "x y p q", "xchg x,1; load y; p=r+10 || xchg y,1; load x; q=r+10", "p=10 q=10", false},
    {"rmw", "write", "x y p q", "xchg x,1; y=1 || load y; p=r+10; load x; q=r+10", "p=11 q=10", false},
    {"rmw", "rmw", "x y p q", "xchg x,1; xchg y,1 || load y; p=r+10; load x; q=r+10", "p=11 q=10", false},
    {"rmw", "mfence", "x y p q", "xchg x,1; mfence; y=1 || load y; p=r+10; load x; q=r+10", "p=11 q=10", false},
    {"rmw", "sfence", "x y p q", "xchg x,1; sfence; y=1 || load y; p=r+10; load x; q=r+10", "p=11 q=10", false},
    {"rmw", "clflushopt", "x y p @z", "xchg z,1; clflushopt x; sfence; y=1 || x=1; mfence; load z; p=r+10",
     "p=10 y=1 x=0", false},
    {"rmw", "clflush", "x y p @z", "xchg z,1; clflush x; y=1 || x=1; mfence; load z; p=r+10", "p=10 y=1 x=0", false},
    {"rmw, failed", "clflushopt", "x y p @z @d",
     "z=1; cas d,5,1; clflushopt x; sfence; y=1 || x=1; mfence; load z; p=r+10", "p=10 y=1 x=0", false},

    {"mfence", "read", "x y p q", "x=1; mfence; load y; p=r+10 || y=1; mfence; load x; q=r+10", "p=10 q=10", false},
    {"mfence", "write", "x y", "x=1; clflushopt x; mfence; y=1", "x=0 y=1", false},
    {"mfence", "rmw", "x y", "x=1; clflushopt x; mfence; xchg y,1", "x=0 y=1", false},
    {"mfence", "mfence", "x y", "x=1; clflushopt x; mfence; mfence; y=1", "x=0 y=1", false},
    {"mfence", "sfence", "x y", "x=1; clflushopt x; mfence; sfence; y=1", "x=0 y=1", false},
    {"mfence", "clflushopt", "x y p @z", "z=1; mfence; clflushopt x; sfence; y=1 || x=1; mfence; load z; p=r+10",
     "p=10 y=1 x=0", false},
    {"mfence", "clflush", "x y p @z", "z=1; mfence; clflush x; y=1 || x=1; mfence; load z; p=r+10", "p=10 y=1 x=0",
     false},

    {"sfence", "read", "x y p q", "x=1; sfence; load y; p=r+10 || y=1; sfence; load x; q=r+10", "p=10 q=10", true},
    {"sfence", "write", "x y", "x=1; clflushopt x; sfence; y=1", "x=0 y=1", false},
    {"sfence", "rmw", "x y", "x=1; clflushopt x; sfence; xchg y,1", "x=0 y=1", false},
    {"sfence", "mfence", "x y", "x=1; clflushopt x; sfence; mfence; y=1", "x=0 y=1", false},
    {"sfence", "sfence", "x y", "x=1; clflushopt x; sfence; sfence; y=1", "x=0 y=1", false},
    {"sfence", "clflushopt", "x y p @z", "z=1; sfence; clflushopt x; sfence; y=1 || x=1; mfence; load z; p=r+10",
     "p=10 y=1 x=0", false},
    {"sfence", "clflush", "x y p @z", "z=1; sfence; clflush x; y=1 || x=1; mfence; load z; p=r+10", "p=10 y=1 x=0",
     false},

    {"clflushopt", "read", "x y p q", "x=1; clflushopt x; load y; p=r+10 || y=1; clflushopt y; load x; q=r+10",
     "p=10 q=10", true},
    {"clflushopt", "write", "x y", "x=1; clflushopt x; y=1", "x=0 y=1", true},
    {"clflushopt", "rmw", "x y", "x=1; clflushopt x; xchg y,1", "x=0 y=1", false},
    {"clflushopt", "mfence", "x y", "x=1; clflushopt x; mfence; y=1", "x=0 y=1", false},
    {"clflushopt", "sfence", "x y", "x=1; clflushopt x; sfence; y=1", "x=0 y=1", false},
    {"clflushopt", "clflushopt", "x y", "x=1; y=1; clflushopt x; clflushopt y", "x=0 y=1", true},
    {"clflushopt", "clflush", "x y", "x=1; clflushopt x; clflush x; y=1", "x=0 y=1", false},
    {"clflushopt", "clflush, other line", "x y z", "x=1; clflushopt x; y=1; clflush y; z=1", "x=0 z=1", true},

    {"clflush", "read", "x y p q", "x=1; clflush x; load y; p=r+10 || y=1; clflush y; load x; q=r+10", "p=10 q=10",
     true},
    {"clflush", "write", "x y", "x=1; clflush x; y=1", "x=0 y=1", false},
    {"clflush", "rmw", "x y", "x=1; clflush x; xchg y,1", "x=0 y=1", false},
    {"clflush", "mfence", "x y", "x=1; clflush x; mfence; y=1", "x=0 y=1", false},
    {"clflush", "sfence", "x y", "x=1; clflush x; sfence; y=1", "x=0 y=1", false},
    {"clflush", "clflushopt", "x,z y p",
     "clflush z; z=1; clflush z; clflushopt x; sfence; y=1 || "
     "x=1; mfence; load z; p=r+10",
     "p=10 y=1 x=0", false},
    {"clflush", "clflushopt, other line", "x y p z",
     "z=1; clflush z; clflushopt x; sfence; y=1 || x=1; mfence; load z; p=r+10", "p=10 y=1 x=0", true},
    {"clflush", "clflush", "x y p z", "z=1; clflush z; clflush x; y=1 || x=1; mfence; load z; p=r+10", "p=10 y=1 x=0",
     false},
};

bool has_outcome(const Explored& explored, const std::string& wanted) {
  for (const PmemOutcome& outcome : explored.result.outcomes) {
    std::istringstream parts(wanted);
    bool fits = true;
    for (std::string part; parts >> part;) {
      const auto equals = part.find('=');
      fits &= explored.value(outcome, part.substr(0, equals)) == std::stoi(part.substr(equals + 1));
    }
    if (fits) return true;
  }
  return false;
}

TEST(PmemLitmus, EveryCellOfTheTable) {
  for (const Cell& cell : kCells) {
    const Explored explored = explore(cell.layout, cell.program);
    EXPECT_EQ(has_outcome(explored, cell.outcome), cell.is_allowed)
        << cell.earlier << ", " << cell.later << ": " << cell.program << ": " << cell.outcome;
  }
}

TEST(PmemLitmus, TheTableIsComplete) {
  std::set<std::string> cells;
  for (const Cell& cell : kCells) cells.insert(std::string(cell.earlier) + "," + cell.later);
  const char* const kKinds[] = {"read", "write", "rmw", "mfence", "sfence", "clflushopt", "clflush"};
  for (const char* earlier : kKinds) {
    for (const char* later : kKinds)
      EXPECT_TRUE(cells.contains(std::string(earlier) + "," + later)) << earlier << later;
  }
}

}  // namespace
}  // namespace crashcut::tests
