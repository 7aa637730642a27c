#include "recovery/kernel/front_end.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "recovery/kernel/crashed_disk.h"
#include "recovery/kernel/judged.h"
#include "recovery/kernel/runner.h"
#include "recovery/kernel/token.h"
#include "recovery/kernel/tree.h"
#include "recovery/mounted/record.h"
#include "recovery/mounted/recoverer.h"
#include "recovery/mounted/sandboxed_worker.h"
#include "recovery/mounted/token.h"
#include "recovery/search/channel.h"
#include "recovery/search/following.h"
#include "recovery/search/worker.h"

namespace crashcut::kernel {
namespace {

using search::Ending;

// What is not the image's fault.
bool is_of_machine(int error) {
  return error == ENOMEM || error == EPERM || error == EACCES || error == ENODEV || error == ENOTBLK ||
         error == EBUSY || error == EMFILE || error == ENFILE || error == ENOENT || error == EINTR;
}

Ending failed(std::string sentence) {
  Ending ending;
  ending.kind = Ending::Kind::kFailed;
  ending.failure = result::tools_failure(std::move(sentence));
  return ending;
}

// Mounts images, and asks.
class KernelRecoverer final : public search::Recoverer {
 public:
  KernelRecoverer(const CheckPlan& plan, const ImageSet& images, const mounted::DiskFrontEnd& known, CrashedDisk& disk,
                  KernelRunner* runner, const std::atomic<bool>* stop)
      : plan_(plan),
        images_(images),
        known_(known),
        disk_(disk),
        runner_(runner),
        stop_(stop),
        judged_(plan.common.directory) {}

  Ending recover(std::size_t, std::span<const search::Crash>, persist::Chooser& chooser,
                 std::shared_ptr<const persist::Recording>*) override {
    const ImageSet::Chosen chosen = images_.choose(chooser);
    if (auto before = judged_.find(chosen)) return std::move(*before);
    disk_.load(chosen.run->blocks_of(*chosen.image), chosen.run->block_bytes());
    const int error = disk_.mount(runner_ == nullptr);
    if (error != 0) {
      Ending ending = is_of_machine(error)
                          ? failed(fmt::format("A crash image could not be mounted: {}.", std::strerror(error)))
                          : refused(error);
      ending.own = chosen.how;
      return ending;
    }
    Ending ending = ask(chosen.run->marks_of(*chosen.image));
    ending.own = chosen.how;
    if (const int busy = disk_.unmount(); busy != 0)
      return failed(fmt::format("A crash image could not be unmounted: {}.", std::strerror(busy)));
    judged_.add(chosen, ending);
    return ending;
  }
  bool runs_code(std::size_t) const override { return runner_ != nullptr; }

 private:
  Ending refused(int error) const {
    disk_.save(fmt::format("{}/{}", plan_.common.directory, kRefusedImage));  // the first one is kept
    Ending ending;
    ending.kind = Ending::Kind::kViolation;
    ending.rank = -1;
    ending.finding.kind = "refused";
    ending.finding.text = fmt::format("the kernel refuses to mount the disk: {}", std::strerror(error));
    ending.finding.code = error;
    ending.outcome = ending.finding.text;
    return ending;
  }

  // The worst of the answers. Its outcome has them all.
  Ending ask(const std::vector<std::string>& marks) const {
    MountedTree tree(mounted::disk_of(plan_.common.directory), marks);
    std::optional<Ending> worst;
    std::string outcome;
    try {
      for (const mounted::Question& question : known_.questions()) {
        const auto* const file = std::get_if<mounted::FileQuestion>(&question);
        Ending ending = file != nullptr ? mounted::ending_of(mounted::ask(*file, known_.histories(), tree, stop_))
                                        : mounted::ending_of(runner_->run(marks));
        if (!ending.outcome.empty()) outcome += (outcome.empty() ? "" : "; ") + ending.outcome;
        if (is_answer_enough(ending)) return ending;
        if (!worst || badness_of(ending) > badness_of(*worst)) worst = std::move(ending);
      }
    } catch (const mounted::QuestionStopped&) {
      Ending stopped;
      stopped.kind = Ending::Kind::kStopped;
      return stopped;
    }
    worst->outcome = std::move(outcome);
    return std::move(*worst);
  }

