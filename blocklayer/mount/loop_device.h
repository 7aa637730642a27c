// LoopDevice: a file as a block device of the kernel, as long as this object lives.
//
// The device detaches itself when nobody has it open and nothing is mounted from it (LO_FLAGS_AUTOCLEAR). So a process
//   that is killed leaves none attached, whatever it was doing.
// Does not do: make device nodes. /dev must be the kernel's devtmpfs, or have the nodes already.
// Threads: any, one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace crashcut::blocklayer {

class LoopDevice {
 public:
  enum class Io { kBuffered, kDirect };
  // `file` is open for reading and writing, for kDirect with O_DIRECT; it need not stay open. Other processes look for
  // free devices at the same time, so an attempt that another one won is repeated. No request is smaller than a sector.
  // The error is a sentence.
  static tl::expected<LoopDevice, std::string> attach(int file, Io io, std::uint32_t sector_bytes);

  LoopDevice(LoopDevice&& other) noexcept
      : path_(std::exchange(other.path_, {})), device_(std::exchange(other.device_, -1)) {}
  LoopDevice& operator=(LoopDevice&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(device_, other.device_);
    return *this;
  }
  ~LoopDevice();

  // "/dev/loop3"
  const std::string& path() const { return path_; }
  int fd() const { return device_; }
  // The file was changed behind the device's back, which is not mounted: what the kernel has read of it is forgotten.
  bool forget_cache() const;

 private:
  LoopDevice(std::string path, int device) : path_(std::move(path)), device_(device) {}

  std::string path_;
  int device_ = -1;
};

}  // namespace crashcut::blocklayer
