// crashcut pmem, end to end: programs whose accesses are written by hand (tests/pmem/), through the injected library,
// the search and the reports.
#include <set>

#include "tests/pmem_fixture.h"
#include "tests/pmem_machine.h"
#include "tests/pmem_random.h"

namespace crashcut {
namespace {

using tests::PmemOp;

class PmemRunTest : public PmemTest {
 protected:
  static std::string made(const std::string& name) { return std::string(CRASHCUT_PMEM_PROGRAMS) + "/" + name; }

  // The row's outcomes are these, each found once, and nothing fails.
  void expect_row(const std::string& row, const std::set<std::string>& expected,
                  const std::vector<std::string>& options = {}) {
    const Ran run = pmem(with(with({"--outcomes"}, options), {made("litmus"), row}));
    EXPECT_EQ(run.exit_code, 0) << row << "\n" << run.out << run.err;
    std::map<std::string, int> counted;
    for (const std::string& outcome : expected) counted[outcome] = 1;
    EXPECT_EQ(outcomes_of(run), counted) << row << "\n" << run.out;
  }
};

// Outcomes: x, the word beside it, y, z; three words of one line; the mark.
const std::string kX = "1000 000 0", kXY = "1010 000 0", kY = "0010 000 0", kNothing = "0000 000 0";

TEST_F(PmemRunTest, RowsOfTheLitmusTableHaveExactlyTheirOutcomes) {
  const std::set<std::string> in_order = {kNothing, kX, kXY}, any = {kNothing, kX, kY, kXY};
  expect_row("two lines", any);
  expect_row("one line", {kNothing, kX, "1100 000 0"});
  expect_row("clflush", in_order);
  expect_row("clflushopt", any);
  expect_row("clflushopt sfence", in_order);
  expect_row("clwb mfence", in_order);
  expect_row("clflushopt xchg", in_order);
  expect_row("sfence", any);
  expect_row("clflush of another", {kNothing, kY, "0011 000 0", kX, kXY, "1011 000 0"});
  expect_row("two clflushopts", {kNothing, kY, kX, kXY, "1011 000 0"});
  expect_row("clflush mark", {kNothing, kX, "1000 000 1"});
  expect_row("clflushopt mark", {kNothing, "0000 000 1", kX, "1000 000 1"});
  expect_row("commit store", in_order);
  expect_row("commit store too early", any);
  expect_row("nt sfence", in_order);
}

TEST_F(PmemRunTest, LockedInstructionsAreFences) {
  const std::set<std::string> in_order = {kNothing, kX, kXY}, any = {kNothing, kX, kY, kXY};
  expect_row("clwb seq_cst store", in_order);
  expect_row("clwb release store", any);
  expect_row("clwb failed cmpxchg", in_order);
  expect_row("clwb locked in dram", in_order);
}

TEST_F(PmemRunTest, WideStoresTearByWords) {
  const std::set<std::string> two = {kNothing, "0000 100 0", "0000 010 0", "0000 110 0"};
  expect_row("nt", {kNothing, kX, kY, kXY});
  expect_row("store of 16", two);
  expect_row("memset of 16", two);
  expect_row("lanes", {kNothing, "0000 100 0", "0000 001 0", "0000 101 0"});
  expect_row("movdir64b", {kNothing, "0000 111 0"});
  expect_row("barrier", {kX, kXY});
  expect_row("copy within", {"0000 100 0", "0000 110 0"});
  std::set<std::string> all;
  for (int i = 0; i < 8; ++i)
    all.insert("0000 " + std::to_string(i & 1) + std::to_string(i >> 1 & 1) + std::to_string(i >> 2) + " 0");
  expect_row("memcpy of 24", all);
}

TEST_F(PmemRunTest, ModelsDiffer) {
  expect_row("two lines", {kNothing, kX, kXY}, {"--persistency", "eadr"});
  expect_row("nt", {kNothing, kX, kY, kXY}, {"--persistency", "eadr"});
  expect_row("nt", {kNothing, kX, kXY}, {"--persistency", "strict"});
  expect_row("store of 16", {kNothing, "0000 110 0"}, {"--atomic", "16"});
  expect_row("memcpy of 24", {kNothing, "0000 111 0"}, {"--no-tearing"});
  const Ran run = pmem({"--persistency", "eadr", "--atomic", "16", made("litmus"), "nt"});
  EXPECT_NE(run.first_line().find("x86 eadr atomic=16, files on ext4 "), std::string::npos) << run.first_line();
}

TEST_F(PmemRunTest, ComparePutsModelsSideBySide) {
  const Ran run = crashcut({"compare", "--pmem", "--json", "report.json", made("litmus"), "store of 16"});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  std::map<std::string, int> recoveries;
  for (const auto& row : nlohmann::json::parse(read_file(directory_ / "report.json")))
    recoveries[row.at("model").at("text")] = row.at("counts").at("recoveries");
  std::map<std::string, int> found;
  for (const auto& [model, count] : recoveries) found[model.substr(0, model.find(','))] = count;
  EXPECT_EQ(found, (std::map<std::string, int>{{"x86 px86 atomic=8", 4},
                                               {"x86 px86 atomic=16", 2},
                                               {"x86 px86 atomic=8 tearing=off", 2},
                                               {"x86 eadr atomic=8", 4},
                                               {"x86 strict atomic=8", 4}}));
}

TEST_F(PmemRunTest, RandomProgramsHaveTheOutcomesOfTheMachine) {
  tests::for_each_seed(60, [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    tests::PmemShape shape{.threads = 1, .ops_max = 8};
    shape.has_distinct_values = seed % 2 == 0;
    const tests::PmemProgram program = random_pmem_program(random, shape);
    const tests::MachineResult machine = run_machine(program, tests::MachineKind::kPx86, 200'000);
    if (!machine.is_complete) return true;
    std::vector<std::string> words = {"--outcomes",  "--jobs", "1", "--atomic", std::to_string(program.atomic_bytes),
                                      made("random")};
    add_program(words, program);
    const std::set<std::string> expected = printed_outcomes(program, machine.outcomes);
    const Ran run = pmem(words);
    std::set<std::string> found;
    int recoveries = 0;
    for (const auto& [outcome, count] : outcomes_of(run)) {
      found.insert(outcome);
      recoveries += count;
    }
    EXPECT_EQ(found, expected) << "seed " << seed << "\n" << program.to_text() << run.out << run.err;
    if (shape.has_distinct_values) {
      EXPECT_EQ(recoveries, static_cast<int>(found.size())) << program.to_text();
    }
    return !HasFailure();
  });
}

TEST_F(PmemRunTest, AListIsVerifiedAndItsWrongTwinIsFoundAndReplays) {
  const Ran right = pmem({"--outcomes", made("list"), "4"});
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_TRUE(right.says("verified for code that was instrumented early: all 5 recoveries, none failed")) << right.out;
  const Ran many = pmem({made("list"), "1000"});
  EXPECT_TRUE(many.says("all 1001 recoveries, none failed")) << many.out;

  const Ran wrong = pmem({made("list"), "2", "wrong"});
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out << wrong.err;
  EXPECT_TRUE(wrong.says("violation: 7 of 10 recoveries failed: 7 signal")) << wrong.out;
  EXPECT_TRUE(wrong.says("store of 8 bytes to list+0x48 at by_hand.h:")) << wrong.out;
  EXPECT_TRUE(wrong.says("flush of list+0x0 at list.c:")) << wrong.out;
  EXPECT_TRUE(wrong.says("fence at list.c:")) << wrong.out;
  EXPECT_TRUE(wrong.says("load of 8 bytes from list+0x40 at by_hand.h:")) << wrong.out;
  EXPECT_TRUE(wrong.says("get(&node->check) == ~value")) << wrong.out;
  const Ran again = crashcut(with(replay_of(wrong), {"--print"}));
  EXPECT_EQ(again.exit_code, 1) << again.out << again.err;
  EXPECT_TRUE(again.says("load of 8 bytes from list+0x40 at by_hand.h:")) << again.out;
}

TEST_F(PmemRunTest, WithoutRecoverMainRunsAgain) {
  EXPECT_EQ(outcomes_of(pmem({"--outcomes", made("again")})),
            (std::map<std::string, int>{{"00", 1}, {"01", 1}, {"10", 1}, {"11", 1}}));
  EXPECT_EQ(outcomes_of(pmem({"--outcomes", made("again"), "right"})),
            (std::map<std::string, int>{{"00", 1}, {"10", 1}, {"11", 1}}));
  const Ran fails = pmem({made("again"), "fails"});
  EXPECT_EQ(fails.exit_code, 1);
  EXPECT_TRUE(fails.says("violation: 1 of 4 recoveries failed: 1 exit")) << fails.out << fails.err;
}

// A file's contents are NULs for a while, then there (see the ext4 model).
TEST_F(PmemRunTest, FilesAndMemoryAreOneCrash) {
  const auto outcomes = [&](const char* how) { return outcomes_of(pmem({"--outcomes", made("store"), how})); };
  using Outcomes = std::map<std::string, int>;
  EXPECT_EQ(outcomes("file first"), (Outcomes{{"0 ", 1}, {"0 -", 1}, {"0 entry", 1}, {"1 entry", 1}}));
  EXPECT_EQ(outcomes("file without fsync"),
            (Outcomes{{"0 ", 1}, {"0 -", 1}, {"0 entry", 1}, {"1 ", 1}, {"1 -", 1}, {"1 entry", 1}}));
  EXPECT_EQ(outcomes("memory first"), (Outcomes{{"0 -", 1}, {"1 ", 1}, {"1 -", 1}, {"1 entry", 1}}));
  EXPECT_EQ(outcomes("memory without flush"),
            (Outcomes{{"0 ", 1}, {"0 -", 1}, {"0 entry", 1}, {"1 ", 1}, {"1 -", 1}, {"1 entry", 1}}));
  EXPECT_EQ(outcomes("from memory"),
            (Outcomes{{"0 ", 1}, {"0 -", 1}, {"0 entry", 1}, {"entry0 entry 1", 1}, {"entry1 entry 1", 1}}));
}

TEST_F(PmemRunTest, RecoveriesCrashToo) {
  EXPECT_TRUE(pmem({made("deep")}).says("all 3 recoveries, none failed"));
  EXPECT_TRUE(pmem({"--depth", "2", made("deep")}).says("all 5 recoveries, none failed"));
  EXPECT_TRUE(pmem({"--depth", "3", made("deep")}).says("all 7 recoveries, none failed"));
  EXPECT_EQ(pmem({made("deep"), "wrong"}).exit_code, 0);
  const Ran wrong = pmem({"--depth", "2", made("deep"), "wrong"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_TRUE(wrong.says("after a second crash")) << wrong.out;
  EXPECT_EQ(crashcut(replay_of(wrong)).exit_code, 1);
}

TEST_F(PmemRunTest, WhatRecoveryPrintsIsThatOfAPrefix) {
  const Ran right = pmem({"--outcomes", "--expect", "prefix", made("prefix"), "right", "3"});
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  // Between its store and its mark an operation has happened and is not promised yet: two recoveries each.
  EXPECT_EQ(outcomes_of(right), (std::map<std::string, int>{{"0 0", 1}, {"1 0", 2}, {"2 0", 2}, {"3 0", 2}}));
  const Ran early = pmem({"--expect", "prefix", made("prefix"), "early", "3"});
  EXPECT_EQ(early.exit_code, 1) << early.out << early.err;
  EXPECT_TRUE(early.says("neither that after 1 nor that after 2 operations: it printed \"0 0\"")) << early.out;
  const Ran torn = pmem({"--expect", "prefix", made("prefix"), "torn", "3"});
  EXPECT_EQ(torn.exit_code, 1) << torn.out << torn.err;
  EXPECT_TRUE(torn.says("violation: 3 of 10 recoveries failed: 3 prefix")) << torn.out;
  EXPECT_TRUE(torn.says("it printed \"0 2\", and prints \"0 0\" after 0 and \"1 2\" after 1")) << torn.out;
  EXPECT_EQ(crashcut(replay_of(torn)).exit_code, 1);
  const Ran unmarked = pmem({"--expect", "prefix", made("list"), "2"});
  EXPECT_EQ(unmarked.exit_code, 2);
  EXPECT_TRUE(unmarked.says("--expect prefix needs marks")) << unmarked.err;
  const Ran twins = pmem({"--expect", "prefix", made("prefix"), "twins", "2"});
  EXPECT_EQ(twins.exit_code, 2) << twins.out;
  EXPECT_TRUE(twins.says("--expect prefix needs marks that differ")) << twins.err;
}

TEST_F(PmemRunTest, ReportsAndResultsAreThoseOfRun) {
  const Ran wrong =
      pmem({"--json", "report.json", "--junit", "report.xml", "--out", "kept", made("list"), "2", "wrong"});
  EXPECT_EQ(wrong.exit_code, 1) << wrong.out << wrong.err;
  const auto json = nlohmann::json::parse(read_file(directory_ / "report.json"));
  EXPECT_EQ(json.at("command"), "pmem");
  EXPECT_EQ(json.at("execution").at("instrumentation"), "early");
  EXPECT_EQ(json.at("model").at("persistency"), "px86");
  EXPECT_NE(read_file(directory_ / "report.xml").find("get(&amp;node-&gt;check)"), std::string::npos);
  EXPECT_EQ(crashcut({"replay", "kept"}).exit_code, 1);
}

TEST_F(PmemRunTest, AStoppedSearchGoesOn) {
  const Ran first = pmem({"--max-recoveries", "300", "--out", "kept", made("list"), "1000"});
  EXPECT_EQ(first.exit_code, 3) << first.out << first.err;
  EXPECT_TRUE(first.says("--resume")) << first.out;
  const Ran rest = pmem({"--resume", "kept"});
  EXPECT_EQ(rest.exit_code, 0) << rest.out << rest.err;
  EXPECT_TRUE(rest.says("all 1001 recoveries, none failed")) << rest.out;
  EXPECT_EQ(crashcut({"run", "--resume", "kept"}).exit_code, 2);
}

// A checksum over words that nobody flushed: more states than can ever be explored, and a choice for each word.
TEST_F(PmemRunTest, ASearchOfVeryManyChoicesIsBoundedAndGoesOn) {
  const std::string source = program("sum.c", R"(#include <stdlib.h>
static long* words(long n) { return crashcut_pmem("words", (size_t)n * sizeof(long)); }
static long count;
int main(int argc, char** argv) {
  count = atol(argv[argc - 1]);
  long* w = words(count);
  for (long i = 0; i < count; ++i) w[i] = i + 1;
}
void crashcut_recover(void) {
  long sum = 0, *w = words(atol(getenv("WORDS")));
  for (long i = 0; i < atol(getenv("WORDS")); ++i) sum += w[i];
  if (sum < 0) abort();
})");
  setenv("WORDS", "50000", 1);
  const Ran first = pmem({"--max-recoveries", "20", "--out", "kept", source, "50000"});
  EXPECT_EQ(first.exit_code, 3) << first.out << first.err;
  EXPECT_TRUE(first.says("bounded (max_recoveries): 20 recoveries, none failed")) << first.out;
  EXPECT_LT(std::filesystem::file_size(directory_ / "kept/rest"), 8u << 20);
  const Ran rest = pmem({"--resume", "kept", "--max-recoveries", "40"});
  EXPECT_EQ(rest.exit_code, 3) << rest.out << rest.err;
  EXPECT_TRUE(rest.says("bounded (max_recoveries): 60 recoveries, none failed")) << rest.out;
  setenv("WORDS", "600000", 1);
  const Ran refused = pmem({source, "600000"});
  EXPECT_EQ(refused.exit_code, 2) << refused.out << refused.err;
  EXPECT_TRUE(refused.says("a recovery met more choices than crashcut can hold")) << refused.err;
  unsetenv("WORDS");
}

TEST_F(PmemRunTest, FailuresOfRecoveryAreViolations) {
  const auto with_variable = [&](const char* name) {
    setenv(name, "1", 1);
    const Ran run = pmem({"--recovery-limit", "1", made("bad")});
    unsetenv(name);
    return run;
  };
  const Ran hangs = with_variable("RECOVERY_HANGS");
  EXPECT_EQ(hangs.exit_code, 1);
  EXPECT_TRUE(hangs.says("violation: 1 of 2 recoveries failed: 1 hang")) << hangs.out << hangs.err;
  const Ran wild = with_variable("RECOVERY_WILD");
  EXPECT_EQ(wild.exit_code, 1);
  EXPECT_TRUE(wild.says("killed by SIGSEGV")) << wild.out << wild.err;
  const Ran touches = with_variable("RECOVERY_TOUCHES");
  EXPECT_EQ(touches.exit_code, 2);
  EXPECT_TRUE(touches.says("bad touched persistent memory (words+0x0) after the crash without instrumentation"))
      << touches.err;
}

// A signal comes while crashcut's own code overwrites much memory for the recovery: a handler looks where it came to.
const char kSent[] = R"(#include <dlfcn.h>
#include <sys/time.h>
#include <ucontext.h>
enum { kBytes = 16 << 20 };
static char* memory() { return (char*)crashcut_pmem("memory", kBytes); }
static void set_timer() { struct itimerval soon = {{0, 0}, {0, 1000}}; setitimer(ITIMER_REAL, &soon, NULL); }
int main() { memory()[0] = 1; return 0; }
static void on_alarm(int, siginfo_t*, void* context) {
  Dl_info in = {};
  const void* code = (void*)((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
  if (dladdr(code, &in) != 0 && strstr(in.dli_fname, "libcrashcut_runtime") != NULL) kill(getpid(), SENT);
  set_timer();
}
void crashcut_recover() {
  struct sigaction action = {};
  action.sa_sigaction = on_alarm;
  action.sa_flags = SA_SIGINFO;
  char first = memory()[0];
  sigaction(SIGALRM, &action, NULL);
  set_timer();
  for (;;) memset(memory(), first, kBytes);
}
)";

TEST_F(PmemRunTest, ASignalThatWasSentIsThePrograms) {
  const Ran run = pmem({program("sent.cpp", "#define SENT SIGTERM\n" + std::string(kSent))});
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_TRUE(run.says("2 of 2 recoveries failed: 2 signal")) << run.last_line();
  EXPECT_TRUE(run.says("killed by SIGTERM")) << run.out;
}

// It dies as by a broken invariant.
TEST_F(PmemRunTest, ADeathOfOurCodeIsOurFailure) {
  const Ran run = pmem({program("sent.cpp", "#define SENT SIGABRT\n" + std::string(kSent))});
  EXPECT_EQ(run.exit_code, 4) << run.out << run.err;
  EXPECT_TRUE(run.says("own code died inside the recovery")) << run.err;
}

TEST_F(PmemRunTest, AnAlarmIsAViolation) {
  const Ran run = pmem({program("alarm.c", R"(
static volatile long* words(void) { return crashcut_pmem("words", 64); }
int main(void) { words()[0] = 1; return 0; }
void crashcut_recover(void) {
  unsigned long rounds = 0;
  alarm(1);
  while (words()[0] != 0) ++rounds;
}
)")});
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_TRUE(run.says("1 of 2 recoveries failed: 1 signal")) << run.last_line();
  EXPECT_TRUE(run.says("killed by SIGALRM")) << run.out;
}

TEST_F(PmemRunTest, WhatCannotBeCheckedIsSaidInASentence) {
  const std::vector<std::pair<std::string, std::string>> kCases = {
      {"no region", "without having asked for persistent memory"},
      {"touches", "bad touched persistent memory (words+0x0) in main() without instrumentation"},
      {"libc touches", "libc.so.6 touched persistent memory (words+0x0) in main()"},
      {"another size", "this region has 256 bytes. A region has one size"},
      {"no size", "a region has at least one byte"},
      {"too large", "there is no room for so much persistent memory"},
      {"interface", "was instrumented by another version of crashcut (interface 99"},
      {"main hangs", "main() did not end within the limit of 1 second"},
      {"fork", "started a process while it had persistent memory"},
      {"socket", "called socket(): what comes in by it would not come again"},
      {"socket first", "called socket(): what comes in by it would not come again"},
      {"path", "a system call got the address of persistent memory (words+0x0)"},
      {"wild", "main() was killed by SIGSEGV: it touched words+0x8000, 32512 bytes beyond the end of this region"},
      {"fails", "main() ended with status 7"},
  };
  for (const auto& [how, sentence] : kCases) {
    const Ran run = pmem({"--main-limit", "1", made("bad"), how});
    EXPECT_EQ(run.exit_code, 2) << how << "\n" << run.out << run.err;
    EXPECT_TRUE(run.says(sentence)) << how << "\n" << run.err;
  }
  const Ran plain = crashcut({"run", made("bad"), "fails"});
  EXPECT_EQ(plain.exit_code, 2);
  EXPECT_TRUE(plain.says("that is for crashcut pmem")) << plain.err;
}

TEST_F(PmemRunTest, SourceIsCompiledFirst) {
  const Ran run = pmem({"--outcomes", program("p.c", R"(#include <immintrin.h>
struct Node { long value; struct Node* next; char pad[48]; };
struct List { struct Node* head; char pad[56]; struct Node nodes[4]; };
static struct List* list(void) { return crashcut_pmem("list", sizeof(struct List)); }
int main(void) {
  struct List* l = list();
  for (int i = 0; i < 3; ++i) {
    l->nodes[i].value = i + 1;
    l->nodes[i].next = l->head;
    _mm_clwb(&l->nodes[i]);
    _mm_sfence();
    l->head = &l->nodes[i];
    _mm_clflush(&l->head);
  }
  return 0;
}
void crashcut_recover(void) {
  int sum = 0;
  for (struct Node* n = list()->head; n != NULL; n = n->next) sum += n->value;
  printf("%d\n", sum);
}
)")});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_EQ(outcomes_of(run), (std::map<std::string, int>{{"0", 1}, {"1", 1}, {"3", 1}, {"6", 1}})) << run.out;
  const std::string linked = program("link.cc", "void elsewhere();\nint main() { elsewhere(); }\n");
  const Ran needs_more = pmem({linked});
  EXPECT_EQ(needs_more.exit_code, 2) << needs_more.out;
  EXPECT_TRUE(needs_more.says("build it first (crashcut cxx --pmem -g -o prog FILES LIBRARIES)")) << needs_more.err;
}

}  // namespace
}  // namespace crashcut
