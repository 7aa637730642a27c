// Threads and files in one tree of choices.
//
// Verifies: made-up programs have exactly the outcomes that every schedule with all its crashes has (no reduction, no
//   recordings taken for alike), under each reduction, in both profiles and all modes; what reads and writes of several
//   blocks may see of each other; findings, tokens, replays.
#include "tests/thread_files.h"

#include <algorithm>
#include <random>

#include "tests/seeds.h"

namespace crashcut {
namespace {

using nlohmann::json;
using tests::outcomes_of;
using tests::run_threads;

std::string program(const std::string& words) { return std::string(CRASHCUT_THREAD_PROGRAMS) + "/" + words; }

class ScriptMaker {
 public:
  explicit ScriptMaker(std::uint64_t seed) : random_(seed) {}

  std::string options() {
    static const char* const kProfiles[] = {"paper", "ext4"};
    static const char* const kModes[] = {"ordered", "ordered", "journal", "writeback"};
    static const char* const kMounts[] = {"", "", " -o nodelalloc", " -o dioread_lock", " -o barrier=0"};
    std::string text =
        std::string("--profile ") + kProfiles[below(2)] + " --data " + kModes[below(4)] + " --sector 1 --block 2";
    return text + (text.find("paper") == std::string::npos ? kMounts[below(5)] : "");
  }
  std::string threads() {
    const std::size_t count = 2 + below(5) / 4;
    std::string words;
    for (std::size_t i = 0; i < count; ++i) words += " " + thread(count == 2 ? 2 : 1);
    return words;
  }

 private:
  std::size_t below(std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most - 1)(random_); }
  char file() { return "ABC"[below(3)]; }
  char letter() { return static_cast<char>('a' + below(4)); }

  std::string open() { return std::string(1, "cctao"[below(5)]) + file(); }
  std::string call() {
    switch (below(26)) {
      case 0:
      case 1:
        return open();
      case 2:
      case 3:
        return std::string("w") + letter() + letter() + letter();
      case 4:
      case 5:
        return std::string("v") + letter();
      case 6:
      case 7:
        return std::string("p") + static_cast<char>('0' + below(4)) + letter() + letter();
      case 8:
        return "s";
      case 9:
        return below(2) == 0 ? "d" : "S";
      case 10:
        return std::string("k") + static_cast<char>('0' + below(4));
      case 11:
        return std::string("r") + file() + file();
      case 12:
        return std::string("u") + file();
      case 13:
        return std::string("l") + file() + file();
      case 14:
        return std::string("e") + file();
      case 15:
        return "R";
      case 16:
        return "E";
      case 17:
        return std::string("W") + letter();
      case 18:
        return std::string("m") + static_cast<char>('1' + below(2));
      case 19:
        return below(2) == 0 ? "P" : "V";
      case 20:
        return std::string("x") + file();
      case 21:
        return "n";
      case 22:
        return "D";
      case 23:
        return "F";
      case 24:
        return std::string("f") + "de"[below(2)];
      default:
        return std::string("M") + "de"[below(2)];
    }
  }
  std::string thread(std::size_t calls_most) {
    std::string script = open();
    for (std::size_t i = 0, count = 1 + below(calls_most); i < count; ++i) script += call();
    return script;
  }

