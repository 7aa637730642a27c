// Which crash images are made of a run: exact lists for small traces.
#include "blocklayer/crash_images.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

namespace crashcut::blocklayer {
namespace {

constexpr std::uint32_t kBlock = 512;
constexpr std::size_t kBlocks = 8;

class CrashImagesTest : public testing::Test {
 protected:
  CrashImagesTest() : path_(std::filesystem::temp_directory_path() / ("crash_images." + std::to_string(getpid()))) {
    writer_ = *DeviceTraceWriter::create(path_.string(), {kBlock, kBlocks * kBlock, {"test"}});
  }
  ~CrashImagesTest() override { std::filesystem::remove(path_); }

  // Writes one letter a block from `first` on.
  RequestId issue(Sector first, const std::string& letters, bool is_fua = false) {
    std::vector<std::byte> bytes;
    for (const char letter : letters) bytes.insert(bytes.end(), kBlock, static_cast<std::byte>(letter));
    return writer_->issue({.kind = RequestKind::kWrite, .first = first, .count = letters.size(), .is_fua = is_fua},
                          bytes);
  }
  void write(Sector first, const std::string& letters, bool is_fua = false) {
    writer_->complete(issue(first, letters, is_fua));
  }
  RequestId issue_flush() { return writer_->issue({.kind = RequestKind::kFlush}, {}); }
  void flush() { writer_->complete(issue_flush()); }

  // The images, a letter a block, '.' for the base; sorted. `kind_of` as in ImageBase.
  std::vector<std::string> images(const DriveOptions& options = {}, std::uint32_t subsets = 64,
                                  decltype(ImageBase::kind_of) kind_of = {}) {
    writer_->finish();
    const std::vector<std::byte> base(kBlocks * kBlock, std::byte{'.'});
    std::unordered_set<std::uint64_t> seen;
    const CrashImages made(*DeviceTrace::open(path_.string()), options, {subsets, 1}, {base, std::move(kind_of)}, seen);
    std::vector<std::string> texts;
    for (const CrashImages::Image& image : made.images()) {
      std::string text(kBlocks, '.');
      for (const CrashImages::Block& block : made.blocks_of(image))
        text[block.offset / kBlock] = block.bytes.empty() ? '0' : static_cast<char>(block.bytes[0]);
      for (const std::string& mark : made.marks_of(image)) text += mark;
      texts.push_back(text);
    }
    std::sort(texts.begin(), texts.end());
    return texts;
  }

