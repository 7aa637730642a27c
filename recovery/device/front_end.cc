#include "recovery/device/front_end.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "recovery/device/runner.h"
#include "recovery/device/token.h"
#include "recovery/mounted/explain.h"
#include "recovery/mounted/record.h"
#include "recovery/mounted/recoverer.h"
#include "recovery/mounted/sandboxed_worker.h"
#include "recovery/mounted/token.h"
#include "recovery/search/channel.h"
#include "recovery/search/explorer.h"
#include "recovery/search/following.h"
#include "recovery/search/worker.h"

namespace crashcut::device {
namespace {

using blocklayer::CrashedDrive;
using blocklayer::DriveRecording;

// Runs the user's checker on a crashed drive.
class DeviceRecoverer final : public search::Recoverer {
 public:
  DeviceRecoverer(const DriveRecording& recording, std::uint64_t bytes, DeviceRunner& runner)
      : recording_(recording), bytes_(bytes), runner_(runner), marks_(recording.marks()) {}

  search::Ending recover(std::size_t, std::span<const search::Crash> crashes, persist::Chooser& chooser,
                         std::shared_ptr<const persist::Recording>* next) override {
    std::vector<CrashedDrive::Layer> layers;
    for (const search::Crash& crash : crashes)
      layers.push_back({static_cast<const DriveRecording*>(crash.recording), crash.cut});
    CrashedDrive drive(std::move(layers), chooser);
    auto payloads = std::make_shared<blocklayer::MemoryPayloads>();
    blocklayer::DriveRecorder recorder(recording_.options, payloads);
    CheckedDevice device({.crashed = &drive,
                          .bytes = bytes_,
                          .sector_bytes = recording_.options.sector_bytes,
                          .recorder = next != nullptr ? &recorder : nullptr,
                          .payloads = payloads,
                          .marks = mark_texts()});
    std::vector<std::string> certain;
    for (const persist::Mark& mark : marks_) {
      if (crashes.front().cut->is_in(mark.event)) certain.push_back(mark.text);
    }
    mounted::CommandResult result =
        runner_.run(device, certain, [&](const std::string& mark) { return drive.reached(mark); });
    if (next != nullptr) {
      recorder.seal();
      *next = recorder.shared_recording();
    }
    return mounted::ending_of(std::move(result));
  }
  bool runs_code(std::size_t) const override { return true; }

  // What the crashes left, for one who looks: use(device, reached).
  void visit(std::span<const search::Crash> crashes,
             const std::function<void(CheckedDevice&, const std::function<bool(const std::string&)>&)>& use) const {
    search::Following newest;
    std::deque<persist::Cut> cuts;
    std::vector<CrashedDrive::Layer> layers;
    for (const search::Crash& crash : crashes)
      layers.push_back({static_cast<const DriveRecording*>(crash.recording), &cuts.emplace_back(*crash.cut)});
    CrashedDrive drive(std::move(layers), newest);
    drive.allow_no_more_faults();
    CheckedDevice device({.crashed = &drive,
                          .bytes = bytes_,
                          .sector_bytes = recording_.options.sector_bytes,
                          .recorder = nullptr,
                          .payloads = nullptr,
                          .marks = mark_texts()});
    use(device, [&](const std::string& mark) { return drive.reached(mark); });
  }

 private:
  std::vector<std::string> mark_texts() const {
    std::vector<std::string> texts;
    for (const persist::Mark& mark : marks_) texts.push_back(mark.text);
    return texts;
  }

  const DriveRecording& recording_;
  std::uint64_t bytes_;
  DeviceRunner& runner_;
  std::vector<persist::Mark> marks_;
};

// The device as a file, with holes for what is zero; a sector that cannot be read is one too. A sentence on what went
// wrong.
std::string write_device(CheckedDevice& device, const std::string& path) {
  const sandbox::Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!file || ftruncate(file.get(), static_cast<off_t>(device.bytes())) != 0)
    return fmt::format("Cannot make {}: {}.", path, std::strerror(errno));
  std::vector<std::byte> sector(device.sector_bytes());
  for (std::uint64_t at = 0; at < device.bytes(); at += sector.size()) {
    if (device.read(at, sector) != 0) continue;
    if (std::all_of(sector.begin(), sector.end(), [](std::byte byte) { return byte == std::byte{0}; })) continue;
    if (pwrite(file.get(), sector.data(), sector.size(), static_cast<off_t>(at)) != static_cast<ssize_t>(sector.size()))
      return fmt::format("Cannot write {}: {}.", path, std::strerror(errno));
  }
  return "";
}

}  // namespace

DeviceFrontEnd::DeviceFrontEnd(const CheckPlan& plan, std::shared_ptr<blocklayer::DeviceTrace> trace,
                               std::shared_ptr<DriveRecording> recording)
    : plan_(plan),
      trace_(std::move(trace)),
      recording_(std::move(recording)),
      trace_sum_(mounted::sum_of_trace(plan.common.directory)) {}

