// What the replay of ext4's journal changes is what e2fsck changes, on journals that debugfs wrote.
//
// Does not verify: logs that go around the end of the journal. That images which are equal after the replay show the
//   same on the kernel is what crashcut conform relies on; tests/conform_test.cc compares the two ways.
// Skips where there is no mkfs.ext4, debugfs or e2fsck.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "recovery/kernel/filesystem.h"
#include "recovery/kernel/journal.h"

namespace crashcut::kernel {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kBlock = 4096;

class JournalTest : public testing::Test {
 protected:
  // In memory where there is such a place: the tools sync the disk again and again.
  JournalTest()
      : directory_((fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()) /
                   fmt::format("kernel_journal.{}", getpid())) {
    fs::create_directories(directory_);
  }
  ~JournalTest() override { fs::remove_all(directory_); }

  void SetUp() override {
    const bool is_made = shell(
        "truncate -s 16M disk && mkfs.ext4 -q -F -b 4096 -N 128 -J size=4 -E lazy_itable_init=0 disk && command -v "
        "debugfs e2fsck");
    if (!is_made) GTEST_SKIP() << "no mkfs.ext4, debugfs or e2fsck";
    std::mt19937_64 random(1);
    for (const char* name : {"first", "second", "escaped"}) {
      std::string bytes(2 * kBlock, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      if (std::string_view(name) == "escaped") bytes.replace(0, 4, "\xc0\x3b\x39\x98");
      std::ofstream(directory_ / name, std::ios::binary) << bytes;
    }
  }

  bool shell(const std::string& command) const {
    return std::system(
               fmt::format("cd {} && PATH=$PATH:/usr/sbin:/sbin && ({}) >/dev/null 2>&1", directory_.string(), command)
                   .c_str()) == 0;
  }
  // Commands of debugfs between journal_open and journal_close.
  void write_journal(const std::string& options, const std::string& commands) {
    std::ofstream(directory_ / "commands") << fmt::format("jo {}\n{}\njc\n", options, commands);
    ASSERT_TRUE(shell("debugfs -w -f commands disk"));
  }
  std::string read_disk(const char* name) const {
    std::ifstream file(directory_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::optional<Journal::Blocks> replay(const std::string& disk) const {
    Journal journal(blocks());
    return journal.replay(
        [&](std::uint64_t block) { return std::as_bytes(std::span(disk)).subspan(block * kBlock, kBlock); });
  }
  std::vector<std::uint64_t> blocks() const { return journal_blocks({"ext4", ""}, (directory_ / "disk").string()); }
  // The blocks that e2fsck wrote, but for the superblocks.
  std::map<std::uint64_t, std::string> replay_by_e2fsck() const {
    EXPECT_TRUE(shell("cp disk replayed; e2fsck -fy -E journal_only replayed; test $? -le 1"));
    const std::string before = read_disk("disk"), after = read_disk("replayed");
    std::map<std::uint64_t, std::string> changed;
    for (std::uint64_t block = 1; block < before.size() / kBlock; ++block) {
      const std::string bytes = after.substr(block * kBlock, kBlock);
      if (before.compare(block * kBlock, kBlock, bytes) != 0 && block != blocks().front()) changed[block] = bytes;
    }
    return changed;
  }
  void expect_as_e2fsck() const {
    const auto replayed = replay(read_disk("disk"));
    ASSERT_TRUE(replayed.has_value());
    std::map<std::uint64_t, std::string> ours;
    for (const auto& [block, bytes] : *replayed) {
      if (!bytes.empty()) ours[block] = {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
    EXPECT_EQ(ours, replay_by_e2fsck());
    EXPECT_FALSE(ours.empty());
  }

  fs::path directory_;
};

constexpr const char* kTransactions =
    "jw -b 3000,3001 first\njw -b 3001,3002 second\njw -r 3000\njw -b 3004,3005 escaped\njw -b 3003 -c first";

TEST_F(JournalTest, ReplaysAsE2fsckWithChecksums) {
  write_journal("-c", kTransactions);
  expect_as_e2fsck();
}

TEST_F(JournalTest, ReplaysAsE2fsckWithoutChecksums) {
  write_journal("", kTransactions);
  expect_as_e2fsck();
}

TEST_F(JournalTest, ABlockThatIsWrittenAfterItWasRevokedIsReplayed) {
  write_journal("-c", "jw -b 3000 first\njw -r 3000\njw -b 3000 second");
  expect_as_e2fsck();
}

TEST_F(JournalTest, AnEmptyJournalChangesNothing) {
  const auto replayed = replay(read_disk("disk"));
  ASSERT_TRUE(replayed.has_value());
  EXPECT_EQ(replayed->size(), 1u);
  EXPECT_TRUE(replayed->begin()->second.empty());
}

TEST_F(JournalTest, AWrongChecksumIsNotUnderstood) {
  write_journal("-c", kTransactions);
  const std::string disk = read_disk("disk");
  ASSERT_TRUE(replay(disk).has_value());
  const std::vector<std::uint64_t> journal = blocks();
  // The superblock, the first descriptor, a block of data, the first commit.
  for (const std::size_t block : {0, 1, 2, 4}) {
    std::string damaged = disk;
    damaged[journal[block] * kBlock + 200] ^= 1;
    EXPECT_FALSE(replay(damaged).has_value()) << "block " << block << " of the journal";
  }
}

}  // namespace
}  // namespace crashcut::kernel
