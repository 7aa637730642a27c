// Broken threaded programs and the lock that mends them: tests/lock_mend/ has a program a file, and the mend in its
// first lines.
//
// Verifies: the report has the mend that is known; the program with the mend in its source is verified; where no lock
//   helps, none is printed.
#include "tests/cli_fixture.h"

namespace crashcut {
namespace {

fs::path programs() { return fs::path(CRASHCUT_SOURCE_DIR) / "tests/lock_mend"; }

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

class LockMendTest : public CliTest, public testing::WithParamInterface<std::string> {
 protected:
  Ran judge(const std::string& text) {
    fs::remove_all(directory_ / "crashcut.out");
    std::ofstream(directory_ / GetParam()) << text;
    return crashcut({"threads", "--time", "60", "--json", "report.json", GetParam()});
  }
  nlohmann::json mends() {
    return nlohmann::json::parse(read_file(directory_ / "report.json")).at("violation").at("mends");
  }
};

TEST_P(LockMendTest, TheReportHasTheLockThatIsKnown) {
  const std::string text = read_file(programs() / GetParam());
  const std::string mend = known_mend(text);
  const Ran broken = judge(text);
  ASSERT_EQ(broken.exit_code, 1) << broken.out << broken.err;
  if (mend.empty()) {
    EXPECT_EQ(mends(), nlohmann::json::array()) << broken.out;
    EXPECT_FALSE(broken.says("mend: ")) << broken.out;
    return;
  }
  const auto all = mends();
  ASSERT_GE(all.size(), 1) << broken.out;
  ASSERT_LE(all.size(), 3) << broken.out;
  const std::string first = all.at(0).at("text");
  EXPECT_TRUE(first.starts_with(mend)) << first;
  EXPECT_TRUE(broken.says("\n  mend: " + first.substr(0, 40))) << broken.out;
  for (const auto& one : all) {
    EXPECT_EQ(one.at("verified"), true) << one;
    EXPECT_GT(one.at("executions"), 0) << one;
  }
  const Ran right = judge(mended(text));
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_TRUE(right.says("verified")) << right.out;
  // What was tried is what the source does now.
  EXPECT_EQ(nlohmann::json::parse(read_file(directory_ / "report.json")).at("counts").at("executions"),
            all.at(0).at("executions"));
}

INSTANTIATE_TEST_SUITE_P(Programs, LockMendTest, testing::ValuesIn(broken_programs()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace crashcut
