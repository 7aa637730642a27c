// One machine that fails, and another that looks at what is left, is persistent memory after a crash: the same programs
// on cxl/ and on the machine of tests/pmem_machine.h.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cxl_schedules.h"
#include "tests/pmem_machine.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

int compact_address(int word) { return CxlProgram::line_of(word) * PmemProgram::kBytesPerLine + 8 * (word % 2); }

PmemOp to_pmem(const CxlOp& op) {
  PmemOp out{.kind = PmemOp::kStore, .address = compact_address(op.word), .value = op.value, .expected = op.expected};
  out.is_loaded = op.is_loaded;
  switch (op.kind) {
    case CxlOp::kStore:
      out.bytes = op.halves == 3 ? 8 : 4;
      if (op.halves == 2) out.address += 4;
      break;
    case CxlOp::kStoreBoth:
      out.address = compact_address(op.word / 2 * 2);
      out.bytes = 16;
      break;
    case CxlOp::kNonTemporal:
      out.kind = PmemOp::kNonTemporal;
      break;
    case CxlOp::kLoad:
      out.kind = PmemOp::kLoad;
      break;
    case CxlOp::kXchg:
      out.kind = PmemOp::kXchg;
      break;
    case CxlOp::kCas:
      out.kind = PmemOp::kCas;
      break;
    case CxlOp::kMfence:
      out.kind = PmemOp::kMfence;
      break;
    case CxlOp::kSfence:
      out.kind = PmemOp::kSfence;
      break;
    case CxlOp::kClflush:
      out.kind = PmemOp::kClflush;
      break;
    case CxlOp::kClflushopt:
      out.kind = PmemOp::kClflushopt;
      break;
    default:
      ADD_FAILURE() << "not an operation of one machine";
  }
  return out;
}

// What the observer saw of each word: both halves.
std::set<std::string> seen_by_observer(const std::set<CxlOutcome>& all) {
  std::set<std::string> seen;
  for (const CxlOutcome& outcome : all) {
    const std::string text = outcome.substr(0, outcome.size() - 1);
    const std::string last = text.substr(text.rfind('|') + 1);
    seen.insert(last.substr(last.find(' ') + 1));  // without what the wait gave
  }
  return seen;
}
std::set<std::string> words_of(const std::set<PmemOutcome>& all, int lines) {
  std::set<std::string> seen;
  for (const PmemOutcome& outcome : all) {
    std::string text;
    for (int word = 0; word < 2 * lines; ++word) {
      const auto at = static_cast<std::size_t>(compact_address(word));
      text += std::to_string(outcome[at]) + "," + std::to_string(outcome[at + 4]) + " ";
    }
    seen.insert(text);
  }
  return seen;
}

TEST(CxlAndPmem, OneMachineThatFailsIsPersistentMemory) {
  std::size_t checked = 0, all = 0;
  for_each_seed(400, [&](std::uint64_t seed) {
    ++all;
    std::mt19937_64 random(seed);
    const int threads = seed % 3 == 0 ? 1 : 0;
    CxlProgram program = random_cxl_program(
        random, {.machines = 1, .threads_most = threads, .ops_most = threads == 0 ? 6 : 3, .has_sync = false});
    PmemProgram pmem;
    pmem.lines = program.lines;
    for (CxlProgram::Thread& thread : program.threads) {
      std::erase_if(thread.ops, [](const CxlOp& op) { return op.kind == CxlOp::kFill || op.kind == CxlOp::kEnd; });
      // What a store after a compare-and-exchange that stored would add is another value in the other language.
      const bool has_cas =
          std::any_of(thread.ops.begin(), thread.ops.end(), [](const CxlOp& op) { return op.kind == CxlOp::kCas; });
      for (CxlOp& op : thread.ops) op.is_loaded = op.is_loaded && !has_cas;
      pmem.threads.emplace_back();
      for (const CxlOp& op : thread.ops) pmem.threads.back().push_back(to_pmem(op));
    }
    // The machine does not end: it fails, when it has done any number of its steps.
    program.machines = 2;
    program.never_fails = {false, true};
    CxlProgram::Thread observer{1, {{.kind = CxlOp::kWaitMachine, .word = 0}}};
    for (int word = 0; word < 2 * program.lines; ++word) observer.ops.push_back({.kind = CxlOp::kLoad, .word = word});
    observer.ops.push_back({.kind = CxlOp::kEnd});
    program.threads.push_back(observer);
    const MachineResult expected = run_machine(pmem, MachineKind::kPx86, 50'000);
    const CxlFound found = explore_cxl(program, scheduler::ReductionName::kOptimal, 2'000);
    if (!expected.is_complete || !found.is_whole) return true;
    ++checked;
    EXPECT_TRUE(seen_by_observer(found.outcomes) == words_of(expected.outcomes, program.lines))
        << "seed " << seed << "\n"
        << program.to_text();
    return !testing::Test::HasFailure();
  });
  if (std::getenv("CRASHCUT_SEED") != nullptr) return;
  EXPECT_GE(checked * 2, all);
}

}  // namespace
}  // namespace crashcut::tests
