// The litmus corpus, run by the command as a user would run it.
//
// Verifies, for every `run:` line of workloads/litmus/*.c: the exact set of outcomes, the exact number of recoveries
//   (of the paper's tests never more than the paper counts), the verdict and the exit code.
// Does not verify: what a violation's report says, but for the names of files that share a block.
// The comment that opens a program is the claim; workloads/litmus/litmus.h says how it is written.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace crashcut {
namespace {

namespace fs = boost::filesystem;

// ---- claims ---------------------------------------------------------------------------------------------------------

struct Claim {
  std::string program;
  std::string run;  // a line as written: options, and arguments after " -- "
  std::set<std::string> outcomes;
  int recoveries = -1;
  std::optional<int> paper_count;
  bool violation = false;
  std::string mistake;  // why the comment is not a claim
};

std::string trim(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::vector<std::string> split(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(separator, begin)) != std::string::npos; begin = end + separator.size()) {
    parts.push_back(text.substr(begin, end - begin));
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// "a{b,c}d" is abd and acd, as in a shell; not nested.
std::vector<std::string> expand_braces(const std::string& text) {
  const auto open = text.find('{');
  const auto close = text.find('}', open);
  if (open == std::string::npos || close == std::string::npos) return {text};
  std::vector<std::string> all;
  for (const std::string& part : split(text.substr(open + 1, close - open - 1), ",")) {
    for (std::string& whole : expand_braces(text.substr(0, open) + part + text.substr(close + 1))) {
      all.push_back(std::move(whole));
    }
  }
  return all;
}

// The lines of the comment that opens a file, without its stars.
std::vector<std::string> first_comment(const fs::path& file) {
  std::ifstream in(file.string());
  std::stringstream text;
  text << in.rdbuf();
  const std::string source = text.str();
  const auto end = source.find("*/");
  if (!source.starts_with("/*") || end == std::string::npos) return {};
  std::vector<std::string> lines = split(source.substr(2, end - 2), "\n");
  for (std::string& line : lines) {
    line = trim(line);
    if (line.starts_with('*')) line = trim(line.substr(1));
  }
  return lines;
}

// One group: run lines, and what holds for each of them.
struct Group {
  std::vector<std::string> runs;
  std::map<std::string, std::string> says;
};

std::vector<Group> read_groups(const std::vector<std::string>& lines, std::string& mistake) {
  static const std::set<std::string> kKeys = {"run", "outcomes", "recoveries", "paper-count", "violation"};
  std::vector<Group> groups;
  std::string key;
  for (const std::string& line : lines) {
    const auto colon = line.find(": ");
    const std::string word = colon == std::string::npos ? "" : line.substr(0, colon);
    const std::string rest = colon == std::string::npos ? "" : trim(line.substr(colon + 2));
    if (word == "run") {
      if (key != "run") groups.emplace_back();
      groups.back().runs.push_back(rest);
      key = word;
    } else if (!groups.empty() && kKeys.contains(word)) {
      if (!groups.back().says.emplace(word, rest).second) mistake = "twice in one group: " + word;
      key = word;
    } else if (key == "outcomes" && !line.empty()) {
      groups.back().says[key] += " " + line;  // goes on
    } else if (!groups.empty() && !line.empty()) {
      mistake = "not understood: " + line;
    }
  }
  return groups;
}

void fill_in(Claim& claim, const std::map<std::string, std::string>& says) {
  const auto text_of = [&](const std::string& key) { return says.contains(key) ? says.at(key) : ""; };
  for (const std::string& outcome : split(text_of("outcomes"), " | ")) {
    for (const std::string& expanded : expand_braces(trim(outcome))) claim.outcomes.insert(expanded);
  }
  if (text_of("outcomes").empty()) claim.mistake = "no outcomes";
  if (text_of("recoveries").empty()) claim.mistake = "no recoveries";
  claim.recoveries = std::atoi(text_of("recoveries").c_str());
  if (says.contains("paper-count")) claim.paper_count = std::atoi(text_of("paper-count").c_str());
  claim.violation = text_of("violation") == "yes";
  if (says.contains("violation") && !claim.violation) claim.mistake = "violation: can only be yes";
}

std::vector<fs::path> programs() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(CRASHCUT_LITMUS_SOURCES)) {
    if (entry.path().extension() == ".c") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Claim> read_claims() {
  std::vector<Claim> claims;
  for (const fs::path& file : programs()) {
    const std::string name = file.stem().string();
    std::string mistake;
    const std::vector<Group> groups = read_groups(first_comment(file), mistake);
    if (groups.empty()) claims.push_back({.program = name, .mistake = "no run: line in the first comment"});
    for (const Group& group : groups) {
      for (const std::string& run : group.runs) {
        claims.push_back({.program = name, .run = run, .mistake = mistake});
        fill_in(claims.back(), group.says);
      }
    }
  }
  return claims;
}

const std::vector<Claim>& claims() {
  static const std::vector<Claim> all = read_claims();
  return all;
}

// ---- runs -----------------------------------------------------------------------------------------------------------

struct Finding {
  std::set<std::string> outcomes;
  int recoveries = 0;
  std::string verdict;
  int exit_code = -1;
};

// `run` is a line without braces. Options and arguments of the corpus need no quoting; a litmus is too small for jobs.
std::string command_of(const std::string& program, const std::string& run) {
  const auto dashes = run.find(" -- ");
  const std::string options = run.substr(0, dashes);
  const std::string arguments = dashes == std::string::npos ? "" : run.substr(dashes + 3);
  return CRASHCUT_COMMAND " run " + options + " --jobs 1 --outcomes --json - " CRASHCUT_LITMUS_PROGRAMS "/" + program +
         arguments;
}

// A command that is running; result() waits for it.
class Running {
 public:
  explicit Running(const std::string& command) : pipe_(popen(("exec " + command + " 2>/dev/null").c_str(), "r")) {}
  ~Running() {
    if (pipe_) pclose(pipe_);
  }
  Running(Running&& other) noexcept : pipe_(std::exchange(other.pipe_, nullptr)) {}

  // Empty where the command did not come to a result.
  std::optional<Finding> result() {
    if (!pipe_) return std::nullopt;
    std::string text;
    char buffer[4096];
    for (std::size_t count; (count = std::fread(buffer, 1, sizeof buffer, pipe_)) > 0;) text.append(buffer, count);
    const int status = pclose(std::exchange(pipe_, nullptr));
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (json.is_discarded()) return std::nullopt;
    Finding finding;
    for (const auto& outcome : json.at("outcomes")) finding.outcomes.insert(trim(outcome.at("output")));
    finding.recoveries = json.at("counts").at("recoveries");
    finding.verdict = json.at("verdict");
    finding.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return finding;
  }

 private:
  std::FILE* pipe_;
};

class Litmus : public testing::TestWithParam<Claim> {};

TEST_P(Litmus, ShowsWhatItClaims) {
  const Claim& claim = GetParam();
  ASSERT_EQ(claim.mistake, "") << claim.program << ".c";
  std::vector<std::string> commands;
  std::vector<Running> running;  // side by side: the corpus has ten seconds
  for (const std::string& run : expand_braces(claim.run)) {
    commands.push_back(command_of(claim.program, run));
    running.emplace_back(commands.back());
  }
  for (std::size_t i = 0; i < commands.size(); ++i) {
    SCOPED_TRACE(commands[i]);
    const std::optional<Finding> found = running[i].result();
    ASSERT_TRUE(found) << "no result";
    EXPECT_EQ(found->outcomes, claim.outcomes);
    EXPECT_EQ(found->recoveries, claim.recoveries);
    EXPECT_LE(found->recoveries, claim.paper_count.value_or(found->recoveries));
    EXPECT_EQ(found->verdict, claim.violation ? "violation" : "verified");
    EXPECT_EQ(found->exit_code, claim.violation ? 1 : 0);
  }
}

std::string test_name(const testing::TestParamInfo<Claim>& info) {
  std::string name = info.param.program + "_" + info.param.run;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  name.erase(std::unique(name.begin(), name.end(), [](char a, char b) { return a == '_' && b == '_'; }), name.end());
  return name;
}

void PrintTo(const Claim& claim, std::ostream* out) { *out << claim.program << " " << claim.run; }

INSTANTIATE_TEST_SUITE_P(Corpus, Litmus, testing::ValuesIn(claims()), test_name);

// ---- stories --------------------------------------------------------------------------------------------------------

std::string output_of(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  std::string text;
  char buffer[4096];
  for (std::size_t count; pipe && (count = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) text.append(buffer, count);
  if (pipe) pclose(pipe);
  return text;
}

TEST(LitmusStories, NameTheFilesThatShareABlock) {
  const std::string reused = output_of(command_of("reuse-unlinked-wrong", "--data writeback --sector 4 --block 4"));
  EXPECT_NE(reused.find("data later written to b, which reuses the freed block"), std::string::npos) << reused;
  const std::string stale = output_of(command_of("reuse-stale", "--data writeback -o nodelalloc --sector 4 --block 4"));
  EXPECT_NE(stale.find("data left behind by secret, whose freed block is reused"), std::string::npos) << stale;
}

// ---- the corpus -----------------------------------------------------------------------------------------------------

TEST(LitmusCorpus, EveryProgramIsBuilt) {
  for (const fs::path& file : programs()) {
    EXPECT_TRUE(fs::exists(fs::path(CRASHCUT_LITMUS_PROGRAMS) / file.stem()))
        << file << " is not in its CMakeLists.txt";
  }
}

TEST(LitmusCorpus, HoldsThePapersTests) {
  // shared/litmus.md, the sequential ones.
  for (const char* name :
       {"pjnl-app-mfl", "pjnl-crowr-ord", "pjnl-owr-at", "pord-MP+fsync", "pord-MP+osync", "pord-app-N", "pord-app-mbl",
        "pord-app-sfl", "pord-crapp-ooo", "pord-owr-N", "pord-owr-sbl", "pord-owrapp-ord", "pord-owrapp-ord2",
        "pord-rnm-at2", "pord-rnmtrapp-ord", "pord-trapp-dfl-ord", "nano-backup-old", "nano-backup-fix"}) {
    EXPECT_TRUE(std::any_of(claims().begin(), claims().end(), [&](const Claim& claim) {
      return claim.program == name && claim.paper_count && claim.run.find("paper") != std::string::npos;
    })) << name;
  }
}

// Every program of ours says what holds under both profiles and all three modes. (Those of the paper are about its own
// model; what a kernel was seen to do is about ext4.)
TEST(LitmusCorpus, OurProgramsCoverBothProfilesAndAllModes) {
  std::map<std::string, std::set<std::string>> combinations;
  std::set<std::string> others;
  for (const Claim& claim : claims()) {
    if (claim.paper_count || claim.program.starts_with("kernel-")) others.insert(claim.program);
    for (const std::string& run : expand_braces(claim.run)) {
      for (const char* profile : {"paper", "ext4"}) {
        for (const char* mode : {"ordered", "journal", "writeback"}) {
          const bool names_both = run.find(std::string("--profile ") + profile) != std::string::npos &&
                                  run.find(std::string("--data ") + mode) != std::string::npos;
          if (names_both) combinations[claim.program].insert(std::string(profile) + " " + mode);
        }
      }
    }
  }
  std::size_t ours = 0;
  for (const auto& [program, seen] : combinations) {
    if (others.contains(program)) continue;
    EXPECT_EQ(seen.size(), 6u) << program;
    ++ours;
  }
  EXPECT_GE(ours, 60u);
}

// A corpus that lost its wrong twins would pass with a tool that finds nothing.
TEST(LitmusCorpus, CoversProfilesModesAndVerdicts) {
  std::map<std::string, int> seen;
  for (const Claim& claim : claims()) {
    for (const std::string& run : expand_braces(claim.run)) {
      for (const char* word : {"paper", "ext4", "ordered", "journal", "writeback"}) {
        seen[word] += run.find(word) != std::string::npos;
      }
      ++seen[claim.violation ? "violation" : "verified"];
    }
  }
  for (const char* word : {"paper", "ext4", "ordered", "journal", "writeback", "violation", "verified"}) {
    EXPECT_GE(seen[word], 100) << word;
  }
}

}  // namespace
}  // namespace crashcut
