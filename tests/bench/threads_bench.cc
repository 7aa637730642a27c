// crashcut threads beside other tools: executions, steps, time, time an execution. The others' rows were measured on
// a machine of this class (2 cores), or are the paper's; ours are of this run.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "scheduler/search.h"
#include "tests/known_programs.h"

namespace {

// The paper's point: a primitive of its own against the same built on a condition variable. As scripts, since no
// library has this one.
void print_two_writers() {
  struct Variant {
    const char* name;
    crashcut::tests::ScriptProgram program;
    const char* paper;
  };
  Variant variants[] = {
      {"one reader, two writers, native", crashcut::tests::readers_and_two_writers_native(1),
       "McMini 109 executions, 919 steps / 0.34 s (paper)"},
      {"one reader, two writers, cond", crashcut::tests::readers_and_two_writers_built(1),
       "McMini 82,540 executions, 793,912 steps / 347 s (paper)"},
  };
  for (Variant& variant : variants) {
    const crashcut::scheduler::SearchResult result = crashcut::scheduler::search({&variant.program}, {});
    fmt::print("{:<36} {:>10} {:>9} {:>10} {:>9.2f} {:>9.3f}   {}\n", variant.name, result.executions, result.foreseen,
               result.transitions, result.seconds, 1000 * result.seconds / static_cast<double>(result.executions),
               variant.paper);
  }
}

struct Row {
  const char* program;
  const char* options;
  const char* others;
};

constexpr Row kRows[] = {
    {"philosophers 4 arbiter", "", "McMini 45 / 0.3 s, SimGrid 24 / 0.09 s, ideal 24"},
    {"philosophers 5 arbiter", "", "McMini 311 / 1.8 s, SimGrid 120 / 0.33 s, ideal 120"},
    {"philosophers 6 arbiter", "", "McMini 2,507 / 15 s, SimGrid 720 / 1.4 s, ideal 720"},
    {"philosophers 7 arbiter", "", "McMini 23,016 / 124 s, SimGrid 5,040 / 7.4 s, ideal 5,040"},
    {"philosophers 8 arbiter", "", "McMini 236,981 / 1,227 s (paper), SimGrid 40,320 / 110 s, ideal 40,320"},
    {"philosophers 5 left", "", "McMini 65 / 0.24 s, SimGrid 30 / 0.09 s, ideal 30"},
    {"philosophers 5 none", "", "first bug: McMini trace 22 / 0.19 s, SimGrid trace 15 / 0.04 s"},
    {"philosophers 3 semaphore", "", "McMini 50 / 0.17 s, SimGrid 96 / 0.19 s, possible 6"},
    {"philosophers 4 semaphore", "", "McMini 654 / 3.4 s, SimGrid 7,295 / 9 s, possible 14"},
    {"philosophers 5 semaphore", "", "McMini 9,922 / 56 s, SimGrid over 200 s, possible 30"},
    {"producer_consumer 5 1 1 semaphore", "", "McMini 65 / 0.37 s, SimGrid 3,225 / 3.3 s, possible 42"},
    {"producer_consumer 1 1 1 if", "--spurious 1", "McMini finds it at trace 28 (paper)"},
    {"reader_writer 1 2 rwlock", "", "McMini native 34,415 / 75 s (paper)"},
    {"reader_writer 1 2 cond", "", "McMini on a condition variable 82,540 / 346 s (paper)"},
    {"reader_writer 1 2 rwlock", "--policy rwlock=readers", "McMini native 36,080 / 83 s (paper)"},
    {"reader_writer 1 2 cond-readers", "", "McMini on a condition variable 53,527 / 251 s (paper)"},
    {"reader_writer 1 2 rwlock", "--policy rwlock=writers", "McMini native 36,080 / 83 s (paper)"},
    {"reader_writer 1 2 cond-writers", "", "McMini on a condition variable 59,884 / 235 s (paper)"},
    {"meeting 10 barrier", "", "McMini 1 trace (paper)"},
};

}  // namespace

int main() {
  fmt::print("{:<36} {:>10} {:>9} {:>10} {:>9} {:>9}   {}\n", "program", "executions", "foreseen", "steps", "seconds",
             "ms/exec.", "others");
  const std::string file = "/tmp/crashcut-threads-bench-" + std::to_string(std::rand()) + ".json";
  for (const Row& row : kRows) {
    const std::string command = fmt::format("{} threads {} --json {} {}/{} >/dev/null 2>&1", CRASHCUT_COMMAND,
                                            row.options, file, CRASHCUT_THREAD_PROGRAMS, row.program);
    const int status = std::system(command.c_str());
    std::ifstream in(file);
    const auto report = nlohmann::json::parse(in, nullptr, false);
    if (report.is_discarded()) {
      fmt::print("{:<36} failed (status {})\n", row.program, status);
      return 1;
    }
    const auto& counts = report["counts"];
    const double seconds = report["seconds"];
    const auto executions = counts["executions"].get<std::uint64_t>();
    fmt::print("{:<36} {:>10} {:>9} {:>10} {:>9.2f} {:>9.3f}   {}\n",
               std::string(row.program) + (*row.options == 0 ? "" : " " + std::string(row.options)), executions,
               counts["foreseen"].get<std::uint64_t>(), counts["steps"].get<std::uint64_t>(), seconds,
               1000 * seconds / static_cast<double>(executions), row.others);
    std::fflush(stdout);
  }
  std::remove(file.c_str());
  print_two_writers();
  return 0;
}
