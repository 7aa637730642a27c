// crashcut pmem --trap: programs that were compiled without instrumentation (tests/pmem/trap/).
#include <set>

#include "tests/pmem_fixture.h"

namespace crashcut {
namespace {

class PmemTrapTest : public PmemTest {
 protected:
  static std::string made(const std::string& name) { return std::string(CRASHCUT_PMEM_PROGRAMS) + "/" + name; }
  Ran trap(std::vector<std::string> words) { return pmem(with({"--trap"}, words)); }

  // The row's outcomes are these, each found once, whatever the compiler made of it.
  void expect_row(const std::string& row, const std::set<std::string>& expected) {
    std::map<std::string, int> counted;
    for (const std::string& outcome : expected) counted[outcome] = 1;
    for (const char* program : {"trap_litmus_O0", "trap_litmus_O2"}) {
      const Ran run = trap({"--outcomes", made(program), row});
      EXPECT_EQ(run.exit_code, 0) << program << " " << row << "\n" << run.out << run.err;
      EXPECT_EQ(outcomes_of(run), counted) << program << " " << row << "\n" << run.out;
      EXPECT_TRUE(run.says("verified for code that was trapped as it is")) << run.out;
    }
  }
};

// Outcomes: x, the word beside it, y, z; three words of one line; the mark.
const std::string kX = "1000 000 0", kXY = "1010 000 0", kY = "0010 000 0", kNothing = "0000 000 0";
const std::set<std::string> kInOrder = {kNothing, kX, kXY}, kAny = {kNothing, kX, kY, kXY};

TEST_F(PmemTrapTest, RowsOfTheLitmusTableHaveExactlyTheirOutcomes) {
  expect_row("two lines", kAny);
  expect_row("one line", {kNothing, kX, "1100 000 0"});
  expect_row("clflush", kInOrder);
  expect_row("clflushopt", kAny);
  expect_row("clflushopt sfence", kInOrder);
  expect_row("clwb mfence", kInOrder);
  expect_row("clflushopt xchg", kInOrder);
  expect_row("sfence", kAny);
  expect_row("clflush of another", {kNothing, kY, "0011 000 0", kX, kXY, "1011 000 0"});
  expect_row("two clflushopts", {kNothing, kY, kX, kXY, "1011 000 0"});
  expect_row("clflush mark", {kNothing, kX, "1000 000 1"});
  expect_row("clflushopt mark", {kNothing, "0000 000 1", kX, "1000 000 1"});
  expect_row("commit store", kInOrder);
  expect_row("commit store too early", kAny);
  expect_row("nt sfence", kInOrder);
}

TEST_F(PmemTrapTest, LockedInstructionsAreFences) {
  expect_row("clwb seq_cst store", kInOrder);
  expect_row("clwb release store", kAny);
  expect_row("clwb cmpxchg", kInOrder);
  expect_row("clwb failed cmpxchg", kInOrder);
  expect_row("clwb cmpxchg without lock", kAny);
  expect_row("clwb locked in dram", kInOrder);
  expect_row("clwb locked in dram by a register", kInOrder);
}

TEST_F(PmemTrapTest, WideStoresTearByWords) {
  const std::set<std::string> two = {kNothing, "0000 100 0", "0000 010 0", "0000 110 0"};
  expect_row("nt", kAny);
  expect_row("store of 16", two);
  expect_row("nt store of 16", two);
  expect_row("rep stos of 16", two);
  expect_row("masked store", {kNothing, "0000 100 0", "0000 001 0", "0000 101 0"});
  expect_row("barrier", {kX, kXY});
  std::set<std::string> all;
  for (int i = 0; i < 8; ++i)
    all.insert("0000 " + std::to_string(i & 1) + std::to_string(i >> 1 & 1) + std::to_string(i >> 2) + " 0");
  expect_row("rep movs of 24", all);
}

TEST_F(PmemTrapTest, InstructionsDoWhatTheyDoOnOrdinaryMemory) {
  const Ran run = trap({made("trap_instructions")});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_TRUE(run.says(" instructions, 0 failures")) << run.out;
  EXPECT_FALSE(run.says("differs")) << run.out;
}

TEST_F(PmemTrapTest, AListIsVerifiedAndItsWrongTwinIsFoundAndReplays) {
  const Ran right = trap({"--json", "report.json", "--outcomes", made("trap_list"), "4"});
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_EQ(outcomes_of(right), (std::map<std::string, int>{{"0", 1}, {"1", 1}, {"3", 1}, {"6", 1}, {"10", 1}}));
  const auto json = nlohmann::json::parse(read_file(directory_ / "report.json"));
  EXPECT_EQ(json.at("execution").at("instrumentation"), "trapped");

  const Ran wrong = trap({made("trap_list"), "2", "wrong"});
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out << wrong.err;
  EXPECT_TRUE(wrong.says(" to list+0x40 at list.c:")) << wrong.out;
  EXPECT_TRUE(wrong.says("fence at ")) << wrong.out;
  EXPECT_TRUE(wrong.says("node->check == ~node->value")) << wrong.out;
  const Ran again = crashcut(with(replay_of(wrong), {"--print"}));
  EXPECT_EQ(again.exit_code, 1) << again.out << again.err;
  EXPECT_TRUE(again.says(" from list+0x40 at list.c:")) << again.out;
}

TEST_F(PmemTrapTest, CrashesInRecoveryAreTrappedToo) {
  const Ran run = trap({"--depth", "2", made("trap_list"), "2"});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
}

// The same program has accesses that are instrumented, written by hand, and others.
TEST_F(PmemTrapTest, InstrumentedCodeAndOtherCodeMix) {
  const Ran list = trap({made("list"), "4"});
  EXPECT_TRUE(list.says("instrumented early, the rest trapped: all 5 recoveries, none failed")) << list.out << list.err;
  const Ran touches = trap({made("bad"), "touches"});  // main() returns what was stored by instrumented code
  EXPECT_TRUE(touches.says("main() ended with status 1")) << touches.out << touches.err;
  const Ran libc = trap({made("bad"), "libc touches"});
  EXPECT_EQ(libc.exit_code, 0) << libc.out << libc.err;
}

TEST_F(PmemTrapTest, SourceIsCompiledWithoutInstrumentation) {
  const Ran run = trap({"--outcomes", program("p.c", R"(
int main(void) { return *(volatile int*)crashcut_pmem("word", 4) = 1, 0; }
void crashcut_recover(void) { printf("%d\n", *(volatile int*)crashcut_pmem("word", 4)); }
)")});
  EXPECT_EQ(outcomes_of(run), (std::map<std::string, int>{{"0", 1}, {"1", 1}})) << run.out << run.err;
  EXPECT_TRUE(run.says("for code that was trapped as it is")) << run.out;
}

// Assembly without unwind information: its fences are found, and data in it that looks like fences is not changed.
TEST_F(PmemTrapTest, FencesOfFunctionsThatOnlyASymbolNames) {
  const std::string source = program("p.c", R"(
__asm__(
    ".text\n.type bare_fence, @function\nbare_fence:\n  test %edi, %edi\n  jne 1f\n  sfence\n  ret\n"
    "fence_data: .byte 0xf0, 0x0f, 0xae, 0xf8, 0x0f, 0xae, 0xf0\n1: mfence\n  ret\n.size bare_fence, . - bare_fence\n");
void bare_fence(int with_mfence);
extern const unsigned char fence_data[];
int main(int argc, char** argv) {
  volatile long* words = crashcut_pmem("words", 128);
  words[0] = 1;
  __asm__ volatile("clflushopt %0" ::"m"(words[0]) : "memory");
  bare_fence(argc > 1);
  words[8] = 1;
  return memcmp(fence_data, "\xf0\x0f\xae\xf8\x0f\xae\xf0", 7);
}
void crashcut_recover(void) {
  volatile long* words = crashcut_pmem("words", 128);
  printf("%ld%ld\n", words[0], words[8]);
}
)");
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{}, {"mfence"}}) {
    const Ran run = trap(with({"--outcomes", source}, arguments));
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    EXPECT_EQ(outcomes_of(run), (std::map<std::string, int>{{"00", 1}, {"10", 1}, {"11", 1}})) << run.out;
  }
}

// A scatter is one instruction: its lanes of one line persist in any order. Non-temporal bytes of one word are whole.
TEST_F(PmemTrapTest, LanesPersistInAnyOrder) {
  const std::string source = program("p.c", R"(
#include <immintrin.h>
__attribute__((target("avx512f,avx512vl"))) static void scatter(long* words) {
  _mm256_i64scatter_epi64(words, _mm256_set_epi64x(9, 0, 1, 2), _mm256_set_epi64x(1, 1, 1, 1), 8);
}
int main(int argc, char** argv) {
  long* words = crashcut_pmem("words", 128);
  if (argc > 1) {
    _mm_maskmoveu_si128(_mm_set1_epi8(1), _mm_set_epi64x(0, -1), (char*)words);
  } else if (__builtin_cpu_supports("avx512vl")) {
    scatter(words);
  } else {
    return 77;
  }
  return 0;
}
void crashcut_recover(void) {
  volatile long* words = crashcut_pmem("words", 128);
  printf("%lx%lx%lx%lx\n", words[0], words[1], words[2], words[9]);
}
)");
  const Ran bytes = trap({"--outcomes", source, "bytes"});
  EXPECT_EQ(outcomes_of(bytes), (std::map<std::string, int>{{"0000", 1}, {"101010101010101000", 1}})) << bytes.out;
  if (!__builtin_cpu_supports("avx512vl")) GTEST_SKIP() << "the processor has no AVX-512";
  for (const Ran& run : {trap({"--outcomes", source}), pmem({"--outcomes", source})}) {
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    EXPECT_EQ(outcomes_of(run).size(), 16u) << run.out;
  }
}

// Accesses are trapped before its handler sees them.
TEST_F(PmemTrapTest, AProgramThatHandlesFaultsItself) {
  const Ran run = trap({"--outcomes", program("p.c", R"(
#include <signal.h>
static void handle(int signal) { _exit(3); }
int main(void) {
  signal(SIGSEGV, handle);
  return *(volatile int*)crashcut_pmem("word", 4) = 1, 0;
}
void crashcut_recover(void) { printf("%d\n", *(volatile int*)crashcut_pmem("word", 4)); }
)")});
  EXPECT_EQ(outcomes_of(run), (std::map<std::string, int>{{"0", 1}, {"1", 1}})) << run.out << run.err;
}

TEST_F(PmemTrapTest, WhatCannotBeEmulatedIsSaid) {
  const std::pair<const char*, const char*> kCases[] = {
      {"implicit", "cannot emulate xlat"},
      {"dlopen", "loads or makes code while it runs"},
      {"beyond", "beyond the end of this region, which has"},
      {"null", "main() was killed by SIGSEGV"},
      {"breakpoint", "main() was killed by SIGTRAP"},
  };
  for (const auto& [how, sentence] : kCases) {
    const Ran run = trap({made("trap_bad"), how});
    EXPECT_EQ(run.exit_code, 2) << how << "\n" << run.out << run.err;
    EXPECT_TRUE(run.says(sentence)) << how << "\n" << run.out << run.err;
  }
  const Ran untrapped = crashcut({"pmem", made("trap_list"), "1"});
  EXPECT_EQ(untrapped.exit_code, 2);
  EXPECT_TRUE(untrapped.says("or run it as it is with --trap")) << untrapped.err;
}

}  // namespace
}  // namespace crashcut
