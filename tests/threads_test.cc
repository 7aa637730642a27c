// crashcut threads on real programs: counts, findings, replays, bad input. Programs are compiled from tests/threads/
// and workloads/threads/.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "tests/threads_command.h"

namespace crashcut {
namespace {

TEST(Threads, PhilosophersWithAnArbiter) {
  EXPECT_EQ(executions("philosophers 2 arbiter"), 2u);
  EXPECT_EQ(executions("philosophers 4 arbiter"), 24u);
  EXPECT_EQ(executions("philosophers 6 arbiter"), 720u);
}

TEST(Threads, OneJobOrSeveralFindTheSame) {
  for (const char* jobs : {"--jobs 1", "--jobs 2", "--jobs 3"})
    EXPECT_EQ(executions("philosophers 5 arbiter", jobs), 120u) << jobs;
}

// Objects on main's stack are at the same place for all workers, whatever their descriptors' numbers.
TEST(Threads, ManyJobsAgreeOnObjectsOnTheStack) {
#ifdef __SANITIZE_THREAD__
  const char* many = "--jobs 4";  // it leaves no room in the address space for more
#else
  const char* many = "--jobs 16";
#endif
  EXPECT_EQ(executions("cpp barrier", many, 3), executions("cpp barrier", "--jobs 1", 3));
}

TEST(Threads, PhilosophersOneLeftHanded) {
  for (int n = 3; n <= 6; ++n) EXPECT_EQ(executions("philosophers " + std::to_string(n) + " left"), (1u << n) - 2);
}

TEST(Threads, PhilosophersWithASemaphore) {
  EXPECT_EQ(executions("philosophers 3 semaphore"), 6u);
  EXPECT_EQ(executions("philosophers 4 semaphore"), 14u);
}

// The reductions agree on the real binary too.
TEST(Threads, ReductionsAgree) {
  for (const char* reduction : {"none", "source", "optimal"}) {
    const json good = report(std::string("--all --reduction ") + reduction, "philosophers 2 left", 0);
    EXPECT_EQ(good["verdict"], "verified") << reduction;
    const json bad = report(std::string("--all --reduction ") + reduction, "philosophers 2 none", 1);
    EXPECT_EQ(bad["violation"]["kind"], "deadlock") << reduction;
  }
}

TEST(Threads, ADeadlockSaysWhoHoldsWhat) {
  const Ran ran = run("threads " + program("philosophers 3 none"));
  EXPECT_EQ(ran.code, 1);
  EXPECT_NE(ran.output.find("thread 1     holds mutex forks[0]; waits for mutex forks[1], which thread 2 holds  "
                            "[dine philosophers.c:31]"),
            std::string::npos)
      << ran.output;
  EXPECT_NE(ran.output.find("violation: deadlock"), std::string::npos);
}

struct Row {
  const char* words;
  const char* options;
  int code;
  const char* kind;
  const char* text;
};
class Findings : public ::testing::TestWithParam<Row> {};

TEST_P(Findings, AreFoundAndReplay) {
  const Row& row = GetParam();
  const json r = report(row.options, row.words, row.code);
  ASSERT_FALSE(r.is_discarded());
  if (row.code != 1) {
    EXPECT_EQ(r["verdict"], row.code == 0 ? "verified" : "bounded") << r.dump(1);
    return;
  }
  EXPECT_EQ(r["violation"]["kind"], row.kind) << r.dump(1);
  EXPECT_NE(r["violation"]["text"].get<std::string>().find(row.text), std::string::npos) << r["violation"]["text"];
  EXPECT_TRUE(r["violation"]["replays"].get<bool>());
  if (row.kind == std::string("no progress")) return;  // the replay would wait as long again
  const Ran replay = run_replay(r);
  EXPECT_EQ(replay.code, 1) << replay.output;
  EXPECT_NE(replay.output.find(row.text), std::string::npos) << replay.output;
}

INSTANTIATE_TEST_SUITE_P(
    Threads, Findings,
    ::testing::Values(
        Row{"mistakes signal", "", 1, "signal", "died by SIGSEGV"}, Row{"mistakes abort", "", 1, "signal", "SIGABRT"},
        Row{"mistakes kill-self", "", 1, "signal", "died by SIGKILL"},
        Row{"mistakes kill-by-thread", "", 1, "signal", "died by SIGKILL"},
        Row{"mistakes assert", "", 1, "assertion", "`turn == 0' failed"},
        Row{"mistakes lost-wakeup", "", 1, "deadlock", "deadlock"},
        Row{"mistakes self-lock", "", 1, "deadlock", "deadlock"}, Row{"mistakes spin", "", 0, "", ""},
        Row{"mistakes livelock", "", 1, "livelock", "loops"}, Row{"mistakes left", "", 0, "", ""},
        Row{"mistakes left", "--strict-exit", 1, "threads left", "still running"},
        Row{"mistakes detached", "", 0, "", ""}, Row{"mistakes non-owner", "", 1, "misuse", "another thread holds"},
        Row{"mistakes not-locked", "", 1, "misuse", "nobody holds"},
        Row{"mistakes destroy", "", 1, "misuse", "destroys a lock"},
        Row{"destroys mutex", "", 1, "misuse", "uses an object that was destroyed"},
        Row{"destroys semaphore", "", 1, "misuse", "uses an object that was destroyed"},
        Row{"destroys condition", "", 1, "misuse", "uses an object that was destroyed"},
        Row{"destroys rwlock", "", 1, "misuse", "uses an object that was destroyed"},
        Row{"destroys barrier", "", 1, "misuse", "uses an object that was destroyed"},
        Row{"destroys twice", "", 1, "misuse", "uses an object that was destroyed"},
        Row{"destroys anew", "", 0, "", ""}, Row{"destroys init", "", 0, "", ""}, Row{"destroys taken", "", 0, "", ""},
        Row{"destroys woken", "", 0, "", ""}, Row{"destroys leaving", "", 0, "", ""},
        Row{"mistakes join-twice", "", 1, "misuse", "joined before"},
        Row{"mistakes join-detached", "", 1, "misuse", "detached"},
        Row{"mistakes overflow", "", 1, "signal", "SIGSEGV"}, Row{"mistakes exit", "", 1, "exit", "exit code 3"},
        Row{"mistakes hang", "--step-limit 0.3", 1, "no progress", "runs on"},
        Row{"mistakes timeout", "", 1, "assertion", "timed out"},
        // Each of 249 executions waits for the limit several times.
        Row{"mistakes unseen-spin", "--step-limit 0.1", 3, "", ""},
        Row{"mistakes unseen-lock", "--step-limit 0.1", 3, "", ""},
        Row{"mistakes hang-early", "--step-limit 0.3", 1, "no progress", "runs on"},
        Row{"mistakes errorcheck", "", 0, "", ""},
        Row{"mistakes first-timeout", "--timeouts 0", 1, "assertion", "timed_out"},
        Row{"mistakes second-timeout", "--timeouts 0", 1, "assertion", "timed_out"},
        Row{"mistakes rwlock-twice", "", 0, "", ""}, Row{"mistakes rwlock-twice", "--policy rwlock=fifo", 0, "", ""},
        Row{"mistakes stack", "", 0, "", ""}, Row{"mistakes polls", "", 0, "", ""},
        Row{"mistakes polls-forever", "", 1, "livelock", "loops"}, Row{"rounds poll-and-sleep", "", 0, "", ""},
        Row{"rounds poll-by-semaphore", "", 0, "", ""}, Row{"rounds scoped_lock", "", 0, "", ""},
        Row{"rounds poll", "", 0, "", ""}, Row{"rounds poll-too-late", "", 1, "assertion", "value == 0"},
        Row{"rounds poll-for-ever", "", 1, "livelock", "loops"},
        Row{"rounds poll-for-each-other", "", 1, "livelock", "loops"},
        Row{"rounds give-up", "", 1, "assertion", "gave_up"}, Row{"mistakes gives-up", "", 0, "", ""},
        Row{"mistakes never-gives-up", "", 1, "assertion", "gave_up"}, Row{"mistakes handlers", "", 0, "", ""},
        Row{"mistakes handler-exits", "", 1, "exit", "exit code 5"},
        Row{"mistakes handler-ends", "", 1, "signal", "SIGSEGV"}, Row{"mistakes recursive", "", 0, "", ""},
        Row{"mistakes robust", "", 0, "", ""}, Row{"mistakes assume", "", 0, "", ""},
        Row{"mistakes assume-assert", "", 1, "assertion", "`turn != 0' failed"}, Row{"mistakes keys", "", 0, "", ""},
        Row{"mistakes files", "", 0, "", ""}, Row{"mistakes time", "", 0, "", ""},
        Row{"mistakes clocks", "", 0, "", ""}, Row{"mistakes till-late", "", 0, "", ""},
        Row{"mistakes old-sleeps", "", 0, "", ""}, Row{"mistakes stream", "", 0, "", ""},
        Row{"mistakes kill-thread", "", 0, "", ""}, Row{"mistakes pids", "", 0, "", ""},
        Row{"mistakes many-keys", "", 0, "", ""}, Row{"mistakes free-once", "", 0, "", ""},
        Row{"mistakes free-twice", "", 1, "misuse", "frees memory that was freed before"},
        Row{"mistakes free-inside", "", 1, "misuse", "frees what malloc() did not give"},
        Row{"mistakes main-exits", "", 0, "", ""}, Row{"mistakes cleanup", "", 0, "", ""},
        Row{"cancel wait", "", 0, "", ""}, Row{"cancel wait-leaks", "", 1, "deadlock", "deadlock"},
        Row{"cancel semaphore", "", 0, "", ""}, Row{"cancel signal", "", 0, "", ""},
        Row{"cancel sleeps", "", 0, "", ""}, Row{"cancel tests", "", 0, "", ""}, Row{"cancel computes", "", 0, "", ""},
        Row{"cancel signal", "--policy cond=fifo", 0, "", ""}, Row{"cancel signal", "--policy cond=lifo", 0, "", ""},
        Row{"cancel disabled", "", 0, "", ""}, Row{"cancel join", "", 0, "", ""}, Row{"cancel late", "", 0, "", ""},
        Row{"cancel write", "", 0, "", ""}, Row{"cancel write-all", "", 1, "assertion", "`st.st_size == 8' failed"},
        Row{"pool 2 2 right", "", 0, "", ""}, Row{"pool 2 2 early", "", 1, "assertion", "`done == jobs' failed"},
        Row{"meeting 3 barrier", "", 0, "", ""}, Row{"meeting 3 broadcast", "", 0, "", ""},
        Row{"meeting 3 lost", "", 1, "deadlock", "deadlock"}, Row{"producer_consumer 2 1 1 semaphore", "", 0, "", ""},
        Row{"producer_consumer 2 1 1 while", "--spurious 1", 0, "", ""},
        Row{"producer_consumer 2 1 1 if", "", 0, "", ""},
        Row{"producer_consumer 2 1 1 if", "--spurious 1", 1, "assertion", "failed"},
        Row{"mistakes timedjoin", "", 1, "exit", "exit code 6"}, Row{"cpp unwind", "", 0, "", ""},
        Row{"c11", "", 0, "", ""}, Row{"mistakes temporary", "", 0, "", ""},
        Row{"mistakes temporary", "--reduction source", 0, "", ""}, Row{"cpp mutex", "", 0, "", ""},
        Row{"cpp condition", "", 0, "", ""}, Row{"cpp shared", "", 0, "", ""}, Row{"cpp latch", "", 3, "", ""},
        Row{"cpp barrier", "", 3, "", ""}, Row{"cpp semaphore", "", 3, "", ""}, Row{"cpp once", "", 0, "", ""},
        Row{"cpp once-throws", "", 0, "", ""}, Row{"cpp random", "", 0, "", ""}, Row{"cpp elapsed", "", 3, "", ""},
        Row{"cpp atomic", "", 3, "", ""}, Row{"cpp future", "", 3, "", ""}, Row{"cpp local", "", 0, "", ""}),
    [](const auto& info) { return test_name(std::string(info.param.words) + " " + info.param.options); });

TEST(Threads, RefusesWhatItCannotFollow) {
  for (const auto& [words, text] : {std::pair{"mistakes fork", "fork()"}, std::pair{"mistakes socket", "socket()"},
                                    std::pair{"mistakes kill-server", "kill() of another process"},
                                    std::pair{"cancel asynchronous", "PTHREAD_CANCEL_ASYNCHRONOUS"}}) {
    const Ran ran = run("threads " + program(words));
    EXPECT_EQ(ran.code, 2) << words;
    EXPECT_NE(ran.output.find(text), std::string::npos) << ran.output;
  }
}

// The refusal names the file, and where there is a way without the mapping, that.
TEST(Threads, RefusesSharedMappingsByTheFilesName) {
  const Ran index = run("threads " + program("mistakes maps-index"));
  EXPECT_EQ(index.code, 2) << index.output;
  EXPECT_NE(index.output.find("mmap(MAP_SHARED) of notes.db-shm, writable (as SQLite does in WAL mode; with PRAGMA "
                              "locking_mode=EXCLUSIVE before the first access"),
            std::string::npos)
      << index.output;
  EXPECT_NE(index.output.find("`crashcut check` takes it, and runs one interleaving"), std::string::npos)
      << index.output;
  const Ran file = run("threads " + program("mistakes maps-file"));
  EXPECT_EQ(file.code, 2) << file.output;
  EXPECT_NE(file.output.find("mmap(MAP_SHARED) of notes, writable, which"), std::string::npos) << file.output;
}

TEST(Threads, RefusesOpenMpByName) {
  if (!std::filesystem::exists(program("openmp"))) GTEST_SKIP() << "the compiler has no OpenMP";
  const Ran ran = run("threads " + program("openmp"));
  EXPECT_EQ(ran.code, 2) << ran.output;
  EXPECT_NE(ran.output.find("OpenMP"), std::string::npos) << ran.output;
}

// Two producers and two consumers, each twice. With room for one item they take turns: so many orders of the producers
// times so many of the consumers. With room for two most orders are foreseen, not run.
TEST(Threads, ProducersAndConsumersInASmallBuffer) {
  EXPECT_EQ(executions("producer_consumer 2 2 2 semaphore 1"), 36u);
  const json r = report("--all", "producer_consumer 2 2 2 semaphore 2", 0);
  EXPECT_EQ(r["verdict"], "verified");
  EXPECT_EQ(r["counts"]["executions"], 288u);
  EXPECT_LT(r["counts"]["foreseen"], 10'000u);
  EXPECT_EQ(executions("producer_consumer 1 2 2 semaphore"), 8u);
}

// Native, then built on a condition variable: the same, dearer. 3! orders of whole critical sections without
// preference.
TEST(Threads, ReadersAndWritersInAllVariants) {
  EXPECT_EQ(executions("reader_writer 1 2 rwlock"), 6u);
  EXPECT_EQ(executions("reader_writer 1 2 mutex"), 6u);
  EXPECT_EQ(executions("reader_writer 1 2 rwlock", "--policy rwlock=readers"), 10u);
  EXPECT_EQ(executions("reader_writer 1 2 rwlock", "--policy rwlock=writers"), 32u);
  EXPECT_EQ(executions("reader_writer 1 2 cond"), 60u);
  EXPECT_EQ(executions("reader_writer 1 2 cond-readers"), 54u);
  EXPECT_EQ(executions("reader_writer 1 2 cond-writers"), 54u);
}

// Whoever came first gets it first, or last.
TEST(Threads, MutexesInLine) {
  EXPECT_EQ(executions("mistakes in-line", "--policy mutex=any"), 24u);
  EXPECT_EQ(executions("mistakes in-line", "--policy mutex=fifo"), 24u);
  EXPECT_EQ(executions("mistakes in-line", "--policy mutex=lifo"),
            24u * 14u);  // and the ways to put four on a stack and take them off
  EXPECT_EQ(report("--all --policy mutex=lifo --reduction source", "mistakes in-line", 0)["verdict"], "verified");
  for (const char* policy : {"mutex=fifo", "mutex=lifo", "rwlock=fifo", "rwlock=lifo"}) {
    for (const char* words :
         {"cpp condition", "mistakes recursive", "mistakes errorcheck", "mistakes robust", "cpp shared"}) {
      EXPECT_EQ(report(std::string("--policy ") + policy, words, 0)["verdict"], "verified") << policy << " " << words;
    }
  }
  EXPECT_EQ(report("--policy mutex=fifo", "mistakes self-lock", 1)["violation"]["kind"], "deadlock");
}

TEST(Threads, WhatThreadsDoNotMeetIn) { EXPECT_EQ(executions("cpp throws"), 1u); }

// One execution a place that the request can take among what heeds it.
TEST(Threads, CancellationPointsAreOperations) {
  EXPECT_EQ(executions("cancel wait"), 2u);
  EXPECT_EQ(executions("cancel semaphore"), 4u);
  EXPECT_EQ(executions("cancel late"), 4u);
  EXPECT_EQ(executions("cancel write"), 4u);
  EXPECT_EQ(report("--all --reduction none", "cancel join", 0)["verdict"], "verified");
  // Every schedule of this one takes minutes.
  EXPECT_EQ(report("--all --reduction source", "cancel signal", 0)["verdict"], "verified");
}

// Every schedule of one waiter that gets a signal and a cancellation says the same as the reductions, of the right
// program and of its wrong twin.
TEST(Threads, ACancelledWaitInEverySchedule) {
  for (const char* reduction : {"none", "source", "optimal"}) {
    const std::string options = std::string("--all --reduction ") + reduction;
    EXPECT_EQ(report(options, "cancel signal-one", 0)["verdict"], "verified") << reduction;
    const json wrong = report(options, "cancel signal-one-kept", 1);
    EXPECT_EQ(wrong["violation"]["kind"], "assertion") << reduction;
    EXPECT_EQ(wrong["violations"].size(), 1u) << reduction;
  }
  EXPECT_EQ(executions("cancel signal-one"), 4u);
}

TEST(Threads, CountsWhatIsAssumedAway) {
  const json r = report("", "mistakes assume", 0);
  EXPECT_EQ(r["counts"]["assumed_away_executions"], 1);
  EXPECT_EQ(r["counts"]["executions"], 1);
}

TEST(Threads, BadInput) {
  for (const char* arguments :
       {"threads", "threads /no/such/program", "threads /etc/passwd", "threads --reduction best /bin/true",
        "threads --policy mutex=best /bin/true", "threads --steps 0 /bin/true", "threads --preemptions -1 /bin/true",
        "replay cc2", "replay cc2AAAA", "replay cc2!!"}) {
    const Ran ran = run(arguments);
    EXPECT_EQ(ran.code, 2) << arguments << "\n" << ran.output;
    EXPECT_NE(ran.output.find("crashcut"), std::string::npos) << arguments;
  }
}

std::vector<pid_t> processes_of(const std::filesystem::path& executable) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& process : std::filesystem::directory_iterator("/proc")) {
    if (std::filesystem::read_symlink(process.path() / "exe", error) == executable && !error)
      found.push_back(std::stoi(process.path().filename()));
  }
  std::sort(found.begin(), found.end());
  return found;
}

// The search ends in the middle of what its workers do; whatever they were doing, they are gone with it.
TEST(Threads, LeavesNoProcess) {
  const std::filesystem::path copy = ::testing::TempDir() + "threads_test.left." + std::to_string(getpid());
  std::filesystem::copy_file(program("mistakes"), copy);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(run("threads --jobs 4 " + copy.string() + " assert").code, 1);
  for (int tries = 0; tries < 100 && !processes_of(copy).empty(); ++tries) usleep(50'000);
  EXPECT_TRUE(processes_of(copy).empty());
  std::filesystem::remove(copy);
}

// Somebody else kills what runs the program, the first or the last of its processes: that is no finding, and nothing
// stays.
TEST(Threads, WhoeverIsKilledItIsNoFinding) {
  const std::filesystem::path copy = ::testing::TempDir() + "threads_test.killed." + std::to_string(getpid());
  std::filesystem::copy_file(program("philosophers"), copy);
  int told = 0;
  for (const bool is_first : {true, false, false, true, false}) {
    FILE* pipe = popen((CRASHCUT_COMMAND " threads --jobs 1 " + copy.string() + " 7 arbiter 2>&1").c_str(), "r");
    std::vector<pid_t> processes;
    while (processes.size() < 3) processes = processes_of(copy);
    kill(is_first ? processes.front() : processes.back(), SIGKILL);
    Ran ran{-1, ""};
    for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) ran.output += static_cast<char>(c);
    const int status = pclose(pipe);
    // Between two executions nobody may miss it.
    const bool is_told =
        ran.output.find("was killed, from outside or because there was too little memory") != std::string::npos;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == (is_told ? 4 : 0)) << status << ran.output;
    told += is_told ? 1 : 0;
    for (int tries = 0; tries < 100 && !processes_of(copy).empty(); ++tries) usleep(50'000);
    EXPECT_TRUE(processes_of(copy).empty());
  }
  EXPECT_GT(told, 0);
  std::filesystem::remove(copy);
}

Ran run_until_ctrl_c(const std::string& arguments) {
  FILE* pipe = popen(
      ("timeout --foreground --preserve-status -s INT 1 " CRASHCUT_COMMAND " " + arguments + " 2>&1").c_str(), "r");
  Ran ran{-1, ""};
  for (int c = fgetc(pipe); c != EOF; c = fgetc(pipe)) ran.output += static_cast<char>(c);
  const int status = pclose(pipe);
  ran.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

// Nobody waits for --step-limit after Ctrl-C.
TEST(Threads, CtrlCEndsAHang) {
  const std::filesystem::path copy = ::testing::TempDir() + "threads_test.hangs." + std::to_string(getpid());
  std::filesystem::copy_file(program("mistakes"), copy);
  for (const char* words : {"hang", "hang-late"}) {
    const auto began = std::chrono::steady_clock::now();
    const Ran ran = run_until_ctrl_c("threads --jobs 1 --step-limit 120 " + copy.string() + " " + words);
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30)) << ran.output;
    EXPECT_EQ(ran.code, 3) << ran.output;
    EXPECT_NE(ran.output.find("bounded (interrupt): "), std::string::npos) << ran.output;
    const auto token = ran.output.find("--resume ");
    ASSERT_NE(token, std::string::npos) << ran.output;
    for (int tries = 0; tries < 100 && !processes_of(copy).empty(); ++tries) usleep(50'000);
    EXPECT_TRUE(processes_of(copy).empty());
    // It goes on with the execution that hung, the very first one too.
    const Ran again = run_until_ctrl_c("threads " + ran.output.substr(token, ran.output.find('\n', token) - token));
    EXPECT_EQ(again.code, 3) << again.output;
    EXPECT_NE(again.output.find("--resume "), std::string::npos) << again.output;
  }
  std::filesystem::remove(copy);
}

// Executions of some 50,000 steps with semaphores, which are foreseen before they are run.
TEST(Threads, CtrlCEndsForesight) {
  const auto began = std::chrono::steady_clock::now();
  const Ran ran = run_until_ctrl_c("threads --jobs 1 " + program("producer_consumer 6000 1 1 semaphore"));
  // One second until Ctrl-C, and two to hear it; the machine may be busy.
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(6)) << ran.output;
  EXPECT_EQ(ran.code, 3) << ran.output;
  EXPECT_NE(ran.output.find("bounded (interrupt): "), std::string::npos) << ran.output;
}