  // There is no answer, or none is wanted.
  static bool is_answer_enough(const Ending& ending) {
    return ending.kind != Ending::Kind::kFine && ending.kind != Ending::Kind::kViolation;
  }
  static int badness_of(const Ending& ending) { return ending.is_violation() ? 100 - ending.rank : 0; }

  const CheckPlan& plan_;
  const ImageSet& images_;
  const mounted::DiskFrontEnd& known_;
  CrashedDisk& disk_;
  KernelRunner* runner_;
  const std::atomic<bool>* stop_;
  JudgedImages judged_;
};

// A path again, for one who looks at its image.
class PathChooser final : public persist::Chooser {
 public:
  explicit PathChooser(const std::vector<std::uint32_t>& path) : path_(path) {}
  std::uint32_t choose(const persist::Choice& choice) override {
    const std::uint32_t answer = at_ < path_.size() ? path_[at_] : ~0u;
    ++at_;
    is_wrong_ = is_wrong_ || answer >= choice.candidates.size();
    return is_wrong_ ? 0 : answer;
  }
  bool is_followed() const { return !is_wrong_ && at_ == path_.size(); }

 private:
  const std::vector<std::uint32_t>& path_;
  std::size_t at_ = 0;
  bool is_wrong_ = false;
};

}  // namespace

KernelFrontEnd::KernelFrontEnd(const CheckPlan& plan, std::unique_ptr<mounted::DiskFrontEnd> known,
                               std::unique_ptr<ImageSet> images)
    : plan_(plan),
      known_(std::move(known)),
      images_(std::move(images)),
      trace_sum_(mounted::sum_of_trace(plan.common.directory)) {}

tl::expected<std::unique_ptr<KernelFrontEnd>, Failure> KernelFrontEnd::open(
    const CheckPlan& plan, std::unique_ptr<mounted::DiskFrontEnd> known) {
  auto images = ImageSet::open(plan.common.directory, plan.disk, plan.common.search.seed);
  if (!images) return tl::unexpected(images.error());
  return std::unique_ptr<KernelFrontEnd>(new KernelFrontEnd(plan, std::move(known), std::move(*images)));
}

// btrfs knows disks by a number that all images share, and does not mount two of them at a time.
bool KernelFrontEnd::has_room(std::uint32_t worker_count) const {
  return worker_count < (plan_.disk.filesystem.type == "btrfs" ? 1 : 256);
}

tl::expected<std::unique_ptr<search::Worker>, Failure> KernelFrontEnd::start_worker(const search::WorkerSetup& setup) {
  sandbox::Options options = mounted::options_for_checkers(plan_.common.directory, 0);
  options.mode = sandbox::Mode::kNamespaces;
  auto started =
      sandbox::Sandbox::start([this, setup](const sandbox::Inside& inside) { return work(inside, setup); }, options);
  if (!started) return tl::unexpected(result::tools_failure(started.error()));
  return std::make_unique<mounted::SandboxedWorker>(std::move(*started));
}

int KernelFrontEnd::work(const sandbox::Inside& inside, const search::WorkerSetup& setup) const {
  const std::optional<int> core = mounted::stay_on_core(setup.index);
  auto disk = CrashedDisk::make(plan_.disk.filesystem, images_->base(), mounted::disk_of(plan_.common.directory),
                                plan_.disk.drive.sector_bytes);
  if (!disk) {
    search::report_failure(inside.socket, result::tools_failure(disk.error()));
    return 1;
  }
  std::unique_ptr<KernelRunner> runner;
  if (!plan_.common.checker.empty()) {
    auto started = KernelRunner::start({.inside = inside,
                                        .results = plan_.common.directory,
                                        .command = plan_.common.checker,
                                        .limit = plan_.common.check_limit,
                                        .core = core,
                                        .stop = &setup.shared.stop});
    if (!started) {
      search::report_failure(inside.socket, result::tools_failure(started.error()));
      return 1;
    }
    runner = std::move(*started);
  }
  KernelRecoverer recoverer(plan_, *images_, *known_, **disk, runner.get(), &setup.shared.stop);
  search::serve(inside.socket, setup, *images_, recoverer);
  return 0;
}

std::string KernelFrontEnd::explain(std::size_t, const search::NarratedRun& told) const {
  return fmt::format("a crash of {} can leave this: {}; {}", plan_.disk.filesystem.text(), told.run.ending.finding.text,
                     told.run.ending.own);
}

result::Token KernelFrontEnd::token(std::size_t) const { return token_of(plan_, trace_sum_); }

tl::expected<int, Failure> KernelFrontEnd::open_shell(const std::vector<std::uint32_t>& path) {
  PathChooser chooser(path);
  const ImageSet::Chosen chosen = images_->choose(chooser);
  if (!chooser.is_followed()) return result::wrong_use("The token names an image that these runs do not have.");
  const char* const shell = std::getenv("SHELL");
  const auto work = [&](const sandbox::Inside& inside) {
    std::string failure;
    auto disk = CrashedDisk::make(plan_.disk.filesystem, images_->base(), mounted::disk_of(plan_.common.directory),
                                  plan_.disk.drive.sector_bytes);
    auto runner = KernelRunner::start({.inside = inside,
                                       .results = plan_.common.directory,
                                       .command = {{shell && *shell ? shell : "/bin/sh"}},
                                       .limit = {},
                                       .core = {},
                                       .stop = nullptr,
                                       .with_terminal = true});
    if (!disk) {
      failure = disk.error();
    } else if (!runner) {
      failure = runner.error();
    } else {
      (*disk)->load(chosen.run->blocks_of(*chosen.image), chosen.run->block_bytes());
      const int error = (*disk)->mount(false);
      if (error != 0) failure = fmt::format("The kernel refuses to mount the disk: {}.", std::strerror(error));
      if (error == 0) failure = (*runner)->run(chosen.run->marks_of(*chosen.image)).failure;
      if (error == 0) (*disk)->unmount();
    }
    search::send(inside.socket, {{"failure", failure}});
    return 0;
  };
  sandbox::Options options = mounted::options_for_checkers(plan_.common.directory, 0, true);
  options.mode = sandbox::Mode::kNamespaces;
  auto started = sandbox::Sandbox::start(work, options);
  if (!started) return result::tool_failed(started.error());
  const auto answer = search::receive(started->socket());
  started->wait();
  if (!answer) return result::tool_failed("The state's sandbox ended before its time.");
  const std::string failure = answer->at("failure");
  if (!failure.empty()) return result::wrong_use(failure);
  return 0;
}

tl::expected<void, Failure> KernelFrontEnd::save_image(const std::vector<std::uint32_t>& path,
                                                       const std::string& file) {
  PathChooser chooser(path);
  const ImageSet::Chosen chosen = images_->choose(chooser);
  if (!chooser.is_followed()) return result::wrong_use("The token names an image that these runs do not have.");
  auto disk = CrashedDisk::make(plan_.disk.filesystem, images_->base(), mounted::disk_of(plan_.common.directory),
                                plan_.disk.drive.sector_bytes);
  if (!disk) return result::tool_failed(disk.error());
  (*disk)->load(chosen.run->blocks_of(*chosen.image), chosen.run->block_bytes());
  if (!(*disk)->save(file)) return result::wrong_use(fmt::format("Cannot make {}: {}.", file, std::strerror(errno)));
  return {};
}

}  // namespace crashcut::kernel
