#include "recovery/kernel/states.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "recovery/kernel/crashed_disk.h"
#include "recovery/kernel/images.h"
#include "recovery/kernel/metadata_history.h"
#include "recovery/kernel/record.h"
#include "recovery/kernel/runner.h"

namespace crashcut::kernel {
namespace {

using search::Json;

std::string without_newline(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

Json failed(const std::string& sentence) { return Json{{"failure", sentence}, {"is_users", false}}; }

// Mounts images and runs the command that says what they hold; in the sandbox.
class Looker {
 public:
  static tl::expected<Looker, std::string> start(const sandbox::Inside& inside, const std::string& directory,
                                                 const DiskPlan& disk, const MappedFile& base, const Looking& looking) {
    auto crashed = CrashedDisk::make(disk.filesystem, base, mounted::disk_of(directory), disk.drive.sector_bytes);
    if (!crashed) return tl::unexpected(crashed.error());
    auto runner = KernelRunner::start({.inside = inside,
                                       .results = directory,
                                       .command = looking.command,
                                       .limit = std::chrono::seconds(30),
                                       .core = {}});
    if (!runner) return tl::unexpected(runner.error());
    return Looker(looking, std::move(*crashed), std::move(*runner));
  }

  void load(const std::vector<blocklayer::CrashImages::Block>& blocks, std::uint32_t block_bytes) {
    crashed_->load(blocks, block_bytes);
  }
  bool save(const std::string& path) const { return crashed_->save(path); }

  // Of the image that is loaded. None: the program assumes it away.
  std::optional<std::string> look(const std::vector<std::string>& marks) {
    if (const int error = crashed_->mount(looking_.is_read_only); error != 0)
      return fmt::format("the kernel refuses to mount it: {}", std::strerror(error));
    const mounted::CommandResult result = runner_->run(marks);
    if (crashed_->unmount() != 0) failure = "An image could not be unmounted.";
    if (!result.failure.empty()) failure = result.failure;
    if (result.finding == mounted::Finding::kAssumedAway) return std::nullopt;
    constexpr int kNotRun = 125;  // workloads/conform/recover.c, env
    if (result.code >= kNotRun || (result.finding != mounted::Finding::kFine && !looking_.may_fail))
      failure = fmt::format("{} failed on an image: {}", looking_.command.words[0], result.errors);
    return without_newline(result.output);
  }
  std::string failure;  // of the tool or of the command, a sentence

 private:
  Looker(const Looking& looking, std::unique_ptr<CrashedDisk> crashed, std::unique_ptr<KernelRunner> runner)
      : looking_(looking), crashed_(std::move(crashed)), runner_(std::move(runner)) {}

  const Looking& looking_;
  std::unique_ptr<CrashedDisk> crashed_;
  std::unique_ptr<KernelRunner> runner_;
};

Json look_at_all(const sandbox::Inside& inside, const mounted::RecordPlan& program, const DiskPlan& disk,
                 const ImageSet& images, const Looking& looking, const KeptImages& kept) {
  auto looker = Looker::start(inside, program.directory, disk, images.base(), looking);
  if (!looker) return failed(looker.error());
  Json whole = Json::object(), damaged = Json::object();
  std::uint32_t kept_count = 0;
  const bool can_be_damaged = !has_barriers(disk.filesystem);
  std::map<const blocklayer::CrashImages*, std::optional<MetadataHistory>> histories;
  const auto is_damaged = [&](const ImageSet::Chosen& chosen) {
    if (!can_be_damaged) return false;
    auto found = histories.find(chosen.run);
    if (found == histories.end())
      found = histories.emplace(chosen.run, MetadataHistory::of(*chosen.run, images.base().bytes(), images.journal()))
                  .first;
    return found->second && !found->second->is_of_one_moment(*chosen.image);
  };
  images.visit([&](const ImageSet::Chosen& chosen) {
    if (!looker->failure.empty()) return;
    const auto load = [&] { looker->load(chosen.run->blocks_of(*chosen.image), chosen.run->block_bytes()); };
    load();
    const std::vector<std::string> marks = chosen.run->marks_of(*chosen.image);
    const auto shown = looker->look(marks);
    if (!shown) return;
    const bool is_whole = !is_damaged(chosen);
    Json& states = is_whole ? whole : damaged;
    if (states.contains(*shown)) {
      states[*shown]["images"] = states[*shown]["images"].get<std::uint64_t>() + 1;
      return;
    }
    std::string file;
    bool replays = true;
    if (is_whole && kept.is_expected && !kept.is_expected(*shown)) {
      load();  // the mount has replayed its journal
      file = fmt::format("{}{}.img", kept.prefix, ++kept_count);
      if (!looker->save(file)) file.clear();
      replays = looker->look(marks) == shown;
    }
    states[*shown] = {{"how", chosen.how}, {"images", 1}, {"file", file}, {"marks", marks}, {"replays", replays}};
  });
  if (!looker->failure.empty()) return failed(looker->failure);
  return {{"states", whole}, {"damaged", damaged}};
}

std::map<std::string, ShownState> states_from(const Json& json) {
  std::map<std::string, ShownState> states;
  for (const auto& [shown, state] : json.items())
    states[shown] = {state.at("how"), state.at("images"), state.at("file"),
                     state.at("marks").get<std::vector<std::string>>(), state.at("replays")};
  return states;
}

}  // namespace

tl::expected<KernelStates, Failure> states_of_runs(const mounted::RecordPlan& program, const DiskPlan& disk,
                                                   const Looking& looking, std::uint64_t seed, const KeptImages& kept,
                                                   const std::function<bool()>& should_stop) {
  const auto images = ImageSet::open(program.directory, disk, seed);
  if (!images) return tl::unexpected(images.error());
  const auto answer = in_sandbox(
      program.directory,
      [&](const sandbox::Inside& inside) { return look_at_all(inside, program, disk, **images, looking, kept); },
      should_stop);
  if (!answer) return tl::unexpected(answer.error());
  KernelStates found;
  found.is_stopped = answer->contains("stopped");
  if (found.is_stopped) return found;
  found.images = (*images)->image_count();
  found.chosen = (*images)->chosen_count();
  found.states = states_from(answer->at("states"));
  found.damaged = states_from(answer->at("damaged"));
  return found;
}

tl::expected<KernelStates, Failure> find_states(const mounted::RecordPlan& program, const DiskPlan& disk,
                                                const Looking& looking, std::uint64_t seed, const KeptImages& kept,
                                                const std::function<bool()>& should_stop) {
  for (std::uint32_t run = 1; unlink(run_of(program.directory, run).c_str()) == 0; ++run) {
  }
  const std::vector<mounted::Question> no_questions;
  const mounted::Histories no_histories;
  const auto is_stopped = [&] { return should_stop && should_stop(); };
  const auto runs = record_runs(program, disk, {no_questions, no_histories}, seed, is_stopped);
  if (!runs) return tl::unexpected(runs.error());
  if (is_stopped()) {
    KernelStates stopped;
    stopped.is_stopped = true;
    return stopped;
  }
  return states_of_runs(program, disk, looking, seed, kept, should_stop);
}

tl::expected<std::optional<std::string>, Failure> state_of_image(const std::string& image, const std::string& directory,
                                                                 const DiskPlan& disk, const Looking& looking,
                                                                 const std::vector<std::string>& marks) {
  const auto base = MappedFile::open(image);
  if (!base) return result::wrong_use(base.error());
  for (const std::string& needed : {mounted::disk_of(directory), device_directory(directory)}) {
    if (mkdir(needed.c_str(), 0755) != 0 && errno != EEXIST)
      return result::tool_failed(fmt::format("Cannot make {}: {}.", needed, std::strerror(errno)));
  }
  const auto answer = in_sandbox(directory, [&](const sandbox::Inside& inside) {
    auto looker = Looker::start(inside, directory, disk, *base, looking);
    if (!looker) return failed(looker.error());
    const auto shown = looker->look(marks);
    if (!looker->failure.empty()) return failed(looker->failure);
    return shown ? Json{{"shown", *shown}} : Json{{"assumed_away", true}};
  });
  if (!answer) return tl::unexpected(answer.error());
  if (!answer->contains("shown")) return std::nullopt;
  return answer->at("shown").get<std::string>();
}

}  // namespace crashcut::kernel
