// crashcut pmem on programs that g++ compiled with the flags of crashcut flags --pmem g++: atomics and copies by
// callbacks, the rest trapped.
#include <cstdlib>

#include "tests/pmem_fixture.h"

namespace crashcut {
namespace {

using Outcomes = std::map<std::string, int>;

// main() takes the name of a row. Compiling it takes seconds, so it is one program.
const char kProgram[] = R"(#include <immintrin.h>
#include <pthread.h>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
struct Memory { std::atomic<long> x; char pad0[56]; std::atomic<long> y; char pad1[56]; long plain[8]; };
static Memory* memory() { return static_cast<Memory*>(crashcut_pmem("memory", sizeof(Memory))); }
static std::atomic<int> count;
static void* nothing(void* argument) { return argument; }
int main(int, char** argv) {
  Memory* m = memory();
  const auto store_x = [m] { m->x.store(1, std::memory_order_relaxed); };
  const auto store_y = [m](long value = 1) { m->y.store(value, std::memory_order_release); };
#define ROW(name) if (std::strcmp(argv[1], name) == 0)
  ROW("two lines") return store_x(), store_y(), 0;
  ROW("clwb") return store_x(), _mm_clwb(m), store_y(), 0;
  ROW("clwb sfence") return store_x(), _mm_clwb(m), _mm_sfence(), store_y(), 0;
  ROW("clflush") return store_x(), _mm_clflush(m), store_y(), 0;
  ROW("clwb locked") return store_x(), _mm_clwb(m), m->y.fetch_add(1), 0;
  ROW("clwb seq_cst store") return store_x(), _mm_clwb(m), m->y.store(1), 0;
  ROW("clwb seq_cst fence")
  return store_x(), _mm_clwb(m), std::atomic_thread_fence(std::memory_order_seq_cst), store_y(), 0;
  ROW("clwb locked in dram") return store_x(), _mm_clwb(m), count.fetch_add(1), store_y(), 0;
  ROW("clwb failed compare") {
    long expected = 5;
    store_x();
    _mm_clwb(m);
    if (m->y.compare_exchange_strong(expected, 2) || expected != 0) return 1;
    return store_y(), 0;
  }
  ROW("plain") {
    m->plain[0] = 1;
    m->plain[1] = 1;
    return 0;
  }
  ROW("memcpy") {
    long ones[2] = {1, 1};
    asm volatile("" : : "r"(ones) : "memory");
    return std::memcpy(m->plain, ones, sizeof ones), 0;
  }
  ROW("nt sfence") {
    _mm_stream_si64(reinterpret_cast<long long*>(m->plain), 1);
    _mm_sfence();
    m->plain[1] = 1;
    return 0;
  }
  ROW("wrong") {
    store_x();
    _mm_clwb(m);  // no fence follows
    return store_y(7), 0;
  }
  ROW("thread") {
    pthread_t thread;
    return pthread_create(&thread, nullptr, nothing, nullptr);
  }
  return 9;
}
extern "C" void crashcut_recover() {
  Memory* m = memory();
  const long x = m->x.load(), y = m->y.load();
  if (x == 0 && y == 7) std::abort();
  std::printf("%ld%ld %ld%ld\n", x, y, m->plain[0], m->plain[1]);
}
)";

class PmemGxxTest : public PmemTest {
 protected:
  void SetUp() override {
    PmemTest::SetUp();
    if (std::system("g++ --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "g++ is not installed";
  }
  std::string compiled(const std::string& optimisation) {
    const std::string source = (directory_ / program("p.cc", kProgram)).string();
    const Ran flags = crashcut({"flags", "--pmem", "g++"});
    EXPECT_EQ(flags.exit_code, 0) << flags.err;
    const std::string words = flags.out.substr(0, flags.out.find('\n'));
    const std::string made = (directory_ / "p").string();
    const std::string command =
        "g++ -std=c++20 " + optimisation + " -mclwb " + words + " -o " + made + " " + source + " 2>&1";
    EXPECT_EQ(std::system(command.c_str()), 0);
    return made;
  }
  void expect_row(const std::string& made, const std::string& row, const Outcomes& expected) {
    const Ran run = pmem({"--outcomes", made, row});
    EXPECT_EQ(run.exit_code, 0) << row << run.out << run.err;
    EXPECT_EQ(outcomes_of(run), expected) << row << run.out;
    EXPECT_TRUE(run.says("instrumented by -fsanitize=thread, the rest trapped")) << run.out;
  }
  // Locked instructions complete a clwb, on ordinary memory too.
  void expect_rows(const std::string& made) {
    const Outcomes any = {{"00 00", 1}, {"10 00", 1}, {"01 00", 1}, {"11 00", 1}};
    const Outcomes in_order = {{"00 00", 1}, {"10 00", 1}, {"11 00", 1}};
    expect_row(made, "two lines", any);
    expect_row(made, "clwb", any);
    for (const char* row : {"clwb sfence", "clflush", "clwb locked", "clwb seq_cst store", "clwb seq_cst fence",
                            "clwb locked in dram", "clwb failed compare"})
      expect_row(made, row, in_order);
    const Outcomes plain_in_order = {{"00 00", 1}, {"00 10", 1}, {"00 11", 1}};
    expect_row(made, "plain", plain_in_order);
    expect_row(made, "nt sfence", plain_in_order);
    expect_row(made, "memcpy", {{"00 00", 1}, {"00 10", 1}, {"00 01", 1}, {"00 11", 1}});
  }
};

TEST_F(PmemGxxTest, RowsHaveExactlyTheirOutcomesWithoutOptimisation) { expect_rows(compiled("-O0")); }
TEST_F(PmemGxxTest, RowsHaveExactlyTheirOutcomesWithOptimisation) { expect_rows(compiled("-O2")); }

TEST_F(PmemGxxTest, WhatIsFoundAndWhatCannotBeIsSaid) {
  const std::string made = compiled("-O2");
  const Ran wrong = pmem({made, "wrong"});
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out << wrong.err;
  EXPECT_TRUE(wrong.says(" to memory+0x40 at ")) << wrong.out;
  EXPECT_TRUE(wrong.says("A fence after ")) << wrong.out;
  const Ran again = crashcut(with(replay_of(wrong), {"--print"}));
  EXPECT_EQ(again.exit_code, 1) << again.out << again.err;

  const Ran thread = pmem({made, "thread"});
  EXPECT_EQ(thread.exit_code, 0) << thread.out << thread.err;
  EXPECT_TRUE(thread.says("verified for trapped code, for one schedule of the threads")) << thread.out;
  const Ran schedules = pmem({"--schedules", "all", made, "thread"});
  EXPECT_EQ(schedules.exit_code, 3) << schedules.out << schedules.err;
  EXPECT_TRUE(schedules.says("bounded (unseen_atomics)")) << schedules.out;
  const Ran late = crashcut({"flags", "--pmem", "--late", "g++"});
  EXPECT_EQ(late.exit_code, 2);
  EXPECT_TRUE(late.says("--late and --allow-asm are for clang's plugin")) << late.err;
  // Without crashcut it does the same.
  EXPECT_EQ(std::system((made + " 'clwb failed compare'").c_str()), 0);
}

}  // namespace
}  // namespace crashcut
