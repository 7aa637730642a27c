// A sandbox and one command in it: what the command sees, how it ends, what is kept of its output, what it leaves.
#include "recovery/sandbox/sandbox.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "tests/sandbox/inside.h"

namespace crashcut::sandbox {
namespace {

using std::chrono::milliseconds;

class Sandboxed : public testing::TestWithParam<Who> {
 protected:
  void SetUp() override { SKIP_IF_IMPOSSIBLE(GetParam()); }

  // How the command ended, run by the test's user.
  std::string run_one(const Command& command) {
    return tell_from_inside(GetParam(), [&](const Inside& inside) { return to_text(run(inside, command)); });
  }
  bool has_namespaces() const { return GetParam() != Who::kWithoutNamespaces; }
};
INSTANTIATE_TEST_SUITE_P(As, Sandboxed, testing::Values(Who::kRoot, Who::kNobody, Who::kWithoutNamespaces),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(Sandboxed, IsTheSameUserInAWorldOfItsOwn) {
  const unsigned uid = GetParam() == Who::kNobody && geteuid() == 0 ? 65534 : geteuid();
  EXPECT_EQ(run_one(shell("id -u")), fmt::format("exit 0 out={}\n", uid));
  if (!has_namespaces()) return;
  EXPECT_EQ(tell_from_inside(GetParam(),
                             [](const Inside& inside) { return fmt::format("{} {}", getpid(), inside.has_proc); }),
            "1 true");
  // PID 1 and the shell: nothing else is to be seen.
  EXPECT_EQ(run_one(shell("set -- /proc/[0-9]*; echo $#")), "exit 0 out=2\n");
}

TEST_P(Sandboxed, KeepsItsMountsToItself) {
  if (!has_namespaces()) GTEST_SKIP() << "only namespaces do";
  EXPECT_EQ(run_one(shell("mount -t tmpfs crashcut-test /mnt 2>/dev/null; grep -c crashcut-test /proc/self/mounts")),
            GetParam() == Who::kRoot ? "exit 0 out=1\n" : "exit 1 out=0\n");
  std::ifstream mounts("/proc/self/mounts");
  const std::string all((std::istreambuf_iterator<char>(mounts)), {});
  EXPECT_EQ(all.find("crashcut-test"), all.npos);
}

TEST_P(Sandboxed, SaysHowACommandEnded) {
  EXPECT_EQ(run_one(shell("exit 3")), "exit 3");
  EXPECT_EQ(run_one(shell("kill -SEGV $$")), "signal 11");
  EXPECT_EQ(run_one(shell("echo to stdout; echo to stderr >&2")), "exit 0 out=to stdout\n err=to stderr\n");
  Command together = shell("echo a; echo b >&2; echo c");
  together.stderr_fd = kWithStdout;
  EXPECT_EQ(run_one(together), "exit 0 out=a\nb\nc\n");
}

TEST_P(Sandboxed, SaysWhyACommandCouldNotStart) {
  EXPECT_EQ(run_one(program({"no-such-program"})), "no-such-program: not found in PATH");
  EXPECT_EQ(run_one(program({"/no/such/program"})), "/no/such/program: not found");
  EXPECT_EQ(run_one(program({"/etc/passwd"})), "/etc/passwd: not executable");
  EXPECT_EQ(run_one(program({"/etc"})), "/etc: not executable");
  Command elsewhere = program({"true"});
  elsewhere.directory = "/no/such/directory";
  EXPECT_EQ(run_one(elsewhere), "cannot run true in /no/such/directory: No such file or directory");
  Command on_core = program({"true"});
  on_core.core = 1000;
  EXPECT_EQ(run_one(on_core), "cannot run true on core 1000: Invalid argument");
  EXPECT_EQ(run_one(Command{}), "no command was given");
}

TEST_P(Sandboxed, RunsScriptsWithAndWithoutAFirstLine) {
  char directory[] = "/tmp/crashcut-test-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  chmod(directory, 0755);
  const std::string with = std::string(directory) + "/with", without = std::string(directory) + "/without",
                    bad = std::string(directory) + "/bad";
  std::ofstream(with) << "#!/bin/sh\necho with $1\n";
  std::ofstream(without) << "echo without $1\n";
  std::ofstream(bad) << "#!/no/such/shell\n";
  for (const std::string& path : {with, without, bad}) chmod(path.c_str(), 0755);
  EXPECT_EQ(run_one(program({with, "x"})), "exit 0 out=with x\n");
  EXPECT_EQ(run_one(program({without, "x"})), "exit 0 out=without x\n");
  EXPECT_EQ(run_one(program({bad})), bad + ": its interpreter (the first line, or the dynamic loader) was not found");
  Command here = program({"./with", "x"});
  here.directory = directory;
  EXPECT_EQ(run_one(here), "exit 0 out=with x\n");
  for (const std::string& path : {with, without, bad}) unlink(path.c_str());
  rmdir(directory);
}

TEST_P(Sandboxed, GivesACommandThreeDescriptorsAndStandardSignals) {
  EXPECT_EQ(run_one(shell("cd /proc/self/fd; echo *; grep -E 'Sig(Blk|Ign)' /proc/self/status")),
            "exit 0 out=0 1 2 3\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");  // 3 is the shell's look
  Command closed = shell("test ! -t 0 && cat && readlink /proc/self/fd/2");
  closed.stderr_fd = kDevNull;
  EXPECT_EQ(run_one(closed), "exit 0 out=/dev/null\n");
}

TEST_P(Sandboxed, PinsACommand) {
  Command command = program({"nproc"});
  command.core = 0;
  EXPECT_EQ(run_one(command), "exit 0 out=1\n");
}

TEST_P(Sandboxed, KeepsTheLimitOfTime) {
  for (const char* script : {"sleep 1000", "trap '' TERM INT HUP; while :; do :; done", "sleep 1000 & sleep 1000"}) {
    Command command = shell(script);
    command.limit = milliseconds(100);
    const std::string text = run_one(command);
    EXPECT_EQ(text.substr(0, 4), "time") << script;
    EXPECT_EQ(text.find("stuck"), text.npos);
  }
}

TEST_P(Sandboxed, KeepsTheLimitOfOutput) {
  const std::string text = tell_from_inside(GetParam(), [](const Inside& inside) {
    Command command = program({"head", "-c", "1G", "/dev/zero"});
    std::size_t seen = 0;
    command.on_stdout = [&](std::string_view bytes) { seen += bytes.size(); };
    const Outcome outcome = run(inside, command);
    printf("1 GiB of output read and dropped in %.2f s\n", static_cast<double>(outcome.wall.count()) / 1e9);
    return fmt::format("exit {} kept {} cut {} seen {}", outcome.code, outcome.out.size(), outcome.is_out_cut, seen);
  });
  EXPECT_EQ(text, "exit 0 kept 65536 cut true seen 1073741824");
}

TEST_P(Sandboxed, KillsWhatACommandLeaves) {
  // In the background; daemonised, in a session of its own; holding the output open.
  EXPECT_EQ(run_one(shell("sleep 1000 & echo done")), "exit 0 out=done\n left=1");
  // The word comes when both are there, however slow the machine.
  EXPECT_EQ(
      run_one(shell(
          "(setsid sh -c 'trap \"\" TERM HUP; sleep 1000 & echo ready; exec sleep 1000' &) | read word; echo done")),
      "exit 0 out=done\n left=2");
  const std::string text = tell_from_inside(GetParam(), [](const Inside& inside) {
    std::string all;
    for (int i = 0; i < 20; ++i) {
      if (run(inside, shell("(setsid sleep 1000 &); sleep 1000 & exit 0")).is_stuck) all += "stuck ";
      if (waitpid(-1, nullptr, WNOHANG) != -1 || errno != ECHILD) all += "child ";
      if (inside.mode != Mode::kSubreaper && (kill(-1, 0) == 0 || errno != ESRCH)) all += "process ";
    }
    return all + ".";
  });
  EXPECT_EQ(text, ".");
}

TEST_P(Sandboxed, SurvivesAForkBomb) {
  Options options;
  options.max_processes = 2000;
  const std::string text = tell_from_inside(
      GetParam(),
      [&](const Inside& inside) {
        // Endless where the kernel sets it a bound; of 500 processes where not, so as not to take the machine along.
        Command command = shell(inside.mode == Mode::kSubreaper
                                    ? "f() { test $1 -gt 8 || { f $(($1+1)) & f $(($1+1)) & }; sleep 1000; }; f 1"
                                    // What could fork stays; a shell that cannot any more ends.
                                    : "f() { f & f & exec sleep 1000; }; f");
        command.stdout_fd = command.stderr_fd = kDevNull;
        command.limit = milliseconds(1000);
        const Outcome outcome = run(inside, command);
        printf("fork bomb: %u processes killed, %.2f s in all\n", outcome.left_running,
               static_cast<double>(outcome.wall.count()) / 1e9);
        fflush(stdout);
        const bool is_bomb = outcome.left_running > 50;
        return fmt::format("{} {} {}", is_bomb, outcome.is_stuck, to_text(run(inside, shell("echo next"))));
      },
      options);
  EXPECT_EQ(text, "true false exit 0 out=next\n");
}

TEST_P(Sandboxed, ReapsOrphansWhileACommandRuns) {
  if (!has_namespaces()) GTEST_SKIP() << "needs a limit of processes";
  Options options;
  options.max_processes = 400;
  const std::string text = tell_from_inside(
      GetParam(),
      [](const Inside& inside) {
        return to_text(run(
            inside,
            shell("for i in 1 2 3 4 5 6 7 8 9; do for k in 1 2 3 4 5 6 7 8 9 10; do (true &) ; done; sleep 0.12; done; "
                  "ps ax | grep -c defunct")));
      },
      options);
  // Some of the last round at most, and grep's own line; without reaping it would be 90.
  ASSERT_EQ(text.substr(0, 11), "exit 0 out=");
  EXPECT_LT(std::stoi(text.substr(11)), 30) << text;
}

TEST(Sandbox, ReturnsTheFunctionsCode) {
  auto sandbox = Sandbox::start([](const Inside&) { return 42; });
  ASSERT_TRUE(sandbox) << sandbox.error();
  EXPECT_EQ(sandbox->wait(), 42);
  EXPECT_EQ(sandbox->wait(), 42);
  sandbox->stop();
}

TEST(Sandbox, CanBeStopped) {
  for (const Mode mode : {probe().mode, Mode::kSubreaper}) {
    Options options;
    options.mode = mode;
    auto sandbox = Sandbox::start(
        [](const Inside& inside) {
          return run(inside, program({"sleep", "1000"})).code;
        },
        options);
    ASSERT_TRUE(sandbox) << sandbox.error();
    std::this_thread::sleep_for(milliseconds(20));
    sandbox->stop();
    // Of a supervisor one learns that it ended the sandbox, not more.
    EXPECT_EQ(sandbox->wait(), mode == Mode::kSubreaper ? 4 : 128 + SIGKILL);
  }
}

TEST(Sandbox, CleansUpWithoutNamespaces) {
  char path[] = "/tmp/crashcut-test-XXXXXX";
  close(mkstemp(path));
  Options options;
  options.mode = Mode::kSubreaper;
  options.cleanup = [&] { unlink(path); };
  {
    const auto sandbox = Sandbox::start([](const Inside&) { return pause(); }, options);
  }
  EXPECT_NE(access(path, F_OK), 0);
}

TEST(Sandbox, OutlivesTheThreadThatMadeIt) {
  for (const Mode mode : {probe().mode, Mode::kSubreaper}) {
    Options options;
    options.mode = mode;
    std::optional<Sandbox> sandbox;
    std::thread([&] {
      auto made = Sandbox::start(
          [](const Inside& inside) {
            char byte;
            return read(inside.socket, &byte, 1) == 1 ? byte : 1;
          },
          options);
      if (made) sandbox.emplace(std::move(*made));
    }).join();
    ASSERT_TRUE(sandbox);
    std::this_thread::sleep_for(milliseconds(50));
    const char byte = 7;
    ASSERT_EQ(write(sandbox->socket(), &byte, 1), 1);
    EXPECT_EQ(sandbox->wait(), 7);
  }
}

TEST(Sandbox, CanBeMadeInsideAnother) {
  if (geteuid() != 0) GTEST_SKIP() << "not root";
  if (const Permitted permitted = probe(); permitted.mode == Mode::kSubreaper) GTEST_SKIP() << permitted.why;
  const std::string text = tell_from_inside(Who::kRoot, [](const Inside&) {
    auto inner = Sandbox::start([](const Inside& inside) { return run(inside, shell("exit 5")).code; });
    return inner ? std::to_string(inner->wait()) : inner.error();
  });
  EXPECT_EQ(text, "5");
}

TEST(Sandbox, LeavesTheSystemsLimitOfProcessesAlone) {
  const auto limit = [] {
    std::string text;
    std::ifstream("/proc/sys/kernel/pid_max") >> text;
    return text;
  };
  const std::string before = limit();
  auto sandbox = Sandbox::start([](const Inside&) { return 0; });
  ASSERT_TRUE(sandbox);
  sandbox->wait();
  EXPECT_EQ(limit(), before);
}

}  // namespace
}  // namespace crashcut::sandbox
