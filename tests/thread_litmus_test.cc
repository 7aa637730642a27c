// PerSeVerE's concurrent litmus, run by the command as a user would run it.
//
// Verifies, for every program of workloads/litmus/threads/: the exact set of outcomes or their number, the exact
//   numbers of executions and recoveries and that they are not more than the paper counts, the verdict. The comment
//   that opens a program is the claim; threads.h beside it says how it is written.
#include <algorithm>
#include <filesystem>

#include "tests/thread_files.h"

namespace crashcut {
namespace {

struct Claim {
  std::string name;
  std::map<std::string, std::string> says;
};

std::vector<Claim> claims() {
  std::vector<Claim> all;
  for (const auto& entry : std::filesystem::directory_iterator(CRASHCUT_LITMUS_SOURCES)) {
    if (entry.path().extension() != ".c") continue;
    Claim claim{entry.path().stem().string(), {}};
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line) && line.find("*/") == std::string::npos;) {
      const auto colon = line.find(": ");
      if (line.starts_with(" * ") && colon != std::string::npos && line.find(' ', 3) > colon)
        claim.says[line.substr(3, colon - 3)] = line.substr(colon + 2);
    }
    all.push_back(std::move(claim));
  }
  std::sort(all.begin(), all.end(), [](const Claim& x, const Claim& y) { return x.name < y.name; });
  return all;
}

std::set<std::string> split(std::string text) {
  std::set<std::string> parts;
  for (std::size_t at; (at = text.find(" | ")) != std::string::npos; text.erase(0, at + 3))
    parts.insert(text.substr(0, at));
  parts.insert(text);
  return parts;
}

class ThreadLitmus : public ::testing::TestWithParam<Claim> {};

TEST_P(ThreadLitmus, ShowsWhatItClaims) {
  const Claim& claim = GetParam();
  const auto says = [&](const char* key) { return claim.says.contains(key) ? claim.says.at(key) : std::string(); };
  ASSERT_FALSE(says("threads").empty() || says("executions").empty() || says("recoveries").empty() ||
               says("paper-count").empty())
      << "no claim";
  const int code = says("violation") == "yes" ? 1 : 0;
  const auto report = tests::run_threads("--all " + says("threads"),
                                         std::string(CRASHCUT_LITMUS_SOURCES) + "/" + claim.name + ".c", code);
  ASSERT_FALSE(report.is_null());
  EXPECT_EQ(report["verdict"], code == 1 ? "violation" : "verified");
  const auto outcomes = tests::outcomes_of(report);
  if (!says("outcomes").empty()) {
    EXPECT_EQ(outcomes, split(says("outcomes")));
  }
  if (!says("outcome-count").empty()) {
    EXPECT_EQ(outcomes.size(), std::stoul(says("outcome-count")));
  }
  EXPECT_FALSE(says("outcomes").empty() && says("outcome-count").empty()) << "no claim";
  for (const char* what : {"executions", "recoveries"}) {
    const auto count = report["counts"][what].get<std::uint64_t>();
    EXPECT_EQ(count, std::stoul(says(what))) << what;
    EXPECT_LE(count, std::stoul(says("paper-count"))) << what;
  }
}

INSTANTIATE_TEST_SUITE_P(Paper, ThreadLitmus, ::testing::ValuesIn(claims()), [](const auto& info) {
  std::string name = info.param.name;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

// What a call on files does depends on its place, also where it sleeps: no class is lost when a search is stopped.
TEST(ThreadLitmus, AResumedSearchLosesNoClass) {
  auto report = tests::run_threads("--jobs 1 --profile paper --sector 1 --block 4 --max-executions 37",
                                   std::string(CRASHCUT_LITMUS_SOURCES) + "/pord-rd-wr+wr-N-cont.c", 3);
  for (int part = 0; part < 20 && !report.is_null() && report["resume"].is_string(); ++part) {
    const std::string command = report["resume"];
    report = tests::run_threads("--resume " + command.substr(command.rfind(' ') + 1), "", -1);
  }
  ASSERT_FALSE(report.is_null());
  EXPECT_EQ(report["verdict"], "verified");
  EXPECT_EQ(report["counts"]["executions"], 324);
}

TEST(ThreadLitmus, AreAllThere) { EXPECT_EQ(claims().size(), 8u); }

}  // namespace
}  // namespace crashcut
