#include "recovery/mounted/pool.h"

#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <new>

#include "persist/check.h"
#include "recovery/mounted/record.h"
#include "recovery/mounted/sampling.h"
#include "recovery/mounted/worker.h"
#include "recovery/result/json.h"

namespace crashcut::mounted {
namespace {

using Clock = std::chrono::steady_clock;

// The share of a budget that goes to the tree before strategies take over.
constexpr double kTreeShare = 0.5;
// Without a budget a search that has found something ends after so long, or twice as long as that took.
constexpr double kAfterViolation_s = 3;

struct Item {
  std::size_t question;
  persist::Path prefix;
  double weight;  // its part of the whole
};

Run run_from(const Json& json) {
  Run run;
  run.result.answer.finding = static_cast<Finding>(json.at("finding").get<int>());
  run.result.answer.outcome = json.at("outcome");
  run.result.answer.promise = json.at("promise");
  run.result.code = json.at("code");
  run.result.signal = json.at("signal");
  run.result.output = json.at("output");
  run.result.errors = json.at("errors");
  run.result.output_cut = json.at("output_cut");
  run.result.errors_cut = json.at("errors_cut");
  run.result.failure = json.at("failure");
  run.result.is_users_fault = json.at("is_users_fault");
  run.path = json.at("path").get<std::vector<std::uint32_t>>();
  run.events_in = json.at("events_in");
  run.layer = json.at("layer");
  run.diverged = json.at("diverged");
  return run;
}

}  // namespace

struct Pool::Impl {
  struct Worker {
    sandbox::Sandbox sandbox;
    bool is_busy = false;
    Item item{};
    double weight_left = 0;  // of the item
    double fraction = 0;     // of that, done
  };

  Setup setup;
  Shared* shared = nullptr;
  std::vector<Worker> workers;
  std::deque<Item> items;
  double done_weight = 0;
  bool is_cut_short = false;
  Explored explored;
  Clock::time_point begin;

  explicit Impl(const Setup& given) : setup(given) {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    shared = new (memory) Shared();
  }
  ~Impl() {
    workers.clear();
    munmap(shared, sizeof(Shared));
  }

  double elapsed_s() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }

  void hand_out() {
    std::uint32_t idle = 0;
    for (Worker& worker : workers) {
      if (!worker.is_busy && !items.empty()) {
        worker.item = std::move(items.front());
        items.pop_front();
        worker.weight_left = worker.item.weight;
        worker.fraction = 0;
        worker.is_busy = send(worker.sandbox.socket(),
                              {{"do", "explore"}, {"question", worker.item.question}, {"prefix", worker.item.prefix}});
      }
      idle += !worker.is_busy;
    }
    shared->idle_workers = idle;
  }

  bool is_busy() const {
    return std::any_of(workers.begin(), workers.end(), [](const Worker& worker) { return worker.is_busy; });
  }

  tl::expected<void, Failure> handle(Worker& worker, const Json& message) {
    if (message.contains("tally")) {
      explored.tally.add(tally_from(message.at("tally")));
      worker.fraction = message.value("fraction", worker.fraction);
    }
    if (message.contains("prefixes")) {
      const auto prefixes = message.at("prefixes").get<std::vector<persist::Path>>();
      const double given = worker.weight_left * message.at("share").get<double>();
      for (const persist::Path& prefix : prefixes) {
        items.push_back(Item{worker.item.question, prefix, given / static_cast<double>(prefixes.size())});
      }
      worker.weight_left -= given;
    }
    if (message.contains("left")) {
      is_cut_short = true;
      done_weight += worker.weight_left * message.at("fraction").get<double>();
      worker.weight_left = 0;
    }
    if (message.contains("done")) {
      done_weight += worker.weight_left;
      worker.weight_left = 0;
      worker.is_busy = false;
    }
    return {};
  }

  // Waits for messages for a tenth of a second at most.
  tl::expected<void, Failure> listen() {
    std::vector<pollfd> sockets;
    for (const Worker& worker : workers) sockets.push_back(pollfd{worker.sandbox.socket(), POLLIN, 0});
    poll(sockets.data(), sockets.size(), 100);
    for (std::size_t i = 0; i < workers.size(); ++i) {
      if (sockets[i].revents == 0) continue;
      const auto message = receive(workers[i].sandbox.socket());
      if (!message) return tl::unexpected(worker_gone());
      if (auto ok = handle(workers[i], *message); !ok) return ok;
    }
    return {};
  }

