// Process: errno by errno, and against the host's own filesystem.
//
// The differential tests run the same random calls on a Process and in a directory of the host (under $TMPDIR or
// /tmp, where that is ext4) and compare every result, all attributes, contents and listings. Checked: as root, and
// as two users on one tree. Not checked against the host: times, inode numbers, directory sizes and st_blocks,
// SEEK_DATA and SEEK_HOLE of unwritten blocks (the host's page cache shows through there).
#include "fusefs/process.h"

#include <gtest/gtest.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <filesystem>
#include <random>
#include <set>

#include "tests/seeds.h"

namespace crashcut::fusefs {
namespace {

constexpr Credentials kRoot{};

std::vector<std::string> parse_dirents(std::span<const std::byte> bytes) {
  std::vector<std::string> names;
  while (!bytes.empty()) {
    std::uint16_t length = 0;
    std::memcpy(&length, bytes.data() + 16, sizeof length);
    auto type = static_cast<unsigned char>(bytes[18]);
    names.push_back(std::string(reinterpret_cast<const char*>(bytes.data() + 19)) + ":" + std::to_string(type));
    bytes = bytes.subspan(length);
  }
  return names;
}

// A Process with short names for what the tests do most.
class ProcessTest : public testing::Test {
 protected:
  int open(std::string_view path, int flags, mode_t mode = 0644) {
    return process_.openat(AT_FDCWD, path, flags, mode);
  }
  int make_file(std::string_view path, std::string_view text = "", mode_t mode = 0644) {
    int fd = open(path, O_CREAT | O_RDWR | O_TRUNC, mode);
    EXPECT_GE(fd, 0) << path;
    EXPECT_EQ(write(fd, text), static_cast<std::int64_t>(text.size()));
    return process_.close(fd);
  }
  int mkdir(std::string_view path, mode_t mode = 0755) { return process_.mkdirat(AT_FDCWD, path, mode); }
  int symlink(std::string_view target, std::string_view path) { return process_.symlinkat(target, AT_FDCWD, path); }
  int link(std::string_view from, std::string_view to) { return process_.linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
  int rename(std::string_view from, std::string_view to, unsigned flags = 0) {
    return process_.renameat2(AT_FDCWD, from, AT_FDCWD, to, flags);
  }
  int unlink(std::string_view path) { return process_.unlinkat(AT_FDCWD, path, 0); }
  int rmdir(std::string_view path) { return process_.unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }
  int stat(std::string_view path, int flags = 0) { return process_.fstatat(AT_FDCWD, path, stat_, flags); }

  static iovec part(std::string_view text) { return {const_cast<char*>(text.data()), text.size()}; }
  std::int64_t write(int fd, std::string_view text) {
    iovec one = part(text);
    return process_.write(fd, {&one, 1});
  }
  std::int64_t pwrite(int fd, std::string_view text, off_t offset, int rwf_flags = 0) {
    iovec one = part(text);
    return process_.pwrite(fd, {&one, 1}, offset, rwf_flags);
  }
  std::string pread(int fd, std::size_t count, off_t offset) {
    std::string text(count, '?');
    iovec one{text.data(), count};
    std::int64_t got = process_.pread(fd, {&one, 1}, offset);
    return got < 0 ? "errno " + std::to_string(-got) : text.substr(0, static_cast<std::size_t>(got));
  }
  std::int64_t read_some(Process& process, int fd, char* to, std::size_t count) {
    iovec one{to, count};
    return process.read(fd, {&one, 1});
  }

  Filesystem filesystem_{{}};
  Process process_{{.filesystem = filesystem_, .who = kRoot}};
  Process nobody_{{.filesystem = filesystem_, .who = {.uid = 65534, .gid = 65534}}};
  struct stat stat_ {};
};

// ---- paths -----------------------------------------------------------------------------------------------------

TEST_F(ProcessTest, PathsThatLeadNowhere) {
  make_file("f");
  mkdir("d");
  EXPECT_EQ(open("", O_RDONLY), -ENOENT);
  EXPECT_EQ(open("missing", O_RDONLY), -ENOENT);
  EXPECT_EQ(open("missing/f", O_RDONLY), -ENOENT);
  EXPECT_EQ(open("f/x", O_RDONLY), -ENOTDIR);
  EXPECT_EQ(open("f/", O_RDONLY), -ENOTDIR);
  EXPECT_EQ(open("f/.", O_RDONLY), -ENOTDIR);
  EXPECT_EQ(open("f/..", O_RDONLY), -ENOTDIR);
  EXPECT_EQ(open("d/f", O_RDONLY), -ENOENT);
  EXPECT_EQ(stat("d///"), 0);
  EXPECT_EQ(stat("./d/.././//d/."), 0);
}

TEST_F(ProcessTest, LongNames) {
  EXPECT_EQ(open(std::string(255, 'n'), O_CREAT | O_RDWR), 3);
  EXPECT_EQ(open(std::string(256, 'n'), O_CREAT | O_RDWR), -ENAMETOOLONG);
  EXPECT_EQ(stat(std::string(256, 'n')), -ENAMETOOLONG);
  EXPECT_EQ(mkdir(std::string(256, 'n')), -ENAMETOOLONG);
  std::string dots(4094, '/');
  dots.front() = '.';
  EXPECT_EQ(stat(dots + "."), 0);
  EXPECT_EQ(stat(dots + "/."), -ENAMETOOLONG);
  EXPECT_EQ(symlink(std::string(4095, 't'), "long"), 0);
  EXPECT_EQ(symlink(std::string(4096, 't'), "longer"), -ENAMETOOLONG);
  EXPECT_EQ(symlink("", "empty"), -ENOENT);
}

TEST_F(ProcessTest, FortySymlinksAndNotOneMore) {
  make_file("0");
  for (int i = 1; i <= 41; ++i) ASSERT_EQ(symlink(std::to_string(i - 1), std::to_string(i)), 0);
  EXPECT_EQ(stat("40"), 0);
  EXPECT_EQ(stat("41"), -ELOOP);
  EXPECT_EQ(stat("41", AT_SYMLINK_NOFOLLOW), 0);
  symlink("loop", "loop");
  EXPECT_EQ(open("loop", O_RDONLY), -ELOOP);
  EXPECT_EQ(open("loop/x", O_RDONLY), -ELOOP);
  EXPECT_EQ(open("loop", O_RDWR | O_CREAT), -ELOOP);
}

TEST_F(ProcessTest, TrailingSlashes) {
  make_file("f");
  mkdir("d");
  symlink("d", "to_d");
  symlink("f", "to_f");
  EXPECT_EQ(open("new/", O_CREAT | O_RDWR), -EISDIR);
  EXPECT_EQ(open("d/", O_CREAT | O_RDWR), -EISDIR);
  EXPECT_EQ(mkdir("new_d/"), 0);
  EXPECT_EQ(symlink("f", "new/"), -ENOENT);
  EXPECT_EQ(link("f", "new/"), -ENOENT);
  EXPECT_EQ(link("f", "d/"), -EEXIST);
  EXPECT_EQ(unlink("f/"), -ENOTDIR);
  EXPECT_EQ(unlink("d/"), -EISDIR);
  EXPECT_EQ(unlink("to_d/"), -ENOTDIR);
  EXPECT_EQ(rmdir("to_d/"), -ENOTDIR);
  EXPECT_EQ(rename("f", "g/"), -ENOTDIR);
  EXPECT_EQ(rename("f/", "g"), -ENOTDIR);
  EXPECT_EQ(rename("new_d/", "new_e/"), 0);
  EXPECT_EQ(stat("to_d/", AT_SYMLINK_NOFOLLOW), 0);
  EXPECT_TRUE(S_ISDIR(stat_.st_mode));
  EXPECT_EQ(stat("to_f/", AT_SYMLINK_NOFOLLOW), -ENOTDIR);
}

TEST_F(ProcessTest, DotsAndTheRootAsLastComponent) {
  mkdir("d");
  EXPECT_EQ(mkdir("."), -EEXIST);
  EXPECT_EQ(mkdir("/crashcut"), -EEXIST);
  EXPECT_EQ(rmdir("d/."), -EINVAL);
  EXPECT_EQ(rmdir("d/.."), -ENOTEMPTY);
  EXPECT_EQ(rmdir("/crashcut/"), -EBUSY);
  EXPECT_EQ(unlink("."), -EISDIR);
  EXPECT_EQ(unlink("/crashcut"), -EISDIR);
  EXPECT_EQ(rename("d/.", "e"), -EBUSY);
  EXPECT_EQ(rename("d", "."), -EBUSY);
  EXPECT_EQ(rename("d", ".", RENAME_NOREPLACE), -EEXIST);
  EXPECT_EQ(open(".", O_CREAT | O_RDONLY), -EISDIR);
  EXPECT_EQ(open(".", O_CREAT | O_EXCL | O_RDONLY), -EEXIST);
}

TEST_F(ProcessTest, PathsThatLeadOut) {
  mkdir("d");
  auto outside = [&](std::string_view path) {
    EXPECT_EQ(open(path, O_RDONLY), kOutside) << path;
    return process_.outside_path();
  };
  EXPECT_EQ(outside("/etc/../passwd"), "/etc/../passwd");
  EXPECT_EQ(outside("/crashcutter"), "/crashcutter");
  EXPECT_EQ(outside("/"), "/");
  EXPECT_EQ(outside(".."), "/");
  EXPECT_EQ(outside("d/../../etc//x/"), "/etc//x/");
  symlink("/etc", "out");
  symlink("../tmp", "up");
  EXPECT_EQ(outside("out"), "/etc");
  EXPECT_EQ(outside("d/../out/passwd"), "/etc/passwd");
  EXPECT_EQ(outside("up/x"), "/tmp/x");
  EXPECT_EQ(stat("out", AT_SYMLINK_NOFOLLOW), 0);
}

TEST_F(ProcessTest, PathsThatComeBackIn) {
  make_file("f");
  symlink("/crashcut/f", "in");
  EXPECT_EQ(stat("/crashcut/f"), 0);
  EXPECT_EQ(stat("//.//crashcut/./f"), 0);
  EXPECT_EQ(stat("in"), 0);
  EXPECT_EQ(stat("../crashcut/f"), 0);
  EXPECT_EQ(stat("/crashcut/../crashcut/f"), 0);
}

TEST_F(ProcessTest, ADeeperRoot) {
  Process deep({.filesystem = filesystem_, .who = kRoot, .root = "/mnt/a/"});
  EXPECT_EQ(deep.openat(AT_FDCWD, "..", O_RDONLY, 0), kOutside);
  EXPECT_EQ(deep.outside_path(), "/mnt");
  EXPECT_EQ(deep.openat(AT_FDCWD, "../b/c", O_RDONLY, 0), kOutside);
  EXPECT_EQ(deep.outside_path(), "/mnt/b/c");
  EXPECT_EQ(deep.openat(AT_FDCWD, "/mnt/a", O_RDONLY, 0), 3);
  EXPECT_EQ(deep.getcwd(), "/mnt/a");
}

TEST_F(ProcessTest, TheWholeSystemAsRoot) {
  Process whole({.filesystem = filesystem_, .who = kRoot, .root = "/"});
  EXPECT_EQ(whole.openat(AT_FDCWD, "/f", O_CREAT | O_RDWR, 0644), 3);
  EXPECT_EQ(whole.openat(AT_FDCWD, "../../f", O_RDWR, 0), 4);
  EXPECT_EQ(whole.getcwd(), "/");
}

TEST_F(ProcessTest, TwoPathsOfWhichSomeAreOutside) {
  make_file("f");
  EXPECT_EQ(rename("f", "/tmp/f"), -EXDEV);
  EXPECT_EQ(rename("/tmp/f", "f"), -EXDEV);
  EXPECT_EQ(rename("../a", "/b"), kOutside);
  EXPECT_EQ(process_.outside_from_path(), "/a");
  EXPECT_EQ(process_.outside_path(), "/b");
  EXPECT_EQ(link("f", "../f"), -EXDEV);
  EXPECT_EQ(link("missing", "/tmp/f"), -ENOENT);
  EXPECT_EQ(link("/a", "/b"), kOutside);
}

TEST_F(ProcessTest, WorkingDirectory) {
  mkdir("d");
  mkdir("d/e");
  make_file("d/f");
  EXPECT_EQ(process_.getcwd(), "/crashcut");
  EXPECT_EQ(process_.chdir("d/f"), -ENOTDIR);
  EXPECT_EQ(process_.chdir("d/e"), 0);
  EXPECT_EQ(process_.getcwd(), "/crashcut/d/e");
  EXPECT_EQ(stat("../f"), 0);
  EXPECT_EQ(rename("/crashcut/d", "/crashcut/moved"), 0);
  EXPECT_EQ(process_.getcwd(), "/crashcut/moved/e");
  EXPECT_EQ(rmdir("/crashcut/moved/e"), 0);
  EXPECT_EQ(process_.getcwd(), "(unreachable)");
  EXPECT_EQ(open("x", O_CREAT | O_RDWR), -ENOENT);
  EXPECT_EQ(stat("../f"), 0);
  process_.chdir_outside();
  EXPECT_EQ(process_.getcwd(), "");
  EXPECT_EQ(stat("a/../b"), kOutside);
  EXPECT_EQ(process_.outside_path(), "a/../b");
  EXPECT_EQ(stat("/crashcut/moved/f"), 0);
}

TEST_F(ProcessTest, NothingIsAboveARemovedParent) {
  mkdir("d");
  mkdir("d/e");
  EXPECT_EQ(process_.chdir("d/e"), 0);
  EXPECT_EQ(rmdir("/crashcut/d/e"), 0);
  EXPECT_EQ(rmdir("/crashcut/d"), 0);
  EXPECT_EQ(stat("."), 0);
  EXPECT_EQ(stat("../x"), -ENOENT);
  EXPECT_EQ(process_.getcwd(), "(unreachable)");
}

TEST_F(ProcessTest, DirectoryDescriptors) {
  mkdir("d");
  make_file("f");
  int dir = open("d", O_RDONLY | O_DIRECTORY);
  int file = open("f", O_RDONLY);
  EXPECT_EQ(process_.openat(dir, "x", O_CREAT | O_RDWR, 0600), 5);
  EXPECT_EQ(process_.openat(dir, "../f", O_RDONLY, 0), 6);
  EXPECT_EQ(process_.openat(file, "x", O_RDONLY, 0), -ENOTDIR);
  EXPECT_EQ(process_.openat(99, "x", O_RDONLY, 0), -EBADF);
  EXPECT_EQ(process_.openat(99, "/crashcut/f", O_RDONLY, 0), 7);
  EXPECT_EQ(process_.fstatat(file, "", stat_, 0), -ENOENT);
  EXPECT_EQ(process_.fstatat(file, "", stat_, AT_EMPTY_PATH), 0);
  EXPECT_EQ(process_.fchdir(file), -ENOTDIR);
  EXPECT_EQ(process_.fchdir(dir), 0);
  EXPECT_EQ(process_.getcwd(), "/crashcut/d");
}

// ---- open ------------------------------------------------------------------------------------------------------

TEST_F(ProcessTest, OpenFlags) {
  make_file("f", "text");
  mkdir("d");
  symlink("f", "to_f");
  symlink("dangling", "to_nothing");
  EXPECT_EQ(open("f", O_CREAT | O_EXCL | O_RDWR), -EEXIST);
  EXPECT_EQ(open("to_f", O_CREAT | O_EXCL | O_RDWR), -EEXIST);
  EXPECT_EQ(open("to_nothing", O_CREAT | O_EXCL | O_RDWR), -EEXIST);
  EXPECT_EQ(open("to_f", O_RDONLY | O_NOFOLLOW), -ELOOP);
  EXPECT_EQ(open("to_f", O_RDONLY | O_NOFOLLOW | O_DIRECTORY), -ENOTDIR);
  EXPECT_EQ(open("f", O_RDONLY | O_DIRECTORY), -ENOTDIR);
  EXPECT_EQ(open("new", O_CREAT | O_DIRECTORY | O_RDWR), -EINVAL);
  EXPECT_EQ(open("d", O_RDWR), -EISDIR);
  EXPECT_EQ(open("d", O_RDONLY | O_TRUNC), -EISDIR);
  EXPECT_EQ(open("d", O_RDONLY | O_CREAT), -EISDIR);
  EXPECT_EQ(open("d", O_RDONLY | O_DIRECT), -EINVAL);
  EXPECT_EQ(open("to_nothing", O_CREAT | O_RDWR), 3);
  EXPECT_EQ(stat("dangling"), 0);
}

TEST_F(ProcessTest, TruncationAtOpen) {
  make_file("f", "text");
  EXPECT_EQ(open("f", O_RDONLY | O_TRUNC), 3);
  EXPECT_EQ(stat("f"), 0);
  EXPECT_EQ(stat_.st_size, 0);
}

TEST_F(ProcessTest, PathDescriptorsOnlyName) {
  make_file("f", "text");
  symlink("f", "to_f");
  int fd = open("f", O_PATH | O_RDWR | O_CREAT | O_EXCL);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(pread(fd, 1, 0), "errno " + std::to_string(EBADF));
  EXPECT_EQ(write(fd, "x"), -EBADF);
  EXPECT_EQ(process_.lseek(fd, 0, SEEK_SET), -EBADF);
  EXPECT_EQ(process_.fsync(fd), -EBADF);
  EXPECT_EQ(process_.fchmod(fd, 0600), -EBADF);
  EXPECT_EQ(process_.flock(fd, LOCK_SH), -EBADF);
  EXPECT_EQ(process_.fstat(fd, stat_), 0);
  EXPECT_EQ(process_.get_flags(fd), O_PATH);
  int link_fd = open("to_f", O_PATH | O_NOFOLLOW);
  char target[8];
  EXPECT_EQ(process_.readlinkat(link_fd, "", target), 1);
  EXPECT_EQ(process_.readlinkat(fd, "", target), -ENOENT);
  EXPECT_EQ(process_.readlinkat(AT_FDCWD, "f", target), -EINVAL);
}

TEST_F(ProcessTest, TmpfileHasNoName) {
  EXPECT_EQ(open(".", O_TMPFILE | O_RDONLY), -EINVAL);
  EXPECT_EQ(open("missing", O_TMPFILE | O_RDWR), -ENOENT);
  make_file("f");
  EXPECT_EQ(open("f", O_TMPFILE | O_RDWR), -ENOTDIR);
  int fd = open(".", O_TMPFILE | O_RDWR);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(write(fd, "text"), 4);
  EXPECT_EQ(pread(fd, 9, 0), "text");
  EXPECT_EQ(process_.fstat(fd, stat_), 0);
  EXPECT_EQ(stat_.st_nlink, 0U);
  EXPECT_EQ(process_.linkat(fd, "", AT_FDCWD, "named", AT_EMPTY_PATH), 0);
  EXPECT_EQ(stat("named"), 0);
  EXPECT_EQ(stat_.st_nlink, 1U);
}

TEST_F(ProcessTest, NodesThatAreNotFiles) {
  EXPECT_EQ(process_.mknodat(AT_FDCWD, "r", 0644, 0), 0);
  EXPECT_EQ(process_.mknodat(AT_FDCWD, "p", S_IFIFO | 0644, 0), 0);
  EXPECT_EQ(process_.mknodat(AT_FDCWD, "s", S_IFSOCK | 0644, 0), 0);
  EXPECT_EQ(process_.mknodat(AT_FDCWD, "d", S_IFDIR | 0755, 0), -EPERM);
  EXPECT_EQ(process_.mknodat(AT_FDCWD, "l", S_IFLNK | 0755, 0), -EINVAL);
  EXPECT_EQ(open("s", O_RDONLY), -ENXIO);
  EXPECT_EQ(open("r", O_RDONLY), 3);
  EXPECT_EQ(process_.truncate("p", 0), -EINVAL);
  EXPECT_EQ(process_.set_xattr(-1, "p", true, "user.a", "v", 0), -EPERM);
}

// ---- descriptors -------------------------------------------------------------------------------------------------

TEST_F(ProcessTest, DupSharesTheDescription) {
  make_file("f", "abcdef");
  int fd = open("f", O_RDWR | O_CLOEXEC);
  int copy = process_.dup(fd, 10, false);
  EXPECT_EQ(copy, 10);
  EXPECT_EQ(process_.get_fd_flags(fd), FD_CLOEXEC);
  EXPECT_EQ(process_.get_fd_flags(copy), 0);
  EXPECT_EQ(process_.lseek(fd, 4, SEEK_SET), 4);
  EXPECT_EQ(process_.lseek(copy, 0, SEEK_CUR), 4);
  EXPECT_EQ(process_.set_flags(copy, O_APPEND), 0);
  EXPECT_TRUE(process_.get_flags(fd) & O_APPEND);
  EXPECT_EQ(process_.close(fd), 0);
  EXPECT_EQ(process_.close(fd), -EBADF);
  EXPECT_EQ(write(copy, "g"), 1);
  EXPECT_EQ(process_.dup_to(copy, copy, false), copy);
  EXPECT_EQ(process_.dup_to(copy, -1, false), -EBADF);
  EXPECT_EQ(process_.dup_to(99, 5, false), -EBADF);
  EXPECT_EQ(process_.dup_to(copy, 5, true), 5);
  EXPECT_EQ(process_.descriptors(), (std::vector<int>{5, 10}));
}

TEST_F(ProcessTest, NumbersComeFromOutside) {
  std::set<int> taken{0, 1, 2, 4};
  auto reserve = [&](int lowest) {
    while (taken.count(lowest)) ++lowest;
    if (lowest > 6) return -EMFILE;
    taken.insert(lowest);
    return lowest;
  };
  Process process(
      {.filesystem = filesystem_, .who = kRoot, .reserve_fd = reserve, .free_fd = [&](int fd) { taken.erase(fd); }});
  EXPECT_EQ(process.openat(AT_FDCWD, "missing", O_RDONLY, 0), -ENOENT);
  EXPECT_EQ(process.openat(AT_FDCWD, ".", O_RDWR, 0), -EISDIR);
  EXPECT_EQ(process.openat(AT_FDCWD, "a", O_CREAT | O_RDWR, 0600), 3);
  EXPECT_EQ(process.openat(AT_FDCWD, "b", O_CREAT | O_RDWR, 0600), 5);
  EXPECT_EQ(process.dup(3, 0, false), 6);
  EXPECT_EQ(process.openat(AT_FDCWD, "c", O_CREAT | O_RDWR, 0600), -EMFILE);
  EXPECT_EQ(process.fstatat(AT_FDCWD, "c", stat_, 0), -ENOENT);
  EXPECT_EQ(process.dup_to(3, 4, false), -EMFILE);
  EXPECT_EQ(process.close(5), 0);
  EXPECT_EQ(taken, (std::set<int>{0, 1, 2, 3, 4, 6}));
  EXPECT_EQ(process.dup_to(3, 4, false), -EBUSY);
  EXPECT_EQ(taken, (std::set<int>{0, 1, 2, 3, 4, 6}));
}

TEST_F(ProcessTest, AnUnlinkedFileLivesUntilItsLastClose) {
  make_file("f", "text");
  int fd = open("f", O_RDONLY);
  int copy = process_.dup(fd, 0, false);
  EXPECT_EQ(unlink("f"), 0);
  EXPECT_EQ(process_.close(fd), 0);
  EXPECT_EQ(pread(copy, 9, 0), "text");
  EXPECT_EQ(process_.fstat(copy, stat_), 0);
  EXPECT_EQ(stat_.st_nlink, 0U);
}

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

TEST_F(ProcessTest, AHoleOverTheEndTakesTheLastBlockWhole) {
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  make_file("f", std::string(8192 + 200, 'x'));
  const int fd = open("f", O_RDWR);
  EXPECT_EQ(process_.fallocate(fd, kPunch, 9000, 100), 0);  // beyond it: none
  EXPECT_EQ(process_.lseek(fd, 0, SEEK_HOLE), 8192 + 200);
  EXPECT_EQ(process_.fallocate(fd, kPunch, 8192, 100), 0);  // inside the block: zeroes
  EXPECT_EQ(process_.lseek(fd, 0, SEEK_HOLE), 8192 + 200);
  EXPECT_EQ(process_.fallocate(fd, kPunch, 8192, 300), 0);
  EXPECT_EQ(process_.lseek(fd, 0, SEEK_HOLE), 8192);
  EXPECT_EQ(process_.lseek(fd, 0, SEEK_END), 8192 + 200);
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

// ---- against the host --------------------------------------------------------------------------------------------

constexpr int kSlots = 5;
constexpr int kBadFd = 9999;
constexpr uid_t kNobody = 65534;

// The system calls of the differential tests. Paths are relative to the root of the tree.
class System {
 public:
  System() { fds_.fill(kBadFd); }
  virtual ~System() = default;
  int fd(int slot) const { return slot < 0 ? AT_FDCWD : fds_[static_cast<std::size_t>(slot)]; }
  // Where a path of `slot` starts; -1: at the root.
  int dir(int slot) const { return slot < 0 ? root_fd() : fd(slot); }
  // Into a slot that was closed before.
  std::int64_t open(int slot, int dir_slot, const std::string& path, int flags, mode_t mode) {
    std::int64_t result = open_file(dir(dir_slot), path, flags, mode);
    fds_[static_cast<std::size_t>(slot)] = result < 0 ? kBadFd : static_cast<int>(result);
    return std::min<std::int64_t>(result, 0);
  }
  std::int64_t close(int slot) {
    int closed = std::exchange(fds_[static_cast<std::size_t>(slot)], kBadFd);
    return close_file(closed);
  }
  std::int64_t dup(int from, int to) {
    std::int64_t result = dup_file(fd(from));
    fds_[static_cast<std::size_t>(to)] = result < 0 ? kBadFd : static_cast<int>(result);
    return std::min<std::int64_t>(result, 0);
  }

  virtual int root_fd() const = 0;
  virtual std::int64_t open_file(int dir, const std::string& path, int flags, mode_t mode) = 0;
  virtual std::int64_t close_file(int fd) = 0;
  virtual std::int64_t dup_file(int fd) = 0;
  virtual std::int64_t read(int fd, iovec out) = 0;
  virtual std::int64_t pread(int fd, iovec out, off_t offset) = 0;
  virtual std::int64_t write(int fd, iovec in) = 0;
  virtual std::int64_t pwrite(int fd, iovec in, off_t offset, int flags) = 0;
  virtual std::int64_t seek(int fd, off_t offset, int whence) = 0;
  virtual std::int64_t ftruncate(int fd, off_t size) = 0;
  virtual std::int64_t fallocate(int fd, int mode, off_t offset, off_t length) = 0;
  virtual std::int64_t get_flags(int fd) = 0;
  virtual std::int64_t set_flags(int fd, int flags) = 0;
  virtual std::int64_t stat(int dir, const std::string& path, struct stat& out, int flags) = 0;
  virtual std::int64_t access(int dir, const std::string& path, int mask) = 0;
  virtual std::int64_t mkdir(int dir, const std::string& path, mode_t mode) = 0;
  virtual std::int64_t mknod(int dir, const std::string& path, mode_t mode) = 0;
  virtual std::int64_t unlink(int dir, const std::string& path, int flags) = 0;
  virtual std::int64_t link(int from_dir, const std::string& from, int to_dir, const std::string& to, int flags) = 0;
  virtual std::int64_t symlink(const std::string& target, int dir, const std::string& path) = 0;
  virtual std::int64_t readlink(int dir, const std::string& path, std::span<char> out) = 0;
  virtual std::int64_t rename(int from_dir, const std::string& from, int to_dir, const std::string& to,
                              unsigned flags) = 0;
  virtual std::int64_t fchmod(int fd, mode_t mode) = 0;
  virtual std::int64_t chmod(int dir, const std::string& path, mode_t mode) = 0;
  virtual std::int64_t chown(int dir, const std::string& path, uid_t uid, gid_t gid, int flags) = 0;
  virtual std::int64_t utimens(int dir, const std::string& path, const timespec times[2]) = 0;
  virtual std::int64_t getdents(int fd, std::span<std::byte> out) = 0;
  virtual std::int64_t set_xattr(int fd, const std::string& name, const std::string& value, int flags) = 0;
  virtual std::int64_t get_xattr(int fd, const std::string& name, std::string& value) = 0;
  virtual std::int64_t list_xattr(int fd, std::string& names) = 0;
  virtual std::int64_t remove_xattr(int fd, const std::string& name) = 0;

 private:
  std::array<int, kSlots> fds_;
};

class ModelSystem final : public System {
 public:
  ModelSystem(Filesystem& filesystem, Credentials who) : process_({.filesystem = filesystem, .who = std::move(who)}) {}

  int root_fd() const override { return AT_FDCWD; }
  std::int64_t open_file(int dir, const std::string& path, int flags, mode_t mode) override {
    return process_.openat(dir, path, flags, mode);
  }
  std::int64_t close_file(int fd) override { return process_.close(fd); }
  std::int64_t dup_file(int fd) override { return process_.dup(fd, 0, false); }
  std::int64_t read(int fd, iovec out) override { return process_.read(fd, {&out, 1}); }
  std::int64_t pread(int fd, iovec out, off_t offset) override { return process_.pread(fd, {&out, 1}, offset); }
  std::int64_t write(int fd, iovec in) override { return process_.write(fd, {&in, 1}); }
  std::int64_t pwrite(int fd, iovec in, off_t offset, int flags) override {
    return process_.pwrite(fd, {&in, 1}, offset, flags);
  }
  std::int64_t seek(int fd, off_t offset, int whence) override { return process_.lseek(fd, offset, whence); }
  std::int64_t ftruncate(int fd, off_t size) override { return process_.ftruncate(fd, size); }
  std::int64_t fallocate(int fd, int mode, off_t offset, off_t length) override {
    return process_.fallocate(fd, mode, offset, length);
  }
  std::int64_t get_flags(int fd) override { return process_.get_flags(fd); }
  std::int64_t set_flags(int fd, int flags) override { return process_.set_flags(fd, flags); }
  std::int64_t stat(int dir, const std::string& path, struct stat& out, int flags) override {
    return process_.fstatat(dir, path, out, flags);
  }
  std::int64_t access(int dir, const std::string& path, int mask) override {
    return process_.faccessat(dir, path, mask, AT_EACCESS);
  }
  std::int64_t mkdir(int dir, const std::string& path, mode_t mode) override {
    return process_.mkdirat(dir, path, mode);
  }
  std::int64_t mknod(int dir, const std::string& path, mode_t mode) override {
    return process_.mknodat(dir, path, mode, 0);
  }
  std::int64_t unlink(int dir, const std::string& path, int flags) override {
    return process_.unlinkat(dir, path, flags);
  }
  std::int64_t link(int from_dir, const std::string& from, int to_dir, const std::string& to, int flags) override {
    return process_.linkat(from_dir, from, to_dir, to, flags);
  }
  std::int64_t symlink(const std::string& target, int dir, const std::string& path) override {
    return process_.symlinkat(target, dir, path);
  }
  std::int64_t readlink(int dir, const std::string& path, std::span<char> out) override {
    return process_.readlinkat(dir, path, out);
  }
  std::int64_t rename(int from_dir, const std::string& from, int to_dir, const std::string& to,
                      unsigned flags) override {
    return process_.renameat2(from_dir, from, to_dir, to, flags);
  }
  std::int64_t fchmod(int fd, mode_t mode) override { return process_.fchmod(fd, mode); }
  std::int64_t chmod(int dir, const std::string& path, mode_t mode) override {
    return process_.fchmodat(dir, path, mode, 0);
  }
  std::int64_t chown(int dir, const std::string& path, uid_t uid, gid_t gid, int flags) override {
    return process_.fchownat(dir, path, uid, gid, flags);
  }
  std::int64_t utimens(int dir, const std::string& path, const timespec times[2]) override {
    return process_.utimensat(dir, path, times, 0);
  }
  std::int64_t getdents(int fd, std::span<std::byte> out) override { return process_.getdents64(fd, out); }
  std::int64_t set_xattr(int fd, const std::string& name, const std::string& value, int flags) override {
    return process_.set_xattr(fd, "", true, name, value, flags);
  }
  std::int64_t get_xattr(int fd, const std::string& name, std::string& value) override {
    return process_.get_xattr(fd, "", true, name, value);
  }
  std::int64_t list_xattr(int fd, std::string& names) override { return process_.list_xattr(fd, "", true, names); }
  std::int64_t remove_xattr(int fd, const std::string& name) override {
    return process_.remove_xattr(fd, "", true, name);
  }

 private:
  Process process_;
};

class HostSystem final : public System {
 public:
  HostSystem(int root_fd, const Credentials& who) : root_fd_(root_fd), uid_(who.uid), gid_(who.gid) {}
  ~HostSystem() override {
    for (int slot = 0; slot < kSlots; ++slot) close(slot);
  }

  int root_fd() const override { return root_fd_; }
  std::int64_t open_file(int dir, const std::string& path, int flags, mode_t mode) override {
    return call(SYS_openat, dir, path.c_str(), flags, mode);
  }
  std::int64_t close_file(int fd) override { return call(SYS_close, fd); }
  std::int64_t dup_file(int fd) override { return call(SYS_dup, fd); }
  std::int64_t read(int fd, iovec out) override { return call(SYS_read, fd, out.iov_base, out.iov_len); }
  std::int64_t pread(int fd, iovec out, off_t offset) override {
    return call(SYS_pread64, fd, out.iov_base, out.iov_len, offset);
  }
  std::int64_t write(int fd, iovec in) override { return call(SYS_write, fd, in.iov_base, in.iov_len); }
  // pwritev2 reads an offset of -1 as the current one.
  std::int64_t pwrite(int fd, iovec in, off_t offset, int flags) override {
    if (flags == 0) return call(SYS_pwrite64, fd, in.iov_base, in.iov_len, offset);
    return call(SYS_pwritev2, fd, &in, 1, offset, 0, flags);
  }
  std::int64_t seek(int fd, off_t offset, int whence) override { return call(SYS_lseek, fd, offset, whence); }
  std::int64_t ftruncate(int fd, off_t size) override { return call(SYS_ftruncate, fd, size); }
  std::int64_t fallocate(int fd, int mode, off_t offset, off_t length) override {
    return call(SYS_fallocate, fd, mode, offset, length);
  }
  std::int64_t get_flags(int fd) override { return call(SYS_fcntl, fd, F_GETFL); }
  std::int64_t set_flags(int fd, int flags) override { return call(SYS_fcntl, fd, F_SETFL, flags); }
  std::int64_t stat(int dir, const std::string& path, struct stat& out, int flags) override {
    return call(SYS_newfstatat, dir, path.c_str(), &out, flags);
  }
  std::int64_t access(int dir, const std::string& path, int mask) override {
    return call(SYS_faccessat2, dir, path.c_str(), mask, AT_EACCESS);
  }
  std::int64_t mkdir(int dir, const std::string& path, mode_t mode) override {
    return call(SYS_mkdirat, dir, path.c_str(), mode);
  }
  std::int64_t mknod(int dir, const std::string& path, mode_t mode) override {
    return call(SYS_mknodat, dir, path.c_str(), mode, 0);
  }
  std::int64_t unlink(int dir, const std::string& path, int flags) override {
    return call(SYS_unlinkat, dir, path.c_str(), flags);
  }
  std::int64_t link(int from_dir, const std::string& from, int to_dir, const std::string& to, int flags) override {
    return call(SYS_linkat, from_dir, from.c_str(), to_dir, to.c_str(), flags);
  }
  std::int64_t symlink(const std::string& target, int dir, const std::string& path) override {
    return call(SYS_symlinkat, target.c_str(), dir, path.c_str());
  }
  std::int64_t readlink(int dir, const std::string& path, std::span<char> out) override {
    return call(SYS_readlinkat, dir, path.c_str(), out.data(), out.size());
  }
  std::int64_t rename(int from_dir, const std::string& from, int to_dir, const std::string& to,
                      unsigned flags) override {
    return call(SYS_renameat2, from_dir, from.c_str(), to_dir, to.c_str(), flags);
  }
  std::int64_t fchmod(int fd, mode_t mode) override { return call(SYS_fchmod, fd, mode); }
  std::int64_t chmod(int dir, const std::string& path, mode_t mode) override {
    return call(SYS_fchmodat, dir, path.c_str(), mode);
  }
  std::int64_t chown(int dir, const std::string& path, uid_t uid, gid_t gid, int flags) override {
    return call(SYS_fchownat, dir, path.c_str(), uid, gid, flags);
  }
  std::int64_t utimens(int dir, const std::string& path, const timespec times[2]) override {
    return call(SYS_utimensat, dir, path.c_str(), times, 0);
  }
  std::int64_t getdents(int fd, std::span<std::byte> out) override {
    return call(SYS_getdents64, fd, out.data(), out.size());
  }
  std::int64_t set_xattr(int fd, const std::string& name, const std::string& value, int flags) override {
    return call(SYS_fsetxattr, fd, name.c_str(), value.data(), value.size(), flags);
  }
  std::int64_t get_xattr(int fd, const std::string& name, std::string& value) override {
    value.resize(XATTR_SIZE_MAX);
    std::int64_t size = call(SYS_fgetxattr, fd, name.c_str(), value.data(), value.size());
    value.resize(static_cast<std::size_t>(std::max<std::int64_t>(size, 0)));
    return std::min<std::int64_t>(size, 0);
  }
  std::int64_t list_xattr(int fd, std::string& names) override {
    names.resize(XATTR_LIST_MAX);
    std::int64_t size = call(SYS_flistxattr, fd, names.data(), names.size());
    names.resize(static_cast<std::size_t>(std::max<std::int64_t>(size, 0)));
    return std::min<std::int64_t>(size, 0);
  }
  std::int64_t remove_xattr(int fd, const std::string& name) override {
    return call(SYS_fremovexattr, fd, name.c_str());
  }

 private:
  // As the user: only the system call itself runs with its rights. The raw calls change this thread alone.
  template <class... Args>
  std::int64_t call(long number, Args... args) {
    constexpr uid_t kSame = static_cast<uid_t>(-1);
    bool switches = uid_ != ::geteuid();
    if (switches) ::syscall(SYS_setresgid, kSame, gid_, kSame);
    if (switches) ::syscall(SYS_setresuid, kSame, uid_, kSame);
    std::int64_t result = ::syscall(number, args...);
    if (result < 0) result = -errno;
    if (switches) ::syscall(SYS_setresuid, kSame, 0, kSame);
    if (switches) ::syscall(SYS_setresgid, kSame, 0, kSame);
    return result;
  }

  int root_fd_;
  uid_t uid_;
  gid_t gid_;
};

std::string to_octal(mode_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%o", mode);
  return text;
}

std::string describe(const struct stat& stat) {
  std::string text = "mode " + to_octal(stat.st_mode) + " nlink " + std::to_string(stat.st_nlink) + " owner " +
                     std::to_string(stat.st_uid) + ":" + std::to_string(stat.st_gid);
  if (!S_ISDIR(stat.st_mode)) text += " size " + std::to_string(stat.st_size);
  return text;
}

std::string describe(std::int64_t result) { return std::to_string(result); }

std::string join(std::vector<std::string> lines) {
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

// All entries, with their types, in buffers of some size.
std::vector<std::string> list(System& system, int fd, std::size_t buffer_bytes) {
  std::vector<std::string> names;
  std::vector<std::byte> buffer(buffer_bytes);
  system.seek(fd, 0, SEEK_SET);
  for (;;) {
    std::int64_t used = system.getdents(fd, buffer);
    if (used < 0) return {describe(used)};
    if (used == 0) return names;
    for (auto& name : parse_dirents(std::span(buffer).first(static_cast<std::size_t>(used)))) names.push_back(name);
  }
}

std::string list_user_xattrs(System& system, int fd) {
  std::string names;
  std::int64_t result = system.list_xattr(fd, names);
  if (result < 0) return describe(result);
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < names.size(); at += std::strlen(&names[at]) + 1) {
    std::string name = &names[at];
    if (!name.starts_with("user.")) continue;
    std::string value;
    result = system.get_xattr(fd, name, value);
    lines.push_back(name + "=" + value + describe(result));
  }
  return join(lines);
}

std::string read_all(System& system, int fd) {
  std::string bytes(1 << 17, '\0');
  std::int64_t count = system.pread(fd, {bytes.data(), bytes.size()}, 0);
  if (count < 0) return describe(count);
  return describe(count) + " bytes, hash " +
         std::to_string(std::hash<std::string_view>{}({bytes.data(), static_cast<std::size_t>(count)}));
}

void describe_tree(System& system, const std::string& path, std::string& out) {
  struct stat stat {};
  std::int64_t result = system.stat(system.root_fd(), path, stat, AT_SYMLINK_NOFOLLOW);
  out += path + ": " + (result < 0 ? describe(result) : describe(stat));
  char target[4096];
  if (S_ISLNK(stat.st_mode)) {
    std::int64_t length = system.readlink(system.root_fd(), path, target);
    out += " -> " + std::string(target, static_cast<std::size_t>(length));
  }
  int fd = S_ISREG(stat.st_mode) || S_ISDIR(stat.st_mode)
               ? static_cast<int>(system.open_file(system.root_fd(), path, O_RDONLY | O_NOFOLLOW, 0))
               : -1;
  if (fd < 0) return void(out += "\n");
  out += " " + list_user_xattrs(system, fd);
  if (S_ISREG(stat.st_mode)) out += " " + read_all(system, fd);
  out += "\n";
  std::vector<std::string> names = S_ISDIR(stat.st_mode) ? list(system, fd, 4096) : std::vector<std::string>{};
  system.close_file(fd);
  std::sort(names.begin(), names.end());
  for (const std::string& entry : names) {
    std::string name = entry.substr(0, entry.find(':'));
    if (name != "." && name != "..") describe_tree(system, path + "/" + name, out);
  }
}

// A directory of the host, removed in the end.
class HostDirectory {
 public:
  HostDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "crashcut-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
    std::filesystem::create_directory(path_ / "root");
    fd_ = ::open((path_ / "root").c_str(), O_RDONLY | O_DIRECTORY);
    ::fchmod(fd_, 0777);
  }
  ~HostDirectory() {
    ::close(fd_);
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  int fd() const { return fd_; }
  bool is_ext4() const {
    struct statfs stat {};
    return ::fstatfs(fd_, &stat) == 0 && stat.f_type == EXT4_SUPER_MAGIC && stat.f_bsize == 4096;
  }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

std::vector<gid_t> host_groups() {
  std::vector<gid_t> groups(64);
  int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  return groups;
}

// One random sequence of calls on both sides.
class Differential {
 public:
  Differential(std::uint64_t seed, bool two_users) : random_(seed), seed_(seed), compares_holes_(seed % 2 == 0) {
    ModelSystem owner(filesystem_, kRoot);
    owner.chown(AT_FDCWD, ".", ::geteuid(), ::getegid(), 0);
    owner.chmod(AT_FDCWD, ".", 0777);
    add_user({.uid = ::geteuid(), .gid = ::getegid(), .groups = host_groups()});
    if (two_users) add_user({.uid = kNobody, .gid = kNobody, .groups = host_groups()});
  }

  bool run(int steps) {
    for (int step = 0; step < steps && same_; ++step) {
      user_ = pick(users_.size());
      (this->*kOps[pick(std::size(kOps))])();
      if (step % 20 == 19) check_tree();
    }
    check_tree();
    return same_;
  }

 private:
  struct User {
    std::unique_ptr<System> model;
    std::unique_ptr<System> host;
  };
  using Op = void (Differential::*)();

  void add_user(const Credentials& who) {
    users_.push_back({std::make_unique<ModelSystem>(filesystem_, who), std::make_unique<HostSystem>(host_.fd(), who)});
  }

  // The model goes first: what leads out of its tree must not be done to the host.
  void both(const std::string& what, const std::function<std::string(System&)>& act) {
    if (!same_) return;
    User& user = users_[user_];
    std::string model = act(*user.model);
    log_.push_back("user " + std::to_string(user_) + ": " + what + " = " + model);
    if (model == describe(kOutside) || model == describe(-EXDEV)) return;
    std::string host = act(*user.host);
    if (model == host) return;
    same_ = false;
    std::string history;
    for (const std::string& line : log_) history += "  " + line + "\n";
    ADD_FAILURE() << "CRASHCUT_SEED=" << seed_ << "\n" << history << "the host says " << host;
  }

  void check_tree() {
    user_ = 0;
    both("tree", [](System& system) {
      std::string text;
      describe_tree(system, ".", text);
      return text;
    });
  }

  std::size_t pick(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_); }
  bool chance(int percent) { return static_cast<int>(pick(100)) < percent; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[pick(values.size())];
  }

  // Mostly one that is open.
  int slot() {
    int slot = static_cast<int>(pick(kSlots));
    for (int tries = 0; tries < 3 && users_[user_].model->fd(slot) == kBadFd; ++tries)
      slot = static_cast<int>(pick(kSlots));
    return slot;
  }
  int dir_slot() { return chance(10) ? slot() : -1; }
  std::string name() {
    if (chance(4)) return ".";
    if (chance(4)) return "..";
    return one_of<const char*>({"a", "b", "c", "d", "e"});
  }
  std::string path() {
    if (chance(1)) return "";
    std::string text = name();
    while (chance(35)) text += (chance(5) ? "//" : "/") + name();
    return chance(6) ? text + "/" : text;
  }
  off_t offset() {
    if (chance(2)) return -1;
    return static_cast<off_t>(chance(30) ? pick(5) * 4096 : pick(20000));
  }
  mode_t mode() {
    mode_t mode =
        one_of<mode_t>({0644, 0666, 0600, 0755, 0777, 0711, 0444, 0, 02755, 02777, 04755, 06777, 02666, 01775});
    return ::geteuid() == 0 ? mode : mode | 0700;
  }
  std::string bytes() {
    std::size_t count = chance(5) ? 0 : chance(50) ? pick(100) : pick(10000);
    return std::string(count, static_cast<char>('A' + pick(26)));
  }
  static std::string at(int dir, const std::string& path) { return "(" + std::to_string(dir) + ")'" + path + "' "; }
  static iovec part(const std::string& text) { return {const_cast<char*>(text.data()), text.size()}; }

  void close() {
    int slot = this->slot();
    close(slot);
  }
  void close(int slot) {
    both("close " + std::to_string(slot), [=](System& system) { return describe(system.close(slot)); });
  }

  int open_flags() {
    int flags = one_of<int>({O_RDONLY, O_RDWR, O_RDWR, O_WRONLY});
    if (chance(70)) flags |= O_CREAT;
    for (int flag : {O_EXCL, O_TRUNC, O_APPEND, O_NOFOLLOW, O_DIRECTORY, O_SYNC, O_NOATIME, O_NONBLOCK, O_CLOEXEC})
      if (chance(6)) flags |= flag;
    if (chance(3)) flags |= O_TMPFILE;
    return chance(3) ? flags | O_PATH : flags;
  }
  void open() {
    auto slot = static_cast<int>(pick(kSlots));
    int dir = dir_slot();
    if (dir == slot) dir = -1;
    std::string path = this->path();
    int flags = open_flags();
    mode_t mode = this->mode();
    close(slot);
    both("open " + std::to_string(slot) + at(dir, path) + to_octal(static_cast<mode_t>(flags)) + " " + to_octal(mode),
         [=](System& system) { return describe(system.open(slot, dir, path, flags, mode)); });
    both("flags", [=](System& system) { return to_octal(static_cast<mode_t>(system.get_flags(system.fd(slot)))); });
  }
  void dup() {
    int from = slot();
    int to = (from + 1) % kSlots;
    close(to);
    both("dup " + std::to_string(from), [=](System& system) { return describe(system.dup(from, to)); });
  }
  void set_flags() {
    int slot = this->slot();
    int flags = one_of<int>({0, O_APPEND, O_NONBLOCK, O_NOATIME, O_APPEND | O_SYNC});
    both("set_flags " + std::to_string(slot) + " " + std::to_string(flags),
         [=](System& system) { return describe(system.set_flags(system.fd(slot), flags)); });
  }

  void write() {
    int slot = this->slot();
    std::string bytes = this->bytes();
    both("write " + std::to_string(slot) + " " + std::to_string(bytes.size()),
         [=](System& system) { return describe(system.write(system.fd(slot), part(bytes))); });
  }
  void pwrite() {
    int slot = this->slot();
    std::string bytes = this->bytes();
    off_t offset = this->offset();
    int flags = one_of<int>({0, 0, 0, RWF_DSYNC, RWF_SYNC, RWF_APPEND, 1 << 20});
    if (offset < 0) flags = 0;
    both("pwrite " + std::to_string(slot) + " " + std::to_string(bytes.size()) + " at " + std::to_string(offset) +
             " flags " + std::to_string(flags),
         [=](System& system) { return describe(system.pwrite(system.fd(slot), part(bytes), offset, flags)); });
  }
  void read() {
    int slot = this->slot();
    std::size_t count = pick(20000);
    if (is_directory(slot)) return;  // the host's offset after a listing is so high that it fails otherwise
    both("read " + std::to_string(slot) + " " + std::to_string(count), [=](System& system) {
      std::string bytes(count, '\0');
      std::int64_t result = system.read(system.fd(slot), part(bytes));
      return describe(result) + " hash " + std::to_string(std::hash<std::string>{}(bytes));
    });
  }
  void pread() {
    int slot = this->slot();
    std::size_t count = pick(20000);
    off_t offset = this->offset();
    both("pread " + std::to_string(slot) + " " + std::to_string(count) + " at " + std::to_string(offset),
         [=](System& system) {
           std::string bytes(count, '\0');
           std::int64_t result = system.pread(system.fd(slot), part(bytes), offset);
           return describe(result) + " hash " + std::to_string(std::hash<std::string>{}(bytes));
         });
  }
  bool is_directory(int slot) {
    struct stat stat {};
    System& model = *users_[user_].model;
    return model.stat(model.fd(slot), "", stat, AT_EMPTY_PATH) == 0 && S_ISDIR(stat.st_mode);
  }
  void seek() {
    int slot = this->slot();
    int whence = compares_holes_
                     ? one_of<int>({SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA, SEEK_HOLE, SEEK_DATA, SEEK_HOLE, 7})
                     : one_of<int>({SEEK_SET, SEEK_CUR, SEEK_END});
    off_t offset = this->offset();
    if (whence == SEEK_CUR || whence == SEEK_END) offset -= 10000;
    if (is_directory(slot)) return;  // cookies differ
    both("seek " + std::to_string(slot) + " " + std::to_string(offset) + " whence " + std::to_string(whence),
         [=](System& system) { return describe(system.seek(system.fd(slot), offset, whence)); });
  }
  void ftruncate() {
    int slot = this->slot();
    off_t size = offset();
    both("ftruncate " + std::to_string(slot) + " " + std::to_string(size),
         [=](System& system) { return describe(system.ftruncate(system.fd(slot), size)); });
  }
  void fallocate() {
    constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    int slot = this->slot();
    int mode = one_of<int>({kPunch, kPunch, FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE, FALLOC_FL_PUNCH_HOLE,
                            FALLOC_FL_COLLAPSE_RANGE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_UNSHARE_RANGE});
    int unwritten_mode =
        one_of<int>({0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE});
    if (!compares_holes_ && chance(50)) mode = unwritten_mode;
    off_t offset = this->offset();
    off_t length = this->offset();
    both("fallocate " + std::to_string(slot) + " mode " + std::to_string(mode) + " " + std::to_string(offset) + "+" +
             std::to_string(length),
         [=](System& system) { return describe(system.fallocate(system.fd(slot), mode, offset, length)); });
  }

  void stat() {
    int dir = dir_slot();
    std::string path = this->path();
    int flags = one_of<int>({0, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, 1});
    both("stat " + at(dir, path) + std::to_string(flags), [=](System& system) {
      struct stat stat {};
      std::int64_t result = system.stat(system.dir(dir), path, stat, flags);
      return result < 0 ? describe(result) : describe(stat);
    });
  }
  void access() {
    int dir = dir_slot();
    std::string path = this->path();
    int mask = static_cast<int>(pick(9));
    both("access " + at(dir, path) + std::to_string(mask),
         [=](System& system) { return describe(system.access(system.dir(dir), path, mask)); });
  }
  void mkdir() {
    int dir = dir_slot();
    std::string path = this->path();
    mode_t mode = this->mode() | (chance(80) ? 0700 : 0);
    both("mkdir " + at(dir, path) + to_octal(mode),
         [=](System& system) { return describe(system.mkdir(system.dir(dir), path, mode)); });
  }
  void mknod() {
    int dir = dir_slot();
    std::string path = this->path();
    mode_t mode = this->mode() | one_of<mode_t>({0, S_IFREG, S_IFIFO, S_IFSOCK, S_IFDIR, S_IFLNK});
    // Opening a FIFO would block the host, and is not modelled.
    if (S_ISFIFO(mode)) mode = (mode & ~mode_t{S_IFMT}) | S_IFSOCK;
    both("mknod " + at(dir, path) + to_octal(mode),
         [=](System& system) { return describe(system.mknod(system.dir(dir), path, mode)); });
  }
  void unlink() {
    int dir = dir_slot();
    std::string path = this->path();
    int flags = one_of<int>({0, 0, AT_REMOVEDIR, 1});
    both("unlink " + at(dir, path) + std::to_string(flags),
         [=](System& system) { return describe(system.unlink(system.dir(dir), path, flags)); });
  }
  // Of two paths where one is outside, only the host could say which fails first.
  bool is_outside(int dir, const std::string& path) {
    struct stat stat {};
    System& model = *users_[user_].model;
    return model.stat(model.dir(dir), path, stat, 0) == kOutside ||
           model.stat(model.dir(dir), path, stat, AT_SYMLINK_NOFOLLOW) == kOutside;
  }
  void link() {
    int from_dir = dir_slot();
    int to_dir = dir_slot();
    std::string from = path();
    std::string to = path();
    int flags = one_of<int>({0, 0, AT_SYMLINK_FOLLOW, 2});
    if (is_outside(from_dir, from) || is_outside(to_dir, to)) return;
    both("link " + at(from_dir, from) + at(to_dir, to) + std::to_string(flags), [=](System& system) {
      return describe(system.link(system.dir(from_dir), from, system.dir(to_dir), to, flags));
    });
  }
  void symlink() {
    int dir = dir_slot();
    std::string target = path();
    std::string path = this->path();
    both("symlink '" + target + "' " + at(dir, path),
         [=](System& system) { return describe(system.symlink(target, system.dir(dir), path)); });
  }
  void readlink() {
    int dir = dir_slot();
    std::string path = this->path();
    std::size_t room = pick(6);
    both("readlink " + at(dir, path) + std::to_string(room), [=](System& system) {
      std::string target(room, '\0');
      std::int64_t result = system.readlink(system.dir(dir), path, target);
      return result < 0 ? describe(result) : target;
    });
  }
  void rename() {
    int from_dir = dir_slot();
    int to_dir = dir_slot();
    std::string from = path();
    std::string to = path();
    auto flags = one_of<unsigned>({0, 0, 0, RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_NOREPLACE | RENAME_EXCHANGE, 8});
    if (is_outside(from_dir, from) || is_outside(to_dir, to)) return;
    both("rename " + at(from_dir, from) + at(to_dir, to) + std::to_string(flags), [=](System& system) {
      return describe(system.rename(system.dir(from_dir), from, system.dir(to_dir), to, flags));
    });
  }
  void chmod() {
    int dir = dir_slot();
    std::string path = this->path();
    mode_t mode = this->mode();
    both("chmod " + at(dir, path) + to_octal(mode),
         [=](System& system) { return describe(system.chmod(system.dir(dir), path, mode)); });
  }
  void fchmod() {
    int slot = this->slot();
    mode_t mode = this->mode();
    both("fchmod " + std::to_string(slot) + " " + to_octal(mode),
         [=](System& system) { return describe(system.fchmod(system.fd(slot), mode)); });
  }
  void chown() {
    if (::geteuid() != 0 && chance(90)) return;
    int dir = dir_slot();
    std::string path = this->path();
    auto uid = one_of<uid_t>({0, kNobody, static_cast<uid_t>(-1)});
    auto gid = one_of<gid_t>({0, kNobody, 7, static_cast<gid_t>(-1)});
    int flags = one_of<int>({0, AT_SYMLINK_NOFOLLOW});
    both("chown " + at(dir, path) + std::to_string(uid) + ":" + std::to_string(gid),
         [=](System& system) { return describe(system.chown(system.dir(dir), path, uid, gid, flags)); });
  }
  void utimens() {
    int dir = dir_slot();
    std::string path = this->path();
    auto first = one_of<long>({5, UTIME_NOW, UTIME_OMIT, -1});
    auto second = chance(50) ? first : one_of<long>({5, UTIME_NOW, UTIME_OMIT});
    both("utimens " + at(dir, path) + std::to_string(first) + " " + std::to_string(second), [=](System& system) {
      timespec times[2] = {{1, first}, {2, second}};
      return describe(system.utimens(system.dir(dir), path, times));
    });
  }
  void readdir() {
    int slot = this->slot();
    std::size_t buffer_bytes = 280 + pick(2000);
    if (!is_directory(slot)) return;
    both("readdir " + std::to_string(slot),
         [=](System& system) { return join(list(system, system.fd(slot), buffer_bytes)); });
  }

  std::string xattr_name() {
    if (chance(80)) return one_of<const char*>({"user.a", "user.b", "user.c"});
    return one_of<const char*>({"user.", "other.a", "trusted.a", "security.a", "", "nothing"});
  }
  void set_xattr() {
    int slot = this->slot();
    std::string name = xattr_name();
    std::string value(pick(100), static_cast<char>('a' + pick(26)));
    int flags = one_of<int>({0, 0, XATTR_CREATE, XATTR_REPLACE, 8});
    both("set_xattr " + std::to_string(slot) + " '" + name + "' " + std::to_string(flags),
         [=](System& system) { return describe(system.set_xattr(system.fd(slot), name, value, flags)); });
  }
  void get_xattr() {
    int slot = this->slot();
    std::string name = xattr_name();
    both("get_xattr " + std::to_string(slot) + " '" + name + "'", [=](System& system) {
      std::string value;
      std::int64_t result = system.get_xattr(system.fd(slot), name, value);
      return describe(result) + value;
    });
    both("list_xattr " + std::to_string(slot),
         [=](System& system) { return list_user_xattrs(system, system.fd(slot)); });
  }
  void remove_xattr() {
    int slot = this->slot();
    std::string name = xattr_name();
    both("remove_xattr " + std::to_string(slot) + " '" + name + "'",
         [=](System& system) { return describe(system.remove_xattr(system.fd(slot), name)); });
  }

  // Frequent ones stand more than once.
  using D = Differential;
  static constexpr Op kOps[] = {
      &D::open,      &D::open,      &D::open,      &D::open,      &D::open,        &D::close,   &D::dup,
      &D::set_flags, &D::write,     &D::write,     &D::pwrite,    &D::pwrite,      &D::read,    &D::pread,
      &D::seek,      &D::seek,      &D::ftruncate, &D::fallocate, &D::fallocate,   &D::stat,    &D::access,
      &D::mkdir,     &D::mkdir,     &D::mknod,     &D::unlink,    &D::link,        &D::symlink, &D::readlink,
      &D::rename,    &D::rename,    &D::rename,    &D::chmod,     &D::fchmod,      &D::chown,   &D::utimens,
      &D::readdir,   &D::set_xattr, &D::set_xattr, &D::get_xattr, &D::remove_xattr};

  std::mt19937_64 random_;
  std::uint64_t seed_;
  bool compares_holes_;  // then nothing makes unwritten blocks
  HostDirectory host_;
  Filesystem filesystem_{{}};
  std::vector<User> users_;
  std::size_t user_ = 0;
  bool same_ = true;
  std::vector<std::string> log_;
};

// Why the host cannot be compared with, empty where it can.
std::string host_lacks() {
  HostDirectory directory;
  if (!directory.is_ext4()) return "the host's temporary directory is not ext4 with blocks of 4096 bytes";
  return "";
}

constexpr int kSteps = 120;

TEST(ProcessAgainstHost, OneUser) {
  if (auto lack = host_lacks(); !lack.empty()) GTEST_SKIP() << lack;
  ::umask(022);
  tests::for_each_seed(1000, [](std::uint64_t seed) { return Differential(seed, false).run(kSteps); });
}

TEST(ProcessAgainstHost, RootAndNobody) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  if (auto lack = host_lacks(); !lack.empty()) GTEST_SKIP() << lack;
  ::umask(022);
  tests::for_each_seed(1000, [](std::uint64_t seed) { return Differential(seed, true).run(kSteps); });
}

}  // namespace
}  // namespace crashcut::fusefs
