// crashcut check: what the kernel does, verdicts, versions of files.
#include "tests/check_fixture.h"

namespace crashcut {
namespace {

// ---- what the kernel does ---------------------------------------------------------------------------------------

// The same programs as workloads/litmus/kernel-*.c, where the outcomes and their reasons stand.

// o old, n new, - missing, e empty, 0 the new size over NULs, m anything else: in data=writeback the new bytes in the
// old file's freed block, cut to the old size.
std::string letters(const std::set<std::string>& outcomes) {
  std::string text;
  for (const std::string& outcome : outcomes) {
    const auto has = [&](const char* words) { return outcome.find(words) != std::string::npos; };
    text += has("NUL")                           ? '0'
            : has("is old")                      ? 'o'
            : has("is new")                      ? 'n'
            : has("is empty")                    ? 'e'
            : has("not there") || has("missing") ? '-'
                                                 : 'm';
  }
  std::sort(text.begin(), text.end());
  return text;
}

struct Fact {
  const char* name;
  const char* set_up;
  const char* script;
  // ordered, noauto_da_alloc, nodelalloc, writeback, journal; sorted letters
  const char* expected[5];
};

class KernelFacts : public CheckTest, public testing::WithParamInterface<Fact> {};

TEST_P(KernelFacts, ComeOutOfTheMount) {
  const std::vector<Words> modes = {
      {}, {"-o", "noauto_da_alloc"}, {"-o", "nodelalloc"}, {"--data", "writeback"}, {"--data", "journal"}};
  for (std::size_t i = 0; i < modes.size(); ++i) {
    Words options = modes[i];
    for (const char* word : {"--no-durable", "--file", "f", "--setup"}) options.push_back(word);
    options.push_back(GetParam().set_up);
    const Ran ran = check(options, GetParam().script);
    ASSERT_TRUE(ran.exit_code == 0 || ran.exit_code == 1) << ran.out << ran.err;
    EXPECT_EQ(letters(outcomes()), GetParam().expected[i]) << GetParam().name << " in column " << i << "\n" << ran.out;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, KernelFacts,
    testing::Values(
        Fact{"rename_over", "echo old > f", "echo new! > t; mv t f", {"0no", "0eno", "no", "0emno", "no"}},
        Fact{"rename_to_new_name", "true", "echo new! > t; mv t f", {"-0en", "-0en", "-n", "-0en", "-n"}},
        Fact{"truncate_and_write", "echo old > f", "echo new! > f", {"0eno", "0eno", "eno", "0emno", "eno"}}),
    [](const auto& info) { return info.param.name; });

// ---- verdicts -----------------------------------------------------------------------------------------------------

TEST_F(CheckTest, ALossySaveIsLostAndNotDurableAndReplays) {
  const Ran ran = check({"--setup", "echo old > notes.txt", "--file", "notes.txt"}, "echo new contents > notes.txt");
  EXPECT_EQ(ran.exit_code, 1) << ran.err;
  EXPECT_TRUE(
      ran.says("violation (lost): a crash can leave notes.txt empty: truncate(notes.txt, 0) had persisted, "
               "write(notes.txt, 13 bytes at 0) had not; no fsync of notes.txt follows"))
      << ran.out;
  const Json json = result();
  EXPECT_EQ(json["verdict"], "violation");
  EXPECT_EQ(count_of(json, "lost"), 2);
  EXPECT_EQ(count_of(json, "not durable"), 1);
  EXPECT_EQ(json["counts"]["recoveries"], 5);
  const Ran again = crashcut({"replay", token()});
  EXPECT_EQ(again.exit_code, 1) << again.err;
  EXPECT_TRUE(again.says("violation: lost: a crash can leave notes.txt empty")) << again.out;
  EXPECT_TRUE(crashcut({"replay", "--print", token()}).says("the power fails"));
  EXPECT_TRUE(read_file(directory_ / "results/junit.xml").find("<failure type=\"lost\"") != std::string::npos);
}

TEST_F(CheckTest, TheReadmeShowsWhatItSays) {
  const Ran ran = check({"--setup", "echo old > notes.txt", "--file", "notes.txt"}, "echo new contents > notes.txt");
  const std::string readme = read_file(CRASHCUT_SOURCE_DIR "/README.md");
  const std::size_t table = ran.out.find("    on disk    #  operation"), table_end = ran.out.find("\n\n", table);
  ASSERT_NE(table, std::string::npos) << ran.out;
  EXPECT_NE(readme.find(ran.out.substr(table, table_end - table)), std::string::npos) << ran.out;
  const std::size_t kinds = ran.out.find("  All kinds of violation"),
                    kinds_end = ran.out.find("\n\n", ran.out.find("\n\n", kinds) + 2);
  EXPECT_NE(readme.find(ran.out.substr(kinds, kinds_end - kinds)), std::string::npos) << ran.out;
  EXPECT_NE(readme.find("--setup 'echo old > notes.txt' --file notes.txt -- sh -c 'echo new contents > notes.txt'"),
            std::string::npos);
  EXPECT_EQ(check({"--setup", "echo old > notes.txt", "--file", "notes.txt"},
                  "echo new contents > t && sync t && mv t notes.txt && sync .")
                .exit_code,
            0);
  EXPECT_TRUE(read_file(directory_ / "out").find("verified: all 2 recoveries, none failed") != std::string::npos);
}

TEST_F(CheckTest, ASafeSaveIsVerified) {
  const Ran ran =
      check({"--setup", "echo old > f", "--file", "f"}, "echo new contents > t && sync t && mv t f && sync .");
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_EQ(result()["verdict"], "verified");
  EXPECT_EQ(letters(outcomes()), "no");
}

// Locks of programs that are gone: their processes do not live, and they are of this machine.
TEST_F(CheckTest, NoProcessOfACheckerHasTheNumberOfOneOfTheProgram) {
  const Ran ran =
      crashcut({"check", "--check", "! kill -0 $(cat pid)", "--", "sh", "-c", "sh -c 'echo $$ > pid'; sync"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("verified: all")) << ran.out;
}

TEST_F(CheckTest, ACheckerIsOnTheMachineThatTheProgramStored) {
  if (geteuid() != 0) GTEST_SKIP() << "only root gets a process namespace of a certain number";
  const std::string identity = "echo $(hostname) $(cat /proc/sys/kernel/random/boot_id) $(readlink /proc/self/ns/pid)";
  Ran ran;
  // Somebody else may take the number in between; the note says so.
  for (int tries = 0; tries < 10 && ran.exit_code != 0; ++tries) {
    ran = crashcut({"check", "--jobs", "2", "--check", "test ! -s id || [ \"$(" + identity + ")\" = \"$(cat id)\" ]",
                    "--", "sh", "-c", identity + " > t; sync t; mv t id; sync ."});
    EXPECT_TRUE(ran.exit_code == 0 || ran.says("the checkers ran in another one")) << ran.out << ran.err;
  }
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
}

TEST_F(CheckTest, AtomicAndNotDurableIsToldApart) {
  const std::string save = "echo new contents > t && sync t && mv t f";
  EXPECT_EQ(check({"--setup", "echo old > f", "--file", "f"}, save).exit_code, 1);
  EXPECT_EQ(count_of(result(), "lost"), 0);
  EXPECT_EQ(count_of(result(), "not durable"), 1);
  EXPECT_EQ(check({"--setup", "echo old > f", "--file", "f", "--no-durable"}, save).exit_code, 0);
}

TEST_F(CheckTest, ABackupCounts) {
  const std::string save = "cp f f~ && sync f~ . && echo new contents > f && sync f";
  EXPECT_EQ(check({"--setup", "echo old > f", "--file", "f"}, save).exit_code, 1);
  EXPECT_EQ(check({"--setup", "echo old > f", "--file", "f", "--backup", "f~"}, save).exit_code, 0)
      << read_file(directory_ / "out");
}

TEST_F(CheckTest, EveryFileIsAskedByDefault) {
  const Ran ran = check({"--setup", "echo 1 > a; echo 2 > b; mkdir d; echo 3 > d/c"}, "echo 22 > b");
  EXPECT_EQ(ran.exit_code, 1);
  std::set<std::string> subjects;
  const Json json = result();
  for (const Json& violation : json["violations"]) subjects.insert(violation["subject"]);
  EXPECT_EQ(subjects, std::set<std::string>{"b"}) << ran.out;
}

TEST_F(CheckTest, ExpectationsOfFiles) {
  const Words setup = {"--setup", "printf 'aaaa' > f", "--no-durable", "--expect"};
  const auto with = [&](const char* expect) {
    Words words = setup;
    words.push_back(expect);
    return words;
  };
  EXPECT_EQ(check(with("no-empty"), "echo new > f").exit_code, 1);
  EXPECT_EQ(check(with("no-empty"), "printf bbbb >> f").exit_code, 0);
  EXPECT_EQ(check(with("no-missing"), "echo new > f").exit_code, 0);
  EXPECT_EQ(check(with("no-missing"), "rm f; echo new > f").exit_code, 1);
  EXPECT_EQ(check(with("no-garbage"), "printf bbbb >> f").exit_code, 1) << "the file may grow over NULs";
  EXPECT_EQ(check({"--setup", "printf 'aaaa' > f", "--expect", "no-garbage", "--data", "journal"}, "printf bbbb >> f")
                .exit_code,
            0);
  EXPECT_EQ(
      check({"--setup", "printf 'aaaa' > f", "--expect", "prefix", "--data", "journal"}, "printf bbbb >> f").exit_code,
      0);
  EXPECT_EQ(check(with("prefix"), "printf bbbb > f").exit_code, 1);
  EXPECT_EQ(check(with("no-luck"), "true").exit_code, 2);
}

// ---- versions ------------------------------------------------------------------------------------------------------

// Every state that the program finishes is a version: these save twice or more, and right each time.
TEST_F(CheckTest, SavesThatAreRightEachTime) {
  const std::string store = compile(
      "store",
      "#include <fcntl.h>\n#include <stdio.h>\n#include <string.h>\n#include <sys/mman.h>\n#include <unistd.h>\n"
      "int main(void) { for (char c = '1'; c < '4'; ++c) { int f = open(\"t\", O_CREAT | O_RDWR | O_TRUNC, 0644);\n"
      "  if (ftruncate(f, 512)) return 1; char* m = mmap(0, 512, 3, MAP_SHARED, f, 0); close(f); memset(m, c, 512);\n"
      "  msync(m, 512, MS_SYNC); munmap(m, 512); rename(\"t\", \"f\"); int d = open(\".\", O_RDONLY); fsync(d); "
      "close(d); } return 0; }\n");
  struct Row {
    const char* name;
    std::string script;
  };
  for (const Row& row : {
           Row{"rename", "for i in 1 2; do echo v$i > t; sync t; mv t f; sync .; done"},
           Row{"rename and sync", "for i in 1 2 3; do echo version $i > t; sync; mv t f; sync; done"},
           Row{"another directory", "mkdir d; for i in 1 2; do echo v$i > d/t; sync d/t; mv d/t f; sync .; done"},
           Row{"a hard link", "for i in 1 2; do echo v$i > t; sync t; ln -f t f; sync .; rm t; done"},
           Row{"two renames", "for i in 1 2; do echo v$i > t; sync t; mv -T t u; mv u f; sync .; done"},
           Row{"one sector in place",
               "printf %512s 0 > t; sync t; mv t f; sync .; for i in 1 2 3; do printf %512s $i | dd of=f "
               "conv=notrunc,fsync status=none; done"},
           Row{"two processes",
               "(echo v1 > a; sync a; mv a f; sync .) & wait; (echo v2 > b; sync b; mv b f; sync .) & wait"},
           Row{"a mapping", (directory_ / "store").string()},
       }) {
    const Ran ran = check({"--setup", "echo v0 > f", "--file", "f"}, row.script);
    EXPECT_EQ(ran.exit_code, 0) << row.name << ran.out << ran.err;
    EXPECT_TRUE(ran.says("none failed")) << row.name << ran.out;
    EXPECT_EQ(check({"--setup", "echo v0 > f"}, row.script).exit_code, 0)
        << row.name << " with --tree" << read_file(directory_ / "out");
  }
}

TEST_F(CheckTest, AnAppendedLogIsAVersionAtEachFsync) {
  const std::string append = "for i in 1 2 3; do echo line$i >> f; sync f; done";
  EXPECT_EQ(check({"--setup", ": > f", "--file", "f", "--data", "journal"}, append).exit_code, 0)
      << read_file(directory_ / "out");
  EXPECT_EQ(check({"--setup", ": > f", "--expect", "prefix", "--data", "journal"}, append).exit_code, 0)
      << read_file(directory_ / "out");
  EXPECT_EQ(check({"--setup", ": > f", "--file", "f"}, append).exit_code, 1) << "it can grow over NULs";
}

// Wrong twins: what the program did not finish is no version, however often it saves.
TEST_F(CheckTest, SavesThatAreWrongAreStillFound) {
  const std::string slow = compile(
      "slow",
      "#include <fcntl.h>\n#include <string.h>\n#include <unistd.h>\n"
      "int main(void) { char b[4096]; for (char c = '1'; c < '3'; ++c) { int f = open(\"f\", O_CREAT | O_WRONLY, "
      "0644); memset(b, c, 4096);\n"
      "  for (int i = 0; i < 3; ++i) if (write(f, b, 4096) != 4096) return 1; fsync(f); close(f); } return 0; }\n");
  struct Row {
    const char* setup;
    std::string script;
    const char* says;
  };
  for (const Row& row : {
           Row{"echo v0 > f", "for i in 1 2; do echo v$i > f; sync f; done", "f is empty"},
           Row{"echo v0 > f", ": > f; echo v1 >> f; sync f", "f is empty"},
           Row{"echo v0 > f", "rm f; echo v1 > t; sync t; mv t f; sync .", "f is missing"},
           Row{"head -c 12288 /dev/zero | tr '\\0' 0 > f", (directory_ / "slow").string(), "no version"},
           Row{"echo version 0 > f", "(echo v1; echo v2) > f; sync f", "3 bytes long, as no version is"},
       }) {
    const Ran ran = check({"--setup", row.setup, "--file", "f", "--outcomes"}, row.script);
    EXPECT_EQ(ran.exit_code, 1) << row.script << ran.out << ran.err;
    EXPECT_GT(count_of(result(), "lost"), 0) << row.script;
    EXPECT_TRUE(ran.says(row.says)) << row.script << ran.out;
  }
}

TEST_F(CheckTest, AVersionOlderThanThePromisedOneIsNotDurable) {
  const Ran ran = check({"--setup", "echo v0 > f", "--file", "f", "--outcomes"},
                        "for i in 1 2; do echo v$i > t; sync t; mv t f; done; crashcut mark saved; for i in 3 4; do "
                        "echo v$i > t; sync t; mv t f; done; sync .");
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_EQ(count_of(result(), "lost"), 0);
  // The fsync of the second temporary file took the first rename along.
  EXPECT_FALSE(ran.says("f is old after")) << ran.out;
  EXPECT_TRUE(ran.says("f is as after rename(t, f), version 2 of 5 after \"saved\"")) << ran.out;
  EXPECT_TRUE(ran.says("f is as after rename(t, f), version 4 of 5\n")) << ran.out;
}

}  // namespace
// A file that a rename replaces is gone with it, and not some operations later, when the kernel says so.
TEST_F(CheckTest, ReplacedFilesAreGoneAtOnce) {
  check({"--tree", "--max-recoveries", "4"},
        "exec perl -e 'for (1..25) { open F, \">t\"; print F \"abc\"; close F; rename \"t\", \"f\"; mkdir \"d\"; "
        "rmdir \"d\"; mkdir \"e\"; rmdir \"e\" }'");
  const Json operations = result()["violation"]["crashes"][0]["operations"];
  int replaced = 0;
  for (std::size_t i = 0; i + 1 < operations.size(); ++i) {
    if (operations[i]["text"] != "perl: rename(t, f)") continue;
    if (++replaced == 1) continue;  // there was no f
    EXPECT_EQ(operations[i + 1]["text"], "perl: close(f (deleted))") << "after rename " << replaced;
  }
  EXPECT_GT(replaced, 5);
}

}  // namespace crashcut
