#include "recovery/inprocess/front_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <set>

#include "recovery/inprocess/read_story.h"
#include "recovery/result/words.h"
#include "recovery/search/worker.h"

namespace crashcut::inprocess {
namespace {

using persist::Estimate;
using search::Ending;
using search::Message;
using search::NarratedRun;
using search::Task;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTallyEvery{100};

// Its bytes: two that look alike on one line are not the same.
std::string outcome_of(const Recovery& recovery) {
  return std::string(recovery.output) +
         (recovery.output_cut ? fmt::format("... (and more, of hash {:08x})", recovery.output_rest) : "");
}

// "recovery aborted (SIGABRT)"
result::Finding finding_of(const Recovery& recovery) {
  result::Finding finding;
  finding.message = result::last_line(recovery.errors);
  if (recovery.kind == RecordKind::kExited) {
    finding.kind = "exit";
    finding.code = recovery.exit_code;
    finding.text = fmt::format("recovery exited with status {}", recovery.exit_code);
  } else if (recovery.kind == RecordKind::kSignalled) {
    finding.kind = "signal";
    finding.code = recovery.signal;
    finding.text = recovery.signal == SIGABRT
                       ? "recovery aborted (SIGABRT)"
                       : fmt::format("recovery was killed by {} ({})", result::signal_text(recovery.signal),
                                     strsignal(recovery.signal));
  } else if (recovery.kind == RecordKind::kHung) {
    finding.kind = "hang";
    finding.code = static_cast<int>(recovery.limit.count());
    finding.text = recovery.limit.count() == 0
                       ? "recovery never ends"
                       : fmt::format("recovery did not end within the limit of {} (--recovery-limit)",
                                     result::seconds_text(recovery.limit));
  } else {
    finding.kind = recovery.kind == RecordKind::kOk ? "ok" : "assumed away";
    finding.text =
        recovery.kind == RecordKind::kOk ? "recovery succeeded" : "recovery was assumed away (crashcut_assume)";
  }
  return finding;
}

Ending ending_of(const Recovery& recovery, const Prefixes* prefixes) {
  Ending ending;
  switch (recovery.kind) {
    case RecordKind::kOk:
      ending.outcome = outcome_of(recovery);
      if (prefixes == nullptr || prefixes->is_expected(recovery)) break;
      ending.kind = Ending::Kind::kViolation;
      ending.finding = prefixes->finding_of(recovery);
      break;
    case RecordKind::kAssumedAway:
      ending.kind = Ending::Kind::kAssumedAway;
      break;
    case RecordKind::kToolError:
      ending.kind = Ending::Kind::kNotRun;
      ending.failure = {recovery.blame, std::string(recovery.text)};
      break;
    default:
      ending.kind = Ending::Kind::kViolation;
      ending.outcome = outcome_of(recovery);
      ending.finding = finding_of(recovery);
      ending.is_slow = recovery.kind == RecordKind::kHung && recovery.limit.count() != 0;
  }
  return ending;
}

search::Run run_of(const Recovery& recovery, const Prefixes* prefixes) {
  return {ending_of(recovery, prefixes), recovery.path, recovery.events_in, recovery.layer, false};
}

class ProgramWorker final : public search::Worker {
 public:
  ProgramWorker(Session& session, search::Shared& shared, const Prefixes* prefixes)
      : session_(session), shared_(shared), prefixes_(prefixes) {}

  void begin(const Task& task) override {
    task_ = task;
    tally_ = {};
    is_refused_ = is_describing_ = false;
    done_at_begin_ = session_.explored_count();
    if (task.kind == Task::Kind::kExplore || task.kind == Task::Kind::kSample) return begin_many();
    is_describing_ = task.kind == Task::Kind::kTell && description_.empty();
    is_describing_ ? session_.begin_describe() : begin_one();
  }

  int fd() const override { return session_.fd(); }
  bool takes_all_units() const override { return true; }

  tl::expected<Message, Failure> receive(bool is_readable) override {
    if (is_refused_) return refusal();
    if (shared_.stop) session_.stop();
    const auto ended = session_.advance(is_readable, [this](const Recovery& recovery) { add(recovery); });
    if (!ended) return tl::unexpected(ended.error());
    if (task_.kind == Task::Kind::kTell || task_.kind == Task::Kind::kRunCut) return *ended ? end_of_one() : Message{};
    return message_of_many(*ended);
  }

 private:
  void begin_many() {
    // Nothing may be run: a limit of nothing would be none.
    is_refused_ = shared_.is_enough();
    if (is_refused_) return;
    if (task_.kind == Task::Kind::kSample)
      return session_.begin_sample(static_cast<search::Strategy>(task_.strategy), task_.seed, task_.count);
    const std::uint64_t most = shared_.recoveries_max;
    session_.begin_explore(parts(), most == 0 ? 0 : most - shared_.recoveries);
  }

