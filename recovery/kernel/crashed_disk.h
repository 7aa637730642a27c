// CrashedDisk: a crash image in memory under a loop device, mounted by the kernel, one image after the other.
//
// The loop device stays attached from image to image. What the last image and the kernel's recovery changed is found by
//   comparing the pages that hold anything with the base, and put back; then the image's own blocks are written.
// Threads: one.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "blocklayer/crash_images.h"
#include "blocklayer/mount/loop_device.h"
#include "recovery/kernel/filesystem.h"
#include "recovery/kernel/image_file.h"
#include "recovery/sandbox/fd.h"

namespace crashcut::kernel {

class CrashedDisk {
 public:
  // `base` outlives the disk. `directory` is where it is mounted. The error is a sentence.
  static tl::expected<std::unique_ptr<CrashedDisk>, std::string> make(const KernelFilesystem& filesystem,
                                                                      const MappedFile& base,
                                                                      const std::string& directory,
                                                                      std::uint32_t sector_bytes);
  ~CrashedDisk();
  CrashedDisk(const CrashedDisk&) = delete;

  // The disk is not mounted.
  void load(const std::vector<blocklayer::CrashImages::Block>& blocks, std::uint32_t block_bytes);
  // 0 or an errno.
  int mount(bool is_read_only);
  int unmount();
  // Of the image as it is now, for a person to look at. False: errno says why.
  bool save(const std::string& path) const;

 private:
  CrashedDisk(const KernelFilesystem& filesystem, std::span<const std::byte> base, std::string directory,
              sandbox::Fd file, std::span<std::byte> bytes, blocklayer::LoopDevice loop)
      : filesystem_(filesystem),
        base_(base),
        directory_(std::move(directory)),
        file_(std::move(file)),
        bytes_(bytes),
        loop_(std::move(loop)) {}
  void restore();

  KernelFilesystem filesystem_;
  std::span<const std::byte> base_;
  std::string directory_;
  sandbox::Fd file_;
  std::span<std::byte> bytes_;  // of the file
  blocklayer::LoopDevice loop_;
  bool is_mounted_ = false;
};

}  // namespace crashcut::kernel
