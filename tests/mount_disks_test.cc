// One mount with many disks, what is read of them, what is recorded.
#include "tests/mount_fixture.h"

namespace crashcut::tests {
namespace {

// ---- one mount, many disks
// ----------------------------------------------------------------------------------------------

class Show : public testing::TestWithParam<Caching> {};
INSTANTIATE_TEST_SUITE_P(Caching, Show, testing::Values(Caching::kKept, Caching::kNothing),
                         [](const auto& info) { return info.param == Caching::kKept ? "Kept" : "Nothing"; });

TEST_P(Show, NothingOfTheOldDiskIsLeft) {
  SKIP_WITHOUT_MOUNT();
  Mounted mounted(
      {.caching = GetParam(),
       .disks = {{{"f", {"the first"}}, {"only_first", {"x"}}, {"d", {.mode = S_IFDIR | 0755}}, {"d/x", {"x"}}},
                 {{"f", {"second, and longer"}}, {"only_second", {"y"}}, {"d", {"a file now"}}}}});
  for (int round = 0; round < 3; ++round) {
    mounted.show(0);
    EXPECT_EQ(names_in(mounted.path("")), (Names{"f", "only_first", "d"}));
    EXPECT_EQ(read_file(mounted.path("f")), "the first");
    EXPECT_EQ(stat_of(mounted.path("f")).st_size, 9);
    EXPECT_EQ(error_of(open(mounted.path("only_second").c_str(), O_RDONLY)), ENOENT);
    EXPECT_EQ(names_in(mounted.path("d")), (Names{"x"}));
    const Fd open_file(open(mounted.path("f").c_str(), O_RDONLY));
    {
      const Mapping map(open_file, 9, PROT_READ);
      EXPECT_EQ(std::string(map.bytes, 9), "the first");
    }
    mounted.show(1);
    EXPECT_EQ(names_in(mounted.path("")), (Names{"f", "only_second", "d"}));
    EXPECT_EQ(read_file(mounted.path("f")), "second, and longer");
    EXPECT_EQ(stat_of(mounted.path("f")).st_size, 18);
    EXPECT_EQ(read_file(mounted.path("only_second")), "y");
    EXPECT_EQ(error_of(open(mounted.path("only_first").c_str(), O_RDONLY)), ENOENT);
    EXPECT_TRUE(S_ISREG(stat_of(mounted.path("d")).st_mode));
    {
      const Fd fresh(open(mounted.path("f").c_str(), O_RDONLY));
      const Mapping map(fresh, 18, PROT_READ);
      EXPECT_EQ(std::string(map.bytes, 18), "second, and longer");
    }
    if (GetParam() == Caching::kKept) continue;  // the kernel has pages and attributes of the open file
    char byte;
    EXPECT_EQ(error_of(pread(open_file, &byte, 1, 0)), ESTALE);
    struct stat now {};
    EXPECT_EQ(error_of(fstat(open_file, &now)), ESTALE);
  }
}

TEST(Exact, OnlyWhatIsAskedForIsDecided) {
  SKIP_WITHOUT_MOUNT();
  const std::string text = text_of(3 * kPage, 'a');
  Mounted mounted({.caching = Caching::kNothing,
                   .disks = {{{"f", {text}},
                              {"g", {text}},
                              {"d", {.mode = S_IFDIR | 0755}},
                              {"d/x", {"x"}},
                              {"l", {"f", S_IFLNK | 0777}}}}});
  EXPECT_EQ(mounted.take_log(), "") << "mounting asks for nothing";
  const Fd fd(open(mounted.path("f").c_str(), O_RDONLY));
  EXPECT_EQ(mounted.take_log(), "lookup . f\n") << "opening a file is not asking for its attributes";
  EXPECT_EQ(read_some(fd, 3, 700), text.substr(700, 3));
  EXPECT_EQ(mounted.take_log(), "size f\nbytes f 700 3\n");
  EXPECT_EQ(read_some(fd, 3, 510), text.substr(510, 3));
  EXPECT_EQ(mounted.take_log(), "bytes f 510 2\nbytes f 512 1\n");
  EXPECT_EQ(read_some(fd, 3, 700), text.substr(700, 3));
  EXPECT_EQ(mounted.take_log(), "") << "what is decided stays so";
  EXPECT_EQ(access(mounted.path("none").c_str(), F_OK), -1);
  EXPECT_EQ(mounted.take_log(), "lookup . none\n");
  EXPECT_EQ(access(mounted.path("g").c_str(), F_OK), 0);
  EXPECT_EQ(mounted.take_log(), "lookup . g\n");
  {  // opendir() would ask for attributes
    const Fd dir(open(mounted.path("d").c_str(), O_RDONLY | O_DIRECTORY));
    std::array<char, 1024> entries;
    EXPECT_GT(syscall(SYS_getdents64, int{dir}, entries.data(), entries.size()), 0);
  }
  EXPECT_EQ(mounted.take_log(), "lookup . d\nnames d\nlookup d x\n");
  EXPECT_EQ(stat_of(mounted.path("g")).st_size, static_cast<off_t>(3 * kPage));
  EXPECT_EQ(mounted.take_log(), "meta g\nsize g\n");
  std::array<char, 16> target{};
  EXPECT_EQ(readlink(mounted.path("l").c_str(), target.data(), target.size()), 1);
  EXPECT_EQ(mounted.take_log(), "lookup . l\nmeta l\n");
  EXPECT_FALSE(mounted.was_read_by_pages());
  {
    const Fd other(open(mounted.path("g").c_str(), O_RDONLY));
    const Mapping map(other, 3 * kPage, PROT_READ);
    EXPECT_FALSE(mounted.was_read_by_pages()) << "mapping alone reads nothing";
    EXPECT_EQ(map.bytes[kPage], text[kPage]);
  }
  EXPECT_TRUE(mounted.was_read_by_pages());
  std::string page;
  for (std::size_t at = kPage; at < 2 * kPage; at += 512) page += fmt::format("bytes g {} 512\n", at);
  EXPECT_EQ(mounted.take_log(), page) << "one page and no readahead";
}

TEST(Exact, ARecoveryThatWritesDecidesNoMore) {
  SKIP_WITHOUT_MOUNT();
  Mounted mounted({.caching = Caching::kNothing, .disks = {{{"f", {text_of(kPage, 'a')}}, {"g", {"old"}}}}});
  mounted.take_log();
  {
    const Fd fd(open(mounted.path("g").c_str(), O_WRONLY | O_TRUNC));
    write_all(fd, "new");
  }
  EXPECT_EQ(mounted.take_log(), "lookup . g\nsize g\n");
  EXPECT_EQ(unlink(mounted.path("f").c_str()), 0);
  EXPECT_EQ(mounted.take_log(), "lookup . f\n");
  write_file(mounted.path("new"), "x");
  EXPECT_EQ(mounted.take_log(), "lookup . new\n");
  EXPECT_EQ(rename(mounted.path("new").c_str(), mounted.path("g").c_str()), 0);
  EXPECT_EQ(mounted.take_log(), "");
}

TEST(Exact, AUserCostsTheOwnerOfWhatHeUses) {
  SKIP_WITHOUT_MOUNT();
  Mounted mounted({.caching = Caching::kNothing, .disks = {{{"f", {"text"}}}}});
  mounted.take_log();
  EXPECT_EQ(as_user([&] { return error_of(open(mounted.path("f").c_str(), O_RDONLY)); }), 0);
  EXPECT_EQ(mounted.take_log(), "owner .\nlookup . f\nowner f\n");
}

TEST(Exact, ExecuteSendfileAndSpliceReadPages) {
  SKIP_WITHOUT_MOUNT();
  const std::string program = read_file("/bin/true");
  const auto reads_pages = [&](auto&& action) {
    Mounted mounted({.caching = Caching::kNothing, .disks = {{{"f", {program, S_IFREG | 0755}}}}});
    action(mounted);
    return mounted.was_read_by_pages();
  };
  const Fd null(open("/dev/shm", O_TMPFILE | O_RDWR, 0600));
  EXPECT_FALSE(reads_pages([&](Mounted& m) { EXPECT_EQ(read_file(m.path("f")), program); }));
  EXPECT_TRUE(reads_pages([&](Mounted& m) { EXPECT_EQ(std::system(m.path("f").c_str()), 0); }));
  // Without an fstat before it: the kernel does not know the size.
  EXPECT_TRUE(reads_pages([&](Mounted& m) {
    const Fd fd(open(m.path("f").c_str(), O_RDONLY));
    EXPECT_EQ(sendfile(null, fd, nullptr, 1 << 20), static_cast<ssize_t>(program.size()));
  }));
  EXPECT_EQ(read_some(null, 1 << 20), program);
}

// ---- what is recorded
// ---------------------------------------------------------------------------------------------------

class Recorded : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_MOUNT();
    mounted_.emplace(Mounted::Setup{});
  }
  std::string path(const std::string& name) const { return mounted_->path(name); }

