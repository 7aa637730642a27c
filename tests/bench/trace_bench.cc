// What tracing costs a write, and how fast a trace of a million operations is replayed.
//
// write/plain and write/traced differ by the trace: the files go round in 64 MiB so that the page cache of the
// filesystem stays the same. The trace goes to /dev/shm: the disk behind it is not what is measured.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <stdexcept>

#include "fusefs/trace.h"
#include "fusefs/trace_replay.h"
#include "fusefs/traced.h"

namespace crashcut {
namespace {

using namespace fusefs;

constexpr std::uint64_t kRoundBytes = std::uint64_t{64} << 20;
constexpr std::uint64_t kTraceBytesMost = std::uint64_t{1} << 30;

const std::string& trace_path() {
  static const std::string path = "/dev/shm/crashcut_trace_bench." + std::to_string(getpid());
  return path;
}

struct Run {
  TraceClock clock;
  Filesystem fs{{.clock = clock.reader()}};
  std::unique_ptr<TraceWriter> writer;
  std::unique_ptr<Traced> traced;
  Ino file{};

  explicit Run(bool traces) {
    if (traces) start_trace();
    traced = std::make_unique<Traced>(fs, clock, writer.get());
    traced->set_process(1, "bench");
    traced->create(kRootIno, "a", S_IFREG | 0644, 0, {}, file);
  }
  ~Run() { ::unlink(trace_path().c_str()); }
  void start_trace() {
    auto made = TraceWriter::create(trace_path(), {.start = clock.now()});
    if (!made) throw std::runtime_error(made.error());
    writer = *std::move(made);
  }
};

void write_plain(benchmark::State& state) {
  Run run(false);
  const std::vector<std::byte> data(static_cast<std::size_t>(state.range(0)), std::byte{'x'});
  std::uint64_t offset = 0;
  for (auto _ : state) {
    run.fs.write(run.file, offset, data, {});
    offset = (offset + data.size()) % kRoundBytes;
  }
}

void write_traced(benchmark::State& state) {
  Run run(true);
  const std::vector<std::byte> data(static_cast<std::size_t>(state.range(0)), std::byte{'x'});
  std::uint64_t offset = 0;
  std::uint64_t traced_bytes = 0;
  for (auto _ : state) {
    run.traced->write(run.file, offset, data, {});
    offset = (offset + data.size()) % kRoundBytes;
    if ((traced_bytes += data.size()) < kTraceBytesMost) continue;
    state.PauseTiming();  // /dev/shm has an end
    traced_bytes = 0;
    run.start_trace();
    run.traced = std::make_unique<Traced>(run.fs, run.clock, run.writer.get());
    state.ResumeTiming();
  }
  if (!run.writer->error().empty()) state.SkipWithError(run.writer->error().c_str());
}

// Small files made, written, renamed: 1,000,000 operations, an fsync a thousand.
void record_million(Run& run) {
  const std::vector<std::byte> data(100, std::byte{'x'});
  for (int i = 0; i < 200'000; ++i) {
    const std::string name = "f" + std::to_string(i % 10'000);
    Ino ino{};
    run.traced->create(kRootIno, "tmp", S_IFREG | 0644, 0, {}, ino);
    run.traced->add_open(ino);
    run.traced->write(ino, 0, data, {});
    if (i % 200 == 0) run.traced->fsync(ino, false);
    run.traced->release(ino, true);
    run.traced->rename(kRootIno, "tmp", kRootIno, name, 0);
  }
  run.writer->finish();
}

void replay_million(benchmark::State& state) {
  Run run(true);
  record_million(run);
  const auto trace = TraceReader::open(trace_path());
  if (!trace) return state.SkipWithError(trace.error().c_str());
  for (auto _ : state) {
    auto replayed = replay(*trace, {});
    if (!replayed) return state.SkipWithError(replayed.error().sentence.c_str());
    benchmark::DoNotOptimize(replayed);
  }
  state.counters["ops"] = static_cast<double>(trace->op_count());
}

void open_million(benchmark::State& state) {
  Run run(true);
  record_million(run);
  for (auto _ : state) benchmark::DoNotOptimize(TraceReader::open(trace_path()));
}

BENCHMARK(write_plain)->Arg(100)->Arg(4096)->Arg(131072);
BENCHMARK(write_traced)->Arg(100)->Arg(4096)->Arg(131072);
BENCHMARK(open_million)->Unit(benchmark::kMillisecond);
BENCHMARK(replay_million)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace crashcut

BENCHMARK_MAIN();
