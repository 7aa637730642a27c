// crashcut conform at the command line: the sets of programs, the tables, and a control that it sees what the model
// does not allow.
//
// Does not verify: the model, beyond the few programs here; the table in docs/kernel.md is made by the same command.
// Skips where there is no root, no loop device, no /dev/fuse or no mkfs.ext4.
#include "recovery/kernel/images.h"
#include "recovery/kernel/metadata_history.h"
#include "recovery/kernel/record.h"
#include "recovery/kernel/states.h"
#include "tests/check_fixture.h"

namespace crashcut {
namespace {

class ConformTest : public CheckTest {
 protected:
  void SetUp() override {
    CheckTest::SetUp();
    const std::string missing = kernel::what_is_missing({"ext4", ""});
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
  Ran conform(Words options) {
    options.insert(options.begin(), "conform");
    return crashcut(std::move(options));
  }
};

constexpr const char* kDocument = "before\n<!-- conform -->\nold\n<!-- conform: end -->\nafter\n";

TEST_F(ConformTest, PutsTheTableWhereAFileSays) {
  std::ofstream(directory_ / "page.md") << kDocument;
  const Ran ran = conform({"--random", "1", "--runs", "2", "--subsets", "8", "--update", "page.md", "--report",
                           "table.md", "-o", "data=journal"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("verified for the images of these runs: all ")) << ran.out;
  EXPECT_TRUE(ran.says(" images, none failed; ")) << ran.out;
  const std::string page = read_file(directory_ / "page.md"), table = read_file(directory_ / "table.md");
  EXPECT_TRUE(
      page.starts_with("before\n<!-- conform -->\n`crashcut conform --random 1 --runs 2 --subsets 8 --seed 0 -o "
                       "data=journal`, on Linux "))
      << page;
  EXPECT_TRUE(page.ends_with("<!-- conform: end -->\nafter\n")) << page;
  EXPECT_EQ(page.find("old\n"), std::string::npos);
  EXPECT_NE(page.find("| data=journal | random | 1 | "), std::string::npos) << page;
  EXPECT_NE(page.find(table), std::string::npos) << table;
}

// A page may have several tables: each has its name.
TEST_F(ConformTest, PutsATableWithANameWhereItBelongs) {
  std::ofstream(directory_ / "page.md") << kDocument << "<!-- conform two -->\nold two\n<!-- conform two: end -->\n";
  const Words one{"--call", "creat:foo", "sync", "--runs", "1", "--subsets", "2", "--update", "page.md"};
  Words two = one;
  two.insert(two.end(), {"--table", "two"});
  const Ran ran = conform(two);
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  const std::string page = read_file(directory_ / "page.md");
  EXPECT_TRUE(page.starts_with(kDocument)) << page;
  EXPECT_EQ(page.find("old two"), std::string::npos) << page;
  EXPECT_NE(page.find("<!-- conform two -->\n`crashcut conform --call creat:foo sync --runs 1 "), std::string::npos)
      << page;
}

// One run with nothing forced shows little, so there is slack.
TEST_F(ConformTest, SlackIsGroupedByTheRuleThatAllowsIt) {
  const Ran ran = conform({"--call", "creat:foo", "write:foo:0:8192", "barrier", "write:foo:8192:4096",
                           "rename:foo:bar", "--runs", "1", "--subsets", "2", "--slack"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("not shown (kernel:ext4:data=ordered): --call creat:foo write:foo:0:8192 barrier")) << ran.out;
  EXPECT_TRUE(ran.says("by the rule: delayed allocation")) << ran.out;
  EXPECT_TRUE(ran.says("| delayed allocation | size and blocks reach the journal when writeback allocates them"))
      << ran.out;
}

TEST_F(ConformTest, LitmusProgramsAndOthersAreCompared) {
  fs::create_directory(directory_ / "litmus");
  // Says what it finds by itself; the argument is that of the first run.
  std::ofstream(directory_ / "litmus/append.c") << R"(/* Grows a file.
 *   run: --data ordered -- two
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "crashcut.h"
int main(int argc, char** argv) {
  int fd = open("f", O_CREAT | O_WRONLY, 0644);
  crashcut_barrier();
  if (argc != 2 || strcmp(argv[1], "two") != 0 || write(fd, "two", 3) != 3) return 1;
  fsync(fd);
  crashcut_mark("saved");
  return 0;
}
void crashcut_recover(void) {
  char text[4] = "";
  int fd = open("f", O_RDONLY);
  printf("%ld %s\n", (long)read(fd, text, 3), crashcut_reached("saved") ? "saved" : "not yet");
}
)";
  const Ran ran = conform({"--litmus", "litmus", "--program", "litmus/append.c two"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  for (const char* set : {"litmus", "programs"})
    EXPECT_TRUE(ran.says(std::string("| data=ordered | ") + set + " | 1 | ")) << ran.out;
  EXPECT_TRUE(ran.says(" | 3 | 3 | 0 |")) << ran.out;  // 0 and 3 bytes before it was saved, 3 after
}

// msync of a range waits for its blocks, and not for the size that another block is to grow: the old size, 8192, shows
// with the bytes of the second store. A model that takes it for fdatasync does not allow that.
TEST_F(ConformTest, AnMsyncOfARangeLeavesTheSizeOfOtherBlocks) {
  const Ran ran =
      conform({"--call", "creat:foo", "write:foo:0:8192", "barrier", "write:foo:8192:4096", "mmapwrite:foo:0:4096",
               "mmapwrite:foo:0:4096", "sync", "--runs", "2", "--subsets", "16", "--slack"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_TRUE(ran.says(" | 9 | 0 |")) << ran.out;
}

// What is not in the model's set is seen: here a name that only the kernel's disk has, in every state.
constexpr const char* kLostAndFound = R"(
#include <stdio.h>
#include <unistd.h>
int main(void) { return 0; }
void crashcut_recover(void) { printf("%s\n", access("lost+found", F_OK) == 0 ? "lost+found" : "nothing"); }
)";

TEST_F(ConformTest, SeesStatesThatTheModelDoesNotAllow) {
  std::ofstream(directory_ / "lost.c") << kLostAndFound;
  const Ran ran = conform({"--program", "lost.c", "--runs", "2"});
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("outside (kernel:ext4:data=ordered): --program 'lost.c'")) << ran.out;
  EXPECT_TRUE(ran.says("the kernel left: lost+found")) << ran.out;
  EXPECT_TRUE(ran.says("  allowed: nothing")) << ran.out;
  EXPECT_TRUE(ran.says("violation (outside): kernel:ext4:data=ordered can leave what the model does not allow: "))
      << ran.out;
}

// Without barriers the drive may lose parts of the metadata, which the model leaves out. Only such images are excused.
TEST_F(ConformTest, WithoutBarriersDamagedMetadataIsToldApart) {
  const Ran ran = conform({"--call", "creat:foo", "write:foo:0:8192", "barrier", "rename:foo:bar", "sync", "-o",
                           "barrier=0", "--runs", "4", "--subsets", "64", "--json", "results.json"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("Damage to the filesystem's own metadata, which is possible without barriers")) << ran.out;
  const Json row = Json::parse(read_file(directory_ / "results.json"))["facts"]["rows"].at(0);
  EXPECT_GT(row["states_damaged"], 0);
  EXPECT_EQ(row["states_outside"], 0);
  std::ofstream(directory_ / "lost.c") << kLostAndFound;
  EXPECT_EQ(conform({"--program", "lost.c", "--runs", "2", "-o", "barrier=0"}).exit_code, 1);
  // The model says what it leaves out.
  const Ran check = crashcut({"check", "-o", "barrier=0", "--check", "true", "--", "sh", "-c", "echo y > n"});
  EXPECT_EQ(check.exit_code, 0) << check.out << check.err;
  EXPECT_TRUE(check.says("verified but for damage to the filesystem's own metadata, which barrier=0 allows: "))
      << check.out;
  EXPECT_TRUE(check.says("not covered: Damage to the filesystem's own metadata")) << check.out;
}

// The rule by which they are excused: with barriers no image has metadata of different moments.
TEST_F(ConformTest, MetadataIsOfOneMomentIfThereAreBarriers) {
  const std::string calls = (fs::path(CRASHCUT_BINARY).parent_path() / "conform/calls").string();
  for (const std::string options : {"data=ordered", "data=writeback", "nodelalloc", "barrier=0"}) {
    mounted::RecordPlan program;
    program.directory = (directory_ / options).string();
    fs::create_directory(program.directory);
    kernel::DiskPlan disk{{"ext4", options}, 64 << 20, {}, 4, 64};
    disk.drive.sector_bytes = 4096;
    ASSERT_TRUE(kernel::make_base(program, disk));
    program.program.words = {calls,       "creat:foo",         "write:foo:0:8192", "mkdir:A", "barrier",    "mkdir:B",
                             "fsync:foo", "truncate:foo:2500", "rename:foo:A/bar", "fsync:A", "rename:A:B", "sync"};
    ASSERT_TRUE(kernel::find_states(program, disk, {{{calls}}}, 3));
    const auto images = kernel::ImageSet::open(program.directory, disk, 3);
    ASSERT_TRUE(images) << images.error().sentence;
    std::map<const blocklayer::CrashImages*, std::optional<kernel::MetadataHistory>> histories;
    std::uint64_t whole = 0, damaged = 0;
    (*images)->visit([&](const kernel::ImageSet::Chosen& chosen) {
      auto& history = histories
                          .try_emplace(chosen.run, kernel::MetadataHistory::of(*chosen.run, (*images)->base().bytes(),
                                                                               (*images)->journal()))
                          .first->second;
      ASSERT_TRUE(history) << options;
      ++(history->is_of_one_moment(*chosen.image) ? whole : damaged);
    });
    EXPECT_GT(whole, 10u) << options;
    if (options == "barrier=0") {
      EXPECT_GT(damaged, 0u);
    } else {
      EXPECT_EQ(damaged, 0u) << options;
    }
  }
}

// A state outside of the model is a finding like any other: in every report, with a token that mounts its image again.
TEST_F(ConformTest, AFindingIsReportedAndReplays) {
  std::ofstream(directory_ / "lost.c") << kLostAndFound;
  const Ran ran = conform({"--program", "lost.c", "--out", "results", "--junit", "junit.xml"});
  ASSERT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  const Json json = result();
  EXPECT_EQ(json["command"], "conform");
  EXPECT_EQ(json["verdict"], "violation");
  EXPECT_EQ(json["exit_code"], 1);
  EXPECT_EQ(json["bound_hit"], nullptr);
  const Json row = json["facts"]["rows"].at(0);
  EXPECT_EQ(row["mount"], "data=ordered");
  EXPECT_EQ(row["set"], "programs");
  EXPECT_EQ(row["compared"], 1);
  EXPECT_EQ(row["states_outside"], json["violations"].size());
  EXPECT_EQ(json["subjects"], Json::array({"data=ordered, programs"}));
  std::uint64_t images = 0;
  for (const Json& finding : json["violations"]) {
    EXPECT_EQ(finding["kind"], "outside");
    EXPECT_TRUE(finding["text"].get<std::string>().starts_with("--program 'lost.c'")) << finding;
    EXPECT_TRUE(finding["message"].get<std::string>().starts_with("run ")) << finding;
    images += finding["count"].get<std::uint64_t>();
  }
  EXPECT_EQ(json["counts"]["violations"], images);
  EXPECT_EQ(json["counts"]["recoveries"], row["images"]);
  EXPECT_EQ(json["violation"]["replays"], true);
  EXPECT_NE(read_file(directory_ / "junit.xml").find("<failure type=\"outside\""), std::string::npos);
  EXPECT_TRUE(fs::exists(directory_ / "results/outside-1.img"));
  for (const Json& finding : json["violations"]) {
    const Ran again = crashcut({"replay", finding["token"], "--print"});
    EXPECT_EQ(again.exit_code, 1) << again.out << again.err;
    EXPECT_TRUE(again.says("violation: outside: the kernel left what the model does not allow: ")) << again.out;
  }
  const Ran by_directory = crashcut({"replay", "results"});
  EXPECT_EQ(by_directory.exit_code, 1) << by_directory.out << by_directory.err;
  // On another directory, and without the image.
  fs::rename(directory_ / "results", directory_ / "elsewhere");
  EXPECT_EQ(crashcut({"replay", json["token"], "--results", "elsewhere"}).exit_code, 1);
  const Ran lost = crashcut({"replay", json["token"]});
  EXPECT_EQ(lost.exit_code, 2) << lost.out << lost.err;
  EXPECT_TRUE(lost.says("is not found here")) << lost.err;
  EXPECT_EQ(crashcut({"replay", json["token"], "--shell"}).exit_code, 2);
}

// On stdout a document stands alone, and --quiet leaves the last line.
TEST_F(ConformTest, DocumentsAndTheLastLineStandAlone) {
  const Words one{"--call", "creat:foo", "sync", "--runs", "1", "--subsets", "2"};
  Words json = one, quiet = one;
  json.insert(json.end(), {"--json", "-"});
  quiet.emplace_back("--quiet");
  const Ran document = conform(json);
  EXPECT_EQ(document.exit_code, 0) << document.err;
  const Json parsed = Json::parse(document.out, nullptr, false);
  ASSERT_FALSE(parsed.is_discarded()) << document.out;
  EXPECT_EQ(parsed["verdict"], "verified");
  EXPECT_EQ(parsed["seed"], 0);
  EXPECT_EQ(parsed["settings"]["mounts"], Json::array({"data=ordered"}));
  EXPECT_GT(parsed["bounds"]["memory_limit_bytes"], 0);
  const Ran last = conform(quiet);
  EXPECT_TRUE(last.out.starts_with("verified for the images of these runs: ")) << last.out;
  EXPECT_EQ(std::count(last.out.begin(), last.out.end(), '\n'), 1) << last.out;
  EXPECT_EQ(last.err, "");
}

// --time ends it within two seconds; what was compared is kept, and --resume goes on with the rest only.
TEST_F(ConformTest, TimeStopsItAndResumeGoesOn) {
  const Words what{"--seq1", "--every", "45",           "--runs", "2",           "--subsets",
                   "4",      "-o",      "data=ordered", "-o",     "data=journal"};
  Words whole = what;
  whole.insert(whole.end(), {"--json", "whole.json", "--jobs", "1"});
  auto begin = std::chrono::steady_clock::now();
  const Ran all = conform(whole);
  ASSERT_EQ(all.exit_code, 0) << all.out << all.err;
  const std::chrono::duration<double> half = (std::chrono::steady_clock::now() - begin) / 2;
  Words first = what;
  first.insert(first.end(), {"--time", std::to_string(half.count()), "--out", "results", "--jobs", "1"});
  begin = std::chrono::steady_clock::now();
  const Ran stopped = conform(first);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, half + std::chrono::seconds(2));
  ASSERT_EQ(stopped.exit_code, 3) << stopped.out << stopped.err;
  EXPECT_TRUE(stopped.says("bounded (time): ")) << stopped.out;
  EXPECT_TRUE(stopped.says("conform --resume results")) << stopped.out;
  const Json part = result();
  EXPECT_EQ(part["bound_hit"], "time");
  EXPECT_LT(part["explored_fraction"], 1);
  EXPECT_TRUE(part["coverage"].get<std::string>().ends_with(" of 26 programs compared")) << part["coverage"];
  const Ran wrong = conform({"--resume", "results", "--runs", "3"});
  EXPECT_EQ(wrong.exit_code, 2) << wrong.out << wrong.err;
  EXPECT_TRUE(wrong.says("--runs cannot be given with it")) << wrong.err;
  const Ran done = conform({"--resume", "results", "--jobs", "2", "--memory-limit", "8G"});
  EXPECT_EQ(done.exit_code, 0) << done.out << done.err;
  // All rows have all programs once; what the model allows does not depend on the run.
  const Json resumed = result()["facts"]["rows"],
             once = Json::parse(read_file(directory_ / "whole.json"))["facts"]["rows"];
  ASSERT_EQ(resumed.size(), once.size());
  for (std::size_t i = 0; i < once.size(); ++i) {
    for (const char* name : {"mount", "set", "programs", "compared", "states_allowed", "states_outside"})
      EXPECT_EQ(resumed[i][name], once[i][name]) << name;
  }
  EXPECT_FALSE(fs::exists(directory_ / "results/rest"));
  const Ran nothing = conform({"--resume", "results"});
  EXPECT_EQ(nothing.exit_code, 2) << nothing.out << nothing.err;
  EXPECT_TRUE(nothing.says("there is nothing to resume")) << nothing.err;
}

TEST_F(ConformTest, ResumeRefusesWhatItDidNotWrite) {
  fs::create_directory(directory_ / "results");
  for (const char* rest : {"cf1", "cf1AAAA", "cs2AAAA", "x"}) {
    std::ofstream(directory_ / "results/rest") << rest << "\n";
    const Ran ran = conform({"--resume", "results"});
    EXPECT_EQ(ran.exit_code, 2) << rest << ran.out << ran.err;
  }
}

TEST_F(ConformTest, WrongUseIsASentence) {
  std::ofstream(directory_ / "bare.md") << "nothing\n";
  fs::create_directory(directory_ / "empty");
  script("plain", "exit 0\n");
  const std::pair<Words, std::string> bad[] = {
      {{"--update", "missing.md"}, "--update missing.md: there is no such file."},
      {{"--update", "bare.md"}, "it has no lines <!-- conform --> and <!-- conform: end -->"},
      {{"--update", "bare.md", "--table", "two"}, "it has no lines <!-- conform two --> and <!-- conform two: end -->"},
      {{"--table", "two"}, "--table names a table of --update FILE."},
      {{"--resume", "empty"}, "there is nothing to resume"},
      {{"--time", "0"}, "--time"},
      {{"--json", "missing/r.json"}, "Cannot write missing/r.json"},
      {{"--litmus", "empty"}, "--litmus empty: there are no programs in C in it."},
      {{"-o", "data=none", "--call", "sync"}, "data mode"},
      {{"-o", "nobody", "--call", "sync"}, "nobody"},
      {{"--call", "dance:foo"}, "--call dance:foo: The program itself failed"},
      {{"--program", "./missing"}, "missing"},
      {{"--runs", "0"}, "--runs"},
  };
  for (const auto& [options, sentence] : bad) {
    const Ran ran = conform(options);
    EXPECT_EQ(ran.exit_code, 2) << sentence << ran.out << ran.err;
    EXPECT_TRUE(ran.says(sentence)) << sentence << ran.out << ran.err;
  }
}

// Images that are equal once the journal is replayed show the same: to mount all of them shows no other states.
TEST_F(ConformTest, EqualReplaysShowTheSame) {
  const std::string calls = (fs::path(CRASHCUT_BINARY).parent_path() / "conform/calls").string();
  mounted::RecordPlan program;
  program.directory = (directory_ / "results").string();
  fs::create_directory(program.directory);
  kernel::DiskPlan disk{{"ext4", "data=ordered"}, 64 << 20, {}, 4, 16};
  disk.drive.sector_bytes = 4096;
  ASSERT_TRUE(kernel::make_base(program, disk));
  program.program.words = {calls,      "creat:foo",         "write:foo:0:8192",    "creat:bar",
                           "barrier",  "truncate:foo:2500", "write:foo:8192:4096", "rename:foo:bar",
                           "fsync:bar"};
  const auto merged = kernel::find_states(program, disk, {{{calls}}}, 3);
  ASSERT_TRUE(merged) << merged.error().sentence;
  disk.merges_replayed = false;
  const auto all = kernel::states_of_runs(program, disk, {{{calls}}}, 3);
  ASSERT_TRUE(all) << all.error().sentence;
  std::set<std::string> few, many;
  for (const auto& [state, how] : merged->states) few.insert(state);
  for (const auto& [state, how] : all->states) many.insert(state);
  EXPECT_EQ(few, many);
  EXPECT_GT(few.size(), 2u);
  EXPECT_LT(merged->images * 2, all->images);
}

// Killed at any moment, nothing stays (the fixture looks); interrupted, what was compared is reported.
TEST_F(ConformTest, AnInterruptStopsIt) {
  const pid_t child = start({CRASHCUT_BINARY, "conform", "--seq1", "--runs", "2", "--subsets", "4"});
  std::this_thread::sleep_for(std::chrono::seconds(2));
  kill(child, SIGINT);
  const Ran ran = finish(child);
  EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("| mount options | set | programs |")) << ran.out;
  EXPECT_TRUE(ran.says("bounded (interrupt): ")) << ran.out;
}

TEST_F(ConformTest, KillsLeaveNothing) {
  // Directories for what is needed meanwhile. They are removed a moment after the end.
  const auto scratch = [&] {
    std::size_t found = 1;
    for (int tries = 0; tries < 100 && found > 0; ++tries) {
      found = 0;
      for (const auto& entry : fs::directory_iterator(directory_))
        found += entry.path().filename().string().starts_with("crashcut-conform-");
      if (found > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return found;
  };
  std::mt19937_64 random(17);
  for (int round = 0; round < 10; ++round) {
    const pid_t child =
        start({"env", "TMPDIR=" + directory_.string(), CRASHCUT_BINARY, "conform", "--seq1", "--runs", "2"});
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 1500));
    kill(child, SIGKILL);
    finish(child);
    ASSERT_EQ(wait_for_no_processes(), "") << "round " << round;
    EXPECT_EQ(scratch(), 0u) << "round " << round;
  }
}

}  // namespace
}  // namespace crashcut
