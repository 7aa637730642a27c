// mount_server: an empty filesystem at a directory, for suites and benchmarks that are its clients.
//   mount_server DIR [TRACE] [--nothing]   records to TRACE; --nothing: as a crash state is mounted
// Prints "ready" once it is mounted. Ends, and unmounts, on SIGTERM and SIGINT, and when somebody else unmounts it.
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "fusefs/mount/mount.h"

using namespace crashcut::fusefs;

int main(int argc, char** argv) {
  const char* directory = nullptr;
  const char* trace = nullptr;
  Mount::Caching caching = Mount::Caching::kKept;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--nothing") == 0) {
      caching = Mount::Caching::kNothing;
    } else {
      (directory ? trace : directory) = argv[i];
    }
  }
  if (!directory) {
    std::fprintf(stderr, "usage: mount_server DIR [TRACE] [--nothing]\n");
    return 2;
  }
  // Blocked before any thread is made, so that none of them takes the signal.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  constexpr std::uint64_t kCapacityBytes = std::uint64_t{1} << 36;
  std::unique_ptr<TraceWriter> writer;
  TraceClock clock;
  if (trace) {
    auto made = TraceWriter::create(trace, TraceHeader{.capacity_bytes = kCapacityBytes, .start = clock.now()});
    if (!made) {
      std::fprintf(stderr, "mount_server: %s\n", made.error().c_str());
      return 1;
    }
    writer = std::move(*made);
  }
  Filesystem filesystem({.capacity_bytes = kCapacityBytes, .noatime = true, .clock = clock.reader()});
  Traced traced(filesystem, clock, writer.get());
  Volume volume{filesystem, traced, {}};
  auto mount = Mount::start({.directory = directory, .caching = caching, .allow_others = geteuid() == 0}, volume);
  if (!mount) {
    std::fprintf(stderr, "mount_server: %s\n", mount.error().c_str());
    return 1;
  }
  std::printf("ready\n");
  std::fflush(stdout);
  // Until a signal, or until somebody else unmounted it.
  const timespec patience{0, 20'000'000};
  while (!(*mount)->is_gone() && sigtimedwait(&signals, nullptr, &patience) < 0) {
  }
  mount->reset();
  if (writer) {
    writer->finish();
    if (!writer->error().empty()) {
      std::fprintf(stderr, "mount_server: %s\n", writer->error().c_str());
      return 1;
    }
  }
  return 0;
}
