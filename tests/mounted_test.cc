// Parts of the mounted front end that need no mount: tokens. histories_test.cc has versions and expectations.
#include <gtest/gtest.h>

#include <random>

#include "recovery/mounted/check.h"
#include "recovery/mounted/explorer.h"
#include "recovery/token_bytes.h"

namespace crashcut::mounted {
namespace {

Token some_token() {
  Token token;
  token.directory = "/tmp/with space/crashcut.out/3";
  token.trace_sum = 0xfeedbeef;
  token.model.data = fusefs::DataMode::kWriteback;
  token.question = FileQuestion{"d/notes.txt", {"d/notes.txt~"}, true, false, {Expect::kNoEmpty, Expect::kPrefix}};
  token.checker = {{"./verify.sh", "a b"}};
  token.depth = 2;
  token.path = {0, 2, kCrashAgain, 1};
  return token;
}

TEST(MountedToken, ComesBackAsItWas) {
  const Token token = some_token();
  const auto again = decode_token(encode(token));
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(encode(*again), encode(token));
  EXPECT_EQ(again->path, token.path);
  EXPECT_EQ(again->directory, token.directory);
  EXPECT_EQ(std::get<FileQuestion>(again->question).backups, std::vector<std::string>{"d/notes.txt~"});
}

TEST(MountedToken, WhateverIsChangedIsNoticed) {
  const std::string text = encode(some_token());
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string changed = text;
    const std::size_t at = random() % changed.size();
    switch (random() % 3) {
      case 0:
        changed[at] = static_cast<char>(random());
        break;
      case 1:
        changed.erase(at, 1 + random() % 5);
        break;
      default:
        changed.insert(at, 1, static_cast<char>('A' + random() % 26));
    }
    const auto decoded = decode_token(changed);
    if (changed == text) continue;
    if (decoded) {
      EXPECT_EQ(encode(*decoded), text) << changed;  // the last character of base64 has bits to spare
    } else {
      EXPECT_FALSE(decoded.error().empty());
    }
  }
}

TEST(MountedToken, NonsenseWithARightSumIsASentence) {
  for (const char* json : {"[]", "{}", "null", "{\"d\":1}",
                           "{\"d\":\"x\",\"t\":0,\"m\":\"CQkJCQk\",\"q\":null,\"c\":[\"x\"],\"n\":1,\"l\":1,\"p\":[]}",
                           "{\"d\":\"x\",\"t\":0,\"m\":\"AQAPAAA\",\"q\":null,\"c\":[\"x\"],\"n\":1,\"l\":1,\"p\":[]}",
                           "{\"d\":\"x\",\"t\":0,\"m\":\"AQAPgASAIA\",\"q\":null,\"c\":[],\"n\":1,\"l\":1,\"p\":[]}"}) {
    std::string body;
    Json::to_cbor(Json::parse(json), nlohmann::detail::output_adapter<char>(body));
    const auto decoded = decode_token(recovery::seal(kTokenPrefix, body));
    ASSERT_FALSE(decoded) << json;
    EXPECT_EQ(decoded.error(), recovery::no_crashcut_wrote_it());
  }
}

}  // namespace
}  // namespace crashcut::mounted
