// crashcut run and replay: results.
#include "tests/cli_fixture.h"

namespace crashcut {
namespace {

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
  const auto end = lossy.out.find("  Output of recovery:");
  ASSERT_NE(begin, std::string::npos) << lossy.out;
  ASSERT_NE(end, std::string::npos) << lossy.out;
  EXPECT_NE(readme.find(lossy.out.substr(begin, end - begin - 1)), std::string::npos) << lossy.out;
  const auto mend = lossy.out.find("\n  mend: ");
  ASSERT_NE(mend, std::string::npos) << lossy.out;
  EXPECT_NE(readme.find(lossy.out.substr(mend, lossy.out.find('\n', mend + 1) - mend)), std::string::npos) << lossy.out;
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

// A story tells the bytes that a call had: letters as they are, all others by their numbers.
TEST_F(CliTest, BytesOfCallsAreTheirOwn) {
  const Ran run = crashcut({"run", program("bytes.c",
                                           "int main(void) { int f = open(\"a\", O_CREAT | O_WRONLY, 0644);\n"
                                           "  return write(f, \"\\x97k\\xc1\\x80 \\xc3\\xa4\", 7) == 7 ? 0 : 1; }\n"
                                           "void crashcut_recover(void) { assert(access(\"a\", F_OK) == 0); }\n")});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_TRUE(run.says("7 bytes: \"\\x97k\\xc1\\x80 \xc3\xa4\"")) << run.out << run.err;
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

}  // namespace
}  // namespace crashcut
