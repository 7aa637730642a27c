#include "recovery/mounted/explorer.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

#include "persist/check.h"
#include "persist/fixed_cut.h"
#include "recovery/mounted/copy_out.h"
#include "recovery/mounted/following.h"

namespace crashcut::mounted {

using fusefs::CrashView;
using fusefs::Filesystem;
using persist::Choice;
using persist::ChoiceTree;

// A crash that has been decided in part.
struct Explorer::Crash {
  const fusefs::Recording* recording;
  persist::Cut* cut;
};
struct Explorer::Layers {
  std::vector<Crash> crashes;  // the first is of the program
};

namespace {

// Keeps what another chooser answered.
class Noting final : public persist::Chooser {
 public:
  explicit Noting(persist::Chooser& chooser) : chooser_(chooser) {}
  std::uint32_t choose(const Choice& choice) override {
    path.push_back(chooser_.choose(choice));
    return path.back();
  }
  std::vector<std::uint32_t> path;

 private:
  persist::Chooser& chooser_;
};

// Answers as a path says, and tells what was asked.
class Telling final : public persist::Chooser {
 public:
  Telling(std::span<const std::uint32_t> path, const std::vector<const fusefs::Recording*>& recordings)
      : path_(path), recordings_(recordings) {}

  std::uint32_t choose(const Choice& choice) override {
    std::uint32_t taken = 0;
    if (at_ < path_.size() && path_[at_] < choice.candidates.size()) {
      taken = path_[at_];
    } else {
      diverged = true;
    }
    ++at_;
    for (std::size_t i = 0; i < recordings_.size(); ++i) {
      if (&recordings_[i]->log != &choice.log) continue;
      result::Observation observation{
          recordings_[i]->describe_location(choice.location), {}, taken, static_cast<std::uint32_t>(i + 1)};
      for (const persist::Candidate& candidate : choice.candidates) {
        observation.candidates.push_back(recordings_[i]->describe_candidate(choice.location, candidate));
      }
      observations.push_back(std::move(observation));
    }
    return taken;
  }
  bool is_at_end() const { return at_ == path_.size(); }

  std::vector<result::Observation> observations;
  bool diverged = false;

 private:
  std::span<const std::uint32_t> path_;
  const std::vector<const fusefs::Recording*>& recordings_;
  std::size_t at_ = 0;
};

// A crashed disk that a command can work on.
class CrashedDisk {
 public:
  CrashedDisk(const fusefs::Recording& recording, fusefs::Medium& medium, fusefs::Recorder* recorder)
      : filesystem(Filesystem::Setup{.recorder = recorder,
                                     .medium = &medium,
                                     .sector_bytes = recording.options.sector_bytes,
                                     .block_bytes = recording.options.block_bytes,
                                     .noatime = true,
                                     .clock = clock.reader()}),
        changes(filesystem, clock, nullptr, recorder),
        volume{filesystem, changes, {}} {}

