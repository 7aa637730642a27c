// Image files: what a disk holds, as a file or in memory, with holes for what is zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "recovery/sandbox/fd.h"

namespace crashcut::kernel {

// A file that is mapped for reading.
class MappedFile {
 public:
  // The error is a sentence.
  static tl::expected<MappedFile, std::string> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), parts_(std::exchange(other.parts_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(parts_, other.parts_);
    return *this;
  }
  ~MappedFile();
  std::span<const std::byte> bytes() const { return bytes_; }
  // The parts of it that are no holes of the file, in order. Between them are zeroes.
  const std::vector<std::span<const std::byte>>& parts() const { return parts_; }

 private:
  MappedFile(std::span<const std::byte> bytes, std::vector<std::span<const std::byte>> parts)
      : bytes_(bytes), parts_(std::move(parts)) {}
  std::span<const std::byte> bytes_;
  std::vector<std::span<const std::byte>> parts_;
};

// A file in memory with the same contents; no file where there is no memory.
sandbox::Fd memory_copy(const MappedFile& from);
// Writes what differs from zeroes. False: errno says why.
bool write_sparse(int file, std::span<const std::byte> bytes);

}  // namespace crashcut::kernel