  std::optional<Mounted> mounted_;
};

TEST_F(Recorded, SyncingWrites) {
  struct Row {
    const char* name;
    int flags;
    const char* write;
    std::vector<std::string> after;
  };
  const Row rows[] = {
      {"plain", 0, "write(plain, 4096 bytes at 0)", {}},
      {"sync", O_SYNC, "write(sync, 4096 bytes at 0, O_SYNC)", {}},
      {"dsync", O_DSYNC, "write(dsync, 4096 bytes at 0, O_DSYNC)", {}},
      {"direct", O_DIRECT, "write(direct, 4096 bytes at 0, O_DIRECT)", {}},
      {"direct_sync", O_DIRECT | O_SYNC, "write(direct_sync, 4096 bytes at 0, O_DIRECT|O_SYNC)", {}},
      {"direct_dsync", O_DIRECT | O_DSYNC, "write(direct_dsync, 4096 bytes at 0, O_DIRECT|O_DSYNC)", {}},
      {"append", O_APPEND, "write(append, 4096 bytes at 0, O_APPEND)", {}},
  };
  const Aligned buffer(kPage);
  std::memset(buffer.bytes, 'x', kPage);
  Lines expected;
  for (const Row& row : rows) {
    const Fd fd(open(path(row.name).c_str(), O_WRONLY | O_CREAT | row.flags, 0644));
    ASSERT_EQ(write(fd, buffer.bytes, kPage), static_cast<ssize_t>(kPage));
    expected.insert(expected.end(), {fmt::format("create({}, 0644)", row.name), fmt::format("open({})", row.name),
                                     row.write, fmt::format("close({})", row.name)});
  }
  {  // flags of one call
    const Fd fd(open(path("rwf").c_str(), O_WRONLY | O_CREAT, 0644));
    const iovec part{buffer.bytes, 100};
    ASSERT_EQ(pwritev2(fd, &part, 1, 0, RWF_DSYNC), 100);
    ASSERT_EQ(pwritev2(fd, &part, 1, 0, RWF_SYNC), 100);
    expected.insert(expected.end(), {"create(rwf, 0644)", "open(rwf)", "write(rwf, 100 bytes at 0, O_DSYNC)",
                                     "write(rwf, 100 bytes at 0, O_SYNC)", "close(rwf)"});
  }
  {  // an fsync of the program's own after a syncing write is one
    const Fd fd(open(path("both").c_str(), O_WRONLY | O_CREAT | O_SYNC, 0644));
    ASSERT_EQ(write(fd, buffer.bytes, 10), 10);
    ASSERT_EQ(fsync(fd), 0);
    expected.insert(expected.end(), {"create(both, 0644)", "open(both)", "write(both, 10 bytes at 0, O_SYNC)",
                                     "fsync(both)", "close(both)"});
  }
  const Lines lines = mounted_->finish();
  EXPECT_EQ(fmt::format("{}", fmt::join(lines, "\n")), fmt::format("{}", fmt::join(expected, "\n")));
}

