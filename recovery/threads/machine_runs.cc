#include "recovery/threads/machine_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "recovery/result/words.h"
#include "recovery/threads/losses.h"
#include "recovery/threads/replay.h"
#include "recovery/threads/result.h"
#include "recovery/threads/story.h"

namespace crashcut::recovery {
namespace {

using result::Setting;
using scheduler::ActorId;

constexpr std::size_t kStepsMost = 300'000, kStepsOfOneMost = 10'000;  // of all executions that are told
constexpr std::size_t kLeastTold = 10, kExecutionsForOne = 10;
constexpr double kLeast_s = 5;

class RunList {
 public:
  explicit RunList(const ThreadPlan& plan) : plan_(plan) {}

  bool is_full() const { return step_count_ >= kStepsMost; }
  std::size_t size() const { return runs_.size(); }

  void add(const ThreadFinding& finding, bool is_example, const std::shared_ptr<source::Names>& names) {
    if (finding.execution.steps.size() > kStepsOfOneMost) return;
    const ThreadStory story(plan_, finding, names);
    std::vector<std::uint32_t> steps;
    std::string failures;
    for (const result::ScheduleStep& step : schedule_steps(plan_, finding, story)) {
      if (step.is_failure) failures += fmt::format("{}{}:{}", failures.empty() ? "" : " ", step.machine, steps.size());
      steps.push_back(number_of(step));
    }
    step_count_ += steps.size();
    if (runs_.empty()) first_ = steps;
    const auto parts = std::mismatch(steps.begin(), steps.end(), first_.begin(), first_.end()).first;
    const std::uint64_t same = runs_.empty() ? 0 : static_cast<std::uint64_t>(parts - steps.begin());
    const bool is_violation = finding.details.kind != scheduler::runtime::FindingKind::kNone;
    const auto rest = steps.begin() + static_cast<std::ptrdiff_t>(same);
    runs_.push_back({{"failures", std::move(failures)},
                     {"same", same},
                     {"steps", fmt::format("{}", fmt::join(rest, steps.end(), " "))},
                     {"stores", stores_text(finding, story)},
                     {"violation", is_violation},
                     {"text", is_violation ? finding_text(finding) : ""},
                     {"example", is_example}});
  }

  std::vector<Setting> facts(std::uint64_t executions) && {
    const std::uint64_t left_out = executions - std::min<std::uint64_t>(executions, runs_.size());
    return {{"machine_steps", std::move(steps_)},
            {"machine_stores", std::move(stores_)},
            {"machine_runs", std::move(runs_)},
            {"machine_runs_left_out", left_out}};
  }

 private:
  std::uint32_t number_of(const result::ScheduleStep& step) {
    const result::SourceLine place = step.stack.empty() ? result::SourceLine{} : step.stack.front();
    const auto [at, is_new] = step_numbers_.try_emplace(std::tuple(step.machine, step.thread, step.text, place),
                                                        static_cast<std::uint32_t>(steps_.size()));
    if (is_new)
      steps_.push_back({{"thread", step.thread},
                        {"text", step.text},
                        {"machine", std::uint64_t{step.machine}},
                        {"function", place.function},
                        {"file", result::or_none(place.file)},
                        {"line", result::or_none(place.line)}});
    return at->second;
  }

  std::uint32_t number_of(const StoreAtStake& store, const ThreadStory& story) {
    const auto by = static_cast<ActorId>(store.actor);
    const std::string place = story.source_text(by, store.code);
    std::string text =
        fmt::format("{} at {}, by {}{}", result::count_text(store.bytes, "byte", "bytes"),
                    story.variable_text(store.address), story.actor_text(by), place.empty() ? "" : " in " + place);
    const auto [at, is_new] = store_numbers_.try_emplace(text, static_cast<std::uint32_t>(stores_.size()));
    if (is_new) stores_.push_back(std::move(text));
    return at->second;
  }

  // "0:2 1:1": stores and their fates. What is said later of a store counts.
  std::string stores_text(const ThreadFinding& finding, const ThreadStory& story) {
    std::map<std::uint32_t, int> fates;
    for (const std::string& step : finding.details.texts) {
      for (const StoreAtStake& store : read_losses(step)) {
        if (store.fate <= StoreAtStake::kPoisoned) fates[number_of(store, story)] = store.fate;
      }
    }
    std::string text;
    for (const auto& [store, fate] : fates) text += fmt::format("{}{}:{}", text.empty() ? "" : " ", store, fate);
    return text;
  }

  const ThreadPlan& plan_;
  std::map<std::tuple<std::uint32_t, std::string, std::string, result::SourceLine>, std::uint32_t> step_numbers_;
  std::map<std::string, std::uint32_t> store_numbers_;
  std::vector<std::uint32_t> first_;  // steps of the first
  Setting::Rows steps_, runs_;
  std::vector<std::string> stores_;
  std::size_t step_count_ = 0;
};

// Evenly spread over the search.
void thin_out(std::size_t most, std::vector<std::vector<ActorId>>& schedules) {
  if (schedules.size() <= most) return;
  for (std::size_t i = 0; i < most; ++i) schedules[i] = std::move(schedules[i * schedules.size() / most]);
  schedules.resize(most);
}

}  // namespace

std::vector<result::ScheduleStep> schedule_steps(const ThreadPlan& plan, const ThreadFinding& finding,
                                                 const ThreadStory& story) {
  std::vector<result::ScheduleStep> steps;
  for (std::size_t i = 0; i < finding.execution.steps.size(); ++i) {
    const ActorId actor = finding.execution.steps[i].actor;
    const std::uint32_t machine = machine_of(finding.actors, index(actor));
    if (story.is_failure(actor) && machine >= plan.machines.size()) {  // of a memory device
      steps.push_back({"device", story.step_text(i)});
      continue;
    }
    steps.push_back({story.actor_text(actor), story.step_text(i), story.stack_of_step(i), machine,
                     story.is_failure(actor), story.died_before(i)});
  }
  return steps;
}

std::vector<Setting> tell_machine_runs(const ThreadPlan& plan, const ThreadResult& checked,
                                       const std::function<bool()>& is_late) {
  using Clock = std::chrono::steady_clock;
  KeptExecutions kept = checked.kept;
  if (kept.schedules.empty()) return {};
  if (!plan.wants_all_states)
    thin_out(std::max(kLeastTold, static_cast<std::size_t>(checked.search.executions / kExecutionsForOne)),
             kept.schedules);
  const auto names = std::make_shared<source::Names>(is_late);
  RunList list(plan);
  if (checked.finding && checked.finding->replays) {
    list.add(*checked.finding, true, names);
    std::erase(kept.schedules, schedule_of(checked.finding->execution));
  }
  const auto end = Clock::now() + std::chrono::duration<double>(std::max(checked.search.seconds, kLeast_s));
  replay_all(
      plan, kept, [&] { return Clock::now() >= end || list.is_full() || is_late(); },
      [&](const ThreadFinding& finding) { list.add(finding, false, names); });
  return list.size() == 0 ? std::vector<Setting>() : std::move(list).facts(checked.search.executions);
}

}  // namespace crashcut::recovery
