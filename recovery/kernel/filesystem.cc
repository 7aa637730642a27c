#include "recovery/kernel/filesystem.h"

#include <fmt/format.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

#ifndef MS_LAZYTIME
#define MS_LAZYTIME (1 << 25)
#endif

namespace crashcut::kernel {
namespace {

struct Kind {
  std::string_view type;
  std::string_view package;       // of mkfs, in Debian
  std::string_view make;          // the command, less the image
  std::uint64_t bytes, least;     // of a disk
  std::string_view for_mounting;  // options that every mount gets
};
constexpr std::uint64_t kMiB = 1 << 20;
// Two copies of one xfs are never mounted at a time unless their equal names are overlooked (nouuid).
constexpr Kind kKinds[] = {
    {"ext4", "e2fsprogs",
     "mkfs.ext4 -q -F -b 4096 -N 1024 -J size=4 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0", 64 * kMiB,
     9 * kMiB, ""},
    {"xfs", "xfsprogs", "mkfs.xfs -q -f -K", 300 * kMiB, 300 * kMiB, "nouuid"},
    {"btrfs", "btrfs-progs", "mkfs.btrfs -q -f -K", 128 * kMiB, 109 * kMiB, ""},
};

const Kind* find_kind(std::string_view type) {
  const auto* const found =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& kind) { return kind.type == type; });
  return found == std::end(kKinds) ? nullptr : found;
}

// What mount(8) turns into flags; everything else is the filesystem's own.
struct Flag {
  std::string_view name;
  unsigned long flag;
};
constexpr Flag kFlags[] = {{"ro", MS_RDONLY},
                           {"sync", MS_SYNCHRONOUS},
                           {"dirsync", MS_DIRSYNC},
                           {"noatime", MS_NOATIME},
                           {"nodiratime", MS_NODIRATIME},
                           {"relatime", MS_RELATIME},
                           {"strictatime", MS_STRICTATIME},
                           {"lazytime", MS_LAZYTIME},
                           {"nosuid", MS_NOSUID},
                           {"nodev", MS_NODEV},
                           {"noexec", MS_NOEXEC},
                           {"rw", 0}};

