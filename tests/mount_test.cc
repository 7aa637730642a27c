// The mounted filesystem, as programs use it.
#include "tests/mount_fixture.h"

namespace crashcut::tests {
namespace {

// ---- in both ways of caching, on an empty disk
// ------------------------------------------------------------------------

class Both : public testing::TestWithParam<Caching> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_MOUNT();
    umask(022);
    mounted_.emplace(Mounted::Setup{.caching = GetParam(), .has_special_files = true});
  }
  std::string path(const std::string& name) const { return mounted_->path(name); }
  int create(const std::string& name, int flags = O_RDWR) { return open(path(name).c_str(), flags | O_CREAT, 0644); }

  std::optional<Mounted> mounted_;
};

INSTANTIATE_TEST_SUITE_P(Caching, Both, testing::Values(Caching::kKept, Caching::kNothing),
                         [](const auto& info) { return info.param == Caching::kKept ? "Kept" : "Nothing"; });

TEST_P(Both, StoresToASharedMappingAreInTheFile) {
  const Fd fd(create("f"));
  write_all(fd, text_of(3 * kPage, 'a'));
  {
    const Mapping map(fd, 3 * kPage, PROT_READ | PROT_WRITE);
    std::memcpy(map.bytes + kPage, "stored", 6);
    EXPECT_EQ(msync(map.bytes, map.length, MS_SYNC), 0);
    EXPECT_EQ(read_some(fd, 6, kPage), "stored");
    // And the other way: what is written shows in the mapping.
    EXPECT_EQ(pwrite(fd, "written", 7, 10), 7);
    EXPECT_EQ(std::string(map.bytes + 10, 7), "written");
    std::memcpy(map.bytes + 2 * kPage, "unsynced", 8);
    // Looking a file up by its name must not cut off what is mapped.
    EXPECT_EQ(stat_of(path("f")).st_size, static_cast<off_t>(3 * kPage));
    const Fd again(open(path("f").c_str(), O_RDONLY));
    EXPECT_EQ(std::string(map.bytes + 2 * kPage, 8), "unsynced");
  }
  EXPECT_EQ(read_some(fd, 8, 2 * kPage), "unsynced");
  const std::string whole = read_file(path("f"));
  EXPECT_EQ(whole.size(), 3 * kPage);
  EXPECT_EQ(whole.substr(0, 10), text_of(10, 'a'));
}

TEST_P(Both, ProcessesShareAMapping) {
  const Fd fd(create("f"));
  ASSERT_EQ(ftruncate(fd, kPage), 0);
  const Mapping map(fd, kPage, PROT_READ | PROT_WRITE);
  EXPECT_EQ(in_child([&] {
              const Fd own(open(path("f").c_str(), O_RDWR));
              const Mapping other(own, kPage, PROT_READ | PROT_WRITE);
              std::strcpy(other.bytes, "from the child");
              return 0;
            }),
            0);
  EXPECT_STREQ(map.bytes, "from the child");
}

TEST_P(Both, DirectIoWantsWholeSectors) {
  const Fd fd(create("f", O_RDWR | O_DIRECT));
  const Aligned buffer(2 * kPage);
  std::memset(buffer.bytes, 'd', 2 * kPage);
  EXPECT_EQ(pwrite(fd, buffer.bytes, 2 * kPage, 0), static_cast<ssize_t>(2 * kPage));
  EXPECT_EQ(pwrite(fd, buffer.bytes, 512, 512), 512);
  EXPECT_EQ(error_of(pwrite(fd, buffer.bytes, 100, 0)), EINVAL);
  EXPECT_EQ(error_of(pwrite(fd, buffer.bytes, 512, 100)), EINVAL);
  EXPECT_EQ(error_of(pread(fd, buffer.bytes, 100, 0)), EINVAL);
  EXPECT_EQ(error_of(pread(fd, buffer.bytes, 512, 7)), EINVAL);
  EXPECT_EQ(pread(fd, buffer.bytes, kPage, kPage), static_cast<ssize_t>(kPage));
  EXPECT_EQ(pread(fd, buffer.bytes, kPage, 2 * kPage), 0);
}

TEST_P(Both, DirectAndBufferedIoAgree) {
  const Fd direct(create("f", O_RDWR | O_DIRECT));
  const Fd buffered(open(path("f").c_str(), O_RDWR));
  write_all(buffered, std::string(kPage, 'b'));
  const Aligned buffer(kPage);
  EXPECT_EQ(pread(direct, buffer.bytes, kPage, 0), static_cast<ssize_t>(kPage));
  EXPECT_EQ(std::string(buffer.bytes, kPage), std::string(kPage, 'b'));
  EXPECT_EQ(read_some(buffered, 4), "bbbb");
  std::memset(buffer.bytes, 'd', kPage);
  EXPECT_EQ(pwrite(direct, buffer.bytes, kPage, 0), static_cast<ssize_t>(kPage));
  EXPECT_EQ(read_some(buffered, 4), "dddd");
}

