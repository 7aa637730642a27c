// BlockRanges against a plain set, and the room that preallocated blocks take.
#include "fusefs/block_ranges.h"

#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <random>
#include <set>
#include <string>

#include "fusefs/filesystem.h"
#include "tests/seeds.h"

namespace crashcut::fusefs {
namespace {

TEST(BlockRanges, AreASet) {
  tests::for_each_seed(300, [&](std::uint64_t seed) {
    SCOPED_TRACE("CRASHCUT_SEED=" + std::to_string(seed));
    std::mt19937_64 random(seed);
    const auto pick = [&](std::uint64_t most) { return std::uniform_int_distribution<std::uint64_t>(0, most)(random); };
    BlockRanges ranges;
    std::set<std::uint64_t> plain;
    for (int step = 0; step < 60; ++step) {
      const std::uint64_t first = pick(40);
      const std::uint64_t end = first + pick(12);
      switch (pick(3)) {
        case 0:
          ranges.remove(first, end);
          std::erase_if(plain, [&](std::uint64_t block) { return block >= first && block < end; });
          break;
        case 1: {
          // As collapse and insert range do it: what is moved over was removed before.
          const auto by = static_cast<std::int64_t>(end - first) * (pick(1) ? 1 : -1);
          const std::uint64_t from = by < 0 ? end : first;
          if (by < 0) ranges.remove(first, end);
          if (by < 0) std::erase_if(plain, [&](std::uint64_t block) { return block >= first && block < end; });
          ranges.shift(from, by);
          std::set<std::uint64_t> moved;
          for (const std::uint64_t block : plain) moved.insert(block >= from ? block + by : block);
          plain = std::move(moved);
          break;
        }
        default:
          ranges.add(first, end);
          for (std::uint64_t block = first; block < end; ++block) plain.insert(block);
      }
      EXPECT_EQ(ranges.size(), plain.size());
      for (std::uint64_t block = 0; block < 60; ++block)
        EXPECT_EQ(ranges.contains(block), plain.contains(block)) << block;
      const auto in_between =
          std::count_if(plain.begin(), plain.end(), [&](auto block) { return block >= first && block < end; });
      EXPECT_EQ(ranges.count(first, end), static_cast<std::uint64_t>(in_between));
    }
    return !testing::Test::HasFailure();
  });
}

class Preallocation : public testing::Test {
 protected:
  static constexpr std::uint64_t kBlock = 4096;
  static constexpr std::uint64_t kCapacity = 1000 * kBlock;

  Preallocation() : fs_({.block_bytes = kBlock, .capacity_bytes = kCapacity}) {
    EXPECT_EQ(fs_.create(kRootIno, "f", S_IFREG | 0644, 0, {}, ino_), 0);
  }
  std::uint64_t used() {
    struct statvfs out;
    fs_.statfs(out);
    return out.f_blocks - out.f_bfree;
  }
  void write(std::uint64_t block) {
    const std::string text(kBlock, 'x');
    EXPECT_EQ(fs_.write(ino_, block * kBlock, std::as_bytes(std::span(text)), {}), static_cast<std::int64_t>(kBlock));
  }
  Errno fallocate(int mode, std::uint64_t first, std::uint64_t count) {
    return fs_.fallocate(ino_, mode, first * kBlock, count * kBlock);
  }
  std::int64_t first_data(std::uint64_t block) {
    return fs_.seek(ino_, block * kBlock, SEEK_DATA) / static_cast<std::int64_t>(kBlock);
  }

  Filesystem fs_;
  Ino ino_{};
};

TEST_F(Preallocation, ABlockTakesRoomOnceWhateverIsDoneToIt) {
  EXPECT_EQ(fallocate(0, 10, 100), 0);
  EXPECT_EQ(used(), 100u);
  write(20);
  write(20);
  EXPECT_EQ(used(), 100u);
  EXPECT_EQ(first_data(0), 20);
  write(5);
  EXPECT_EQ(used(), 101u);
  EXPECT_EQ(fallocate(0, 0, 110), 0);
  EXPECT_EQ(used(), 110u);
  EXPECT_EQ(fallocate(FALLOC_FL_ZERO_RANGE, 15, 10), 0);
  EXPECT_EQ(used(), 110u);
  EXPECT_EQ(first_data(6), -ENXIO / static_cast<std::int64_t>(kBlock));
  EXPECT_EQ(fallocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 15, 10), 0);
  EXPECT_EQ(used(), 100u);
  EXPECT_EQ(fallocate(FALLOC_FL_COLLAPSE_RANGE, 10, 10), 0);
  EXPECT_EQ(used(), 95u);
  EXPECT_EQ(fallocate(FALLOC_FL_INSERT_RANGE, 3, 10), 0);
  EXPECT_EQ(used(), 95u);
  EXPECT_EQ(first_data(0), 15);
  EXPECT_EQ(fs_.truncate(ino_, 4 * kBlock), 0);
  EXPECT_EQ(used(), 3u);
  EXPECT_EQ(fs_.unlink(kRootIno, "f"), 0);
  EXPECT_EQ(used(), 0u);
}

TEST_F(Preallocation, RoomThatIsNotThereIsNotGiven) {
  EXPECT_EQ(fallocate(0, 0, 900), 0);
  EXPECT_EQ(fallocate(0, 800, 201), -ENOSPC);
  EXPECT_EQ(fallocate(0, 800, 200), 0);
  EXPECT_EQ(used(), 1000u);
  write(999);
  const std::string text = "x";
  EXPECT_EQ(fs_.write(ino_, 1000 * kBlock, std::as_bytes(std::span(text)), {}), -ENOSPC);
}

}  // namespace
}  // namespace crashcut::fusefs