bool has_program(std::string_view name) {
  const char* const path = std::getenv("PATH");
  std::istringstream places(fmt::format("{}:/usr/sbin:/sbin", path ? path : ""));
  for (std::string place; std::getline(places, place, ':');) {
    if (access(fmt::format("{}/{}", place, name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

struct Output {
  bool is_fine = false;
  std::string text;
};
Output output_of(const std::string& command) {
  Output output;
  std::FILE* const pipe = popen(fmt::format("PATH=\"$PATH:/usr/sbin:/sbin\"; {}", command).c_str(), "re");
  if (pipe == nullptr) return output;
  char buffer[4096];
  for (std::size_t count; (count = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) output.text.append(buffer, count);
  output.is_fine = pclose(pipe) == 0;
  return output;
}

std::string quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

std::string KernelFilesystem::text() const {
  return fmt::format("{}{}{}{}", kPrefix, type, options.empty() ? "" : ":", options);
}

tl::expected<KernelFilesystem, std::string> parse_filesystem(std::string_view text) {
  const std::string_view rest = text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : std::string_view();
  const std::size_t colon = std::min(rest.find(':'), rest.size());
  const KernelFilesystem parsed{std::string(rest.substr(0, colon)),
                                std::string(rest.substr(std::min(colon + 1, rest.size())))};
  if (find_kind(parsed.type) == nullptr)
    return tl::unexpected(
        fmt::format("--fs {}: it is kernel:ext4, kernel:xfs or kernel:btrfs, with mount options after "
                    "another colon: kernel:ext4:data=journal.",
                    text));
  return parsed;
}

std::string what_is_missing(const KernelFilesystem& filesystem) {
  const Kind& kind = *find_kind(filesystem.type);
  if (geteuid() != 0) return fmt::format("{} mounts disks, which only root can.", filesystem.text());
  if (access("/dev/fuse", R_OK | W_OK) != 0)
    return "There is no /dev/fuse on this machine: load the kernel module fuse (modprobe fuse), or give the container "
           "the device.";
  if (access("/dev/loop-control", R_OK | W_OK) != 0)
    return "There is no /dev/loop-control on this machine: load the kernel module loop (modprobe loop), or give the "
           "container the device.";
  if (!has_program(fmt::format("mkfs.{}", filesystem.type)))
    return fmt::format("There is no mkfs.{} on this machine (Debian: {}).", filesystem.type, kind.package);
  std::ifstream known("/proc/filesystems");
  bool is_known = false;
  for (std::string word; known >> word;) is_known = is_known || word == filesystem.type;
  // A module that is not loaded is not listed; mounting loads it.
  if (!is_known && !output_of(fmt::format("modprobe {} 2>/dev/null", filesystem.type)).is_fine)
    return fmt::format("This kernel has no {}.", filesystem.type);
  return "";
}

std::uint64_t default_bytes(const KernelFilesystem& filesystem) { return find_kind(filesystem.type)->bytes; }
std::uint64_t least_bytes(const KernelFilesystem& filesystem) { return find_kind(filesystem.type)->least; }

tl::expected<void, std::string> make_filesystem(const KernelFilesystem& filesystem, const std::string& image,
                                                std::uint32_t sector_bytes) {
  const std::string sectors = filesystem.type == "xfs" ? fmt::format("-s size={}", sector_bytes) : "";
  const Output made = output_of(fmt::format("{} {} {} 2>&1", find_kind(filesystem.type)->make, sectors, quoted(image)));
  if (made.is_fine) return {};
  return tl::unexpected(fmt::format("mkfs.{} failed: {}", filesystem.type, made.text));
}

bool has_barriers(const KernelFilesystem& filesystem) {
  bool has = true;
  std::istringstream words(filesystem.options);
  for (std::string word; std::getline(words, word, ',');) {
    if (word == "barrier=0" || word == "nobarrier") has = false;
    if (word == "barrier" || word == "barrier=1") has = true;
  }
  return has;
}

std::vector<std::uint64_t> journal_blocks(const KernelFilesystem& filesystem, const std::string& image) {
  std::vector<std::uint64_t> blocks;
  if (filesystem.type != "ext4") return blocks;
  std::istringstream words(output_of(fmt::format("debugfs -R 'blocks <8>' {} 2>/dev/null", quoted(image))).text);
  for (std::uint64_t block; words >> block;) blocks.push_back(block);
  return blocks;
}

std::function<blocklayer::BlockKind(std::uint64_t, std::span<const std::byte>)> block_kinds(
    std::vector<std::uint64_t> journal, std::uint32_t block_bytes) {
  using blocklayer::BlockKind;
  constexpr std::uint32_t kJournalBlock = 4096;
  if (journal.empty() || block_bytes != kJournalBlock) return {};
  journal.erase(journal.begin());  // its superblock says where the log begins
  std::sort(journal.begin(), journal.end());
  return [journal](std::uint64_t block, std::span<const std::byte> bytes) {
    // linux/include/linux/jbd2.h: JBD2_MAGIC_NUMBER, JBD2_COMMIT_BLOCK
    constexpr unsigned char kCommit[] = {0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, 2};
    if (!std::binary_search(journal.begin(), journal.end(), block)) return BlockKind::kPlain;
    const bool is_commit = bytes.size() >= sizeof kCommit && std::memcmp(bytes.data(), kCommit, sizeof kCommit) == 0;
    return is_commit ? BlockKind::kCommit : BlockKind::kJournal;
  };
}

int mount_filesystem(const KernelFilesystem& filesystem, const std::string& device, const std::string& directory,
                     bool is_read_only) {
  unsigned long flags = is_read_only ? MS_RDONLY : 0;
  std::string own(find_kind(filesystem.type)->for_mounting);
  std::istringstream words(filesystem.options);
  for (std::string word; std::getline(words, word, ',');) {
    const auto* const flag =
        std::find_if(std::begin(kFlags), std::end(kFlags), [&](const Flag& known) { return known.name == word; });
    if (flag != std::end(kFlags)) {
      flags |= flag->flag;
    } else {
      own += (own.empty() ? "" : ",") + word;
    }
  }
  return mount(device.c_str(), directory.c_str(), filesystem.type.c_str(), flags, own.c_str()) == 0 ? 0 : errno;
}

int unmount_filesystem(const std::string& directory) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds kMost{5};
  for (const auto begin = Clock::now(); Clock::now() - begin < kMost;) {
    if (umount2(directory.c_str(), 0) == 0) return 0;
    if (errno != EBUSY) return errno;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  umount2(directory.c_str(), MNT_DETACH);
  return EBUSY;
}

}  // namespace crashcut::kernel
