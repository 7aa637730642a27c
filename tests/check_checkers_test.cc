// crashcut check: checkers and marks, second crashes, bounds, images.
#include "tests/check_fixture.h"

namespace crashcut {
namespace {

// ---- checkers and marks -------------------------------------------------------------------------------------------

TEST_F(CheckTest, ACheckerSeesEachStateOnce) {
  const Ran ran = check({"--setup", "echo old > f", "--check", "cat f"}, "echo new! > f");
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_EQ(outcomes(), (std::set<std::string>{"", "old", "new!", std::string(5, '\0')}));
  EXPECT_EQ(result()["counts"]["recoveries"], 4);
}

TEST_F(CheckTest, ACheckerReadsOnlyWhatItReads) {
  // Two files of four states each: looking at one must not cost the states of the other.
  EXPECT_EQ(
      check({"--setup", "echo old > f; echo old > g", "--check", "cat f"}, "echo new! > f; echo new! > g").exit_code,
      0);
  EXPECT_EQ(result()["counts"]["recoveries"], 4);
}

TEST_F(CheckTest, MarksComeFromTheExitFromLinesAndFromScripts) {
  const std::string judge = script("judge.sh",
                                   "if grep -q '^saved$' $CRASHCUT_MARKS; then grep -q new f || exit 1; fi\n"
                                   "if grep -q 'it is done' $CRASHCUT_STDOUT; then grep -q new f || exit 2; fi\n"
                                   "if grep -q '^exit$' $CRASHCUT_MARKS; then grep -q new f || exit 3; fi\n");
  const Words options = {"--setup", "echo old > f", "--stdout-marks", "--check", judge};
  EXPECT_EQ(check(options, "echo new > t; sync t; mv t f; sync .; crashcut mark saved; echo it is done").exit_code, 0)
      << read_file(directory_ / "out") << read_file(directory_ / "err");
  EXPECT_EQ(check(options, "crashcut mark saved; echo new > t; sync t; mv t f; sync .").exit_code, 1);
  EXPECT_EQ(result()["violation"]["code"], 1);
  EXPECT_EQ(check(options, "echo it is done; echo new > t; sync t; mv t f; sync .").exit_code, 1);
  EXPECT_EQ(result()["violation"]["code"], 2);
  EXPECT_EQ(check(options, "echo new > t; sync t; mv t f").exit_code, 1);
  EXPECT_EQ(result()["violation"]["code"], 3);
  EXPECT_EQ(crashcut({"mark", "saved"}).exit_code, 2) << "there is nobody to hear it";
}

TEST_F(CheckTest, MarksOfTheSetUpAreNotTheProgramsOwn) {
  const std::string judge = script("judge.sh",
                                   "test -s $CRASHCUT_MARKS && grep -q . $CRASHCUT_MARKS && cat $CRASHCUT_MARKS && "
                                   "test \"$(cat $CRASHCUT_MARKS)\" != exit && exit 1; exit 0");
  const Words options = {"--setup", "echo old > f; crashcut mark saved", "--check", judge};
  EXPECT_EQ(check(options, "echo new > f").exit_code, 0) << read_file(directory_ / "out");
  EXPECT_EQ(check({"--setup", "echo old > f; crashcut mark saved", "--check", "test -z \"$CRASHCUT_CERTAIN\""},
                  "echo new > f")
                .exit_code,
            0)
      << read_file(directory_ / "out");
  // Nor do they count: the program's first one is "saved", not "saved (2)".
  const Ran ran = check({"--setup", "echo old > f; crashcut mark saved", "--file", "f"},
                        "echo new > t; sync t; mv t f; crashcut mark saved; sync .");
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_EQ(result()["violation"]["text"], "f is old after \"saved\"") << ran.out;
}

TEST_F(CheckTest, HowTheCheckerEndedIsSaid) {
  const auto says = [&](const std::string& checker, const std::string& words) {
    const Ran ran =
        check({"--setup", "echo old > f", "--check-limit", "1", "--jobs", "1", "--check", checker}, "echo new > f");
    EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
    EXPECT_TRUE(ran.says(words)) << words << ran.out;
    EXPECT_TRUE(crashcut({"replay", token()}).says(words)) << words;
  };
  says("test -s f || { echo nothing there; exit 3; }", "the checker ended with status 3 and said: nothing there");
  says("test -s f || exit 4", "the checker ended with status 4 and printed nothing");
  says("test -s f || kill -SEGV $$", "the checker was killed by SIGSEGV and printed nothing");
  says("test -s f || sleep 1000", "the checker did not end in time (--check-limit), was killed and printed nothing");
  // Two ways to end are two kinds, also where the words are the same.
  const Ran ran = check({"--setup", "echo old > f", "--check", "grep -q old f && exit 0; test -s f && exit 5; exit 6"},
                        "echo new > f");
  EXPECT_TRUE(ran.says("check failed: the checker ended with status 5")) << ran.out;
  EXPECT_TRUE(ran.says("check failed: the checker ended with status 6")) << ran.out;
  const Json json = result();
  std::set<std::string> ends;
  for (const Json& violation : json["violations"]) ends.insert(violation["text"]);
  EXPECT_EQ(ends, (std::set<std::string>{"the checker ended with status 5", "the checker ended with status 6"}));
}

TEST_F(CheckTest, ReportsForMachinesStandAlone) {
  Ran ran = check({"--setup", "echo old > f", "--file", "f", "--junit", "-"}, "echo printed; echo new > f");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(ran.out.starts_with("<?xml")) << ran.out;
  EXPECT_EQ(ran.out, read_file(directory_ / "results/junit.xml"));
  EXPECT_EQ(ran.out.find("\\n"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("1 recovery\nlost: "), std::string::npos) << "a line each: " << ran.out;
  // What a checker says may be many lines.
  const std::string complain = "test -s f || { echo one >&2; echo two >&2; exit 1; }";
  ran = check({"--setup", "echo old > f", "--check", complain, "--junit", "-"}, "echo new > f");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_NE(ran.out.find("and said: one\ntwo | crashcut replay"), std::string::npos) << ran.out;
  for (const Words& also : {Words{}, Words{"--stdout-marks"}}) {
    Words options = {"--setup", "echo old > f", "--file", "f", "--json", "-"};
    options.insert(options.end(), also.begin(), also.end());
    ran = check(options, "echo printed; echo new > f");
    EXPECT_EQ(Json::parse(ran.out, nullptr, false)["verdict"], "violation") << ran.out;
    EXPECT_NE(ran.err.find("printed"), std::string::npos) << ran.err;
  }
}

TEST_F(CheckTest, CrashcutHeaderWorksOnTheMountToo) {
  const std::string save = compile(
      "save",
      "#include <crashcut.h>\n#include <fcntl.h>\n"
      "int main(int n, char** v) { int f = open(\"f\", O_CREAT | O_WRONLY, 0644); (void)v;\n"
      "  if (write(f, \"x\", 1) != 1) return 1; crashcut_barrier();\n"
      "  if (pwrite(f, \"y\", 1, 0) != 1) return 1; if (n > 1) fsync(f); crashcut_mark(\"told\"); return 0; }\n");
  const std::string judge =
      compile("judge",
              "#include <crashcut.h>\n#include <fcntl.h>\n"
              "int main(void) { char c = 0; int f = open(\"f\", O_RDONLY); if (read(f, &c, 1) != 1) return 3;\n"
              "  if (crashcut_reached(\"told\")) return c == 'y' ? 0 : 1; return c == 'x' || c == 'y' ? 0 : 2; }\n");
  const auto run_with = [&](Words arguments) {
    fs::remove_all(directory_ / "results");
    Words words = {"check", "--out", "results", "--check", judge, "--", save};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return crashcut(words);
  };
  EXPECT_EQ(run_with({}).exit_code, 1);
  EXPECT_EQ(result()["violation"]["code"], 1);
  EXPECT_EQ(run_with({"fsync"}).exit_code, 0) << read_file(directory_ / "out");
}

TEST_F(CheckTest, SyncsThatFuseDoesNotSeeAreSeen) {
  const Words options = {"--setup", "echo old > f", "--file", "f"};
  EXPECT_EQ(check(options, "echo new > t; sync; mv t f; sync").exit_code, 0) << read_file(directory_ / "out");
  EXPECT_EQ(check(options, "echo new > t; sync -f t; mv t f; sync -f .").exit_code, 0) << read_file(directory_ / "out");
  EXPECT_EQ(check(options, "echo new > t; sync -f /tmp; mv t f; sync -f /tmp").exit_code, 1) << "another filesystem's";
  const std::string syncs = compile("syncs", "#include <unistd.h>\nint main(void) { sync(); return 0; }\n", "-static");
  EXPECT_EQ(check(options,
                  "echo new > t; " + (directory_ / "syncs").string() + "; mv t f; " + (directory_ / "syncs").string())
                .exit_code,
            0);
}

TEST_F(CheckTest, StoresToMappingsAreEvents) {
  const std::string store =
      compile("store",
              "#include <fcntl.h>\n#include <stdlib.h>\n#include <sys/mman.h>\n#include <unistd.h>\n"
              "int main(int n, char** v) { int f = open(\"f\", O_RDWR); char* m = mmap(0, 4096, 3, MAP_SHARED, f, 0);\n"
              "  m[0] = 'b'; if (n > 1) msync(m, 4096, MS_SYNC); int g = open(\"g\", O_CREAT | O_WRONLY, 0644); "
              "fsync(g); (void)v; return 0; }\n");
  const auto run_with = [&](Words arguments) {
    fs::remove_all(directory_ / "results");
    Words words = {"check", "--out", "results", "--setup", "printf %4096s a > f", "--file", "f", "--", store};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return crashcut(words);
  };
  EXPECT_EQ(run_with({}).exit_code, 1);
  EXPECT_EQ(count_of(result(), "not durable"), 1) << "the store is not durable";
  EXPECT_EQ(run_with({"msync"}).exit_code, 0) << read_file(directory_ / "out");
}

TEST_F(CheckTest, ARecoveryThatIsCrashedItself) {
  // It copies the journal over the file and drops it, with nothing in between.
  const std::string recovery = script("recovery.sh",
                                      "if [ -e j ]; then cat j > f; rm j; fi\n"
                                      "grep -q . f\n");
  const Words options = {"--setup", "echo old > f; echo new > j", "--check", recovery};
  EXPECT_EQ(check(options, "true").exit_code, 0);
  Words twice = options;
  twice.insert(twice.end(), {"--depth", "2"});
  EXPECT_EQ(check(twice, "true").exit_code, 1);
  EXPECT_EQ(result()["violation"]["crashes"].size(), 2U);
  EXPECT_EQ(crashcut({"replay", token()}).exit_code, 1);
  const std::string safe = script("safe.sh",
                                  "if [ -e j ]; then cat j > f; sync f; rm j; fi\n"
                                  "grep -q . f\n");
  EXPECT_EQ(check({"--setup", "echo old > f; echo new > j", "--check", safe, "--depth", "2"}, "true").exit_code, 0)
      << read_file(directory_ / "out");
}

TEST_F(CheckTest, TheStoryOfASecondCrashTellsWhatTheCheckerDid) {
  const std::string recovery =
      script("recovery.sh",
             "if [ -e d/j ]; then cat d/j > f; rm d/j; mkdir d/j/none; mv d/k d/l; fi 2> /dev/null\ngrep -q . f\n");
  const Ran ran = check(
      {"--setup", "echo old > f; mkdir d; echo new > d/j; touch d/k", "--check", recovery, "--depth", "2"}, "true");
  EXPECT_EQ(ran.exit_code, 1) << ran.err;
  EXPECT_TRUE(ran.says("a crash, and another one while the checker ran, can leave a state that the checker refuses"))
      << ran.out;
  const std::string report = crashcut({"replay", "--print", token()}).out;
  for (const std::string words :
       {"What that run of the checker did", "  truncate(f, 0)\n", "  write(f, 4 bytes at 0)\n", "  unlink(d/j)\n",
        "  rename(d/k, d/l, RENAME_NOREPLACE)\n"}) {
    EXPECT_NE(report.find(words), std::string::npos) << words << "\n" << report;
  }
  EXPECT_EQ(report.find("none"), std::string::npos) << "what failed is no operation: " << report;
  const Json crash = result()["violation"]["crashes"][1];
  std::map<std::string, std::string> persisted;
  for (const Json& operation : crash["operations"]) {
    if (!operation["persisted"].is_null()) persisted[operation["text"]] = operation["persisted"];
  }
  // The journal is gone, of the file there is only the size.
  EXPECT_EQ(persisted["truncate(f, 0)"], "yes") << crash;
  EXPECT_EQ(persisted["write(f, 4 bytes at 0)"], "partly") << crash;
  EXPECT_EQ(persisted["unlink(d/j)"], "yes") << crash;
  EXPECT_EQ(persisted["rename(d/k, d/l, RENAME_NOREPLACE)"], "no") << crash;
  EXPECT_EQ(crash.dump().find("of inode"), std::string::npos) << crash;
  EXPECT_NE(crash.dump().find("size of f"), std::string::npos) << crash;
}

TEST_F(CheckTest, ACheckerThatIsNotDeterministicIsNoticed) {
  const Ran ran = check({"--setup", "echo old > f", "--check", "sh -c 'cat f; date +%N'"}, "echo new > f");
  EXPECT_EQ(ran.exit_code, 2) << ran.out;
  EXPECT_TRUE(ran.says("The checker is not deterministic")) << ran.err;
}

TEST_F(CheckTest, ACheckerThatHangsAndOneThatLeavesProcesses) {
  EXPECT_EQ(check({"--check", "sleep 1000", "--check-limit", "1", "--jobs", "1"}, "echo a > f").exit_code, 1);
  EXPECT_EQ(result()["violation"]["kind"], "check did not end");
  EXPECT_EQ(check({"--check", "sh -c 'setsid sleep 1000 & cat f; true'"}, "echo a > f").exit_code, 0)
      << read_file(directory_ / "err");
}

TEST_F(CheckTest, SwitchingAndRemountingGiveTheSame) {
  const Words options = {"--setup", "echo old > f", "--check", "cat f"};
  check(options, "echo new! > f; mkdir d; mv f d/g; ln d/g f");
  const Json switched = result()["outcomes"];
  Words remount = options;
  remount.push_back("--remount");
  check(remount, "echo new! > f; mkdir d; mv f d/g; ln d/g f");
  EXPECT_EQ(result()["outcomes"], switched);
}

TEST_F(CheckTest, StatesAreWrittenOutAsTrees) {
  check({"--setup", "echo old > f", "--check", "cat f", "--image", "states"}, "echo new! > f");
  std::multiset<std::string> found;
  for (const auto& entry : fs::directory_iterator(directory_ / "states")) found.insert(read_file(entry.path() / "f"));
  EXPECT_EQ(found, (std::multiset<std::string>{"", "old\n", "new!\n", std::string(5, '\0')}));
}

TEST_F(CheckTest, StatesOfASecondCrashAreNamedByTheFirst) {
  const std::string recover = script("recover", "cat g; if [ -s f ]; then cat f > g; fi");
  check({"--depth", "2", "--setup", "echo old > g", "--check", recover, "--image", "states"}, "echo new > f");
  std::map<std::string, std::set<std::string>>
      found;  // what the second crashes leave in g, by what the first left in f
  for (const auto& entry : fs::directory_iterator(directory_ / "states")) {
    const std::string name = entry.path().filename();
    const fs::path first = directory_ / "states" / name.substr(0, 6);
    ASSERT_TRUE(fs::is_directory(first)) << name;
    const std::string f = fs::exists(first / "f") ? read_file(first / "f") : "none";
    if (name.size() == 6) {
      EXPECT_EQ(read_file(first / "g"), "old\n");
      found[f];
    } else {
      EXPECT_EQ(name[6], '.');
      found[f].insert(read_file(entry.path() / "g"));
    }
  }
  const std::string nuls(4, '\0');
  const std::map<std::string, std::set<std::string>> expected = {
      {"none", {}}, {"", {}}, {nuls, {"old\n", "", nuls}}, {"new\n", {"old\n", "", nuls, "new\n"}}};
  EXPECT_EQ(found, expected);
}

TEST_F(CheckTest, ASpaceThatIsTooLargeIsSampled) {
  const std::string write =
      "for i in $(seq 1 60); do printf b | dd of=f bs=1 seek=$((i*512)) conv=notrunc status=none; done";
  const Words options = {
      "--setup", "head -c 40000 /dev/zero | tr '\\0' a > f", "--check", "cksum f", "--max-recoveries", "60"};
  const Ran ran = check(options, write);
  EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
  EXPECT_EQ(result()["verdict"], "bounded");
  EXPECT_GT(result()["counts"]["sampled"], 0);
  EXPECT_LT(result()["explored_fraction"], 0.01);
}

// Stopped by a bound again and again and resumed from its directory, a search says what it says in one go.
TEST_F(CheckTest, GoesOnWhereItWasStopped) {
  const std::string checker = script("checker", "cat f g; test ! -s g || echo more >> g");
  const std::string write = "printf 1234 > f; printf 56 > g";
  const Words questions = {"--tree", "--depth", "2", "--check", checker, "--outcomes"};
  check(questions, write);
  const Json whole = result();
  ASSERT_EQ(whole["verdict"], "violation");
  Words options = questions;
  options.insert(options.end(), {"--max-recoveries", "7"});
  Ran ran = check(options, write);
  int stops = 0;
  while (fs::exists(directory_ / "results/rest")) {
    EXPECT_TRUE(ran.says("resume: ")) << ran.out << ran.err;
    ran = crashcut({"check", "--resume", "results", "--max-recoveries", std::to_string(6 + stops % 5)});
    ASSERT_LT(++stops, 100);
  }
  EXPECT_GT(stops, 2);
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  const Json resumed = result();
  for (const char* key : {"verdict", "outcomes", "violations", "kinds", "model", "settings"})
    EXPECT_EQ(resumed[key], whole[key]) << key;
  EXPECT_EQ(resumed["counts"]["recoveries"], whole["counts"]["recoveries"]);
  EXPECT_EQ(resumed["bound_hit"], nullptr);
  const Ran again = crashcut({"check", "--resume", "results"});
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_TRUE(again.says("nothing to resume")) << again.err;
}

// The program is not run again: the trace is that of the first time.
TEST_F(CheckTest, AComparisonGoesOnWhereItWasStopped) {
  const std::string counted = (directory_ / "runs").string();
  const Words what = {"--tree", "--", "sh", "-c", "echo >> " + counted + "; printf 1234 > f; printf 56 > g; mv g f"};
  const auto compare = [&](Words options) {
    options.insert(options.begin(), "compare");
    options.insert(options.end(), what.begin(), what.end());
    return crashcut(options);
  };
  ASSERT_EQ(compare({"--json", "whole.json"}).exit_code, 1);
  fs::remove(counted);
  Ran ran = compare({"--max-recoveries", "2", "--out", "part"});
  int stops = 0;
  while (fs::exists(directory_ / "part/rest")) {
    EXPECT_TRUE(ran.says("resume: ")) << ran.out << ran.err;
    ran = crashcut({"compare", "--resume", "part", "--max-recoveries", std::to_string(2 + stops % 3)});
    ASSERT_TRUE(ran.exit_code == 1 || ran.exit_code == 3) << ran.out << ran.err;
    ASSERT_LT(++stops, 100);
  }
  EXPECT_GT(stops, 1);
  EXPECT_EQ(read_file(counted), "\n");
  const Json whole = Json::parse(read_file(directory_ / "whole.json"));
  const Json resumed = Json::parse(read_file(directory_ / "part/result.json"));
  ASSERT_EQ(resumed.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const char* key : {"model", "verdict", "outcomes", "violations", "kinds", "bound_hit"})
      EXPECT_EQ(resumed[i][key], whole[i][key]) << key;
    EXPECT_EQ(resumed[i]["counts"]["recoveries"], whole[i]["counts"]["recoveries"]);
  }
}

// What an earlier search found is found again by one that is too small to get there, as long as the program does the
// same.
TEST_F(CheckTest, WhatFailedBeforeIsTriedFirst) {
  const std::string checker = script("checker", "! { [ -s a ] && [ -e b ] && [ ! -s b ] && [ -s c ] && [ ! -s d ]; }");
  const std::string write = "for n in a b c d; do echo $n > $n; done";
  const Words whole = {"check", "--outcomes", "--check", checker, "--", "sh", "-c", write};
  const Words few = {"check", "--max-recoveries", "2", "--check", checker, "--", "sh", "-c", write};
  const Words other = {"check", "--max-recoveries", "2", "--data", "journal", "--check", checker, "--", "sh", "-c",
                       write};
  ASSERT_EQ(crashcut(few).exit_code, 3);
  ASSERT_EQ(crashcut(whole).exit_code, 1);
  const Ran again = crashcut(few);
  EXPECT_EQ(again.exit_code, 1) << again.out << again.err;
  EXPECT_EQ(crashcut(other).exit_code, 3);  // another model is another question
}

TEST_F(CheckTest, ResumingTakesNoOtherQuestion) {
  const Ran ran = crashcut({"check", "--resume", "results", "--file", "f"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says("--file cannot be given with it")) << ran.err;
}

// Whatever is running: a checker that hangs, in the tree, in a sample or while a violation is told.
TEST_F(CheckTest, TimeIsKeptWhateverRuns) {
  for (const char* text : {"cat f; sleep 20", "cat f; test -s f || sleep 20; false"}) {
    const std::string checker = script("checker", text);
    const auto begin = std::chrono::steady_clock::now();
    const Ran ran = check({"--check", checker, "--time", "1"}, "echo new contents > f");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took.count(), 3.0) << text;
    EXPECT_TRUE(ran.exit_code == 3 || ran.exit_code == 1) << ran.out << ran.err;
  }
}

// Before there is anything to search, too: a set-up that hangs, a tree that takes long to copy, both before the
// program.
TEST_F(CheckTest, TimeIsKeptBeforeTheSearch) {
  const std::vector<std::vector<std::string>> slow = {
      {"--setup", "sleep 20"}, {"--from", "/usr"}, {"--setup", "sleep 0.8"}, {"--device", "--setup", "sleep 20"}};
  for (std::vector<std::string> words : slow) {
    words.insert(words.end(), {"--check", "true", "--time", "1"});
    const auto begin = std::chrono::steady_clock::now();
    const Ran ran = check(words, "sleep 20");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    EXPECT_LT(took.count(), 3.0) << words[0] << ' ' << words[1];
    EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
    EXPECT_TRUE(ran.says("bounded")) << ran.out << ran.err;
  }
}

TEST_F(CheckTest, AShellInTheViolatingState) {
  check({"--setup", "echo old > f", "--file", "f"}, "echo new contents > f");
  const Ran ran =
      run({"sh", "-c", "echo 'stat -c size=%s f' | SHELL=/bin/sh " CRASHCUT_BINARY " replay --shell " + token()});
  EXPECT_TRUE(ran.says("size=0")) << ran.out << ran.err;
  EXPECT_EQ(crashcut({"replay", "--image", "state", token()}).exit_code, 0);
  EXPECT_EQ(fs::file_size(directory_ / "state/f"), 0U);
}

TEST_F(CheckTest, AShellInTheStateThatAnotherCheckerFound) {
  EXPECT_EQ(check({"--setup", "echo old > f", "--check", "test -s f"}, "echo new > f").exit_code, 1);
  const Ran ran =
      run({"sh", "-c", "echo 'wc -c f; exit' | SHELL=/bin/sh " CRASHCUT_BINARY " replay --shell $(cat results/token)"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(ran.says("0 f")) << ran.out;
  const Ran none = run({"sh", "-c", "SHELL=/nonexistent " CRASHCUT_BINARY " replay --shell $(cat results/token)"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_TRUE(none.says("The shell could not be run")) << none.err;
}

TEST_F(CheckTest, TheImageOfASecondCrash) {
  const std::string recover = script(
      "recover",
      "if [ -f journal ]; then cat journal > data; rm journal; fi; case $(cat data) in old|new) ;; *) exit 1;; esac");
  EXPECT_EQ(
      check({"--depth", "2", "--setup", "echo old > data; echo new > journal", "--check", recover}, "true").exit_code,
      1);
  EXPECT_EQ(crashcut({"replay", "--image", "image", token()}).exit_code, 0);
  EXPECT_FALSE(fs::exists(directory_ / "image/journal"));
  EXPECT_EQ(read_file(directory_ / "image/data"), std::string(4, '\0'));
  EXPECT_EQ(crashcut({"replay", "--image", "/nonexistent/image", token()}).exit_code, 2);
}

// Each is a promise of its own, whatever it is called.
TEST_F(CheckTest, MarksOfTheSameName) {
  const std::string saves = "for i in 1 2 3; do echo version$i > t; sync t; mv t f; sync .; crashcut mark saved; done";
  const Ran ran = check({"--setup", "echo v0 > f", "--file", "f"}, saves);
  EXPECT_EQ(ran.exit_code, 0) << ran.out;
  EXPECT_TRUE(ran.says("all 4 recoveries"));
  for (const char* mark : {"exit", "begin"}) {
    EXPECT_EQ(check({"--setup", "echo v0 > f", "--file", "f"},
                    std::string("crashcut mark ") + mark + "; echo v1 > t; sync t; mv t f")
                  .exit_code,
              1)
        << mark;
  }
  EXPECT_EQ(check({"--setup", "echo v0 > f", "--file", "f"},
                  "echo v1 > t; sync t; mv t f; crashcut mark 'stdout synced'; sync")
                .exit_code,
            1);
}

TEST_F(CheckTest, AFileThatIsALink) {
  const Ran ran = check({"--setup", "echo old > real; ln -s real f", "--file", "f"}, "echo new > f");
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(ran.says("real is empty")) << ran.out;
  EXPECT_EQ(check({"--setup", "echo old > a; ln -s /etc/hostname f", "--file", "f"}, "echo new > a").exit_code, 2);
}

TEST_F(CheckTest, ALargeFileIsLeftAloneOrRefused) {
  EXPECT_EQ(check({"--file", "small"}, "truncate -s 1T big; echo x > small; sync small; sync").exit_code, 1);
  const Ran ran = check({}, "truncate -s 1T big");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says("too large to be compared")) << ran.err;
}

TEST_F(CheckTest, ACheckerMayEndWithAnyStatus) {
  const Ran ran = check({"--check", "test -e a || exit 127"}, "touch a");
  EXPECT_EQ(ran.exit_code, 1) << ran.err;
  EXPECT_EQ(check({"--check", "nonono; "}, "touch a").exit_code, 2);
}

TEST_F(CheckTest, BoundsHoldBelowASecondCrash) {
  const std::string recover =
      script("recover", "cat a b c d e 2>/dev/null; for i in a b c d e; do echo $i$i > $i; done");
  const Ran ran =
      check({"--depth", "2", "--max-recoveries", "5", "--jobs", "1", "--setup", "echo x > a", "--check", recover},
            "echo y > q");
  EXPECT_EQ(ran.exit_code, 3) << ran.out;
  EXPECT_LE(result()["counts"]["recoveries"].get<int>(), 5);
}

TEST_F(CheckTest, AnInterruptDoesNotWaitForAChecker) {
  const std::string runs = (directory_ / "runs").string();
  const pid_t child = start({CRASHCUT_BINARY, "check", "--out", "results", "--check-limit", "30", "--check",
                             "sh -c 'touch " + runs + "; exec sleep 1000'", "--", "sh", "-c", "echo y > q"});
  for (int tries = 0; tries < 500 && !fs::exists(runs); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto begin = std::chrono::steady_clock::now();
  kill(child, SIGTERM);
  const Ran ran = finish(child);
  EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(CheckTest, NamesThatAreNoText) {
  EXPECT_EQ(check({}, "printf abc > \"$(printf 'f\\377')\"").exit_code, 1);
  const Ran again = crashcut({"replay", token()});
  EXPECT_EQ(again.exit_code, 1) << again.err;
}

TEST_F(CheckTest, CompareShowsEveryModel) {
  const Ran ran = crashcut({"compare", "--out", "results", "--setup", "echo old > f", "--file", "f", "--", "sh", "-c",
                            "echo new! > t; mv t f"});
  EXPECT_EQ(ran.exit_code, 1) << ran.err;
  const Json json = result();
  ASSERT_EQ(json.size(), 5U);
  EXPECT_EQ(count_of(json[0], "lost"), 1);
  EXPECT_EQ(count_of(json[2], "lost"), 0);
  EXPECT_TRUE(ran.says("ext4 data=writeback")) << ran.out;
}

TEST_F(CheckTest, CompareSaysWhatItIsAndHowManyHold) {
  const auto compare = [&](const std::string& script) {
    fs::remove_all(directory_ / "results");
    return crashcut(
        {"compare", "--out", "results", "--setup", "echo old > f", "--file", "f", "--", "sh", "-c", script});
  };
  const Ran safe = compare("echo new! > t; sync t; mv t f; sync .");
  EXPECT_EQ(safe.exit_code, 0) << safe.err;
  EXPECT_TRUE(safe.out.starts_with("crashcut compare -- sh")) << safe.out;
  EXPECT_TRUE(safe.says(" | 5 models | file f")) << safe.out;
  EXPECT_TRUE(safe.says("verified: under all 5 models")) << safe.out;
  EXPECT_TRUE(compare("echo new! > t; mv t f; sync .").says("violation: under 3 of 5 models"))
      << read_file(directory_ / "out");
}

}  // namespace
}  // namespace crashcut