// With --all a bound after a violation is a bound, and what is left can be gone on with; what was found stays found.
TEST(Threads, ABoundAfterAViolation) {
  const json whole = report("--all --jobs 1", "philosophers 3 none", 1);
  EXPECT_TRUE(whole["bound_hit"].is_null() && whole["resume"].is_null());
  EXPECT_TRUE(report("--jobs 1", "philosophers 3 none", 1)["bound_hit"].is_null());
  // As many executions as it takes. (A search that ends with the first violation tries what it knows first.)
  int executions = 1;
  const auto bounded = [&] { return "--all --jobs 1 --max-executions " + std::to_string(executions) + " "; };
  while (executions < 100 && run("threads " + bounded() + program("philosophers 3 none")).code == 3) ++executions;
  json part = report(bounded(), "philosophers 3 none", 1);
  EXPECT_EQ(part["bound_hit"], "max_executions");
  const std::string file = ::testing::TempDir() + "threads_test.resumed." + std::to_string(getpid()) + ".json";
  for (int times = 0; part["resume"].is_string() && times < 100; ++times) {
    const std::string resume = part["resume"];
    const Ran ran = run("threads --json " + file + resume.substr(resume.find(" --resume")));
    EXPECT_EQ(ran.code, 1) << ran.output;
    std::ifstream in(file);
    part = json::parse(in, nullptr, false);
    EXPECT_EQ(part["verdict"], "violation") << ran.output;
  }
  EXPECT_EQ(part["counts"]["executions"], whole["counts"]["executions"]);
  EXPECT_EQ(part["counts"]["violations"], whole["counts"]["violations"]);
}

