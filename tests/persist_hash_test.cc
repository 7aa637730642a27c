// The one hash: the same everywhere, and different for what is different.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "persist/hash.h"

namespace crashcut::persist {
namespace {

TEST(Hash, IsTheSameEverywhere) {
  static_assert(mix(0, 0) != 0);
  // Tokens and files of earlier runs hold such numbers: another function is another format.
  EXPECT_EQ(mix(kHashStart, 1), 0x731d709041669d0u);
  EXPECT_EQ(hash_of("notes.txt"), 0xff9d48f84d7d9aa0u);
}

TEST(Hash, NearbySequencesDiffer) {
  std::set<std::uint64_t> seen, low_halves;
  std::size_t count = 0;
  for (std::uint64_t a = 0; a < 40; ++a) {
    for (std::uint64_t b = 0; b < 40; ++b) {
      for (std::uint64_t c = 0; c < 40; ++c, ++count) {
        const std::uint64_t hash = mix(mix(mix(0, a << 40), b), c << 56);
        seen.insert(hash);
        low_halves.insert(hash & 0xffffffff);
      }
    }
  }
  EXPECT_EQ(seen.size(), count);
  // Of 64,000 numbers of 32 bits about half a pair are equal by chance.
  EXPECT_GE(low_halves.size() + 8, count);
}

// Families of hashes may begin with small numbers, and go on with small ones: kinds of things, and their numbers.
TEST(Hash, SmallStartsDiffer) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t start = 0; start < 64; ++start) {
    for (std::uint64_t value = 0; value < 1024; ++value) seen.insert(mix(start, value));
  }
  EXPECT_EQ(seen.size(), 64u * 1024u);
}

TEST(Hash, HowManyNumbersCounts) {
  std::set<std::uint64_t> seen;
  std::uint64_t hash = 0;
  for (int i = 0; i < 1000; ++i) seen.insert(hash = mix(hash, 0));
  EXPECT_EQ(seen.size(), 1000u);
}

// Each length up to three words, each byte changed, and each way to cut a text in two.
TEST(Hash, EveryByteAndTheLengthCount) {
  std::set<std::uint64_t> seen;
  std::size_t count = 0;
  for (std::size_t length = 0; length <= 24; ++length) {
    std::string text(length, '\0');
    seen.insert(hash_of(text)), ++count;
    for (std::size_t i = 0; i < length; ++i, ++count) {
      text[i] = '\x80';
      seen.insert(hash_of(text));
      text[i] = '\0';
    }
  }
  EXPECT_EQ(seen.size(), count);
  std::set<std::uint64_t> cuts;
  const std::string_view whole = "what a crash can leave";
  for (std::size_t i = 0; i <= whole.size(); ++i) cuts.insert(mix_bytes(hash_of(whole.substr(0, i)), whole.substr(i)));
  EXPECT_EQ(cuts.size(), whole.size() + 1);
}

}  // namespace
}  // namespace crashcut::persist
