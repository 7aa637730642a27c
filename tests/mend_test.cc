// Broken programs and what mends them: tests/mend/ has a program a file, and the mend in its first lines.
//
// Verifies: for 30 programs and more the report ends with the mend that is known; the program with the mend in its
//   source is verified; where no sync helps, none is printed.
#include "tests/check_fixture.h"

namespace crashcut {
namespace {

fs::path programs() { return fs::path(CRASHCUT_SOURCE_DIR) / "tests/mend"; }

std::vector<std::string> broken_programs() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(programs())) {
    if (entry.path().extension() != ".h") names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// The rest of the line "# WORD: ...", or "// WORD: ...".
std::string told(const std::string& text, const std::string& word) {
  const std::size_t at = text.find(" " + word + ": ");
  if (at == std::string::npos) return "";
  const std::size_t begin = at + word.size() + 3;
  return text.substr(begin, text.find('\n', begin) - begin);
}

// Lines of the report that were wrapped are one.
std::string unwrapped(std::string text) {
  const std::string indent = "\n        ";
  for (std::size_t at = text.find("\n  mend: "); at != std::string::npos && at < text.size();) {
    at = text.find('\n', at + 1);
    if (at == std::string::npos || text.compare(at, indent.size(), indent) != 0) break;
    text.replace(at, indent.size(), " ");
  }
  return text;
}

// The program with the mend in it.
std::string mended(std::string text) {
  for (const std::string comment : {"# mended: ", "// mended: "}) {
    for (std::size_t at = text.find(comment); at != std::string::npos; at = text.find(comment))
      text.erase(at, comment.size());
  }
  return text;
}

class MendTest : public CheckTest, public testing::WithParamInterface<std::string> {
 protected:
  Ran judge(const std::string& text) {
    fs::remove_all(directory_ / "results");
    fs::remove(directory_ / "report.json");
    const bool is_script = fs::path(GetParam()).extension() == ".sh";
    const std::string name = is_script ? "program.sh" : "program.c";
    std::ofstream(directory_ / name) << text;
    fs::copy_file(programs() / "mend.h", directory_ / "mend.h", fs::copy_options::overwrite_existing);
    if (!is_script) return crashcut({"run", "--json", "report.json", name});
    const std::string setup = told(text, "setup");
    return run({"sh", "-c",
                "crashcut check --out results --json report.json " + told(text, "check") +
                    (setup.empty() ? "" : " --setup '" + setup + "'") + " -- sh " + (directory_ / name).string()});
  }
  Json mends() { return Json::parse(read_file(directory_ / "report.json")).at("violation").at("mends"); }
};

TEST_P(MendTest, TheReportEndsWithTheMendThatIsKnown) {
  const std::string text = read_file(programs() / GetParam());
  const std::string mend = told(text, "mend");
  const Ran broken = judge(text);
  ASSERT_EQ(broken.exit_code, 1) << broken.out << broken.err;
  if (mend.empty()) {
    EXPECT_EQ(text.find(" none\n") == std::string::npos, false) << "the program says neither";
    EXPECT_EQ(mends(), Json::array()) << broken.out;
    EXPECT_FALSE(broken.says("mend: ")) << broken.out;
    EXPECT_TRUE(broken.says("\n  No sync ")) << broken.out;
    return;
  }
  const Json all = mends();
  ASSERT_GE(all.size(), 1) << broken.out;
  ASSERT_LE(all.size(), 3) << broken.out;
  const std::string first = all.at(0).at("text");
  EXPECT_TRUE(first.starts_with(mend)) << first;
  EXPECT_TRUE(unwrapped(broken.out).find("\n  mend: " + first + "\n") != std::string::npos) << broken.out;
  for (const Json& one : all) {
    EXPECT_EQ(one.at("verified"), true) << one;
    EXPECT_GT(one.at("recoveries"), 0) << one;
  }
  const Ran right = judge(mended(text));
  EXPECT_EQ(right.exit_code, 0) << right.out << right.err;
  EXPECT_TRUE(right.says("verified")) << right.out;
}

INSTANTIATE_TEST_SUITE_P(Programs, MendTest, testing::ValuesIn(broken_programs()), [](const auto& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

TEST(Mends, ThereAreProgramsEnough) {
  std::size_t known = 0, none = 0;
  for (const std::string& name : broken_programs())
    (told(read_file(programs() / name), "mend").empty() ? none : known) += 1;
  EXPECT_GE(known, 30);
  EXPECT_GE(none, 5);
}

}  // namespace
}  // namespace crashcut
