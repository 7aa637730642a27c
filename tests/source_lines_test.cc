// Reports of commands name the program's own lines: the exact ones, where calls are made inside of libraries.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace crashcut {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::uint64_t line_in(const std::string& source, const std::string& mark) {
  std::ifstream in(std::string(CRASHCUT_NAMED_PROGRAMS) + "/" + source);
  std::uint64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.ends_with("// line: " + mark)) return number;
  }
  ADD_FAILURE() << "no line of " << source << " has the mark " << mark;
  return 0;
}

class SourceLines : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "source_lines.XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { fs::remove_all(directory_); }

  // Compiles it with the options of the row, runs the command on it, and gives its report.
  json report(const std::string& compiler, const std::string& source, const std::string& command) const {
    const std::string program = directory_ / "program", file = directory_ / "report.json";
    const std::string compile = compiler + " -g " + GetParam() + " -I" CRASHCUT_SOURCE_DIR "/include " +
                                CRASHCUT_NAMED_PROGRAMS "/" + source + " -pthread -o " + program;
    EXPECT_EQ(std::system(compile.c_str()), 0) << compile;
    const std::string run = "cd " + directory_.string() + " && " CRASHCUT_COMMAND " " + command + " --json " + file +
                            " ./program > out 2>&1";
    EXPECT_EQ(WEXITSTATUS(std::system(run.c_str())), 1) << run;
    return json::parse(std::ifstream(file), nullptr, false);
  }

  fs::path directory_;
};

// The first of a list whose text begins so.
json with_text(const json& list, const std::string& begin) {
  for (const json& one : list) {
    if (one.at("text").get<std::string>().starts_with(begin)) return one;
  }
  ADD_FAILURE() << "nothing begins with " << begin << ": " << list.dump(1);
  return {};
}

std::string place_of(const json& told) {
  return told.value("function", "?") + " " + (told.at("file").is_null() ? "?" : told.at("file").get<std::string>()) +
         ":" + told.at("line").dump();
}

TEST_P(SourceLines, OfCallsOnFiles) {
  const json found = report("gcc", "saved.c", "run").at("violation").at("crashes").at(0);
  const auto saved = [](const char* mark) { return "save saved.c:" + std::to_string(line_in("saved.c", mark)); };
  EXPECT_EQ(place_of(with_text(found.at("operations"), "open(\"new\"")), saved("open"));
  EXPECT_EQ(place_of(with_text(found.at("operations"), "write(")), saved("write"));
  EXPECT_EQ(place_of(with_text(found.at("operations"), "rename(")), saved("rename"));
  EXPECT_EQ(place_of(with_text(found.at("calls"), "open(\"old\"")),
            "crashcut_recover saved.c:" + std::to_string(line_in("saved.c", "read")));
}

TEST_P(SourceLines, OfStepsOfThreads) {
  const json found = report("g++", "locked.cpp", "threads").at("violation");
  const auto locked = [](const char* function, const char* mark) {
    return std::string(function) + " locked.cpp:" + std::to_string(line_in("locked.cpp", mark));
  };
  const json start = with_text(found.at("steps"), "create thread 1");
  EXPECT_EQ(start.at("text"), "create thread 1 (take(int))");
  EXPECT_EQ(place_of(start), locked("main", "thread"));
  const json lock = with_text(found.at("steps"), "lock mutex table.slots[0].lock");
  EXPECT_EQ(place_of(lock), locked("take(int)", "first"));
  const std::size_t stack = lock.at("stack");
  EXPECT_EQ(found.at("stacks").at(stack).at(0).at("function"), "take(int)");
  for (const json& waiting : found.at("waiting")) {
    if (waiting.at("thread") == "thread 1") {
      EXPECT_EQ(place_of(waiting), locked("take(int)", "second"));
      EXPECT_EQ(waiting.at("holds").at(0), "mutex table.slots[0].lock");
    }
  }
}

// What lies on the stack of main() or of another function has the name of the variable there.
TEST_P(SourceLines, OfObjectsOnStacks) {
  for (const char* compiler : {"g++", "clang++"}) {
    SCOPED_TRACE(compiler);
    const json found = report(compiler, "pools.cpp", "threads").at("violation");
    with_text(found.at("steps"), "lock mutex main::pool.slots[0].lock");
    with_text(found.at("steps"), "lock mutex main::pool.slots[1].lock");
    // clang says the parameters of a function that no other file sees.
    EXPECT_TRUE(std::any_of(found.at("steps").begin(), found.at("steps").end(), [](const json& step) {
      const std::string text = step.at("text");
      return text == "lock mutex take::own" || text == "lock mutex take(Pool&)::own";
    })) << found.at("steps").dump(1);
    for (const json& waiting : found.at("waiting")) {
      if (waiting.at("thread") == "thread 1") {
        EXPECT_EQ(waiting.at("holds").at(0), "mutex main::pool.slots[1].lock");
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SourceLines, ::testing::Values("-O0", "-O2 -fno-inline -fno-optimize-sibling-calls"),
                         [](const auto& info) { return info.index == 0 ? "unoptimised" : "optimised"; });

}  // namespace
}  // namespace crashcut
