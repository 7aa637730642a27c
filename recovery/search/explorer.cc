#include "recovery/search/explorer.h"

#include <algorithm>

#include "persist/fixed_cut.h"
#include "persist/moments.h"
#include "recovery/result/path.h"

namespace crashcut::search {

using persist::Choice;
using persist::ChoiceTree;
using persist::Cut;
using persist::Path;
using result::kCrashAgain;

namespace {

// Keeps what another chooser answered.
class Noting final : public persist::Chooser {
 public:
  explicit Noting(persist::Chooser& chooser) : chooser_(chooser) {}
  std::uint32_t choose(const Choice& choice) override {
    path.push_back(chooser_.choose(choice));
    return path.back();
  }
  Path path;

 private:
  persist::Chooser& chooser_;
};

// Answers as a path says, and tells what was asked.
class Telling final : public persist::Chooser {
 public:
  Telling(std::span<const std::uint32_t> path, std::span<const Crash> crashes) : path_(path), crashes_(crashes) {}

  std::uint32_t choose(const Choice& choice) override {
    std::uint32_t taken = 0;
    if (at_ < path_.size() && path_[at_] < choice.candidates.size()) {
      taken = path_[at_];
    } else {
      diverged_ = true;
    }
    ++at_;
    for (std::size_t i = 0; i < crashes_.size(); ++i) {
      const persist::Recording& recording = *crashes_[i].recording;
      if (&recording.log != &choice.log) continue;
      if (observations.size() == result::kCallsMost) {
        ++left_out;
        continue;
      }
      result::Observation observation{
          recording.describe_location(choice.location), {}, 0, static_cast<std::uint32_t>(i + 1)};
      for (const std::uint32_t shown : result::shown_candidates(choice.candidates.size(), taken)) {
        if (shown == taken) observation.taken = static_cast<std::uint32_t>(observation.candidates.size());
        observation.candidates.push_back(recording.describe_candidate(choice.location, choice.candidates[shown]));
      }
      observation.candidates_left_out = choice.candidates.size() - observation.candidates.size();
      observations.push_back(std::move(observation));
    }
    return taken;
  }
  bool diverged() const { return diverged_ || at_ != path_.size(); }

  std::vector<result::Observation> observations;
  std::uint64_t left_out = 0;  // observations beyond these

 private:
  std::span<const std::uint32_t> path_;
  std::span<const Crash> crashes_;
  std::size_t at_ = 0;
  bool diverged_ = false;
};

// The events of an operation follow one another. Those that are not told in words are counted; a brief story has none
// in words.
result::Crash tell_crash(const Crash& from, bool is_brief) {
  const persist::Recording& recording = *from.recording;
  const persist::Log& log = recording.log;
  const auto is_durable = [&](persist::EventId e) { return log.cover(e) <= log.durable_barrier(); };
  result::Crash crash;
  const persist::Moments moments = persist::moments_of(recording, *from.cut);
  crash.earliest = moments.earliest;
  crash.latest = moments.latest;
  crash.operations.resize(recording.ops.size());
  for (persist::EventId e = 0; e < log.event_count(); ++e) {
    const bool persisted = from.cut->is_in(e);
    if (persisted) crash.persisted.push_back(e);
    if (recording.kind_of(e).empty()) continue;  // a moment, and nothing that the medium holds
    result::EventCounts& counts = crash.operations[log.op(e)].left_out;
    ++counts.all;
    counts.persisted += persisted || is_durable(e);
    counts.durable += is_durable(e);
    counts.sync += recording.is_sync(e);
  }
  if (is_brief) return crash;
  for (std::size_t i = 0; i < recording.ops.size(); ++i) crash.operations[i].text = recording.ops[i];
  std::vector<bool> is_shown(crash.operations.size(), false);
  for (const std::size_t i : result::shown_operations(crash.operations)) is_shown[i] = true;
  std::size_t left = result::kEventsMost;
  for (persist::EventId e = 0; e < log.event_count(); ++e) {
    if (recording.kind_of(e).empty()) continue;
    result::Operation& operation = crash.operations[log.op(e)];
    // A sync or a mark is told in any case: an explanation looks for those.
    const bool is_first_sync = operation.events.empty() && recording.is_sync(e);
    const bool has_room = is_shown[log.op(e)] && operation.events.size() < result::kEventsOfOperationMost && left > 0;
    if (!has_room && !is_first_sync) continue;
    const bool persisted = from.cut->is_in(e);
    left -= has_room;
    --operation.left_out.all;
    operation.left_out.persisted -= persisted || is_durable(e);
    operation.left_out.durable -= is_durable(e);
    operation.left_out.sync -= recording.is_sync(e);
    operation.events.push_back(result::Event{e, std::string(recording.kind_of(e)), recording.describe_event(e),
                                             recording.is_sync(e), is_durable(e), persisted});
  }
  return crash;
}

bool can_go_on(const Run& run) { return !run.diverged && run.ending.kind != Ending::Kind::kFailed; }

}  // namespace

// The crashes of one level of trees: those above are decided as far as the recoveries above have read, the last one is
// not decided at all. Each run decides them further, for itself.
class Explorer::Crashes {
 public:
  Crashes(std::span<const Crash> above, const persist::Recording& recording) : above_(above) {
    for (const Crash& crash : above) crashes_.push_back(Crash{crash.recording, &cuts_.emplace_back(*crash.cut)});
    crashes_.push_back(Crash{&recording, &cuts_.emplace_back(recording.log)});
  }
  Crashes(const Crashes&) = delete;