TEST(Threads, BoundsAreReportedAsBounds) {
  EXPECT_EQ(report("--max-executions 5", "philosophers 4 arbiter", 3)["bound_hit"], "max_executions");
  EXPECT_EQ(report("--time 0.001", "philosophers 6 arbiter", 3)["bound_hit"], "time");
  EXPECT_EQ(report("--steps 3", "philosophers 3 arbiter", 3)["bound_hit"], "steps");
  EXPECT_EQ(report("--preemptions 1", "philosophers 3 arbiter", 3)["bound_hit"], "preemptions");
  EXPECT_EQ(report("--preemptions 1", "philosophers 3 none", 1)["violation"]["kind"], "deadlock");
  EXPECT_EQ(report("--preemptions 100", "philosophers 2 arbiter", 0)["verdict"], "verified");
}

// Rounds: what needs none is found among the schedules that have none.
TEST(Threads, PreemptionsAreTriedFewFirst) {
  const json few = report("--preemptions 5", "mistakes self-lock", 1),
             none = report("--preemptions 0", "mistakes self-lock", 1);
  EXPECT_EQ(few["counts"]["executions"], none["counts"]["executions"]);
}

// What is searched stays as it was; how far, may change.
TEST(Threads, ResumeTakesOtherBoundsAndNoOtherOptions) {
  const json stopped = report("--max-executions 5", "philosophers 4 arbiter", 3);
  const std::string command = stopped["resume"];
  const std::string resume = command.substr(command.find("threads --resume "));
  EXPECT_EQ(run(resume + " --spurious 1").code, 2);
  EXPECT_EQ(run(resume + " " + program("philosophers 3 arbiter")).code, 2);
  EXPECT_NE(run(resume + " --max-executions 9").output.find("bounded (max_executions): 14 executions"),
            std::string::npos);
  const Ran whole = run(resume + " --max-executions 1000");
  EXPECT_EQ(whole.code, 0) << whole.output;
  EXPECT_NE(whole.output.find("all 24 executions"), std::string::npos) << whole.output;
}

}  // namespace
}  // namespace crashcut