TEST_F(Recorded, SyncsOfFilesAndDirectories) {
  {
    const Fd fd(open(path("f").c_str(), O_WRONLY | O_CREAT, 0644));
    ASSERT_EQ(fsync(fd), 0);
    ASSERT_EQ(fdatasync(fd), 0);
  }
  ASSERT_EQ(mkdir(path("d").c_str(), 0755), 0);
  {
    const Fd dir(open(path("d").c_str(), O_RDONLY | O_DIRECTORY));
    ASSERT_EQ(fsync(dir), 0);
    ASSERT_EQ(fdatasync(dir), 0);
  }
  EXPECT_EQ(mounted_->finish(), (Lines{"create(f, 0644)", "open(f)", "fsync(f)", "fdatasync(f)", "close(f)",
                                       "mkdir(d, 0755)", "open(d)", "fsync(d)", "fdatasync(d)", "close(d)"}));
}

TEST_F(Recorded, NamesAndAttributes) {
  write_file(path("f"), "text");
  ASSERT_EQ(link(path("f").c_str(), path("g").c_str()), 0);
  ASSERT_EQ(rename(path("f").c_str(), path("h").c_str()), 0);
  ASSERT_EQ(truncate(path("h").c_str(), 2), 0);
  ASSERT_EQ(chmod(path("h").c_str(), 0600), 0);
  ASSERT_EQ(chown(path("h").c_str(), 1, 2), 0);
  ASSERT_EQ(setxattr(path("h").c_str(), "user.a", "xyz", 3, 0), 0);
  ASSERT_EQ(symlink("h", path("s").c_str()), 0);
  ASSERT_EQ(unlink(path("s").c_str()), 0);
  { const Fd fd(open(path("h").c_str(), O_WRONLY | O_TRUNC)); }
  {
    const Fd fd(open(path("h").c_str(), O_RDONLY));
    EXPECT_EQ(read_some(fd, 10), "");
  }
  Lines lines = mounted_->finish();
  // Holding a deleted file for as long as the kernel knows it is not the program's doing.
  std::erase_if(lines, [](const std::string& line) { return line == "open(s)" || line.starts_with("close(s"); });
  EXPECT_EQ(lines,
            (Lines{"create(f, 0644)", "open(f)", "write(f, 4 bytes at 0)", "close(f)", "link(f, g)", "rename(f, h)",
                   "truncate(h, 2)", "chmod(h, 0600)", "chown(h, 1, 2)", "setxattr(h, user.a, 3 bytes)",
                   "symlink(\"h\", s)", "unlink(s)", "truncate(h, 0)", "open(h)", "close(h)", "open(h)", "close(h)"}));
}

