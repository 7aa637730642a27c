// crashcut check and its relatives on the mounted filesystem, driven as a user drives them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <thread>

namespace crashcut {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Words = std::vector<std::string>;

struct Ran {
  int exit_code = -1;
  std::string out, err;
  bool says(std::string_view words) const { return (out + err).find(words) != std::string::npos; }
};

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

bool has_fuse() { return access("/dev/fuse", R_OK | W_OK) == 0; }

class CheckTest : public testing::Test {
 protected:
  CheckTest() : directory_(fs::temp_directory_path() / ("check_test." + std::to_string(getpid()))) {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  ~CheckTest() override {
    EXPECT_EQ(wait_for_no_processes(), "") << "left running";
    EXPECT_EQ(read_file("/proc/self/mountinfo").find(directory_.string()), std::string::npos) << "left mounted";
    fs::remove_all(directory_);
  }
  void SetUp() override {
    if (!has_fuse()) GTEST_SKIP() << "no access to /dev/fuse";
  }

  pid_t start(Words words) {
    const pid_t child = fork();
    if (child != 0) return child;
    setpgid(0, 0);
    if (chdir(directory_.c_str()) != 0) _exit(99);
    setenv("PATH", (fs::path(CRASHCUT_BINARY).parent_path().string() + ":" + getenv("PATH")).c_str(), 1);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(open((directory_ / "out").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644), 1);
    dup2(open((directory_ / "err").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644), 2);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(98);
  }
  Ran finish(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return Ran{WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(directory_ / "out"),
               read_file(directory_ / "err")};
  }
  Ran run(Words words) { return finish(start(std::move(words))); }
  Ran crashcut(Words words) {
    words.insert(words.begin(), CRASHCUT_BINARY);
    return run(std::move(words));
  }
  // crashcut check with these options on `sh -c script`.
  Ran check(Words options, const std::string& script) {
    fs::remove_all(directory_ / "results");
    options.insert(options.begin(), {"check", "--out", "results"});
    options.insert(options.end(), {"--", "sh", "-c", script});
    return crashcut(options);
  }
  Json result() { return Json::parse(read_file(directory_ / "results/result.json"), nullptr, false); }
  std::string token() {
    std::string text = read_file(directory_ / "results/token");
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  }
  // How many recoveries failed in this way.
  static std::uint64_t count_of(const Json& json, const std::string& kind) {
    return json["kinds"].value(kind, std::uint64_t{0});
  }
  std::set<std::string> outcomes() {
    std::set<std::string> texts;
    const Json json = result();
    for (const Json& outcome : json["outcomes"]) texts.insert(outcome["output"]);
    return texts;
  }
  std::string script(const std::string& name, const std::string& text) {
    std::ofstream(directory_ / name) << "#!/bin/sh\n" << text;
    fs::permissions(directory_ / name, fs::perms::all);
    return "./" + name;
  }
  std::string compile(const std::string& name, const std::string& text, const std::string& flags = "") {
    std::ofstream(directory_ / (name + ".c")) << text;
    const std::string command = "cc " + flags + " -I" CRASHCUT_SOURCE_DIR "/include -o " +
                                (directory_ / name).string() + " " + (directory_ / (name + ".c")).string();
    EXPECT_EQ(std::system(command.c_str()), 0);
    return "./" + name;
  }

  // Names of processes that have anything to do with our directory.
  std::string processes_here() {
    std::string found;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos || name == std::to_string(getpid())) continue;
      std::error_code error;
      const std::string cwd = fs::read_symlink(entry.path() / "cwd", error);
      const std::string command = read_file(entry.path() / "cmdline");
      const bool is_zombie = read_file(entry.path() / "stat").find(") Z") != std::string::npos;
      if (!is_zombie &&
          (cwd.starts_with(directory_.string()) || command.find(directory_.string()) != std::string::npos)) {
        found += name + " " + command.substr(0, command.find('\0')) + "\n";
      }
    }
    return found;
  }
  std::string wait_for_no_processes() {
    std::string found = processes_here();
    for (int tries = 0; tries < 100 && !found.empty(); ++tries, found = processes_here()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return found;
  }

  fs::path directory_;
};

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
    EXPECT_TRUE(ran.says("go on: ")) << ran.out << ran.err;
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
  EXPECT_TRUE(again.says("nothing to go on with")) << again.err;
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

// ---- starting states ----------------------------------------------------------------------------------------------

TEST_F(CheckTest, WhatIsNotOnTheDiskIsNamed) {
  script("save.sh", "echo new > conf.json\n");
  std::ofstream(directory_ / "conf.json") << "old\n";
  const auto try_first = [&](Words options, Words program) {
    fs::remove_all(directory_ / "crashcut.out");
    options.insert(options.begin(), "check");
    options.push_back("--");
    options.insert(options.end(), program.begin(), program.end());
    return crashcut(options);
  };
  const std::string hint = "--from DIR copies a directory onto it (--from . the one that crashcut is called in)";
  Ran ran = try_first({"--file", "conf.json"}, {"sh", "save.sh"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says("save.sh is in the directory that crashcut was called in, and not on the modelled disk."))
      << ran.err;
  EXPECT_TRUE(ran.says(hint)) << ran.err;
  ran = try_first({"--file", "conf.json", "--from", "."}, {"sh", "save.sh"});
  EXPECT_EQ(ran.exit_code, 1) << ran.err;
  EXPECT_TRUE(ran.says("conf.json is empty")) << ran.out;
  EXPECT_FALSE(ran.says(hint)) << ran.out << ran.err;
  // A program that does not fail, but does not see the file either.
  ran = try_first({}, {"touch", "conf.json"});
  EXPECT_TRUE(ran.says("note: conf.json is in the directory")) << ran.out;
  ran = try_first({}, {"sh", "-c", "cat something-else"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says(hint)) << ran.err;
  ran = try_first({"--file", "conf.json"}, {"touch", "other"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says(hint)) << ran.err;
  ran = try_first({}, {"sh", "-c", "touch a; exit 1"});
  EXPECT_FALSE(ran.says(hint)) << "it has changed something: " << ran.err;
}

TEST_F(CheckTest, AStartingStateIsCopiedWithAllThatItHas) {
  fs::create_directories(directory_ / "tree/d");
  fs::create_directories(directory_ / "tree/crashcut.out/1");
  EXPECT_EQ(std::system(("cd " + (directory_ / "tree").string() +
                         " && printf data > f && ln f d/g && ln -s f s && truncate -s 1M hole && printf x >> hole && "
                         "mkfifo p && chmod 640 f && touch -d 2001-01-01 f d && : > empty")
                            .c_str()),
            0);
  const std::string look =
      "stat -c '%n %F %a %h %s' f d/g s hole p empty; stat -c '%n %F %a %h' d; stat -c %Y f d; cat d/g; readlink s; "
      "ls; test $(stat -c %b hole) -lt 100 || echo full; tail -c 1 hole";
  const Ran there = run({"sh", "-c", "cd tree; " + look});
  const Ran ran = crashcut({"check", "--out", "tree/results", "--image", "tree/image", "--from", "tree", "--", "sh",
                            "-c", look + "; echo n > f"});
  EXPECT_EQ(ran.exit_code, 1) << ran.err;
  std::string expected = there.out;
  expected.erase(expected.find("crashcut.out\n"), 13);
  EXPECT_NE(ran.out.find(expected), std::string::npos) << ran.out << "---\n" << expected;
  std::ofstream(directory_ / "tree/secret") << "x";
  if (geteuid() == 0) return;  // who may read everything
  fs::permissions(directory_ / "tree/secret", fs::perms::none);
  EXPECT_EQ(crashcut({"check", "--from", "tree", "--", "touch", "a"}).exit_code, 2);
}

// ---- bad input ----------------------------------------------------------------------------------------------------

TEST_F(CheckTest, MoreBadInput) {
  struct Row {
    Words options;
    std::string script;
    const char* says;
  };
  fs::create_directory(directory_ / "tree");
  for (const Row& row :
       {Row{{}, "echo new > " + (directory_ / "outside").string(), "changed nothing on the modelled disk"},
        Row{{"--json", "/nonexistent/x"}, "echo n > a", "Cannot write /nonexistent/x"},
        Row{{"--json", "x", "--junit", "x"}, "echo n > a", "--json and --junit would both be written to x"},
        Row{{"--json", "-", "--junit", "-"}, "echo n > a", "--json and --junit would both be written to stdout"}}) {
    const Ran ran = check(row.options, row.script);
    EXPECT_EQ(ran.exit_code, 2) << row.says << ran.out;
    EXPECT_TRUE(ran.says(row.says)) << ran.err;
  }
  EXPECT_EQ(check({"--file", "./a", "--setup", "echo o > a"}, "echo n > t; sync t; mv t a; sync .").exit_code, 0);
}

TEST_F(CheckTest, BadInputIsASentence) {
  const auto refused = [&](const Words& words, const std::string& sentence) {
    const Ran ran = crashcut(words);
    EXPECT_EQ(ran.exit_code, 2) << sentence << ran.out << ran.err;
    EXPECT_TRUE(ran.says(sentence)) << ran.err;
    fs::remove_all(directory_ / "r");
  };
  refused({"check"}, "check needs a program");
  refused({"check", "--out", "r", "--", "no-such-program"}, "There is no program no-such-program in PATH");
  refused({"check", "--out", "r", "--", "./nothing"}, "could not be run");
  refused({"check", "--out", "r", "--file", "/etc/passwd", "--", "true"}, "outside the modelled disk");
  refused({"check", "--out", "r", "--file", "../f", "--", "true"}, "outside the modelled disk");
  refused({"check", "--out", "r", "--file", "f", "--", "true"}, "there was no such file");
  refused({"check", "--out", "r", "--setup", "false", "--", "true"}, "The set-up command failed");
  refused({"check", "--out", "r", "--check", "no-such-checker f", "--", "true"}, "The checker could not be run");
  refused({"check", "--out", "r", "--backup", "f", "--", "true"}, "--backup needs a --file");
  refused({"check", "--out", "/proc/r", "--", "true"}, "Cannot make the directory /proc/r");
  refused({"replay", "cc2AAAA"}, "The token is damaged");
  refused({"mount", "nowhere"}, "is not a directory");
  refused({"crash", "."}, "is not a mount of crashcut mount");
  fs::create_directory(directory_ / "r");
  refused({"check", "--out", "r", "--", "true"}, "it is there already");
}

TEST_F(CheckTest, WhatAProgramDidUntilItWasStoppedIsExplored) {
  const Words options = {"--program-limit", "1", "--setup", "echo v0 > f", "--file", "f"};
  Ran ran = check(options, "echo v1 > f; sleep 1000");
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("the program was stopped (--program-limit")) << ran.out;
  EXPECT_EQ(count_of(result(), "not durable"), 0) << "its end is no promise";
  EXPECT_TRUE(result()["execution"]["timed_out"]);
  ran = check(options, "for i in 1 2; do echo v$i > t; sync t; mv t f; sync .; done; sleep 1000");
  EXPECT_EQ(ran.exit_code, 3) << ran.out << ran.err;
  EXPECT_EQ(result()["verdict"], "bounded");
  EXPECT_EQ(result()["bound_hit"], "program_limit");
  EXPECT_EQ(result()["counts"]["recoveries"], 3);
  // What was half done is no version, and nobody's loss where there was nothing before.
  ran = check({"--program-limit", "1"}, "echo v1 > f; sync f .; (echo half; sleep 1000) > g");
  EXPECT_EQ(ran.exit_code, 1) << "f can be empty" << ran.out << ran.err;
  const Json half = result();
  for (const Json& violation : half["violations"]) EXPECT_EQ(violation["subject"], "f");
  ran = check(options, "crashcut mark saved; (echo half; sleep 1000) > f");
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("5 bytes long")) << ran.out;
  ran = check({"--program-limit", "1", "--file", "f"}, "(echo half; sleep 1000) > f");
  EXPECT_EQ(ran.exit_code, 2) << ran.out;
  EXPECT_TRUE(ran.says("before it had finished any version of f")) << ran.err;
  EXPECT_EQ(check({"--program-limit", "1"}, "sleep 1000").exit_code, 2) << "it changed nothing";
}

// More room than the disk has, in all, but never at once: what is given back can be had again. Space that nobody wrote
// to costs the trace and the cuts next to nothing.
TEST_F(CheckTest, SpaceThatNobodyWroteToCostsNothing) {
  const Ran ran = check({"--check", "test ! -e f || test $(stat -c %s f) -eq 0 -o $(stat -c %s f) -eq 1073741824"},
                        "for i in 1 2 3 4 5; do fallocate -l 1G f && rm f || exit 1; done; touch done");
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_FALSE(ran.says("contradicts")) << ran.err;
  EXPECT_LT(fs::file_size(directory_ / "results/trace"), 100'000u);
}

TEST_F(CheckTest, AProgramThatFailsByItselfIsNotVerified) {
  Ran ran = check({"--setup", "echo old > f"}, "exit 3");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says("The program itself failed, before any crash was tried: it ended with status 3")) << ran.err;
  ran = check({"--setup", "echo old > f"}, "kill -SEGV $$");
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says("was killed by SIGSEGV")) << ran.err;
}

TEST_F(CheckTest, ATraceThatWasChangedIsNotReplayed) {
  check({"--setup", "echo old > f", "--file", "f"}, "echo new contents > f");
  const std::string kept = token();
  check({"--setup", "echo old > f", "--file", "f"}, "echo other contents > f");
  const Ran ran = crashcut({"replay", kept});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(ran.says("are other ones")) << ran.err;
}

TEST_F(CheckTest, AFullDiskIsTheUsersToMend) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to mount a small disk";
  const Ran ran = run({"unshare", "-m", "sh", "-c",
                       "mkdir -p small && mount -t tmpfs -o size=2m none small && exec " CRASHCUT_BINARY
                       " check --out small/r -- sh -c 'head -c 20000000 /dev/urandom > f'"});
  EXPECT_EQ(ran.exit_code, 2) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("No space left on device")) << ran.err;
}

