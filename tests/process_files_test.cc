// Process: data, listings, attributes and locks, errno by errno; and what a recovery is not asked.
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/file.h>

#include <algorithm>
#include <climits>
#include <set>
#include <utility>

#include "tests/process_fixture.h"

namespace crashcut::fusefs {
namespace {

// ---- data ------------------------------------------------------------------------------------------------------

TEST_F(ProcessTest, AccessModesAndArguments) {
  make_file("f", "text");
  int reader = open("f", O_RDONLY);
  int writer = open("f", O_WRONLY);
  int dir = open(".", O_RDONLY);
  char byte = 0;
  EXPECT_EQ(write(reader, "x"), -EBADF);
  EXPECT_EQ(read_some(process_, writer, &byte, 1), -EBADF);
  EXPECT_EQ(read_some(process_, dir, &byte, 1), -EISDIR);
  EXPECT_EQ(write(dir, "x"), -EBADF);
  EXPECT_EQ(pwrite(writer, "x", -1), -EINVAL);
  EXPECT_EQ(pwrite(99, "x", -1), -EINVAL);
  EXPECT_EQ(pwrite(99, "x", 0), -EBADF);
  EXPECT_EQ(pwrite(writer, "x", 0, 0x40000), -EOPNOTSUPP);
  EXPECT_EQ(pwrite(writer, "x", 0, RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_HIPRI), 1);
  EXPECT_EQ(process_.ftruncate(reader, 0), -EINVAL);
  EXPECT_EQ(process_.ftruncate(writer, -1), -EINVAL);
  EXPECT_EQ(process_.ftruncate(dir, 0), -EINVAL);
  EXPECT_EQ(process_.truncate(".", 0), -EISDIR);
  EXPECT_EQ(process_.truncate("missing", 0), -ENOENT);
  EXPECT_EQ(process_.fsync(99), -EBADF);
  EXPECT_EQ(process_.fsync(dir), 0);
  EXPECT_EQ(process_.sync_file_range(writer, 0, 0, 8), -EINVAL);
  EXPECT_EQ(process_.sync_file_range(writer, -1, 0, 0), -EINVAL);
  EXPECT_EQ(process_.getdents64(reader, {}), -ENOTDIR);
}

TEST_F(ProcessTest, CopiesThatAreRefused) {
  make_file("f", "0123456789");
  make_file("g");
  int f = open("f", O_RDWR);
  int g = open("g", O_RDWR);
  int dir = open(".", O_RDONLY);
  std::size_t count = 5;
  const auto check = [&](int in, off_t in_at, int out, off_t out_at) {
    count = 5;
    return process_.check_copy(in, in_at, out, out_at, count);
  };
  EXPECT_EQ(check(f, 0, g, 0), 0);
  EXPECT_EQ(check(f, 0, f, 4), -EINVAL);
  EXPECT_EQ(check(f, 4, f, 0), -EINVAL);
  EXPECT_EQ(check(f, 0, open("f", O_WRONLY), 4), -EINVAL);
  EXPECT_EQ(check(f, 0, f, 5), 0);
  EXPECT_EQ(check(f, 8, f, 10), 0);
  EXPECT_EQ(count, 2U);
  EXPECT_EQ(check(f, 10, f, 10), 0);
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(check(dir, 0, g, 0), -EISDIR);
  EXPECT_EQ(check(f, 0, dir, 0), -EISDIR);
  EXPECT_EQ(check(f, 0, open("g", O_RDONLY), 0), -EBADF);
  EXPECT_EQ(check(f, 0, open("g", O_WRONLY | O_APPEND), 0), -EBADF);
  EXPECT_EQ(check(99, 0, g, 0), -EBADF);
}

TEST_F(ProcessTest, ManyParts) {
  int fd = open("f", O_CREAT | O_RDWR);
  iovec in[] = {part("abc"), part(""), part("defg")};
  EXPECT_EQ(process_.write(fd, in), 7);
  char first[2];
  char second[9];
  iovec out[] = {{first, sizeof first}, {second, sizeof second}};
  EXPECT_EQ(process_.pread(fd, out, 0), 7);
  EXPECT_EQ(std::string(first, 2) + std::string(second, 5), "abcdefg");
  std::vector<iovec> too_many(IOV_MAX + 1, part("x"));
  EXPECT_EQ(process_.write(fd, too_many), -EINVAL);
}

TEST_F(ProcessTest, AppendingIgnoresTheOffset) {
  make_file("f", "abc");
  int fd = open("f", O_RDWR | O_APPEND);
  EXPECT_EQ(pwrite(fd, "d", 0), 1);
  EXPECT_EQ(process_.lseek(fd, 0, SEEK_CUR), 0);
  EXPECT_EQ(write(fd, "e"), 1);
  EXPECT_EQ(process_.lseek(fd, 0, SEEK_CUR), 5);
  EXPECT_EQ(process_.set_flags(fd, 0), 0);
  EXPECT_EQ(pwrite(fd, "A", 0), 1);
  EXPECT_EQ(pwrite(fd, "f", 0, RWF_APPEND), 1);
  EXPECT_EQ(pread(fd, 9, 0), "Abcdef");
}

TEST_F(ProcessTest, DirectTransfersAreAligned) {
  alignas(512) static char buffer[1024];
  int fd = open("f", O_CREAT | O_RDWR | O_DIRECT);
  auto direct_write = [&](std::size_t at, std::size_t count, off_t offset) {
    return pwrite(fd, std::string_view(buffer + at, count), offset);
  };
  EXPECT_EQ(direct_write(0, 512, 512), 512);
  EXPECT_EQ(direct_write(1, 512, 0), -EINVAL);
  EXPECT_EQ(direct_write(0, 511, 0), -EINVAL);
  EXPECT_EQ(direct_write(0, 512, 1), -EINVAL);
  EXPECT_EQ(process_.ftruncate(fd, 700), 0);
  EXPECT_EQ(process_.lseek(fd, 0, SEEK_SET), 0);
  EXPECT_EQ(read_some(process_, fd, buffer, 1024), 700);
  EXPECT_EQ(read_some(process_, fd, buffer, 1024), 0) << "the end, at an offset that is not aligned";
  EXPECT_EQ(process_.lseek(fd, 1, SEEK_SET), 1);
  EXPECT_EQ(read_some(process_, fd, buffer, 512), -EINVAL);
}

TEST_F(ProcessTest, Seeking) {
  make_file("f", "abc");
  int fd = open("f", O_RDWR);
  EXPECT_EQ(process_.lseek(fd, -1, SEEK_SET), -EINVAL);
  EXPECT_EQ(process_.lseek(fd, -4, SEEK_END), -EINVAL);
  EXPECT_EQ(process_.lseek(fd, -1, SEEK_END), 2);
  EXPECT_EQ(process_.lseek(fd, LLONG_MAX, SEEK_CUR), -EINVAL);
  EXPECT_EQ(process_.lseek(fd, 0, 9), -EINVAL);
  EXPECT_EQ(process_.lseek(fd, 3, SEEK_DATA), -ENXIO);
  EXPECT_EQ(process_.lseek(fd, -1, SEEK_HOLE), -ENXIO);
  EXPECT_EQ(process_.lseek(fd, 1, SEEK_HOLE), 3);
  EXPECT_EQ(process_.lseek(99, 0, SEEK_SET), -EBADF);
}

TEST_F(ProcessTest, SeekingAcrossLongHoles) {
  // A search that looks at every block of every hole would not end in the time that a test has.
  constexpr off_t kSize = off_t{1} << 43, kFar = off_t{5} << 40;
  int fd = open("f", O_CREAT | O_RDWR);
  ASSERT_EQ(process_.ftruncate(fd, kSize), 0);
  EXPECT_EQ(process_.lseek(fd, 0, SEEK_DATA), -ENXIO);
  for (int i = 0; i < 1000; ++i) {
    const off_t at = kFar + 3 * 4096 * off_t{i};
    ASSERT_EQ(pwrite(fd, "x", at + 5), 1);
    ASSERT_EQ(process_.lseek(fd, i, SEEK_DATA), kFar);
    ASSERT_EQ(process_.lseek(fd, at - 1, SEEK_DATA), at);
    ASSERT_EQ(process_.lseek(fd, at + 7, SEEK_DATA), at + 7);
    ASSERT_EQ(process_.lseek(fd, at + 7, SEEK_HOLE), at + 4096);
    ASSERT_EQ(process_.lseek(fd, at + 4096, SEEK_DATA), -ENXIO);
  }
  // Preallocated is not data, and the file ends within a block.
  ASSERT_EQ(process_.fallocate(fd, 0, kFar - (off_t{1} << 30), 1 << 20), 0);
  EXPECT_EQ(process_.lseek(fd, 0, SEEK_DATA), kFar);
  ASSERT_EQ(process_.ftruncate(fd, kFar + 3), 0);
  EXPECT_EQ(process_.lseek(fd, 0, SEEK_DATA), kFar);
  EXPECT_EQ(process_.lseek(fd, kFar, SEEK_HOLE), kFar + 3);
  ASSERT_EQ(process_.ftruncate(fd, kFar), 0);
  EXPECT_EQ(process_.lseek(fd, 0, SEEK_DATA), -ENXIO);
}

TEST_F(ProcessTest, FallocateArguments) {
  make_file("f", "abc");
  int writer = open("f", O_RDWR);
  int reader = open("f", O_RDONLY);
  EXPECT_EQ(process_.fallocate(writer, 0, -1, 1), -EINVAL);
  EXPECT_EQ(process_.fallocate(writer, 0, 0, 0), -EINVAL);
  EXPECT_EQ(process_.fallocate(writer, FALLOC_FL_PUNCH_HOLE, 0, 1), -EOPNOTSUPP);
  EXPECT_EQ(process_.fallocate(writer, FALLOC_FL_UNSHARE_RANGE, 0, 1), -EOPNOTSUPP);
  EXPECT_EQ(process_.fallocate(writer, FALLOC_FL_COLLAPSE_RANGE, 0, 1), -EINVAL);
  EXPECT_EQ(process_.fallocate(writer, 0, LLONG_MAX, 1), -EFBIG);
  EXPECT_EQ(process_.fallocate(reader, 0, 0, 1), -EBADF);
  EXPECT_EQ(process_.fallocate(writer, FALLOC_FL_KEEP_SIZE, 0, 9000), 0);
  EXPECT_EQ(stat("f"), 0);
  EXPECT_EQ(stat_.st_size, 3);
}

// What another thread does between two blocks of a read.
class StepTest : public testing::Test {
 protected:
  StepTest() {
    process_.openat(AT_FDCWD, "f", O_CREAT | O_RDWR, 0644);
    EXPECT_EQ(process_.ftruncate(kFd, sizeof buffer_), 0);
  }
  std::int64_t read() {
    iovec out{buffer_, sizeof buffer_};
    return process_.read(kFd, {&out, 1});
  }

