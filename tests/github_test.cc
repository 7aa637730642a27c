// --github: annotations, by the writer alone, and of each command.
#include "recovery/result/github.h"

#include "tests/cli_fixture.h"

namespace crashcut {
namespace {

using result::Verdict;

std::string text_of(const result::Result& result) {
  return result::github_text(result, "crashcut", [](const std::string& name) { return "src/" + name; });
}

result::Result violation(const std::string& sentence) {
  result::Result result;
  result.head.command = "run";
  result.verdict = Verdict::kViolation;
  result.counterexample.emplace();
  result.counterexample->sentence = sentence;
  result.token = "cc2abc";
  return result;
}

result::Operation lost_store(const std::string& text) { return {text, {result::Event{.kind = "store"}}}; }

TEST(GithubText, AVerifiedProgramHasNone) { EXPECT_EQ(text_of(result::Result{}), ""); }

TEST(GithubText, WithoutALineThereIsNoFile) {
  EXPECT_EQ(text_of(violation("notes.txt is empty")),
            "::error title=crashcut run%3A violation::notes.txt is empty%0Areplay: crashcut replay cc2abc\n");
}

TEST(GithubText, PercentLineFeedColonAndCommaAreEscapedWhereGithubWantsIt) {
  result::Result result = violation("100%, or: not");
  result.head.command = "a,b%\r";
  result.token = "";
  EXPECT_EQ(text_of(result), "::error title=crashcut a%2Cb%25%0D%3A violation::100%25, or: not\n");
}

TEST(GithubText, ADataRaceIsAtBothAccesses) {
  result::Result result = violation("data race between main and thread 1");
  result::Race race;
  race.variable = "x";
  race.accesses.push_back(
      {.thread = "main", .text = "main writes x", .stack = {{"memcpy", "", 0}, {"main", "a.c", 10}}});
  race.accesses.push_back(
      {.thread = "thread 1", .text = "thread 1 reads x", .stack = {{"f", "b,c.c", 4}, {"g", "a.c", 1}}});
  result.counterexample->story.race = race;
  const std::string rest = "%0Areplay: crashcut replay cc2abc\n";
  EXPECT_EQ(text_of(result),
            "::error file=src/a.c,line=10,title=crashcut run%3A violation::data race between main and thread 1"
            "%0Ahere: main writes x" +
                rest +
                "::error file=src/b%2Cc.c,line=4,title=crashcut run%3A violation::data race between main and thread 1"
                "%0Ahere: thread 1 reads x" +
                rest);
}

TEST(GithubText, ADeadlockIsWhereThreadsWaitThatHoldSomething) {
  result::Result result = violation("deadlock");
  result.counterexample->finding.kind = "deadlock";
  result.counterexample->story.waiting = {
      {"main", {}, "waits for the end of thread 1", {{"main", "a.c", 30}}},
      {"thread 1", {"mutex a"}, "waits for mutex b", {{"pthread_mutex_lock", "", 0}, {"run", "a.c", 7}}},
      {"thread 2", {"mutex b"}, "waits for mutex a", {}}};
  EXPECT_EQ(text_of(result),
            "::error file=src/a.c,line=7,title=crashcut run%3A violation::deadlock%0Ahere: thread 1 waits for mutex b"
            "%0Areplay: crashcut replay cc2abc\n");
}

TEST(GithubText, AMissingFlushIsAtEachPlaceAndOfAnInlinedHelperAtItsCaller) {
  result::Result result = violation("recovery aborted");
  result.counterexample->mends = {
      {.kind = "fence", .place = "after pmem.h:20 (list.c:36), list.c:40", .text = "A fence."}};
  result.counterexample->story.crashes.push_back({.operations = {lost_store("store of 8 bytes to l+0x0 at list.c:1")}});
  const std::string rest =
      ",title=crashcut run%3A violation::recovery aborted%0Amend: A fence.%0Areplay: crashcut replay cc2abc\n";
  EXPECT_EQ(text_of(result), "::error file=src/list.c,line=36" + rest + "::error file=src/list.c,line=40" + rest);
}

TEST(GithubText, OtherwiseTheLostStoresAreToBlameEachPlaceOnce) {
  result::Result result = violation("recovery aborted");
  result::Operation kept = lost_store("store of 8 bytes to l+0x8 at list.c:2");
  kept.events[0].persisted = true;
  result::Operation flush = lost_store("clwb of l+0x0 at list.c:3");
  flush.events[0].is_sync = true;
  result.counterexample->story.crashes.push_back(
      {.operations = {lost_store("store of 8 bytes to l+0x0 at list.c:1"),
                      lost_store("store of 8 bytes to l+0x10 at list.c:1"), kept, flush,
                      lost_store("store of 8 bytes to l+0x20 at prog+0x12f4"),
                      lost_store("write(3 log, 8 bytes at 0)")}});
  result.counterexample->story.schedule.push_back(
      {.thread = "machine 1",
       .text = "answer 2; kept: 8 bytes at k, by machine 0 in f m.c:5; lost: 8 bytes at l, by machine 0 in f m.c:17, "
               "and 8 bytes at n, by machine 0 in f m.c:18; and 3 more"});
  const std::string rest = ",title=crashcut run%3A violation::recovery aborted%0Areplay: crashcut replay cc2abc\n";
  EXPECT_EQ(text_of(result), "::error file=src/list.c,line=1" + rest + "::error file=src/m.c,line=17" + rest +
                                 "::error file=src/m.c,line=18" + rest);
}

TEST(GithubText, AtMostTenLines) {
  result::Result result = violation("recovery aborted");
  result.counterexample->story.crashes.emplace_back();
  for (int i = 1; i <= 12; ++i)
    result.counterexample->story.crashes[0].operations.push_back(lost_store("store at list.c:" + std::to_string(i)));
  const std::string text = text_of(result);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
}

TEST(GithubText, WithoutACounterexampleTheFindingsAreNamed) {
  result::Result result = violation("");
  result.counterexample.reset();
  result.findings = {{.text = "a is empty"}, {.text = "b is empty"}};
  EXPECT_EQ(text_of(result), "::error title=crashcut run%3A violation::a is empty%0Ab is empty\n");
}

TEST(GithubText, BoundsAndNotesAreWarnings) {
  result::Result result;
  result.head.command = "pmem";
  result.verdict = Verdict::kBounded;
  result.bound = result::Bound::kTime;
  result.memory_notes.push_back(
      {.kind = "redundant flush", .place = "tree.cpp:41", .count = 2, .text = "A flush at tree.cpp:41 does nothing."});
  result.memory_notes.push_back({.kind = "overwrite", .place = "tree+0x12", .count = 1, .text = "An overwrite."});
  EXPECT_EQ(text_of(result),
            "::warning file=src/tree.cpp,line=41,title=crashcut pmem%3A redundant flush::A flush at tree.cpp:41 does "
            "nothing.\n"
            "::warning title=crashcut pmem%3A overwrite::An overwrite.\n"
            "::warning title=crashcut pmem%3A bounded::Nothing was found, and not everything was tried: --time was "
            "reached\n");
}

class GithubTest : public CliTest {
 protected:
  GithubTest() { unsetenv("GITHUB_WORKSPACE"); }
  std::string source(const std::string& folder, const std::string& name) {
    fs::create_directories(directory_ / folder);
    fs::copy_file(std::string(CRASHCUT_SOURCE_DIR) + "/tests/installed/" + name, directory_ / folder / name);
    return folder + "/" + name;
  }
  // The lines of annotations, with TOKEN for the token.
  std::string annotations(std::vector<std::string> words, int exit_code) {
    words.insert(words.begin() + 1, "--github");
    const Ran run = crashcut(words);
    EXPECT_EQ(run.exit_code, exit_code) << run.out << run.err;
    std::string text, token = token_of(run);
    std::istringstream lines(run.out);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with("::")) continue;
      for (std::size_t at; !token.empty() && (at = line.find(token)) != line.npos;)
        line.replace(at, token.size(), "TOKEN");
      text += line + "\n";
    }
    return text;
  }
};

