// Tokens: what is encoded comes back, and no other string is taken for a token.
#include "recovery/token.h"

#include <gtest/gtest.h>

#include <random>

#include "recovery/base64url.h"
#include "recovery/inprocess/protocol.h"
#include "recovery/threads/token.h"
#include "recovery/token_bytes.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::recovery {
namespace {

ReplayToken sample() {
  ReplayToken token;
  token.program = "/home/me/save.c";
  token.arguments = {"", "two words", "--json", "\xff\n"};
  token.from_directory = "/srv/disk";
  token.model.data = fusefs::DataMode::kWriteback;
  token.model.auto_da_alloc = false;
  token.model.sector_bytes = 2;
  token.model.block_bytes = 8;
  token.depth = 3;
  token.seed = ~std::uint64_t{0};
  token.fingerprint = 0x0123456789abcdef;
  token.path = {0, 0, 0, 0, 0, 7, 7, 300, inprocess::kCrashAgain, 1, inprocess::kCrashAgain, 0xfffffffe};
  return token;
}

void expect_equal(const ReplayToken& a, const ReplayToken& b) {
  EXPECT_EQ(a.program, b.program);
  EXPECT_EQ(a.arguments, b.arguments);
  EXPECT_EQ(a.from_directory, b.from_directory);
  EXPECT_EQ(fusefs::describe(a.model), fusefs::describe(b.model));
  EXPECT_EQ(a.depth, b.depth);
  EXPECT_EQ(a.seed, b.seed);
  EXPECT_EQ(a.fingerprint, b.fingerprint);
  EXPECT_EQ(a.path, b.path);
}

ThreadToken thread_sample() {
  ThreadToken token;
  token.program = "/home/me/queue";
  token.arguments = {"3", ""};
  token.spurious_most = 1;
  token.timeouts_most = 2;
  token.policies = {{scheduler::PrimitiveId::kMutex, 1}};
  using scheduler::runtime::Names;
  token.actors = {{0, 0},
                  {0, 1},
                  {0, Names::kTimerOrdinal},
                  {1, Names::kTimerOrdinal - 1},
                  {1, Names::kStirOrdinal},
                  {1, Names::kCancelOrdinal}};
  for (const std::uint32_t actor : {0u, 0u, 1u, 2u, 1u, 1u})
    token.schedule.push_back(static_cast<scheduler::ActorId>(actor));
  token.racy = {0x7fff'0000'1234, std::uint64_t{1} << 63 | 8};
  token.crash.from_directory = "/srv/disk";
  token.crash.depth = 2;
  token.recovery = CrashReplay{0x0123456789abcdef, {0, 0, 0, 5, inprocess::kCrashAgain, 1}};
  return token;
}

// Some bytes of a body changed, now and then cut short.
std::string spoilt(std::string body, std::mt19937_64& random) {
  for (std::uint64_t n = 1 + random() % 4; n > 0; --n) body[random() % body.size()] = static_cast<char>(random());
  if (random() % 4 == 0) body.resize(random() % body.size());
  return body;
}

TEST(Base64url, ThereAndBack) {
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(from_base64url(to_base64url(bytes)), bytes);
    bytes += static_cast<char>(i * 37);
  }
  EXPECT_EQ(to_base64url("\xfb\xff"), "-_8");
}

TEST(Base64url, RefusesWhatItDoesNotMake) {
  for (const char* text : {"A", "AAAAA", "AB", "AAB", "A=", "A+", "A A", "\n"}) {
    EXPECT_FALSE(from_base64url(text)) << text;
  }
}

TEST(ReplayToken, ThereAndBack) {
  const auto token = decode(encode(sample()));
  ASSERT_TRUE(token) << token.error();
  expect_equal(*token, sample());
}

TEST(ReplayToken, AnEmptyPathAndALongOne) {
  ReplayToken token = sample();
  token.path = {};
  ASSERT_TRUE(decode(encode(token)));
  token.path.assign(1'000'000, 1);
  EXPECT_LT(encode(token).size(), 200u);
  ASSERT_TRUE(decode(encode(token)));
  EXPECT_EQ(decode(encode(token))->path, token.path);
}

