// A FUSE filesystem whose server, PID 1 of the sandbox, takes requests and never answers. Callers then wait where not
// even SIGKILL gets them out: the kernel frees them only when the last descriptor of /dev/fuse is closed. No command
// may hold one, and the end of PID 1 must be enough.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "tests/sandbox/inside.h"

namespace crashcut::sandbox {
namespace {

// As much of the kernel's protocol as it takes to be mounted. Its header is for the filesystem's own file.
constexpr std::uint32_t kInit = 26;
struct InHeader {
  std::uint32_t length, opcode;
  std::uint64_t unique, node;
  std::uint32_t uid, gid, pid, padding;
};
struct InitAnswer {
  std::uint32_t length;
  std::int32_t error;
  std::uint64_t unique;
  std::uint32_t major, minor, readahead_bytes, flags;
  std::uint16_t background, congestion;
  std::uint32_t write_bytes;
  std::uint32_t rest[10];
};
static_assert(sizeof(InHeader) == 40 && sizeof(InitAnswer) == 16 + 64);

// Answers what the kernel asks at the mount, and nothing after it.
void serve_nothing(int fuse) {
  std::vector<char> buffer(1 << 20);
  while (read(fuse, buffer.data(), buffer.size()) > 0) {
    InHeader in;
    memcpy(&in, buffer.data(), sizeof in);
    if (in.opcode != kInit) continue;
    const InitAnswer answer{.length = sizeof answer, .unique = in.unique, .major = 7, .minor = 31, .write_bytes = 4096};
    if (write(fuse, &answer, sizeof answer) < 0) return;
  }
}

std::string mount_hanging(const std::string& source) {
  const int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (fuse < 0) return fmt::format("cannot open /dev/fuse: {}", strerror(errno));
  const std::string options = fmt::format("fd={},rootmode=40000,user_id=0,group_id=0", fuse);
  if (mount(source.c_str(), "/mnt", "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0)
    return fmt::format("cannot mount: {}", strerror(errno));
  std::thread([fuse] { serve_nothing(fuse); }).detach();
  return "";
}

bool is_mounted_anywhere(const std::string& source) {
  const std::string command = fmt::format("grep -qs {} /proc/[0-9]*/mountinfo", source);
  return system(command.c_str()) == 0;
}

class HangingMount : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "not root";
    const std::string why =
        tell_from_inside(Who::kRoot, [](const Inside&) { return mount_hanging("crashcut-try") + "."; });
    if (why != ".") GTEST_SKIP() << why;
  }
};

// Reading a directory, and loading a program: the latter is in vfork, with PID 1 waiting for it.
TEST_F(HangingMount, GoesWithPidOne) {
  for (const char* script : {"ls /mnt", "exec /mnt/program", "cd /mnt"}) {
    const std::string source = fmt::format("crashcut-hang-{}", getpid());
    auto sandbox = Sandbox::start([&](const Inside& inside) {
      if (!mount_hanging(source).empty()) return 1;
      Command command = shell(script);
      if (strstr(script, "exec") != nullptr) command = program({"/mnt/program"});
      if (strstr(script, "cd") != nullptr) command.directory = "/mnt/directory";
      return run(inside, command).code;
    });
    ASSERT_TRUE(sandbox) << sandbox.error();
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    EXPECT_TRUE(is_mounted_anywhere(source));
    sandbox->stop();
    EXPECT_EQ(sandbox->wait(), 128 + SIGKILL) << script;
    EXPECT_FALSE(is_mounted_anywhere(source)) << script;
  }
}

TEST_F(HangingMount, IsToldFromACommandThatEnds) {
  const std::string text = tell_from_inside(Who::kRoot, [](const Inside& inside) {
    mount_hanging("crashcut-hang");
    Command command = shell("ls /mnt");
    command.limit = std::chrono::seconds(2);  // a loaded machine has to get it into the mount by then
    return to_text(run(inside, command));
  });
  EXPECT_EQ(text, "time stuck");
}

}  // namespace
}  // namespace crashcut::sandbox