TEST_F(CheckTest, NoFuseIsASentence) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to hide /dev/fuse";
  const Ran ran = run({"unshare", "-m", "sh", "-c",
                       "touch x && mount --bind x /dev/fuse && exec " CRASHCUT_BINARY " check --out r -- true"});
  EXPECT_EQ(ran.exit_code, 2) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("FUSE")) << ran.err;
}

TEST_F(CheckTest, WorksForOthersThanRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
  fs::permissions(directory_, fs::perms::all);
  const fs::path node = directory_ / "fuse";
  ASSERT_EQ(mknod(node.c_str(), S_IFCHR | 0666, makedev(10, 229)), 0);
  ASSERT_EQ(chmod(node.c_str(), 0666), 0);
  const Ran ran =
      run({"unshare", "-m", "sh", "-c",
           "mount --bind fuse /dev/fuse && exec setpriv --reuid 65534 --regid 65534 --clear-groups " CRASHCUT_BINARY
           " check --out r --setup 'echo old > f' --check 'cat f' -- sh -c 'echo new > f; stat -c %u f >&2'"});
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("65534")) << ran.err;
  EXPECT_TRUE(ran.says("all 4 recoveries")) << ran.out;
}

// Where namespaces are not to be had: inside of some in which there can be no more. Exit code 77: something stays
// mounted.
Words without_namespaces(Words words) {
  words.insert(words.begin(),
               {"unshare", "-Urm", "sh", "-c",
                "echo 0 > /proc/sys/user/max_pid_namespaces && echo 0 > /proc/sys/user/max_user_namespaces || exit 76; "
                "\"$@\"; code=$?; i=0; while [ $i -lt 100 ]; do grep -q \" $PWD/\" /proc/self/mountinfo || exit $code; "
                "sleep 0.05; i=$((i+1)); done; exit 77",
                "sh"});
  return words;
}

