// DeviceFrontEnd: a recorded device for the search: its trace on one drive, and the checker that looks at its crashes.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "blocklayer/trace.h"
#include "recovery/device/plan.h"
#include "recovery/sandbox/sandbox.h"
#include "recovery/search/front_end.h"

namespace crashcut::device {

class DeviceFrontEnd final : public search::FrontEnd {
 public:
  // Reads the trace in the plan's directory.
  static tl::expected<std::unique_ptr<DeviceFrontEnd>, Failure> open(const CheckPlan& plan);

  // The program with flushes that it did not do, and the same checker.
  tl::expected<std::unique_ptr<DeviceFrontEnd>, Failure> with_flushes(
      std::span<const persist::AddedSync> flushes) const;

  const blocklayer::DriveRecording& recording() const { return *recording_; }
  search::RecordingFacts facts() const override { return search::facts_of(*recording_); }
  std::vector<std::string> subjects() const override { return {"the checker"}; }
  bool has_room(std::uint32_t worker_count) const override { return !is_alone_ && worker_count < 256; }
  tl::expected<std::unique_ptr<search::Worker>, Failure> start_worker(const search::WorkerSetup& setup) override;
  result::Names names(std::size_t) const override { return {"the program", "the checker"}; }
  std::string explain(std::size_t question, const search::NarratedRun& told) const override;
  result::Token token(std::size_t question) const override;

  const blocklayer::DeviceTrace& trace() const { return *trace_; }

  // In a sandbox, on the device that the crashes of a path left; what the checker did not read is the newest. With
  // `image` empty a person's shell is opened there, else the device is written to that file.
  tl::expected<void, Failure> visit(std::uint32_t depth, const std::vector<std::uint32_t>& path,
                                    const std::string& image);

 private:
  DeviceFrontEnd(const CheckPlan& plan, std::shared_ptr<blocklayer::DeviceTrace> trace,
                 std::shared_ptr<blocklayer::DriveRecording> recording);
  int work(const sandbox::Inside& inside, const search::WorkerSetup& setup) const;

  CheckPlan plan_;
  std::shared_ptr<blocklayer::DeviceTrace> trace_;
  std::shared_ptr<blocklayer::DriveRecording> recording_;
  std::uint64_t trace_sum_;
  bool is_alone_ = false;  // no second worker has room: there are no mount namespaces
};

}  // namespace crashcut::device
