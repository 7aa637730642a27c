#include "recovery/device/devices.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "recovery/mounted/versions.h"

namespace crashcut::device {

using blocklayer::RequestKind;

tl::expected<std::unique_ptr<RecordedDevice>, std::string> RecordedDevice::create(
    const std::string& directory, const blocklayer::DeviceHeader& header, blocklayer::DeviceTraceWriter& trace) {
  std::string path = directory + "/device.XXXXXX";
  const int image = mkostemp(path.data(), O_CLOEXEC);
  if (image < 0) return tl::unexpected(fmt::format("Cannot make a file in {}: {}.", directory, std::strerror(errno)));
  unlink(path.c_str());
  if (ftruncate(image, static_cast<off_t>(header.bytes)) != 0) {
    const std::string why = std::strerror(errno);
    close(image);
    return tl::unexpected(fmt::format("Cannot make a device of {} bytes in {}: {}.", header.bytes, directory, why));
  }
  return std::unique_ptr<RecordedDevice>(new RecordedDevice(image, header, trace));
}

RecordedDevice::~RecordedDevice() { close(image_); }

int RecordedDevice::read(std::uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t count = pread(image_, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return EIO;
    out = out.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return 0;
}

void RecordedDevice::write(std::uint64_t offset, std::span<const std::byte> data) {
  while (!data.empty()) {
    const ssize_t count = pwrite(image_, data.data(), data.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      write_error_ = errno;
      return;
    }
    data = data.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

RequestId RecordedDevice::issue(const Request& request, std::span<const std::byte> data) {
  const std::uint64_t offset = request.first * sector_bytes();
  if (request.kind == RequestKind::kWrite) write(offset, data);
  if (request.kind == RequestKind::kZero || request.kind == RequestKind::kDiscard) {
    const auto length = static_cast<off_t>(request.count * sector_bytes());
    if (fallocate(image_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), length) != 0) {
      const std::vector<std::byte> zeroes(sector_bytes());
      for (std::uint64_t i = 0; i < request.count; ++i) write(offset + i * sector_bytes(), zeroes);
    }
  }
  return trace_.issue(request, data);
}

int CheckedDevice::read(std::uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    const Sector sector = offset / setup_.sector_bytes;
    const std::size_t in_sector = offset % setup_.sector_bytes;
    const auto part = out.first(std::min<std::size_t>(out.size(), setup_.sector_bytes - in_sector));
    if (const auto found = written_.find(sector); found != written_.end()) {
      std::copy_n(found->second.begin() + static_cast<std::ptrdiff_t>(in_sector), part.size(), part.begin());
    } else if (setup_.crashed == nullptr) {
      std::fill(part.begin(), part.end(), std::byte{0});
    } else if (const int error = setup_.crashed->read(sector, in_sector, part); error != 0) {
      return error;
    }
    out = out.subspan(part.size());
    offset += part.size();
  }
  return 0;
}

RequestId CheckedDevice::issue(const Request& request, std::span<const std::byte> data) {
  for (std::uint64_t i = 0; i < request.count; ++i) {
    std::vector<std::byte>& sector = written_[request.first + i];
    sector.assign(setup_.sector_bytes, std::byte{0});
    if (data.empty()) continue;
    std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(i * setup_.sector_bytes), setup_.sector_bytes,
                sector.begin());
  }
  if (setup_.recorder == nullptr) return 0;
  Request placed = request;
  placed.payload = setup_.payloads->add(data);
  return setup_.recorder->issue(placed);
}

void CheckedDevice::complete(RequestId id) {
  if (setup_.recorder != nullptr) setup_.recorder->complete(id);
}

std::string CheckedDevice::reached(bool wants_lines) {
  std::string text;
  for (const std::string& mark : setup_.marks) {
    if (mounted::is_promise(mark) == wants_lines) continue;
    if (setup_.crashed == nullptr || !setup_.crashed->reached(mark)) break;  // marks are a chain
    text += (wants_lines ? mark.substr(mark.find(": ") + 2) : mark) + "\n";
  }
  return text;
}

}  // namespace crashcut::device
