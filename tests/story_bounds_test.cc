// Stories of millions of events: a report lists a part of them, and says how many more there are.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "recovery/result/json.h"
#include "recovery/result/path.h"
#include "recovery/result/text.h"

namespace crashcut::tests {
namespace {

// What a recording of this length is told as: a few hundred times as long as what anybody reads.
result::Story long_story(std::size_t operations, std::size_t crash) {
  result::Story story;
  result::Crash& told = story.crashes.emplace_back();
  for (std::size_t i = 0; i < operations; ++i) {
    result::Operation& operation = told.operations.emplace_back();
    operation.text = "write(f, 10240 bytes at " + std::to_string(i * 10240) + ")";
    for (std::uint32_t k = 0; k < 100; ++k) {
      const auto id = static_cast<std::uint32_t>(i * 100 + k);
      operation.events.push_back({id, "data", "bytes 0-511 of f: \"x\"", false, false, i < crash});
      if (i < crash) told.persisted.push_back(id);
    }
  }
  told.calls.assign(5000, result::Call{"", {{"size of f", {"1", "0"}, 1, 1}}});
  return story;
}

TEST(Result, ALongStoryIsListedInPart) {
  constexpr std::size_t kOperations = 20'000, kCrash = 15'000;
  result::Result result;
  result.verdict = result::Verdict::kViolation;
  result.counterexample.emplace();
  result.counterexample->story = long_story(kOperations, kCrash);
  const std::string text = result::json_text(result, "crashcut");
  EXPECT_LT(text.size(), 8u << 20);
  const auto crash = nlohmann::json::parse(text)["violation"]["crashes"][0];
  ASSERT_EQ(crash["operations"].size(), result::kOperationsMost);
  EXPECT_EQ(crash["operations_left_out"], kOperations - result::kOperationsMost);
  std::set<std::size_t> numbers;
  std::size_t events = 0;
  for (const auto& operation : crash["operations"]) {
    numbers.insert(operation["number"].get<std::size_t>());
    events += operation["events"].size();
    EXPECT_EQ(operation["events"].size() + operation["events_left_out"].get<std::size_t>(), 100u);
    EXPECT_EQ(operation["persisted"], operation["number"] < kCrash ? "yes" : "no");
  }
  EXPECT_EQ(numbers.size(), result::kOperationsMost);
  EXPECT_TRUE(numbers.contains(0) && numbers.contains(kCrash - 1) && numbers.contains(kCrash));
  EXPECT_LE(events, result::kEventsMost);
  EXPECT_EQ(crash["calls"].size() + crash["calls_left_out"].get<std::size_t>(), 5000u);
  EXPECT_EQ(crash["persisted"].size(), result::kPersistedMost);
  EXPECT_EQ(crash["persisted_count"], kCrash * 100);
  const std::string told = result::story_text(result.counterexample->story, result::Detail::kAll);
  EXPECT_LT(told.size(), 1u << 20);
  EXPECT_NE(told.find("write(f, 10240 bytes at " + std::to_string(kCrash * 10240)), std::string::npos);
  EXPECT_LT(result::story_text(result.counterexample->story, result::Detail::kShort).size(), 64u << 10);
}

// A short one is listed whole, wherever the power went.
TEST(Result, OperationsThatAreShownAreThoseAroundTheCrash) {
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, result::kOperationsMost, result::kOperationsMost + 1}) {
    for (const std::size_t crash : {std::size_t{0}, count / 2, count}) {
      const result::Story story = long_story(count, crash);
      const std::vector<std::size_t> shown = result::shown_operations(story.crashes[0].operations);
      EXPECT_EQ(shown.size(), std::min(count, result::kOperationsMost));
      EXPECT_TRUE(std::is_sorted(shown.begin(), shown.end()));
      EXPECT_EQ(std::adjacent_find(shown.begin(), shown.end()), shown.end());
      EXPECT_TRUE(shown.empty() || shown.back() < count);
    }
  }
}

TEST(Result, AStoryBetweenProcessesKeepsTheFatesOfWhatIsNotTold) {
  result::Story story = long_story(3, 2);
  for (result::Operation& operation : story.crashes[0].operations) operation.events.resize(2);
  story.crashes[0].operations[0].left_out = {98, 98, 0, 0};
  story.crashes[0].operations[1].left_out = {98, 50, 0, 0};
  story.crashes[0].operations[2].left_out = {98, 0, 0, 0};
  story.crashes[0].calls_left_out = 7;
  story.crashes[0].persisted = {0, 3, 4, 5, 9, 11, 12};
  const result::Story again = result::story_from_json(result::to_json(story));
  ASSERT_EQ(again.crashes[0].operations.size(), 3u);
  EXPECT_EQ(again.crashes[0].operations[0].fate(), result::Fate::kPersisted);
  EXPECT_EQ(again.crashes[0].operations[1].fate(), result::Fate::kPartly);
  EXPECT_EQ(again.crashes[0].operations[2].fate(), result::Fate::kLost);
  EXPECT_EQ(again.crashes[0].calls_left_out, 7u);
  EXPECT_EQ(again.crashes[0].persisted, story.crashes[0].persisted);
}

// A report has a part of what may be millions, and says how many more there are.
TEST(Story, LongPathsAndManyCandidatesAreCut) {
  EXPECT_EQ(result::shown_candidates(3, 2), (std::vector<std::uint32_t>{0, 1, 2}));
  const std::vector<std::uint32_t> shown = result::shown_candidates(1000, 700);
  ASSERT_EQ(shown.size(), 100u);
  EXPECT_EQ(shown[98], 98u);
  EXPECT_EQ(shown[99], 700u);
  result::Result found;
  found.verdict = result::Verdict::kViolation;
  found.counterexample.emplace();
  const auto told = [&](const std::vector<std::uint32_t>& path) {
    found.counterexample->path = result::path_text(path);
    return nlohmann::json::parse(result::json_text(found, "crashcut"))["violation"];
  };
  EXPECT_EQ(told({1, 2, 3})["path"], "1.2.3");
  EXPECT_EQ(told({1, 2, 3})["path_left_out"], 0);
  const nlohmann::json long_one = told(std::vector<std::uint32_t>(100'000, 12));
  const std::string path = long_one["path"];
  EXPECT_LE(path.size(), 65536u);
  EXPECT_TRUE(path.ends_with(".12"));
  EXPECT_EQ((path.size() + 1) / 3 + long_one["path_left_out"].get<std::size_t>(), 100'000u);
}

}  // namespace
}  // namespace crashcut::tests
