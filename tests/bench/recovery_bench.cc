// How many recoveries a second on one core: pure observers through the C++ API, recovery functions of a program
// in the in-process front end, and the litmus corpus as a whole.
#include <benchmark/benchmark.h>
#include <fcntl.h>

#include <cstdlib>

#include "recovery/crash_test.h"
#include "recovery/inprocess/session.h"

namespace crashcut {
namespace {

void save(fusefs::Process& p, const char* name, const char* text) {
  const int fd = p.openat(AT_FDCWD, name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  const iovec all{const_cast<char*>(text), 9};
  p.write(fd, {&all, 1});
  p.close(fd);
}

void observe_replace_by_rename(benchmark::State& state) {
  CrashTest test;
  save(test.process(), "notes.txt", "old notes");
  test.barrier();
  save(test.process(), "notes.tmp", "new notes");
  test.process().renameat2(AT_FDCWD, "notes.tmp", AT_FDCWD, "notes.txt", 0);
  std::int64_t recoveries = 0;
  for (auto _ : state) {
    const Report report = test.explore([](AfterCrash& after) { return after.contents_of("notes.txt").value(); });
    recoveries += static_cast<std::int64_t>(report.recoveries);
  }
  state.counters["recoveries/s"] = benchmark::Counter(static_cast<double>(recoveries), benchmark::Counter::kIsRate);
}
BENCHMARK(observe_replace_by_rename);

std::int64_t count_recoveries(benchmark::State& state, const inprocess::Session::Setup& setup) {
  auto session = inprocess::Session::start(setup);
  if (!session) {
    state.SkipWithError(session.error().sentence.c_str());
    return 0;
  }
  std::int64_t count = 0;
  if (!(*session)->explore({}, [&](const inprocess::Recovery&) { ++count; })) state.SkipWithError("exploration failed");
  return count;
}

void run_recovery_function(benchmark::State& state) {
  inprocess::Session::Setup setup;
  setup.program = std::string(CRASHCUT_INPROCESS_PROGRAMS) + "/sectors";
  setup.runtime = CRASHCUT_RUNTIME_LIBRARY;
  setup.arguments = {"13"};  // 2^13 recoveries
  setup.model.sector_bytes = setup.model.block_bytes = 1;
  std::int64_t recoveries = 0;
  for (auto _ : state) recoveries += count_recoveries(state, setup);
  state.counters["recoveries/s"] = benchmark::Counter(static_cast<double>(recoveries), benchmark::Counter::kIsRate);
}
BENCHMARK(run_recovery_function)->UseRealTime()->Unit(benchmark::kMillisecond);

// Every run line of every litmus, through the command, compared with what it claims.
void run_litmus_corpus(benchmark::State& state) {
  for (auto _ : state) {
    if (std::system(CRASHCUT_LITMUS_TEST " >/dev/null 2>&1") != 0)
      state.SkipWithError("the corpus fails: run litmus_test");
  }
}
BENCHMARK(run_litmus_corpus)->UseRealTime()->Unit(benchmark::kSecond)->Iterations(1);

}  // namespace
}  // namespace crashcut

BENCHMARK_MAIN();