  std::span<const Crash> begin_run() {
    for (std::size_t i = 0; i < above_.size(); ++i) cuts_[i] = *above_[i].cut;
    cuts_.back().reset();
    return crashes_;
  }
  std::size_t size() const { return crashes_.size(); }

 private:
  std::span<const Crash> above_;
  std::deque<Cut> cuts_;
  std::vector<Crash> crashes_;
};

// A path, followed to its end: all of its crashes, and what was asked on the way.
struct Explorer::Followed {
  Run run;
  std::vector<Crash> crashes;
  std::deque<Cut> cuts;
  std::deque<std::shared_ptr<const persist::Recording>> recordings;
  std::vector<std::vector<result::Observation>> observations;
  std::vector<std::uint64_t> observations_left_out;
  std::shared_ptr<const persist::Recording> next;  // of the last recovery
};

Run Explorer::recover(std::size_t question, std::span<const Crash> crashes, persist::Chooser& chooser,
                      std::shared_ptr<const persist::Recording>* next) {
  Run run;
  run.layer = static_cast<std::uint32_t>(crashes.size());
  run.ending = setup_.recoverer.recover(question, crashes, chooser, next);
  run.events_in = static_cast<std::uint32_t>(crashes.front().cut->count_in());
  return run;
}

void Explorer::keep(const Path& base, const std::vector<Path>& prefixes, std::vector<Path>& to) {
  for (const Path& prefix : prefixes) {
    to.push_back(base);
    to.back().insert(to.back().end(), prefix.begin(), prefix.end());
  }
}

// Everything below what the crashes left. False where it was stopped; then left_ has what is left.
bool Explorer::explore_level(std::size_t question, Crashes& crashes, const Path& base, ChoiceTree& tree) {
  levels_.push_back({&tree, base});
  const bool goes_deeper = crashes.size() < setup_.depth && setup_.recoverer.runs_code(question);
  bool is_done = true;
  for (bool goes_on = true; goes_on;) {
    const std::span<const Crash> decided = crashes.begin_run();
    std::shared_ptr<const persist::Recording> next;
    Run run;
    if (setup_.is_enough()) {
      run.ending.kind = Ending::Kind::kStopped;
    } else {
      tree.begin_run();
      run = recover(question, decided, tree, goes_deeper ? &next : nullptr);
      if (run.ending.kind == Ending::Kind::kStopped) tree.abandon_run();
    }
    if (run.ending.kind == Ending::Kind::kStopped) {
      size_at_stop_ = estimate();
      left_.push_back(tree.left(base));
      is_done = false;
      break;
    }
    const Path own = tree.path();
    run.path = base;
    run.path.insert(run.path.end(), own.begin(), own.end());
    run.diverged = tree.run_diverged();
    const double before = done_;
    ++done_;
    setup_.on_run(run, decided);
    if (!can_go_on(run)) {
      is_broken_ = true;
      is_done = false;
      break;
    }
    if (next != nullptr && next->log.event_count() > 0) {
      Crashes below(decided, *next);
      Path deeper = run.path;
      deeper.push_back(kCrashAgain);
      ChoiceTree lower;
      if (!explore_level(question, below, deeper, lower)) {
        if (!is_broken_ && tree.advance(done_ - before)) left_.push_back(tree.left(base));
        is_done = false;
        break;
      }
    }
    goes_on = tree.advance(done_ - before);
  }
  levels_.pop_back();
  return is_done;
}

std::vector<persist::Part> Explorer::explore(std::size_t question, const persist::Part& part) {
  left_.clear();
  levels_.clear();
  done_ = 0;
  is_broken_ = false;
  const persist::PartialTree unit = persist::read_part(part);
  const auto last = std::find(unit.path.rbegin(), unit.path.rend(), kCrashAgain).base();
  const bool is_first = last == unit.path.begin();
  ChoiceTree tree = unit.rest.empty()
                        ? ChoiceTree(Path(last, unit.path.end()), {}, persist::AnswerOrder(is_first ? setup_.seed : 0))
                        : ChoiceTree::from_numbers(unit.rest);
  if (is_first) {
    Crashes crashes({}, setup_.recording);
    explore_level(question, crashes, {}, tree);
    return std::move(left_);
  }
  // The crashes above are decided by the path, and do not count: whoever left the unit has counted them.
  Followed followed = follow(question, {unit.path.begin(), last - 1}, true);
  if (followed.run.ending.kind == Ending::Kind::kStopped) return {part};
  if (!can_go_on(followed.run) || followed.next == nullptr) {
    followed.run.diverged = followed.run.diverged || followed.next == nullptr;
    is_broken_ = true;
    setup_.on_run(followed.run, followed.crashes);
    return {};
  }
  Crashes crashes(followed.crashes, *followed.next);
  explore_level(question, crashes, Path(unit.path.begin(), last), tree);
  return std::move(left_);
}

Given Explorer::give_away() {
  for (const Level& level : levels_) {
    const ChoiceTree::Split split = level.tree->split();
    if (split.prefixes.empty()) continue;
    Given given{{}, split.each};
    keep(level.base, split.prefixes, given.prefixes);
    return given;
  }
  return {};
}

persist::Estimate Explorer::estimate() const {
  if (levels_.empty()) return size_at_stop_;
  persist::Estimate open;
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level) {
    const persist::Estimate whole = level->tree->estimate(open);
    open = whole;
    if (level + 1 != levels_.rend()) open += persist::Estimate{};  // the recovery that it hangs below
  }
  return open;
}