  fusefs::TraceClock clock;
  Filesystem filesystem;
  fusefs::Traced changes;
  fusefs::Volume volume;
};

std::string join_marks(const std::vector<persist::Mark>& marks, bool lines, CrashView& view) {
  std::string text;
  for (const persist::Mark& mark : marks) {
    if (is_promise(mark.text) == lines) continue;
    if (!view.reached(mark.text)) break;  // marks are a chain
    text += (lines ? mark.text.substr(mark.text.find(": ") + 2) : mark.text) + "\n";
  }
  return text;
}

result::Crash tell_crash(const persist::Recording& recording, const persist::Cut& cut) {
  const persist::Log& log = recording.log;
  result::Crash crash;
  crash.operations.resize(recording.ops.size());
  for (std::size_t i = 0; i < recording.ops.size(); ++i) crash.operations[i].text = recording.ops[i];
  for (persist::EventId e = 0; e < log.event_count(); ++e) {
    const bool persisted = cut.is_in(e);
    if (persisted) crash.persisted.push_back(e);
    if (recording.kind_of(e).empty()) continue;  // a moment, and nothing that a disk holds
    crash.operations[log.op(e)].events.push_back(result::Event{e, std::string(recording.kind_of(e)),
                                                               recording.describe_event(e), recording.is_sync(e),
                                                               log.cover(e) <= log.durable_barrier(), persisted});
  }
  return crash;
}

}  // namespace

std::string subject_of(const Question& question) {
  const auto* file = std::get_if<FileQuestion>(&question);
  return file ? file->path : "the checker";
}

Explorer::Explorer(Setup setup)
    : setup_(setup),
      marks_(setup.recording.marks()),
      cut_(std::make_unique<persist::Cut>(setup.recording.log)),
      found_(std::make_unique<Layers>(Layers{{Crash{&setup_.recording, cut_.get()}}})) {}
Explorer::~Explorer() = default;

Run Explorer::run_on(const Question& question, Layers& layers, persist::Chooser& chooser,
                     std::unique_ptr<fusefs::Recorder>* recorder) {
  std::deque<CrashView> views;
  for (const Crash& crash : layers.crashes) {
    views.emplace_back(*crash.recording, *crash.cut, chooser, views.empty() ? nullptr : &views.back());
  }
  Run run;
  run.layer = static_cast<std::uint32_t>(layers.crashes.size());
  const fusefs::ModelOptions& options = setup_.recording.options;
  if (const auto* file = std::get_if<FileQuestion>(&question)) {
    Filesystem filesystem(Filesystem::Setup{
        .medium = &views.back(), .sector_bytes = options.sector_bytes, .block_bytes = options.block_bytes});
    run.result.answer = ask(*file, setup_.histories, views.back(), filesystem);
  } else {
    if (recorder) *recorder = std::make_unique<fusefs::Recorder>(options, &views.back());
    CrashedDisk disk(setup_.recording, views.back(), recorder ? recorder->get() : nullptr);
    disk.volume.special_files = {{"marks", [&] { return join_marks(marks_, false, views.front()); }, nullptr},
                                 {"stdout", [&] { return join_marks(marks_, true, views.front()); }, nullptr}};
    std::vector<std::string> certain;
    for (const persist::Mark& mark : marks_) {
      if (layers.crashes.front().cut->is_in(mark.event)) certain.push_back(mark.text);
    }
    CHECK(setup_.runner);
    run.result =
        setup_.runner->run(disk.volume, certain, [&](const std::string& mark) { return views.front().reached(mark); });
    if (recorder) (*recorder)->seal();
  }
  run.events_in = static_cast<std::uint32_t>(layers.crashes.front().cut->events_in().size());
  return run;
}

Run Explorer::run(const Question& question, ChoiceTree& tree, const std::function<void(const Run&)>& on_run) {
  cut_->reset();
  Layers layers{{Crash{&setup_.recording, cut_.get()}}};
  const bool goes_deeper = setup_.depth > 1 && std::holds_alternative<CommandQuestion>(question);
  std::unique_ptr<fusefs::Recorder> recorder;
  tree.begin_run();
  Run run = run_on(question, layers, tree, goes_deeper ? &recorder : nullptr);
  run.path = tree.path();
  run.diverged = tree.run_diverged();
  run.is_cut_short = run.result.was_stopped;
  if (run.is_cut_short) return run;
  on_run(run);
  if (recorder && !run.diverged && run.result.failure.empty())
    run.is_cut_short = !explore_below(question, layers, run, *recorder, on_run);
  return run;
}

bool Explorer::explore_below(const Question& question, const Layers& layers, const Run& above,
                             const fusefs::Recorder& recorder, const std::function<void(const Run&)>& on_run) {
  const fusefs::Recording& recording = recorder.recording();
  if (recording.log.event_count() == 0) return true;  // it wrote nothing: the second recovery is the first
  const bool goes_deeper = layers.crashes.size() + 1 < setup_.depth;
  ChoiceTree tree;
  do {
    if (setup_.is_enough()) return false;
    // The cuts above are decided as far as the recoveries above read them, and may be decided further here.
    std::deque<persist::Cut> cuts;
    Layers below;
    for (const Crash& crash : layers.crashes)
      below.crashes.push_back(Crash{crash.recording, &cuts.emplace_back(*crash.cut)});
    below.crashes.push_back(Crash{&recording, &cuts.emplace_back(recording.log)});
    std::unique_ptr<fusefs::Recorder> next;
    tree.begin_run();
    Run run = run_on(question, below, tree, goes_deeper ? &next : nullptr);
    run.path = above.path;
    run.path.push_back(kCrashAgain);
    for (const std::uint32_t answer : tree.path()) run.path.push_back(answer);
    run.diverged = tree.run_diverged();
    if (run.result.was_stopped) return false;
    std::swap(found_->crashes, below.crashes);
    on_run(run);
    std::swap(found_->crashes, below.crashes);
    if (run.diverged || !run.result.failure.empty()) return true;
    if (next && !explore_below(question, below, run, *next, on_run)) return false;
  } while (tree.advance());
  return true;
}

// A path, followed to its end: all of its crashes, and what was asked on the way.
struct Explorer::Followed {
  Run run;
  Layers layers;
  std::deque<persist::Cut> cuts;
  std::deque<std::unique_ptr<fusefs::Recorder>> recorders;
  std::vector<std::vector<result::Observation>> observations;
};

Explorer::Followed Explorer::follow(const Question& question, const std::vector<std::uint32_t>& path) {
  Followed followed;
  followed.layers.crashes.push_back(Crash{&setup_.recording, &followed.cuts.emplace_back(setup_.recording.log)});
  std::vector<const fusefs::Recording*> recordings{&setup_.recording};
  std::span<const std::uint32_t> left = path;
  for (;;) {
    const auto end = std::find(left.begin(), left.end(), kCrashAgain);
    const bool is_last = end == left.end();
    Telling chooser(left.first(static_cast<std::size_t>(end - left.begin())), recordings);
    std::unique_ptr<fusefs::Recorder> recorder;
    followed.run = run_on(question, followed.layers, chooser, is_last ? nullptr : &recorder);
    followed.observations.push_back(std::move(chooser.observations));
    followed.run.diverged = chooser.diverged || !chooser.is_at_end();
    if (is_last || followed.run.diverged) break;
    left = left.subspan(static_cast<std::size_t>(end - left.begin()) + 1);
    followed.recorders.push_back(std::move(recorder));
    recordings.push_back(&followed.recorders.back()->recording());
    followed.layers.crashes.push_back(Crash{recordings.back(), &followed.cuts.emplace_back(recordings.back()->log)});
  }
  followed.run.path = path;
  return followed;
}

Told Explorer::tell(const Question& question, const std::vector<std::uint32_t>& path) {
  Followed followed = follow(question, path);
  Told told{std::move(followed.run), {}};
  const auto& crashes = followed.layers.crashes;
  for (std::size_t i = 0; i < crashes.size() && i < followed.observations.size(); ++i) {
    result::Crash crash = tell_crash(*crashes[i].recording, *crashes[i].cut);
    for (result::Observation& observation : followed.observations[i]) {
      crash.calls.push_back(result::Call{"", {std::move(observation)}});
    }
    told.story.crashes.push_back(std::move(crash));
  }
  return told;
}

Run Explorer::run_cut(const Question& question, const std::vector<std::uint32_t>& events, std::uint32_t drop) {
  persist::FixedCut chooser(setup_.recording.log, events);
  chooser.drop(drop);
  return sample(question, chooser);
}

Run Explorer::sample(const Question& question, persist::Chooser& chooser) {
  cut_->reset();
  Layers layers{{Crash{&setup_.recording, cut_.get()}}};
  Noting noting(chooser);
  Run run = run_on(question, layers, noting, nullptr);
  run.path = std::move(noting.path);
  return run;
}

// The disk after the last of the crashes.
template <class Use>
static std::string on_views(const auto& crashes, Use&& use) {
  Following newest;
  std::deque<persist::Cut> cuts;  // what is read here is decided here only
  std::deque<CrashView> views;
  for (const auto& crash : crashes)
    views.emplace_back(*crash.recording, cuts.emplace_back(*crash.cut), newest,
                       views.empty() ? nullptr : &views.back());
  return use(views);
}

static std::string copy_last(const auto& crashes, const std::string& directory) {
  return on_views(crashes, [&](std::deque<CrashView>& views) {
    const fusefs::ModelOptions& options = crashes.front().recording->options;
    Filesystem filesystem(Filesystem::Setup{
        .medium = &views.back(), .sector_bytes = options.sector_bytes, .block_bytes = options.block_bytes});
    return copy_out(filesystem, directory);
  });
}

std::string Explorer::copy_state(const std::string& directory) const { return copy_last(found_->crashes, directory); }

static std::string failure_of(const Run& run) {
  if (!run.result.failure.empty()) return run.result.failure;
  return run.diverged
             ? "The state did not come out the same again: the checker has changed since, or it is not deterministic."
             : "";
}

std::string Explorer::copy_state(const Question& question, const std::vector<std::uint32_t>& path,
                                 const std::string& directory) {
  const Followed followed = follow(question, path);
  if (const std::string failure = failure_of(followed.run); !failure.empty()) return failure;
  const std::string failure = copy_last(followed.layers.crashes, directory);
  return failure.empty() ? failure : fmt::format("The state could not be written: {}.", failure);
}

std::string Explorer::visit_state(const Question& question, const std::vector<std::uint32_t>& path,
                                  const std::function<CommandRunner&()>& visitor) {
  const Followed followed = follow(question, path);
  if (const std::string failure = failure_of(followed.run); !failure.empty()) return failure;
  return on_views(followed.layers.crashes, [&](std::deque<CrashView>& views) {
    CrashedDisk disk(setup_.recording, views.back(), nullptr);
    disk.volume.special_files = {{"marks", [&] { return join_marks(marks_, false, views.front()); }, nullptr},
                                 {"stdout", [&] { return join_marks(marks_, true, views.front()); }, nullptr}};
    return visitor().run(disk.volume, {}, [&](const std::string& mark) { return views.front().reached(mark); }).failure;
  });
}

}  // namespace crashcut::mounted
