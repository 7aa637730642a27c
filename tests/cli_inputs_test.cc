// crashcut: compare, JSON, bad input, help.
#include "tests/cli_fixture.h"

namespace crashcut {
namespace {

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

TEST_F(CliTest, ComparisonAsJUnitHasASuiteForEachModel) {
  const Ran run = crashcut({"compare", "--junit", "-", example("save_lossy.c")});
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_TRUE(run.out.starts_with("<?xml version=")) << run.out;
  std::size_t suites = 0;
  for (auto at = run.out.find("<testsuite "); at != std::string::npos; at = run.out.find("<testsuite ", at + 1))
    ++suites;
  EXPECT_EQ(suites, nlohmann::json::parse(crashcut({"compare", "--json", "-", example("save_lossy.c")}).out).size());
  EXPECT_NE(run.out.find("| ext4 data=ordered"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("<failure type=\"signal\""), std::string::npos) << run.out;
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

// The page that was written is named, but for --quiet and where a document is on stdout.
TEST_F(CliTest, TheReportNamesThePage) {
  const std::string save = example("save_safe.c");
  const Ran asked = crashcut({"run", "--html", "save.html", save});
  EXPECT_TRUE(asked.out.find("\npage: save.html\nverified") != std::string::npos) << asked.out;
  const Ran left = crashcut({"run", "--out", "results", save});
  EXPECT_TRUE(left.out.find("\npage: results/page.html\nverified") != std::string::npos) << left.out;
  EXPECT_TRUE(fs::exists(directory_ / "results/page.html"));
  const Ran elsewhere = crashcut({"run", "--out", (directory_ / "../named_page").string(), save});
  EXPECT_TRUE(elsewhere.says("page: /")) << elsewhere.out;
  fs::remove_all(directory_ / "../named_page");
  for (const std::vector<std::string>& options : {std::vector<std::string>{"--quiet", "--html", "q.html"},
                                                  {"--html", "-"},
                                                  {"--json", "-", "--html", "j.html"},
                                                  {}})
    EXPECT_FALSE(crashcut(with(with({"run"}, options), {save})).says("page: ")) << testing::PrintToString(options);
  EXPECT_TRUE(crashcut({"compare", "--html", "c.html", save}).says("\npage: c.html\n"));
}

// "--" is never an option's value.
TEST_F(CliTest, AnOptionWithoutItsValueIsRefused) {
  const Ran file = crashcut({"check", "--file", "--", "./save"});
  EXPECT_EQ(file.exit_code, 2);
  EXPECT_TRUE(file.says("crashcut: --file needs F before --.\nSee crashcut check --help.")) << file.err;
  EXPECT_TRUE(crashcut({"check", "--setup", "--", "true"}).says("--setup needs CMD before --.")) << file.err;
  EXPECT_TRUE(crashcut({"run", "--json", "--", "save.c"}).says("--json needs FILE before --."));
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

TEST_F(CliTest, KindsThatAreNotListedAreMentioned) {
  const std::string name = program("p.c", std::string(kHeaders) + R"(
int main(void) {
  int f = open("a", O_CREAT | O_WRONLY, 0644);
  for (int i = 1; i <= 1100; ++i) if (ftruncate(f, i) != 0) return 1;
  return 0;
}
void crashcut_recover(void) {
  int f = open("a", O_RDONLY);
  fprintf(stderr, "size %d\n", (int)lseek(f, 0, SEEK_END));
  abort();
}
)");
  const Ran run = crashcut({"run", name});
  EXPECT_EQ(run.exit_code, 1) << run.err;
  EXPECT_TRUE(run.says("recoveries failed: 1000 signal, and others that are not listed;")) << run.last_line();
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
  expect_refused({"run", "link.c"}, "build it first (cc -g -o prog FILES LIBRARIES) and name the executable");
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
  EXPECT_TRUE(fs::exists(directory_ / "results/page.html"));
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
  EXPECT_EQ(crashcut({"version"}).out, crashcut({"--version"}).out);
  EXPECT_EQ(crashcut({"help", "help"}).out, crashcut({"--help"}).out);
  EXPECT_EQ(crashcut({"run", "-j", "2", "x.c"}).err.find("Did you mean"), std::string::npos);
  EXPECT_NE(crashcut({"run", "--jbos", "2", "x.c"}).err.find("See crashcut run --help."), std::string::npos);
}

TEST_F(CliTest, AWordThatIsMissingIsNamed) {
  expect_refused({"replay"}, "replay needs TOKEN|DIR: a token, or a directory of results, copied from anywhere.");
  expect_refused({"mount"}, "mount needs DIR: an empty directory.");
  expect_refused({"crash"}, "crash needs DIR: where the disk is mounted.");
  expect_refused({"mark"}, "mark needs TEXT: what to call this moment.");
  expect_refused({"gdb"}, "gdb needs a token.");
}

TEST_F(CliTest, HelpFitsInAHundredColumns) {
  for (const char* command : {"check", "run", "replay", "compare", "mark", "mount", "crash", "threads", "gdb", "flags",
                              "pmem", "cxl", "cc", "cxx", "conform"}) {
    std::istringstream lines(crashcut({command, "--help"}).out);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100u) << command << ": " << line;
  }
}

TEST_F(CliTest, HelpNamesValuesOnce) {
  for (const char* command : {"check", "run", "compare", "threads", "pmem", "cxl", "conform"}) {
    const std::string help = crashcut({command, "--help"}).out;
    // What the parser of options adds by itself, behind our own names of the values.
    for (const char* parsers : {":{", "UINT", " in ["})
      EXPECT_EQ(help.find(parsers), std::string::npos) << command << " has " << parsers;
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
  EXPECT_TRUE(crashcut({"replay", "no/such"}).says("There is no directory no/such"));
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
