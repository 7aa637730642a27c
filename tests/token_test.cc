// Tokens: what is encoded comes back, and no other string is taken for a token.
#include "recovery/result/token.h"

#include <gtest/gtest.h>

#include <random>

#include "recovery/result/base64url.h"
#include "recovery/result/token_bytes.h"
#include "recovery/run_token.h"
#include "recovery/threads/token.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::recovery {
namespace {

using result::decode;
using result::encode;
using result::from_base64url;
using result::kCrashAgain;
using result::seal;
using result::to_base64url;
using result::Token;
using result::unseal;

Token sample() {
  Token token;
  token.command = "run";
  token.program = "src/save.c";
  token.program_id = "0123456789abcdef";
  token.arguments = {"", "two words", "--json", "\xff\n"};
  token.from = "disk";
  fusefs::ModelOptions model;
  model.data = fusefs::DataMode::kWriteback;
  model.auto_da_alloc = false;
  model.sector_bytes = 2;
  model.block_bytes = 8;
  token.model = fusefs::spec_of(model);
  token.model.text.clear();  // is not kept
  token.depth = 3;
  token.seed = ~std::uint64_t{0};
  token.fingerprint = 0x0123456789abcdef;
  token.path = {0, 0, 0, 0, 0, 7, 7, 300, kCrashAgain, 1, kCrashAgain, 0xfffffffe};
  token.own = std::string("any\0bytes", 9);
  return token;
}

void expect_equal(const Token& a, const Token& b) {
  EXPECT_EQ(a.command, b.command);
  EXPECT_EQ(a.program, b.program);
  EXPECT_EQ(a.program_id, b.program_id);
  EXPECT_EQ(a.arguments, b.arguments);
  EXPECT_EQ(a.from, b.from);
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.depth, b.depth);
  EXPECT_EQ(a.seed, b.seed);
  EXPECT_EQ(a.fingerprint, b.fingerprint);
  EXPECT_EQ(a.path, b.path);
  EXPECT_EQ(a.own, b.own);
}

