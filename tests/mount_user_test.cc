// A mount by somebody who is not root: fusermount3 makes it, and takes it away.
//
// The test is root's, so that it runs everywhere else does too: a child becomes nobody, in a mount namespace of its own
// where /dev/fuse is open to all.
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "tests/mounted.h"

namespace crashcut::tests {
namespace {

using fusefs::Mount;

constexpr uid_t kNobody = 65534;
constexpr int kSkipped = 77;

// Why nobody could mount, or empty.
std::string why_not_for_users() {
  if (geteuid() != 0) return "not root: cannot become another user";
  if (access("/dev/fuse", F_OK) != 0) return "no /dev/fuse";
  struct stat helper {};
  if (stat("/usr/bin/fusermount3", &helper) != 0 || !(helper.st_mode & S_ISUID))
    return "no fusermount3 that is setuid root";
  return "";
}

bool open_device_to_all() {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  struct stat device {};
  if (stat("/dev/fuse", &device) != 0) return false;
  if ((device.st_mode & 0666) == 0666) return true;
  const std::string copy = "/dev/crashcut_fuse." + std::to_string(getpid());
  const bool is_open = mknod(copy.c_str(), S_IFCHR | 0600, device.st_rdev) == 0 && chmod(copy.c_str(), 0666) == 0 &&
                       mount(copy.c_str(), "/dev/fuse", nullptr, MS_BIND, nullptr) == 0;
  unlink(copy.c_str());
  return is_open;
}

bool become_nobody() {
  return setgroups(0, nullptr) == 0 && setresgid(kNobody, kNobody, kNobody) == 0 &&
         setresuid(kNobody, kNobody, kNobody) == 0;
}

// Runs `body` as nobody, in a process of its own.
void run_as_nobody(const std::function<void()>& body) {
  if (const std::string why = why_not_for_users(); !why.empty()) GTEST_SKIP() << why;
  const pid_t child = fork();
  if (child == 0) {
    if (!open_device_to_all() || !become_nobody()) _exit(kSkipped);
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipped)
    GTEST_SKIP() << "no mount namespaces or no device nodes here";
  EXPECT_EQ(status, 0);
}

std::string line_of_mount(const std::string& directory) {
  std::ifstream mounts("/proc/self/mounts");
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(" " + directory + " ") != std::string::npos) return line;
  }
  return "";
}

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }
std::string get(const std::string& path) {
  std::ifstream in(path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

class UserMounts : public testing::TestWithParam<Mount::Caching> {};

TEST_P(UserMounts, WorksAsItDoesForRoot) {
  run_as_nobody([] {
    std::string directory;
    {
      Mounted mounted({.caching = GetParam()});
      directory = mounted.directory();
      const std::string line = line_of_mount(directory);
      EXPECT_NE(line.find("fuse.crashcut"), std::string::npos) << line;
      EXPECT_NE(line.find("user_id=" + std::to_string(kNobody)), std::string::npos) << line;

      put(mounted.path("a"), std::string(10'000, 'a'));
      EXPECT_EQ(get(mounted.path("a")), std::string(10'000, 'a'));
      struct stat status {};
      ASSERT_EQ(stat(mounted.path("a").c_str(), &status), 0);
      EXPECT_EQ(status.st_uid, kNobody);
      EXPECT_EQ(mkdir(mounted.path("d").c_str(), 0755), 0);
      EXPECT_EQ(rename(mounted.path("a").c_str(), mounted.path("d/b").c_str()), 0);
      EXPECT_EQ(setxattr(mounted.path("d/b").c_str(), "user.x", "1", 1, 0), 0);
      EXPECT_EQ(chmod(mounted.path("d/b").c_str(), 0600), 0);
      EXPECT_EQ(chown(mounted.path("d/b").c_str(), 0, 0), -1);
      EXPECT_EQ(errno, EPERM);
      const int fd = open(mounted.path("d/b").c_str(), O_RDWR);
      ASSERT_GE(fd, 0);
      EXPECT_EQ(pwrite(fd, "x", 1, 5000), 1);
      EXPECT_EQ(fsync(fd), 0);
      EXPECT_EQ(ftruncate(fd, 5001), 0);
      void* mapped = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, fd, 4096);
      ASSERT_NE(mapped, MAP_FAILED);
      EXPECT_EQ(static_cast<char*>(mapped)[5000 - 4096], 'x');
      munmap(mapped, 4096);
      close(fd);

      const std::vector<std::string> lines = mounted.finish();
      EXPECT_EQ(std::count(lines.begin(), lines.end(), "fsync(d/b)"), 1);
    }
    EXPECT_EQ(line_of_mount(directory), "");
  });
}

INSTANTIATE_TEST_SUITE_P(Caching, UserMounts, testing::Values(Mount::Caching::kKept, Mount::Caching::kNothing),
                         [](const auto& info) { return info.param == Mount::Caching::kKept ? "Kept" : "Nothing"; });

TEST(UserMount, ATraceOutlivesAServerThatIsKilled) {
  run_as_nobody([] {
    Mounted mounted({});
    put(mounted.path("a"), "text");
    mounted.kill_server();
    const auto trace = fusefs::TraceReader::open(mounted.trace_path());
    ASSERT_TRUE(trace) << trace.error();
    EXPECT_FALSE(trace->is_complete());
    std::string written;
    fusefs::TraceReader::Cursor cursor(*trace);
    for (fusefs::TraceOp op; cursor.next(op);) {
      if (op.call == fusefs::TraceCall::kWrite)
        written.append(reinterpret_cast<const char*>(op.data.data()), op.data.size());
    }
    EXPECT_EQ(written, "text");
    // Nobody unmounts it but he who may: fusermount3.
    EXPECT_EQ(std::system(("fusermount3 -u -z " + mounted.directory()).c_str()), 0);
    EXPECT_EQ(line_of_mount(mounted.directory()), "");
  });
}

}  // namespace
}  // namespace crashcut::tests
