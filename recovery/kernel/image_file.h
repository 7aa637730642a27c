// Image files: what a disk holds, as a file or in memory, with holes for what is zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>

#include "recovery/sandbox/fd.h"

namespace crashcut::kernel {

// A file that is mapped for reading.
class MappedFile {
 public:
  // The error is a sentence.
  static tl::expected<MappedFile, std::string> open(const std::string& path);
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~MappedFile();
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::span<const std::byte> bytes_;
};

// A file in memory with these contents; no file where there is no memory.
sandbox::Fd memory_copy(std::span<const std::byte> bytes);
// Writes what differs from zeroes. False: errno says why.
bool write_sparse(int file, std::span<const std::byte> bytes);

}  // namespace crashcut::kernel
