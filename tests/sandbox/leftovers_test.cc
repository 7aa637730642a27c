// kill -9, at random moments, of any process that takes part: nothing runs and nothing is mounted afterwards.
//
// What is looked at: a pipe that every process of a round holds open (at its end they are all dead, whatever they call
// themselves), the environment of all processes, and the mounts that any process of the system sees.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "tests/sandbox/inside.h"

namespace crashcut::sandbox {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

enum class Victim { kParent, kSandbox, kCommand };

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Processes in whose file of /proc the text is.
std::vector<pid_t> find_in_proc(const char* file, const std::string& text) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t pid = atoi(entry.path().filename().c_str());
    if (pid > 0 && read_all(fmt::format("/proc/{}/{}", pid, file)).find(text) != std::string::npos)
      found.push_back(pid);
  }
  return found;
}

// One process that makes a sandbox and runs in it, again and again, a command that leaves daemons.
class Round {
 public:
  Round(Who who, std::string mark) : who_(who), mark_(std::move(mark)) {
    int alive[2], pids[2];
    if (pipe2(alive, O_CLOEXEC) != 0 || pipe2(pids, O_CLOEXEC) != 0) abort();
    alive_ = Fd(alive[0]);
    Fd alive_out(alive[1]);
    const Fd pids_in(pids[0]);
    Fd pids_out(pids[1]);
    fflush(nullptr);
    parent_ = fork();
    if (parent_ == 0) be_parent(alive[1], pids[1]);
    alive_out.reset();
    pids_out.reset();
    if (read(pids_in.get(), &sandbox_, sizeof sandbox_) != sizeof sandbox_) sandbox_ = 0;
  }
  ~Round() {
    kill(parent_, SIGKILL);
    waitpid(parent_, nullptr, 0);
  }

  void kill_one(Victim victim) {
    if (victim == Victim::kParent) kill(parent_, SIGKILL);
    if (victim == Victim::kSandbox && sandbox_ > 0) kill(sandbox_, SIGKILL);
    if (victim == Victim::kCommand) {
      for (const pid_t pid : find_in_proc("environ", "CRASHCUT_TEST=" + mark_)) {
        kill(pid, SIGKILL);
        break;
      }
      // The sandbox goes on with the next command; it is then the parent's turn.
      std::this_thread::sleep_for(microseconds(500));
      kill(parent_, SIGKILL);
    }
  }

  // Until all are dead; how long it took, or nothing when it took too long.
  std::optional<std::chrono::milliseconds> wait_for_the_end() {
    const auto began = Clock::now();
    pollfd p{alive_.get(), POLLIN, 0};
    char buffer[256];
    while (Clock::now() - began < std::chrono::seconds(10)) {
      if (poll(&p, 1, 1000) > 0 && read(alive_.get(), buffer, sizeof buffer) == 0) {
        return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - began);
      }
    }
    return std::nullopt;
  }

 private:
  [[noreturn]] void be_parent(int alive, int pids) {
    become(who_);
    auto sandbox = Sandbox::start(
        [&](const Inside& inside) {
          // In place of the FUSE mount: the kernel treats all alike.
          if (inside.mode == Mode::kNamespaces) mount(mark_.c_str(), "/mnt", "tmpfs", 0, nullptr);
          Command command =
              shell("(setsid sh -c 'trap \"\" TERM HUP; sleep 1000 & sleep 1000' &); sleep 1000 & sleep 0.003");
          command.environment.push_back("CRASHCUT_TEST=" + mark_);
          command.stdout_fd = alive;
          while (true) run(inside, command);
          return 0;
        },
        options_for(who_));
    const pid_t pid = sandbox ? sandbox->pid() : 0;
    const bool is_told = write(pids, &pid, sizeof pid) == sizeof pid;
    close(pids);
    _exit(sandbox && is_told ? sandbox->wait() : 99);
  }

  Who who_;
  std::string mark_;
  Fd alive_;
  pid_t parent_ = -1;
  pid_t sandbox_ = 0;
};

class Leftovers : public testing::TestWithParam<Who> {};
INSTANTIATE_TEST_SUITE_P(As, Leftovers, testing::Values(Who::kRoot, Who::kNobody, Who::kWithoutNamespaces),
                         [](const auto& info) { return name_of(info.param); });

TEST_P(Leftovers, AreNoneAfterKillsAtRandomMoments) {
  SKIP_IF_IMPOSSIBLE(GetParam());
  const unsigned seed = static_cast<unsigned>(getpid());
  printf("seed %u\n", seed);
  std::mt19937 random(seed);
  std::chrono::milliseconds slowest{0};
  for (int i = 0; i < 50; ++i) {
    const std::string mark = fmt::format("crashcut-leftover-{}-{}", getpid(), i);
    const auto victim = static_cast<Victim>(i % 3);
    const auto when = microseconds(random() % 15000);
    {
      Round round(GetParam(), mark);
      std::this_thread::sleep_for(when);
      round.kill_one(victim);
      const auto took = round.wait_for_the_end();
      ASSERT_TRUE(took) << "round " << i << ", victim " << i % 3 << " after " << when.count()
                        << " us: something still runs";
      slowest = std::max(slowest, *took);
    }
    EXPECT_TRUE(find_in_proc("environ", "CRASHCUT_TEST=" + mark).empty()) << "round " << i;
    EXPECT_TRUE(find_in_proc("mountinfo", mark).empty()) << "round " << i;
  }
  printf("all gone %ld ms after the kill at the latest\n", static_cast<long>(slowest.count()));
}

// Kills before there is a sandbox: the processes on the way to it must notice too.
TEST_P(Leftovers, AreNoneAfterKillsDuringTheStart) {
  SKIP_IF_IMPOSSIBLE(GetParam());
  std::mt19937 random(static_cast<unsigned>(getpid()));
  for (int i = 0; i < 50; ++i) {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    const Fd in(ends[0]);
    Fd out(ends[1]);
    fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      become(GetParam());
      auto sandbox = Sandbox::start([](const Inside&) { return pause(); }, options_for(GetParam()));
      _exit(sandbox ? sandbox->wait() : 99);
    }
    out.reset();
    std::this_thread::sleep_for(microseconds(random() % 3000));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pollfd p{in.get(), POLLIN, 0};
    ASSERT_EQ(poll(&p, 1, 10000), 1) << "round " << i << ": something still runs";
  }
}

}  // namespace
}  // namespace crashcut::sandbox