tl::expected<std::unique_ptr<DeviceFrontEnd>, Failure> DeviceFrontEnd::open(const CheckPlan& plan) {
  auto trace = blocklayer::DeviceTrace::open(mounted::trace_of(plan.common.directory));
  if (!trace) return result::wrong_use(trace.error());
  auto recording = blocklayer::replay(*trace, plan.drive);
  if (!recording) return result::wrong_use(recording.error());
  if (!(*trace)->has_writes())
    return result::wrong_use(fmt::format(
        "The program wrote nothing to the device, so there is nothing to check. The device is the file {} in the "
        "directory in which the program starts; $CRASHCUT_DEVICE is its path.",
        blocklayer::kDeviceName));
  return std::unique_ptr<DeviceFrontEnd>(new DeviceFrontEnd(plan, std::move(*trace), std::move(*recording)));
}

tl::expected<std::unique_ptr<DeviceFrontEnd>, Failure> DeviceFrontEnd::with_flushes(
    std::span<const persist::AddedSync> flushes) const {
  auto recording = blocklayer::replay(trace_, plan_.drive, flushes);
  if (!recording) return result::wrong_use(recording.error());
  return std::unique_ptr<DeviceFrontEnd>(new DeviceFrontEnd(plan_, trace_, std::move(*recording)));
}

tl::expected<std::unique_ptr<search::Worker>, Failure> DeviceFrontEnd::start_worker(const search::WorkerSetup& setup) {
  auto started = sandbox::Sandbox::start([this, setup](const sandbox::Inside& inside) { return work(inside, setup); },
                                         mounted::options_for_checkers(plan_.common.directory, 0));
  if (!started) return tl::unexpected(result::tools_failure(started.error()));
  // Without namespaces they would all mount at the same place.
  is_alone_ = started->mode() == sandbox::Mode::kSubreaper;
  return std::make_unique<mounted::SandboxedWorker>(std::move(*started));
}

int DeviceFrontEnd::work(const sandbox::Inside& inside, const search::WorkerSetup& setup) const {
  const std::optional<int> core = mounted::stay_on_core(setup.index);
  auto runner = DeviceRunner::start({.inside = inside,
                                     .results = plan_.common.directory,
                                     .command = plan_.common.checker,
                                     .limit = plan_.common.check_limit,
                                     .bytes = trace_->header().bytes,
                                     .sector_bytes = trace_->header().sector_bytes,
                                     .core = core,
                                     .stop = &setup.shared.stop});
  if (!runner) {
    search::report_failure(inside.socket, result::tools_failure(runner.error()));
    return 1;
  }
  DeviceRecoverer recoverer(*recording_, trace_->header().bytes, **runner);
  search::serve(inside.socket, setup, *recording_, recoverer);
  return 0;
}

std::string DeviceFrontEnd::explain(std::size_t, const search::NarratedRun& told) const {
  const auto& command = trace_->header().command;
  const std::string program = command.empty() ? "the program" : boost::filesystem::path(command[0]).filename().string();
  return mounted::explain(mounted::CommandQuestion{}, told, program);
}

tl::expected<void, Failure> DeviceFrontEnd::visit(std::uint32_t depth, const std::vector<std::uint32_t>& path,
                                                  const std::string& image) {
  const auto work = [&](const sandbox::Inside& inside) {
    std::string failure;
    auto runner = DeviceRunner::start({.inside = inside,
                                       .results = plan_.common.directory,
                                       .command = plan_.common.checker,
                                       .limit = plan_.common.check_limit,
                                       .bytes = trace_->header().bytes,
                                       .sector_bytes = trace_->header().sector_bytes,
                                       .core = {}});
    if (!runner) {
      failure = runner.error();
    } else {
      const char* const shell = std::getenv("SHELL");
      DeviceRecoverer recoverer(*recording_, trace_->header().bytes, **runner);
      search::Explorer explorer({*recording_, recoverer, depth});
      explorer.visit(0, path, [&](const search::Run& run, std::span<const search::Crash> crashes) {
        if (run.diverged || run.ending.kind == search::Ending::Kind::kFailed) {
          failure = run.diverged ? "The state did not come out the same again: the checker has changed since, or it is "
                                   "not deterministic."
                                 : run.ending.failure.sentence;
          return;
        }
        recoverer.visit(crashes, [&](CheckedDevice& device, const std::function<bool(const std::string&)>& reached) {
          failure = !image.empty()
                        ? write_device(device, image)
                        : (*runner)->open_to({{shell && *shell ? shell : "/bin/sh"}}).run(device, {}, reached).failure;
        });
      });
    }
    search::send(inside.socket, {{"failure", failure}});
    return 0;
  };
  auto started = sandbox::Sandbox::start(work, mounted::options_for_checkers(plan_.common.directory, 0, image.empty()));
  if (!started) return result::tool_failed(started.error());
  const auto answer = search::receive(started->socket());
  started->wait();
  if (!answer) return result::tool_failed("The state's sandbox ended before its time.");
  const std::string failure = answer->at("failure");
  if (!failure.empty()) return result::wrong_use(failure);
  return {};
}

result::Token DeviceFrontEnd::token(std::size_t) const { return token_of(plan_, trace_sum_); }

}  // namespace crashcut::device