  std::vector<persist::Part> parts() const {
    std::vector<persist::Part> parts;
    for (const search::Unit& unit : task_.units) parts.push_back(unit.part);
    return parts;
  }

  Message refusal() {
    is_refused_ = false;
    Message message;
    message.is_ready = true;
    message.left = parts();
    return message;
  }

  void add(const Recovery& recovery) {
    if (task_.kind == Task::Kind::kSample && !seen_.insert(recovery.path).second) return;
    search::Run run{ending_of(recovery, prefixes_), {}, recovery.events_in, recovery.layer, false};
    run.has_path = tally_.keeps_path(task_.question, run.ending, recovery.path.size());
    if (run.has_path) run.path = recovery.path;
    tally_.add(task_.question, run);
    ++shared_.recoveries;
  }

  Message message_of_many(bool has_ended) {
    Message message;
    if (!has_ended && Clock::now() - last_tally_ < kTallyEvery) return message;
    last_tally_ = Clock::now();
    message.is_ready = has_ended;
    if (task_.kind == Task::Kind::kExplore) {
      message.done = session_.explored_count() - done_at_begin_;
      message.size = size_of_units(message.done);
      if (has_ended) {
        message.left = session_.left();
        message.is_broken = session_.is_lost() || !tally_.not_run.empty();
      }
    }
    message.tally = std::exchange(tally_, {});
    return message;
  }

  // The session's estimate is of the whole tree. If another search ran a part of it, that part is not among what the
  // session has seen, and what that search thought of the rest counts, too.
  Estimate size_of_units(double done) const {
    const double before = task_.done_before + done_at_begin_;
    Estimate size = session_.explored_estimate();
    for (double* part : {&size.low, &size.likely, &size.high}) *part = std::max(*part - before, done);
    if (task_.done_before == 0) return size;
    Estimate known{0, 0, 0};
    for (const search::Unit& unit : task_.units) known += unit.size.value_or(Estimate{});
    return {size.low, std::max(size.likely, known.likely), std::max(size.high, known.high)};
  }

  void begin_one() {
    if (task_.kind == Task::Kind::kTell) return session_.begin_replay(task_.path);
    session_.begin_run_cut(task_.events, task_.drop);
  }

  tl::expected<Message, Failure> end_of_one() {
    if (is_describing_) {
      auto description = session_.description();
      if (!description) return tl::unexpected(description.error());
      if (description->empty()) return stopped();
      description_ = std::move(*description);
      is_describing_ = false;
      begin_one();
      return Message{};
    }
    const auto single = session_.single_run();
    if (!single) return tl::unexpected(single.error());
    if (single->is_stopped) return stopped();
    Recovery recovery = single->recovery;
    recovery.output = single->output;
    recovery.errors = single->errors;
    recovery.text = single->text;
    NarratedRun narrated{run_of(recovery, prefixes_), {}};
    const bool is_told = recovery.kind == RecordKind::kOk && narrated.run.ending.is_violation();
    if (!is_told) narrated.run.ending.finding = finding_of(recovery);
    narrated.run.diverged = single->diverged;
    if (task_.kind == Task::Kind::kTell) {
      narrated.run.path = task_.path;
      auto story = read_story(description_, single->trace);
      if (!story) return tl::unexpected(result::tools_failure(story.error()));
      narrated.story = std::move(*story);
      narrated.story.output = single->output;
      narrated.story.errors = single->errors;
      narrated.story.output_cut = recovery.output_cut;
      narrated.story.errors_cut = recovery.errors_cut;
    }
    return with(std::move(narrated));
  }

  static Message with(NarratedRun narrated) {
    Message message;
    message.is_ready = true;
    message.narrated_run = std::move(narrated);
    return message;
  }

  static Message stopped() {
    NarratedRun narrated;
    narrated.run.ending.kind = Ending::Kind::kStopped;
    return with(std::move(narrated));
  }

  Session& session_;
  search::Shared& shared_;
  const Prefixes* prefixes_;
  Task task_;
  search::Tally tally_;
  Clock::time_point last_tally_{};
  double done_at_begin_ = 0;
  bool is_refused_ = false;
  bool is_describing_ = false;
  std::string description_;       // of the recording
  std::set<persist::Path> seen_;  // sampled
};

}  // namespace

search::RecordingFacts ProgramFrontEnd::facts() const {
  const Execution& execution = session_.execution();
  // The first operation is the starting state.
  return {execution.fingerprint, execution.op_count - std::min<std::uint64_t>(execution.op_count, 1),
          execution.event_count};
}

tl::expected<std::unique_ptr<search::Worker>, Failure> ProgramFrontEnd::start_worker(const search::WorkerSetup& setup) {
  return std::make_unique<ProgramWorker>(session_, setup.shared, prefixes_);
}

}  // namespace crashcut::inprocess