  Failure worker_gone() const {
    if (!explored.tally.failure.empty())
      return Failure{explored.tally.is_users_failure ? result::Blame::kUser : result::Blame::kTool,
                     explored.tally.failure};
    return result::tools_failure("A worker ended before its time.");
  }

  // The part of --max-recoveries that may be used by now.
  void allow(double share) {
    shared->recoveries_max =
        setup.plan.max_recoveries == 0
            ? 0
            : std::max<std::uint64_t>(
                  1, static_cast<std::uint64_t>(static_cast<double>(setup.plan.max_recoveries) * share));
  }

  bool is_time_up(double share) const {
    const CheckPlan& plan = setup.plan;
    if (shared->is_enough()) return true;
    return plan.time_limit.count() > 0 && elapsed_s() >= plan.time_limit.count() * share;
  }

  // Until the workers have nothing left to do, or `is_enough`.
  tl::expected<void, Failure> run_until(const PoolHooks& hooks, const std::function<bool()>& is_enough) {
    for (hand_out(); is_busy(); hand_out()) {
      if (auto ok = listen(); !ok) return ok;
      if (!explored.tally.failure.empty()) shared->stop = true;
      const bool interrupted = hooks.is_interrupted && hooks.is_interrupted();
      if (interrupted) explored.bound = Bound::kInterrupt;
      if (interrupted || is_enough() || shared->is_enough()) {
        shared->stop = true;
        is_cut_short = is_cut_short || !items.empty();
        items.clear();
      }
      if (hooks.on_progress) {
        double fraction = done_weight;
        for (const Worker& worker : workers) fraction += worker.weight_left * worker.fraction;
        result::Progress progress;
        progress.seconds = elapsed_s();
        progress.recoveries = shared->recoveries;
        progress.violations = explored.tally.violations;
        progress.fraction = std::min(1.0, fraction);
        hooks.on_progress(progress);
      }
    }
    shared->stop = false;
    return {};
  }

  tl::expected<void, Failure> explore_tree(const PoolHooks& hooks) {
    for (std::size_t i = 0; i < setup.questions.size(); ++i) {
      items.push_back(Item{i, {}, 1.0 / static_cast<double>(setup.questions.size())});
    }
    const bool has_budget = setup.plan.max_recoveries > 0 || setup.plan.time_limit.count() > 0;
    double first_violation_s = -1;
    allow(kTreeShare);
    return run_until(hooks, [&] {
      if (has_budget) return is_time_up(kTreeShare);
      if (setup.plan.wants_all) return false;
      if (explored.tally.violations > 0 && first_violation_s < 0) first_violation_s = elapsed_s();
      const bool is_enough = first_violation_s >= 0 &&
                             elapsed_s() > first_violation_s + std::max(kAfterViolation_s, 2 * first_violation_s);
      if (is_enough && explored.bound == Bound::kNone) explored.bound = Bound::kEnoughFound;
      return is_enough;
    });
  }

  // What the tree did not reach within its share of the budget.
  tl::expected<void, Failure> explore_samples(const PoolHooks& hooks) {
    const std::uint64_t before = shared->recoveries;
    for (int strategy = 0; strategy < kStrategyCount && explored.bound != Bound::kInterrupt; ++strategy) {
      const double share = kTreeShare + (1 - kTreeShare) * (strategy + 1) / kStrategyCount;
      allow(share);
      for (std::size_t question = 0; question < setup.questions.size() && !is_time_up(share); ++question) {
        std::uint64_t count = 1000;
        if (setup.plan.max_recoveries > 0) {
          const double left = static_cast<double>(shared->recoveries_max) - static_cast<double>(shared->recoveries);
          count =
              static_cast<std::uint64_t>(std::max(1.0, left / static_cast<double>(setup.questions.size() - question) /
                                                           static_cast<double>(workers.size())));
        }
        for (std::size_t i = 0; i < workers.size(); ++i) {
          workers[i].weight_left = 0;
          workers[i].is_busy = send(workers[i].sandbox.socket(), {{"do", "sample"},
                                                                  {"question", question},
                                                                  {"strategy", strategy},
                                                                  {"seed", setup.plan.seed * 1000 + i},
                                                                  {"count", count}});
        }
        const auto end_s = setup.plan.time_limit.count() * share;
        auto done = run_until(hooks, [&] { return is_time_up(share) || (end_s > 0 && elapsed_s() > end_s); });
        if (!done) return done;
      }
    }
    explored.sampled = shared->recoveries - before;
    return {};
  }

