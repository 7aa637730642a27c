// Broken programs of two machines and the flush or fence that mends them: tests/cxl_mend/ has a program a file, and the
// mend in its first lines.
//
// Verifies: the report has the mend that is known; the program with the mend in its source is verified; where no flush
//   helps, none is printed, and the report says so.
#include "tests/cli_fixture.h"

namespace crashcut {
namespace {

fs::path programs() { return fs::path(CRASHCUT_SOURCE_DIR) / "tests/cxl_mend"; }

std::vector<std::string> broken_programs() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(programs())) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// The rest of the line "// mend: ...".
std::string known_mend(const std::string& text) {
  const std::string word = "// mend: ";
  const std::size_t at = text.find(word);
  return at == std::string::npos ? "" : text.substr(at + word.size(), text.find('\n', at) - at - word.size());
}

// The program with the mend in it.
std::string mended(std::string text) {
  const std::string comment = "// mended: ";
  for (std::size_t at = text.find(comment); at != std::string::npos; at = text.find(comment))
    text.erase(at, comment.size());
  return text;
}

class CxlMendTest : public CliTest, public testing::WithParamInterface<std::string> {
 protected:
  Ran judge(const std::string& text, const std::vector<std::string>& options = {}) {
    std::ofstream(directory_ / GetParam()) << text;
    return crashcut(with(with({"cxl", "--machines", "2", "--json", "report.json"}, options), {GetParam()}));
  }
  nlohmann::json violation() { return nlohmann::json::parse(read_file(directory_ / "report.json")).at("violation"); }
};

TEST_P(CxlMendTest, TheReportHasTheFlushThatIsKnown) {
  const std::string text = read_file(programs() / GetParam());
  const std::string mend = known_mend(text);
  const Ran broken = judge(text);
  ASSERT_EQ(broken.exit_code, 1) << broken.out << broken.err;
  if (mend.empty()) {
    EXPECT_EQ(violation().at("mends"), nlohmann::json::array()) << broken.out;
    EXPECT_FALSE(broken.says("mend: ")) << broken.out;
    EXPECT_TRUE(broken.says("No flush or fence makes this go away") ||
                broken.says("No single flush or fence makes this go away."))
        << broken.out;
    return;
  }
  const auto mends = violation().at("mends");
  ASSERT_EQ(mends.size(), 1) << broken.out;
  const std::string said = mends.at(0).at("text");
  EXPECT_TRUE(said.starts_with(mend)) << said;
  EXPECT_TRUE(broken.says("\n  mend: " + said.substr(0, 30))) << broken.out;
  EXPECT_EQ(mends.at(0).at("verified"), true) << said;
  EXPECT_GT(mends.at(0).at("executions"), 1) << said;
  const Ran right = judge(mended(text));
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_TRUE(right.says("verified")) << right.out;
}

// With all schedules the flushes are steps, and the mend holds for all of them.
TEST_P(CxlMendTest, AllSchedulesAreSearchedAgain) {
  const std::string text = read_file(programs() / GetParam());
  const std::string mend = known_mend(text);
  const Ran broken = judge(text, {"--schedules", "all"});
  ASSERT_EQ(broken.exit_code, 1) << broken.out << broken.err;
  const auto mends = violation().at("mends");
  ASSERT_EQ(mends.empty(), mend.empty()) << broken.out;
  if (mend.empty()) return;
  const std::string said = mends.at(0).at("text");
  EXPECT_TRUE(said.starts_with(mend.substr(0, mend.find(" (verified")))) << said;
  EXPECT_EQ(said.find("under this schedule"), said.npos) << said;
  EXPECT_EQ(mends.at(0).at("verified"), true) << said;
}

INSTANTIATE_TEST_SUITE_P(Programs, CxlMendTest, testing::ValuesIn(broken_programs()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace crashcut
