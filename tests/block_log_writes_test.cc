// Logs of dm-log-writes: ours have its bytes, its are read as ours, and no file makes the reader fail but by a
// sentence.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sstream>

#include "blocklayer/crashed_drive.h"
#include "blocklayer/log_writes.h"
#include "persist/explore.h"
#include "tests/seeds.h"

namespace crashcut::blocklayer {
namespace {

namespace fs = std::filesystem;

class LogWritesTest : public testing::Test {
 protected:
  LogWritesTest() : directory_(fs::temp_directory_path() / ("block_log_writes_test." + std::to_string(getpid()))) {
    fs::create_directories(directory_);
  }
  ~LogWritesTest() override { fs::remove_all(directory_); }

  std::string trace() const { return directory_ / "trace"; }
  std::string log() const { return directory_ / "log"; }
  std::string read_log() const {
    std::ostringstream text;
    text << std::ifstream(log(), std::ios::binary).rdbuf();
    return text.str();
  }
  void write_log(const std::string& bytes) { std::ofstream(log(), std::ios::binary) << bytes; }

  // The example of dm-log-writes.c: Wa, Wb, Wc, Cc, Ca, FLUSH, FUAd, Cb, CFLUSH, CFUAd; and zeroes, a mark.
  void write_example() {
    auto writer = DeviceTraceWriter::create(trace(), {512, 1 << 16, {"p"}});
    ASSERT_TRUE(writer);
    DeviceTraceWriter& t = **writer;
    const auto issue = [&](Sector sector, char letter, bool is_fua = false) {
      const std::vector<std::byte> data(512, static_cast<std::byte>(letter));
      return t.issue({.first = sector, .count = 1, .is_fua = is_fua}, data);
    };
    const RequestId a = issue(1, 'a'), b = issue(2, 'b'), c = issue(3, 'c');
    t.complete(c), t.complete(a);
    const RequestId flush = t.issue({.kind = RequestKind::kFlush}, {}), d = issue(4, 'd', true);
    t.complete(b), t.complete(flush), t.complete(d);
    t.mark("saved");
    t.complete(t.issue({.kind = RequestKind::kZero, .first = 1, .count = 2}, {}));
    t.complete(t.issue({.kind = RequestKind::kDiscard, .first = 8, .count = 4}, {}));
    t.finish();
  }
  void export_example() {
    write_example();
    const auto opened = DeviceTrace::open(trace());
    ASSERT_TRUE(opened) << opened.error();
    ASSERT_TRUE(export_log_writes(**opened, log()));
  }

  // What the first six sectors can hold, a letter each, and whether "saved" was said.
  static std::set<std::string> states_of(const std::string& path) {
    const auto opened = DeviceTrace::open(path);
    EXPECT_TRUE(opened);
    const auto recording = replay(*opened, {});
    std::set<std::string> states;
    persist::Cut cut((*recording)->log);
    persist::ChoiceTree tree;
    persist::explore(tree, {}, [&](persist::Chooser& chooser) {
      cut.reset();
      CrashedDrive drive({{recording->get(), &cut}}, chooser);
      std::string state;
      for (Sector sector = 0; sector < 6; ++sector) {
        std::byte byte;
        drive.read(sector, 0, std::span(&byte, 1));
        state += byte == std::byte{0} ? '.' : static_cast<char>(byte);
      }
      states.insert(state + (drive.reached("saved") ? '!' : '?'));
    });
    return states;
  }

