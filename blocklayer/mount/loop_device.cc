#include "blocklayer/mount/loop_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace crashcut::blocklayer {
namespace {

constexpr int kTriesMost = 1000;
constexpr useconds_t kBetweenTries_us = 500;

std::string explain_control(int error) {
  if (error == ENOENT || error == ENXIO || error == ENODEV)
    return "There is no /dev/loop-control on this machine: load the kernel module loop (modprobe loop), or give the "
           "container the device.";
  if (error == EACCES || error == EPERM) return "There is no permission to open /dev/loop-control: run as root.";
  return fmt::format("Cannot open /dev/loop-control: {}.", std::strerror(error));
}

}  // namespace

tl::expected<LoopDevice, std::string> LoopDevice::attach(int file, Io io, std::uint32_t sector_bytes) {
  const int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
  if (control < 0) return tl::unexpected(explain_control(errno));
  std::string why = "all are taken";
  for (int tries = 0; tries < kTriesMost; ++tries) {
    const int number = ioctl(control, LOOP_CTL_GET_FREE);
    if (number < 0) {
      why = std::strerror(errno);
      break;
    }
    const std::string path = fmt::format("/dev/loop{}", number);
    const int device = open(path.c_str(), O_RDWR | O_CLOEXEC);
    if (device < 0) {
      why = fmt::format("{}: {}", path, std::strerror(errno));
      if (errno != EBUSY && errno != ENXIO) break;
    } else {
      loop_config config{};
      config.fd = static_cast<__u32>(file);
      config.block_size = sector_bytes;
      config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
      if (io == Io::kDirect) config.info.lo_flags |= LO_FLAGS_DIRECT_IO;
      if (ioctl(device, LOOP_CONFIGURE, &config) == 0) {
        close(control);
        return LoopDevice(path, device);
      }
      why = fmt::format("{}: {}", path, std::strerror(errno));
      const bool is_taken = errno == EBUSY || errno == EAGAIN;
      close(device);
      if (!is_taken) break;
    }
    usleep(kBetweenTries_us);
  }
  close(control);
  return tl::unexpected(fmt::format("Cannot attach a loop device: {}.", why));
}

LoopDevice::~LoopDevice() {
  if (device_ >= 0) close(device_);
}

bool LoopDevice::forget_cache() const { return ioctl(device_, BLKFLSBUF, 0) == 0; }

}  // namespace crashcut::blocklayer
