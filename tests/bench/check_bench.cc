// What a crash state costs: a checker of one `cat` on a mounted crash state, beside the bare spawn of that process on a
// file of the same size.
//
// Both in one run, on one core, alternately, the median of the rounds: the ratio is what counts, and should not be
// above 1.5; the verdict is by the processor's time, which on a quiet machine is the clock's. A state that is run twice
// (is the checker deterministic?) is part of the cost. Then whole checks, end to end and by the clock: an editor's
// save, under 3 seconds, a transaction of sqlite's with its integrity check, under 60, and 100 recoveries of a program
// that wrote 1 GiB in 100,000 writes, under 60 and with no process above 2 GB, mapped files included. Run:
// build/release/check_bench; needs nano, tmux and sqlite3 (scripts/setup.sh nano tmux sqlite3). The exit code is 1
// where a bar was not met or a program is missing.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

extern char** environ;

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

constexpr int kRounds = 5;

// What this process and its children have had of the processor: other programs on the machine disturb that less.
double cpu_seconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    struct rusage used {};
    getrusage(who, &used);
    for (const timeval& part : {used.ru_utime, used.ru_stime})
      seconds += static_cast<double>(part.tv_sec) + static_cast<double>(part.tv_usec) * 1e-6;
  }
  return seconds;
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Seconds a spawn of `cat plain`.
double spawn_cats(int count) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  char program[] = "/bin/cat", file[] = "plain";
  char* argv[] = {program, file, nullptr};
  const auto begin = Clock::now();
  for (int i = 0; i < count; ++i) {
    pid_t child = 0;
    int status = 0;
    if (posix_spawn(&child, program, &actions, nullptr, argv, environ) != 0 || waitpid(child, &status, 0) != child ||
        status != 0) {
      fmt::print(stderr, "check_bench: cannot run cat\n");
      std::exit(1);
    }
  }
  const double seconds = seconds_since(begin);
  posix_spawn_file_actions_destroy(&actions);
  return seconds / count;
}

int run(const std::string& command) { return WEXITSTATUS(std::system((command + " > log 2>&1").c_str())); }

Json result_of(const std::string& options) {
  fs::remove_all("results");
  const int code = run(std::string(CRASHCUT_BINARY) + " check --out results " + options);
  if (code != 0 && code != 1 && code != 3) {
    fmt::print(stderr, "check_bench: crashcut check {} ended with {}\n", options, code);
    std::exit(1);
  }
  return Json::parse(std::ifstream("results/result.json"));
}

// Whether a bar was met. `reason` is why it was not, where it was not a matter of time.
bool judge(const std::string& what, double seconds, double bar_s, const std::string& details,
           const std::string& reason = "") {
  const bool is_met = reason.empty() && seconds < bar_s;
  fmt::print("{:<60} {:>7.2f} s  bar: under {:.0f} s, {}; {}\n", what, seconds, bar_s,
             is_met ? "met" : "NOT met" + (reason.empty() ? "" : " (" + reason + ")"), details);
  return is_met;
}

bool has_programs(const std::vector<std::string>& names, const std::string& what) {
  for (const std::string& name : names) {
    if (run("command -v " + name) == 0) continue;
    fmt::print("{:<60} NOT met: {} is not installed\n", what, name);
    return false;
  }
  return true;
}

// One check by `command`, to which --out is added, from the start of crashcut to its verdict. A search that some bound
// cut short has not been done in time.
bool time_whole(const std::string& what, double bar_s, const std::string& command, const std::string& options) {
  fs::remove_all("results");
  const auto begin = Clock::now();
  const int code = run(fmt::format("{} --out results {}", command, options));
  const double seconds = seconds_since(begin);
  if (code != 0 && code != 1 && code != 3) {
    std::string last;
    std::ifstream log("log");
    for (std::string line; std::getline(log, line);) last = line;
    return judge(what, seconds, bar_s, last, fmt::format("it ended with {}", code));
  }
  const Json result = Json::parse(std::ifstream("results/result.json"));
  const bool has_run = result["execution"]["code"] == 0;
  const bool is_whole = result["bound_hit"].is_null();
  return judge(what, seconds, bar_s,
               fmt::format("{} recoveries, {}", result["counts"]["recoveries"].get<long>(),
                           result["verdict"].get<std::string>()),
               !has_run   ? "the program did not do its work"
               : is_whole ? ""
                          : "not all states were checked");
}

bool time_editor() {
  const std::string what = "nano saves a file, end to end";
  if (!has_programs({"nano", "tmux"}, what)) return false;
  setenv("CRASHCUT", CRASHCUT_BINARY, 1);
  return time_whole(what, 3, CRASHCUT_PROGRAMS "/nano.sh check nano", "");
}

bool time_sqlite() {
  const std::string what = "sqlite3, a transaction of 100 inserts, integrity_check";
  if (!has_programs({"sqlite3"}, what)) return false;
  std::string inserts = "begin;";
  for (int i = 0; i < 100; ++i) inserts += fmt::format("insert into t values({});", i);
  // More time than the tree of states may take is no use.
  return time_whole(what, 60, CRASHCUT_BINARY " check --time 120",
                    "--setup 'sqlite3 db \"create table t(a)\"' --check \"sqlite3 db 'pragma integrity_check; select "
                    "count(*) from t' | tr '\\n' ' ' | grep -qE '^ok (0|100) $'\""
                    " -- sqlite3 db '" +
                        inserts + "commit;'");
}

