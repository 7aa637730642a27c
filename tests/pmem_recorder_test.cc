// The recorder and the view of pmem/ in detail: widths, tearing, options, regions, threads, crashes in recovery.
#include <gtest/gtest.h>

#include <cstring>

#include "persist/explore.h"
#include "pmem/crash_view.h"
#include "pmem/recorder.h"
#include "tests/pmem_driver.h"
#include "tests/pmem_machine.h"
#include "tests/seeds.h"

namespace crashcut::tests {
namespace {

using pmem::Address;
using pmem::Recorder;
using pmem::RecorderOptions;

constexpr Address kBase = 0x20000000;

std::vector<std::byte> fill(std::size_t bytes, int value) { return std::vector<std::byte>(bytes, std::byte(value)); }

// A memory of 4 lines.
struct Memory {
  explicit Memory(const RecorderOptions& options = {}) : recorder(options) { recorder.add_region({kBase, 256}, "pm"); }

  void store(Address at, std::size_t bytes, int value, pmem::ThreadId thread = 0) {
    recorder.store(thread, kBase + at, fill(bytes, value));
  }
  int load(Address at, pmem::ThreadId thread = 0) {
    std::byte out{};
    recorder.load(thread, kBase + at, {&out, 1});
    return static_cast<int>(out);
  }

  // What recoveries see that read one byte at each of these places, in this order; and how many recoveries.
  std::set<std::string> outcomes(const std::vector<Address>& places, std::size_t* count = nullptr) {
    if (!recording) recording = recorder.seal();
    std::set<std::string> found;
    persist::Cut cut(recording->log);
    persist::ChoiceTree tree;
    pmem::CrashView view(*recording, cut, tree);
    std::size_t runs = 0;
    persist::explore(tree, {}, [&](persist::ChoiceTree&) {
      cut.reset();
      view.reset();
      std::string text;
      for (const Address place : places) {
        std::byte out{};
        view.load(kBase + place, {&out, 1});
        text += std::to_string(static_cast<int>(out));
      }
      found.insert(text);
      ++runs;
    });
    if (count != nullptr) *count = runs;
    return found;
  }