TEST_P(Both, LibaioWritesAndReads) {
  aio_context_t context = 0;
  ASSERT_EQ(syscall(SYS_io_setup, 8, &context), 0);
  const Fd fd(create("f", O_RDWR | O_DIRECT));
  const Aligned out(4 * kPage), in(4 * kPage);
  std::memcpy(out.bytes, text_of(4 * kPage, 'a').data(), 4 * kPage);
  const auto run = [&](int opcode, char* buffer) {
    std::array<iocb, 4> blocks{};
    std::array<iocb*, 4> all{};
    for (std::size_t i = 0; i < 4; ++i) {
      blocks[i].aio_fildes = static_cast<std::uint32_t>(int{fd});
      blocks[i].aio_lio_opcode = static_cast<std::uint16_t>(opcode);
      blocks[i].aio_buf = reinterpret_cast<std::uint64_t>(buffer + i * kPage);
      blocks[i].aio_nbytes = kPage;
      blocks[i].aio_offset = static_cast<std::int64_t>(i * kPage);
      all[i] = &blocks[i];
    }
    ASSERT_EQ(syscall(SYS_io_submit, context, 4, all.data()), 4);
    std::array<io_event, 4> events{};
    ASSERT_EQ(syscall(SYS_io_getevents, context, 4, 4, events.data(), nullptr), 4);
    for (const io_event& event : events) EXPECT_EQ(event.res, static_cast<std::int64_t>(kPage));
  };
  run(IOCB_CMD_PWRITE, out.bytes);
  run(IOCB_CMD_PREAD, in.bytes);
  EXPECT_EQ(std::memcmp(out.bytes, in.bytes, 4 * kPage), 0);
  syscall(SYS_io_destroy, context);
}