Explorer::Followed Explorer::follow(std::size_t question, std::span<const std::uint32_t> path, bool records_last) {
  Followed followed;
  followed.crashes.push_back(Crash{&setup_.recording, &followed.cuts.emplace_back(setup_.recording.log)});
  std::span<const std::uint32_t> left = path;
  for (;;) {
    const auto end = std::find(left.begin(), left.end(), kCrashAgain);
    const bool is_last = end == left.end();
    Telling chooser(left.first(static_cast<std::size_t>(end - left.begin())), followed.crashes);
    std::shared_ptr<const persist::Recording> next;
    followed.run = recover(question, followed.crashes, chooser, is_last && !records_last ? nullptr : &next);
    followed.observations.push_back(std::move(chooser.observations));
    followed.observations_left_out.push_back(chooser.left_out);
    followed.run.diverged = chooser.diverged();
    if (is_last) followed.next = next;
    if (is_last || followed.run.ending.kind == Ending::Kind::kStopped || !can_go_on(followed.run)) break;
    if (next == nullptr) {  // it cannot be crashed, and the path says that it was
      followed.run.diverged = true;
      break;
    }
    left = left.subspan(static_cast<std::size_t>(end - left.begin()) + 1);
    followed.crashes.push_back(Crash{next.get(), &followed.cuts.emplace_back(next->log)});
    followed.recordings.push_back(std::move(next));
  }
  followed.run.path.assign(path.begin(), path.end());
  return followed;
}

NarratedRun Explorer::tell(std::size_t question, const std::vector<std::uint32_t>& path, bool is_brief) {
  Followed followed = follow(question, path, false);
  NarratedRun told{std::move(followed.run), {}};
  for (std::size_t i = 0; i < followed.crashes.size() && i < followed.observations.size(); ++i) {
    result::Crash crash = tell_crash(followed.crashes[i], is_brief);
    crash.calls_left_out = followed.observations_left_out[i];
    for (result::Observation& observation : followed.observations[i])
      crash.calls.push_back(result::Call{"", {std::move(observation)}});
    told.story.crashes.push_back(std::move(crash));
  }
  if (!is_brief) told.story.files = setup_.recoverer.files(question, followed.crashes);
  told.story.output = told.run.ending.output;
  told.story.errors = told.run.ending.errors;
  told.story.output_cut = told.run.ending.output_cut;
  told.story.errors_cut = told.run.ending.errors_cut;
  return told;
}

void Explorer::visit(std::size_t question, const std::vector<std::uint32_t>& path,
                     const std::function<void(const Run&, std::span<const Crash>)>& visitor) {
  const Followed followed = follow(question, path, false);
  visitor(followed.run, followed.crashes);
}

Run Explorer::sample(std::size_t question, persist::Chooser& chooser) {
  if (!sample_cut_) sample_cut_.emplace(setup_.recording.log);
  sample_cut_->reset();
  Noting noting(chooser);
  sample_crash_ = Crash{&setup_.recording, &*sample_cut_};
  Run run = recover(question, sampled(), noting, nullptr);
  run.path = std::move(noting.path);
  return run;
}

Run Explorer::run_cut(std::size_t question, const std::vector<std::uint32_t>& events, std::uint32_t drop) {
  const persist::Log& log = setup_.recording.log;
  if (drop < log.event_count() && log.cover(drop) <= log.durable_barrier()) return {};  // no crash is without it
  persist::FixedCut chooser(log, events);
  chooser.drop(drop);
  return sample(question, chooser);
}

}  // namespace crashcut::search
