#include "cli/conform_compare.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <sstream>

#include "cli/kernel_check.h"
#include "recovery/kernel/record.h"

namespace crashcut::cli {
namespace {

using fusefs::ModelOptions;
using result::Failure;
using result::wrong_use;

constexpr std::uint64_t kRecoveriesMost = 200'000;  // of the model, a program

// Mount options for the model: data=MODE, and the others.
tl::expected<ModelOptions, Failure> model_of(const std::string& options) {
  ModelOptions model;
  model.sector_bytes = model.block_bytes;  // the kernel's images tear in blocks
  std::istringstream words(options);
  for (std::string word; std::getline(words, word, ',');) {
    if (word.starts_with("data=")) {
      const auto mode = fusefs::parse_data_mode(word.substr(5));
      if (!mode) return wrong_use(mode.error());
      model.data = *mode;
    } else if (auto ok = fusefs::parse_mount_options(word, model); !ok) {
      return wrong_use(ok.error());
    }
  }
  return model;
}

std::string without_newline(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

std::string filesystem_of(const std::string& mount) { return mount.empty() ? "kernel:ext4" : "kernel:ext4:" + mount; }

tl::expected<void, Failure> Comparer::start() {
  const auto model = model_of(setup_.mount);
  if (!model) return tl::unexpected(model.error());
  model_ = *model;
  const auto runtime = find_runtime();
  if (!runtime) return tl::unexpected(runtime.error());
  plan_.runtime = *runtime;
  plan_.jobs = 1;
  plan_.wants_all = true;
  plan_.max_recoveries = kRecoveriesMost;
  plan_.main_stdout_fd = plan_.main_stderr_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  DeviceOptions device;
  device.runs = setup_.runs;
  device.subsets = setup_.subsets;
  const auto disk = disk_plan_of(MountedOptions{}, device, filesystem_of(setup_.mount), false);
  if (!disk) return tl::unexpected(disk.error());
  disk_ = *disk;
  return {};
}

tl::expected<void, Failure> Comparer::make_disk() {
  program_.directory = directory_;
  const auto made = kernel::make_base(program_, disk_, should_stop_);
  if (!made) return tl::unexpected(made.error());
  disk_.journal = kernel::journal_blocks(disk_.filesystem, kernel::base_of(directory_));
  return {};
}

tl::expected<Compared, Failure> Comparer::compare(const ConformCase& one) {
  const Compared stopped{.is_stopped = true};
  const auto states = model_states(model_, one);
  if (!states) return tl::unexpected(states.error());
  if (should_stop_()) return stopped;
  if (!*states) return Compared{.is_skipped = true};
  const States& allowed = **states;
  program_.program.words = {one.executable};
  program_.program.words.insert(program_.program.words.end(), one.kernel_arguments.begin(), one.kernel_arguments.end());
  const kernel::KeptImages kept{[&](const std::string& state) { return allowed.contains(state); },
                                fmt::format("{}/outside-{}-", directory_, ++compared_)};
  auto found = kernel::find_states(program_, disk_, one.looking, setup_.seed, kept, should_stop_);
  if (!found) return tl::unexpected(Failure{found.error().blame, one.text + ": " + found.error().sentence});
  if (found->is_stopped) return stopped;
  Compared compared{.images = found->images, .chosen = found->chosen, .allowed = allowed.size()};
  for (const auto& [state, shown] : found->damaged) {
    if (allowed.contains(state)) {
      found->states.try_emplace(state, shown);
    } else if (!found->states.contains(state)) {
      ++compared.damaged;
    }
  }
  compared.seen = found->states.size() + compared.damaged;
  for (const auto& [state, shown] : found->states) {
    if (!allowed.contains(state))
      compared.outside.push_back({state, shown.how, shown.images, shown.file, shown.marks, shown.replays});
  }
  if (!compared.outside.empty()) compared.allowed_states.assign(allowed.begin(), allowed.end());
  for (const std::string& state : allowed) {
    if (found->states.contains(state)) continue;
    const auto rule = rule_of(state, one);
    if (!rule) return tl::unexpected(rule.error());
    if (should_stop_()) return stopped;
    compared.not_shown.push_back({state, *rule});
  }
  return compared;
}

tl::expected<std::optional<Comparer::States>, Failure> Comparer::model_states(const ModelOptions& model,
                                                                              const ConformCase& one) {
  recovery::Plan plan = plan_;
  plan.model = model;
  plan.executable = one.executable;
  plan.arguments = one.model_arguments;
  const auto executed = recovery::execute(plan);
  if (!executed && executed.error().blame == result::Blame::kUser && one.looking.may_fail) return std::nullopt;
  if (!executed) return tl::unexpected(Failure{executed.error().blame, one.text + ": " + executed.error().sentence});
  const search::Hooks hooks{[](const result::Progress&) {}, should_stop_};
  const auto checked = recovery::check(*executed, plan, recovery::head_of("conform", plan, {one.executable}), hooks);
  if (!checked) return tl::unexpected(checked.error());
  if (checked->result.bound != result::Bound::kNone || checked->result.outcomes_cut) return std::nullopt;
  States states;
  for (const result::Outcome& outcome : checked->result.outcomes) states.insert(without_newline(outcome.output));
  return states;
}

tl::expected<SlackRule, Failure> Comparer::rule_of(const std::string& state, const ConformCase& one) {
  struct Without {
    SlackRule rule;
    ModelOptions model;
  };
  std::vector<Without> variants;
  ModelOptions model = model_;
  model.data = fusefs::DataMode::kOrdered;
  if (model_.data == fusefs::DataMode::kWriteback) variants.push_back({SlackRule::kUnorderedData, model});
  model = model_;
  model.delalloc = false;
  if (model_.delalloc) variants.push_back({SlackRule::kDelayedAllocation, model});
  model = model_;
  model.dioread_nolock = false;
  if (model_.dioread_nolock) variants.push_back({SlackRule::kUnwrittenBlocks, model});
  model = model_;
  model.data = fusefs::DataMode::kJournal;
  variants.push_back({SlackRule::kPageCache, model});
  if (model_.data == fusefs::DataMode::kJournal) variants.clear();
  for (const Without& without : variants) {
    const auto key = fusefs::describe(without.model);
    if (one.text != variants_of_) variant_states_.clear();
    variants_of_ = one.text;
    auto known = variant_states_.find(key);
    if (known == variant_states_.end()) {
      const auto states = model_states(without.model, one);
      if (!states) return tl::unexpected(states.error());
      known = variant_states_.emplace(key, states->value_or(States{})).first;
    }
    if (!known->second.contains(state)) return without.rule;
  }
  return SlackRule::kJournal;
}

}  // namespace crashcut::cli
