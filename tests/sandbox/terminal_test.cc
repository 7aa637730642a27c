// A command in the foreground of a terminal, as nano typed by hand: what it reads, Ctrl-C, Ctrl-Z, and the terminal
// afterwards. The test is the person: it has the other side of a pseudo terminal.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/sandbox/inside.h"

namespace crashcut::sandbox {
namespace {

using Clock = std::chrono::steady_clock;

// A session of its own with a process that, as crashcut does, makes a sandbox and runs commands in it.
class Person {
 public:
  Person(Who who, const std::function<void(const Inside&)>& function) {
    fflush(nullptr);
    process_ = forkpty(&master_, nullptr, nullptr, nullptr);
    if (process_ != 0) return;
    become(who);
    termios before, after;
    tcgetattr(0, &before);
    Options options = options_for(who);
    options.with_terminal = true;
    auto sandbox = Sandbox::start(
        [&](const Inside& inside) {
          function(inside);
          return 0;
        },
        options);
    if (!sandbox) _exit(99);
    const int code = sandbox->wait();
    tcgetattr(0, &after);
    const bool is_same =
        before.c_lflag == after.c_lflag && before.c_iflag == after.c_iflag && before.c_oflag == after.c_oflag;
    printf("<end %d foreground %d settings %d>\n", code, tcgetpgrp(0) == getpgrp(), is_same);
    fflush(stdout);
    // Can it still read? Only the foreground can.
    char line[64] = {};
    if (fgets(line, sizeof line, stdin) != nullptr) printf("<after %s>", strtok(line, "\n"));
    fflush(stdout);
    _exit(0);
  }
  ~Person() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    close(master_);
  }

  void type(std::string_view keys) {
    ASSERT_EQ(write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  // Reads until the text has come; false, with what came instead, when it does not.
  testing::AssertionResult sees(const std::string& text) {
    const auto began = Clock::now();
    while (seen_.find(text) == seen_.npos) {
      pollfd p{master_, POLLIN, 0};
      char buffer[4096];
      ssize_t size = 0;
      if (poll(&p, 1, 100) > 0 && (size = read(master_, buffer, sizeof buffer)) <= 0) break;
      seen_.append(buffer, static_cast<std::size_t>(size));
      if (Clock::now() - began > std::chrono::seconds(10)) break;
    }
    if (const auto at = seen_.find(text); at != seen_.npos) {
      seen_.erase(0, at + text.size());
      return testing::AssertionSuccess();
    }
    return testing::AssertionFailure() << "waited for " << text << ", saw " << seen_;
  }
  const std::string& seen() const { return seen_; }

 private:
  pid_t process_ = -1;
  int master_ = -1;
  std::string seen_;
};

Command in_terminal(Command command) {
  command.with_terminal = true;
  command.stdin_fd = 0;
  command.stdout_fd = 1;
  command.stderr_fd = 2;
  command.limit = std::chrono::seconds(20);
  command.environment.push_back("TERM=vt100");
  return command;
}

void print(const Outcome& outcome) {
  printf("<%s>\n", to_text(outcome).c_str());
  fflush(stdout);
}

class Terminal : public testing::TestWithParam<Who> {
 protected:
  void SetUp() override { SKIP_IF_IMPOSSIBLE(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(As, Terminal, testing::Values(Who::kRoot, Who::kNobody, Who::kWithoutNamespaces),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(Terminal, IsReadByACommandAndComesBack) {
  Person person(GetParam(), [](const Inside& inside) {
    print(run(inside, in_terminal(shell("echo ready; read line; echo \"got $line\"; stty raw -echo; exit 3"))));
    print(run(inside, in_terminal(shell("echo again; read line < /dev/tty; echo \"got $line\""))));
  });
  ASSERT_TRUE(person.sees("ready"));
  person.type("hello\n");
  ASSERT_TRUE(person.sees("got hello"));
  ASSERT_TRUE(person.sees("<exit 3"));
  ASSERT_TRUE(person.sees("again"));
  person.type("world\n");
  ASSERT_TRUE(person.sees("got world"));
  ASSERT_TRUE(person.sees("<end 0 foreground 1 settings 1>"));
  person.type("more\n");
  EXPECT_TRUE(person.sees("<after more>"));
}

// crashcut itself has the standard action for SIGINT here: it would be dead.
TEST_P(Terminal, SendsInterruptsToTheCommandAlone) {
  Person person(GetParam(), [](const Inside& inside) {
    print(run(inside,
              in_terminal(shell("trap 'echo interrupted; exit 5' INT; echo ready; while :; do sleep 0.02; done"))));
    print(run(inside, in_terminal(shell("echo steady; exec sleep 1000"))));
  });
  ASSERT_TRUE(person.sees("ready"));
  person.type("\x03");
  ASSERT_TRUE(person.sees("interrupted"));
  ASSERT_TRUE(person.sees("<exit 5>"));
  ASSERT_TRUE(person.sees("steady"));
  person.type("\x03");
  ASSERT_TRUE(person.sees("<signal 2>"));
  ASSERT_TRUE(person.sees("<end 0 foreground 1 settings 1>"));
}

TEST_P(Terminal, IsNotStoppedFor) {
  Person person(GetParam(), [](const Inside& inside) {
    print(run(inside, in_terminal(shell("echo ready; read line; echo \"got $line\""))));
  });
  ASSERT_TRUE(person.sees("ready"));
  person.type("\x1a");
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  person.type("hello\n");
  ASSERT_TRUE(person.sees("got hello"));
  EXPECT_TRUE(person.sees("<end 0 foreground 1 settings 1>"));
}

TEST_P(Terminal, ServesAShellWithJobControl) {
  Person person(GetParam(), [](const Inside& inside) {
    print(run(inside, in_terminal(program({"bash", "--norc", "--noprofile", "-i"}))));
  });
  person.type("sh -c 'echo y$((6*7))y; exec sleep 1000'\n");
  ASSERT_TRUE(person.sees("y42y"));
  person.type("\x1a");
  ASSERT_TRUE(person.sees("Stopped"));
  person.type("kill -9 %1; disown -a; echo x$((6*7))x\n");
  ASSERT_TRUE(person.sees("x42x"));
  person.type("exit 3\n");
  ASSERT_TRUE(person.sees("<exit 3")) << person.seen();
  EXPECT_TRUE(person.sees("<end 0 foreground 1 settings 1>"));
}

TEST_P(Terminal, IsOutOfReachForOtherCommands) {
  Person person(GetParam(), [](const Inside& inside) {
    Command command = shell("(: < /dev/tty) 2>/dev/null && echo reached; exit 0");
    command.stdin_fd = kDevNull;
    print(run(inside, command));
  });
  EXPECT_TRUE(person.sees("<exit 0>"));
}

TEST_P(Terminal, ComesBackWhenTheSandboxIsKilled) {
  Person person(GetParam(), [](const Inside& inside) {
    // PID 1 ends by itself, in the middle of a command that has changed the settings.
    std::thread([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      _exit(77);
    }).detach();
    run(inside, in_terminal(shell("stty raw -echo; sleep 1000")));
  });
  EXPECT_TRUE(person.sees("<end 77 foreground 1 settings 1>"));
  person.type("more\n");
  EXPECT_TRUE(person.sees("<after more>"));
}

}  // namespace
}  // namespace crashcut::sandbox
