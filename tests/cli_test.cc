// The crashcut command, driven as a user drives it: exit codes, first and last lines, reports, replays, bad input.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "tests/seeds.h"

namespace crashcut {
namespace {

namespace fs = std::filesystem;

struct Ran {
  int exit_code = -1;
  std::string out, err;

  std::string first_line() const { return out.substr(0, out.find('\n')); }
  std::string last_line() const {
    const std::string text = out.substr(0, out.find_last_not_of('\n') + 1);
    return text.substr(text.rfind('\n') + 1);
  }
  bool says(std::string_view words) const { return (out + err).find(words) != std::string::npos; }
};

std::string read_file(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

constexpr const char* kHeaders =
    "#include <assert.h>\n#include <fcntl.h>\n#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n"
    "#include <string.h>\n#include <unistd.h>\n#include \"crashcut.h\"\n";
constexpr const char* kWriteA =
    "int main(void) { int f = open(\"a\", O_CREAT | O_WRONLY, 0644); return write(f, \"x\", 1) == 1 ? 0 : 1; }\n";

class CliTest : public testing::Test {
 protected:
  // TMPDIR is ours, so that what crashcut leaves behind is seen.
  CliTest()
      : directory_(fs::temp_directory_path() / ("cli_test." + std::to_string(getpid()))),
        temporary_(directory_ / "tmp") {
    fs::remove_all(directory_);
    fs::create_directories(temporary_);
  }
  ~CliTest() override {
    EXPECT_TRUE(fs::is_empty(temporary_)) << fs::directory_iterator(temporary_)->path() << " was left behind";
    fs::remove_all(directory_);
  }

  pid_t start(std::vector<std::string> words) {
    const pid_t child = fork();
    if (child != 0) return child;
    execute(std::move(words), open((directory_ / "err").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644));
  }
  // In a child.
  [[noreturn]] void execute(std::vector<std::string> words, int error_fd) {
    words.insert(words.begin(), CRASHCUT_BINARY);
    setenv("TMPDIR", temporary_.c_str(), 1);
    if (chdir(directory_.c_str()) != 0) _exit(99);
    dup2(open((directory_ / "out").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644), 1);
    dup2(error_fd, 2);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
    _exit(98);
  }
  Ran finish(pid_t child) {
    int status = 0;
    waitpid(child, &status, 0);
    return Ran{WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(directory_ / "out"),
               read_file(directory_ / "err")};
  }
  Ran crashcut(std::vector<std::string> words) { return finish(start(std::move(words))); }

  // Writes a program; returns its name.
  std::string program(const std::string& name, const std::string& text) {
    std::ofstream(directory_ / name) << kHeaders << text;
    return name;
  }
  std::string recovery_of_a(const std::string& body) {
    return program("p.c", std::string(kWriteA) + "void crashcut_recover(void) { " + body + " }\n");
  }
  static std::string example(const std::string& name) {
    return std::string(CRASHCUT_SOURCE_DIR) + "/workloads/examples/" + name;
  }
  // The words of the command that a report ends with, less crashcut's own name.
  static std::vector<std::string> replay_of(const Ran& run) {
    const std::size_t at = run.out.rfind(" replay ");
    std::istringstream text(at == std::string::npos ? "" : run.out.substr(at));
    std::vector<std::string> words;
    for (std::string word; text >> word;) words.push_back(word);
    return words;
  }
  static std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static std::string token_of(const Ran& run) {
    const auto at = run.out.rfind("cc2");
    return at == std::string::npos ? "" : run.out.substr(at, run.out.find_first_of(" \n", at) - at);
  }
  void expect_refused(const std::vector<std::string>& words, const std::string& sentence) {
    const Ran run = crashcut(words);
    EXPECT_EQ(run.exit_code, 2) << words.back() << run.out << run.err;
    EXPECT_NE(run.err.find(sentence), std::string::npos) << words.back() << ": " << run.err;
  }

  fs::path directory_;
  fs::path temporary_;
};

// ---- results ------------------------------------------------------------------------------------------------

// A swap of extents (EXT4_IOC_MOVE_EXT) is not modelled. The program is told so, and every crash state has both files
// as they were.
TEST_F(CliTest, ASwapOfExtentsIsRefused) {
  const Ran run = crashcut({"run", program("p.c", R"(#include <errno.h>
#include <sys/ioctl.h>
struct Move {
  unsigned reserved, donor;
  unsigned long long at[2], length, moved;
};
static int make(const char* name) {
  int fd = open(name, O_CREAT | O_RDWR, 0644);
  assert(write(fd, name, 1) == 1 && fsync(fd) == 0);
  return fd;
}
static void look(const char* name) {
  char c = 0;
  int fd = open(name, O_RDONLY);
  assert(read(fd, &c, 1) == 1 && c == *name);
  close(fd);
}
int main(void) {
  int f = make("f"), donor = make("d");
  crashcut_barrier();
  struct Move move = {0, (unsigned)donor, {0, 0}, 1, 0};
  assert(ioctl(f, _IOWR('f', 15, struct Move), &move) == -1 && errno == ENOTTY && move.moved == 0);
  return 0;
}
void crashcut_recover(void) {
  look("f");
  look("d");
}
)")});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_TRUE(run.says("verified: ")) << run.out;
}

TEST_F(CliTest, TheLossyExampleIsAViolationThatReplays) {
  const Ran run = crashcut({"run", "--outcomes", example("save_lossy.c")});
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_NE(run.first_line().find("save_lossy.c | ext4 data=ordered sector=512 block=4096 | depth 1, all recoveries, "),
            std::string::npos)
      << run.first_line();
  EXPECT_TRUE(run.first_line().ends_with(" | seed 0")) << run.first_line();
  EXPECT_TRUE(run.says("violation: recovery aborted (SIGABRT)"));
  EXPECT_TRUE(run.says("!        1  NULs\n         1  new notes\n         1  old notes\n         3  total"));
  EXPECT_TRUE(run.says("yes        8  rename(\"notes.tmp\", \"notes.txt\")")) << run.out;
  EXPECT_TRUE(run.says("the power fails"));
  EXPECT_TRUE(run.says("Assertion `"));
  EXPECT_TRUE(run.last_line().starts_with("violation: 1 of 3 recoveries failed: 1 signal; 8 operations"))
      << run.last_line();

  const Ran again = crashcut(replay_of(run));
  EXPECT_EQ(again.exit_code, 1) << again.err;
  EXPECT_TRUE(again.last_line().starts_with("violation: recovery aborted (SIGABRT): save_lossy: ")) << again.out;
  const Ran told = crashcut(with(replay_of(run), {"--print"}));
  EXPECT_EQ(told.exit_code, 1);
  EXPECT_TRUE(told.says("block 0 of notes.txt: NULs (not its data)")) << told.out;
}

TEST_F(CliTest, TheReadmeShowsWhatTheExampleSays) {
  const std::string readme = read_file(fs::path(CRASHCUT_SOURCE_DIR) / "README.md");
  const Ran lossy = crashcut({"run", example("save_lossy.c")});
  const auto begin = lossy.out.find("violation: recovery aborted");
  const auto end = lossy.out.find("  Its output:");
  ASSERT_NE(begin, std::string::npos) << lossy.out;
  ASSERT_NE(end, std::string::npos) << lossy.out;
  EXPECT_NE(readme.find(lossy.out.substr(begin, end - begin - 1)), std::string::npos) << lossy.out;
  const Ran safe = crashcut({"run", example("save_safe.c")});
  EXPECT_NE(readme.find(safe.last_line().substr(0, safe.last_line().find(';'))), std::string::npos) << safe.out;
}

TEST_F(CliTest, ATokenFitsWhateverItsCallerLeftOpen) {
  const std::vector<std::string> replay = replay_of(crashcut({"run", example("save_lossy.c")}));
  const int more[] = {open("/dev/null", O_RDONLY), open("/dev/null", O_RDONLY)};
  EXPECT_EQ(crashcut(replay).exit_code, 1);
  for (const int fd : more) close(fd);
}

TEST_F(CliTest, TheSafeExampleIsVerified) {
  const Ran run = crashcut({"run", example("save_safe.c")});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(run.last_line().starts_with("verified: all ")) << run.out;
}

TEST_F(CliTest, EveryViolatingModeOfTheLossyExampleReplays) {
  for (const std::string mode : {"ordered", "writeback"}) {
    const Ran run = crashcut({"run", "--data", mode, "-o", "noauto_da_alloc", example("save_lossy.c")});
    EXPECT_EQ(run.exit_code, 1) << mode;
    EXPECT_EQ(crashcut(replay_of(run)).exit_code, 1) << mode;
  }
}

TEST_F(CliTest, HowRecoveryFailedIsSaid) {
  const std::pair<const char*, const char*> rows[] = {
      {"if (access(\"a\", F_OK) == 0) exit(7);", "violation: recovery exited with status 7"},
      {"if (access(\"a\", F_OK) == 0) raise(SIGSEGV);",
       "violation: recovery was killed by SIGSEGV (Segmentation fault)"},
      {"if (access(\"a\", F_OK) == 0) abort();", "violation: recovery aborted (SIGABRT)"},
  };
  for (const auto& [body, sentence] : rows) {
    const Ran run = crashcut({"run", recovery_of_a(body)});
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_TRUE(run.says(sentence)) << run.out << run.err;
    EXPECT_TRUE(run.says("1 of 2 recoveries failed")) << run.out;
  }
}

TEST_F(CliTest, WhatIsFoundOnceIsSaidThoughItDoesNotComeAgain) {
  const std::string once = (directory_ / "once").string();
  const Ran run = crashcut(
      {"run", "--jobs", "1",
       recovery_of_a("int fd = open(\"" + once + "\", O_CREAT | O_EXCL | O_WRONLY, 0644); if (fd >= 0) abort();")});
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_TRUE(run.says("violation: recovery aborted (SIGABRT)")) << run.out;
}

// Paths to a modelled file that are the kernel's own.
TEST_F(CliTest, DescriptorsByTheirPaths) {
  const auto of = [&](const std::string& main) {
    return crashcut({"run", program("d.c",
                                    "#include <fcntl.h>\n#ifndef O_TMPFILE\n#define O_TMPFILE 020200000\n#endif\nlong "
                                    "splice(int, long*, int, long*, unsigned long, unsigned);\nint main(void) { char "
                                    "path[64]; int fd = open(\".\", O_TMPFILE | O_RDWR, 0644); "
                                    "sprintf(path, \"/proc/self/fd/%d\", fd); " +
                                        main + " }\nvoid crashcut_recover(void) {}\n")});
  };
  EXPECT_EQ(
      of("return linkat(AT_FDCWD, path, AT_FDCWD, \"named\", AT_SYMLINK_FOLLOW) != 0 || access(\"named\", F_OK) != 0;")
          .exit_code,
      0);
  for (const char* refused : {"return open(path, O_RDWR) < 0;", "return truncate(path, 0);",
                              "int p[2]; pipe(p); return splice(p[0], 0, fd, 0, 5, 0);"}) {
    const Ran run = of(refused);
    EXPECT_EQ(run.exit_code, 2) << refused << run.out << run.err;
    EXPECT_TRUE(run.says("cannot be modelled")) << run.err;
  }
}

TEST_F(CliTest, TheStartingStateIsTheTreesWithItsLinksHolesAndAttributes) {
  const std::string from = (directory_ / "from").string();
  ASSERT_EQ(
      std::system(
          ("mkdir " + from + " && cd " + from + " && echo text > x && ln x hard && truncate -s 1G sparse").c_str()),
      0);
  const bool has_attributes = setxattr((from + "/x").c_str(), "user.k", "v", 1, 0) == 0;  // not every disk has them
  const Ran run = crashcut(
      {"run", "--from", from,
       program("f.c",
               "#include <sys/stat.h>\n#include <sys/xattr.h>\n"
               "int main(int argc, char** argv) { struct stat a, b, s; char v = 0; stat(\"x\", &a); stat(\"hard\", "
               "&b); stat(\"sparse\", &s);\n"
               "if (argv[argc - 1][0] == 'a' && (getxattr(\"x\", \"user.k\", &v, 1) != 1 || v != 'v')) return 2;\n"
               "return a.st_ino != b.st_ino || a.st_nlink != 2 || s.st_size != 1 << 30 || s.st_blocks != 0; }\nvoid "
               "crashcut_recover(void) {}\n"),
       has_attributes ? "attributes" : ""});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
}

TEST_F(CliTest, ARecoveryMayEndItsThread) {
  const Ran run = crashcut(
      {"run", recovery_of_a("extern void pthread_exit(void*); if (access(\"a\", F_OK) == 0) pthread_exit(0);")});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
}

TEST_F(CliTest, OutputsThatLookAlikeAreNotTheSame) {
  const std::string name = recovery_of_a("printf(access(\"a\", F_OK) == 0 ? \"x\\ny\\n\" : \"x; y\\n\");");
  const Ran run = crashcut({"run", "--outcomes", "--json", "r.json", name});
  EXPECT_TRUE(run.says("         1  \"x\\ny\\n\"\n         1  \"x; y\\n\"\n         2  total, 2 distinct outcomes"))
      << run.out << run.err;
  const auto outcomes = nlohmann::json::parse(read_file(directory_ / "r.json"))["outcomes"];
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_EQ(outcomes[0]["stdout"], "x\ny\n");
  EXPECT_EQ(outcomes[1]["stdout"], "x; y\n");
  EXPECT_NE(outcomes[0]["output"], outcomes[1]["output"]);
  EXPECT_TRUE(crashcut({"compare", "--data", "ordered", name}).says("  \"x\\ny\\n\"\n")) << run.out;
}

TEST_F(CliTest, BytesThatAreNoTextAreToldApart) {
  const Ran run = crashcut({"run", "--outcomes", "--json", "r.json",
                            recovery_of_a("printf(access(\"a\", F_OK) == 0 ? \"\\xff\" : \"\\xfe\");")});
  EXPECT_TRUE(run.says("         1  \\xfe\n         1  \\xff\n")) << run.out << run.err;
  const auto outcomes = nlohmann::json::parse(read_file(directory_ / "r.json"))["outcomes"];
  EXPECT_EQ(outcomes[0]["output"], "\"\\xfe\"");
  EXPECT_EQ(outcomes[1]["output"], "\"\\xff\"");
}

TEST_F(CliTest, LongOutcomesAreToldApartInATable) {
  const Ran run =
      crashcut({"compare", "--data", "ordered", recovery_of_a("printf(\"%060d%d\", 0, access(\"a\", F_OK));")});
  EXPECT_TRUE(run.says("0... (2)\n")) << run.out << run.err;
}

TEST_F(CliTest, AssumeBelongsInRecovery) {
  const Ran run = crashcut(
      {"run", program("p.c", "int main(void) { crashcut_assume(0); return 0; }\nvoid crashcut_recover(void) {}\n")});
  EXPECT_EQ(run.exit_code, 2) << run.out;
  EXPECT_TRUE(run.says("crashcut_assume(), which belongs in crashcut_recover()")) << run.err;
  EXPECT_FALSE(run.says("crashcut check")) << run.err;
}

TEST_F(CliTest, WhatCouldNotBeRunIsToldBesideAViolation) {
  const std::string name = recovery_of_a("if (access(\"a\", F_OK) == 0) exit(7); else fork();");
  const Ran run = crashcut({"run", "--jobs", "1", "--json", "r.json", name});
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_TRUE(run.says("violation: recovery exited with status 7")) << run.out;
  EXPECT_TRUE(run.says("crashcut_recover() called fork()")) << run.out;
  EXPECT_TRUE(run.says("a recovery could not be run after an estimated ")) << run.out;
  EXPECT_FALSE(run.says("--max-recoveries")) << run.out;
  const auto json = nlohmann::json::parse(read_file(directory_ / "r.json"));
  EXPECT_EQ(json["bound_hit"], "not_run");
  ASSERT_EQ(json["not_run"].size(), 1u);
  EXPECT_EQ(json["not_run"][0]["recoveries"], 1);
  EXPECT_NE(json["not_run"][0]["text"].get<std::string>().find("fork()"), std::string::npos);
  const Ran table = crashcut({"compare", "--jobs", "1", "--data", "ordered", name});
  EXPECT_EQ(table.exit_code, 1) << table.err;
  EXPECT_TRUE(table.says("crashcut_recover() called fork()")) << table.out;
}

TEST_F(CliTest, ARecoveryThatHangsIsAViolationWithItsLimit) {
  const Ran run = crashcut(
      {"run", "--recovery-limit", "1", "--json", "r.json", recovery_of_a("if (access(\"a\", F_OK) == 0) for (;;) {}")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(run.says("recovery did not end within the limit of 1 second (--recovery-limit)")) << run.out << run.err;
  const auto json = nlohmann::json::parse(read_file(directory_ / "r.json"));
  EXPECT_EQ(json["bounds"]["recovery_limit_s"], 1);
  EXPECT_EQ(json["bounds"]["main_limit_s"], 60);
  EXPECT_EQ(json["violations"][0]["code"], 1);
  const Ran again = crashcut(with(replay_of(run), {"--recovery-limit", "2"}));
  EXPECT_EQ(again.exit_code, 1) << again.err;
  EXPECT_TRUE(again.says("within the limit of 2 seconds")) << again.out;
  const Ran table = crashcut({"compare", "--data", "ordered", "--recovery-limit", "1", "p.c"});
  EXPECT_EQ(table.exit_code, 1) << table.err;
}

TEST_F(CliTest, MainHasALimitToo) {
  const std::string name = program("p.c", "int main(void) { for (;;) pause(); }\nvoid crashcut_recover(void) {}\n");
  for (const char* command : {"run", "compare"}) {
    const Ran run = crashcut({command, "--main-limit", "1", name});
    EXPECT_EQ(run.exit_code, 2) << run.out;
    EXPECT_TRUE(run.says("main() did not end within the limit of 1 second (--main-limit)")) << run.err;
  }
  expect_refused({"run", "--main-limit", "0", name}, "'0' is not a number from 1");
  expect_refused({"compare", "--tree", "--main-limit", "1", "true"},
                 "--main-limit is for a program with crashcut_recover()");
}

TEST_F(CliTest, TheSmallestCutIsShown) {
  // Fails whenever a is there; b and c need not have persisted, and are not in the cut.
  const std::string name = program(
      "p.c",
      "int main(void) { close(open(\"a\", O_CREAT | O_WRONLY, 0644));\n"
      "close(open(\"b\", O_CREAT | O_WRONLY, 0644)); close(open(\"c\", O_CREAT | O_WRONLY, 0644)); return 0; }\n"
      "void crashcut_recover(void) { access(\"c\", F_OK); access(\"b\", F_OK); assert(access(\"a\", F_OK) != 0); }\n");
  for (const char* most : {"1", "1000"}) {
    const Ran run = crashcut({"run", "--jobs", "1", "--max-recoveries", most, name});
    EXPECT_EQ(run.exit_code, 1) << run.err;
    EXPECT_TRUE(run.says("yes        1  open(\"a\"")) << run.out;
    EXPECT_TRUE(run.says("no         3  open(\"b\"")) << run.out;
    EXPECT_TRUE(run.says("no         5  open(\"c\"")) << run.out;
    EXPECT_EQ(crashcut(replay_of(run)).exit_code, 1);
  }
}

TEST_F(CliTest, MoreJobsThanCoresFindTheSameViolations) {
  // Eight bytes, old or new; those with a b before an a fail, in two ways.
  const std::string name = program(
      "p.c",
      "int main(void) { int f = open(\"f\", O_CREAT | O_RDWR, 0644); if (write(f, \"aaaaaaaa\", 8) != 8) return 1;\n"
      "  fsync(f); crashcut_barrier(); for (int i = 0; i < 8; ++i) if (pwrite(f, \"b\", 1, i) != 1) return 1; return "
      "0; }\n"
      "void crashcut_recover(void) { char t[9] = \"\"; ssize_t r = read(open(\"f\", O_RDONLY), t, 8); (void)r; "
      "puts(t);\n"
      "  char* b = strchr(t, 'b'); if (b && strchr(b, 'a')) { if (b == t) abort(); exit(3); } }\n");
  const auto explore = [&](const std::string& jobs) {
    const Ran run = crashcut({"run", "--sector", "1", "--block", "1", "--jobs", jobs, "--json", "r.json", name});
    EXPECT_EQ(run.exit_code, 1) << run.err;
    EXPECT_EQ(crashcut(replay_of(run)).exit_code, 1) << jobs;
    return nlohmann::json::parse(read_file(directory_ / "r.json"));
  };
  const auto one = explore("1"), four = explore("4");
  EXPECT_EQ(one["counts"]["recoveries"], 256);
  EXPECT_EQ(one["counts"]["violations"], 256 - 9);
  for (const char* field : {"counts", "outcomes", "violations", "token"}) EXPECT_EQ(four[field], one[field]) << field;
}

TEST_F(CliTest, ASecondCrashIsToldAndReplays) {
  const std::string name =
      program("p.c",
              "int main(void) { close(open(\"a\", O_CREAT | O_WRONLY, 0644)); sync(); crashcut_barrier();\n"
              "  unlink(\"a\"); return 0; }\n"
              "void crashcut_recover(void) {\n"
              "  assert(access(\"a\", F_OK) != 0 || access(\"b\", F_OK) != 0);\n"
              "  if (access(\"a\", F_OK) == 0) { close(open(\"b\", O_CREAT | O_WRONLY, 0644)); unlink(\"a\"); } }\n");
  EXPECT_EQ(crashcut({"run", name}).exit_code, 0);
  const Ran run = crashcut({"run", "--depth", "2", name});
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_TRUE(run.says("after a second crash")) << run.out;
  EXPECT_EQ(crashcut(replay_of(run)).exit_code, 1);
}

TEST_F(CliTest, AssumedAwayIsCountedApart) {
  const Ran run =
      crashcut({"run", "--outcomes", recovery_of_a("crashcut_assume(access(\"a\", F_OK) == 0); puts(\"a\");")});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_TRUE(run.says("         1  a\n         1  total, 1 distinct outcome")) << run.out;
  EXPECT_TRUE(run.says("all 2 recoveries, none failed (1 assumed away)")) << run.out;
}

TEST_F(CliTest, ArgumentsAreThePrograms) {
  const std::string name =
      program("p.c",
              "int main(int argc, char** argv) { return argc == 4 && !strcmp(argv[1], \"--json\") && "
              "!strcmp(argv[2], \"--\") && !strcmp(argv[3], \"\") ? 0 : 9; }\nvoid crashcut_recover(void) {}\n");
  EXPECT_EQ(crashcut({"run", "--seed", "7", name, "--json", "--", ""}).exit_code, 0);
  EXPECT_EQ(crashcut({"run", "--", name, "--json", "--", ""}).exit_code, 0);
  EXPECT_EQ(crashcut({"run", name}).exit_code, 2);
}

// ---- bounds -------------------------------------------------------------------------------------------------

class BoundsTest : public CliTest {
 protected:
  // More recoveries than anybody waits for.
  std::string many_ = program(
      "many.c",
      "static char n[9];\n"
      "int main(void) { for (int i = 0; i < 40; ++i) { sprintf(n, \"f%d\", i);\n"
      "  int f = open(n, O_CREAT | O_WRONLY, 0644); if (write(f, \"x\", 1) != 1) return 1; close(f); } return 0; }\n"
      "void crashcut_recover(void) { char c; for (int i = 0; i < 40; ++i) { sprintf(n, \"f%d\", i);\n"
      "  int f = open(n, O_RDONLY); ssize_t r = f >= 0 ? read(f, &c, 1) : -1; putchar(r < 0 ? '-' : r == 0 ? '0' : "
      "c);\n"
      "  close(f); } }\n");
};

TEST_F(BoundsTest, MaxRecoveries) {
  const Ran run = crashcut({"run", "--max-recoveries", "50", many_});
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_TRUE(run.last_line().starts_with("bounded (max_recoveries): 50 recoveries, none failed; ")) << run.last_line();
  EXPECT_TRUE(run.says("--max-recoveries was reached after an estimated ")) << run.last_line();
}

TEST_F(BoundsTest, TheSeedSaysWhichPartIsExplored) {
  const auto outcomes = [&](const std::string& seed) {
    const Ran run =
        crashcut({"run", "--jobs", "1", "--max-recoveries", "20", "--seed", seed, "--json", "r.json", many_});
    EXPECT_EQ(run.exit_code, 3) << run.err;
    EXPECT_TRUE(run.first_line().ends_with(" | seed " + seed)) << run.first_line();
    return nlohmann::json::parse(read_file(directory_ / "r.json"))["outcomes"];
  };
  EXPECT_EQ(outcomes("1"), outcomes("1"));
  EXPECT_NE(outcomes("1"), outcomes("2"));
  EXPECT_NE(outcomes("1"), outcomes("0"));
}

TEST_F(BoundsTest, AViolationFoundUnderASeedReplays) {
  const Ran run = crashcut({"run", "--seed", "3", example("save_lossy.c")});
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_TRUE(run.says("violation: 1 of 3 recoveries failed")) << run.out;
  EXPECT_EQ(crashcut(replay_of(run)).exit_code, 1);
}

TEST_F(BoundsTest, Time) {
  const Ran run = crashcut({"run", "--time", "0.3", many_});
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_TRUE(run.says("--time was reached after an estimated ")) << run.last_line();
}

// On a terminal the progress is one line that changes, and is gone at the end.
TEST_F(BoundsTest, ProgressOnATerminal) {
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, nullptr);
  if (child == 0) execute({"run", "--time", "4", many_}, STDERR_FILENO);
  ASSERT_GT(child, 0);
  std::string shown;
  char part[4096];
  for (ssize_t got; (got = read(terminal, part, sizeof part)) > 0;) shown.append(part, static_cast<std::size_t>(got));
  close(terminal);
  EXPECT_EQ(finish(child).exit_code, 3);
  const std::string kAnew = "\r\033[K";
  const auto first = shown.find(kAnew), last = shown.rfind(kAnew);
  ASSERT_NE(first, std::string::npos) << shown;
  EXPECT_NE(shown.find(" recoveries, 0 violations; an estimated ", first), std::string::npos) << shown;
  EXPECT_GT(std::count(shown.begin(), shown.end(), '\033'), 3) << shown;
  EXPECT_EQ(shown.substr(last), kAnew) << "the last one was not cleared: " << shown;
  EXPECT_EQ(shown.find('\n'), std::string::npos) << shown;
}

TEST_F(BoundsTest, SignalsEndItInGoodOrder) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const pid_t child = start({"run", many_});
    // The first line comes when the program is ready; the exploration follows within moments.
    while (read_file(directory_ / "out").empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    kill(child, signal);
    const Ran run = finish(child);
    EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
    EXPECT_TRUE(run.says("interrupted")) << run.out << run.err;
  }
}

TEST_F(BoundsTest, ASignalDuringMainLeavesNothing) {
  const std::string name = program("p.c", "int main(void) { for (;;) {} }\nvoid crashcut_recover(void) {}\n");
  const pid_t child = start({"run", name});
  while (read_file(directory_ / "out").empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  kill(child, SIGTERM);
  EXPECT_EQ(finish(child).exit_code, 3);
}

// ---- sudden ends --------------------------------------------------------------------------------------------

class SuddenEndTest : public BoundsTest {
 protected:
  // Orphans become our children, so that none is overlooked.
  SuddenEndTest() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

  std::vector<std::string> words_ = {"run", "--time", "0.5", "--json", "r.json", many_};

  // Signals crashcut after that long and waits for the end of every process that it leaves behind.
  void end_after(std::chrono::microseconds time, int signal) {
    const pid_t child = start(words_);
    std::this_thread::sleep_for(time);
    kill(child, signal);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    pid_t ended = 0;
    while ((ended = waitpid(-1, nullptr, WNOHANG)) >= 0 && std::chrono::steady_clock::now() < deadline) {
      if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ASSERT_EQ(ended, -1) << "a process is left";
    ASSERT_EQ(errno, ECHILD);
    ASSERT_TRUE(fs::is_empty(temporary_)) << fs::directory_iterator(temporary_)->path() << " was left behind";
    for (const auto& entry : fs::directory_iterator(directory_)) {
      ASSERT_FALSE(entry.path().filename().string().starts_with(".crashcut")) << entry.path() << " was left behind";
    }
  }
};

TEST_F(SuddenEndTest, LeavesNothingAtAnyMoment) {
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(crashcut(words_).exit_code, 3);
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin);
  for (const auto& [signal, times] : {std::pair{SIGKILL, 30u}, {SIGINT, 10u}, {SIGTERM, 10u}}) {
    tests::for_each_seed(times, [&, signal = signal](std::uint64_t seed) {
      std::mt19937_64 random(seed);
      const std::chrono::microseconds time(std::uniform_int_distribution<long>(0, whole.count())(random));
      SCOPED_TRACE("signal " + std::to_string(signal) + " after " + std::to_string(time.count()) + " us, seed " +
                   std::to_string(seed));
      end_after(time, signal);
      return !HasFatalFailure();
    });
  }
}

// Its first process is the guard.
TEST_F(SuddenEndTest, LeavesNothingWhereTheGuardIsKilled) {
  const pid_t child = start(words_);
  pid_t guard = 0;
  const std::string children = "/proc/" + std::to_string(child) + "/task/" + std::to_string(child) + "/children";
  for (int tries = 0; guard == 0 && tries < 10'000; ++tries) {
    if (!(std::ifstream(children) >> guard)) guard = 0;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  ASSERT_NE(guard, 0);
  kill(guard, SIGKILL);
  while (waitpid(-1, nullptr, 0) > 0) {
  }
  EXPECT_TRUE(fs::is_empty(temporary_)) << fs::directory_iterator(temporary_)->path() << " was left behind";
}

// ---- compare, JSON ------------------------------------------------------------------------------------------

TEST_F(CliTest, ComparePutsTheModesSideBySide) {
  const Ran run = crashcut({"compare", example("save_lossy.c")});
  EXPECT_EQ(run.exit_code, 1) << run.err;
  for (const char* row : {"ext4 data=ordered   ", "ext4 data=ordered noauto_da_alloc", "ext4 data=ordered nodelalloc",
                          "ext4 data=journal", "ext4 data=writeback"}) {
    EXPECT_TRUE(run.says(row)) << row << run.out;
  }
  EXPECT_TRUE(run.says("new notes")) << run.out;
  EXPECT_EQ(crashcut(replay_of(run)).exit_code, 1);
  EXPECT_EQ(crashcut({"compare", "--profile", "paper", "--profile", "ext4", example("save_safe.c")}).exit_code, 0);
}

TEST_F(CliTest, JsonHoldsTheResult) {
  const Ran run = crashcut({"run", "--json", "r.json", "--seed", "5", "--depth", "1", example("save_lossy.c"), "x y"});
  ASSERT_EQ(run.exit_code, 1) << run.err;
  const auto json = nlohmann::json::parse(read_file(directory_ / "r.json"));
  EXPECT_EQ(json["verdict"], "violation");
  EXPECT_EQ(json["program"][1], "x y");
  EXPECT_EQ(json["seed"], 5);
  EXPECT_EQ(json["counts"]["recoveries"], 3);
  EXPECT_EQ(json["outcomes"].size(), 3u);
  EXPECT_EQ(json["model"]["data"], "ordered");
  EXPECT_EQ(json["violation"]["code"], SIGABRT);
  EXPECT_TRUE(json["violation"]["is_smallest"]);
  EXPECT_EQ(json["token"], token_of(run));
  const auto& operations = json["violation"]["crashes"][0]["operations"];
  EXPECT_EQ(operations.back()["persisted"], "yes");
  EXPECT_EQ(operations[6]["persisted"], "partly") << operations;
}

TEST_F(CliTest, JsonOnStdoutIsAlone) {
  const std::string name = program(
      "p.c", "int main(void) { puts(\"hello\"); return 0; }\nvoid crashcut_recover(void) { puts(\"\\xff\"); }\n");
  const Ran run = crashcut({"run", "--json", "-", "--outcomes", name});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(nlohmann::json::parse(run.out)["verdict"], "verified");
  EXPECT_NE(run.err.find("hello"), std::string::npos);
  EXPECT_NE(run.err.find("\\xff"), std::string::npos);
}

// ---- bad input ----------------------------------------------------------------------------------------------

TEST_F(CliTest, WrongUseIsRefused) {
  expect_refused({"run"}, "needs a program");
  expect_refused({"walk"}, "there is no command walk");
  expect_refused({"run", "--bogus", "p.c"}, "no option --bogus");
  expect_refused({"run", "--profile", "zfs", "p.c"}, "zfs");
  expect_refused({"run", "--data", "none", "p.c"}, "none");
  expect_refused({"run", "-o", "speed=11", "p.c"}, "speed");
  expect_refused({"run", "--sector", "0", "p.c"}, "0");
  expect_refused({"run", "--sector", "-1", "p.c"}, "-1");
  expect_refused({"run", "--sector", "7", "p.c"}, "7");
  expect_refused({"run", "--depth", "0", "p.c"}, "not a number from 1 to 64");
  expect_refused({"run", "--max-recoveries", "-5", "p.c"}, "not a number");
  expect_refused({"run", "--time", "soon", "p.c"}, "soon");
  expect_refused({"run", "--jobs", "100000", "p.c"}, "256");
  expect_refused({"run", "--seed"}, "--seed");
  expect_refused({"run", "--from", "nowhere", example("save_safe.c")}, "nowhere");
  expect_refused({"run", "--json", "nowhere/x", example("save_safe.c")}, "Cannot write nowhere/x");
}

TEST_F(CliTest, FilesThatAreNoProgramsAreRefused) {
  std::ofstream(directory_ / "script") << "#!/bin/sh\n";
  std::ofstream(directory_ / "text") << "hello\n";
  std::ofstream(directory_ / "empty");
  fs::permissions(directory_ / "script", fs::perms::owner_all);
  std::ofstream(directory_ / "elf") << "\x7f"
                                       "ELF";
  expect_refused({"run", "nosuch"}, "Cannot find nosuch");
  expect_refused({"run", "nosuch.c"}, "Cannot find nosuch.c");
  expect_refused({"run", "."}, "not a file");
  expect_refused({"run", "script"}, "crashcut check");
  expect_refused({"run", "text"}, "neither a program nor");
  expect_refused({"run", "empty"}, "neither a program nor");
  expect_refused({"run", "elf"}, "not a program for this machine");
}

TEST_F(CliTest, ProgramsThatCannotBeRunAreRefused) {
  const std::string source = program("ok.c", "int main(void) { return 0; }\nvoid crashcut_recover(void) {}\n");
  const std::string compile = "cd " + directory_.string() + " && cc -I" CRASHCUT_SOURCE_DIR "/include ok.c -o ";
  if (std::system((compile + "static -static").c_str()) == 0) expect_refused({"run", "static"}, "statically linked");
  ASSERT_EQ(std::system((compile + "dynamic").c_str()), 0);
  EXPECT_EQ(crashcut({"run", "dynamic"}).exit_code, 0);
  chmod((directory_ / "dynamic").c_str(), 0644);
  expect_refused({"run", "dynamic"}, "not executable");
  chmod((directory_ / "dynamic").c_str(), 04755);
  expect_refused({"run", "dynamic"}, "setuid");
  expect_refused({"run", program("bad.c", "int main( {")}, "bad.c cannot be built");
  expect_refused({"run", program("none.c", "int main(void) { return 0; }")}, "crashcut_recover");
}

TEST_F(CliTest, WhatTheLinkerRefusesIsNotCalledACompilersError) {
  const std::string text =
      "void elsewhere(void);\nint main(void) { elsewhere(); return 0; }\nvoid crashcut_recover(void) {}\n";
  expect_refused({"run", program("link.c", text)}, "link.c cannot be built: see what cc says above");
}

TEST_F(CliTest, SourcesOfCppHaveAllItsEndings) {
  const std::string text =
      "struct S {};\nint main() { S s; (void)s; return 0; }\nextern \"C\" void crashcut_recover(void) {}\n";
  for (const char* name : {"p.cc", "p.cpp", "p.cxx", "p.c++", "p.C"}) {
    EXPECT_EQ(crashcut({"run", program(name, text)}).exit_code, 0) << name;
  }
}

TEST_F(CliTest, OptionsThatContradictThemselvesAreRefused) {
  const std::string source = recovery_of_a("");
  expect_refused({"run", "--data", "journal", "--data", "ordered", source}, "--data was given more than once");
  expect_refused({"run", "--profile", "paper", "--profile", "ext4", source}, "--profile was given more than once");
  expect_refused({"run", "--max-recoveries", "99999999999999999999", source}, "is not a number from 1 to");
  expect_refused({"run", "--time", "1e400", source}, "is not a number from");
  expect_refused({"run", ""}, "run needs a program");
}

TEST_F(CliTest, SignalsAreForTheProgramItself) {
  const Ran itself = crashcut({"run", recovery_of_a("if (access(\"a\", F_OK) == 0) kill(getpid(), SIGKILL);")});
  EXPECT_EQ(itself.exit_code, 1) << itself.err;
  EXPECT_TRUE(itself.says("violation: recovery was killed by SIGKILL")) << itself.out;
  expect_refused({"run", recovery_of_a("kill(0, SIGKILL);")}, "kill() of another process or of a group");
  expect_refused({"run", recovery_of_a("kill(getppid(), SIGKILL);")}, "kill() of another process or of a group");
  EXPECT_EQ(crashcut({"run", recovery_of_a("assert(kill(getppid(), 0) == 0);")}).exit_code, 0);
}

TEST_F(CliTest, AProgramWithTheAddressSanitizerIsRun) {
  const std::string body = "char* p = malloc(3); volatile int i = access(\"a\", F_OK) == 0 ? 3 : 0; p[i] = 1; free(p);";
  recovery_of_a(body);
  const std::string compile =
      "cd " + directory_.string() + " && cc -fsanitize=address -I" CRASHCUT_SOURCE_DIR "/include p.c -o p";
  ASSERT_EQ(std::system(compile.c_str()), 0);
  const Ran run = crashcut({"run", "p"});
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_TRUE(run.says("heap-buffer-overflow")) << run.out;
  EXPECT_TRUE(run.last_line().starts_with("violation: 1 of 2 recoveries failed")) << run.out;
}

// Once two states differ far behind what is kept of an output, they are two outcomes still.
TEST_F(CliTest, LongOutputsAreToldApart) {
  const std::string body =
      "static char z[70000]; memset(z, 'z', sizeof z); z[69999] = access(\"a\", F_OK) == 0 ? 'y' : 'n';"
      "fwrite(z, 1, sizeof z, stdout);";
  const Ran run = crashcut({"run", "--outcomes", recovery_of_a(body)});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(run.says("2  total, 2 distinct outcomes")) << run.last_line();
}

TEST_F(CliTest, AFileThatCannotBeWrittenDoesNotHideAViolation) {
  const Ran run = crashcut({"run", "--json", "/dev/full", recovery_of_a("if (access(\"a\", F_OK) == 0) exit(7);")});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_TRUE(run.last_line().starts_with("violation: 1 of 2")) << run.out;
  EXPECT_TRUE(run.says("Cannot write /dev/full")) << run.err;
}

// main() has 60 seconds and a recovery 10. Who waits for these says exit 2 and 1.
TEST_F(CliTest, TimeAndCtrlCDoNotWaitForWhatHangs) {
  const std::string recovery = recovery_of_a("if (access(\"a\", F_OK) == 0) for (;;) pause();");
  const auto begin = std::chrono::steady_clock::now();
  const Ran late = crashcut({"run", "--time", "0.5", recovery});
  EXPECT_EQ(late.exit_code, 3) << late.err;
  EXPECT_TRUE(late.says("--time was reached after")) << late.out;
  const pid_t child = start({"run", recovery});
  while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(3)) usleep(10000);
  kill(child, SIGINT);
  const Ran interrupted = finish(child);
  EXPECT_EQ(interrupted.exit_code, 3) << interrupted.err;
  EXPECT_TRUE(interrupted.says("interrupted after")) << interrupted.out;
  const Ran main_hangs =
      crashcut({"run", "--time", "0.5",
                program("m.c", "int main(void) { for (;;) pause(); }\nvoid crashcut_recover(void) {}\n")});
  EXPECT_EQ(main_hangs.exit_code, 3) << main_hangs.err;
  EXPECT_TRUE(main_hangs.last_line().ends_with("--time was reached before main() had ended")) << main_hangs.out;
}

TEST_F(CliTest, ProgramsThatFailByThemselvesAreRefused) {
  const std::string recover = "\nvoid crashcut_recover(void) {}\n";
  expect_refused({"run", program("p.c", "int main(void) { return 3; }" + recover)}, "main() ended with status 3");
  expect_refused({"run", program("p.c", "int main(void) { raise(SIGSEGV); }" + recover)},
                 "main() was killed by SIGSEGV");
  expect_refused({"run", program("p.c", "int main(void) { raise(SIGKILL); }" + recover)},
                 "main() was killed by SIGKILL");
  expect_refused({"run", program("p.c", "int main(void) { fork(); return 0; }" + recover)}, "crashcut check");
  expect_refused(
      {"run", program("p.c", "int main(void) { execl(\"/bin/true\", \"true\", (char*)0); return 0; }" + recover)},
      "crashcut check");
  expect_refused({"run", recovery_of_a("fork();")}, "crashcut check");
}

TEST_F(CliTest, AReplayOfAChangedProgramIsRefused) {
  const std::string body = "if (access(\"a\", F_OK) == 0) exit(7);";
  const std::string name = recovery_of_a(body);
  const std::string token = token_of(crashcut({"run", name}));
  EXPECT_EQ(crashcut({"replay", token}).exit_code, 1);
  recovery_of_a("");
  expect_refused({"replay", token}, "differs from it");
  expect_refused({"replay", "--program", name, token}, "Recovery did not ask for the same things");
  recovery_of_a("access(\"a\", F_OK);");
  EXPECT_EQ(crashcut({"replay", "--program", name, token}).exit_code, 0);
  program(
      "p.c",
      "int main(void) { close(open(\"b\", O_CREAT | O_WRONLY, 0644)); return 0; }\nvoid crashcut_recover(void) {}\n");
  expect_refused({"replay", "--program", name, token}, "does not do what it did");
  fs::remove(directory_ / "p.c");
  expect_refused({"replay", token}, "is not found. There is no such file");
  expect_refused({"replay", "--program", name, token}, "Cannot find");
}

// A token has no path but the program's name: it is found beside the results, in the current directory, in PATH.
TEST_F(CliTest, ATokenTravels) {
  const std::string name = recovery_of_a("if (access(\"a\", F_OK) == 0) exit(7);");
  const Ran run = crashcut({"run", "--out", "results", fs::absolute(directory_ / name).string()});
  ASSERT_EQ(run.exit_code, 1) << run.err;
  EXPECT_EQ(crashcut({"replay", token_of(run)}).exit_code, 1) << "in the current directory";
  EXPECT_TRUE(fs::exists(directory_ / "results/result.json"));
  EXPECT_TRUE(fs::exists(directory_ / "results/junit.xml"));
  fs::create_directory(directory_ / "elsewhere");
  fs::rename(directory_ / "results", directory_ / "elsewhere/results");
  fs::remove(directory_ / name);
  expect_refused({"replay", token_of(run)}, "is not found");
  EXPECT_EQ(crashcut({"replay", "elsewhere/results"}).exit_code, 1) << "beside the token";
  EXPECT_EQ(crashcut({"replay", "--program", "elsewhere/results/" + fs::path(name).filename().string(), token_of(run)})
                .exit_code,
            1);
  expect_refused({"run", "--out", "elsewhere/results", name}, "");
  expect_refused({"replay", "elsewhere"}, "There is no token in elsewhere");
  expect_refused({"replay", "--shell", token_of(run)}, "--shell is not for tokens of crashcut run");
}

TEST_F(CliTest, WhatMayHaveBeenMeant) {
  EXPECT_NE(crashcut({"chekc"}).err.find("Did you mean check?"), std::string::npos);
  EXPECT_EQ(crashcut({"somethingelse"}).err.find("Did you mean"), std::string::npos);
  expect_refused({"run", "--outcome", "x.c"}, "Did you mean --outcomes?");
  expect_refused({"replay", "--prnt", "cc2"}, "Did you mean --print?");
  const Ran help = crashcut({"help", "check"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_EQ(help.out, crashcut({"check", "--help"}).out);
  EXPECT_EQ(crashcut({"-V"}).out, crashcut({"--version"}).out);
}

TEST_F(CliTest, HelpFitsInAHundredColumns) {
  for (const char* command :
       {"check", "run", "replay", "compare", "mark", "mount", "crash", "threads", "gdb", "flags"}) {
    std::istringstream lines(crashcut({command, "--help"}).out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << command << ": " << line;
  }
}

TEST_F(CliTest, QuietIsTheLastLineAlone) {
  const Ran run = crashcut({"run", "--quiet", "--outcomes", example("save_lossy.c")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.out, run.last_line() + "\n");
  EXPECT_TRUE(run.out.starts_with("violation: 1 of 3 recoveries failed")) << run.out;
}

TEST_F(CliTest, JUnitOfARun) {
  EXPECT_EQ(crashcut({"run", "--junit", "j.xml", example("save_lossy.c")}).exit_code, 1);
  const std::string bad = read_file(directory_ / "j.xml");
  EXPECT_NE(bad.find("tests=\"1\" failures=\"1\""), std::string::npos) << bad;
  EXPECT_NE(bad.find("<failure type=\"signal\" message=\"recovery aborted (SIGABRT): save_lossy: "), std::string::npos)
      << bad;
  EXPECT_EQ(crashcut({"run", "--junit", "j.xml", example("save_safe.c")}).exit_code, 0);
  EXPECT_NE(read_file(directory_ / "j.xml").find("tests=\"1\" failures=\"0\""), std::string::npos);
}

TEST_F(CliTest, GarbageTokensAreRefused) {
  for (const std::string token : {"x", "cc2", "cc1AAAA", "cc2AAAA", "--", "cc2\n", "cc2\xff"}) {
    EXPECT_EQ(crashcut({"replay", token}).exit_code, 2) << token;
  }
  EXPECT_EQ(crashcut({"replay"}).exit_code, 2);
  std::string token = token_of(crashcut({"run", recovery_of_a("if (access(\"a\", F_OK) == 0) exit(7);")}));
  ASSERT_FALSE(token.empty());
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    std::string spoilt = token;
    spoilt[3 + random() % (spoilt.size() - 3)] ^= static_cast<char>(1 + random() % 7);
    EXPECT_EQ(crashcut({"replay", spoilt}).exit_code, 2) << spoilt;
  }
}

TEST_F(CliTest, HelpAndVersion) {
  for (const auto& words : std::vector<std::vector<std::string>>{
           {"--help"}, {"run", "--help"}, {"replay", "--help"}, {"compare", "--help"}}) {
    const Ran run = crashcut(words);
    EXPECT_EQ(run.exit_code, 0);
    EXPECT_TRUE(run.says("Usage: crashcut")) << run.out;
    EXPECT_TRUE(run.says("Exit codes: 0")) << run.out;
  }
  EXPECT_TRUE(crashcut({"--version"}).out.starts_with("crashcut "));
  EXPECT_EQ(crashcut({}).exit_code, 2);
}

}  // namespace
}  // namespace crashcut