  tl::expected<Json, Failure> ask(Json request) {
    Worker& worker = workers.front();
    if (!send(worker.sandbox.socket(), request)) return tl::unexpected(worker_gone());
    while (auto message = receive(worker.sandbox.socket())) {
      if (message->contains("done")) return *message;
    }
    return tl::unexpected(worker_gone());
  }
};

Pool::Pool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pool::~Pool() = default;

tl::expected<std::unique_ptr<Pool>, Failure> Pool::start(const Setup& setup) {
  auto impl = std::make_unique<Impl>(setup);
  for (std::uint32_t i = 0; i < setup.plan.jobs; ++i) {
    const WorkerSetup worker{setup.plan, setup.recording, setup.histories, setup.questions, *impl->shared, i};
    auto started = sandbox::Sandbox::start([worker](const sandbox::Inside& inside) { return work(inside, worker); },
                                           options_for_checkers(setup.plan.directory, setup.plan.pid_namespace));
    if (!started) return tl::unexpected(result::tools_failure(started.error()));
    // Without namespaces they would all mount at the same place; and only one namespace has the number that is wanted.
    const bool is_alone =
        (started->mode() == sandbox::Mode::kSubreaper && !setup.plan.checker.empty()) || setup.plan.pid_namespace != 0;
    impl->explored.is_in_other_namespace = setup.plan.pid_namespace != 0 && !setup.plan.checker.empty() &&
                                           started->pid_namespace() != setup.plan.pid_namespace;
    impl->workers.push_back(Impl::Worker{std::move(*started)});
    if (is_alone) break;
  }
  return std::unique_ptr<Pool>(new Pool(std::move(impl)));
}

tl::expected<Explored, Failure> Pool::explore(const PoolHooks& hooks) {
  impl_->begin = Clock::now();
  if (auto done = impl_->explore_tree(hooks); !done) return tl::unexpected(done.error());
  Explored& explored = impl_->explored;
  const bool has_budget = impl_->setup.plan.max_recoveries > 0 || impl_->setup.plan.time_limit.count() > 0;
  if (impl_->is_cut_short && has_budget && explored.bound == Bound::kNone && explored.tally.failure.empty()) {
    if (auto done = impl_->explore_samples(hooks); !done) return tl::unexpected(done.error());
  }
  explored.seconds = impl_->elapsed_s();
  if (!explored.tally.failure.empty()) {
    return tl::unexpected(
        Failure{explored.tally.is_users_failure ? result::Blame::kUser : result::Blame::kTool, explored.tally.failure});
  }
  if (impl_->is_cut_short) {
    explored.fraction = std::min(impl_->done_weight, 1.0);
    if (explored.bound == Bound::kNone) {
      explored.bound = !has_budget                                ? Bound::kNotDeterministic
                       : impl_->setup.plan.time_limit.count() > 0 ? Bound::kTime
                                                                  : Bound::kRecoveries;
    }
  } else {
    explored.bound = Bound::kNone;
  }
  return explored;
}

tl::expected<Told, Failure> Pool::tell(std::size_t question, const std::vector<std::uint32_t>& path) {
  auto answer = impl_->ask({{"do", "tell"}, {"question", question}, {"path", path}});
  if (!answer) return tl::unexpected(answer.error());
  return Told{run_from(answer->at("run")), result::story_from_json(answer->at("story"))};
}

tl::expected<Run, Failure> Pool::run_cut(std::size_t question, const std::vector<std::uint32_t>& events,
                                         std::uint32_t drop) {
  auto answer = impl_->ask({{"do", "cut"}, {"question", question}, {"events", events}, {"drop", drop}});
  if (!answer) return tl::unexpected(answer.error());
  return run_from(answer->at("run"));
}

}  // namespace crashcut::mounted