TEST_F(CheckTest, WorksWithoutNamespaces) {
  const Words words{"check",   "--out", "results", "--jobs", "2",  "--setup",      "echo old > f",
                    "--check", "cat f", "--",      "sh",     "-c", "echo new! > f"};
  const Ran as_usual = crashcut(words);
  EXPECT_EQ(as_usual.exit_code, 0) << as_usual.out << as_usual.err;
  const std::set<std::string> expected = outcomes();
  fs::remove_all(directory_ / "results");
  Words again = words;
  again.insert(again.begin(), CRASHCUT_BINARY);
  const Ran ran = run(without_namespaces(again));
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_TRUE(ran.says("; so there is one job")) << ran.out;
  EXPECT_EQ(outcomes(), expected);
}

// ---- nothing stays ------------------------------------------------------------------------------------------------

// Processes of the session, the sandboxes' too.
std::vector<pid_t> descendants_of(pid_t root) {
  std::vector<pid_t> all{root};
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::istringstream children(
        read_file("/proc/" + std::to_string(all[i]) + "/task/" + std::to_string(all[i]) + "/children"));
    for (pid_t child; children >> child;) all.push_back(child);
  }
  return all;
}

TEST_F(CheckTest, WhateverIsKilledNothingStays) {
  const char* given = std::getenv("CRASHCUT_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("CRASHCUT_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 50; ++round) {
    fs::remove_all(directory_ / "results");
    const pid_t child =
        start({CRASHCUT_BINARY, "check", "--out", "results", "--setup", "echo old > f", "--check",
               "sh -c 'sleep 0.01 & cat f'", "--", "sh", "-c", "for i in 1 2 3 4; do echo $i$i > f; sleep 0.02; done"});
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<int>(0, 400)(random)));
    const std::vector<pid_t> all = descendants_of(child);
    const pid_t victim = all[std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random)];
    const int signals[] = {SIGKILL, SIGKILL, SIGINT, SIGTERM};
    kill(victim, signals[random() % 4]);
    finish(child);
    ASSERT_EQ(wait_for_no_processes(), "") << "round " << round;
    ASSERT_EQ(read_file("/proc/self/mountinfo").find(directory_.string()), std::string::npos);
  }
}

