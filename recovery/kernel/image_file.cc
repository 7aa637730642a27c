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
  return MappedFile({static_cast<const std::byte*>(mapped), size});
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

bool write_sparse(int file, std::span<const std::byte> bytes) {
  if (ftruncate(file, static_cast<off_t>(bytes.size())) != 0) return false;
  for (std::size_t at = 0; at < bytes.size(); at += kPage) {
    const auto page = bytes.subspan(at, std::min(kPage, bytes.size() - at));
    if (is_zero(page)) continue;
    if (pwrite(file, page.data(), page.size(), static_cast<off_t>(at)) != static_cast<ssize_t>(page.size()))
      return false;
  }
  return true;
}

sandbox::Fd memory_copy(std::span<const std::byte> bytes) {
  sandbox::Fd file(memfd_create("crashcut disk", MFD_CLOEXEC));
  if (file && !write_sparse(file.get(), bytes)) file.reset();
  return file;
}

}  // namespace crashcut::kernel
