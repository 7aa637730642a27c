// Parts of the mounted front end that need no mount: tokens. histories_test.cc has versions and expectations.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "recovery/mounted/check.h"
#include "recovery/result/path.h"
#include "recovery/result/token.h"

namespace crashcut::mounted {
namespace {

// Results that hold a trace with these bytes.
class MountedToken : public ::testing::Test {
 protected:
  MountedToken() : directory_(::testing::TempDir() + "mounted_token." + std::to_string(getpid())) {
    std::filesystem::create_directories(directory_);
    std::ofstream(directory_ + "/trace") << "not read here";
  }
  ~MountedToken() override { std::filesystem::remove_all(directory_); }
  std::string some_token() const {
    CheckPlan plan;
    plan.directory = directory_;
    plan.model.data = fusefs::DataMode::kWriteback;
    plan.checker = {{"./verify.sh", "a b"}};
    result::Token token =
        token_of(plan, sum_of_trace(directory_),
                 FileQuestion{"d/notes.txt", {"d/notes.txt~"}, true, false, {Expect::kNoEmpty, Expect::kPrefix}});
    token.depth = 2;
    token.path = {0, 2, result::kCrashAgain, 1};
    return result::encode(token);
  }
  // What is written of a token that was read.
  std::string written(const CheckToken& read) const {
    result::Token token = token_of(read.plan, sum_of_trace(read.plan.directory), read.question);
    token.depth = read.token.depth;
    token.path = read.token.path;
    return result::encode(token);
  }

  std::string directory_;
};

TEST_F(MountedToken, ComesBackAsItWas) {
  const std::string token = some_token();
  const auto decoded = result::decode(token);
  ASSERT_TRUE(decoded) << decoded.error();
  EXPECT_EQ(token.find('/'), std::string::npos);
  const auto again = read_token(*decoded, directory_);
  ASSERT_TRUE(again) << again.error().sentence;
  EXPECT_EQ(written(*again), token);
  EXPECT_EQ(again->token.path, decoded->path);
  EXPECT_EQ(again->plan.directory, std::filesystem::canonical(directory_));
  EXPECT_EQ(std::get<FileQuestion>(again->question).backups, std::vector<std::string>{"d/notes.txt~"});
}

TEST_F(MountedToken, AnotherRecordingIsRefused) {
  const auto decoded = result::decode(some_token());
  std::ofstream(directory_ + "/trace") << "another one";
  const auto again = read_token(*decoded, directory_);
  ASSERT_FALSE(again);
  EXPECT_NE(again.error().sentence.find("are other ones"), std::string::npos) << again.error().sentence;
}

// Whatever the front end's own part holds, reading it returns; what it takes is what encode() writes.
TEST_F(MountedToken, SurvivesForgedTokens) {
  const result::Token good = *result::decode(some_token());
  std::mt19937_64 random(1);
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    result::Token forged = good;
    for (std::uint64_t n = 1 + random() % 3; n > 0; --n)
      forged.own[random() % forged.own.size()] = static_cast<char>(random());
    if (random() % 4 == 0) forged.own.resize(random() % forged.own.size() + 1);
    const auto token = read_token(forged, directory_);
    if (!token) continue;
    ++accepted;
    const auto again = read_token(*result::decode(written(*token)), directory_);
    ASSERT_TRUE(again);
    EXPECT_EQ(written(*again), written(*token));
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace crashcut::mounted
