// DeviceMount: a device as a file of a FUSE mount, for any program: pwrite, O_DIRECT, libaio, io_uring.
//
// The mount has the file `device`, of a fixed size, and the hidden directory .crashcut with the files marks and stdout.
// What arrives: every read and write in the bytes that were asked for, nothing is cached by the kernel. A write through
//   a descriptor with O_DIRECT is a request to the drive, with O_DSYNC or RWF_DSYNC one with FUA. Any other write is
//   buffered: whole sectors, in pages of 4096 bytes, and the program does not wait for the drive. fsync and fdatasync
//   are flushes. BLKFLSBUF writes back what is buffered and flushes nothing, as on a block device.
//   fallocate(FALLOC_FL_ZERO_RANGE), (FALLOC_FL_PUNCH_HOLE) and BLKZEROOUT write zeroes, BLKDISCARD discards. The
//   ioctls that ask for sizes work (block_ioctls.h). A misaligned O_DIRECT request is EINVAL, and what lies behind the
//   end ENOSPC.
// As few requests complete as the program allows: a request is answered, the oldest one or the newest one
//   (Setup::answers), only when every thread of the processes that wait sleeps, or has run for two milliseconds without
//   another request. A thread that sleeps in one of Setup::not_for_drive counts as one that runs. So whatever a program
//   does not wait for is still in flight.
// Below a loop device (Setup::is_below_loop) every request is answered at once, but writes that are held back: a write
//   that arrives while hold_arriving() is on stays in flight until release_held(), or for kHeldMost.
// Does not model: shared mappings (ENODEV).
// Threads: one serves the kernel, and calls the device; all other calls from any other thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "blocklayer/recorder.h"

namespace crashcut::blocklayer {

// What a mount serves.
class ServedDevice {
 public:
  virtual ~ServedDevice() = default;
  virtual std::uint64_t bytes() const = 0;
  virtual std::uint32_t sector_bytes() const = 0;
  // All of it lies inside the device. Returns 0 or an errno.
  virtual int read(std::uint64_t offset, std::span<std::byte> out) = 0;
  // As in DriveRecorder. `data` is empty unless it is a write.
  virtual RequestId issue(const Request& request, std::span<const std::byte> data) = 0;
  virtual void complete(RequestId id) = 0;
  // The text of .crashcut/marks and .crashcut/stdout.
  virtual std::string marks() { return {}; }
  virtual std::string lines() { return {}; }
  // What is written to .crashcut/stdout.
  virtual void on_stdout(std::string_view) {}
};

inline constexpr std::string_view kDeviceName = "device";

// Which of the requests in flight is answered first.
enum class Answers : std::uint8_t { kOldest, kNewest };

class DeviceMount {
 public:
  struct Setup {
    std::string directory;  // exists
    bool allow_others = false;
    Answers answers = Answers::kOldest;
    std::vector<long> not_for_drive{};  // system calls: a thread that sleeps in one of them does not wait for the drive
    bool is_below_loop =
        false;  // the kernel sends the requests: the serving thread must not wait for its own writeback
  };
  // The error is a sentence.
  static tl::expected<std::unique_ptr<DeviceMount>, std::string> start(const Setup& setup, ServedDevice& device);
  // Unmounts.
  ~DeviceMount();

  // From now on it serves `device`. Files that are open are stale.
  void show(ServedDevice& device);
  // Runs `action` in the serving thread, after all requests that were made before this call were received.
  void between_requests(const std::function<void()>& action);

  // See above. Turned off, it lets later writes pass; those that are held stay so.
  void hold_arriving(bool is_on);
  void release_held();
  static constexpr std::chrono::milliseconds kHeldMost{40};

  // What is buffered goes to the drive, which is not flushed: `process` calls sync().
  void write_back(pid_t process);
  // Below a loop device: the kernel is about to send a discard of this range.
  void expect_discard(std::uint64_t offset, std::uint64_t length);

  std::uint64_t request_count() const;

  struct Server;

 private:
  explicit DeviceMount(std::unique_ptr<Server> server);
  std::unique_ptr<Server> server_;
};

}  // namespace crashcut::blocklayer
