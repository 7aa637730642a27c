// The process that serves a disk is killed while the kernel's ext4 on it is mounted and has something to write.
//
// The kernel unmounts the disk when the last thread of the mount namespace ends, and writes to it then. If that thread
//   is the one that serves the disk, it must not wait for itself: the process could never be ended.
// Skips where there is no root, no loop device, no /dev/fuse or no mkfs.ext4.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "blocklayer/mount/device_mount.h"
#include "blocklayer/mount/loop_device.h"
#include "recovery/device/devices.h"
#include "recovery/kernel/image_file.h"
#include "recovery/kernel/record.h"

namespace crashcut {
namespace {

namespace fs = std::filesystem;

// Which thread ends last is a matter of luck when a process is killed. Here one of them ends first.
enum class First { kAny, kMain };

// Never returns: it is killed, or ends with a status that says where it failed.
[[noreturn]] void serve_and_die(const std::string& directory, const kernel::DiskPlan& disk, First first) {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) _exit(2);
  const auto base = kernel::MappedFile::open(kernel::base_of(directory));
  if (!base) _exit(3);
  const sandbox::Fd image = kernel::memory_copy(*base);
  const blocklayer::DeviceHeader header{disk.drive.sector_bytes, base->bytes().size(), {"killed"}};
  auto writer = blocklayer::DeviceTraceWriter::create(kernel::run_of(directory, 1), header);
  if (!image || !writer) _exit(4);
  const auto device = device::RecordedDevice::over(dup(image.get()), header, **writer);
  const std::string served = kernel::device_directory(directory);
  const auto mounted =
      blocklayer::DeviceMount::start({.directory = served, .allow_others = true, .is_below_loop = true}, *device);
  if (!mounted) _exit(5);
  const sandbox::Fd file(open((served + "/device").c_str(), O_RDWR | O_DIRECT | O_CLOEXEC));
  auto loop = blocklayer::LoopDevice::attach(file.get(), blocklayer::LoopDevice::Io::kDirect, disk.drive.sector_bytes);
  if (!loop) _exit(6);
  const std::string directory_of_disk = mounted::disk_of(directory);
  if (kernel::mount_filesystem(disk.filesystem, loop->path(), directory_of_disk, false) != 0) _exit(7);
  std::ofstream(directory_of_disk + "/dirty") << std::string(300'000, 'x') << std::flush;
  if (first == First::kMain) syscall(SYS_exit, 0);  // this thread alone
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

void wait_for_end_of_main(pid_t process) {
  const std::string stat = "/proc/" + std::to_string(process) + "/stat";
  for (int tries = 0; tries < 600; ++tries) {
    std::string text;
    std::getline(std::ifstream(stat), text);
    if (text.find(") Z") != std::string::npos) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

TEST(DeviceKillTest, TheServerOfAMountedDiskCanBeKilled) {
  const std::string missing = kernel::what_is_missing({"ext4", ""});
  if (!missing.empty()) GTEST_SKIP() << missing;
  mounted::RecordPlan program;
  program.directory = (fs::temp_directory_path() / ("device_kill_test." + std::to_string(getpid()))).string();
  fs::create_directory(program.directory);
  kernel::DiskPlan disk{{"ext4", ""}, 16 << 20, {}, 1, 2};
  disk.drive.sector_bytes = 4096;
  ASSERT_TRUE(kernel::make_base(program, disk));
  for (int round = 0; round < 10; ++round) {
    const First first = round % 2 == 0 ? First::kMain : First::kAny;
    const pid_t child = fork();
    if (child == 0) serve_and_die(program.directory, disk, first);
    if (first == First::kMain) {
      wait_for_end_of_main(child);
      kill(child, SIGKILL);
    }
    int status = 0;
    pid_t ended = 0;
    for (int tries = 0; tries < 600 && ended == 0; ++tries) {
      ended = waitpid(child, &status, WNOHANG);
      if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    ASSERT_EQ(ended, child) << "round " << round << ": it waits for itself, and nothing can end it";
    ASSERT_TRUE(WIFSIGNALED(status)) << "round " << round << ": status " << WEXITSTATUS(status);
  }
  fs::remove_all(program.directory);
}

}  // namespace
}  // namespace crashcut
