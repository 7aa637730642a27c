// Random operations on the mount and on the host's ext4 at once: every result, errno, attribute and byte must be equal.
//
// A run is a row of seeds, each a row of operations in a fresh directory; it lasts some seconds, an hour with
//   CRASHCUT_LONG=1 (half of it for each way of caching). A seed that found a difference is printed: CRASHCUT_SEED=n
//   does it again. CRASHCUT_FSX_SECONDS sets how long.
// Compared: what each call returns; then the attributes of the file it was about; now and then the whole tree: names,
//   types, attributes, contents, symlinks, xattrs. Times: whether they are those that were set, or newer.
// Not compared, each with its reason:
//   st_blocks and a directory's size: ext4 counts blocks of its own (extent trees, xattrs) and allocates late;
//   st_ino and st_dev: numbers of another filesystem;
//   COLLAPSE_RANGE, INSERT_RANGE, RENAME_WHITEOUT, FS_IOC_*: the kernel's FUSE refuses them (fusefs/mount/mount.h);
//   direct writes of several blocks and a part of a sector: ext4 writes some of them before it fails; of a part of a
//   sector where there is no data: ext4 allocates the block before it fails, and a direct read can tell; copies by the
//   kernel through a direct descriptor: FUSE does not say that it is one;
//   sendfile from a file to itself: what is read may be what was just written;
//   with kNothing, the offset of a descriptor after it appended: the kernel counts from the size that it remembers;
//   with kNothing, whether a user may go through "." and "..": the kernel does not ask. And which of two errors a user
//   gets where one is for a lack of permission: the kernel asks for that when it goes on, not as it passes;
//   where there is data, by SEEK_DATA, SEEK_HOLE and direct reads, in seeds with stores to maps (every other one): a
//   store into a hole makes data of as many blocks as ext4 keeps in one folio; lseek on a directory: cookies are a
//   filesystem's own; fifos with kNothing: the kernel opens them without asking whether it may; times of a fifo: what
//   goes through it does not reach a FUSE filesystem.
#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <random>

#include "tests/fsx_side.h"
#include "tests/mounted.h"
#include "tests/seeds.h"