ThreadToken thread_sample() {
  ThreadToken token;
  token.plan.named = "queue";
  token.plan.arguments = {"3", ""};
  token.plan.spurious_most = 1;
  token.plan.timeouts_most = 2;
  token.plan.policies = {{scheduler::PrimitiveId::kMutex, 1}};
  using scheduler::runtime::Names;
  token.schedule.actors = {{0, 0},
                           {0, 1},
                           {0, Names::kTimerOrdinal},
                           {1, Names::kTimerOrdinal - 1},
                           {1, Names::kStirOrdinal},
                           {1, Names::kCancelOrdinal}};
  for (const std::uint32_t actor : {0u, 0u, 1u, 2u, 1u, 1u})
    token.schedule.steps.push_back(static_cast<scheduler::ActorId>(actor));
  token.schedule.racy = {0x7fff'0000'1234, std::uint64_t{1} << 63 | 8};
  token.plan.from_named = "disk";
  token.plan.depth = 2;
  token.recovery = CrashReplay{0x0123456789abcdef, {0, 0, 0, 5, kCrashAgain, 1}};
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

TEST(TokenTest, ThereAndBack) {
  const auto token = decode(encode(sample()));
  ASSERT_TRUE(token) << token.error();
  expect_equal(*token, sample());
}

TEST(TokenTest, AnEmptyPathAndALongOne) {
  Token token = sample();
  token.path = {};
  ASSERT_TRUE(decode(encode(token)));
  token.path.assign(1'000'000, 1);
  EXPECT_LT(encode(token).size(), 300u);
  ASSERT_TRUE(decode(encode(token)));
  EXPECT_EQ(decode(encode(token))->path, token.path);
}

TEST(TokenTest, RefusesWhatMakesNoSense) {
  const std::pair<const char*, void (*)(Token&)> bad[] = {
      {"no command", [](Token& t) { t.command = ""; }},
      {"absolute program", [](Token& t) { t.program = "/home/me/save.c"; }},
      {"NUL in a text", [](Token& t) { t.program += '\0'; }},
      {"long text", [](Token& t) { t.program.append(5000, 'x'); }},
      {"absolute directory", [](Token& t) { t.from = "/srv/disk"; }},
      {"many arguments", [](Token& t) { t.arguments.resize(5000); }},
      {"many settings", [](Token& t) { t.model.settings.resize(100); }},
      {"no depth", [](Token& t) { t.depth = 0; }},
      {"huge depth", [](Token& t) { t.depth = 1000; }},
      {"more crashes than its depth", [](Token& t) { t.depth = 2; }},
      {"too many answers", [](Token& t) { t.path.assign(1'000'001, 0); }},
  };
  for (const auto& [what, spoil] : bad) {
    Token token = sample();
    spoil(token);
    EXPECT_FALSE(decode(encode(token))) << what;
  }
}

TEST(TokenTest, RefusesGarbage) {
  for (const char* text : {"", "c", "cc2", "cc1AAAA", "cc2AAAA", "cc2AAAAAAAA", "hello", "cc2!!", "\xff\xff"}) {
    const auto token = decode(text);
    ASSERT_FALSE(token) << text;
    EXPECT_TRUE(token.error().ends_with('.') || token.error().ends_with('?')) << token.error();
  }
  EXPECT_FALSE(decode("cc2" + std::string(std::size_t{5} << 20, 'A')));
}

// Any change of a token's text is noticed: the checksum covers every bit, and base64 is canonical.
TEST(TokenTest, RefusesEveryMutation) {
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
TEST(TokenTest, SurvivesForgedTokens) {
  const std::string good = *unseal("cc2", encode(sample()));
  std::mt19937_64 random(2);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    const auto token = decode(seal("cc2", spoilt(good, random)));
    if (!token) continue;
    ++accepted;
    const auto again = decode(encode(*token));
    ASSERT_TRUE(again);
    expect_equal(*again, *token);
  }
  EXPECT_GT(accepted, 0);
}

// What the model does not know is refused when a plan is made of it.
TEST(TokenTest, RefusesModelsThatMakeNoSense) {
  ASSERT_TRUE(plan_of(sample()));
  const std::pair<const char*, void (*)(persist::ModelSpec&)> bad[] = {
      {"twice the same", [](persist::ModelSpec& m) { m.settings.insert(m.settings.begin(), m.settings[0]); }},
      {"in another order", [](persist::ModelSpec& m) { std::swap(m.settings[0], m.settings[1]); }},
      {"another name", [](persist::ModelSpec& m) { m.settings[0].first = "colour"; }},
      {"unknown profile", [](persist::ModelSpec& m) { m.settings[0].second = std::string("ext9"); }},
      {"unknown mode", [](persist::ModelSpec& m) { m.settings[1].second = std::string("never"); }},
      {"a value of another kind", [](persist::ModelSpec& m) { m.settings[2].second = std::uint64_t{1}; }},
      {"no sector", [](persist::ModelSpec& m) { m.settings[6].second = std::uint64_t{0}; }},
      {"huge block", [](persist::ModelSpec& m) { m.settings[7].second = std::uint64_t{1} << 31; }},
      {"larger than it can hold", [](persist::ModelSpec& m) { m.settings[7].second = std::uint64_t{1} << 32 | 4096; }},
  };
  for (const auto& [what, spoil] : bad) {
    Token token = sample();
    spoil(token.model);
    EXPECT_FALSE(plan_of(token)) << what;
  }
}

// Of the model a token holds what is not the default.
TEST(TokenTest, IsShort) {
  Plan plan;
  plan.named = "save.c";
  plan.program_id = "0123456789abcdef";
  const auto text_of = [](const Plan& of) {
    result::Token token = token_of("run", of);
    token.fingerprint = 1;
    token.path = {1, 0, 2};
    return result::encode(token);
  };
  EXPECT_LT(text_of(plan).size(), 90u);
  plan.model.data = fusefs::DataMode::kWriteback;
  plan.model.barrier = false;
  const auto token = result::decode(text_of(plan));
  ASSERT_TRUE(token) << token.error();
  EXPECT_EQ(token->model.settings.size(), 2u);
  ASSERT_TRUE(plan_of(*token));
  EXPECT_EQ(plan_of(*token)->model, plan.model);
}

TEST(TokenTest, APathIsPortable) {
  EXPECT_EQ(result::portable_path("src/save.c"), "src/save.c");
  EXPECT_EQ(result::portable_path("/home/me/save.c"), "save.c");
}

TEST(ThreadToken, ThereAndBack) {
  const ThreadToken token = thread_sample();
  const auto again = read_thread_token(*decode(encode(token)));
  ASSERT_TRUE(again) << again.error().sentence;
  EXPECT_EQ(again->plan.named, token.plan.named);
  EXPECT_EQ(again->plan.arguments, token.plan.arguments);
  EXPECT_EQ(again->plan.policies, token.plan.policies);
  EXPECT_EQ(again->schedule.steps, token.schedule.steps);
  EXPECT_EQ(again->schedule.racy, token.schedule.racy);
  EXPECT_EQ(again->recovery->path, token.recovery->path);
  EXPECT_EQ(again->recovery->fingerprint, token.recovery->fingerprint);
  EXPECT_EQ(encode(*again), encode(token));
  EXPECT_FALSE(read_thread_token(sample())) << "of another command";
}

TEST(ThreadToken, SurvivesForgedTokens) {
  const Token good = *decode(encode(thread_sample()));
  std::mt19937_64 random(3);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    Token forged = good;
    forged.own = spoilt(good.own, random);
    const auto token = read_thread_token(forged);
    if (!token) continue;
    ++accepted;
    const auto again = read_thread_token(*decode(encode(*token)));
    ASSERT_TRUE(again);
    EXPECT_EQ(encode(*again), encode(*token));
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace crashcut::recovery