  Recorder recorder;
  std::shared_ptr<const pmem::Recording> recording;
};

using Outcomes = std::set<std::string>;

RecorderOptions with_atomic(unsigned bytes) { return {.model = {.atomic_bytes = bytes}}; }

TEST(PmemStores, UpToEightAlignedBytesAreWhole) {
  for (const std::size_t bytes : {2, 4, 8}) {
    Memory memory;
    memory.store(8, bytes, 1);
    EXPECT_EQ(memory.outcomes({8, 8 + bytes - 1}), (Outcomes{"00", "11"})) << bytes;
  }
}

TEST(PmemStores, WiderOnesTearByWords) {
  Memory memory;
  memory.store(0, 32, 1);
  std::size_t count = 0;
  EXPECT_EQ(memory.outcomes({0, 8, 16, 24}, &count).size(), 16u);
  EXPECT_EQ(count, 16u);
}

TEST(PmemStores, UnalignedOnesTearAtTheWord) {
  Memory memory;
  memory.store(5, 8, 1);
  EXPECT_EQ(memory.outcomes({5, 7, 8, 12}), (Outcomes{"0000", "0011", "1100", "1111"}));
}

TEST(PmemStores, AcrossTwoLinesAreTwo) {
  for (const bool tears : {true, false}) {
    Memory memory({.model = {.atomic_bytes = 64, .has_tearing = tears}});
    memory.store(60, 8, 1);
    EXPECT_EQ(memory.outcomes({60, 63, 64, 67}), (Outcomes{"0000", "0011", "1100", "1111"}));
  }
}

TEST(PmemStores, AtomicityIsAnOption) {
  const Outcomes whole{"00", "11"}, torn{"00", "01", "10", "11"};
  for (const auto& [atomic, bytes, expected] : std::vector<std::tuple<unsigned, std::size_t, Outcomes>>{
           {8, 16, torn}, {16, 16, whole}, {16, 32, torn}, {64, 32, whole}, {64, 64, whole}}) {
    Memory memory(with_atomic(atomic));
    memory.store(0, bytes, 1);
    EXPECT_EQ(memory.outcomes({0, bytes - 1}), expected) << atomic << " " << bytes;
  }
  Memory unaligned(with_atomic(16));
  unaligned.store(8, 16, 1);
  EXPECT_EQ(unaligned.outcomes({8, 16}), torn);
  Memory copied(with_atomic(64));
  copied.recorder.copy(0, kBase, fill(16, 1));
  EXPECT_EQ(copied.outcomes({0, 8}), torn);
}

TEST(PmemStores, WithoutTearingALineIsWhole) {
  Memory memory({.model = {.has_tearing = false}});
  memory.recorder.copy(0, kBase + 32, fill(64, 1));
  EXPECT_EQ(memory.outcomes({32, 63, 64, 95}), (Outcomes{"0000", "0011", "1100", "1111"}));
}

TEST(PmemStores, DirectStoreOf64BytesIsWhole) {
  Memory memory;
  memory.recorder.store_non_temporal(0, kBase + 64, fill(64, 1), 0, true);
  memory.recorder.sfence(0);
  memory.store(0, 8, 1);
  EXPECT_EQ(memory.outcomes({64, 127, 0}), (Outcomes{"000", "110", "111"}));
}

TEST(PmemStores, TheNextStoreComesAfterAllPieces) {
  Memory memory;
  memory.store(0, 32, 1);
  memory.store(0, 32, 2);
  std::size_t count = 0;
  const Outcomes found = memory.outcomes({0, 8, 16, 24}, &count);
  EXPECT_EQ(found.size(), 31u);  // 16 subsets of the first, 15 more of the second
  EXPECT_EQ(count, 31u);
  EXPECT_FALSE(found.contains("2011"));
  EXPECT_TRUE(found.contains("2111"));
}

// Versions that are equal in the bytes looked at are one candidate.
TEST(PmemView, ReadsDecideOnlyWhatTheyLookAt) {
  Memory memory;
  memory.store(0, 1, 1);
  for (int i = 0; i < 10; ++i) memory.store(1, 1, 2 + i);
  memory.store(2, 2, 7);
  std::size_t count = 0;
  EXPECT_EQ(memory.outcomes({0}, &count), (Outcomes{"0", "1"}));
  EXPECT_EQ(count, 2u);
  EXPECT_EQ(memory.outcomes({2, 0}, &count), (Outcomes{"00", "01", "71"}));
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(memory.outcomes({128}, &count), (Outcomes{"0"}));
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(memory.outcomes({0, 1}, &count).size(), 12u);
  EXPECT_EQ(count, 12u);
}

TEST(PmemView, SilentStoresAreNoCandidates) {
  Memory memory;
  for (int i = 0; i < 5; ++i) memory.store(0, 8, 1);
  std::size_t count = 0;
  memory.outcomes({0}, &count);
  EXPECT_EQ(count, 2u);
}

TEST(PmemView, LoadsOfManyLinesReadAllOfThem) {
  Memory memory;
  memory.store(56, 8, 1);
  memory.recorder.clflush(0, kBase + 56);
  memory.store(64, 8, 2);
  memory.recorder.clflush(0, kBase + 64);
  const auto recording = memory.recorder.seal();
  persist::Cut cut(recording->log);
  persist::ChoiceTree newest_first;
  pmem::CrashView view(*recording, cut, newest_first);
  std::vector<std::byte> out(200);
  view.load(kBase + 1, out);
  EXPECT_EQ(static_cast<int>(out[55]), 1);
  EXPECT_EQ(static_cast<int>(out[62]), 1);
  EXPECT_EQ(static_cast<int>(out[63]), 2);
  EXPECT_EQ(static_cast<int>(out[71]), 0);
}

TEST(PmemRecorder, DurableIsInEveryCrash) {
  Memory memory;
  memory.store(0, 8, 1);
  memory.store(64, 8, 1);
  memory.recorder.make_durable();
  memory.store(0, 8, 2);
  EXPECT_EQ(memory.outcomes({0, 64}), (Outcomes{"11", "21"}));
}

TEST(PmemRecorder, LoadsSeeTheOwnBuffer) {
  Memory memory({.has_store_buffers = true});
  const pmem::ThreadId other = memory.recorder.start_thread(0);
  memory.store(0, 8, 1);
  memory.store(2, 1, 2);
  EXPECT_EQ(memory.load(0), 1);
  EXPECT_EQ(memory.load(2), 2);
  EXPECT_EQ(memory.load(0, other), 0);
  memory.recorder.leave(0, 0);
  EXPECT_EQ(memory.load(2, other), 1);
  memory.recorder.leave(0, 0);
  EXPECT_EQ(memory.load(2, other), 2);
}

TEST(PmemRecorder, WhatStaysInABufferIsLost) {
  Memory memory({.has_store_buffers = true});
  memory.store(0, 8, 1);
  EXPECT_EQ(memory.outcomes({0}), (Outcomes{"0"}));
}

// A byte's reader comes after that byte's store, not after stores to the rest of the word.
TEST(PmemRecorder, ReadsFromAreByByte) {
  for (const bool reads_second : {false, true}) {
    Memory memory;
    const pmem::ThreadId second = memory.recorder.start_thread(0), third = memory.recorder.start_thread(0);
    memory.store(128, 1, 1);  // no fence before it
    memory.store(0, 8, 1, second);
    memory.recorder.clflush(second, kBase);
    memory.recorder.store(second, kBase + 129, fill(1, 1));  // the same word
    memory.load(reads_second ? 129 : 128, third);
    memory.store(192, 8, 1, third);
    EXPECT_EQ(memory.outcomes({0, 192}).contains("01"), !reads_second);
  }
}

// A store comes after the flushes of its line, of any thread. Two flushes of a line have no order.
TEST(PmemRecorder, TwoFlushesOfALineAreNotOrdered) {
  for (const bool is_opt : {false, true}) {
    for (const bool stores : {false, true}) {
      Memory memory;
      const pmem::ThreadId second = memory.recorder.start_thread(0);
      const auto flush = [&](pmem::ThreadId thread) {
        is_opt ? memory.recorder.clflushopt(thread, kBase + 64) : memory.recorder.clflush(thread, kBase + 64);
      };
      memory.store(0, 8, 1);
      memory.recorder.clflush(0, kBase);
      memory.load(0);
      memory.recorder.sfence(0);
      flush(0);
      if (stores) memory.store(64, 8, 1, second);
      flush(second);
      memory.recorder.sfence(second);
      memory.store(128, 8, 1, second);
      EXPECT_EQ(memory.outcomes({0, 128}).contains("01"), !stores) << is_opt;
    }
  }
}

TEST(PmemRecorder, ThreadsStartAndEndInOrder) {
  Memory memory;
  memory.store(0, 8, 1);
  memory.recorder.clflush(0, kBase);
  const pmem::ThreadId child = memory.recorder.start_thread(0);
  memory.store(64, 8, 1, child);
  memory.recorder.clflush(child, kBase + 64);
  memory.recorder.join_thread(0, child);
  memory.store(128, 8, 1);
  EXPECT_EQ(memory.outcomes({0, 64, 128}), (Outcomes{"000", "100", "110", "111"}));
}

TEST(PmemRecorder, SeveralRegions) {
  Recorder recorder({});
  recorder.add_region({0x1000, 64}, "a");
  recorder.add_region({0x9000, 64}, "b");
  EXPECT_TRUE(recorder.is_persistent(0x103f));
  EXPECT_FALSE(recorder.is_persistent(0x1040));
  EXPECT_FALSE(recorder.is_persistent(0xfff));
  EXPECT_TRUE(recorder.is_persistent(0x9000));
  recorder.store(0, 0x9008, fill(8, 1));
  recorder.store(0, 0x5000, fill(8, 1));  // ordinary memory
  EXPECT_EQ(recorder.recording().describe_event(0), "store of 8 bytes to b+0x8");
  EXPECT_EQ(recorder.recording().log.event_count(), 1u);
}

TEST(PmemRecorder, RedundantFlushesMakeNoEvents) {
  Memory memory;
  memory.store(0, 8, 1);
  memory.recorder.clflush(0, kBase);
  const auto events = memory.recorder.recording().log.event_count();
  memory.recorder.clflush(0, kBase);
  memory.recorder.clflushopt(0, kBase);
  memory.recorder.sfence(0);
  memory.recorder.mfence(0);
  memory.recorder.clflush(0, kBase + 64);
  EXPECT_EQ(memory.recorder.recording().log.event_count(), events);
}

// But for locked instructions and mfences, of which there may be very many.
TEST(PmemRecorder, FlushesWithoutEventsAreOperations) {
  Memory memory;
  memory.store(0, 8, 1);
  memory.recorder.clflushopt(0, kBase);
  memory.recorder.sfence(0);
  memory.recorder.clflush(0, kBase);
  memory.recorder.sfence(0);
  memory.recorder.mfence(0);
  EXPECT_EQ(memory.recorder.recording().operations(),
            (std::vector<std::string>{"store of 8 bytes to pm+0x0", "flush of pm+0x0", "fence", "clflush of pm+0x0",
                                      "fence"}));
}

TEST(PmemRecorder, OperationsHaveNames) {
  Memory memory;
  memory.recorder.recording().place_names = {"", "tree.cpp:12"};
  memory.recorder.copy(0, kBase, fill(24, 1), 1);
  memory.store(64, 1, 1);
  memory.recorder.clflush(0, kBase, 1);
  memory.recorder.mark(0, "saved");
  EXPECT_EQ(memory.recorder.recording().operations(),
            (std::vector<std::string>{"store of 24 bytes from pm+0x0 on at tree.cpp:12", "store of 1 byte to pm+0x40",
                                      "clflush of pm+0x0 at tree.cpp:12", "mark(\"saved\")"}));
}

TEST(PmemModel, SpecsDiffer) {
  const pmem::MemoryModel px86, eadr{.persistency = pmem::Persistency::kEadr};
  EXPECT_EQ(px86.spec().text, "x86 px86 atomic=8");
  EXPECT_EQ(eadr.spec().text, "x86 eadr atomic=8");
  EXPECT_FALSE(px86.spec() == eadr.spec());
}

// ---- crashes in recovery
// ---------------------------------------------------------------------------------------------

// One thread, in order. Returns what its loads saw, byte by byte.
std::string run_in_order(const PmemProgram& program, Recorder& recorder) {
  std::string loads;
  std::uint8_t loaded = 0;
  for (const PmemOp& op : program.threads[0]) {
    const Address address = real_address(program, op.address);
    const auto bytes = fill(static_cast<std::size_t>(op.bytes), op.value + (op.is_loaded ? loaded : 0));
    std::vector<std::byte> out(bytes.size());
    switch (op.kind) {
      case PmemOp::kStore:
        recorder.store(0, address, bytes);
        break;
      case PmemOp::kCopy:
        recorder.copy(0, address, bytes);
        break;
      case PmemOp::kNonTemporal:
        recorder.store_non_temporal(0, address, bytes);
        break;
      case PmemOp::kLoad:
        recorder.load(0, address, std::span(out).first(1));  // as the machine does
        loaded = static_cast<std::uint8_t>(out[0]);
        loads += static_cast<char>(loaded);
        break;
      case PmemOp::kXchg:
      case PmemOp::kCas:
        recorder.begin_locked(0, address, std::span(out).first(1));
        if (op.kind == PmemOp::kXchg || static_cast<int>(out[0]) == op.expected) {
          recorder.store_locked(0, address, bytes);
        }
        if (op.kind == PmemOp::kXchg || static_cast<int>(out[0]) != op.expected) {
          loaded = static_cast<std::uint8_t>(out[0]);
        }
        loads += static_cast<char>(out[0]);
        break;
      case PmemOp::kMfence:
        recorder.mfence(0);
        break;
      case PmemOp::kSfence:
        recorder.sfence(0);
        break;
      case PmemOp::kClflush:
        recorder.clflush(0, address);
        break;
      case PmemOp::kClflushopt:
        recorder.clflushopt(0, address);
        break;
      default:
        break;
    }
  }
  return loads;
}

// A program, a crash, a recovery that is a program too, a second crash, and a recovery that reads everything: against
// the machine, run twice. A recovery that only overwrites bytes does not decide them.
TEST(PmemDepth, TwoCrashesAgainstTheMachine) {
  for_each_seed(1500, [](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    PmemShape shape{.threads = 1, .ops_max = 5, .lines_max = 2, .dram_words_max = 0};
    shape.has_distinct_values = seed % 2 == 0;
    PmemProgram first = random_pmem_program(random, shape);
    PmemProgram second = random_pmem_program(random, shape);
    first.lines = second.lines = 2;
    for (PmemProgram* program : {&first, &second}) {
      program->marks = 0;
      std::erase_if(program->threads[0], [](const PmemOp& op) { return op.kind == PmemOp::kMark; });
    }
    second.atomic_bytes = first.atomic_bytes;
    if (shape.has_distinct_values) {
      for (PmemOp& op : second.threads[0]) op.value += 100;
    }
    std::set<PmemOutcome> expected;
    for (const PmemOutcome& medium : run_machine(first).outcomes) {
      const auto found = run_machine(second, MachineKind::kPx86, 200'000, medium);
      expected.insert(found.outcomes.begin(), found.outcomes.end());
    }

    const RecorderOptions options = with_atomic(static_cast<unsigned>(first.atomic_bytes));
    Recorder recorder(options);
    recorder.add_region({kPmemBase, 128}, "pm");
    run_in_order(first, recorder);
    const auto recording = recorder.seal();
    persist::Cut cut(recording->log);
    persist::ChoiceTree tree;
    pmem::CrashView view(*recording, cut, tree);
    std::set<PmemOutcome> outcomes;
    std::set<std::string> vectors;
    std::size_t runs = 0;
    persist::explore(tree, {}, [&](persist::ChoiceTree&) {
      cut.reset();
      view.reset();
      Recorder recovery(options, &view);
      recovery.add_region({kPmemBase, 128}, "pm");
      const std::string loads = run_in_order(second, recovery);
      const auto second_recording = recovery.seal();
      persist::Cut second_cut(second_recording->log);
      pmem::CrashView second_view(*second_recording, second_cut, tree, &view, 1);
      PmemOutcome outcome(static_cast<std::size_t>(first.persistent_bytes()), 0);
      const int step = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 4 : 8;
      for (int at = 0; at < first.persistent_bytes(); at += step) {
        second_view.load(real_address(first, at), std::as_writable_bytes(std::span(outcome).subspan(
                                                      static_cast<std::size_t>(at), static_cast<std::size_t>(step))));
      }
      vectors.insert(loads + "/" + outcome);
      outcomes.insert(outcome);
      ++runs;
    });
    EXPECT_EQ(outcomes.size(), expected.size()) << "seed " << seed << "\n" << first.to_text() << second.to_text();
    EXPECT_TRUE(outcomes == expected) << "seed " << seed << "\n" << first.to_text() << second.to_text();
    if (shape.has_distinct_values) {
      EXPECT_EQ(runs, vectors.size()) << "seed " << seed << "\n" << first.to_text() << second.to_text();
    }
    return !testing::Test::HasFailure();
  });
}

}  // namespace
}  // namespace crashcut::tests