TEST(ReplayToken, RefusesWhatMakesNoSense) {
  const std::pair<const char*, void (*)(ReplayToken&)> bad[] = {
      {"relative program", [](ReplayToken& t) { t.program = "save.c"; }},
      {"no program", [](ReplayToken& t) { t.program = ""; }},
      {"NUL in a text", [](ReplayToken& t) { t.program += '\0'; }},
      {"long text", [](ReplayToken& t) { t.program.append(5000, 'x'); }},
      {"relative directory", [](ReplayToken& t) { t.from_directory = "disk"; }},
      {"many arguments", [](ReplayToken& t) { t.arguments.resize(5000); }},
      {"unknown profile", [](ReplayToken& t) { t.model.profile = static_cast<fusefs::ProfileName>(9); }},
      {"unknown mode", [](ReplayToken& t) { t.model.data = static_cast<fusefs::DataMode>(3); }},
      {"no sector", [](ReplayToken& t) { t.model.sector_bytes = 0; }},
      {"huge block", [](ReplayToken& t) { t.model.block_bytes = 1u << 31; }},
      {"no depth", [](ReplayToken& t) { t.depth = 0; }},
      {"huge depth", [](ReplayToken& t) { t.depth = 1000; }},
      {"more crashes than its depth", [](ReplayToken& t) { t.depth = 2; }},
      {"too many answers", [](ReplayToken& t) { t.path.assign(1'000'001, 0); }},
  };
  for (const auto& [what, spoil] : bad) {
    ReplayToken token = sample();
    spoil(token);
    EXPECT_FALSE(decode(encode(token))) << what;
  }
}

TEST(ReplayToken, RefusesGarbage) {
  for (const char* text : {"", "c", "cc1", "cc2AAAA", "cc1AAAA", "cc1AAAAAAAA", "hello", "cc1!!", "\xff\xff"}) {
    const auto token = decode(text);
    ASSERT_FALSE(token) << text;
    EXPECT_TRUE(token.error().ends_with('.') || token.error().ends_with('?')) << token.error();
  }
  EXPECT_FALSE(decode("cc1" + std::string(std::size_t{5} << 20, 'A')));
}

// Any change of a token's text is noticed: the checksum covers every bit, and base64 is canonical.
TEST(ReplayToken, RefusesEveryMutation) {
  const std::string good = encode(sample());
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    std::string text = good;
    for (std::uint64_t n = 1 + random() % 3; n > 0 && !text.empty(); --n) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        case 2:
          text.insert(at, 1, static_cast<char>('A' + random() % 26));
          break;
        case 3:
          text.resize(at);
          break;
      }
    }
    if (text == good) continue;
    EXPECT_FALSE(decode(text)) << text;
  }
}

// With a right checksum the fields themselves are read: whatever they hold, decode() returns, and what it takes for
// a token is one that encode() writes.
TEST(ReplayToken, SurvivesForgedTokens) {
  const std::string good = *unseal("cc1", encode(sample()));
  std::mt19937_64 random(2);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto token = decode(seal("cc1", spoilt(good, random)));
    if (!token) continue;
    ++accepted;
    const auto again = decode(encode(*token));
    ASSERT_TRUE(again);
    expect_equal(*again, *token);
  }
  EXPECT_GT(accepted, 0);
}

TEST(ThreadToken, ThereAndBack) {
  const ThreadToken token = thread_sample();
  const auto again = decode_threads(encode(token));
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(again->program, token.program);
  EXPECT_EQ(again->arguments, token.arguments);
  EXPECT_EQ(again->policies, token.policies);
  EXPECT_EQ(again->schedule, token.schedule);
  EXPECT_EQ(again->racy, token.racy);
  EXPECT_EQ(again->recovery->path, token.recovery->path);
  EXPECT_EQ(again->recovery->fingerprint, token.recovery->fingerprint);
  EXPECT_EQ(encode(*again), encode(token));
  EXPECT_FALSE(decode(encode(token)));
  EXPECT_FALSE(decode_threads(encode(sample())));
}

TEST(ThreadToken, SurvivesForgedTokens) {
  const std::string good = *unseal(kThreadTokenPrefix, encode(thread_sample()));
  std::mt19937_64 random(3);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto token = decode_threads(seal(kThreadTokenPrefix, spoilt(good, random)));
    if (!token) continue;
    ++accepted;
    const auto again = decode_threads(encode(*token));
    ASSERT_TRUE(again);
    EXPECT_EQ(encode(*again), encode(*token));
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace crashcut::recovery
