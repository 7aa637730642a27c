#include "recovery/mounted/worker.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <random>
#include <unordered_set>

#include "recovery/mounted/command_runner.h"
#include "recovery/mounted/following.h"
#include "recovery/mounted/sampling.h"
#include "recovery/mounted/tally.h"
#include "recovery/result/json.h"

namespace crashcut::mounted {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTallyEvery{100};
// A checker is run again in the state that it just saw: the first time, and now and then.
constexpr std::uint64_t kRepeatEvery = 64;

class Worker {
 public:
  Worker(int socket, const WorkerSetup& setup, CommandRunner* runner)
      : socket_(socket),
        setup_(setup),
        explorer_(Explorer::Setup{setup.recording, setup.histories, runner, setup.plan.depth,
                                  [&shared = setup.shared] { return shared.is_enough(); }}) {}

  void serve() {
    while (auto message = receive(socket_)) {
      Json answer = handle(*message);
      send_tally();
      answer["done"] = true;
      if (!send(socket_, answer)) return;
    }
  }

 private:
  Json handle(const Json& message) {
    const std::string what = message.at("do");
    question_ = message.at("question");
    const Question& question = setup_.questions.at(question_);
    if (what == "explore") {
      explore(question, message.at("prefix").get<persist::Path>());
    } else if (what == "sample") {
      sample(question, message);
    } else if (what == "tell") {
      const Told told = explorer_.tell(question, message.at("path").get<std::vector<std::uint32_t>>());
      return {{"run", run_json(told.run)}, {"story", result::to_json(told.story)}};
    } else if (what == "cut") {
      return {{"run", run_json(explorer_.run_cut(question, message.at("events").get<std::vector<std::uint32_t>>(),
                                                 message.at("drop")))}};
    }
    return Json::object();
  }

  static Json run_json(const Run& run) {
    const CommandResult& result = run.result;
    return {{"finding", static_cast<int>(result.answer.finding)},
            {"outcome", outcome_of(result)},
            {"promise", result.answer.promise},
            {"code", result.code},
            {"signal", result.signal},
            {"output", result.output},
            {"errors", result.errors},
            {"output_cut", result.output_cut},
            {"errors_cut", result.errors_cut},
            {"failure", result.failure},
            {"is_users_fault", result.is_users_fault},
            {"path", run.path},
            {"events_in", run.events_in},
            {"layer", run.layer},
            {"diverged", run.diverged}};
  }

  void explore(const Question& question, const persist::Path& prefix) {
    persist::ChoiceTree tree(prefix);
    bool goes_on = true;
    fraction_ = 0;
    while (goes_on && !setup_.shared.is_enough()) {
      const Run run = explorer_.run(question, tree, [&](const Run& found) { count(found); });
      if (run.is_cut_short) break;
      after_run(question, run);
      if (run.diverged || !run.result.failure.empty()) break;
      goes_on = tree.advance();
      fraction_ = tree.explored_fraction();
      if (goes_on && setup_.shared.idle_workers > 0) give_work_away(tree);
    }
    if (goes_on) send(socket_, {{"left", tree.estimated_runs_left()}, {"fraction", tree.explored_fraction()}});
  }

  void sample(const Question& question, const Json& message) {
    const auto strategy = static_cast<Strategy>(message.at("strategy").get<int>());
    std::mt19937_64 random(message.at("seed").get<std::uint64_t>());
    const std::uint64_t count_max = message.at("count");
    for (std::uint64_t i = 0; i < count_max && !setup_.shared.is_enough(); ++i) {
      Sampler sampler(setup_.recording, strategy, i, random);
      const Run run = explorer_.sample(question, sampler);
      if (run.result.was_stopped) break;
      if (!seen_.insert(fmt::format("{}:{}", question_, fmt::join(run.path, "."))).second) continue;
      count(run);
      after_run(question, run);
      if (!run.result.failure.empty()) break;
    }
  }

  void count(const Run& run) {
    if (!setup_.plan.image_directory.empty() && tally_.failure.empty()) write_image(run);
    tally_.add(question_, run);
    ++setup_.shared.recoveries;
    if (Clock::now() - last_tally_ > kTallyEvery) send_tally();
  }