TEST_F(CheckTest, NothingStaysWithoutNamespacesEither) {
  const char* given = std::getenv("CRASHCUT_SEED");
  const std::uint64_t seed = given ? std::strtoull(given, nullptr, 10) : std::random_device()();
  SCOPED_TRACE("CRASHCUT_SEED=" + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 30; ++round) {
    fs::remove_all(directory_ / "results");
    const pid_t child = start(without_namespaces({CRASHCUT_BINARY, "check", "--out", "results", "--setup",
                                                  "echo old > f", "--check", "sh -c 'sleep 0.01 & cat f'", "--", "sh",
                                                  "-c", "for i in 1 2 3 4; do echo $i$i > f; sleep 0.02; done"}));
    std::this_thread::sleep_for(std::chrono::milliseconds(std::uniform_int_distribution<int>(20, 400)(random)));
    std::vector<pid_t> all = descendants_of(child);
    all.erase(all.begin());  // the shell that looks
    if (!all.empty()) kill(all[std::uniform_int_distribution<std::size_t>(0, all.size() - 1)(random)], SIGKILL);
    ASSERT_NE(finish(child).exit_code, 77) << "round " << round << ": left mounted";
    ASSERT_EQ(wait_for_no_processes(), "") << "round " << round;
  }
}

TEST_F(CheckTest, WhatWasRecordedBeforeAKillIsThere) {
  const std::string written = (directory_ / "written").string();
  const pid_t child = start({CRASHCUT_BINARY, "check", "--out", "results", "--", "sh", "-c",
                             "echo one > f; touch " + written + "; sleep 1000"});
  for (int tries = 0; tries < 200 && !fs::exists(written); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  for (const pid_t process : descendants_of(child)) kill(process, SIGKILL);
  finish(child);
  EXPECT_EQ(wait_for_no_processes(), "");
  // The newest of it is in the tail of the trace.
  const std::string trace = read_file(directory_ / "results/trace") + read_file(directory_ / "results/trace.tail");
  EXPECT_NE(trace.find("one\n"), std::string::npos);
}

TEST_F(CheckTest, AMountForAPerson) {
  fs::create_directory(directory_ / "disk");
  const pid_t server = start({CRASHCUT_BINARY, "mount", "disk"});
  for (int tries = 0; tries < 200 && !fs::exists(directory_ / "disk/.crashcut/states"); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::string at = (directory_ / "disk").string();
  EXPECT_EQ(std::system(("echo hello > " + at + "/a; sync " + at + "/a; echo changed > " + at + "/a").c_str()), 0);
  const std::string list = at + ".list";
  EXPECT_EQ(std::system((std::string(CRASHCUT_BINARY) + " crash " + at + " > " + list).c_str()), 0);
  EXPECT_NE(read_file(list).find(
                "0  nothing is lost\n    1  a: 8 NUL bytes\n    2  a: empty\n    3  a: 6 bytes, other than now\n"),
            std::string::npos)
      << read_file(list);
  EXPECT_EQ(std::system((std::string(CRASHCUT_BINARY) + " crash " + at + " 3 > /dev/null").c_str()), 0);
  EXPECT_EQ(read_file(at + "/a"), "hello\n");
  EXPECT_EQ(std::system((std::string(CRASHCUT_BINARY) + " crash " + at + " 99 2> /dev/null").c_str()) >> 8, 2);
  kill(server, SIGINT);
  EXPECT_EQ(finish(server).exit_code, 0);
}

TEST_F(CheckTest, InAMountForAPersonTheCommandsSyncIsSeen) {
  fs::create_directory(directory_ / "disk");
  const std::string crash = std::string(CRASHCUT_BINARY) + " crash . > ../list";
  const auto states_after = [&](const std::string& words) {
    const Ran ran =
        crashcut({"mount", "disk", "--", "sh", "-c", "echo hello > a; " + words + "; " + crash + "; exit 7"});
    EXPECT_EQ(ran.exit_code, 7) << ran.err;
    return read_file(directory_ / "list");
  };
  EXPECT_NE(states_after("true").find("    1  a: "), std::string::npos);
  for (const char* sync : {"sync", "sync -f a", "sync -f ."}) {
    const std::string states = states_after(sync);
    EXPECT_NE(states.find("0  nothing is lost\n"), std::string::npos) << sync << states;
    EXPECT_EQ(states.find("    1  "), std::string::npos) << sync << states;
  }
  EXPECT_NE(states_after("sync -f /").find("    1  a: "), std::string::npos) << "another filesystem's";
  const Ran none = crashcut({"mount", "disk", "--", "no-such-command"});
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_TRUE(none.says("no-such-command could not be run")) << none.err;
}

// A device's number stays, and a FIFO that nobody may open is not opened by others.
TEST_F(CheckTest, AMountForAPersonHasDevicesAndFifos) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to make devices";
  fs::create_directory(directory_ / "disk");
  const Ran ran = crashcut(
      {"mount", "disk", "--", "sh", "-c",
       "chmod 755 .; mknod c c 5 7 && mknod b b 3 258 && stat -c '%n %F %t:%T' c b; mkfifo -m 0 p; mkfifo -m 666 q; "
       "for f in p q; do setpriv --reuid 65534 --regid 65534 --clear-groups sh -c \"exec 3<> $f\" 2> /dev/null && echo "
       "$f opened || echo $f refused; done"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(ran.says("c character special file 5:7\nb block special file 3:102\np refused\nq opened\n"))
      << ran.out << ran.err;
  // The root's own attributes are there after a crash too.
  const Ran crashed = crashcut({"mount", "disk", "--", "sh", "-c",
                                "chmod 750 .; chown 7:8 .; crashcut crash . 0 > /dev/null; stat -c '%a %u %g' ."});
  EXPECT_TRUE(crashed.says("750 7 8\n")) << crashed.out << crashed.err;
}

// Its command runs on, in a directory that is gone.
TEST_F(CheckTest, AMountForAPersonThatIsKilledIsUnmounted) {
  for (const bool is_root : {true, false}) {
    struct stat helper {};
    if (geteuid() != 0) GTEST_SKIP() << "needs root to become somebody else";
    if (stat("/usr/bin/fusermount3", &helper) != 0 || !(helper.st_mode & S_ISUID))
      GTEST_SKIP() << "no fusermount3 that is setuid root";
    fs::remove_all(directory_ / "disk");
    fs::create_directory(directory_ / "disk");
    fs::permissions(directory_, fs::perms::all);
    fs::permissions(directory_ / "disk", fs::perms::all);
    fs::remove(directory_ / "fuse");
    fs::remove(directory_ / "pid");
    ASSERT_EQ(mknod((directory_ / "fuse").c_str(), S_IFCHR | 0666, makedev(10, 229)), 0);
    ASSERT_EQ(chmod((directory_ / "fuse").c_str(), 0666), 0);
    const std::string user = is_root ? "" : "setpriv --reuid 65534 --regid 65534 --clear-groups ";
    const Ran ran = run(
        {"unshare", "-m", "sh", "-c",
         "mount --bind fuse /dev/fuse; " + user + CRASHCUT_BINARY +
             " mount disk -- sh -c 'echo $$ > ../pid; exec sleep 1000' > /dev/null & server=$!; i=0; "
             "while ! test -s pid && test $i -lt 200; do sleep 0.05; i=$((i+1)); done; "
             "grep -q \" $PWD/disk \" /proc/self/mountinfo && echo mounted; kill -9 $server; wait $server; i=0; "
             "while grep -q \" $PWD/disk \" /proc/self/mountinfo && test $i -lt 200; do sleep 0.05; i=$((i+1)); done; "
             "grep -q \" $PWD/disk \" /proc/self/mountinfo || echo unmounted; kill -0 $(cat pid) && echo runs; kill -9 "
             "$(cat pid)"});
    EXPECT_TRUE(ran.says("mounted\nunmounted\nruns\n")) << is_root << ran.out << ran.err;
  }
}

TEST_F(CheckTest, ACommandInAMountForAPersonEndsWithIt) {
  fs::create_directory(directory_ / "disk");
  // One that does not hang up.
  const pid_t server = start({CRASHCUT_BINARY, "mount", "disk", "--", "sh", "-c",
                              "trap '' HUP; echo > started; while :; do sleep 0.05; done"});
  for (int tries = 0; tries < 200 && !fs::exists(directory_ / "disk/started"); ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  kill(server, SIGTERM);
  EXPECT_EQ(finish(server).exit_code, 0);
}

}  // namespace
}  // namespace crashcut
