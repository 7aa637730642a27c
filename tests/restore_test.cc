// Recoveries in restored images give what recoveries in forked ones give: all records, compared one by one.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "recovery/inprocess/session.h"
#include "recovery/result/path.h"

namespace crashcut::inprocess {
namespace {

namespace fs = std::filesystem;

using Row = std::tuple<std::vector<std::uint32_t>, RecordKind, std::string, std::string, std::string, int, int,
                       std::uint32_t, std::uint32_t, bool, bool>;

struct Findings {
  std::vector<Row> rows;  // sorted
  std::uint64_t recoveries = 0;
  std::uint64_t violations = 0;
  bool bounded = false;
  double explored = 0;
};

struct Program {
  std::string source;  // from the root of the project
  std::vector<std::string> arguments;
  std::uint32_t sector_bytes = 1;
};

// A directory of our own for programs; each is built once.
class Programs {
 public:
  Programs() {
    char name[] = "/tmp/crashcut-restore-XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~Programs() { fs::remove_all(directory_); }
  std::string build(const std::string& source) {
    std::string& built = built_[source];
    if (!built.empty()) return built;
    built = directory_ + "/" + std::to_string(built_.size());
    const std::string compiler = source.ends_with(".c") ? "cc" : "c++ -std=c++17";
    const std::string command = compiler + " -O1 -w -I" CRASHCUT_SOURCE_DIR "/include " CRASHCUT_SOURCE_DIR "/" +
                                source + " -o " + built + " -lm -pthread";
    EXPECT_EQ(system(command.c_str()), 0) << command;
    return built;
  }

 private:
  std::string directory_;
  std::map<std::string, std::string> built_;
};

Programs& programs() {
  static Programs all;
  return all;
}

Findings explore(const Program& program, FreshImages images, std::uint32_t jobs, std::uint64_t max_recoveries = 0) {
  Session::Setup setup;
  setup.program = programs().build(program.source);
  setup.arguments = program.arguments;
  setup.runtime = CRASHCUT_RUNTIME;
  setup.model.sector_bytes = setup.model.block_bytes = program.sector_bytes;
  if (program.sector_bytes == 512) setup.model.block_bytes = 4096;
  setup.jobs = jobs;
  // Short where the limit is what is tested, else so long that no load reaches it.
  const bool hangs =
      !program.arguments.empty() && (program.arguments[0].ends_with("hang") || program.arguments[0].ends_with("loop"));
  setup.recovery_limit = std::chrono::seconds(hangs ? 3 : 60);
  setup.fresh_images = images;
  Findings found;
  auto session = Session::start(setup);
  EXPECT_TRUE(session) << session.error().sentence;
  if (!session) return found;
  const auto explored = (*session)->explore(
      {},
      [&](const Recovery& r) {
        found.rows.emplace_back(r.path, r.kind, std::string(r.output), std::string(r.errors), std::string(r.text),
                                r.exit_code, r.signal, r.events_in, r.layer, r.output_cut, r.errors_cut);
        found.violations += is_violation(r.kind);
      },
      max_recoveries);
  EXPECT_TRUE(explored) << explored.error().sentence;
  std::sort(found.rows.begin(), found.rows.end());
  found.recoveries = found.rows.size();
  found.bounded = !(*session)->left().empty();
  found.explored = (*session)->explored_estimate().likely;
  return found;
}

std::string text_of(const Row& row) {
  return "kind " + std::to_string(static_cast<int>(std::get<1>(row))) + " " + result::path_text(std::get<0>(row)) +
         "\n" + std::get<2>(row).substr(0, 1000) + "\n";
}

void expect_same(const Program& program, std::uint32_t jobs) {
  SCOPED_TRACE(program.source + (program.arguments.empty() ? "" : " " + program.arguments[0]) + ", jobs " +
               std::to_string(jobs));
  const Findings forked = explore(program, FreshImages::kForked, jobs);
  const Findings restored = explore(program, FreshImages::kRestored, jobs);
  EXPECT_GT(forked.rows.size(), 0u);
  ASSERT_EQ(restored.rows.size(), forked.rows.size());
  for (std::size_t i = 0; i < forked.rows.size(); ++i) {
    ASSERT_TRUE(restored.rows[i] == forked.rows[i]) << result::path_text(std::get<0>(forked.rows[i])) << "\nrestored:\n"
                                                    << text_of(restored.rows[i]) << "forked:\n"
                                                    << text_of(forked.rows[i]);
  }
  EXPECT_EQ(restored.recoveries, forked.recoveries);
  EXPECT_EQ(restored.violations, forked.violations);
  EXPECT_EQ(restored.bounded, forked.bounded);
  EXPECT_NEAR(restored.explored, forked.explored, 1e-9);
}

class Dirty : public testing::TestWithParam<const char*> {};

TEST_P(Dirty, FindsTheSameInRestoredImages) {
  const Program program{"tests/inprocess/dirty.c", {GetParam()}};
  expect_same(program, 1);
  expect_same(program, 2);
}

INSTANTIATE_TEST_SUITE_P(All, Dirty,
                         testing::Values("memory", "brk", "gigabytes", "deep", "mask", "handler", "leak", "dup", "over",
                                         "close", "real", "chdir", "umask", "map", "unmap", "thread", "alarm", "shut",
                                         "unflushed", "files", "much", "exit", "_exit", "assume", "some-exit",
                                         "some-abort", "abort", "some-segv", "some-hang", "some-brk", "some-map"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Restored, FindsTheSameInOtherTestPrograms) {
  for (const char* mode :
       {"r-loop", "r-abort", "r-assert", "r-exit3", "r-exit0", "r-segv", "r-stack", "r-assume", "r-much", "r-close"}) {
    expect_same({"tests/inprocess/misbehave.c", {mode}, 512}, 1);
  }
  expect_same({"tests/inprocess/sectors.c", {"10"}}, 1);
  expect_same({"tests/inprocess/sectors.c", {"10"}}, 2);
  for (const char* source : {"calls.c", "many.c", "rewrite.c", "save_stdio.c", "save_stream.cpp", "signals.c"}) {
    expect_same({std::string("tests/inprocess/") + source, {}, 512}, 1);
  }
}

TEST(Restored, FindsTheSameWhereRecoveriesHaveThreads) {
  for (const std::uint32_t jobs : {1, 2}) expect_same({"tests/inprocess/threads.cpp", {"one-by-one"}, 512}, jobs);
}

TEST(Restored, FindsTheSameInTheLitmusCorpus) {
  for (const auto& entry : fs::directory_iterator(CRASHCUT_SOURCE_DIR "/workloads/litmus")) {
    if (entry.path().extension() == ".c")
      expect_same({"workloads/litmus/" + entry.path().filename().string(), {}, 512}, 1);
  }
}

// The recovery that the tool refuses ends both: how many came before it differs with the order only where jobs do.
TEST(Restored, ARefusedCallIsAToolErrorStill) { expect_same({"tests/inprocess/dirty.c", {"some-fork"}}, 1); }

TEST(Watchdog, KillsWhatHangsInEveryJobAndNothingElse) {
  for (FreshImages images : {FreshImages::kForked, FreshImages::kRestored}) {
    const Findings found = explore({"tests/inprocess/dirty.c", {"two-hang"}}, images, 2);
    EXPECT_EQ(found.recoveries, 64u);
    EXPECT_EQ(found.violations, 2u);
    EXPECT_EQ(std::count_if(found.rows.begin(), found.rows.end(),
                            [](const Row& row) { return std::get<1>(row) == RecordKind::kHung; }),
              2);
    EXPECT_FALSE(found.bounded);
  }
}

TEST(Restored, StopsWhereItIsTold) {
  for (std::uint64_t most : {1, 2, 63, 64}) {
    for (FreshImages images : {FreshImages::kForked, FreshImages::kRestored}) {
      const Findings found = explore({"tests/inprocess/dirty.c", {"memory"}}, images, 1, most);
      EXPECT_EQ(found.recoveries, most);
      EXPECT_EQ(found.rows.size(), most);
      EXPECT_EQ(found.bounded, most < 64) << most;
    }
  }
}

}  // namespace
}  // namespace crashcut::inprocess