namespace crashcut::tests::fsx {
namespace {

using fusefs::Mount;

// A loop-mounted ext4 where that is possible: noatime, as ours is. Else a directory of the system, if it is on ext4.
class HostExt4 {
 public:
  HostExt4() {
    std::string pattern = (std::filesystem::temp_directory_path() / "crashcut_ext4_XXXXXX").string();
    base_ = mkdtemp(pattern.data());
    chmod(base_.c_str(), 0755);
    directory_ = base_ + "/m";
    std::filesystem::create_directory(directory_);
    const std::string image = base_ + "/image";
    const std::string command = fmt::format(
        "truncate -s 512M {0} && mkfs.ext4 -q -b 4096 {0} && mount -o loop,noatime {0} {1}", image, directory_);
    is_mounted_ = std::system((command + " 2>" + base_ + "/log").c_str()) == 0;
    // By default ext4 writes zeros to small preallocated ranges around a write, which then are data to SEEK_DATA.
    const std::string exact =
        fmt::format("echo 0 > /sys/fs/ext4/$(basename $(findmnt -no SOURCE {}))/extent_max_zeroout_kb", directory_);
    is_mounted_ = is_mounted_ && std::system((exact + " 2>>" + base_ + "/log").c_str()) == 0;
  }
  ~HostExt4() {
    if (is_mounted_) {
      EXPECT_EQ(std::system(("umount " + directory_).c_str()), 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(base_, ignored);
  }
  bool is_mounted() const { return is_mounted_; }
  const std::string& directory() const { return directory_; }

 private:
  std::string base_;
  std::string directory_;
  bool is_mounted_ = false;
};

// Where the two differ after the operation, or nothing.
std::string compare(const Op& op, Side& ours, Side& theirs, bool exact) {
  const Outcome a = ours.apply(op);
  const Outcome b = theirs.apply(op);
  const bool is_offset = exact && op.call == Call::kSeek && op.flags == SEEK_CUR;
  const auto is_denied = [](const Outcome& outcome) { return outcome.error == EACCES || outcome.error == EPERM; };
  const bool both_fail = exact && op.as_user && a.result < 0 && b.result < 0 && (is_denied(a) || is_denied(b));
  if (a != b && !is_offset && !both_fail) {
    return fmt::format("ours:   {}\n        slot: {}\next4's: {}\n        slot: {}\n{}", a.text(), ours.layout(op.slot),
                       b.text(), theirs.layout(op.slot), a.data != b.data ? difference(a.data, b.data) : "");
  }
  for (const std::string& path : {op.path, op.other_path}) {
    const std::string mine = ours.attributes(path), its = theirs.attributes(path);
    if (mine != its) return fmt::format("'{}' is\nours:   {}\next4's: {}", path, mine, its);
  }
  for (const std::size_t slot : {op.slot, op.other_slot}) {
    const std::string mine = ours.attributes(slot), its = theirs.attributes(slot);
    if (mine != its) return fmt::format("slot {} is\nours:   {}\next4's: {}", slot, mine, its);
  }
  return "";
}

std::string compare_trees(const Side& ours, const Side& theirs) {
  const std::string a = ours.tree(), b = theirs.tree();
  return a == b ? "" : fmt::format("the trees are\nours:\n{}\next4's:\n{}", a, b);
}

bool has_dots(const std::string& path) { return path.find("/.") != path.npos; }

// Whether nothing differed.
bool run_seed(std::uint64_t seed, const std::string& ours_root, const std::string& theirs_root,
              Mount::Caching caching) {
  constexpr int kOps = 400;
  const bool is_replay = std::getenv("CRASHCUT_SEED") != nullptr;  // then look at everything after each operation
  Side ours(fmt::format("{}/{}", ours_root, seed));
  Side theirs(fmt::format("{}/{}", theirs_root, seed));
  if (!ours.is_open() || !theirs.is_open()) {
    ADD_FAILURE() << "cannot make the directories of seed " << seed << ": " << std::strerror(errno);
    return false;
  }
  Generator generator(seed);
  std::vector<std::string> history;
  for (int i = 0; i < kOps; ++i) {
    Op op = generator.next();
    if (caching == Mount::Caching::kNothing && op.call == Call::kMkfifo) continue;
    if (caching == Mount::Caching::kNothing && (has_dots(op.path) || has_dots(op.other_path))) op.as_user = false;
    history.push_back(op.text());
    std::string what = compare(op, ours, theirs, caching == Mount::Caching::kNothing);
    if (what.empty() && (i % 80 == 79 || i == kOps - 1 || is_replay)) what = compare_trees(ours, theirs);
    if (what.empty()) continue;
    const std::size_t shown = std::min<std::size_t>(history.size(), 400);
    ADD_FAILURE() << "seed " << seed << ", operation " << i << " (CRASHCUT_SEED=" << seed << " does it again)\n"
                  << fmt::format("{}",
                                 fmt::join(history.end() - static_cast<std::ptrdiff_t>(shown), history.end(), "\n"))
                  << "\n"
                  << what;
    return false;
  }
  return true;
}

class Fsx : public testing::TestWithParam<Mount::Caching> {};

TEST_P(Fsx, TheMountIsAsTheHostsExt4) {
  if (const std::string why = why_no_mount(); !why.empty()) GTEST_SKIP() << why;
  const HostExt4 host;
  if (!host.is_mounted()) GTEST_SKIP() << "no loop device or no mkfs.ext4: nothing to compare with";
  umask(0);
  signal(SIGPIPE, SIG_IGN);  // there are fifos
  Mounted mounted({.caching = GetParam()});
  chmod(mounted.directory().c_str(), 0777);
  const auto run = [&](std::uint64_t seed) {
    return run_seed(seed, mounted.directory(), host.directory(), GetParam());
  };
  if (const char* text = std::getenv("CRASHCUT_SEED")) {
    run(std::strtoull(text, nullptr, 10));
    return;
  }
  // A short run does the same seeds as far as it comes; a long one goes on from a seed of its own.
  std::uint64_t seed = is_long_run() ? static_cast<std::uint64_t>(time(nullptr)) : 1;
  auto budget = is_long_run() ? std::chrono::seconds(1800) : std::chrono::seconds(4);
  if (const char* seconds = std::getenv("CRASHCUT_FSX_SECONDS")) budget = std::chrono::seconds(std::atoi(seconds));
  const auto end = std::chrono::steady_clock::now() + budget;
  std::uint64_t count = 0;
  for (; std::chrono::steady_clock::now() < end; ++seed, ++count) {
    if (!run(seed)) return;
  }
  std::printf("%lu seeds up to %lu\n", count, seed - 1);
}

INSTANTIATE_TEST_SUITE_P(Caching, Fsx, testing::Values(Mount::Caching::kKept, Mount::Caching::kNothing),
                         [](const auto& info) { return info.param == Mount::Caching::kKept ? "Kept" : "Nothing"; });

}  // namespace
}  // namespace crashcut::tests::fsx