  fs::path directory_;
};

std::uint64_t number_at(const std::string& bytes, std::size_t at) {
  std::uint64_t number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

TEST_F(LogWritesTest, OursHaveTheKernelsBytes) {
  export_example();
  const std::string bytes = read_log();
  EXPECT_EQ(number_at(bytes, 0), 0x6a736677736872u);
  EXPECT_EQ(number_at(bytes, 8), 1u);
  EXPECT_EQ(number_at(bytes, 16), 9u);
  EXPECT_EQ(number_at(bytes, 24) & 0xffffffff, 512u);
  // sector, sectors, flags, and the first letter behind it
  struct Expected {
    std::uint64_t sector, count, flags;
    char letter;
  };
  const Expected expected[] = {{3, 1, 0, 'c'}, {1, 1, 0, 'a'}, {0, 0, 1, 0}, {4, 1, 2, 'd'}, {0, 0, 8, 0},
                               {2, 1, 0, 'b'}, {1, 2, 0, 0},   {8, 4, 4, 0}, {0, 0, 8, 0}};
  std::size_t at = 512;
  for (const Expected& entry : expected) {
    EXPECT_EQ(number_at(bytes, at), entry.sector);
    EXPECT_EQ(number_at(bytes, at + 8), entry.count);
    EXPECT_EQ(number_at(bytes, at + 16), entry.flags);
    if (entry.letter != 0) {
      EXPECT_EQ(bytes[at + 512], entry.letter);
    }
    at += 512 * (1 + (entry.flags == 4 ? 0 : entry.count));
  }
  EXPECT_EQ(bytes.size(), at);
  EXPECT_EQ(bytes.substr(at - 512 + 32, 17), "dm-log-writes-end");
}

// A program that waits for each request: the log has all there is to know.
TEST_F(LogWritesTest, ComesBackWithTheSameStates) {
  {
    auto writer = DeviceTraceWriter::create(trace(), {512, 1 << 16, {"p"}});
    ASSERT_TRUE(writer);
    DeviceTraceWriter& t = **writer;
    const auto write = [&](Sector sector, std::uint64_t count, char letter, bool is_fua = false) {
      const std::vector<std::byte> data(512 * count, static_cast<std::byte>(letter));
      t.complete(t.issue({.first = sector, .count = count, .is_fua = is_fua}, data));
    };
    write(0, 2, 'a'), write(1, 2, 'b');
    t.complete(t.issue({.kind = RequestKind::kFlush}, {}));
    write(4, 1, 'd', true);
    t.mark("saved");
    t.complete(t.issue({.kind = RequestKind::kZero, .first = 0, .count = 2}, {}));
    t.complete(t.issue({.kind = RequestKind::kDiscard, .first = 4, .count = 1}, {}));
    t.complete(t.issue({.kind = RequestKind::kFlush}, {}));
    write(5, 1, 'e');
    t.finish();
  }
  const auto opened = DeviceTrace::open(trace());
  ASSERT_TRUE(opened);
  ASSERT_TRUE(export_log_writes(**opened, log()));
  const auto imported = import_log_writes(log(), directory_ / "again");
  ASSERT_TRUE(imported) << imported.error();
  EXPECT_TRUE(imported->is_whole);
  EXPECT_EQ(imported->header.sector_bytes, 512u);
  EXPECT_EQ(imported->header.bytes, 6u * 512);
  const auto before = states_of(trace());
  EXPECT_EQ(states_of(directory_ / "again"), before);
  EXPECT_GT(before.size(), 20u);
}

TEST_F(LogWritesTest, ALogThatWasCutEndsEarlier) {
  export_example();
  const std::string whole = read_log();
  for (std::size_t length = 28; length < whole.size(); length += 100) {
    write_log(whole.substr(0, length));
    const auto imported = import_log_writes(log(), directory_ / "again");
    ASSERT_TRUE(imported) << imported.error();
    EXPECT_FALSE(imported->is_whole);
    const auto opened = DeviceTrace::open(directory_ / "again");
    ASSERT_TRUE(opened) << opened.error();
    EXPECT_FALSE((*opened)->is_complete());
  }
}

TEST_F(LogWritesTest, DamageIsASentenceOrSound) {
  export_example();
  const std::string whole = read_log();
  std::size_t refused = 0, count = 0;
  tests::for_each_seed(300, [&](std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::string damaged = whole;
    for (std::uint64_t i = 0; i <= random() % 3; ++i) {
      // Mostly where the numbers are.
      const std::size_t sector = random() % (damaged.size() / 512);
      damaged[sector * 512 + random() % (random() % 4 == 0 ? 512 : 32)] = static_cast<char>(random());
    }
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    write_log(damaged);
    const auto imported = import_log_writes(log(), directory_ / "again");
    ++count;
    if (!imported) {
      ++refused;
      EXPECT_TRUE(imported.error().ends_with('.')) << imported.error();
      return !HasFailure();
    }
    const auto opened = DeviceTrace::open(directory_ / "again");
    if (!opened) {
      EXPECT_NE(opened.error().find("sectors"), std::string::npos) << opened.error();  // too many
    }
    return !HasFailure();
  });
  if (count > 1) {
    EXPECT_GT(refused, count / 10);
  }
}

TEST_F(LogWritesTest, OtherFilesAreRefused) {
  write_log("not a log");
  EXPECT_NE(import_log_writes(log(), trace()).error().find("is not a log of dm-log-writes"), std::string::npos);
  write_log(std::string(4096, '\0'));
  EXPECT_FALSE(import_log_writes(log(), trace()));
  EXPECT_NE(import_log_writes("/no/such/log", trace()).error().find("cannot be read"), std::string::npos);
}

}  // namespace
}  // namespace crashcut::blocklayer
