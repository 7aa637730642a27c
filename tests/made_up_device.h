// A made-up front end: a device that holds a number under each name, with puts and flushes. Puts persist in any order
// until a flush has waited for them. All that a front end needs is here; tests/search_test.cc shows what it gets for
// it.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "recovery/search/fork_worker.h"

namespace crashcut::tests {

// ---- the device, and its recorder -----------------------------------------------------------------------------------

class DeviceRecording final : public persist::Recording {
 public:
  // What a location holds as long as nothing that was put there has persisted: then what an earlier crash left shows.
  static constexpr persist::Value kNothing = ~persist::Value{0};

  DeviceRecording() { ops.push_back("the starting state"); }
  void put(const std::string& name, persist::Value value) {
    ops.push_back("put(" + name + ", " + std::to_string(value) + ")");
    const persist::LocationId at = location(name);
    const persist::EventId before = log.last_write(at);
    const std::vector<persist::EventId> after(before == persist::kNoEvent ? 0 : 1, before);
    add(log.add_event(last_op(), std::vector{persist::Write{at, value}}, after), "put");
  }
  void flush() {
    ops.push_back("flush()");
    std::vector<persist::EventId> all(log.event_count());
    for (persist::EventId e = 0; e < all.size(); ++e) all[e] = e;
    add(log.add_barrier(last_op(), {}, all), "flush");
  }
  persist::LocationId location(const std::string& name) {
    const auto [found, is_new] = locations_.try_emplace(name, 0);
    if (is_new) {
      found->second = log.add_location(kNothing);
      names_.push_back(name);
    }
    return found->second;
  }
  bool has(const std::string& name) const { return locations_.contains(name); }
  persist::LocationId known(const std::string& name) const { return locations_.at(name); }

  persist::ModelSpec model() const override { return {"a made-up device", {}}; }
  std::string_view kind_of(persist::EventId e) const override { return kinds_[e]; }
  bool is_sync(persist::EventId e) const override { return kinds_[e] == "flush"; }
  std::string describe_event(persist::EventId e) const override { return std::string(ops[log.op(e)]); }
  std::string describe_location(persist::LocationId l) const override { return names_[l]; }
  std::string describe_candidate(persist::LocationId, const persist::Candidate& candidate) const override {
    return candidate.value == kNothing ? "what was there before" : std::to_string(candidate.value);
  }
  std::vector<persist::Mark> marks() const override { return {}; }
  bool is_mark(persist::LocationId) const override { return false; }
  std::unique_ptr<persist::StableNames> stable_names() const override { return nullptr; }

 private:
  std::uint32_t last_op() const { return static_cast<std::uint32_t>(ops.size() - 1); }
  void add(persist::EventId, const char* kind) { kinds_.emplace_back(kind); }

  std::map<std::string, persist::LocationId> locations_;
  std::vector<std::string> names_;
  std::vector<std::string> kinds_;
};

// ---- its recovery ---------------------------------------------------------------------------------------------------

// The device as a recovery finds it.
class CrashedDevice {
 public:
  CrashedDevice(std::span<const search::Crash> crashes, persist::Chooser& chooser, DeviceRecording* next)
      : crashes_(crashes), chooser_(chooser), next_(next) {}
  // Of the newest crash that left something under the name; 0 where none did.
  persist::Value get(const std::string& name) {
    for (std::size_t i = crashes_.size(); i > 0; --i) {
      const auto& device = static_cast<const DeviceRecording&>(*crashes_[i - 1].recording);
      if (!device.has(name)) continue;
      const persist::Value value = crashes_[i - 1].cut->read(device.known(name), chooser_);
      if (value != DeviceRecording::kNothing) return value;
    }
    return 0;
  }
  void put(const std::string& name, persist::Value value) { next_ ? next_->put(name, value) : void(); }
  void flush() { next_ ? next_->flush() : void(); }

 private:
  std::span<const search::Crash> crashes_;
  persist::Chooser& chooser_;
  DeviceRecording* next_;
};

using Program = std::function<void(DeviceRecording&)>;
// What it found, in words; words that begin with "bad" are a violation.
using Recovery = std::function<std::string(CrashedDevice&)>;

class DeviceRecoverer final : public search::Recoverer {
 public:
  explicit DeviceRecoverer(const Recovery& recovery) : recovery_(recovery) {}
  search::Ending recover(std::size_t, std::span<const search::Crash> crashes, persist::Chooser& chooser,
                         std::shared_ptr<const persist::Recording>* next) override {
    auto recording = std::make_shared<DeviceRecording>();
    CrashedDevice device(crashes, chooser, next ? recording.get() : nullptr);
    search::Ending ending;
    ending.outcome = ending.output = recovery_(device);
    ending.kind = ending.outcome.starts_with("bad") ? search::Ending::Kind::kViolation : search::Ending::Kind::kFine;
    ending.finding.kind = "bad state";
    ending.finding.text = ending.outcome;
    recording->log.seal();
    if (next) *next = recording;
    return ending;
  }
  bool runs_code(std::size_t) const override { return true; }

 private:
  const Recovery& recovery_;
};

class DeviceFrontEnd final : public search::FrontEnd {
 public:
  DeviceFrontEnd(const Program& program, Recovery recovery) : recovery_(std::move(recovery)) {
    program(recording_);
    recording_.log.seal();
  }
  const Recovery& recovery() const { return recovery_; }
  const persist::Recording& recording() const { return recording_; }
  search::RecordingFacts facts() const override { return search::facts_of(recording_); }
  std::vector<std::string> subjects() const override { return {"recovery"}; }
  tl::expected<std::unique_ptr<search::Worker>, search::Failure> start_worker(
      const search::WorkerSetup& setup) override {
    return search::fork_worker([this, setup](int socket) {
      DeviceRecoverer recoverer(recovery_);
      search::serve(socket, setup, recording_, recoverer);
    });
  }
  std::string explain(std::size_t, const search::NarratedRun& told) const override {
    return "a crash can leave a " + told.run.ending.outcome;
  }
  result::Token token(std::size_t) const override { return {.command = "device", .program = "a test"}; }

 private:
  DeviceRecording recording_;
  Recovery recovery_;
};

}  // namespace crashcut::tests
