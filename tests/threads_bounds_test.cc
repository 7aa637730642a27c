// crashcut threads ends in time: --time and signals, whatever is running. Each program here takes long at another
// place.
//
// A command ends at most two seconds after its time on an idle machine. The tests allow more, since others may run
// beside them; what they would take without the bound is far longer.
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "threads_command.h"

namespace crashcut {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr double kSlack_s = 5;

struct Ended {
  int code = -1;
  double seconds = 0;
  std::string output;
  json report;
};

class ThreadBounds : public ::testing::Test {
 protected:
  ThreadBounds() : directory_(fs::path(::testing::TempDir()) / ("threads_bounds." + std::to_string(getpid()))) {
    fs::create_directories(directory_ / "bin");
  }
  ~ThreadBounds() override { fs::remove_all(directory_); }

  // With `is_seen` its variables are seen, too.
  std::string compile(const std::string& name, const std::string& code, bool is_seen = false) {
    const std::string source = (directory_ / (name + ".c")).string(), program = (directory_ / name).string();
    std::ofstream(source) << "#include <assert.h>\n#include <fcntl.h>\n#include <pthread.h>\n#include <semaphore.h>\n"
                             "#include <time.h>\n#include <unistd.h>\n"
                             "static void compute(double s) { struct timespec t; volatile unsigned long n = 0;\n"
                             "  for (unsigned long i = 0; i < s * 3e8; ++i) ++n; (void)t; }\n"
                             "static void hang(void) { volatile int go = 1; while (go) {} }\n"
                          << code;
    const std::string flags = is_seen ? " $(" CRASHCUT_COMMAND " flags gcc)" : "";
    const std::string command = "gcc -w -g" + flags + " -o " + program + " " + source + " -pthread";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    return program;
  }
  // A command that is found before the real one, and never ends.
  void hang_in(const std::string& name) {
    const fs::path path = directory_ / "bin" / name;
    std::ofstream(path) << "#!/bin/sh\nsleep 1000\n";
    fs::permissions(path, fs::perms::owner_all);
  }