TEST_F(Recorded, AStoreToAMappingComesBeforeALaterSyncOfAnotherFile) {
  mounted_->note_shared_mapping();
  {
    const Fd data(open(path("data").c_str(), O_RDWR | O_CREAT, 0644));
    ASSERT_EQ(ftruncate(data, kPage), 0);
    const Fd log(open(path("log").c_str(), O_RDWR | O_CREAT, 0644));
    const Mapping map(data, kPage, PROT_READ | PROT_WRITE);
    std::strcpy(map.bytes, "stored first");
    ASSERT_EQ(fsync(log), 0);
    std::strcpy(map.bytes, "stored again");
    ASSERT_EQ(rename(path("log").c_str(), path("log2").c_str()), 0);
  }
  Lines lines = mounted_->finish();
  std::erase_if(lines, [](const std::string& line) { return line.starts_with("open") || line.starts_with("close"); });
  EXPECT_EQ(lines,
            (Lines{"create(data, 0644)", "truncate(data, 4096)", "create(log, 0644)", "write(data, 4096 bytes at 0)",
                   "fsync(log)", "write(data, 4096 bytes at 0)", "rename(log, log2)"}));
}

TEST_F(Recorded, ACloseComesBeforeALaterRename) {
  for (int i = 0; i < 200; ++i) {
    write_file(path("new"), "x");
    ASSERT_EQ(rename(path("new").c_str(), path("f").c_str()), 0);
  }
  Lines lines = mounted_->finish();
  std::erase_if(lines, [](const std::string& line) {
    return line.find("(f)") != line.npos || line.find("deleted") != line.npos;
  });
  ASSERT_EQ(lines.size(), 200u * 5);
  for (std::size_t i = 0; i < lines.size(); i += 5) {
    EXPECT_EQ(Lines(lines.begin() + static_cast<std::ptrdiff_t>(i), lines.begin() + static_cast<std::ptrdiff_t>(i + 5)),
              (Lines{"create(new, 0644)", "open(new)", "write(new, 1 byte at 0)", "close(new)", "rename(new, f)"}));
  }
}

TEST_F(Recorded, ALargeWriteIsOneOrWholePieces) {
  const std::string text = text_of(3 << 20, 'a');
  write_file(path("f"), text);
  {
    const Fd fd(open(path("f").c_str(), O_RDONLY));
    EXPECT_EQ(read_some(fd, 4 << 20), text);
  }
  const Lines lines = mounted_->finish();
  std::uint64_t bytes = 0;
  for (const std::string& line : lines) {
    unsigned long count = 0, at = 0;
    if (std::sscanf(line.c_str(), "write(f, %lu bytes at %lu)", &count, &at) != 2) continue;
    EXPECT_EQ(at, bytes);
    EXPECT_EQ(count % kPage, 0u);
    bytes += count;
  }
  EXPECT_EQ(bytes, text.size());
}

}  // namespace
}  // namespace crashcut::tests
