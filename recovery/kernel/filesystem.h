// KernelFilesystem: a filesystem of the running kernel, by name: "kernel:ext4", "kernel:ext4:data=journal,barrier=0".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "blocklayer/crash_images.h"

namespace crashcut::kernel {

inline constexpr std::string_view kPrefix = "kernel:";

struct KernelFilesystem {
  std::string type;     // "ext4", "xfs", "btrfs"
  std::string options;  // of the mount, as mount -o takes them; may be empty

  // "kernel:ext4:data=journal"
  std::string text() const;
  bool operator==(const KernelFilesystem&) const = default;
};

// Of a text that begins with kPrefix. The error is a sentence.
tl::expected<KernelFilesystem, std::string> parse_filesystem(std::string_view text);

// What this machine lacks to mount it, a sentence; empty: nothing.
std::string what_is_missing(const KernelFilesystem& filesystem);
// What a disk has by default, and at least.
std::uint64_t default_bytes(const KernelFilesystem& filesystem);
std::uint64_t least_bytes(const KernelFilesystem& filesystem);

// Makes an empty filesystem in the image, a file of its size, for a disk with such sectors. The error is a sentence.
tl::expected<void, std::string> make_filesystem(const KernelFilesystem& filesystem, const std::string& image,
                                                std::uint32_t sector_bytes);
// False: its mount options say that the journal does not flush the drive's cache.
bool has_barriers(const KernelFilesystem& filesystem);
// The blocks of its journal, where that is known: ext4. Empty: any block may matter at any time.
std::vector<std::uint64_t> journal_blocks(const KernelFilesystem& filesystem, const std::string& image);
// Says of each block what it is: a block of ext4's journal, a commit block in it, or neither. `block_bytes` is the unit
// of `block`; if it is not that of the journal, all blocks are plain.
std::function<blocklayer::BlockKind(std::uint64_t block, std::span<const std::byte> bytes)> block_kinds(
    std::vector<std::uint64_t> journal, std::uint32_t block_bytes);

// Mounts the device. Returns 0 or an errno.
int mount_filesystem(const KernelFilesystem& filesystem, const std::string& device, const std::string& directory,
                     bool is_read_only);
// Waits for what still holds it busy, a moment. Returns 0 or an errno; in any case it is no longer seen there.
int unmount_filesystem(const std::string& directory);

}  // namespace crashcut::kernel