  static constexpr int kFd = 3;
  char buffer_[8192];
  std::function<void()> other_ = [] {};
  Filesystem filesystem_{{.on_step = [this] { std::exchange(other_, [] {})(); }}};
  Process process_{{.filesystem = filesystem_, .who = kRoot}};
};

TEST_F(StepTest, TheOffsetIsLocked) {
  off_t seen = 0;
  other_ = [&] { seen = process_.lseek(kFd, 0, SEEK_SET); };
  EXPECT_EQ(read(), 8192);
  EXPECT_EQ(seen, kWouldBlock);
  EXPECT_EQ(process_.lseek(kFd, 0, SEEK_CUR), 8192);
}

TEST_F(StepTest, AReadOutlivesTheClose) {
  other_ = [&] {
    EXPECT_EQ(process_.close(kFd), 0);
    EXPECT_EQ(process_.unlinkat(AT_FDCWD, "f", 0), 0);
  };
  EXPECT_EQ(read(), 8192);
  EXPECT_EQ(read(), -EBADF);
}

// ---- listings ----------------------------------------------------------------------------------------------------

TEST_F(ProcessTest, ListingInSmallBuffers) {
  std::vector<std::string> expected{".:4", "..:4"};
  for (int i = 0; i < 20; ++i) {
    make_file("file" + std::to_string(i));
    expected.push_back("file" + std::to_string(i) + ":8");
  }
  int fd = open(".", O_RDONLY);
  std::vector<std::string> listed;
  std::vector<std::byte> buffer(70);
  for (int used = 0; (used = process_.getdents64(fd, buffer)) != 0;) {
    ASSERT_GT(used, 0);
    for (auto& name : parse_dirents(std::span(buffer).first(static_cast<std::size_t>(used)))) listed.push_back(name);
  }
  std::sort(listed.begin(), listed.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(listed, expected);
  EXPECT_EQ(process_.lseek(fd, 0, SEEK_SET), 0);
  EXPECT_EQ(process_.getdents64(fd, std::span(buffer).first(20)), -EINVAL);
}

TEST_F(ProcessTest, ARemovedDirectoryCannotBeListed) {
  mkdir("d");
  int fd = open("d", O_RDONLY);
  EXPECT_EQ(rmdir("d"), 0);
  std::vector<std::byte> buffer(1000);
  EXPECT_EQ(process_.getdents64(fd, buffer), -ENOENT);
  EXPECT_EQ(process_.mkdirat(fd, "e", 0755), -ENOENT);
}

// ---- attributes --------------------------------------------------------------------------------------------------

TEST_F(ProcessTest, TimesThatAreAskedFor) {
  make_file("f");
  timespec times[2] = {{5, 6}, {0, UTIME_OMIT}};
  EXPECT_EQ(stat("f"), 0);
  time_t old_mtime = stat_.st_mtim.tv_nsec;
  EXPECT_EQ(process_.utimensat(AT_FDCWD, "f", times, 0), 0);
  EXPECT_EQ(stat("f"), 0);
  EXPECT_EQ(stat_.st_atim.tv_sec, 5);
  EXPECT_EQ(stat_.st_mtim.tv_nsec, old_mtime);
  EXPECT_EQ(process_.utimensat(AT_FDCWD, "f", nullptr, 0), 0);
  EXPECT_EQ(stat("f"), 0);
  EXPECT_GT(stat_.st_atim.tv_sec, 5);
  EXPECT_LT(stat_.st_atim.tv_nsec, 1'000'000'000);
  times[0].tv_nsec = 1'000'000'000;
  EXPECT_EQ(process_.utimensat(AT_FDCWD, "f", times, 0), -EINVAL);
  times[0].tv_nsec = UTIME_OMIT;
  EXPECT_EQ(process_.utimensat(AT_FDCWD, "missing", times, 0), 0);
}

TEST_F(ProcessTest, ChangesOfOwnerTakeSetuidAway) {
  make_file("f", "", 0755);
  EXPECT_EQ(process_.fchmodat(AT_FDCWD, "f", 06755, 0), 0);
  EXPECT_EQ(process_.fchownat(AT_FDCWD, "f", 7, static_cast<gid_t>(-1), 0), 0);
  EXPECT_EQ(stat("f"), 0);
  EXPECT_EQ(stat_.st_mode, S_IFREG | 0755U);
  EXPECT_EQ(stat_.st_uid, 7U);
}

TEST_F(ProcessTest, WhatNobodyMayDo) {
  EXPECT_EQ(process_.fchmodat(AT_FDCWD, ".", 0755, 0), 0);
  mkdir("shared", 0);
  EXPECT_EQ(process_.fchmodat(AT_FDCWD, "shared", 01777, 0), 0);
  make_file("shared/f", "text", 0644);
  mkdir("closed", 0700);
  EXPECT_EQ(nobody_.openat(AT_FDCWD, "shared/f", O_RDWR, 0), -EACCES);
  EXPECT_EQ(nobody_.openat(AT_FDCWD, "shared/f", O_RDONLY | O_TRUNC, 0), -EACCES);
  EXPECT_EQ(nobody_.openat(AT_FDCWD, "shared/f", O_RDONLY | O_NOATIME, 0), -EPERM);
  EXPECT_EQ(nobody_.openat(AT_FDCWD, "closed/f", O_RDONLY, 0), -EACCES);
  EXPECT_EQ(nobody_.openat(AT_FDCWD, "new", O_CREAT | O_RDWR, 0), -EACCES);
  EXPECT_EQ(nobody_.unlinkat(AT_FDCWD, "shared/f", 0), -EPERM);
  EXPECT_EQ(nobody_.fchmodat(AT_FDCWD, "shared/f", 0777, 0), -EPERM);
  EXPECT_EQ(nobody_.fchownat(AT_FDCWD, "shared/f", 65534, 65534, 0), -EPERM);
  EXPECT_EQ(nobody_.chdir("closed"), -EACCES);
  EXPECT_EQ(nobody_.faccessat(AT_FDCWD, "shared/f", W_OK, 0), -EACCES);
  EXPECT_EQ(process_.faccessat(AT_FDCWD, "shared/f", W_OK, 0), 0);
  EXPECT_EQ(process_.faccessat(AT_FDCWD, "shared/f", X_OK, 0), -EACCES);
  EXPECT_EQ(nobody_.mknodat(AT_FDCWD, "shared/null", S_IFCHR | 0666, 0x103), -EPERM);
  int fd = nobody_.openat(AT_FDCWD, "shared/own", O_CREAT | O_RDWR, 0);
  EXPECT_GE(fd, 0) << "the mode of a new file does not bind its creator";
  EXPECT_EQ(nobody_.openat(AT_FDCWD, "shared/own", O_RDONLY, 0), -EACCES);
  EXPECT_EQ(nobody_.unlinkat(AT_FDCWD, "shared/own", 0), 0);
}

TEST_F(ProcessTest, OthersFilesInStickyDirectories) {
  mkdir("shared", 0);
  EXPECT_EQ(process_.fchmodat(AT_FDCWD, "shared", 01777, 0), 0);
  make_file("shared/f");
  mkdir("shared/d");
  symlink("f", "shared/l");
  EXPECT_EQ(process_.mknodat(AT_FDCWD, "shared/s", S_IFSOCK | 0666, 0), 0);
  auto move = [&](const char* from, const char* to, unsigned flags) {
    return nobody_.renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
  };
  int own = nobody_.openat(AT_FDCWD, "shared/own", O_CREAT | O_RDWR, 0600);
  ASSERT_GE(own, 0);
  EXPECT_EQ(move("shared/f", "shared/g", 0), -EPERM);
  EXPECT_EQ(move("shared/own", "shared/f", 0), -EPERM);
  EXPECT_EQ(move("shared/own", "shared/f", RENAME_EXCHANGE), -EPERM);
  EXPECT_EQ(move("shared/own", "shared/moved", 0), 0);
  EXPECT_EQ(nobody_.unlinkat(AT_FDCWD, "shared/d", AT_REMOVEDIR), -EPERM);
  EXPECT_EQ(nobody_.openat(AT_FDCWD, "shared/s", O_CREAT | O_RDONLY, 0), -ENXIO) << "the directory's owner made it";
  EXPECT_EQ(process_.openat(AT_FDCWD, "shared/moved", O_CREAT | O_RDWR, 0), 3) << "not protected by default";
}

TEST_F(ProcessTest, ProtectedStickyDirectories) {
  Process guarded(
      {.filesystem = filesystem_, .who = kRoot, .sticky_protection = {.symlinks = 1, .regular = 1, .fifos = 2}});
  mkdir("shared", 0);
  make_file("f");
  EXPECT_EQ(process_.fchmodat(AT_FDCWD, "shared", 01777, 0), 0);
  ASSERT_EQ(nobody_.openat(AT_FDCWD, "shared/file", O_CREAT | O_RDWR, 0666), 3);
  EXPECT_EQ(nobody_.symlinkat("../f", AT_FDCWD, "shared/link"), 0);
  EXPECT_EQ(nobody_.mknodat(AT_FDCWD, "shared/socket", S_IFSOCK | 0666, 0), 0);
  EXPECT_EQ(nobody_.mknodat(AT_FDCWD, "shared/fifo", S_IFIFO | 0666, 0), 0);
  auto open = [&](const char* path, int flags) { return guarded.openat(AT_FDCWD, path, O_RDWR | flags, 0); };
  EXPECT_EQ(open("shared/file", O_CREAT), -EACCES) << "uid 0 is no exception";
  EXPECT_EQ(open("shared/file", 0), 3);
  EXPECT_EQ(open("shared/socket", O_CREAT), -EACCES);
  EXPECT_EQ(open("shared/link", 0), -EACCES);
  EXPECT_EQ(open("shared/link", O_CREAT | O_NOFOLLOW), -EACCES);
  EXPECT_EQ(open("shared/link/x", 0), -ENOTDIR) << "only the last symlink of a path is protected";
  EXPECT_EQ(process_.fchmodat(AT_FDCWD, "shared", 01770, 0), 0);
  EXPECT_EQ(open("shared/link", 0), 4);
  EXPECT_EQ(open("shared/file", O_CREAT), 5);
  EXPECT_EQ(open("shared/fifo", O_CREAT), -EACCES) << "level 2 is for directories of a group";
  EXPECT_EQ(process_.fchownat(AT_FDCWD, "shared", 65534, 65534, 0), 0);
  EXPECT_EQ(open("shared/fifo", O_CREAT), -ENXIO) << "the directory's owner may do in it as it likes";
}

TEST_F(ProcessTest, ReadingIsAnAccess) {
  make_file("f", "text");
  auto accessed = [&](time_t atime, time_t mtime, int flags) {
    timespec times[2] = {{atime, 0}, {mtime, 0}};
    EXPECT_EQ(process_.utimensat(AT_FDCWD, "f", times, 0), 0);
    int fd = open("f", O_RDONLY | flags);
    EXPECT_EQ(pread(fd, 4, 0), "text");
    EXPECT_EQ(process_.close(fd), 0);
    EXPECT_EQ(stat("f"), 0);
    return stat_.st_atim.tv_sec != atime;
  };
  constexpr time_t kFuture = 4'000'000'000;
  EXPECT_TRUE(accessed(1, 2, 0));
  EXPECT_FALSE(accessed(1, 2, O_NOATIME));
  EXPECT_FALSE(accessed(kFuture, 2, 0)) << "relatime";
  EXPECT_TRUE(accessed(kFuture, kFuture + 1, 0));
}

// ---- locks -------------------------------------------------------------------------------------------------------

TEST_F(ProcessTest, AnyCloseDropsRecordLocks) {
  make_file("f", "text", 0666);
  int fd = open("f", O_RDWR);
  int other = open("f", O_RDONLY);
  int theirs = nobody_.openat(AT_FDCWD, "f", O_RDONLY, 0);
  struct flock whole {
    .l_type = F_WRLCK, .l_whence = SEEK_SET
  };
  EXPECT_EQ(process_.lock(other, F_SETLK, whole), -EBADF);
  EXPECT_EQ(process_.lock(fd, F_SETLK, whole), 0);
  struct flock wanted {
    .l_type = F_RDLCK, .l_whence = SEEK_END, .l_start = -1, .l_len = 1
  };
  EXPECT_EQ(nobody_.lock(theirs, F_SETLK, wanted), -EAGAIN);
  struct flock probe = wanted;
  EXPECT_EQ(nobody_.lock(theirs, F_GETLK, probe), 0);
  EXPECT_EQ(probe.l_type, F_WRLCK);
  EXPECT_EQ(probe.l_start, 0);
  EXPECT_EQ(process_.close(other), 0);
  EXPECT_EQ(nobody_.lock(theirs, F_SETLK, wanted), 0);
}

TEST_F(ProcessTest, FlockAndOfdLocksBelongToTheDescription) {
  make_file("f");
  int fd = open("f", O_RDWR);
  int copy = process_.dup(fd, 0, false);
  int other = open("f", O_RDWR);
  struct flock whole {
    .l_type = F_WRLCK, .l_whence = SEEK_SET
  };
  EXPECT_EQ(process_.flock(fd, LOCK_EX), 0);
  EXPECT_EQ(process_.flock(copy, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(process_.flock(other, LOCK_SH | LOCK_NB), -EAGAIN);
  EXPECT_EQ(process_.flock(other, 77), -EINVAL);
  EXPECT_EQ(process_.lock(fd, F_OFD_SETLK, whole), 0);
  EXPECT_EQ(process_.lock(other, F_OFD_SETLK, whole), -EAGAIN);
  EXPECT_EQ(process_.close(fd), 0);
  EXPECT_EQ(process_.flock(other, LOCK_SH | LOCK_NB), -EAGAIN);
  EXPECT_EQ(process_.close(copy), 0);
  EXPECT_EQ(process_.flock(other, LOCK_SH | LOCK_NB), 0);
  EXPECT_EQ(process_.lock(other, F_OFD_SETLK, whole), 0);
}

TEST_F(ProcessTest, RangesThatTouchAreOne) {
  make_file("f");
  int fd = open("f", O_RDWR);
  int other = open("f", O_RDWR);
  auto range = [](short type, off_t start, off_t length) {
    struct flock lock {};
    lock.l_type = type;
    lock.l_start = start;
    lock.l_len = length;
    return lock;
  };
  auto set = [&](struct flock lock) { return process_.lock(fd, F_OFD_SETLK, lock); };
  EXPECT_EQ(set(range(F_WRLCK, 0, 10)), 0);
  EXPECT_EQ(set(range(F_WRLCK, 20, 10)), 0);
  EXPECT_EQ(set(range(F_WRLCK, 10, 10)), 0);
  struct flock probe = range(F_WRLCK, 25, 1);
  EXPECT_EQ(process_.lock(other, F_OFD_GETLK, probe), 0);
  EXPECT_EQ(probe.l_start, 0);
  EXPECT_EQ(probe.l_len, 30);
  EXPECT_EQ(probe.l_pid, -1);
  EXPECT_EQ(set(range(F_UNLCK, 5, 10)), 0);
  probe = range(F_WRLCK, 0, 0);
  EXPECT_EQ(process_.lock(other, F_OFD_GETLK, probe), 0);
  EXPECT_EQ(probe.l_len, 5);
  probe = range(F_UNLCK, 7, 0);
  EXPECT_EQ(process_.lock(fd, F_OFD_GETLK, probe), 0) << "one's own";
  EXPECT_EQ(probe.l_start, 15);
  probe = range(F_UNLCK, 0, 0);
  EXPECT_EQ(process_.lock(other, F_OFD_GETLK, probe), 0);
  EXPECT_EQ(probe.l_type, F_UNLCK);
}

// ---- what the filesystem is asked --------------------------------------------------------------------------------

// A disk with /d/f and /d/l -> f that keeps account of what it is asked: after a crash, each would be a decision.
class AskedMedium final : public Medium {
 public:
  Ino lookup(Ino dir, std::string_view name) override {
    asked.insert("lookup " + std::string(name));
    if (dir == kRootIno && name == "d") return Ino{3};
    if (dir == Ino{3} && name == "f") return Ino{4};
    return dir == Ino{3} && name == "l" ? Ino{5} : kNoIno;
  }
  std::vector<std::string> possible_names(Ino) override {
    asked.insert("names");
    return {};
  }
  mode_t type(Ino ino) override { return ino == Ino{4} ? S_IFREG : ino == Ino{5} ? S_IFLNK : S_IFDIR; }
  std::uint64_t size(Ino) override {
    asked.insert("size");
    return 0;
  }
  Meta meta(Ino ino) override {
    asked.insert("meta " + std::to_string(static_cast<std::uint64_t>(ino)));
    Meta meta{.mode = type(ino) | 0777, .nlink = 1};
    if (ino == Ino{5}) meta.symlink_target = "f";
    return meta;
  }
  Owner owner(Ino ino) override {
    asked.insert("owner " + std::to_string(static_cast<std::uint64_t>(ino)));
    return Owner{type(ino) | 0777, 0, 0};
  }
  bool is_written(Ino, std::uint64_t) override { return false; }
  void read_bytes(Ino, std::uint64_t, std::span<std::byte> out) override { std::ranges::fill(out, std::byte{}); }
  Ino first_free_ino() override { return Ino{6}; }

  std::set<std::string> asked;
};

class AskedTest : public testing::Test {
 protected:
  using Asked = std::set<std::string>;
  Asked take() { return std::exchange(medium_.asked, {}); }

  AskedMedium medium_;
  Filesystem filesystem_{{.medium = &medium_}};
  Process root_{{.filesystem = filesystem_, .who = kRoot}};
};

TEST_F(AskedTest, OpenAsksForNamesOnly) {
  EXPECT_EQ(take(), Asked{});
  int fd = root_.openat(AT_FDCWD, "d/f", O_RDWR | O_CREAT, 0644);
  EXPECT_EQ(take(), (Asked{"lookup d", "lookup f"}));
  EXPECT_EQ(root_.fsync(fd), 0);
  EXPECT_EQ(root_.dup(fd, 0, false), fd + 1);
  EXPECT_EQ(root_.close(fd), 0);
  EXPECT_EQ(root_.chdir("d"), 0);
  EXPECT_EQ(root_.getcwd(), "/crashcut/d");
  EXPECT_EQ(root_.faccessat(AT_FDCWD, "f", R_OK | W_OK, 0), 0);
  EXPECT_EQ(take(), Asked{});
}

TEST_F(AskedTest, OnlyAFollowedSymlinkIsRead) {
  EXPECT_EQ(root_.openat(AT_FDCWD, "d/l", O_RDONLY | O_NOFOLLOW, 0), -ELOOP);
  EXPECT_EQ(take(), (Asked{"lookup d", "lookup l"}));
  EXPECT_EQ(root_.openat(AT_FDCWD, "d/l", O_RDONLY, 0), 3);
  EXPECT_EQ(take(), (Asked{"lookup f", "meta 5"}));
}

TEST_F(AskedTest, TruncationAsksForTheSize) {
  EXPECT_EQ(root_.openat(AT_FDCWD, "d/f", O_RDWR | O_TRUNC, 0), 3);
  EXPECT_EQ(take(), (Asked{"lookup d", "lookup f", "size"}));
}

TEST_F(AskedTest, NamesAreTheOnlyQuestionOfNameChanges) {
  EXPECT_EQ(root_.renameat2(AT_FDCWD, "d/f", AT_FDCWD, "d/g", 0), 0);
  EXPECT_EQ(take(), (Asked{"lookup d", "lookup f", "lookup g"}));
  EXPECT_EQ(root_.unlinkat(AT_FDCWD, "d/g", 0), 0);
  EXPECT_EQ(take(), Asked{});
  EXPECT_EQ(root_.openat(AT_FDCWD, "d/new", O_CREAT | O_RDWR, 0600), 3);
  EXPECT_EQ(take(), (Asked{"lookup new"}));
}

TEST_F(AskedTest, OthersArePermittedByModes) {
  Process nobody({.filesystem = filesystem_, .who = {.uid = 65534, .gid = 65534}});
  EXPECT_EQ(nobody.openat(AT_FDCWD, "d/f", O_RDWR, 0), 3);
  EXPECT_EQ(take(), (Asked{"lookup d", "lookup f", "owner 2", "owner 3", "owner 4"}));
}

}  // namespace
}  // namespace crashcut::fusefs
