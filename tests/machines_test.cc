// Several machines in one execution, in real programs: counts against the same program with threads and by hand,
// failures, restarts, what is told, and that no process stays behind.
#include <fcntl.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "machines_command.h"

namespace crashcut {
namespace {

// Machines that meet at an object have the schedules that threads have.
TEST_F(Machines, HaveTheSchedulesOfThreads) {
  const std::string machines = compile("meet"), threads = compile("meet", "-DTHREADS");
  for (const std::string& what :
       std::vector<std::string>{"mutex", "trylock", "semaphore", "condition", "barrier", "rwlock", "futex"}) {
    for (const char* jobs : {"--jobs 1 ", "--jobs 3 "}) {
      const std::uint64_t of_machines = executions(jobs + ("--failures 0 --machines 2 " + machines + " " + what));
      EXPECT_EQ(of_machines, executions(jobs + threads + " " + what, "threads")) << what;
      EXPECT_GT(of_machines, 1u) << what;
    }
  }
}

// Counted by hand: two parties that each lock and unlock twice, in any order of the four critical sections: 4! / (2!
// 2!). Two semaphores' users with one unit: 2.
TEST_F(Machines, HaveTheCountsThatHandsGive) {
  const std::string program = compile("meet");
  EXPECT_EQ(executions("--failures 0 --machines 2 " + program + " mutex"), 6u);
  EXPECT_EQ(executions("--failures 0 --machines 2 " + program + " semaphore"), 2u);
  EXPECT_EQ(executions("--failures 0 --machines 3 " + program + " semaphore"), 6u);
  EXPECT_EQ(executions("--failures 0 --machines 3 " + program + " nothing"), 1u);
}

TEST_F(Machines, AreNamedInDeadlocks) {
  const std::string program = compile("meet");
  const json report = check("--failures 0 --machines 2 " + program + " deadlock", 1);
  const std::string output = report["output"];
  EXPECT_NE(output.find("waits for mutex shared+40, which machine 1 holds"), std::string::npos) << output;
  EXPECT_NE(output.find("waits for mutex shared, which machine 0 holds"), std::string::npos) << output;
  EXPECT_EQ(run_replay(report).code, 1);
}

// A machine of n steps, its start and its end among them, fails before any of them or not at all: n + 1. Where the
// other one locks the same mutex: before the start or the lock, 1 each; while it is locked, before one of four accesses
// to shared memory or before the unlock, the other came before or takes it over; before the end, or not at all, before
// or after. So 1 + 1 + 5 * 2 + 2 + 2.
TEST_F(Machines, FailBeforeEveryStep) {
  const std::string program = compile("die");
  EXPECT_EQ(executions("--failures 0 --machines 2 " + program + " nobody"), 1u);
  EXPECT_EQ(executions("--never-fails 1 --machines 2 " + program + " nobody"), 3u);
  EXPECT_EQ(executions("--machines 2 " + program + " nobody"), 2u + 2 + 1);
  EXPECT_EQ(executions("--failures 2 --machines 2 " + program + " nobody"), 3u * 3);
  EXPECT_EQ(executions("--never-fails 1 --machines 2 " + program + " waits"), 3u);
  EXPECT_EQ(executions("--never-fails 1 --machines 2 " + program + " plain"), 16u);
  EXPECT_EQ(executions("--never-fails 1 --machines 2 " + program + " robust"), 16u);
  // Its thread's eight steps lie between its own create and join.
  EXPECT_EQ(executions("--never-fails 1 --machines 2 " + program + " thread"), 13u);
}

// The first incarnation fails before one of its 8 steps, and the second cannot; or the second does, or none.
// With two failures: 9 ends of the first, and 9 of the second.
TEST_F(Machines, BeginAgainWhenTheyAreRestarted) {
  const std::string program = compile("die");
  EXPECT_EQ(executions("--failures 0 --machines 2 " + program + " restart"), 1u);
  EXPECT_EQ(executions("--never-fails 1 --machines 2 " + program + " restart"), 8u + 8 + 1);
  EXPECT_EQ(executions("--never-fails 1 --failures 2 --machines 2 " + program + " restart"), 9u * 9);
}

// What only a failure shows is found, told with the machine that failed, and replays.
TEST_F(Machines, ThatTrustOthersAreFound) {
  const std::string program = compile("die");
  for (const std::string& what : std::vector<std::string>{"waits_trusts", "plain_trusts", "robust_forgets"}) {
    const json report = check("--never-fails 1 --machines 2 " + program + " " + what, 1);
    const std::string output = report["output"];
    EXPECT_NE(output.find("*** FAILS *** before: "), std::string::npos) << output;
    EXPECT_EQ(run_replay(report).code, 1) << what;
    EXPECT_EQ(check("--failures 0 --machines 2 " + program + " " + what, 0)["verdict"], "verified") << what;
  }
}

// A machine fails between two stores under a lock, which the next owner was not told of, or did not ask for.
TEST_F(Machines, FailBetweenTwoStores) {
  const json report = check("--never-fails 1 --machines 2 " + compile("die") + " plain_halves", 1);
  EXPECT_NE(std::string(report["output"]).find("begun == shared->done"), std::string::npos) << report["output"];
  EXPECT_EQ(run_replay(report).code, 1);
}

TEST_F(Machines, ThatAreDownAreNamedWhereTheyHoldALock) {
  const json report = check("--never-fails 1 --machines 2 " + compile("die") + " rwlock", 1);
  const std::string output = report["output"];
  EXPECT_NE(output.find("waits for rwlock shared+80, which machine 0, which is down, holds for writing"),
            std::string::npos)
      << output;
}

// Two machines wait for each other. Each failure would end that; no machine has to fail.
TEST_F(Machines, NeedNotFailToEndADeadlock) {
  const json report = check("--machines 2 " + compile("bad") + " wait", 1);
  const std::string output = report["output"];
  EXPECT_NE(output.find("machine 0    waits until machine 1 ends or fails"), std::string::npos) << output;
  EXPECT_EQ(run_replay(report).code, 1);
}

TEST_F(Machines, RaceForSharedVariablesAndNotForTheirOwn) {
  const std::string program = compile("bad");
  const std::string output = check("--failures 0 --machines 2 " + program + " race", 1)["output"];
  EXPECT_NE(output.find("data race between machine 0 and machine 1"), std::string::npos) << output;
  EXPECT_NE(output.find("writes numbers"), std::string::npos) << output;
  EXPECT_EQ(executions("--failures 0 --machines 2 " + program + " own"), 1u);
  EXPECT_EQ(executions("--failures 0 --machines 2 " + program + " atomic"), 2u);
  // What a failed machine did under a lock is before what the next owner does.
  EXPECT_EQ(executions("--never-fails 1 --machines 2 " + compile("die") + " plain"), 16u);
}

TEST_F(Machines, RunDifferentPrograms) {
  const std::string first = compile("die"), second = compile("die", "-O2");
  const json report = check("--never-fails 1 " + first + " " + second, 0);
  EXPECT_EQ(report["counts"]["executions"], 3u);
  EXPECT_EQ(check("--failures 0 " + first + " " + second + ":2", 0)["counts"]["executions"], 1u);
}

// Variables of such programs are not seen, and whether machines meet in them is not watched.
TEST_F(Machines, OfProgramsThatAreNotInstrumentedHaveABoundedVerdict) {
  const json report = check("--failures 0 --machines 2 " + compile("meet", "", false) + " mutex", 3);
  EXPECT_EQ(report["verdict"], "bounded");
  EXPECT_EQ(report["counts"]["executions"], 6u);
}

TEST_F(Machines, ThatGoWrongAreToldInASentence) {
  const std::string program = compile("bad");
  struct Row {
    const char* what;
    int code;
    const char* sentence;
  };
  for (const Row& row :
       {Row{"exit", 1, "machine 1 ended the process with exit code 3"}, Row{"segv", 1, "machine 1 died by SIGSEGV"},
        Row{"outside", 1, "machine 1 died by SIGSEGV"}, Row{"hang", 1, "machine 1 runs on without an operation"},
        Row{"fork", 2, "The program called fork()"}, Row{"larger", 2, "crashcut_cxl() with more bytes than before"}}) {
    const std::string output = check(
        std::string("--failures 0 --step-limit 0.5 --machines 2 ") + program + " " + row.what, row.code)["output"];
    EXPECT_NE(output.find(row.sentence), std::string::npos) << output;
  }
  const Ran setup = run("cxl --machines 2 " + compile("bad", "-DSETUP_FAILS"));
  EXPECT_EQ(setup.code, 2);
  EXPECT_NE(setup.output.find("crashcut_setup() failed"), std::string::npos) << setup.output;
  const Ran hangs = run("cxl --step-limit 0.5 --machines 2 " + compile("bad", "-DSETUP_HANGS"));
  EXPECT_EQ(hangs.code, 2);
  EXPECT_NE(hangs.output.find("crashcut_setup() takes longer than --step-limit allows"), std::string::npos)
      << hangs.output;
  // One of two machines never starts.
  const Ran ends = run("cxl " + program + " " + compile("bad", "-DENDS_EARLY"));
  EXPECT_EQ(ends.code, 2);
  EXPECT_NE(ends.output.find("ended before main() (exit code 3)"), std::string::npos) << ends.output;
}

// All programs are in the directory of the results.
TEST_F(Machines, AreReplayedWhereTheirProgramsAreNot) {
  const fs::path server = directory_ / "server.c", client = directory_ / "client.c", results = directory_ / "results";
  std::ofstream(server) << "int main(void) { return 0; }\n";
  std::ofstream(client) << "int main(void) { return 3; }\n";
  const Ran ran = run("cxl --failures 0 --out " + results.string() + " " + server.string() + " " + client.string());
  EXPECT_EQ(ran.code, 1) << ran.output;
  fs::remove(server);
  fs::remove(client);
  fs::rename(results, directory_ / "elsewhere");
  const Ran again = run("replay " + (directory_ / "elsewhere").string());
  EXPECT_EQ(again.code, 1) << again.output;
  EXPECT_NE(again.output.find("machine 1 ended the process with exit code 3"), std::string::npos) << again.output;
}

TEST_F(Machines, AreGivenByRightWords) {
  const std::string program = compile("bad");
  for (const std::string& words : std::vector<std::string>{
           "--machines 17 " + program, program + ":17", program + ":0", program + " /nowhere/program",
           "--machines 2 --never-fails 2 " + program, "--machines 0 " + program, std::string("--machines 2")}) {
    const Ran ran = run("cxl " + words);
    EXPECT_EQ(ran.code, 2) << words << "\n" << ran.output;
    EXPECT_NE(ran.output.find("crashcut: "), std::string::npos) << ran.output;
  }
}

// Processes whose command line has the text.
std::vector<pid_t> processes_with(const std::string& text) {
  std::vector<pid_t> found;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    // The process may end meanwhile: then there is nothing to read.
    FILE* in = fopen((entry.path() / "cmdline").c_str(), "r");
    if (in == nullptr) continue;
    std::array<char, 4096> part;
    const std::string line(part.data(), fread(part.data(), 1, part.size(), in));
    fclose(in);
    if (line.find(text) != std::string::npos && std::stoi(name) != getpid()) found.push_back(std::stoi(name));
  }
  return found;
}

// Whatever is killed, and whenever: a machine's process gives a sentence, the command's death takes all along.
TEST_F(Machines, LeaveNoProcessBehind) {
  const std::string program = compile("meet");
  for (int round = 0; round < 12; ++round) {
    const bool kills_command = round % 2 == 0;
    const pid_t command = fork();
    if (command == 0) {
      const int null = open("/dev/null", O_RDWR);
      for (int fd : {0, 1, 2}) dup2(null, fd);
      execl(CRASHCUT_COMMAND, CRASHCUT_COMMAND, "cxl", "--machines", "3", "--jobs", "2", "--all", program.c_str(),
            "mutex", nullptr);
      _exit(127);
    }
    // From the first machine on: before it, the command may not yet handle SIGTERM.
    for (int i = 0; i < 1000 && processes_with(program).size() < 2; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::this_thread::sleep_for(std::chrono::milliseconds(37 * round));
    for (const pid_t process : processes_with(program)) {
      if (kills_command ? process == command : process != command && process % 3 == round % 3) kill(process, SIGKILL);
    }
    if (!kills_command) kill(command, SIGTERM);
    int status = 0;
    ASSERT_EQ(waitpid(command, &status, 0), command);
    for (int i = 0; i < 200 && !processes_with(program).empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(processes_with(program).empty()) << "round " << round;
    EXPECT_EQ(WIFEXITED(status), !kills_command) << "round " << round;
  }
}

}  // namespace
}  // namespace crashcut
