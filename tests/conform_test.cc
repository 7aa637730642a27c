// crashcut conform at the command line: the sets of programs, the tables, and a control that it sees what the model
// does not allow.
//
// Does not verify: the model, beyond the few programs here; the table in docs/kernel.md is made by the same command.
// Skips where there is no root, no loop device, no /dev/fuse or no mkfs.ext4.
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
  EXPECT_TRUE(ran.says("conforms: 0 states outside of the model")) << ran.out;
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

// Without barriers the drive may lose parts of the metadata, which the model leaves out.
TEST_F(ConformTest, SeesStatesThatTheModelDoesNotAllow) {
  const Ran ran = conform({"--call", "creat:foo", "write:foo:0:8192", "barrier", "rename:foo:bar", "sync", "-o",
                           "barrier=0", "--runs", "4", "--subsets", "64"});
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("outside (kernel:ext4:barrier=0): --call creat:foo")) << ran.out;
  EXPECT_TRUE(ran.says("the kernel left: ")) << ran.out;
  EXPECT_TRUE(ran.says("  allowed: ")) << ran.out;
  EXPECT_TRUE(ran.says("violation: ")) << ran.out;
}

TEST_F(ConformTest, WrongUseIsASentence) {
  std::ofstream(directory_ / "bare.md") << "nothing\n";
  fs::create_directory(directory_ / "empty");
  script("plain", "exit 0\n");
  const std::pair<Words, std::string> bad[] = {
      {{"--update", "missing.md"}, "--update missing.md: there is no such file."},
      {{"--call", "sync", "--runs", "1", "--update", "bare.md"}, "it has no lines <!-- conform -->"},
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
}

}  // namespace
}  // namespace crashcut