  // The signal, where there is one, comes that long after the first line.
  Ended run(const std::string& arguments, int signal = 0, double after_s = 0) {
    const std::string out = (directory_ / "out").string(), file = (directory_ / "report.json").string();
    fs::remove(file);
    fs::remove(out);
    const auto begin = Clock::now();
    const pid_t child = fork();
    if (child == 0) {
      const std::string command = "cd " + directory_.string() + " && PATH=" + (directory_ / "bin").string() +
                                  ":$PATH exec " CRASHCUT_COMMAND " threads --jobs 2 --json " + file + " " + arguments +
                                  " > out 2>&1";
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    auto asked = begin;
    if (signal != 0) {
      while (fs::exists(out) && fs::file_size(out) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      std::this_thread::sleep_for(std::chrono::duration<double>(after_s));
      asked = Clock::now();
      kill(child, signal);
    }
    int status = 0;
    waitpid(child, &status, 0);
    Ended ended;
    ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    ended.seconds = std::chrono::duration<double>(Clock::now() - asked).count();
    std::ifstream text(out), report(file);
    ended.output.assign(std::istreambuf_iterator<char>(text), {});
    ended.report = json::parse(report, nullptr, false);
    return ended;
  }
  // By --time, and by each signal.
  void expect_ends(const std::string& options, const std::string& program, int code, double time_s, double after_s) {
    const Ended by_time = run(options + " --time " + std::to_string(time_s) + " " + program);
    EXPECT_LT(by_time.seconds, time_s + kSlack_s) << by_time.output;
    EXPECT_EQ(by_time.code, code) << by_time.output;
    for (const int signal : {SIGTERM, SIGINT}) {
      const Ended by_signal = run(options + " " + program, signal, after_s);
      EXPECT_LT(by_signal.seconds, kSlack_s) << by_signal.output;
      EXPECT_EQ(by_signal.code, code) << by_signal.output;
    }
  }

  fs::path directory_;
};

constexpr const char* kTwoThreads =
    "static void* f(void*); int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); f(0); pthread_join(t, 0); "
    "return 0; }\n";

TEST_F(ThreadBounds, WhereAStepComputesForGood) {
  const std::string program =
      compile("step", std::string(kTwoThreads) + "static void* f(void* x) { hang(); return x; }");
  expect_ends("--step-limit 100", program, 3, 1, 1);
}

TEST_F(ThreadBounds, WhereAConstructorComputesForGood) {
  const std::string program =
      compile("constructor", "__attribute__((constructor)) static void f(void) { hang(); } int main(void) {}");
  expect_ends("", program, 3, 1, 1);
}

// The whole tree is left, and it can be gone on with.
TEST_F(ThreadBounds, AFirstExecutionThatIsStoppedLeavesTheWholeTree) {
  const std::string program = compile(
      "late",
      "pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static void* f(void* x) { pthread_mutex_lock(&m); "
      "pthread_mutex_unlock(&m); return x; }\n"
      "int main(void) { compute(4); pthread_t t; pthread_create(&t, 0, f, 0); f(0); pthread_join(t, 0); return 0; }");
  const Ended stopped = run("--time 0.5 --step-limit 100 " + program);
  ASSERT_EQ(stopped.code, 3) << stopped.output;
  EXPECT_EQ(stopped.report["counts"]["executions"], 0);
  EXPECT_EQ(stopped.report["bound_hit"], "time");
  ASSERT_TRUE(stopped.report["resume"].is_string()) << stopped.output;
  const std::string resume = stopped.report["resume"];
  const Ended whole = run(resume.substr(resume.find("--resume")) + " --time 1000");
  EXPECT_EQ(whole.code, 0) << whole.output;
  EXPECT_EQ(whole.report["counts"]["executions"], 2);
}

// The limit of a step is waited for once, not once more when the finding is replayed.
TEST_F(ThreadBounds, AHangIsNotWaitedForTwice) {
  const std::string program =
      compile("hang",
              "static void* f(void* x) { hang(); return x; }\n"
              "int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); return 0; }");
  constexpr double kLimit_s = 5;
  const Ended ended = run("--step-limit 5 " + program);
  EXPECT_EQ(ended.code, 1) << ended.output;
  EXPECT_EQ(ended.report["violation"]["kind"], "no progress");
  EXPECT_EQ(ended.report["violation"]["replays"], true) << ended.output;
  EXPECT_LT(ended.seconds, 2 * kLimit_s) << ended.output;
}

// The violation comes after some seconds of computing, and so does its replay.
TEST_F(ThreadBounds, WhereAFindingIsReplayed) {
  const std::string program = compile("failing", "int main(void) { compute(3); assert(0); }");
  const Ended whole = run("--step-limit 100 " + program);
  ASSERT_EQ(whole.code, 1) << whole.output;
  EXPECT_EQ(whole.report["violation"]["replays"], true);
  // By now it was found once, and is run again.
  const double found_s = whole.seconds * 0.55;
  const Ended ended = run("--step-limit 100 --time " + std::to_string(found_s) + " " + program);
  EXPECT_LT(ended.seconds, found_s + kSlack_s) << ended.output;
  const Ended stopped = run("--step-limit 100 " + program, SIGTERM, found_s);
  EXPECT_LT(stopped.seconds, kSlack_s) << stopped.output;
  for (const Ended* one : {&ended, &stopped}) {
    ASSERT_TRUE(one->code == 1 || one->code == 3) << one->output;  // 3: the machine was slower this time
    if (one->code == 3) continue;
    EXPECT_NE(one->output.find("failed: "), std::string::npos) << one->output;
    EXPECT_TRUE(one->report["replay"].is_string()) << one->output;
    const bool was_run_again = one->report["violation"]["replays"].is_boolean();
    EXPECT_EQ(one->output.find("There was no time left to run it again.") == std::string::npos, was_run_again);
  }
}

TEST_F(ThreadBounds, WhereARecoveryHangs) {
  const std::string program = compile(
      "recovery",
      "int main(void) { int f = open(\"a\", O_CREAT | O_WRONLY, 0644); write(f, \"x\", 1); close(f); return 0; }\n"
      "void crashcut_recover(void) { int f = open(\"a\", O_RDONLY); if (f >= 0) hang(); }");
  expect_ends("--recovery-limit 1000", program, 3, 1, 1);
  // One that ran into its limit is told, whatever time is left.
  const Ended ended = run("--recovery-limit 2 --time 4 " + program);
  EXPECT_LT(ended.seconds, 4 + kSlack_s) << ended.output;
  EXPECT_TRUE(ended.code == 1 || ended.code == 3) << ended.output;
}

TEST_F(ThreadBounds, WhereItIsAskedWhetherMainReturnsAnything) {
  const std::string program = compile("exit", "int main(void) { return 3; }");
  hang_in("gdb");
  expect_ends("", program, 1, 3, 3);
}

TEST_F(ThreadBounds, WhereARaceIsFollowed) {
  const std::string program =
      compile("followed",
              "static int shared; static void* f(void* x) { if (++shared == 2) hang(); return x; }\n"
              "int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); f(0); "
              "pthread_join(t, 0); return 0; }",
              true);
  expect_ends("--step-limit 100", program, 1, 3, 3);
}

// Thousands of steps that do not commute: looking for races takes long, and foreseeing long executions of semaphores.
TEST_F(ThreadBounds, WhereRacesAreLookedForAndExecutionsForeseen) {
  const std::string locks =
      compile("locks", std::string("pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n") + kTwoThreads +
                           "static void* f(void* x) { for (int i = 0; i < 8000; ++i) { pthread_mutex_lock(&m); "
                           "pthread_mutex_unlock(&m); } return x; }");
  expect_ends("", locks, 3, 2, 2);
  const std::string posts =
      compile("posts", std::string("sem_t s, u;\n") +
                           "static void* f(void* x) { for (int i = 0; i < 5000; ++i) { sem_post(&s); sem_wait(&s); } "
                           "return x; }\n"
                           "int main(void) { sem_init(&s, 0, 1); pthread_t t; pthread_create(&t, 0, f, 0); f(0); "
                           "pthread_join(t, 0); return 0; }");
  expect_ends("", posts, 3, 2, 2);
}

// ---- what was found before ------------------------------------------------------------------------------------

// Each yields when it is asked to, and to the other: that is no progress.
TEST_F(ThreadBounds, ThreadsThatComputeForGoodAreAHang) {
  const std::string program =
      compile("both",
              "static volatile unsigned long n[2]; static void* f(void* i) { for (;;) ++n[(long)i]; }\n"
              "int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); f((void*)1); }");
  const Ended ended = run("--step-limit 0.2 " + program);
  EXPECT_EQ(ended.code, 1) << ended.output;
  EXPECT_NE(ended.output.find("no progress"), std::string::npos) << ended.output;
}

TEST_F(ThreadBounds, WhatFailedBeforeIsTriedFirst) {
  const auto code = [](const char* first, const char* second) {
    return std::string(
               "pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;\n"
               "void both(pthread_mutex_t* x, pthread_mutex_t* y) { pthread_mutex_lock(x);\n"
               "  pthread_mutex_lock(y); pthread_mutex_unlock(y); pthread_mutex_unlock(x); }\n"
               "void* one(void* p) { both(&a, &b); return p; }\n"
               "void* two(void* p) { both(&") +
           first + ", &" + second +
           "); return p; }\n"
           "int main(void) { pthread_t t, u; pthread_create(&t, 0, one, 0); pthread_create(&u, 0, two, 0);\n"
           "  pthread_join(t, 0); pthread_join(u, 0); return 0; }\n";
  };
  const std::string program = compile("locks", code("b", "a"));
  fs::create_directory(directory_ / "crashcut.out");
  const Ended first = run("--out crashcut.out/1 " + program);
  ASSERT_EQ(first.code, 1) << first.output;
  ASSERT_GT(first.report["counts"]["executions"], 1);
  const Ended again = run(program);
  EXPECT_EQ(again.code, 1) << again.output;
  EXPECT_EQ(again.report["counts"]["executions"], 1);
  EXPECT_EQ(again.report["bound_hit"], first.report["bound_hit"]);
  EXPECT_EQ(again.report["token"], first.report["token"]);
  EXPECT_EQ(again.report["violation"]["text"], first.report["violation"]["text"]);
  EXPECT_EQ(again.report["violation"]["replays"], true);
  EXPECT_NE(again.output.find("It was found before and was tried first"), std::string::npos) << again.output;
  // Another model of time is another question, and all of it is asked with --all.
  EXPECT_GT(run("--timeouts 1 " + program).report["counts"]["executions"], 1);
  EXPECT_GT(run("--all " + program).report["counts"]["executions"], 1);
  // What was mended is searched whole.
  compile("locks", code("a", "b"));
  const Ended mended = run(program);
  EXPECT_EQ(mended.code, 0) << mended.output;
}

}  // namespace
}  // namespace crashcut
