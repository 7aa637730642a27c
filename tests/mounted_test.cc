// Parts of the mounted front end that need no mount: tokens, versions, expectations.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "recovery/token_bytes.h"
#include "recovery/crash_test.h"
#include "recovery/mounted/check.h"
#include "recovery/mounted/explorer.h"

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
      case 0: changed[at] = static_cast<char>(random()); break;
      case 1: changed.erase(at, 1 + random() % 5); break;
      default: changed.insert(at, 1, static_cast<char>('A' + random() % 26));
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
  for (const char* json : {"[]", "{}", "null", "{\"d\":1}", "{\"d\":\"x\",\"t\":0,\"m\":\"CQkJCQk\",\"q\":null,\"c\":[\"x\"],\"n\":1,\"l\":1,\"p\":[]}",
                           "{\"d\":\"x\",\"t\":0,\"m\":\"AQAPAAA\",\"q\":null,\"c\":[\"x\"],\"n\":1,\"l\":1,\"p\":[]}",
                           "{\"d\":\"x\",\"t\":0,\"m\":\"AQAPgASAIA\",\"q\":null,\"c\":[],\"n\":1,\"l\":1,\"p\":[]}"}) {
    std::string body;
    Json::to_cbor(Json::parse(json), nlohmann::detail::output_adapter<char>(body));
    const auto decoded = decode_token(recovery::seal(kTokenPrefix, body));
    ASSERT_FALSE(decoded) << json;
    EXPECT_EQ(decoded.error(), recovery::no_crashcut_wrote_it());
  }
}

void put(fusefs::Process& process, const char* path, std::string_view text) {
  const int fd = process.openat(AT_FDCWD, path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
  const iovec part{const_cast<char*>(text.data()), text.size()};
  ASSERT_EQ(process.write(fd, {&part, 1}), static_cast<std::int64_t>(text.size()));
  process.close(fd);
}

std::map<std::string, std::uint64_t> explore(const fusefs::Recording& recording, const FileQuestion& question, std::set<Finding>& findings) {
  const std::vector<Version> versions = versions_of(recording, reads_all);
  Explorer explorer({recording, versions, nullptr, 1});
  persist::ChoiceTree tree;
  std::map<std::string, std::uint64_t> outcomes;
  do {
    const Run run = explorer.run(question, tree, [](const Run&) {});
    ++outcomes[run.result.answer.outcome];
    findings.insert(run.result.answer.finding);
  } while (tree.advance());
  return outcomes;
}

TEST(Versions, AreThoseOfThePromises) {
  CrashTest test;
  put(test.process(), "f", "one");
  test.barrier();
  put(test.process(), "f", "two");
  test.mark("second");
  test.mark("stdout 1: no promise");
  put(test.process(), "f", "three");
  test.explore([](AfterCrash&) { return ""; });  // ends the recording
  const std::vector<Version> versions = versions_of(test.recording(), reads_all);
  ASSERT_EQ(versions.size(), 3U);
  EXPECT_EQ(versions[0].files.at("f").content, "one");
  EXPECT_EQ(versions[1].files.at("f").content, "two");
  EXPECT_EQ(versions[1].mark, "second");
  EXPECT_EQ(versions[2].files.at("f").content, "three");
}

TEST(Expectations, AnEarlierVersionAfterAPromiseIsNotDurable) {
  CrashTest test({.data = fusefs::DataMode::kJournal});
  put(test.process(), "f", "one");
  test.barrier();
  put(test.process(), "g", "two");
  test.process().renameat2(AT_FDCWD, "g", AT_FDCWD, "f", 0);
  test.mark("second");
  test.explore([](AfterCrash&) { return ""; });
  std::set<Finding> findings;
  const auto outcomes = explore(test.recording(), FileQuestion{"f", {}, true, true, {}}, findings);
  EXPECT_EQ(outcomes, (std::map<std::string, std::uint64_t>{{"f is new", 1}, {"f is old", 1}, {"f is old after \"second\"", 1}}));
  EXPECT_EQ(findings, (std::set<Finding>{Finding::kFine, Finding::kNotDurable}));
  findings.clear();
  explore(test.recording(), FileQuestion{"f", {}, true, false, {}}, findings);
  EXPECT_EQ(findings, std::set<Finding>{Finding::kFine});
}

TEST(Expectations, ReadNoFurtherThanTheyNeed) {
  // Ten blocks that each are old or new: the first that fits neither version ends it.
  CrashTest test;
  put(test.process(), "f", std::string(40960, 'o'));
  test.barrier();
  const int fd = test.process().openat(AT_FDCWD, "f", O_WRONLY, 0);
  const std::string text(40960, 'n');
  const iovec part{const_cast<char*>(text.data()), text.size()};
  test.process().pwrite(fd, {&part, 1}, 0, 0);
  test.explore([](AfterCrash& after) { return std::to_string(*after.size_of("f")); });
  std::set<Finding> findings;
  std::uint64_t runs = 0;
  for (const auto& [outcome, count] : explore(test.recording(), FileQuestion{"f", {}, true, true, {}}, findings)) runs += count;
  EXPECT_LT(runs, 200U);  // of 2^10 and more
  EXPECT_TRUE(findings.contains(Finding::kLost));
}

}  // namespace
}  // namespace crashcut::mounted
