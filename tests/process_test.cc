// Process: names and descriptors, errno by errno.
#include <linux/fs.h>
#include <sys/file.h>

#include <set>

#include "tests/process_fixture.h"

namespace crashcut::fusefs {
namespace {

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
  EXPECT_EQ(stat("/tmp/../crashcut/f"), 0);
  EXPECT_EQ(stat("/../a/b/./../../crashcut/f"), 0);
  EXPECT_EQ(stat("/tmp/../crashcut/../f"), kOutside);
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

TEST_F(ProcessTest, WhatLostItsNameGetsNoOther) {
  const auto link = [&](int fd) { return process_.linkat(fd, "", AT_FDCWD, "again", AT_EMPTY_PATH); };
  EXPECT_EQ(link(open(".", O_TMPFILE | O_EXCL | O_RDWR)), -ENOENT);
  int fd = open(".", O_TMPFILE | O_RDWR);
  EXPECT_EQ(link(fd), 0);
  EXPECT_EQ(unlink("again"), 0);
  EXPECT_EQ(link(fd), -ENOENT);
  int named = open("f", O_CREAT | O_RDWR);
  EXPECT_EQ(link(named), 0);
  EXPECT_EQ(unlink("again"), 0);
  EXPECT_EQ(unlink("f"), 0);
  EXPECT_EQ(link(named), -ENOENT);
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

}  // namespace
}  // namespace crashcut::fusefs