TEST_F(GithubTest, RunNamesWhatWasLost) {
  const std::string file = std::filesystem::relative(example("save_lossy.c"), directory_.string()).string();
  EXPECT_EQ(annotations({"run", example("save_lossy.c")}, 1),
            "::error file=" + file +
                ",line=13,title=crashcut run%3A violation::recovery aborted (SIGABRT)%0Ahere: write(3 notes.tmp, 9 "
                "bytes: \"new notes\")%0Amend: fdatasync notes.tmp before the rename (operation 8): then none of the 2 "
                "recoveries fails.%0Areplay: crashcut replay --program " +
                example("save_lossy.c") + " TOKEN\n");
  EXPECT_EQ(annotations({"run", example("save_safe.c")}, 0), "");
  EXPECT_EQ(annotations({"run", "--max-recoveries", "1", example("save_safe.c")}, 3),
            "::warning title=crashcut run%3A bounded::Nothing was found, and not everything was tried: "
            "--max-recoveries was reached\n");
}

TEST_F(GithubTest, CompareHasOneForEachModelThatFails) {
  const std::string file = std::filesystem::relative(example("save_lossy.c"), directory_.string()).string();
  EXPECT_EQ(annotations({"compare", "--data", "journal", "--data", "writeback", example("save_lossy.c")}, 1),
            "::error file=" + file +
                ",line=13,title=crashcut compare%3A violation::recovery aborted (SIGABRT)%0Ahere: write(3 notes.tmp, 9 "
                "bytes: \"new notes\")%0Areplay: crashcut replay --program " +
                example("save_lossy.c") + " TOKEN\n");
}

