// crashcut run: bounds, and sudden ends.
#include "tests/cli_fixture.h"

namespace crashcut {
namespace {

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
  EXPECT_TRUE(run.last_line().starts_with("bounded (max_recoveries): 50 recoveries, none failed (")) << run.last_line();
  EXPECT_TRUE(run.says(" sampled); ")) << run.last_line();
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

// ---- searches that go on --------------------------------------------------------------------------------------

class ResumeTest : public BoundsTest {
 protected:
  // Five bytes, each old or new: 32 recoveries. Recovery writes three of them anew: 32 + 32 * 8 with --depth 2.
  static constexpr const char* kFive =
      "int main(void) { int f = open(\"f\", O_CREAT | O_RDWR, 0600); if (pwrite(f, \"ooooo\", 5, 0) != 5) return 1;\n"
      "  fsync(f); crashcut_barrier(); for (int i = 0; i < 5; ++i) if (pwrite(f, \"n\", 1, i) != 1) return 1; return "
      "0; }\n"
      "void crashcut_recover(void) { char t[6] = \"\"; int f = open(\"f\", O_RDWR);\n"
      "  for (int i = 0; i < 5; ++i) if (pread(f, t + i, 1, i) != 1) exit(2);\n"
      "  printf(\"%s\\n\", t); for (int i = 0; i < 3; ++i) if (pwrite(f, \"r\", 1, i) != 1) exit(2); }\n";
  const std::vector<std::string> bytes_ = {"--sector", "1", "--block", "1"};

