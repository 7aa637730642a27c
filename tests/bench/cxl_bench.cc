// crashcut cxl beside CXLMC's Table 5: executions, time, failure points, milliseconds an execution and executions a
// failure point, for programs of workloads/cxl/ on two machines of two threads. The paper's rows are of a structure of
// the same kind, with 10 keys.
//
// Prints a Markdown table, of which docs/cxl.md has a copy, and fails if a bar is not met. Times are processor time, of
// all processes together, start included: other programs on the machine disturb that less. With 10 keys it is the best
// of several runs. Run: build/release/cxl_bench.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace {

constexpr int kRounds = 3;
constexpr double kExecutionMost_ms = 1;
constexpr double kSecondsMost = 2 * 5 * 60;  // five minutes on two cores
// Where the paper's own ratio is lower: it has thousands of failure points, beside which the executions that have no
// failure do not count.
constexpr double kRatioFloor = 1.1;

struct Paper {
  const char* name;
  double executions, seconds, failure_points;
};
struct Program {
  const char* name;
  Paper plain, gpf;
};
constexpr Program kPrograms[] = {
    {"btree", {"FAST_FAIR", 77, 0.13, 28}, {"FAST_FAIR", 24, 0.12, 23}},
    {"extendible_hash", {"CCEH", 1097, 4.31, 1058}, {"CCEH", 1050, 4.33, 1049}},
    {"radix_tree", {"P-ART", 104, 0.22, 92}, {"P-ART", 92, 0.24, 91}},
    {"lock_free_hash", {"P-CLHT", 4128, 42.96, 4122}, {"P-CLHT", 4119, 44.6, 4118}},
};

struct Figures {
  double executions = 0, seconds = 0, failure_points = 0;
  double ms_each() const { return 1000 * seconds / executions; }
  double ratio() const { return executions / failure_points; }
};

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds_of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

// Processes that crashcut leaves behind come to us, and count when we have waited for them.
int run_command(const std::string& command) {
  const int status = std::system(command.c_str());
  while (waitpid(-1, nullptr, 0) > 0) {
  }
  return status;
}

std::string scratch(const std::string& name) { return fmt::format("/tmp/crashcut-cxl-bench-{}", name); }

void build(const char* name) {
  const std::string sources = std::string(CRASHCUT_SOURCE_DIR) + "/workloads/";
  const std::string command = fmt::format("{} cc --pmem -O1 -I{}cxl -I{}pmem {}cxl/{}.c -o {} -lpthread",
                                          CRASHCUT_COMMAND, sources, sources, sources, name, scratch(name));
  if (std::system(command.c_str()) != 0) std::exit(4);
}

Figures run(const char* name, int keys, const char* option) {
  const std::string report_path = scratch("report.json");
  const std::string command = fmt::format("{} cxl {} --machines 2 --json {} {} {} 2 >/dev/null 2>&1", CRASHCUT_COMMAND,
                                          option, report_path, scratch(name), keys);
  const double before = processor_seconds();
  const int status = run_command(command);
  const double seconds = processor_seconds() - before;
  std::ifstream in(report_path);
  const auto report = nlohmann::json::parse(in, nullptr, false);
  if (status != 0 || report.is_discarded()) {
    fmt::print("{}: not verified (status {})\n", command, status);
    std::exit(4);
  }
  const auto& counts = report["counts"];
  return {counts["executions"], seconds, report["execution"]["failure_points"]};
}

Figures best_of(const char* name, int keys, const char* option) {
  Figures best = run(name, keys, option);
  for (int i = 1; i < (keys == 10 ? kRounds : 1); ++i)
    best.seconds = std::min(best.seconds, run(name, keys, option).seconds);
  return best;
}

// Whether the bars are met.
bool print_row(const Program& program, int keys, bool has_gpf) {
  const Figures f = best_of(program.name, keys, has_gpf ? "--gpf" : "");
  const Paper& paper = has_gpf ? program.gpf : program.plain;
  const double paper_ratio = paper.executions / paper.failure_points;
  fmt::print("| `{}`{} | {} | {} | {:.2f} | {} | {:.2f} | {:.2f} |", program.name, has_gpf ? ", `--gpf`" : "", keys,
             f.executions, f.seconds, f.failure_points, f.ms_each(), f.ratio());
  if (keys == 10) {
    fmt::print(" {}: {} / {:.2f} s / {}; {:.2f} ms, {:.2f} |\n", paper.name, paper.executions, paper.seconds,
               paper.failure_points, 1000 * paper.seconds / paper.executions, paper_ratio);
  } else {
    fmt::print(" |\n");
  }
  std::fflush(stdout);
  const bool is_fast = keys == 10 ? f.ms_each() <= kExecutionMost_ms : f.seconds <= kSecondsMost;
  return is_fast && f.ratio() <= std::max(paper_ratio, kRatioFloor);
}

}  // namespace

int main() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  fmt::print(
      "| program | keys | executions | seconds | failure points | ms an execution | executions a failure point |"
      " CXLMC: executions / time / failure points |\n|---|---|---|---|---|---|---|---|\n");
  bool is_good = true;
  for (const Program& program : kPrograms) {
    build(program.name);
    is_good &= print_row(program, 10, false);
    is_good &= print_row(program, 10, true);
    is_good &= print_row(program, 100, false);
    std::remove(scratch(program.name).c_str());
  }
  std::remove(scratch("report.json").c_str());
  fmt::print("\n{}\n", is_good ? "all bars met" : "a bar was not met");
  return is_good ? 0 : 1;
}
