// The devices that are served: one that is recorded, and one that crashed.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <unordered_map>
#include <vector>

#include "blocklayer/crashed_drive.h"
#include "blocklayer/mount/device_mount.h"
#include "blocklayer/trace.h"

namespace crashcut::device {

using blocklayer::Request;
using blocklayer::RequestId;
using blocklayer::Sector;

// Every request goes into the trace. What the device holds is kept in a file without a name.
class RecordedDevice final : public blocklayer::ServedDevice {
 public:
  // `directory` is where the file is made. The error is a sentence.
  static tl::expected<std::unique_ptr<RecordedDevice>, std::string> create(const std::string& directory,
                                                                           const blocklayer::DeviceHeader& header,
                                                                           blocklayer::DeviceTraceWriter& trace);
  // The same over an image that is there: a file of the header's size, which belongs to the device from now on.
  static std::unique_ptr<RecordedDevice> over(int image, const blocklayer::DeviceHeader& header,
                                              blocklayer::DeviceTraceWriter& trace) {
    return std::unique_ptr<RecordedDevice>(new RecordedDevice(image, header, trace));
  }
  ~RecordedDevice() override;

  std::uint64_t bytes() const override { return header_.bytes; }
  std::uint32_t sector_bytes() const override { return header_.sector_bytes; }
  int read(std::uint64_t offset, std::span<std::byte> out) override;
  RequestId issue(const Request& request, std::span<const std::byte> data) override;
  void complete(RequestId id) override { trace_.complete(id); }
  void on_stdout(std::string_view text) override { stdout_to(text); }

  std::function<void(std::string_view)> stdout_to = [](std::string_view) {};
  int write_error() const { return write_error_; }

 private:
  RecordedDevice(int image, blocklayer::DeviceHeader header, blocklayer::DeviceTraceWriter& trace)
      : image_(image), header_(std::move(header)), trace_(trace) {}
  void write(std::uint64_t offset, std::span<const std::byte> data);

  int image_;
  blocklayer::DeviceHeader header_;
  blocklayer::DeviceTraceWriter& trace_;
  int write_error_ = 0;  // of the file: errno
};

// What a crash left, decided as it is read, under what its reader has written since.
class CheckedDevice final : public blocklayer::ServedDevice {
 public:
  struct Setup {
    blocklayer::CrashedDrive* crashed = nullptr;  // none: zeroes
    std::uint64_t bytes = 0;
    std::uint32_t sector_bytes = 512;
    blocklayer::DriveRecorder* recorder = nullptr;         // of what is written; none: nobody asks
    std::shared_ptr<blocklayer::MemoryPayloads> payloads;  // where there is a recorder
    std::vector<std::string> marks;                        // that the program made, in order
  };
  explicit CheckedDevice(Setup setup) : setup_(std::move(setup)) {}

  std::uint64_t bytes() const override { return setup_.bytes; }
  std::uint32_t sector_bytes() const override { return setup_.sector_bytes; }
  int read(std::uint64_t offset, std::span<std::byte> out) override;
  RequestId issue(const Request& request, std::span<const std::byte> data) override;
  void complete(RequestId id) override;
  std::string marks() override { return reached(false); }
  std::string lines() override { return reached(true); }

 private:
  std::string reached(bool wants_lines);

  Setup setup_;
  std::unordered_map<Sector, std::vector<std::byte>> written_;
};

}  // namespace crashcut::device