  nlohmann::json result() { return nlohmann::json::parse(read_file(directory_ / "r.json")); }
};

// Stopped again and again, with other bounds and jobs each time: in the end all is as if it had never been stopped.
TEST_F(ResumeTest, GoesOnWhereItWasStopped) {
  const std::string name = program("five.c", kFive);
  for (const char* depth : {"1", "2"}) {
    ASSERT_EQ(crashcut(with(with({"run", "--depth", depth, "--json", "r.json"}, bytes_), {name})).exit_code, 0);
    const auto whole = result();
    EXPECT_EQ(whole["counts"]["recoveries"], depth[0] == '1' ? 32 : 32 + 32 * 8);
    const std::string out = std::string("part") + depth;
    Ran run = crashcut(
        with(with({"run", "--depth", depth, "--max-recoveries", "7", "--jobs", "1", "--out", out}, bytes_), {name}));
    ASSERT_EQ(run.exit_code, 3) << run.err;
    EXPECT_TRUE(run.says(" run --resume " + out)) << run.out;
    int stops = 0;
    for (; run.exit_code == 3 && stops < 100; ++stops) {
      run = crashcut({"run", "--resume", out, "--max-recoveries", std::to_string(9 + stops), "--jobs",
                      stops % 2 == 0 ? "2" : "1", "--json", "r.json"});
    }
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    EXPECT_GT(stops, 1);
    EXPECT_EQ(result()["outcomes"], whole["outcomes"]);
    EXPECT_EQ(result()["counts"], whole["counts"]);
    EXPECT_EQ(result()["verdict"], "verified");
    EXPECT_FALSE(fs::exists(directory_ / out / "rest"));
  }
}

// A comparison goes on with each model where that was stopped, and keeps the models that are done.
TEST_F(ResumeTest, AComparisonGoesOnWhereItWasStopped) {
  const std::string name = program("five.c", kFive);
  ASSERT_EQ(crashcut(with(with({"compare", "--json", "r.json"}, bytes_), {name})).exit_code, 0);
  const auto whole = result();
  ASSERT_EQ(whole.size(), 5u);
  Ran run = crashcut(with(with({"compare", "--max-recoveries", "9", "--out", "part"}, bytes_), {name}));
  int stops = 0;
  for (; run.exit_code == 3 && stops < 100; ++stops) {
    EXPECT_TRUE(run.says("resume: ")) << run.out;
    EXPECT_TRUE(run.says(" compare --resume part")) << run.out;
    run = crashcut({"compare", "--resume", "part", "--max-recoveries", std::to_string(8 + stops), "--memory-limit",
                    "1G", "--json", "r.json"});
  }
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_GT(stops, 1);
  const auto resumed = result();
  ASSERT_EQ(resumed.size(), whole.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const char* key : {"model", "verdict", "outcomes", "counts", "bound_hit", "resume"})
      EXPECT_EQ(resumed[i][key], whole[i][key]) << key;
  }
  EXPECT_FALSE(fs::exists(directory_ / "part" / "rest"));
  expect_refused({"compare", "--resume", "part"}, "there is nothing to resume");
}

TEST_F(ResumeTest, AComparisonIsGoneOnWithAsItWasBegun) {
  const std::string name = program("five.c", kFive);
  ASSERT_EQ(crashcut(with(with({"compare", "--max-recoveries", "5", "--out", "part"}, bytes_), {name})).exit_code, 3);
  expect_refused({"compare", "--resume", "part", "--data", "journal"}, "--data cannot be given with it");
  expect_refused({"run", "--resume", "part"}, "part: ");
  const std::string text = read_file(directory_ / "part" / "rest");
  for (const std::size_t length : {text.size() / 2, std::size_t{4}}) {
    std::ofstream(directory_ / "part" / "rest") << text.substr(0, length);
    expect_refused({"compare", "--resume", "part"}, "part: ");
  }
  std::ofstream(directory_ / "part" / "rest") << text;
  program("five.c", std::string(kFive).replace(std::string(kFive).find("i < 5"), 5, "i < 4"));
  expect_refused({"compare", "--resume", "part"}, "of another recording");
}

TEST_F(ResumeTest, RefusesAProgramThatHasChangedAndOptionsThatTheSearchHad) {
  const std::string name = program("five.c", kFive);
  ASSERT_EQ(crashcut(with(with({"run", "--max-recoveries", "5", "--out", "part"}, bytes_), {name})).exit_code, 3);
  expect_refused({"run", "--resume", "part", "--depth", "2"}, "--depth cannot be given with it");
  expect_refused({"run", "--resume", "part", name}, "five.c cannot be given with it");
  expect_refused({"run", "--resume", "elsewhere"}, "there is nothing to resume");
  // The copy among the results is as it was.
  program("five.c", std::string(kFive) + "/* changed */\n");
  EXPECT_EQ(crashcut({"run", "--resume", "part", "--max-recoveries", "2"}).exit_code, 3);
  fs::remove(directory_ / "part" / "five.c");
  expect_refused({"run", "--resume", "part"}, "is not found as it was");
  std::ofstream(directory_ / "part" / "rest") << "cs2nonsense\n";
  expect_refused({"run", "--resume", "part"}, "part: ");
}

TEST_F(ResumeTest, WhatFailedBeforeIsTriedFirst) {
  const std::string name = program("rare.c", std::string(kFive).replace(std::string(kFive).find("printf"), 0,
                                                                        "if (strcmp(t, \"oonon\") == 0) abort(); "));
  const auto with_bytes = [&](std::vector<std::string> words) { return with(with(std::move(words), bytes_), {name}); };
  // Without knowing, one recovery finds nothing.
  EXPECT_EQ(crashcut(with_bytes({"run", "--max-recoveries", "1", "--out", "blind"})).exit_code, 3);
  ASSERT_TRUE(fs::create_directory(directory_ / "crashcut.out"));
  const Ran found = crashcut(with_bytes({"run", "--out", "crashcut.out/1"}));
  ASSERT_EQ(found.exit_code, 1) << found.err;
  const Ran again = crashcut(with_bytes({"run", "--max-recoveries", "1"}));
  EXPECT_EQ(again.exit_code, 1) << again.out << again.err;
  EXPECT_EQ(token_of(again), token_of(found));
  // A token of another model is of another program.
  EXPECT_EQ(crashcut(with_bytes({"run", "--data", "writeback", "--max-recoveries", "1"})).exit_code, 3);
}

// One state of a million, and it is near to nothing lost: the tree does not get there, samples do.
TEST_F(ResumeTest, SamplesWhatTheTreeDoesNotReach) {
  const std::string name =
      program("large.c",
              "int main(void) { int f = open(\"f\", O_CREAT | O_RDWR, 0600); char o[20]; memset(o, 'o', 20);\n"
              "  if (pwrite(f, o, 20, 0) != 20) return 1; fsync(f); crashcut_barrier();\n"
              "  for (int i = 0; i < 20; ++i) if (pwrite(f, \"n\", 1, i) != 1) return 1; return 0; }\n"
              "void crashcut_recover(void) { char t[21] = \"\"; int f = open(\"f\", O_RDONLY);\n"
              "  for (int i = 0; i < 20; ++i) if (pread(f, t + i, 1, i) != 1) exit(2);\n"
              "  if (strcmp(t, \"onnnnnnnnnnnnnnnnnnn\") == 0) abort(); }\n");
  const Ran run = crashcut(with(with({"run", "--max-recoveries", "6000", "--json", "r.json"}, bytes_), {name}));
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_EQ(result()["counts"]["recoveries"], 6000);
  EXPECT_GT(result()["counts"]["sampled"], 0);
  EXPECT_EQ(crashcut(replay_of(run)).exit_code, 1);
}

// A budget that is just enough for the whole tree is spent on that.
TEST_F(ResumeTest, ABudgetThatIsEnoughVerifies) {
  const std::string name = program("five.c", kFive);
  for (const char* most : {"32", "40", "1000"}) {
    const Ran run = crashcut(with(with({"run", "--max-recoveries", most}, bytes_), {name}));
    EXPECT_EQ(run.exit_code, 0) << most << run.out << run.err;
  }
}

// --time holds whatever is running. The limits of the program's parts are far beyond it.
TEST_F(ResumeTest, TimeHoldsWhateverIsRunning) {
  const std::string kRecover = "void crashcut_recover(void) { for (;;) {} }\n";
  const std::string names[] = {
      program("before.c", "__attribute__((constructor)) static void wait(void) { for (;;) {} }\n" +
                              std::string(kWriteA) + kRecover),
      program("in_main.c", "int main(void) { for (;;) {} }\n" + kRecover),
      program("in_recovery.c", std::string(kWriteA) + kRecover),
  };
  for (const std::string& name : names) {
    const auto begin = std::chrono::steady_clock::now();
    const Ran run = crashcut({"run", "--time", "1", name});
    EXPECT_EQ(run.exit_code, 3) << name << run.out << run.err;
    EXPECT_TRUE(run.says("bounded (time)")) << name << run.out;
    // The limit, two seconds, and a slow machine that compiles first.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30)) << name;
  }
}

// Of all models together, and not of each.
TEST_F(ResumeTest, TimeHoldsForAWholeComparison) {
  const std::string name = program("hang.c", std::string(kWriteA) + "void crashcut_recover(void) { for (;;) {} }\n");
  const Ran run = crashcut({"compare", "--time", "2", "--json", "-", name});
  EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
  double seconds = 0;
  for (const nlohmann::json& row : nlohmann::json::parse(run.out)) {
    EXPECT_EQ(row["verdict"], "bounded");
    seconds += row["seconds"].get<double>();
  }
  EXPECT_GT(seconds, 1);
  EXPECT_LT(seconds, 4);
}

// A recovery that hangs would hang again when it is told: the violation is still one, in time.
TEST_F(ResumeTest, AViolationThatHangsIsToldInTime) {
  const std::string name = recovery_of_a("if (open(\"a\", O_RDONLY) < 0) for (;;) {}");
  const auto begin = std::chrono::steady_clock::now();
  const Ran run = crashcut({"run", "--recovery-limit", "1", "--time", "4", name});
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

// The tree has half of the time, and its first recovery takes longer than that.
TEST_F(ResumeTest, AHangThatTakesMoreThanHalfOfTheTimeIsFound) {
  const std::string name = recovery_of_a("open(\"a\", O_RDONLY); for (;;) {}");
  const Ran run = crashcut({"run", "--recovery-limit", "2", "--time", "3.5", name});
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_TRUE(run.says("failed: 1 hang; ")) << run.out;
}

// What main() writes has no room: that is a bound, and no mistake of the user.
TEST_F(BoundsTest, MainThatWritesMoreThanTheMemoryLimitGetsAVerdict) {
  const std::string name =
      program("large.c",
              "static char block[1 << 20];\n"
              "int main(void) { int f = open(\"a\", O_CREAT | O_WRONLY, 0644);\n"
              "  for (unsigned i = 0; i < 1000; ++i) {\n"
              "    for (unsigned k = 0; k < sizeof block; ++k) block[k] = (char)(i * 7 + k * 13);\n"
              "    if (write(f, block, sizeof block) != sizeof block) return 1; }\n"
              "  return 0; }\n"
              "void crashcut_recover(void) {}\n");
  const Ran run = crashcut({"run", "--memory-limit", "400M", "--json", "r.json", name});
  EXPECT_EQ(run.exit_code, 3) << run.out << run.err;
  EXPECT_TRUE(run.says("--memory-limit was reached before main() had ended")) << run.out;
  const auto json = nlohmann::json::parse(read_file(directory_ / "r.json"));
  EXPECT_EQ(json["verdict"], "bounded");
  EXPECT_EQ(json["bound_hit"], "memory_limit");
  EXPECT_EQ(json["explored_fraction"], 0);
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

}  // namespace
}  // namespace crashcut
