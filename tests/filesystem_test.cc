// The filesystem inode by inode: what the paths above it cannot show.
#include "fusefs/filesystem.h"

#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <sys/file.h>

#include <cerrno>
#include <set>

namespace crashcut::fusefs {
namespace {

const Credentials kRoot;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string read_all(Filesystem& fs, Ino ino) {
  std::string text(100, '\0');
  const std::int64_t n = fs.read(ino, 0, std::as_writable_bytes(std::span(text.data(), text.size())));
  text.resize(static_cast<std::size_t>(std::max<std::int64_t>(n, 0)));
  return text;
}

Ino new_file(Filesystem& fs, std::string_view name, std::string_view contents = "") {
  Ino ino{};
  EXPECT_EQ(fs.create(kRootIno, name, S_IFREG | 0644, 0, kRoot, ino), 0);
  if (!contents.empty()) {
    EXPECT_EQ(fs.write(ino, 0, bytes_of(contents), {}), static_cast<std::int64_t>(contents.size()));
  }
  return ino;
}

// ---- consistency between threads (PerSeVerE 2.3), with the other thread run inside on_step -----------------------

TEST(Threads, AReadMaySeeAnAppendBlockByBlock) {
  std::vector<std::string> seen;
  Filesystem* fs = nullptr;
  Ino ino{};
  bool is_reading = false;
  Filesystem the_fs({.sector_bytes = 1, .block_bytes = 3, .on_step = [&] {
                       if (std::exchange(is_reading, true)) return;  // the reader's own steps
                       seen.push_back(read_all(*fs, ino));
                       is_reading = false;
                     }});
  fs = &the_fs;
  ino = new_file(the_fs, "f", "foo");
  ASSERT_EQ(the_fs.write(ino, 0, bytes_of("barqux"), {.append = true}), 6);
  seen.push_back(read_all(the_fs, ino));
  EXPECT_EQ(std::set<std::string>(seen.begin(), seen.end()), (std::set<std::string>{"foobar", "foobarqux"}));
}

TEST(Threads, AReadMaySeeHalfOfAnOverwrite) {
  Filesystem* fs = nullptr;
  Ino ino{};
  bool done = true;
  Filesystem the_fs({.sector_bytes = 1, .block_bytes = 1, .on_step = [&] {
                       if (std::exchange(done, true)) return;
                       EXPECT_EQ(fs->write(ino, 0, bytes_of("bar"), {}), 3);
                     }});
  fs = &the_fs;
  ino = new_file(the_fs, "f", "f");
  ASSERT_EQ(the_fs.write(ino, 1, bytes_of("oo"), {}), 2);
  done = false;
  EXPECT_EQ(read_all(the_fs, ino), "far");
}

TEST(Threads, TwoWritesOfOneFileNeverMix) {
  Filesystem* fs = nullptr;
  Ino ino{};
  bool other_runs = false;
  std::vector<std::int64_t> results;
  Filesystem the_fs({.sector_bytes = 1, .block_bytes = 1, .on_step = [&] {
                       if (other_runs) results.push_back(fs->write(ino, 0, bytes_of("qux"), {}));
                     }});
  fs = &the_fs;
  ino = new_file(the_fs, "f");
  other_runs = true;
  ASSERT_EQ(the_fs.write(ino, 0, bytes_of("bar"), {}), 3);
  other_runs = false;
  EXPECT_EQ(results, (std::vector<std::int64_t>{kWouldBlock, kWouldBlock}));
  EXPECT_EQ(read_all(the_fs, ino), "bar");
}

// ---- directories --------------------------------------------------------------------------------------------------

std::vector<std::string> list(Filesystem& fs, std::uint64_t& cookie, std::size_t most) {
  std::vector<DirEntry> entries;
  EXPECT_EQ(fs.readdir(kRootIno, cookie, most, entries), 0);
  std::vector<std::string> names;
  for (const DirEntry& entry : entries) {
    names.push_back(entry.name);
    cookie = entry.cookie;
  }
  return names;
}

TEST(Readdir, GoesOnSanelyWhileNamesComeAndGo) {
  Filesystem fs({});
  for (const char* name : {"a", "b", "c", "d"}) new_file(fs, name);
  std::uint64_t cookie = 0;
  EXPECT_EQ(list(fs, cookie, 4), (std::vector<std::string>{".", "..", "a", "b"}));
  ASSERT_EQ(fs.unlink(kRootIno, "b"), 0);  // the one we stand on
  ASSERT_EQ(fs.unlink(kRootIno, "c"), 0);  // one to come
  new_file(fs, "e");
  const auto rest = list(fs, cookie, 100);
  EXPECT_EQ(rest, (std::vector<std::string>{"d", "e"}));  // none twice, none that stayed missed
  EXPECT_TRUE(list(fs, cookie, 100).empty());
}

TEST(Readdir, ARenameOntoANameKeepsItsPlace) {
  Filesystem fs({});
  for (const char* name : {"a", "b", "c"}) new_file(fs, name);
  ASSERT_EQ(fs.rename(kRootIno, "c", kRootIno, "a", 0), 0);
  std::uint64_t cookie = 2;
  EXPECT_EQ(list(fs, cookie, 100), (std::vector<std::string>{"a", "b"}));
}

TEST(Names, BadOnesAreRefused) {
  Filesystem fs({});
  Ino out{};
  EXPECT_EQ(fs.create(kRootIno, std::string(256, 'x'), S_IFREG, 0, kRoot, out), -ENAMETOOLONG);
  EXPECT_EQ(fs.create(kRootIno, std::string(255, 'x'), S_IFREG, 0, kRoot, out), 0);
  EXPECT_EQ(fs.create(kRootIno, ".", S_IFREG, 0, kRoot, out), -EEXIST);
  EXPECT_EQ(fs.create(kRootIno, "..", S_IFREG, 0, kRoot, out), -EEXIST);
  EXPECT_EQ(fs.lookup(kRootIno, "", out), -ENOENT);
  EXPECT_EQ(fs.rmdir(kRootIno, "."), -EINVAL);
  EXPECT_EQ(fs.unlink(kRootIno, "none"), -ENOENT);
  EXPECT_EQ(fs.rename(kRootIno, "none", kRootIno, "x", 0), -ENOENT);
}

// ---- space and limits ---------------------------------------------------------------------------------------------

TEST(Space, AFullDiskSaysSoAndUnlinkGivesRoom) {
  Filesystem fs({.block_bytes = 4096, .capacity_bytes = 3 * 4096});
  const std::string two_blocks(8192, 'x');
  const Ino first = new_file(fs, "a", two_blocks);
  const Ino second = new_file(fs, "b");
  EXPECT_EQ(fs.write(second, 0, bytes_of(two_blocks), {}), -ENOSPC);
  EXPECT_EQ(fs.write(first, 0, bytes_of(two_blocks), {}), 8192);  // overwriting needs no room
  ASSERT_EQ(fs.unlink(kRootIno, "a"), 0);
  EXPECT_EQ(fs.write(second, 0, bytes_of(two_blocks), {}), 8192);
}

TEST(Space, FileSizeHasALimit) {
  Filesystem fs({});
  const Ino ino = new_file(fs, "f");
  EXPECT_EQ(fs.truncate(ino, std::uint64_t{1} << 50), -EFBIG);
  EXPECT_EQ(fs.write(ino, std::uint64_t{1} << 50, bytes_of("x"), {}), -EFBIG);
  EXPECT_EQ(fs.truncate(ino, std::uint64_t{1} << 40), 0);  // sparse
  struct stat st {};
  ASSERT_EQ(fs.getattr(ino, st), 0);
  EXPECT_EQ(st.st_blocks, 0);
}

TEST(Space, AHoleTakesNoneWhoeverRecords) {
  for (ProfileName profile : {ProfileName::kPaper, ProfileName::kExt4}) {
    Recorder recorder({.profile = profile});
    Filesystem fs({.recorder = &recorder});
    const Ino ino = new_file(fs, "f");
    ASSERT_EQ(fs.write(ino, 100 * 4096, bytes_of("x"), {}), 1);
    struct stat status {};
    ASSERT_EQ(fs.getattr(ino, status), 0);
    EXPECT_EQ(status.st_blocks, 8);
  }
}

// The place that a delayed block was moved away from is a hole, and a write there makes a block of its own.
TEST(Fallocate, CollapsingDelayedBlocksLeavesNoneBehind) {
  Recorder recorder(ModelOptions{.sector_bytes = 1, .block_bytes = 2});
  Filesystem fs({.recorder = &recorder, .sector_bytes = 1, .block_bytes = 2});
  const Ino ino = new_file(fs, "f", "aabbcc");
  ASSERT_EQ(fs.fallocate(ino, FALLOC_FL_COLLAPSE_RANGE, 0, 2), 0);
  const std::size_t blocks = recorder.recording().blocks.size();
  ASSERT_EQ(fs.write(ino, 4, bytes_of("dd"), {}), 2);
  EXPECT_EQ(recorder.recording().blocks.size(), blocks + 1);
  EXPECT_EQ(read_all(fs, ino), "bbccdd");
}

TEST(Orphans, LiveUntilTheLastDescriptionIsClosed) {
  Filesystem fs({});
  const Ino ino = new_file(fs, "f", "still here");
  fs.add_open(ino);
  ASSERT_EQ(fs.unlink(kRootIno, "f"), 0);
  EXPECT_EQ(read_all(fs, ino), "still here");
  fs.release(ino, false);
  struct stat st {};
  EXPECT_EQ(fs.getattr(ino, st), -ENOENT);
}

// ---- locks --------------------------------------------------------------------------------------------------------

struct flock range_lock(short type, off_t start, off_t length) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_start = start;
  lock.l_len = length;
  return lock;
}

TEST(Locks, RecordLocksOfOneOwnerSplitAndMerge) {
  Filesystem fs({});
  const Ino ino = new_file(fs, "f");
  EXPECT_EQ(fs.posix_lock(ino, 1, range_lock(F_WRLCK, 0, 100)), 0);
  EXPECT_EQ(fs.posix_lock(ino, 2, range_lock(F_RDLCK, 50, 1)), -EAGAIN);
  EXPECT_EQ(fs.posix_lock(ino, 1, range_lock(F_UNLCK, 40, 20)), 0);
  EXPECT_EQ(fs.posix_lock(ino, 2, range_lock(F_WRLCK, 50, 1)), 0);
  EXPECT_EQ(fs.posix_lock(ino, 2, range_lock(F_WRLCK, 60, 0)), -EAGAIN);
  struct flock asked = range_lock(F_WRLCK, 0, 0);
  ASSERT_EQ(fs.posix_test_lock(ino, 2, asked), 0);
  EXPECT_EQ(asked.l_type, F_WRLCK);
  EXPECT_EQ(asked.l_start, 0);
  EXPECT_EQ(asked.l_len, 40);
  fs.drop_locks(ino, 1);
  EXPECT_EQ(fs.posix_lock(ino, 2, range_lock(F_WRLCK, 0, 0)), 0);
}

TEST(Locks, ReadersShareWritersDoNot) {
  Filesystem fs({});
  const Ino ino = new_file(fs, "f");
  EXPECT_EQ(fs.flock(ino, 1, LOCK_SH), 0);
  EXPECT_EQ(fs.flock(ino, 2, LOCK_SH), 0);
  EXPECT_EQ(fs.flock(ino, 1, LOCK_EX), -EAGAIN);
  EXPECT_EQ(fs.flock(ino, 2, LOCK_UN), 0);
  EXPECT_EQ(fs.flock(ino, 1, LOCK_EX), 0);
  EXPECT_EQ(fs.flock(ino, 2, LOCK_SH | LOCK_NB), -EAGAIN);
}

}  // namespace
}  // namespace crashcut::fusefs
