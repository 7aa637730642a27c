// Pages as documents: what a browser is given. tests/page/browser_test.py looks at them in one.
#include "recovery/result/page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "recovery/result/json.h"
#include "tests/page/made_up_results.h"

namespace crashcut::tests {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kDataBegin = "<script type=\"application/json\" id=\"data\">", kDataEnd = "</script>";

const auto no_source = [](const std::string&) { return std::string(); };

// The text between the tags, as an HTML parser ends it.
std::string data_of(const std::string& page) {
  const std::size_t begin = page.find(kDataBegin) + kDataBegin.size();
  return page.substr(begin, page.find(kDataEnd, begin) - begin);
}

std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Page, HasTheResultAsJson) {
  const result::Result result = made_up_result(12, 8);
  const std::string page = page_text(result, "crashcut", no_source);
  const Json data = Json::parse(data_of(page));
  ASSERT_EQ(data.size(), 1u);
  Json expected = result::page_json(result, "crashcut");
  expected.at("violation")["steps_left_out"] = 0;
  expected.at("violation")["steps_first"] = 1000;
  expected["separator"] = false;
  expected["sources"] = Json::object();
  expected.erase("seconds");
  EXPECT_EQ(data[0], expected);
  EXPECT_EQ(data[0].at("outcomes_cut"), false);
  EXPECT_EQ(count_of(page, "@DATA@") + count_of(page, "@STYLE@") + count_of(page, "@SCRIPT@"), 0u);
}

TEST(Page, NoTextEndsTheElementThatHoldsIt) {
  const std::string plain = page_text(made_up_result(12, 8), "crashcut", no_source);
  for (const std::string& text : hostile_texts()) {
    const std::string page = page_text(hostile_result(text), "crashcut", no_source);
    for (const char* tag : {"<script", "</script", "<!--", "<style", "</style", "<img"})
      EXPECT_EQ(count_of(page, tag), count_of(plain, tag)) << tag;
    const std::string data = data_of(page);
    for (const char c : data) {
      const bool is_harmless = c >= ' ' && c <= '~' && c != '<' && c != '>' && c != '&';
      ASSERT_TRUE(is_harmless) << static_cast<int>(c);
    }
    // It is all there, but for bytes that are no UTF-8.
    const std::string sentence = Json::parse(data)[0].at("violation").at("sentence");
    EXPECT_EQ(sentence, Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)));
  }
}

TEST(Page, AsksForNothingElse) {
  const std::string page = page_text(made_up_result(12, 8), "crashcut", no_source);
  for (const char* word : {"http://", "https://", "src=", "@import", "url(", "fetch(", "XMLHttpRequest", "innerHTML",
                           "outerHTML", "insertAdjacentHTML", "document.write", "eval("})
    EXPECT_EQ(count_of(page, word), 0u) << word;
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos);
}

TEST(Page, IsBounded) {
  EXPECT_LT(page_text(made_up_result(10'000, 1000), "crashcut", no_source).size(), result::kPageBytesMost);
  EXPECT_LT(page_text(made_up_machines(10'000, 1000), "crashcut", no_source).size(), result::kPageBytesMost);
  result::Result long_texts = made_up_result(10'000, 1000);
  for (result::Operation& operation : long_texts.counterexample->story.crashes[0].operations)
    operation.text.assign(2000, 'x');
  EXPECT_LE(page_text(long_texts, "crashcut", no_source).size(), result::kPageBytesMost);
  result::Result long_schedule = made_up_result(12, 8);
  long_schedule.counterexample->story.schedule.resize(20'000, {"main", "lock mutex a", {{"work", "", 0}}});
  const std::string page = page_text(long_schedule, "crashcut", no_source);
  EXPECT_LE(page.size(), result::kPageBytesMost);
  const Json violation = Json::parse(data_of(page))[0].at("violation");
  EXPECT_EQ(violation.at("steps").size(), 5000u);
  EXPECT_EQ(violation.at("steps_left_out"), 15'000);
}

// Numbers are never cut: where there is no room for executions of machines, there are none.
TEST(Page, ExecutionsOfMachinesAreThereOrNot) {
  result::Result result = made_up_machines(24, 8);
  const auto facts_of = [&] { return Json::parse(data_of(page_text(result, "crashcut", no_source)))[0].at("facts"); };
  EXPECT_EQ(facts_of().at("machine_runs").size(), 8u);
  EXPECT_EQ(facts_of().at("machine_runs")[4].at("steps").get<std::string>().substr(0, 8), "24 13 15");
  result.notes.assign(200, std::string(100'000, 'x'));
  EXPECT_FALSE(facts_of().contains("machine_runs"));
}

// What is cut is cut between characters.
TEST(Page, CutsWholeCharacters) {
  result::Result result = made_up_result(12, 8);
  std::string text;
  while (text.size() < 100'000) text += "\xe2\x82\xac";
  result.counterexample->story.output = text;
  const std::string shown =
      Json::parse(data_of(page_text(result, "crashcut", no_source)))[0].at("violation").at("stdout");
  EXPECT_LT(shown.size(), text.size());
  EXPECT_EQ(shown.find("\xef\xbf\xbd"), std::string::npos);
  EXPECT_TRUE(shown.ends_with("\xe2\x80\xa6"));
}

TEST(Page, OfSeveralModelsHasAllOfThem) {
  const std::vector<result::Result> rows(3, made_up_result(12, 8));
  EXPECT_EQ(Json::parse(data_of(page_text(rows, "crashcut", no_source))).size(), 3u);
}

}  // namespace
}  // namespace crashcut::tests
