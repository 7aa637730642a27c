#include "recovery/kernel/crashed_disk.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace crashcut::kernel {

tl::expected<std::unique_ptr<CrashedDisk>, std::string> CrashedDisk::make(const KernelFilesystem& filesystem,
                                                                          const MappedFile& base,
                                                                          const std::string& directory,
                                                                          std::uint32_t sector_bytes) {
  sandbox::Fd file = memory_copy(base);
  if (!file) return tl::unexpected(fmt::format("No memory for the disk: {}.", std::strerror(errno)));
  const std::size_t size = base.bytes().size();
  void* const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return tl::unexpected(fmt::format("No memory for the disk: {}.", std::strerror(errno)));
  auto loop = blocklayer::LoopDevice::attach(file.get(), blocklayer::LoopDevice::Io::kBuffered, sector_bytes);
  if (!loop) {
    munmap(mapped, size);
    return tl::unexpected(loop.error());
  }
  return std::unique_ptr<CrashedDisk>(new CrashedDisk(filesystem, base.bytes(), directory, std::move(file),
                                                      {static_cast<std::byte*>(mapped), size}, std::move(*loop)));
}

CrashedDisk::~CrashedDisk() {
  if (is_mounted_) unmount();
  munmap(bytes_.data(), bytes_.size());
}

// A page that the file does not have was never written: it is as in the base, which has a hole there too.
void CrashedDisk::restore() {
  constexpr std::size_t kPage = 4096;
  const auto end = static_cast<off_t>(bytes_.size());
  for (off_t at = lseek(file_.get(), 0, SEEK_DATA); at >= 0 && at < end; at = lseek(file_.get(), at, SEEK_DATA)) {
    const off_t hole = std::min(lseek(file_.get(), at, SEEK_HOLE), end);
    for (; at < hole; at += kPage) {
      const std::size_t size = std::min<std::size_t>(kPage, bytes_.size() - static_cast<std::size_t>(at));
      if (std::memcmp(bytes_.data() + at, base_.data() + at, size) != 0)
        std::memcpy(bytes_.data() + at, base_.data() + at, size);
    }
  }
}

void CrashedDisk::load(const std::vector<blocklayer::CrashImages::Block>& blocks, std::uint32_t block_bytes) {
  restore();
  for (const auto& block : blocks) {
    if (block.offset + block_bytes > bytes_.size()) continue;
    if (block.bytes.empty()) {
      std::memset(bytes_.data() + block.offset, 0, block_bytes);
    } else {
      std::memcpy(bytes_.data() + block.offset, block.bytes.data(), block_bytes);
    }
  }
  loop_.forget_cache();
}

int CrashedDisk::mount(bool is_read_only) {
  const int error = mount_filesystem(filesystem_, loop_.path(), directory_, is_read_only);
  is_mounted_ = error == 0;
  return error;
}

int CrashedDisk::unmount() {
  is_mounted_ = false;
  return unmount_filesystem(directory_);
}

bool CrashedDisk::save(const std::string& path) const {
  const sandbox::Fd to(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  return to && write_sparse(to.get(), bytes_);
}

}  // namespace crashcut::kernel