// A file of the same name elsewhere does not matter: this one was named.
TEST_F(GithubTest, ThreadsNamesBothAccessesOfADataRace) {
  source("other", "counter.c");
  const std::string program = source("src", "counter.c");
  const std::string text = annotations({"threads", "--jobs", "1", program}, 1);
  const std::string end =
      "%0Amend: one more mutex, held around counter.c:11 (count): then none of the 2 executions fails.%0Areplay: "
      "crashcut replay TOKEN\n";
  const std::string begin =
      "::error file=src/counter.c,line=11,title=crashcut threads%3A violation::data race between thread 1 and thread "
      "2%0Ahere: ";
  EXPECT_EQ(text, begin + "thread 1 writes g_count" + end + begin + "thread 2 reads g_count" + end);
  EXPECT_EQ(annotations({"threads", program, "locked"}, 0), "");
}

// An executable: the source is looked for in the tree.
TEST_F(GithubTest, TheOnlyFileOfTheNameInTheTreeIsTaken) {
  const std::string program = source("src", "counter.c");
  source(".hidden", "counter.c");
  source("build", "counter.c");
  std::ofstream(directory_ / "build/CMakeCache.txt") << "";
  const std::string compile =
      "cd " + directory_.string() + " && gcc -g " + program + " -o program $(" CRASHCUT_BINARY " flags gcc)";
  ASSERT_EQ(std::system(compile.c_str()), 0);
  EXPECT_NE(annotations({"threads", "./program"}, 1).find("::error file=src/counter.c,line=11,"), std::string::npos);
  setenv("GITHUB_WORKSPACE", (directory_ / "src").c_str(), 1);
  EXPECT_NE(annotations({"threads", "./program"}, 1).find("::error file=counter.c,line=11,"), std::string::npos);
  unsetenv("GITHUB_WORKSPACE");
  source("also", "counter.c");
  EXPECT_NE(annotations({"threads", "./program"}, 1).find("::error file=counter.c,line=11,"), std::string::npos);
}

#ifdef CRASHCUT_HAS_PLUGIN
TEST_F(GithubTest, PmemNamesTheLineThatLacksAFlush) {
  EXPECT_EQ(
      annotations({"pmem", source("src", "log.c")}, 1),
      "::error file=src/log.c,line=18,title=crashcut pmem%3A violation::recovery aborted (SIGABRT)%0A"
      "mend: A flush of log+0x40 and a fence after log.c:18 makes this go away (verified with it: all 2 recoveries, "
      "none failed).%0A"
      "replay: crashcut replay TOKEN\n");
}

TEST_F(GithubTest, CxlNamesTheLostStore) {
  const std::string text = annotations({"cxl", "--machines", "2", "--schedules", "all", source("src", "letter.c")}, 1);
  EXPECT_EQ(text,
            "::error file=src/letter.c,line=18,title=crashcut cxl%3A violation::machine 1 failed: src/letter.c:25: int "
            "main(int, char **): "
            "assertion `letter->text == 42' failed%0A"
            "mend: A flush of letter and a fence after letter.c:18 (main) makes this go away (verified with it: all 79 "
            "executions, none failed).%0Areplay: crashcut replay TOKEN\n");
}
#endif

TEST_F(GithubTest, AShellHasNoLinesAndBesideADocumentTheyGoToStderr) {
  if (access("/dev/fuse", W_OK) != 0) GTEST_SKIP() << "there is no /dev/fuse that can be opened";
  EXPECT_EQ(annotations({"check", "--setup", "echo old > f", "--file", "f", "--", "sh", "-c", "echo new > f"}, 1),
            "::error title=crashcut check%3A violation::a crash can leave f empty: truncate(f, 0) had persisted, "
            "write(f, 4 bytes at 0) had "
            "not; no fsync of f follows%0Areplay: crashcut replay TOKEN\n");
  const Ran run = crashcut(
      {"check", "--github", "--json", "-", "--setup", "echo old > f", "--file", "f", "--", "sh", "-c", "echo new > f"});
  EXPECT_EQ(run.out.find("::error"), std::string::npos) << run.out;
  EXPECT_NE(run.err.find("::error title=crashcut check%3A violation::"), std::string::npos) << run.err;
}

}  // namespace
}  // namespace crashcut
