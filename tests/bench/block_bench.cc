// What a request costs: a million requests recorded and sealed, and a crashed drive read. Fails where it takes too
// much.
#include <fmt/format.h>
#include <sys/resource.h>

#include <ctime>
#include <random>

#include "blocklayer/crashed_drive.h"
#include "blocklayer/recorder.h"

namespace crashcut::blocklayer {
namespace {

// The bytes of every write are the same ones: what is measured is the recorder.
class OnePayload final : public Payloads {
 public:
  std::span<const std::byte> bytes(std::uint64_t, std::size_t count) const override {
    return std::span(bytes_).first(count);
  }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(1 << 16);
};

struct Row {
  const char* name;
  DriveOptions options;
  std::uint64_t sectors_a_write;
  std::size_t queue_depth;
  std::size_t bytes_a_request_most;  // of the log
};

constexpr std::uint64_t kRequests = 1'000'000;
constexpr double kSecondsMost = 10;  // of the processor

double seconds_now() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

// A flush every 100 requests, writes to 4 GiB at random.
void record(const Row& row, DriveRecorder& recorder) {
  std::mt19937_64 random(1);
  const std::uint64_t places = (std::uint64_t{4} << 30) / row.options.sector_bytes / row.sectors_a_write;
  std::vector<RequestId> in_flight;
  for (std::uint64_t i = 0; i < kRequests; ++i) {
    Request request{.kind = RequestKind::kFlush};
    if (i % 100 != 99) {
      request = {.kind = RequestKind::kWrite,
                 .first = random() % places * row.sectors_a_write,
                 .count = row.sectors_a_write,
                 .payload = i * row.sectors_a_write * row.options.sector_bytes};
    }
    in_flight.push_back(recorder.issue(request));
    if (in_flight.size() == row.queue_depth) {
      recorder.complete(in_flight.front());
      in_flight.erase(in_flight.begin());
    }
  }
  for (const RequestId id : in_flight) recorder.complete(id);
  recorder.seal();
}

// Reads a thousand sectors of each of a thousand crashes, the newest of each.
double read_crashes(const DriveRecording& recording) {
  class Newest final : public persist::Chooser {
    std::uint32_t choose(const persist::Choice&) override { return 0; }
  } newest;
  persist::Cut cut(recording.log);
  std::vector<std::byte> bytes(recording.options.sector_bytes);
  const double begin = seconds_now();
  constexpr int kCrashes = 1000, kSectors = 1000;
  std::mt19937_64 random(2);
  for (int crash = 0; crash < kCrashes; ++crash) {
    cut.reset();
    CrashedDrive drive({{&recording, &cut}}, newest);
    for (int i = 0; i < kSectors; ++i) {
      const auto& place = recording.locations[random() % recording.locations.size()];
      drive.read(place.index, 0, bytes);
    }
  }
  return (seconds_now() - begin) / (double{kCrashes} * kSectors);
}

bool run(const Row& row) {
  DriveRecorder recorder(row.options, std::make_shared<OnePayload>());
  const double begin = seconds_now();
  record(row, recorder);
  const double seconds = (seconds_now() - begin);
  const std::size_t bytes = recorder.recording().log.memory_bytes() / kRequests;
  const double read_s = read_crashes(recorder.recording());
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print("{:<44} {:>6.2f} s  {:>5} bytes of log a request  {:>6.0f} ns a read  {:>5} MiB so far\n", row.name,
             seconds, bytes, read_s * 1e9, usage.ru_maxrss / 1024);
  return seconds <= kSecondsMost && bytes <= row.bytes_a_request_most;
}

}  // namespace
}  // namespace crashcut::blocklayer

int main() {
  using namespace crashcut::blocklayer;
  const Row rows[] = {
      {"10^6 writes of one sector of 4096", {.sector_bytes = 4096}, 1, 1, 200},
      {"the same, queue depth 32", {.sector_bytes = 4096}, 1, 32, 200},
      {"the same, no cache", {.sector_bytes = 4096, .cache = Cache::kNone}, 1, 1, 300},
      {"10^6 writes of 8 sectors of 512", {}, 8, 1, 1600},
      {"the same, written whole (AWUPF 8)", {.atomic_sectors = 8}, 8, 1, 900},
  };
  bool ok = true;
  for (const Row& row : rows) ok = run(row) && ok;
  return ok ? 0 : 1;
}