// Violations are found, and there are more states than anybody waits for.
bool time_large() {
  const std::string what = "1 GiB in 100,000 writes, 100 recoveries";
  if (!has_programs({"cc"}, what)) return false;
  std::ofstream("writer.c")
      << "#include <fcntl.h>\n#include <string.h>\n#include <unistd.h>\nstatic char b[10738];\n"
         "int main() { int f = open(\"f\", O_CREAT | O_WRONLY, 0644); unsigned long long x = 88172645463325252ull;\n"
         "  for (int i = 0; i < 100000; ++i) { for (int k = 0; k + 8 <= 10738; k += 8) {\n"
         "    x ^= x << 13; x ^= x >> 7; x ^= x << 17; memcpy(b + k, &x, 8); }\n"
         "    if (write(f, b, 10738) != 10738) return 1; } return close(f); }\n";
  if (run("cc -O1 -o writer writer.c") != 0) return false;
  const auto begin = Clock::now();
  const Json result = result_of("--file f --max-recoveries 100 -- ./writer");
  const double seconds = seconds_since(begin);
  struct rusage used {};
  getrusage(RUSAGE_CHILDREN, &used);
  constexpr long kMost_KiB = 2'000'000'000 / 1024;
  return judge(what, seconds, 60,
               fmt::format("{} recoveries, {}; the largest process had {} MiB, result.json has {} KiB",
                           result["counts"]["recoveries"].get<long>(), result["verdict"].get<std::string>(),
                           used.ru_maxrss >> 10, fs::file_size("results/result.json") >> 10),
               used.ru_maxrss > kMost_KiB ? "a process had more than 2 GB" : "");
}

struct States {
  const char* name;
  std::uintmax_t file_bytes;
  const char* program;  // changes f, which was all NULs
};
constexpr States kStates[] = {
    {"4.6 KiB, two blocks with 13 versions each", 4700,
     "for i in 1 2 3 4 5 6 7 8 9 a b c; do for at in 0 4096; do printf $i | dd of=f bs=1 seek=$at conv=notrunc "
     "status=none; done; done"},
    {"36 KiB, nine blocks that each are old or new", 36864,
     "for i in 0 1 2 3 4 5 6 7 8; do printf x | dd of=f bs=1 seek=$((i*4096)) conv=notrunc status=none; done"},
};

double print_ratio(const States& states) {
  std::ofstream("plain") << std::string(states.file_bytes, '\0');
  const std::string options = fmt::format("--jobs 1 --setup 'head -c {} /dev/zero > f' --check 'cat f' -- sh -c '{}'",
                                          states.file_bytes, states.program);
  constexpr int kSpawns = 300;
  // Spawns before and after the states of a round, since the load of a machine changes; the median of the rounds'
  // ratios.
  std::vector<double> by_clock, by_cpu;
  double state_s = 0, state_cpu_s = 0;
  long recoveries = 0;
  for (int round = 0; round < kRounds; ++round) {
    double spawn_s = 0, spawn_cpu_s = 0;
    const auto spawn = [&] {
      const double before = cpu_seconds();
      spawn_s += spawn_cats(kSpawns) / 2;
      spawn_cpu_s += (cpu_seconds() - before) / kSpawns / 2;
    };
    double cpu_s = cpu_seconds();
    result_of("--max-recoveries 1 " + options);  // what is not the states' part: recording, starting
    const double rest_cpu_s = cpu_seconds() - cpu_s;
    spawn();
    cpu_s = cpu_seconds();
    const Json result = result_of(options);
    state_cpu_s = cpu_seconds() - cpu_s - rest_cpu_s;
    spawn();
    recoveries = result["counts"]["recoveries"];
    state_cpu_s /= static_cast<double>(recoveries - 1);
    state_s = result["seconds"].get<double>() / static_cast<double>(recoveries);
    by_clock.push_back(state_s / spawn_s);
    by_cpu.push_back(state_cpu_s / spawn_cpu_s);
  }
  const auto median = [](std::vector<double>& values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  const double ratio = median(by_cpu);
  fmt::print(
      "{:<46} {:>4} states; the last: {:>6.0f} us by the clock, {:>6.0f} us of the processor; to a spawn: {:.2f} and "
      "{:.2f}\n",
      states.name, recoveries, state_s * 1e6, state_cpu_s * 1e6, median(by_clock), ratio);
  return ratio;
}

}  // namespace

int main() {
  char directory[] = "/tmp/check_bench.XXXXXX";
  if (!mkdtemp(directory) || chdir(directory) != 0) return 1;
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  sched_setaffinity(0, sizeof one, &one);

  bool is_fast_enough = true;
  for (const States& states : kStates) is_fast_enough = print_ratio(states) <= 1.5 && is_fast_enough;
  sched_setaffinity(0, sizeof all, &all);
  const bool is_quick = time_editor();
  const bool is_large_quick = time_large();
  const bool is_quick_enough = time_sqlite() && is_quick && is_large_quick;
  chdir("/");
  fs::remove_all(directory);
  fmt::print("check_bench: {}; {}\n",
             is_fast_enough ? "a state costs at most 1.5 spawns" : "a state costs MORE than 1.5 spawns",
             is_quick_enough ? "whole checks are quick enough" : "a whole check is NOT quick enough");
  return is_fast_enough && is_quick_enough ? 0 : 1;
}