  std::mt19937_64 random_;
};

// Every schedule, of recordings that are alike one; then the reduced searches, one of them with the recoveries of all
// recordings. So neither what commutes nor what is alike is taken for granted on both sides.
TEST(ThreadFiles, MadeUpProgramsHaveTheOutcomesOfEverySchedule) {
  // Nearly half of the programs have too many schedules to compare with, and take most of the time to find that out.
  const std::string most = tests::is_long_run() ? "5000" : "2000";
  std::uint64_t compared = 0;
  tests::for_each_seed(60, [&](std::uint64_t seed) {
    ScriptMaker maker(seed);
    const std::string options = maker.options(), words = program("file_script-gcc") + maker.threads();
    const json all = run_threads("--jobs 1 --all --reduction none --max-executions " + most + " " + options, words, -1);
    if (all.is_null()) return ADD_FAILURE() << "no result, seed " << seed << ": " << options << " " << words, false;
    if (all["verdict"] == "bounded") return true;  // too many to compare with
    EXPECT_EQ(all["verdict"], "verified") << "seed " << seed;
    const std::set<std::string> expected = outcomes_of(all);
    EXPECT_FALSE(expected.empty());
    for (const char* how : {"--jobs 1", "--jobs 2", "--jobs 1 --all-logs", "--jobs 1 --reduction source"}) {
      const json reduced = run_threads(std::string("--all ") + how + " " + options, words, 0);
      EXPECT_EQ(outcomes_of(reduced), expected) << "seed " << seed << ": " << how << " " << options << " " << words;
      if (reduced.is_null()) return false;
      EXPECT_LE(reduced["counts"]["executions"].get<std::uint64_t>(), all["counts"]["executions"].get<std::uint64_t>());
    }
    ++compared;
    return !::testing::Test::HasFailure();
  });
  const bool has_few_seeds = tests::kIsSanitized || std::getenv("CRASHCUT_SEED") != nullptr;
  EXPECT_GT(compared, has_few_seeds ? 0u : 20u);
}

// One execution a class by either reduction, since sleep sets cut short what is none of its own; by the optimal one
// nothing is cut short either.
void expect_none_in_vain(const std::string& options, const std::string& words, std::uint64_t executions) {
  const auto count = [&](const char* reduction) {
    return run_threads(std::string("--jobs 1 --reduction ") + reduction + " " + options,
                       program("file_calls-gcc") + " " + words, 0)["counts"];
  };
  const json optimal = count("optimal"), source = count("source");
  EXPECT_TRUE(executions == 0 || optimal["executions"] == executions) << options << " " << words << ": " << optimal;
  EXPECT_EQ(optimal["executions"], source["executions"]) << options << " " << words;
  EXPECT_EQ(optimal["asleep"], 0) << options << " " << words;
}

// Where a call did not tell all that it looks at, swaps were taken for none and classes were lost: the first step of a
// read the size that the second relies on; a sync the files that nobody had written to.
TEST(ThreadFiles, ReadsOfSeveralBlocksAndSizes) {
  expect_none_in_vain("--profile paper --data writeback --sector 1 --block 2", "aCdeBR cBtCwdacwdab", 38);
}
TEST(ThreadFiles, SyncsAndFilesThatAreNew) {
  expect_none_in_vain("--profile paper --data ordered --sector 1 --block 2", "cBcBMd tCS cBdp0ca", 8);
  expect_none_in_vain("--profile ext4 --data writeback --sector 1 --block 2", "cCwcba cClCBs cClBBS", 90);
}
// A call that finds a lock taken is another than one that does not.
TEST(ThreadFiles, CallsThatHaveToWait) {
  expect_none_in_vain("--profile ext4 --data journal --sector 1 --block 2", "tAp1ba oBlAAlCC tAxB", 8);
}

TEST(ThreadFiles, NoExecutionOfMadeUpProgramsIsInVain) {
  tests::for_each_seed(250, [&](std::uint64_t seed) {
    ScriptMaker maker(1'000'000 + seed);
    const std::string options = maker.options();
    expect_none_in_vain(options, maker.threads(), 0);
    return !::testing::Test::HasFailure();
  });
}

// Creates that nothing but the journal orders are one class; listings do not tell which came first.
TEST(ThreadFiles, CreatesCommute) {
  EXPECT_EQ(run_threads("--all", program("file_script-gcc cB cC"), 0)["counts"]["executions"], 1);
  EXPECT_EQ(run_threads("--all", program("file_script-gcc cB xB"), 0)["counts"]["executions"], 2);
  EXPECT_EQ(run_threads("--all", program("file_script-gcc cB cCn"), 0)["counts"]["executions"],
            3);  // a listing is two calls
}

struct Outcomes {
  const char* what;
  const char* words;
  std::set<std::string> expected;
};
class Consistency : public ::testing::TestWithParam<Outcomes> {};

// Of the running program: what one thread reads it writes to S, which is then durable.
TEST_P(Consistency, IsThatOfSection2_3) {
  const Outcomes& row = GetParam();
  const json report = run_threads("--all --profile paper --sector 1 --block 2 --jobs 1", program(row.words), 0);
  EXPECT_EQ(outcomes_of(report), row.expected);
}

INSTANTIATE_TEST_SUITE_P(
    ThreadFiles, Consistency,
    ::testing::Values(
        // An append of two blocks and whoever asks for the size meanwhile: it rises block by block.
        Outcomes{"append and size", "read_while append-size", {"0", "2", "4"}},
        // A read of two blocks takes no lock: it may see one block of a write and not the other.
        Outcomes{"overwrite and read", "read_while overwrite-read", {"0000", "0011", "1100", "1111"}},
        // Two writes of two blocks: one after the other, never mixed.
        Outcomes{"two writes", "read_while write-write", {"1111", "2222"}},
        // Two writes at one offset that threads share: both whole, in either order.
        Outcomes{"shared offset", "read_while shared-offset", {"11112222", "22221111"}}),
    [](const auto& info) {
      std::string name = info.param.what;
      std::replace(name.begin(), name.end(), ' ', '_');
      return name;
    });

TEST(ThreadFiles, AStoreThatNeedsAnInterleavingAndACrash) {
  const json bad = run_threads("", program("kv"), 1);
  ASSERT_FALSE(bad.is_null());
  EXPECT_EQ(bad["violation"]["kind"], "crash");
  EXPECT_TRUE(bad["violation"]["replays"].get<bool>());
  EXPECT_GT(bad["violation"]["steps"].size(), 10u);
  EXPECT_FALSE(bad["violation"]["crashes"][0]["operations"].empty());
  const auto replay = run_replay(bad, "--print ");
  EXPECT_EQ(replay.code, 1) << replay.output;
  EXPECT_NE(replay.output.find("The schedule that leads there"), std::string::npos) << replay.output;
  EXPECT_NE(replay.output.find("the power fails"), std::string::npos) << replay.output;
  EXPECT_NE(replay.output.find("fsync(3 log)"), std::string::npos) << replay.output;
  const json good = run_threads("", program("kv fixed"), 0);
  ASSERT_FALSE(good.is_null());
  EXPECT_EQ(good["verdict"], "verified");
  EXPECT_GT(good["counts"]["merged_executions"].get<int>(), 0);
}

// What a deadlock leaves on the disk is found after the power is back, too.
TEST(ThreadFiles, ADeadlockIsCrashed) {
  for (const char* options : {"--all", "--all --reduction none"}) {
    const json r = report(options, "stuck", 1);
    EXPECT_EQ(r["violation"]["kind"], "deadlock") << options;
    EXPECT_EQ(r["counts"]["recoveries"], 16) << options;
    EXPECT_EQ(r["outcomes"].back(),
              json({{"output", "1 1"}, {"stdout", "1 1\n"}, {"recoveries", 2}, {"violations", 2}}))
        << options << r["outcomes"];
  }
}

TEST(ThreadFiles, BoundsAreBounds) {
  const json report = run_threads("--max-recoveries 3", program("kv fixed"), 3);
  ASSERT_FALSE(report.is_null());
  EXPECT_EQ(report["verdict"], "bounded");
  EXPECT_EQ(report["bound_hit"], "max_recoveries");
}

TEST(ThreadFiles, DamagedTokensAreRefused) {
  for (const char* token : {"cc2", "cc2AAAA", "cc2!!", "cc9AAAA"})
    EXPECT_EQ(run(std::string("replay ") + token).code, 2) << token;
}

}  // namespace
}  // namespace crashcut
