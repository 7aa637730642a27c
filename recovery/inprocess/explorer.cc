#include "recovery/inprocess/explorer.h"

#include <algorithm>
#include <cstring>

#include "inject/arena.h"
#include "inject/gate.h"
#include "inject/interpose.h"
#include "persist/check.h"
#include "persist/hash.h"
#include "recovery/inprocess/memory/stuck.h"

namespace crashcut::inprocess {

constinit Explorer* g_explorer = nullptr;

namespace {

// What recoveries look at, by all processes of an exploration: a table in shared memory, open addressing, 0 is free.
class Observed final : public fusefs::Observer {
 public:
  void note(std::uint64_t name) override {
    name = name == 0 ? 1 : name;
    auto* slots = reinterpret_cast<std::atomic<std::uint64_t>*>(g.control + kObservedOffset);
    for (std::uint64_t i = name % kObservedSlots, tries = 0; tries < kObservedSlots / 2;
         i = (i + 1) % kObservedSlots, ++tries) {
      std::uint64_t found = slots[i].load(std::memory_order_relaxed);
      if (found == name) return;
      if (found == 0 && slots[i].compare_exchange_strong(found, name)) {
        g.header->observed_count.fetch_add(1);
        return;
      }
      if (found == name) return;
    }
    g.header->observed_count = kObservedSlots;  // full: nothing is known
  }
};
Observed g_observed;

bool is_stopped() { return g.header->stop.load(std::memory_order_relaxed) != 0; }

[[noreturn]] void end_process(Outcome outcome) {
  g.slot->outcome = outcome;
  if (g.restorable) go_on_with_next();
  kernel(SYS_exit_group, 0);
  __builtin_unreachable();
}

[[noreturn]] void too_many_choices() {
  user_error(
      "a recovery met more choices than crashcut can hold (some hundred thousands): it reads too many sectors, or "
      "words "
      "of persistent memory, that a crash can leave old or new. With a larger --sector there are fewer; or let "
      "crashcut_recover() read less");
}

void note_answer(std::uint32_t answer, std::uint32_t count) {
  const NotedAnswer noted{answer, count};
  if (!append_stream(*g.slot, kStreamAnswer, &noted, sizeof noted)) too_many_choices();
  ++g.slot->path_length;
}

void note_question(const persist::Question& question) {
  persist::Question* at = question_at(*g.slot, g.slot->choice_count);
  if (at == nullptr) too_many_choices();
  *at = question;
  ++g.slot->choice_count;
}

}  // namespace

Explorer::Explorer(RunRequest request) : request_(std::move(request)), order_(g.header->seed) {
  if (request_.kind != RequestKind::kRunCut) return;
  fixed_cut_.emplace(g.recorded->whole->log, request_.events);
  fixed_cut_->drop(request_.drop);
}

// What the crash of an execution must respect.
const persist::Log& Explorer::log_of(const Recorded& recorded) {
  const persist::Log& log = recorded.whole->log;
  // Where threads are scheduled, main() was recorded with them.
  const bool has_added = g.header->added_count > 0 && recorded.memory != nullptr && !inject::schedules_threads();
  if (!crashes_.empty() || !has_added) return log;
  const auto orders = pmem::orders_of(*recorded.memory, {g.header->added, g.header->added_count});
  if (!orders) tool_error("the flushes that were added order too much");
  log_with_flushes_ = std::make_unique<persist::Log>(log.with_orders(*orders));
  return *log_with_flushes_;
}

void Explorer::add_crash(const Recorded& recorded) {
  fusefs::CrashView* below = crashes_.empty() ? nullptr : crashes_.back().view.get();
  pmem::CrashView* memory_below = crashes_.empty() ? nullptr : memory();
  Crash crash;
  crash.recorded = &recorded;
  crash.cut = std::make_unique<persist::Cut>(log_of(recorded));
  crash.view = std::make_unique<fusefs::CrashView>(*recorded.files, *crash.cut, *this, below);
  if (recorded.memory != nullptr) {
    crash.memory = std::make_unique<pmem::CrashView>(*recorded.memory, *crash.cut, *this, memory_below,
                                                     static_cast<persist::LayerId>(crashes_.size()));
    if (g.header->notes != 0 && crashes_.empty()) {
      crash.memory->tell_of_certain(
          [this](persist::LocationId l, const persist::Candidate& candidate) { note_certain(l, candidate); });
    }
  }
  if (g.header->is_observing != 0 && crashes_.empty()) crash.view->set_observer(&g_observed);
  crashes_.push_back(std::move(crash));
  model_ = std::make_unique<Model>();
  model_->regions = *recorded.regions;
  model_->heap = PersistentHeap(recorded.heap);
  fusefs::CrashView* disk = crashes_.back().view.get();
  if (crashes_.size() < g.header->depth && request_.kind != RequestKind::kRunCut) {
    model_->recorder = std::make_unique<fusefs::Recorder>(g.header->model, disk);
    if (memory() != nullptr) record_memory();
  }
  model_->filesystem = std::make_unique<fusefs::Filesystem>(filesystem_setup(model_->recorder.get(), disk));
  model_->process = std::make_unique<fusefs::Process>(process_setup(*model_->filesystem));
}

// What this recovery stores may be crashed.
void Explorer::record_memory() {
  model_->memory = std::make_unique<pmem::Recorder>(pmem::RecorderOptions{.model = g.header->memory}, memory(),
                                                    &model_->recorder->recording());
  for (const NamedRegion& r : model_->regions) model_->memory->add_region(r.region, r.name);
  if (g.header->added_count == 0) return;
  // The same code may run again: a flush that main() lacks is tried there, too.
  model_->places = *g.recorded->places;
  model_->memory->add_flushes({g.header->added, g.header->added_count});
}

void Explorer::add_region(const pmem::Region& region, const std::string& name) {
  for (Crash& crash : crashes_) crash.memory->add_region(region);
  if (model_->memory != nullptr) model_->memory->add_region(region, name);
}

bool Explorer::wants_crash() const {
  if (model_->recorder == nullptr || request_.kind == RequestKind::kSample) return false;
  if (is_following()) return request_.path[position_] == kCrashAgain;
  return request_.kind != RequestKind::kReplay;
}

void Explorer::crash_again() {
  const Recorded* recorded = seal(*model_);
  std::unique_ptr<fusefs::Recorder> recorder = std::move(model_->recorder);
  std::unique_ptr<pmem::Recorder> memory = std::move(model_->memory);
  if (position_ < request_.path.size()) ++position_;  // the kCrashAgain
  note_answer(kCrashAgain, 1);
  mode_ = WorkMode::kBranch;
  // What the recovery had open belongs to its process; its image ends here.
  (void)model_.release();
  recorders_.push_back(std::move(recorder));
  memory_recorders_.push_back(std::move(memory));
  add_crash(*recorded);
  if (g.narrating) describe_recording(static_cast<std::uint32_t>(crashes_.size()), *recorded);
}

std::uint32_t Explorer::count_events_in() const {
  std::size_t count = 0;
  for (const Crash& crash : crashes_) count += crash.cut->count_in();
  return static_cast<std::uint32_t>(count);
}

// In the order in which main() made them, to the first that was not reached.
std::uint32_t Explorer::count_marks() {
  std::uint32_t count = 0;
  for (const persist::Mark& mark : g.recorded->whole->marks()) {
    if (!crashes_.front().view->reached(mark.text)) break;
    ++count;
  }
  return count;
}

std::uint32_t Explorer::layer_of(const persist::Log& log) const {
  for (std::size_t i = 0; i < crashes_.size(); ++i) {
    if (&crashes_[i].recorded->whole->log == &log || &crashes_[i].cut->log() == &log)
      return static_cast<std::uint32_t>(i + 1);
  }
  CHECK(false);
  return 0;
}

// A choice of an earlier recovery: the recoveries that are left below it begin here.
bool Explorer::wants_to_stand() const {
  return mode_ == WorkMode::kAgain && request_.kind == RequestKind::kExplore && is_following() && can_stand();
}

std::uint32_t Explorer::choose(const persist::Choice& choice) {
  end_round();
  if (wants_to_stand()) stand_at_choice();
  const std::uint32_t layer = layer_of(choice.log);
  note_question(choice.question());
  const std::uint32_t taken = answer(choice, layer);
  note_answer(taken, static_cast<std::uint32_t>(choice.candidates.size()));
  if (g.slot->killed.load(std::memory_order_relaxed) == kNotToBeKilled) let_watchdog_go();
  has_chosen_ = true;
  if (g.header->notes != 0 && layer == 1) note_choice(choice, crashes_.front(), taken, moment_);
  if (g.narrating) narrate_choice(layer, *crashes_[layer - 1].recorded->whole, choice, taken);
  return taken;
}

// Of what was recorded first.
void Explorer::note_certain(persist::LocationId location, const persist::Candidate& candidate) {
  const persist::Choice choice{g.recorded->whole->log, location, {&candidate, 1}};
  note_choice(choice, crashes_.front(), 0, moment_);
}

bool Explorer::reached(std::string_view mark) {
  const bool is_reached = crashes_.back().view->reached(mark);
  if (g.header->notes == 0 || g.header->has_memory == 0) return is_reached;
  const auto location = g.recorded->files->mark_locations.find(mark);
  if (location != g.recorded->files->mark_locations.end()) {
    const auto candidates = crashes_.front().cut->candidates(location->second);
    if (candidates.size() == 1) note_certain(location->second, candidates.front());
  }
  return is_reached;
}

std::uint32_t Explorer::answer(const persist::Choice& choice, std::uint32_t layer) {
  const auto count = static_cast<std::uint32_t>(choice.candidates.size());
  if (request_.kind == RequestKind::kRunCut) return answer_from_cut(choice, layer);
  if (sampler_) return sampler_->choose(choice);
  if (position_ < request_.path.size()) {
    const std::uint32_t wanted = request_.path[position_++];
    if (wanted < count) return wanted;
    g.header->diverged = 1;
    if (request_.kind == RequestKind::kExplore)
      user_error("the recovery is not deterministic: it met other choices when it was run again");
    return count - 1;
  }
  if (request_.kind == RequestKind::kReplay) {
    g.header->diverged = 1;
    return count - 1;
  }
  if (mode_ == WorkMode::kAgain) return in_order(0, count);
  // A fork would leave other threads behind, and timers. In the first layer work can be given away, too.
  const bool has_threads = g.threads.load(std::memory_order_relaxed) > 1;
  if ((has_threads || g.has_timer) && crashes_.size() > 1)
    user_error("a recovery with threads or timers cannot be crashed twice yet: use --depth 1");
  return has_threads || g.has_timer || (crashes_.size() == 1 && is_work_wanted()) ? defer_others(count) : branch(count);
}

// The newest candidate that the cut holds; the oldest is what is there without it.
std::uint32_t Explorer::answer_from_cut(const persist::Choice& choice, std::uint32_t layer) {
  const auto count = static_cast<std::uint32_t>(choice.candidates.size());
  if (layer != 1) return count - 1;
  return fixed_cut_->choose(choice);
}

std::uint32_t Explorer::in_order(std::uint32_t position, std::uint32_t count) const {
  const persist::Question* question = question_at(*g.slot, g.slot->choice_count - 1);
  return order_.answer_at(question->asked, position, count);
}

// Until choose() has noted the answer, the watchdog leaves this process and its children alone: what is still to come
// of them is known by the answers that are noted.
std::uint32_t Explorer::branch(std::uint32_t count) {
  hold_off_watchdog();
  for (std::uint32_t i = 0; i + 1 < count; ++i) {
    if (is_stopped()) leave_others(i, count);
    const std::uint32_t answer = in_order(i, count);
    Slot* slot = take_slot();
    if (slot == nullptr) user_error("the recovery has too many open choices (4095 deep)");
    slot->killed = kNotToBeKilled;
    const Child child = fork_child(slot);
    if (child.pid < 0) tool_error("the system has no room for another process (fork failed)");
    if (child.pid == 0) {
      set_dispatch(true);
      return answer;
    }
    reap(child);
  }
  if (is_stopped()) leave_others(count - 1, count);
  return in_order(count - 1, count);
}

// The other answers are run from the beginning, by whoever has time.
std::uint32_t Explorer::defer_others(std::uint32_t count) {
  hold_off_watchdog();
  Work work{WorkMode::kBranch, path_of(*g.slot)};
  work.numbers.push_back(0);
  for (std::uint32_t i = 1; i < count; ++i) {
    work.numbers.back() = in_order(i, count);
    add_work(work);
  }
  return in_order(0, count);
}

// The exploration was stopped: these answers are still to come, and this process ends.
void Explorer::leave_others(std::uint32_t from, std::uint32_t count) const {
  std::vector<persist::Path> paths;
  for (std::uint32_t i = from; i < count; ++i) {
    paths.push_back(path_of(*g.slot));
    paths.back().push_back(in_order(i, count));
  }
  leave_work(paths);
  end_process(Outcome::kInner);
}

void Explorer::sample(search::Strategy strategy, std::uint64_t round, std::uint64_t seed) {
  random_.seed(seed);
  sampler_.emplace(*g.recorded->whole, strategy, round, random_);
}

void Explorer::follow(WorkMode mode, const persist::Path& path, persist::AnswerOrder order) {
  order_ = order;
  mode_ = mode;
  request_.path = path;
  position_ = 0;
}

void Explorer::check_replay_end() {
  if (request_.kind == RequestKind::kReplay && position_ < request_.path.size()) g.header->diverged = 1;
  if (request_.kind == RequestKind::kExplore && position_ < request_.path.size()) {
    user_error("the recovery is not deterministic: it met fewer choices when it was run again");
  }
}

void begin_recovery(RunRequest request) {
  g.narrating = request.kind == RequestKind::kReplay || request.kind == RequestKind::kRunCut;
  if (g.narrating) g.call_text = new std::string;
  g_explorer = new Explorer(std::move(request));
  g_explorer->add_crash(*g.recorded);
  g.model = g_explorer->model().get();
  watch_for_rounds();
  if (g.narrating) note_cuts(g_explorer->crashes());
}

void finish_recovery(Outcome outcome, int exit_code) {
  end_round();
  g.slot->exit_code = exit_code;
  if (outcome == Outcome::kExited || outcome == Outcome::kStuck) note_events_at_end();
  if (outcome == Outcome::kOk && g.header->counts_marks != 0) {
    g.slot->marks_reached = g_explorer->count_marks();
    if (g.header->has_memory != 0) note_events_at_end();  // what it printed may be wrong
    if (g.narrating) narrate_text("(the marks that main() had reached)");
  }
  if (g.narrating) note_cuts(g_explorer->crashes());
  if (outcome == Outcome::kOk && g_explorer->wants_crash()) {
    outcome = explore_next_layer();
  } else {
    g_explorer->check_replay_end();
  }
  end_process(outcome);
}

void note_events_in() {
  if (g.header->has_memory == 0) g.slot->events_in = g_explorer->count_events_in();
}

void note_events_at_end() {
  if (g_explorer != nullptr && g.slot != nullptr) g.slot->events_in = g_explorer->count_events_in();
}

bool reached(std::string_view mark) {
  if (g.narrating) *g.call_text = "crashcut_reached(\"" + std::string(mark) + "\")";
  return g_explorer->reached(mark);
}

void capture_output(int stream, const void* bytes, std::size_t count) {
  Slot& slot = *g.slot;
  std::uint32_t& used = stream == 1 ? slot.output_bytes : slot.error_bytes;
  const std::size_t room = kOutputMost - used;
  const std::size_t kept = std::min(count, room);
  const bool fits = append_stream(slot, stream == 1 ? kStreamOutput : kStreamError, bytes, kept);
  if (fits) used += static_cast<std::uint32_t>(kept);
  const std::string_view rest = std::string_view(static_cast<const char*>(bytes), count).substr(fits ? kept : 0);
  if (rest.empty()) return;
  slot.output_cut |= stream == 1 ? 1 : 2;
  if (stream != 1) return;
  // Byte by byte: the same however it was written.
  for (const char c : rest)
    slot.output_rest = static_cast<std::uint32_t>(persist::mix(slot.output_rest, static_cast<unsigned char>(c)));
}

}  // namespace crashcut::inprocess
