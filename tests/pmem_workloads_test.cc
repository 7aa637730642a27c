// The programs of workloads/pmem/: the right ones are verified, every seeded mistake is found.
#include <algorithm>
#include <cctype>
#include <climits>
#include <nlohmann/json.hpp>

#include "tests/cli_fixture.h"

namespace crashcut {
namespace {

struct Mistake {
  const char* name;
  const char* missing = "";  // a flush or fence after the source line that has this text; empty: none helps
  const char* kind = "flush and fence";
};
struct Workload {
  const char* name;
  int recoveries;        // with 4 keys: as many as distinct reads
  int jaaru_executions;  // of a structure of the same kind with 4 keys (figure 14 of the paper); 0: there is none
  int thousand;          // recoveries with 1,000 keys
  std::vector<Mistake> mistakes;
};

const Workload kWorkloads[] = {
    {"list",
     5,
     0,
     1001,
     {{"CONSTRUCTOR", "node->next = next;"},
      {"POINTER", "list->head = node;", "flush"},
      {"ORDER"},
      {"FENCE", "flush(node, sizeof *node);", "fence"}}},
    {"append_log", 5, 0, 1001, {{"RECORD", "record->text[i] = key;"}, {"ORDER"}, {"COUNTERS"}, {"STRADDLE"}}},
    {"checksum_log",
     289,
     0,
     72001,
     {{"COVERS", "record->text[i] = key;"},
      {"FLUSH", "record->text[i] = key;", "flush"},
      {"FENCE", "flush(record, sizeof *record);", "fence"}}},
    {"undo_log",
     17,
     0,
     4001,
     {{"LOG", "entry->old = *word;"}, {"ADD"}, {"COMMIT", "*in = *in + amount;"}, {"RECOVERY"}}},
    {"allocator",
     9,
     0,
     2001,
     {{"CONSTRUCTOR", "block->value = value_of(block->key);"}, {"ORDER", "*word = is_used", "flush"}, {"VOLATILE"}}},
    {"lock_free_hash",
     9,
     25,
     2001,
     {{"CONSTRUCTOR", "node->next = __atomic_load_n", "flush"},
      {"HEAD", "__atomic_compare_exchange_n(head", "flush"},
      {"WRONG_LINE", "__atomic_compare_exchange_n(head", "flush"},
      {"LOCK"}}},
    {"radix_tree",
     9,
     174,
     2043,
     {{"CONSTRUCTOR", "node->used = 1;"},
      {"GROW", "large->places[small->digits[i]] ="},
      {"PLACE", "node->places[at] = pointer;", "flush"},
      {"POINTER", "*link = (uint64_t)large;", "flush"}}},
    {"extendible_hash",
     10,
     891,
     3285,
     {{"CONSTRUCTOR", "segment->depth = depth;", "flush"},
      {"DIRECTORY", "table->directory = directory;", "flush"},
      {"SLOT"},
      {"SPLIT", "slot->key = key;"}}},
    {"btree",
     16,
     170,
     6178,
     {{"CONSTRUCTOR", "node->leftmost = leftmost;"},
      {"ROOT", "tree->root = root;", "flush"},
      {"SHIFT", "node->entries[at].key = node->entries[at - 1].key;"},
      {"SPLIT"}}},
};

class PmemWorkloadsTest : public CliTest, public testing::WithParamInterface<Workload> {
 protected:
  // Compiled; `mistake` may be empty.
  void build(const std::string& name, const std::string& mistake, const std::string& way = "-O2") {
    std::vector<std::string> words = {"cc", "--pmem", "-g", "-Wall", "-Wextra", "-Werror"};
    std::istringstream more(way);
    for (std::string word; more >> word;) words.push_back(word);
    if (!mistake.empty()) words.push_back("-DMISTAKE_" + mistake);
    const std::string source = std::string(CRASHCUT_SOURCE_DIR) + "/workloads/pmem/" + name + ".c";
    const Ran built = crashcut(with(words, {source, "-o", (directory_ / "program").string()}));
    ASSERT_EQ(built.exit_code, 0) << name << " " << mistake << built.err;
  }
  Ran check(const std::string& keys, const std::string& depth = "1") {
    return crashcut({"pmem", "--depth", depth, "--recovery-limit", "1", "--json", "report.json",
                     (directory_ / "program").string(), keys});
  }
  // "list.c:12" for each line of the program's source that has the text.
  static std::vector<std::string> lines_with(const std::string& name, const std::string& text) {
    std::istringstream lines(read_file(std::string(CRASHCUT_SOURCE_DIR) + "/workloads/pmem/" + name + ".c"));
    std::vector<std::string> found;
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      if (line.find(text) != std::string::npos) found.push_back(name + ".c:" + std::to_string(number));
    }
    return found;
  }
  // The report names what is missing where the mistake was made, and no recovery fails with it.
  void expect_missing(const std::string& name, const Mistake& mistake) {
    const auto report = nlohmann::json::parse(read_file(directory_ / "report.json"));
    const auto& violation = report.at("violation");
    const auto& mends = violation.at("mends");
    const bool has_flush = *mistake.missing != 0;
    EXPECT_EQ(violation.at("no_mend").is_null(), has_flush) << violation.at("no_mend");
    ASSERT_EQ(mends.size(), has_flush ? 1 : 0) << mends;
    if (!has_flush) return;
    const auto& missing = mends.at(0);
    EXPECT_EQ(missing.at("kind"), mistake.kind) << missing;
    EXPECT_EQ(missing.at("verified"), true) << missing;
    const std::string after = missing.at("place").get<std::string>() + " ";
    const auto lines = lines_with(name, mistake.missing);
    EXPECT_TRUE(std::any_of(lines.begin(), lines.end(),
                            [&](const std::string& line) {
                              const std::size_t at = after.find(line);
                              return at != std::string::npos && std::isdigit(after[at + line.size()]) == 0;
                            }))
        << mistake.missing << ": " << missing;
  }
};

TEST_P(PmemWorkloadsTest, RightIsVerified) {
  const Workload& workload = GetParam();
  for (const char* way : {"--late -O2", "-O2"}) {
    build(workload.name, "", way);
    const Ran run = check("4");
    EXPECT_EQ(run.exit_code, 0) << way << run.out << run.err;
    EXPECT_TRUE(run.says("all " + std::to_string(workload.recoveries) + " recoveries, none failed"))
        << way << run.last_line();
  }
  EXPECT_LE(workload.recoveries, workload.jaaru_executions == 0 ? INT_MAX : workload.jaaru_executions);
  EXPECT_EQ(check("12").exit_code, 0);
  EXPECT_EQ(check("3", "2").exit_code, 0) << "a crash in recovery";
  EXPECT_EQ(std::system(((directory_ / "program").string() + " 1000").c_str()), 0) << "without crashcut";
}

// The list in every run; CRASHCUT_LONG=1: all of them, some minutes.
TEST_P(PmemWorkloadsTest, AThousandKeysAreVerified) {
  const Workload& workload = GetParam();
  if (std::string(workload.name) != "list" && std::getenv("CRASHCUT_LONG") == nullptr)
    GTEST_SKIP() << "CRASHCUT_LONG=1";
  build(workload.name, "");
  const Ran run = crashcut({"pmem", "--recovery-limit", "60", (directory_ / "program").string(), "1000"});
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_TRUE(run.says("all " + std::to_string(workload.thousand) + " recoveries, none failed")) << run.last_line();
}

// 12 keys: nodes of trees shift across a line, grow and split, and segments of the hash split. A mistake in recovery
// needs a second crash.
TEST_P(PmemWorkloadsTest, EveryMistakeIsFound) {
  const Workload& workload = GetParam();
  for (const Mistake& mistake : workload.mistakes) {
    const std::string name = mistake.name;
    SCOPED_TRACE(name);
    build(workload.name, name);
    const Ran run = check("12", name == "RECOVERY" ? "2" : "1");
    EXPECT_EQ(run.exit_code, 1) << run.last_line() << run.err;
    EXPECT_EQ(run.says("recovery never ends"), name == "LOCK");
    if (run.exit_code == 1) expect_missing(workload.name, mistake);
  }
}

INSTANTIATE_TEST_SUITE_P(All, PmemWorkloadsTest, testing::ValuesIn(kWorkloads),
                         [](const auto& workload) { return std::string(workload.param.name); });

}  // namespace
}  // namespace crashcut