  // A state of the first layer is 000007, one that a crash of the recovery in that leaves 000007.0001.
  void write_image(const Run& run) {
    images_.resize(run.layer);
    Image& image = images_.back();
    if (run.layer == 1) {
      image.name = fmt::format("{:06}", ++setup_.shared.images);
    } else {
      Image& above = images_[run.layer - 2];
      image.name = fmt::format("{}.{:04}", above.name, ++above.followers);
    }
    image.followers = 0;
    const std::string failure = explorer_.copy_state(fmt::format("{}/{}", setup_.plan.image_directory, image.name));
    if (failure.empty()) return;
    tally_.failure = fmt::format("--image: {}.", failure);
    tally_.is_users_failure = true;
    setup_.shared.stop = true;
  }

  void after_run(const Question& question, const Run& run) {
    const bool is_command = std::holds_alternative<CommandQuestion>(question);
    // One that hung would be waited for again.
    const bool hung = run.result.answer.finding == Finding::kCheckHung;
    if (!is_command || hung || run.diverged || run.layer != 1 || setup_.shared.is_enough() ||
        run_count_++ % kRepeatEvery != 0)
      return;
    Following chooser(run.path);
    const Run again = explorer_.sample(question, chooser);
    if (again.result.was_stopped) return;
    const bool same = again.result.answer.finding == run.result.answer.finding &&
                      again.result.code == run.result.code && again.result.output == run.result.output &&
                      again.path == run.path;
    if (!same) tally_.not_deterministic = "run twice in one state, it gave two different answers";
  }

  void give_work_away(persist::ChoiceTree& tree) {
    const double share = tree.split_share();
    const std::vector<persist::Path> prefixes = tree.split();
    if (prefixes.empty()) return;
    fraction_ = tree.explored_fraction();
    send(socket_, {{"prefixes", prefixes}, {"question", question_}, {"share", share}});
  }

  void send_tally() {
    last_tally_ = Clock::now();
    if (tally_.recoveries == 0 && tally_.failure.empty() && tally_.not_deterministic.empty()) return;
    send(socket_, {{"tally", to_json(tally_)}, {"fraction", fraction_}});
    tally_ = Tally();
  }

  int socket_;
  const WorkerSetup& setup_;
  Explorer explorer_;
  std::size_t question_ = 0;
  Tally tally_;
  Clock::time_point last_tally_ = Clock::now();
  std::uint64_t run_count_ = 0;
  double fraction_ = 0;                   // of what it explores, so far
  std::unordered_set<std::string> seen_;  // sampled paths
  struct Image {
    std::string name;
    std::uint64_t followers = 0;  // of the next layer, so far
  };
  std::vector<Image> images_;  // the last one of each layer
};

}  // namespace

int work(const sandbox::Inside& inside, const WorkerSetup& setup) {
  std::optional<int> core;
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0 && CPU_COUNT(&cores) > 0) {
    std::uint32_t skip = setup.index % static_cast<std::uint32_t>(CPU_COUNT(&cores));
    int at = 0;
    while (!CPU_ISSET(at, &cores) || skip-- > 0) ++at;
    core = at;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(at, &one);
    sched_setaffinity(0, sizeof one, &one);
  }
  std::unique_ptr<MountedRunner> runner;
  if (!setup.plan.checker.empty()) {
    auto started = MountedRunner::start({.inside = inside,
                                         .directory = disk_of(setup.plan.directory),
                                         .command = setup.plan.checker,
                                         .limit = setup.plan.check_limit,
                                         .core = core,
                                         .remount = setup.plan.remount,
                                         .records_writes = setup.plan.depth > 1,
                                         .stop = &setup.shared.stop});
    if (!started) {
      Tally failed;
      failed.failure = started.error();
      send(inside.socket, {{"tally", to_json(failed)}});
      return 1;
    }
    runner = std::move(*started);
  }
  Worker(inside.socket, setup, runner.get()).serve();
  return 0;
}

}  // namespace crashcut::mounted
