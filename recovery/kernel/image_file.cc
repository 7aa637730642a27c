#include "recovery/kernel/image_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace crashcut::kernel {
namespace {

constexpr std::size_t kPage = 4096;

bool is_zero(std::span<const std::byte> bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// The parts of the file that are no holes; where the filesystem does not know, all of it.
std::vector<std::span<const std::byte>> find_parts(int file, std::span<const std::byte> bytes) {
  std::vector<std::span<const std::byte>> parts;
  const auto end = static_cast<off_t>(bytes.size());
  off_t at = lseek(file, 0, SEEK_DATA);
  if (at < 0 && errno != ENXIO) return {bytes};
  for (; at >= 0 && at < end; at = lseek(file, at, SEEK_DATA)) {
    const off_t begin = at;
    at = lseek(file, begin, SEEK_HOLE);
    if (at < 0 || at > end) at = end;
    parts.push_back(bytes.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(at - begin)));
  }
  return parts;
}

// Writes the pages of `bytes` that hold anything to the file, from `offset` on.
bool write_pages(int file, std::span<const std::byte> bytes, off_t offset) {
  for (std::size_t at = 0; at < bytes.size(); at += kPage) {
    const auto page = bytes.subspan(at, std::min(kPage, bytes.size() - at));
    if (is_zero(page)) continue;
    if (pwrite(file, page.data(), page.size(), offset + static_cast<off_t>(at)) != static_cast<ssize_t>(page.size()))
      return false;
  }
  return true;
}

}  // namespace

tl::expected<MappedFile, std::string> MappedFile::open(const std::string& path) {
  const sandbox::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat found {};
  if (!file || fstat(file.get(), &found) != 0)
    return tl::unexpected(fmt::format("Cannot open {}: {}.", path, std::strerror(errno)));
  if (found.st_size == 0) return tl::unexpected(fmt::format("{} is empty.", path));
  const auto size = static_cast<std::size_t>(found.st_size);
  void* const mapped = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (mapped == MAP_FAILED) return tl::unexpected(fmt::format("Cannot map {}: {}.", path, std::strerror(errno)));
  const std::span bytes(static_cast<const std::byte*>(mapped), size);
  return MappedFile(bytes, find_parts(file.get(), bytes));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

bool write_sparse(int file, std::span<const std::byte> bytes) {
  return ftruncate(file, static_cast<off_t>(bytes.size())) == 0 && write_pages(file, bytes, 0);
}

sandbox::Fd memory_copy(const MappedFile& from) {
  sandbox::Fd file(memfd_create("crashcut disk", MFD_CLOEXEC));
  if (!file || ftruncate(file.get(), static_cast<off_t>(from.bytes().size())) != 0) return {};
  for (const auto part : from.parts()) {
    if (!write_pages(file.get(), part, part.data() - from.bytes().data())) return {};
  }
  return file;
}

}  // namespace crashcut::kernel