TEST_P(Both, IoUringWritesSyncsAndReads) {
  io_uring ring;
  if (const int error = io_uring_queue_init(8, &ring, 0)) GTEST_SKIP() << "no io_uring here: " << std::strerror(-error);
  const Fd fd(create("f"));
  const std::string out = text_of(10'000, 'u');
  std::string in(out.size(), '\0');
  const auto finish = [&](io_uring_sqe* entry) {
    (void)entry;
    EXPECT_EQ(io_uring_submit(&ring), 1);
    io_uring_cqe* done = nullptr;
    EXPECT_EQ(io_uring_wait_cqe(&ring, &done), 0);
    const int result = done->res;
    io_uring_cqe_seen(&ring, done);
    return result;
  };
  io_uring_sqe* entry = io_uring_get_sqe(&ring);
  io_uring_prep_write(entry, fd, out.data(), static_cast<unsigned>(out.size()), 5);
  EXPECT_EQ(finish(entry), static_cast<int>(out.size()));
  entry = io_uring_get_sqe(&ring);
  io_uring_prep_fsync(entry, fd, IORING_FSYNC_DATASYNC);
  EXPECT_EQ(finish(entry), 0);
  entry = io_uring_get_sqe(&ring);
  io_uring_prep_read(entry, fd, in.data(), static_cast<unsigned>(in.size()), 5);
  EXPECT_EQ(finish(entry), static_cast<int>(in.size()));
  EXPECT_EQ(in, out);
  io_uring_queue_exit(&ring);
}

TEST_P(Both, CopyFileRangeSpliceAndSendfile) {
  const std::string text = text_of(50'000, 'c');
  write_file(path("from"), text);
  const Fd from(open(path("from").c_str(), O_RDONLY));
  const Fd copied(create("copied"));
  off_t at = 100, to = 7;
  EXPECT_EQ(copy_file_range(from, &at, copied, &to, 1 << 20, 0), 49'900);
  EXPECT_EQ(at, 50'000);
  EXPECT_EQ(to, 49'907);
  EXPECT_EQ(read_file(path("copied")), std::string(7, '\0') + text.substr(100));

  const Fd sent(create("sent"));
  EXPECT_EQ(sendfile(sent, from, nullptr, 1 << 20), 50'000);
  EXPECT_EQ(read_file(path("sent")), text);

  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Fd out(ends[0]), in(ends[1]);
  const Fd spliced(create("spliced"));
  off_t begin = 10;
  EXPECT_EQ(splice(from, &begin, in, nullptr, 5000, 0), 5000);
  EXPECT_EQ(splice(out, nullptr, spliced, nullptr, 5000, 0), 5000);
  EXPECT_EQ(read_file(path("spliced")), text.substr(10, 5000));
}

TEST_P(Both, LocksHoldBetweenProcesses) {
  const Fd fd(create("f"));
  struct flock lock {
    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 10, .l_pid = 0
  };
  const auto other_may = [&](int command, short type, off_t start) {
    return in_child([&] {
      const Fd own(open(path("f").c_str(), O_RDWR));
      struct flock wanted {
        .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = 1, .l_pid = 0
      };
      return error_of(fcntl(own, command, &wanted));
    });
  };
  ASSERT_EQ(fcntl(fd, F_SETLK, &lock), 0);
  EXPECT_EQ(other_may(F_SETLK, F_RDLCK, 15), EAGAIN);
  EXPECT_EQ(other_may(F_SETLK, F_WRLCK, 25), 0);
  EXPECT_EQ(other_may(F_OFD_SETLK, F_WRLCK, 15), EAGAIN);
  struct flock seen {
    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0
  };
  EXPECT_EQ(in_child([&] {
              return fcntl(fd, F_GETLK, &seen) == 0 && seen.l_type == F_WRLCK && seen.l_start == 10 &&
                             seen.l_pid == getppid()
                         ? 0
                         : 1;
            }),
            0);
  lock.l_type = F_UNLCK;
  ASSERT_EQ(fcntl(fd, F_SETLK, &lock), 0);
  lock.l_type = F_WRLCK;
  ASSERT_EQ(fcntl(fd, F_OFD_SETLK, &lock), 0);
  const Fd second(open(path("f").c_str(), O_RDWR));
  EXPECT_EQ(error_of(fcntl(second, F_OFD_SETLK, &lock)), EAGAIN);
  lock.l_type = F_UNLCK;
  ASSERT_EQ(fcntl(fd, F_OFD_SETLK, &lock), 0);

  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  EXPECT_EQ(error_of(flock(second, LOCK_SH | LOCK_NB)), EWOULDBLOCK);
  ASSERT_EQ(flock(fd, LOCK_UN), 0);
  EXPECT_EQ(flock(second, LOCK_EX | LOCK_NB), 0);
}

TEST_P(Both, AWaitingLockIsGivenWhenItsHolderDies) {
  const Fd fd(create("f"));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const Fd out(ends[0]), in(ends[1]);
  const pid_t holder = fork();
  if (holder == 0) {
    struct flock lock {
      .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0
    };
    fcntl(fd, F_SETLK, &lock);
    write_all(in, "x");
    usleep(50'000);
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(out, &byte, 1), 1);
  struct flock lock {
    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0, .l_pid = 0
  };
  EXPECT_EQ(error_of(fcntl(fd, F_SETLK, &lock)), EAGAIN);
  EXPECT_EQ(fcntl(fd, F_SETLKW, &lock), 0);
  waitpid(holder, nullptr, 0);
}

TEST_P(Both, RenameWithFlags) {
  write_file(path("a"), "A");
  write_file(path("b"), "B");
  const auto rename_at = [&](const char* from, const char* to, unsigned flags) {
    return error_of(renameat2(AT_FDCWD, path(from).c_str(), AT_FDCWD, path(to).c_str(), flags));
  };
  EXPECT_EQ(rename_at("a", "b", RENAME_NOREPLACE), EEXIST);
  EXPECT_EQ(rename_at("a", "c", RENAME_EXCHANGE), ENOENT);
  EXPECT_EQ(rename_at("a", "b", RENAME_NOREPLACE | RENAME_EXCHANGE), EINVAL);
  EXPECT_EQ(rename_at("a", "b", RENAME_EXCHANGE), 0);
  EXPECT_EQ(read_file(path("a")) + read_file(path("b")), "BA");
  EXPECT_EQ(rename_at("a", "c", RENAME_NOREPLACE), 0);
  EXPECT_EQ(rename_at("c", "b", 0), 0);
  EXPECT_EQ(read_file(path("b")), "B");
  EXPECT_EQ(names_in(path("")), (Names{"b"}));
}

TEST_P(Both, AFileWithoutANameGetsOne) {
  const Fd fd(open(path("").c_str(), O_TMPFILE | O_RDWR, 0640));
  write_all(fd, "no name yet");
  struct stat now {};
  ASSERT_EQ(fstat(fd, &now), 0);
  EXPECT_EQ(now.st_nlink, 0u);
  EXPECT_EQ(names_in(path("")), Names{});
  ASSERT_EQ(linkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", int{fd}).c_str(), AT_FDCWD, path("f").c_str(),
                   AT_SYMLINK_FOLLOW),
            0);
  EXPECT_EQ(read_file(path("f")), "no name yet");
  EXPECT_EQ(stat_of(path("f")).st_nlink, 1u);
  EXPECT_EQ(stat_of(path("f")).st_mode, static_cast<mode_t>(S_IFREG | 0640));
  const Fd never(open(path("").c_str(), O_TMPFILE | O_RDWR | O_EXCL, 0640));
  EXPECT_EQ(error_of(linkat(AT_FDCWD, fmt::format("/proc/self/fd/{}", int{never}).c_str(), AT_FDCWD, path("g").c_str(),
                            AT_SYMLINK_FOLLOW)),
            ENOENT);
}

TEST_P(Both, InotifyTells) {
  const Fd watcher(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  ASSERT_GE(inotify_add_watch(watcher, path("").c_str(),
                              IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE),
            0);
  write_file(path("f"), "x");
  ASSERT_EQ(rename(path("f").c_str(), path("g").c_str()), 0);
  ASSERT_EQ(unlink(path("g").c_str()), 0);
  std::vector<std::pair<std::uint32_t, std::string>> seen;
  alignas(inotify_event) std::array<char, 4096> buffer;
  const ssize_t length = read(watcher, buffer.data(), buffer.size());
  for (ssize_t at = 0; at < length;) {
    const auto& event = *reinterpret_cast<const inotify_event*>(buffer.data() + at);
    seen.emplace_back(event.mask, event.name);
    at += static_cast<ssize_t>(sizeof(event) + event.len);
  }
  EXPECT_EQ(seen, (std::vector<std::pair<std::uint32_t, std::string>>{{IN_CREATE, "f"},
                                                                      {IN_MODIFY, "f"},
                                                                      {IN_CLOSE_WRITE, "f"},
                                                                      {IN_MOVED_FROM, "f"},
                                                                      {IN_MOVED_TO, "g"},
                                                                      {IN_DELETE, "g"}}));
}

TEST_P(Both, LargeFilesAndHoles) {
  constexpr off_t kTebibyte = off_t{1} << 40;
  const Fd fd(create("f"));
  EXPECT_EQ(pwrite(fd, "far away", 8, kTebibyte), 8);
  EXPECT_EQ(stat_of(path("f")).st_size, kTebibyte + 8);
  EXPECT_EQ(read_some(fd, 20, kTebibyte - 4), std::string("\0\0\0\0far away", 12));
  EXPECT_EQ(lseek(fd, 0, SEEK_DATA), kTebibyte);
  EXPECT_EQ(lseek(fd, 0, SEEK_HOLE), 0);
  EXPECT_EQ(lseek(fd, kTebibyte, SEEK_HOLE), kTebibyte + 8);
  EXPECT_EQ(error_of(lseek(fd, kTebibyte + 8, SEEK_DATA)), ENXIO);
  EXPECT_LT(stat_of(path("f")).st_blocks, 100);
  EXPECT_EQ(error_of(ftruncate(fd, off_t{1} << 50)), EFBIG);
  EXPECT_EQ(error_of(pwrite(fd, "x", 1, off_t{1} << 50)), EFBIG);
  EXPECT_EQ(ftruncate(fd, 2 * kTebibyte), 0);
  EXPECT_EQ(ftruncate(fd, 3), 0);
  EXPECT_EQ(read_some(fd, 20), std::string(3, '\0'));
}

TEST_P(Both, ManySmallFiles) {
  constexpr int kFiles = 20'000;
  ASSERT_EQ(mkdir(path("d").c_str(), 0755), 0);
  const Fd dir(open(path("d").c_str(), O_RDONLY | O_DIRECTORY));
  for (int i = 0; i < kFiles; ++i) {
    const Fd fd(openat(dir, std::to_string(i).c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644));
    write_all(fd, std::to_string(i * 7));
  }
  EXPECT_EQ(names_in(path("d")).size(), static_cast<std::size_t>(kFiles));
  for (int i = 0; i < kFiles; i += 1999) EXPECT_EQ(read_file(path("d/" + std::to_string(i))), std::to_string(i * 7));
  for (int i = 0; i < kFiles; ++i) ASSERT_EQ(unlinkat(dir, std::to_string(i).c_str(), 0), 0);
  EXPECT_EQ(names_in(path("d")), Names{});
  EXPECT_EQ(rmdir(path("d").c_str()), 0);
}

TEST_P(Both, LinkCountsAndTimes) {
  write_file(path("f"), "x");
  ASSERT_EQ(link(path("f").c_str(), path("g").c_str()), 0);
  EXPECT_EQ(stat_of(path("f")).st_nlink, 2u);
  EXPECT_EQ(stat_of(path("f")).st_ino, stat_of(path("g")).st_ino);
  ASSERT_EQ(unlink(path("g").c_str()), 0);
  EXPECT_EQ(stat_of(path("f")).st_nlink, 1u);
  const nlink_t before = stat_of(path("")).st_nlink;
  ASSERT_EQ(mkdir(path("d").c_str(), 0755), 0);
  EXPECT_EQ(stat_of(path("")).st_nlink, before + 1);
  EXPECT_EQ(stat_of(path("d")).st_nlink, 2u);

  const auto age = [&](const std::string& name) {
    const timespec times[2] = {{1000, 1}, {2000, 2}};
    ASSERT_EQ(utimensat(AT_FDCWD, path(name).c_str(), times, 0), 0);
    ASSERT_EQ(stat_of(path(name)).st_mtim.tv_nsec, 2);
  };
  age("f");
  EXPECT_EQ(stat_of(path("f")).st_atim.tv_sec, 1000);
  EXPECT_GT(stat_of(path("f")).st_ctim.tv_sec, 1'000'000'000);
  {
    const Fd fd(open(path("f").c_str(), O_WRONLY));
    write_all(fd, "new");
  }
  EXPECT_GT(stat_of(path("f")).st_mtim.tv_sec, 1'000'000'000);
  age("d");
  write_file(path("d/x"), "");
  EXPECT_GT(stat_of(path("d")).st_mtim.tv_sec, 1'000'000'000);
  age("f");
  read_file(path("f"));
  EXPECT_EQ(stat_of(path("f")).st_atim.tv_sec, 1000) << "mounted noatime";
}

TEST_P(Both, PermissionsOfAnotherUser) {
  write_file(path("secret"), "s", 0600);
  write_file(path("public"), "p", 0644);
  ASSERT_EQ(mkdir(path("closed").c_str(), 0700), 0);
  write_file(path("closed/f"), "f", 0666);
  const auto user_open = [&](const std::string& name, int flags) {
    return as_user([&] { return error_of(open(path(name).c_str(), flags, 0644)); });
  };
  EXPECT_EQ(user_open("secret", O_RDONLY), EACCES);
  EXPECT_EQ(user_open("public", O_RDONLY), 0);
  EXPECT_EQ(user_open("public", O_WRONLY), EACCES);
  EXPECT_EQ(user_open("public", O_RDONLY | O_TRUNC), EACCES);
  EXPECT_EQ(user_open("closed/f", O_RDONLY), EACCES);
  EXPECT_EQ(user_open("closed/new", O_WRONLY | O_CREAT), EACCES);
  EXPECT_EQ(user_open("new", O_WRONLY | O_CREAT), 0) << "the root is as /tmp";
  EXPECT_EQ(stat_of(path("new")).st_uid, kUser);
  EXPECT_EQ(as_user([&] { return error_of(chmod(path("public").c_str(), 0666)); }), EPERM);
  EXPECT_EQ(as_user([&] { return error_of(chown(path("new").c_str(), 0, 0)); }), EPERM);
  EXPECT_EQ(as_user([&] { return error_of(truncate(path("public").c_str(), 0)); }), EACCES);
  EXPECT_EQ(as_user([&] { return error_of(access(path("public").c_str(), R_OK)); }), 0);
  EXPECT_EQ(as_user([&] { return error_of(access(path("public").c_str(), W_OK)); }), EACCES);
  EXPECT_EQ(as_user([&] { return error_of(opendir(path("closed").c_str()) ? 0 : -1); }), EACCES);
  EXPECT_EQ(as_user([&] { return error_of(chdir(path("closed").c_str())); }), EACCES);
}

TEST_P(Both, UmaskSetgidAndStickyDirectories) {
  umask(027);
  ASSERT_EQ(mkdir(path("d").c_str(), 0777), 0);
  EXPECT_EQ(stat_of(path("d")).st_mode & 07777, 0750u);
  write_file(path("d/f"), "", 0666);
  EXPECT_EQ(stat_of(path("d/f")).st_mode & 07777, 0640u);
  umask(022);
  ASSERT_EQ(mkdir(path("group").c_str(), 0777), 0);
  ASSERT_EQ(chown(path("group").c_str(), -1, 4321), 0);
  ASSERT_EQ(chmod(path("group").c_str(), 02777), 0);
  EXPECT_EQ(as_user([&] { return error_of(mkdir(path("group/d").c_str(), 0755)); }), 0);
  EXPECT_EQ(as_user([&] { return error_of(open(path("group/f").c_str(), O_CREAT | O_WRONLY, 0644)); }), 0);
  EXPECT_EQ(stat_of(path("group/d")).st_gid, 4321u);
  EXPECT_EQ(stat_of(path("group/d")).st_mode & 07777, 02755u);
  EXPECT_EQ(stat_of(path("group/f")).st_gid, 4321u);
  EXPECT_EQ(stat_of(path("group/f")).st_mode & 07777, 0644u);

  ASSERT_EQ(mkdir(path("sticky").c_str(), 0777), 0);
  ASSERT_EQ(chmod(path("sticky").c_str(), 01777), 0);
  write_file(path("sticky/roots"), "");
  EXPECT_EQ(as_user([&] { return error_of(unlink(path("sticky/roots").c_str())); }), EPERM);
  EXPECT_EQ(as_user([&] { return error_of(rename(path("sticky/roots").c_str(), path("sticky/x").c_str())); }), EPERM);
  EXPECT_EQ(as_user([&] {
              const Fd fd(open(path("sticky/own").c_str(), O_CREAT | O_WRONLY, 0644));
              return error_of(unlink(path("sticky/own").c_str()));
            }),
            0);
}

TEST_P(Both, AWriteByAUserDropsSetuid) {
  const auto mode_after = [&](auto&& change) {
    write_file(path("f"), "some text");
    EXPECT_EQ(chmod(path("f").c_str(), 06777), 0);
    EXPECT_EQ(as_user(change), 0);
    return stat_of(path("f")).st_mode & 07777;
  };
  EXPECT_EQ(mode_after([&] {
              const Fd fd(open(path("f").c_str(), O_WRONLY));
              return error_of(write(fd, "x", 1));
            }),
            0777u);
  EXPECT_EQ(mode_after([&] { return error_of(truncate(path("f").c_str(), 1)); }), 0777u);
  EXPECT_EQ(mode_after([&] { return error_of(open(path("f").c_str(), O_WRONLY | O_TRUNC)); }), 0777u);
  EXPECT_EQ(mode_after([&] {
              const Fd fd(open(path("f").c_str(), O_RDWR));
              return error_of(fallocate(fd, 0, 0, 100));
            }),
            0777u);
  EXPECT_EQ(mode_after([&] { return error_of(open(path("f").c_str(), O_RDONLY)); }), 06777u);
  {
    const Fd fd(open(path("f").c_str(), O_WRONLY));
    write_all(fd, "by root");
  }
  EXPECT_EQ(stat_of(path("f")).st_mode & 07777, 06777u);
  ASSERT_EQ(chown(path("f").c_str(), kUser, -1), 0);
  EXPECT_EQ(stat_of(path("f")).st_mode & 07777, 0777u);
}

TEST_P(Both, ErrorNumbers) {
  write_file(path("f"), "x");
  ASSERT_EQ(mkdir(path("d").c_str(), 0755), 0);
  write_file(path("d/x"), "x");
  ASSERT_EQ(symlink("loop", path("loop").c_str()), 0);
  ASSERT_EQ(symlink("nowhere", path("dangling").c_str()), 0);
  const std::string too_long(256, 'n');
  const auto open_error = [&](const std::string& name, int flags) {
    return error_of(open(path(name).c_str(), flags, 0644));
  };
  EXPECT_EQ(open_error("none", O_RDONLY), ENOENT);
  EXPECT_EQ(open_error("f", O_CREAT | O_EXCL | O_WRONLY), EEXIST);
  EXPECT_EQ(open_error("d", O_WRONLY), EISDIR);
  EXPECT_EQ(open_error("f/x", O_RDONLY), ENOTDIR);
  EXPECT_EQ(open_error("f", O_RDONLY | O_DIRECTORY), ENOTDIR);
  EXPECT_EQ(open_error("loop", O_RDONLY), ELOOP);
  EXPECT_EQ(open_error("dangling", O_RDONLY | O_NOFOLLOW), ELOOP);
  EXPECT_EQ(open_error(too_long, O_CREAT | O_WRONLY), ENAMETOOLONG);
  EXPECT_EQ(open_error(too_long, O_RDONLY), ENAMETOOLONG);
  EXPECT_EQ(error_of(mkdir(path("d").c_str(), 0755)), EEXIST);
  EXPECT_EQ(error_of(rmdir(path("d").c_str())), ENOTEMPTY);
  EXPECT_EQ(error_of(rmdir(path("f").c_str())), ENOTDIR);
  EXPECT_EQ(error_of(unlink(path("d").c_str())), EISDIR);
  EXPECT_EQ(error_of(rename(path("d").c_str(), path("d/below").c_str())), EINVAL);
  EXPECT_EQ(error_of(rename(path("d").c_str(), path("f").c_str())), ENOTDIR);
  EXPECT_EQ(error_of(rename(path("f").c_str(), path("d").c_str())), EISDIR);
  EXPECT_EQ(error_of(link(path("d").c_str(), path("e").c_str())), EPERM);
  EXPECT_EQ(error_of(link(path("f").c_str(), "/dev/shm/crashcut_link")), EXDEV);
  std::array<char, 8> target;
  EXPECT_EQ(error_of(readlink(path("f").c_str(), target.data(), target.size())), EINVAL);
  const Fd fd(open(path("f").c_str(), O_RDONLY));
  EXPECT_EQ(error_of(write(fd, "x", 1)), EBADF);
  EXPECT_EQ(error_of(ftruncate(fd, 0)), EINVAL);
  const Fd writable(open(path("f").c_str(), O_RDWR));
  EXPECT_EQ(error_of(fallocate(writable, FALLOC_FL_PUNCH_HOLE, 0, 10)), EOPNOTSUPP);
  EXPECT_EQ(error_of(fallocate(writable, 0, 0, 0)), EINVAL);
  EXPECT_EQ(error_of(fallocate(writable, FALLOC_FL_COLLAPSE_RANGE, 0, 4096)), EOPNOTSUPP) << "FUSE refuses it";
}

// A swap of extents (EXT4_IOC_MOVE_EXT) is not modelled. The program is told so, and neither file has changed.
TEST_P(Both, ASwapOfExtentsIsRefused) {
  struct MoveExtent {
    std::uint32_t reserved, donor_fd;
    std::uint64_t origin_start, donor_start, length, moved;
  };
  write_file(path("f"), std::string(8192, 'f'));
  write_file(path("donor"), std::string(8192, 'd'));
  const Fd f(open(path("f").c_str(), O_RDWR)), donor(open(path("donor").c_str(), O_RDWR));
  ASSERT_EQ(fsync(f), 0);
  ASSERT_EQ(fsync(donor), 0);
  MoveExtent move{0, static_cast<std::uint32_t>(static_cast<int>(donor)), 0, 0, 1, 0};
  EXPECT_EQ(error_of(ioctl(f, _IOWR('f', 15, MoveExtent), &move)), ENOTTY);
  EXPECT_EQ(move.moved, 0u);
  EXPECT_EQ(read_file(path("f")), std::string(8192, 'f'));
  EXPECT_EQ(read_file(path("donor")), std::string(8192, 'd'));
}

TEST_P(Both, AFileLivesUntilItsLastDescriptorIsClosed) {
  const Fd fd(create("f"));
  write_all(fd, "still here");
  ASSERT_EQ(unlink(path("f").c_str()), 0);
  EXPECT_EQ(error_of(open(path("f").c_str(), O_RDONLY)), ENOENT);
  EXPECT_EQ(read_some(fd, 100), "still here");
  EXPECT_EQ(pwrite(fd, "!", 1, 10), 1);
  struct stat now {};
  ASSERT_EQ(fstat(fd, &now), 0);
  EXPECT_EQ(now.st_nlink, 0u);
  EXPECT_EQ(now.st_size, 11);
  EXPECT_EQ(fsync(fd), 0);
  EXPECT_EQ(fchmod(fd, 0600), 0);
  EXPECT_EQ(ftruncate(fd, 5), 0);
  EXPECT_EQ(read_some(fd, 100), "still");
  // Replaced by a rename is the same.
  const Fd other(create("g"));
  write_all(other, "old");
  write_file(path("new"), "new");
  ASSERT_EQ(rename(path("new").c_str(), path("g").c_str()), 0);
  EXPECT_EQ(read_some(other, 10), "old");
  EXPECT_EQ(read_file(path("g")), "new");
}

TEST_P(Both, ADeletedWorkingDirectory) {
  ASSERT_EQ(mkdir(path("d").c_str(), 0755), 0);
  EXPECT_EQ(in_child([&] {
              if (chdir(path("d").c_str()) != 0 || rmdir(path("d").c_str()) != 0) return 1;
              std::array<char, 1024> text;
              if (getcwd(text.data(), text.size()) || errno != ENOENT) return 2;
              if (open("x", O_CREAT | O_WRONLY, 0644) >= 0 || errno != ENOENT) return 3;
              if (mkdir("x", 0755) == 0 || errno != ENOENT) return 4;
              struct stat now {};
              if (stat(".", &now) != 0 || now.st_nlink != 0) return 5;
              DIR* dir = opendir(".");
              if (!dir || readdir(dir)) return 6;
              return 0;
            }),
            0);
  EXPECT_EQ(names_in(path("")), Names{});
}

TEST_P(Both, AppendsOfTwoProcessesDoNotMix) {
  constexpr int kLines = 500;
  const Fd fd(create("log"));
  const auto append = [&](char letter) {
    const Fd own(open(path("log").c_str(), O_WRONLY | O_APPEND));
    for (int i = 0; i < kLines; ++i) write_all(own, std::string(37, letter) + "\n");
    return 0;
  };
  const pid_t first = fork();
  if (first == 0) _exit(append('a'));
  EXPECT_EQ(in_child([&] { return append('b'); }), 0);
  waitpid(first, nullptr, 0);
  std::map<std::string, int> counts;
  const std::string all = read_file(path("log"));
  for (std::size_t at = 0; at + 38 <= all.size(); at += 38) ++counts[all.substr(at, 38)];
  EXPECT_EQ(counts,
            (std::map<std::string, int>{{std::string(37, 'a') + "\n", kLines}, {std::string(37, 'b') + "\n", kLines}}));
}

TEST_P(Both, ExtendedAttributes) {
  write_file(path("f"), "x");
  const std::string f = path("f");
  EXPECT_EQ(setxattr(f.c_str(), "user.a", "one", 3, 0), 0);
  EXPECT_EQ(error_of(setxattr(f.c_str(), "user.a", "two", 3, XATTR_CREATE)), EEXIST);
  EXPECT_EQ(error_of(setxattr(f.c_str(), "user.b", "two", 3, XATTR_REPLACE)), ENODATA);
  EXPECT_EQ(setxattr(f.c_str(), "user.b", "", 0, 0), 0);
  std::array<char, 64> value{};
  EXPECT_EQ(getxattr(f.c_str(), "user.a", value.data(), value.size()), 3);
  EXPECT_STREQ(value.data(), "one");
  EXPECT_EQ(getxattr(f.c_str(), "user.b", value.data(), value.size()), 0);
  EXPECT_EQ(getxattr(f.c_str(), "user.a", nullptr, 0), 3);
  EXPECT_EQ(error_of(getxattr(f.c_str(), "user.a", value.data(), 2)), ERANGE);
  EXPECT_EQ(error_of(getxattr(f.c_str(), "user.none", value.data(), value.size())), ENODATA);
  EXPECT_EQ(listxattr(f.c_str(), value.data(), value.size()), 14);
  EXPECT_EQ(removexattr(f.c_str(), "user.a"), 0);
  EXPECT_EQ(error_of(removexattr(f.c_str(), "user.a")), ENODATA);
  EXPECT_EQ(error_of(setxattr(f.c_str(), "nonsense", "x", 1, 0)), EOPNOTSUPP);
  EXPECT_EQ(as_user([&] { return error_of(setxattr(f.c_str(), "user.c", "x", 1, 0)); }), EACCES);
}

TEST_P(Both, AListingSurvivesChanges) {
  constexpr int kFiles = 3000;
  ASSERT_EQ(mkdir(path("d").c_str(), 0755), 0);
  for (int i = 0; i < kFiles; ++i) write_file(path("d/" + std::to_string(i)), "");
  DIR* dir = opendir(path("d").c_str());
  ASSERT_NE(dir, nullptr);
  std::map<std::string, int> seen;
  int count = 0;
  while (const dirent* entry = readdir(dir)) {
    ++seen[entry->d_name];
    // While it is listed, every third file goes, and new ones come.
    if (++count % 3 == 0 && count < kFiles) {
      unlink(path("d/" + std::to_string(count)).c_str());
      write_file(path("d/new" + std::to_string(count)), "");
    }
  }
  closedir(dir);
  for (int i = 0; i < kFiles; ++i) {
    if (i % 3 != 0 || i == 0) {
      EXPECT_EQ(seen[std::to_string(i)], 1) << i;
    } else {
      EXPECT_LE(seen[std::to_string(i)], 1) << i;
    }
  }
}

TEST_P(Both, ProgramsRunFromTheMount) {
  const std::string copy = "cp /bin/true " + path("program") + " && " + path("program");
  EXPECT_EQ(std::system(copy.c_str()), 0);
  write_file(path("script"), "#!/bin/sh\nexit 3\n", 0755);
  EXPECT_EQ(WEXITSTATUS(std::system(path("script").c_str())), 3);
  write_file(path("plain"), "#!/bin/sh\n", 0644);
  EXPECT_EQ(in_child([&] {
              execl(path("plain").c_str(), "plain", nullptr);
              return errno;
            }),
            EACCES);
}

TEST_P(Both, SpecialFilesAreThereAndNotListed) {
  EXPECT_EQ(names_in(path("")), Names{});
  EXPECT_EQ(read_file(path(".crashcut/hello")), "hello there\n");
  EXPECT_EQ(error_of(open(path(".crashcut/hello").c_str(), O_WRONLY)), EACCES);
  EXPECT_EQ(error_of(open(path(".crashcut/none").c_str(), O_RDONLY)), ENOENT);
  EXPECT_EQ(
      std::system(("echo first > " + path(".crashcut/note") + " && echo second >> " + path(".crashcut/note")).c_str()),
      0);
  EXPECT_EQ(read_file(path(".crashcut/note")), "first\nsecond\n");
  EXPECT_NE(error_of(open(path(".crashcut/new").c_str(), O_WRONLY | O_CREAT, 0644)), 0);
  EXPECT_NE(error_of(unlink(path(".crashcut/note").c_str())), 0);
  EXPECT_NE(error_of(rename(path(".crashcut").c_str(), path("x").c_str())), 0);
  EXPECT_NE(error_of(rmdir(path(".crashcut").c_str())), 0);
  EXPECT_EQ(as_user([&] { return error_of(open(path(".crashcut/note").c_str(), O_WRONLY | O_APPEND)); }), 0);
  EXPECT_EQ(std::system(("ls " + path(".crashcut") + " >/dev/null").c_str()), 0);
}

TEST(Capacity, AFullDiskSaysSo) {
  SKIP_WITHOUT_MOUNT();
  const Mounted mounted({.capacity_bytes = 1 << 20});
  const Fd fd(open(mounted.path("f").c_str(), O_RDWR | O_CREAT, 0644));
  const std::string text(1 << 16, 'x');
  int writes = 0;
  while (write(fd, text.data(), text.size()) > 0) ++writes;
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(writes, 16);
  struct statvfs space {};
  ASSERT_EQ(statvfs(mounted.directory().c_str(), &space), 0);
  EXPECT_EQ(space.f_bavail, 0u);
  EXPECT_EQ(error_of(fallocate(fd, 0, 1 << 20, 1 << 16)), ENOSPC);
  EXPECT_EQ(ftruncate(fd, 0), 0);
  EXPECT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

}  // namespace
}  // namespace crashcut::tests