  std::filesystem::path path_;
  std::unique_ptr<DeviceTraceWriter> writer_;
};

using Texts = std::vector<std::string>;

TEST_F(CrashImagesTest, AFlushCoversWhatHadCompleted) {
  write(0, "A");
  flush();
  write(1, "BC");
  EXPECT_EQ(images(), (Texts{"........", "A.......", "A.C.....", "AB......", "ABC....."}));
}

TEST_F(CrashImagesTest, AFlushDoesNotCoverWhatWasInFlight) {
  const RequestId write_id = issue(0, "A");
  const RequestId flush_id = issue_flush();
  writer_->complete(write_id);
  writer_->complete(flush_id);
  EXPECT_EQ(images(), (Texts{"........", "A......."}));
}

TEST_F(CrashImagesTest, ADurableWriteCoversItselfAlone) {
  write(0, "A");
  write(1, "B", true);
  EXPECT_EQ(images(), (Texts{"........", ".B......", "A.......", "AB......"}));
}

TEST_F(CrashImagesTest, DrivesDiffer) {
  write(0, "A");
  flush();
  write(1, "B");
  EXPECT_EQ(images({.cache = Cache::kNone}), (Texts{"........", "A.......", "AB......"}));
}

TEST_F(CrashImagesTest, ADriveThatLiesLosesWhatWasFlushed) {
  write(0, "A");
  flush();
  write(1, "B");
  EXPECT_EQ(images({.cache = Cache::kLies}), (Texts{"........", ".B......", "A.......", "AB......"}));
}

TEST_F(CrashImagesTest, WritesTearAsTheDriveSays) {
  write(0, "AB");
  EXPECT_EQ(images({.tear = Tear::kNone}), (Texts{"........", "AB......"}));
}

TEST_F(CrashImagesTest, WritesTearAsPrefixes) {
  write(0, "ABC");
  EXPECT_EQ(images({.tear = Tear::kPrefix}), (Texts{"........", "A.......", "AB......", "ABC....."}));
}

TEST_F(CrashImagesTest, EqualImagesAreMadeOnce) {
  write(0, "A");
  write(0, "A");
  write(1, ".");  // as the base has it
  EXPECT_EQ(images(), (Texts{"........", "A......."}));
}

TEST_F(CrashImagesTest, WhatWasDurableFromTheStartIsInAllImages) {
  write(0, "A");
  writer_->make_durable();
  write(1, "B");
  EXPECT_EQ(images(), (Texts{"A.......", "AB......"}));
}

TEST_F(CrashImagesTest, MarksAreReachedByTheirMoment) {
  write(0, "A");
  flush();
  writer_->mark("m");
  write(1, "B");
  EXPECT_EQ(images(), (Texts{"........", "A.......", "A.......m", "AB......m"}));
}

// Blocks of a journal without a commit block show nothing: they are lost together with all others only.
TEST_F(CrashImagesTest, AJournalIsNotTornBeforeItsCommit) {
  const auto kinds = [](std::uint64_t block, std::span<const std::byte>) {
    return block >= 6 ? BlockKind::kCommit : block >= 4 ? BlockKind::kJournal : BlockKind::kPlain;
  };
  write(0, "AB");
  write(4, "JK");
  EXPECT_EQ(images({}, 64, kinds), (Texts{"........", ".B..JK..", "A...JK..", "AB..JK.."}));
}

TEST_F(CrashImagesTest, BoundsHold) {
  for (int i = 0; i < 8; ++i) write(static_cast<Sector>(i), "A");
  const Texts some = images({}, 40);
  EXPECT_LE(some.size(), 40u);
  EXPECT_GE(some.size(), 20u);
  for (const char* text : {"........", "AAAAAAAA", "A.......", "AAAAAAA.", ".AAAAAAA"})
    EXPECT_TRUE(std::binary_search(some.begin(), some.end(), text)) << text;
}

// Block 0 is a journal whose letter is replayed to block 1.
TEST_F(CrashImagesTest, ImagesThatTheReplayMakesEqualAreMadeOnce) {
  write(0, "a");
  flush();
  write(1, "a");
  write(2, "c");
  writer_->finish();
  const std::vector<std::byte> base(kBlocks * kBlock, std::byte{'.'});
  const auto count_with = [&](char letter) {
    ImageBase over{base,
                   [](std::uint64_t block, std::span<const std::byte>) {
                     return block == 0 ? BlockKind::kCommit : BlockKind::kPlain;
                   },
                   [&](const ImageBase::Reader& read) -> std::optional<ImageBase::Replayed> {
                     const auto found = read(0)[0];
                     if (found != static_cast<std::byte>(letter)) return ImageBase::Replayed{};
                     return ImageBase::Replayed{{1, std::vector<std::byte>(kBlock, found)}};
                   }};
    std::unordered_set<std::uint64_t> seen;
    const CrashImages made(*DeviceTrace::open(path_.string()), {}, {64, 1}, over, seen);
    EXPECT_EQ(made.chosen_count(), 6u);
    return made.images().size();
  };
  // ........ a....... aa...... a.c..... aac.....: without block 0, and block 1 is always a once that is there.
  EXPECT_EQ(count_with('a'), 3u);
  // Block 0 does not matter, and nothing is replayed.
  EXPECT_EQ(count_with('b'), 4u);
}

}  // namespace
}  // namespace crashcut::blocklayer
