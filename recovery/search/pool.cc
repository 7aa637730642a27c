#include "recovery/search/pool.h"

#include <poll.h>
#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <new>

#include "persist/check.h"
#include "recovery/search/sampling.h"
#include "recovery/search/worker.h"

namespace crashcut::search {
namespace {

using Clock = Pool::Clock;
using persist::Estimate;

// The share of a budget that goes to the tree before strategies take over.
constexpr double kTreeShare = 0.5;
// Without a budget a search that has found something ends after so long, or twice as long as that took.
constexpr double kAfterViolation_s = 3;
constexpr std::chrono::milliseconds kShowEvery{100};
// A worker may take longer to start than a small search takes: the first one is alone for so long.
constexpr std::chrono::milliseconds kAloneFor{Worker::kTick_ms};

}  // namespace

struct Pool::Impl {
  struct Hand {
    std::unique_ptr<Worker> worker;
    bool is_busy = false;
    // Of the units that it explores.
    std::size_t question = 0;
    std::optional<Estimate> size{};  // recoveries
    double done = 0;                 // of these
  };

  FrontEnd& front_end;
  const Plan plan;
  Shared* shared = nullptr;
  std::vector<Hand> workers;
  std::size_t question_count;
  std::deque<Unit> units;  // nobody has begun
  std::vector<Unit> left;  // stopped
  double done_before = 0;  // recoveries of earlier searches
  double done = 0;         // recoveries of units that are over, and of stopped ones
  bool is_lost = false;    // something is left that cannot be gone on with
  bool is_sampling = false;
  Tally tree, samples;
  Bound bound = Bound::kNone;
  std::function<bool()> is_interrupted;
  bool was_interrupted = false;  // before the violation was told
  Clock::time_point begin;
  double seconds_before = 0;

  Impl(FrontEnd& from, const Plan& with) : front_end(from), plan(with), question_count(from.subjects().size()) {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    shared = new (memory) Shared();
  }
  ~Impl() {
    workers.clear();
    munmap(shared, sizeof(Shared));
  }

  double elapsed_s() const { return std::chrono::duration<double>(Clock::now() - begin).count(); }
  const std::optional<Failure>& failure() const { return tree.failure ? tree.failure : samples.failure; }
  std::uint64_t violations() const { return tree.violations + samples.violations; }
  bool is_cut_short() const { return is_lost || !left.empty(); }

  tl::expected<void, Failure> start_worker() {
    const auto index = static_cast<std::uint32_t>(workers.size());
    auto started = front_end.start_worker({index, plan.depth, plan.seed, *shared});
    if (!started) return tl::unexpected(started.error());
    workers.push_back(Hand{std::move(*started)});
    return {};
  }
  tl::expected<void, Failure> start_others() {
    while (workers.size() < plan.jobs && front_end.has_room(static_cast<std::uint32_t>(workers.size()))) {
      if (auto ok = start_worker(); !ok) return ok;
    }
    return {};
  }

  static void give(Hand& hand, const Task& task) {
    hand.is_busy = true;
    hand.worker->begin(task);
  }

  void hand_out() {
    std::uint32_t idle = 0;
    for (Hand& hand : workers) {
      if (!hand.is_busy && !units.empty() && !shared->stop) give_units(hand);
      idle += !hand.is_busy;
    }
    shared->idle_workers = units.empty() ? idle : 0;
  }

  void give_units(Hand& hand) {
    Task task{.question = units.front().question, .done_before = question_count == 1 ? done_before : 0};
    hand.question = task.question;
    hand.size = Estimate{0, 0, 0};
    hand.done = 0;
    do {
      const Unit& unit = task.units.emplace_back(std::move(units.front()));
      units.pop_front();
      if (unit.size && hand.size) {
        *hand.size += *unit.size;
      } else {
        hand.size = std::nullopt;
      }
    } while (hand.worker->takes_all_units() && !units.empty() && units.front().question == task.question);
    give(hand, task);
  }

  bool is_busy() const {
    return std::any_of(workers.begin(), workers.end(), [](const Hand& hand) { return hand.is_busy; });
  }

  void handle(Hand& hand, const Message& message) {
    if (!message.tally.empty()) (is_sampling ? samples : tree).add(message.tally);
    // Before the first recovery of a unit, the worker that gave it away knows more of its size.
    if (message.size && message.done > 0) {
      hand.size = message.size;
      hand.done = message.done;
    }
    for (const persist::Path& prefix : message.given_away)
      units.push_back(Unit{hand.question, prefix, message.given_size});
    if (!message.is_ready) return;
    is_lost = is_lost || message.is_broken;
    if (!is_sampling) end_units(hand, message.left);
    hand.is_busy = false;
  }

  void end_units(Hand& hand, const std::vector<persist::Part>& parts) {
    done += hand.done;
    const auto count = static_cast<double>(parts.size());
    const Estimate size = hand.size.value_or(Estimate{});
    // Nothing says which of the parts that are left are the larger ones.
    const auto share = [&](double whole) { return std::max(1.0, (whole - hand.done) / count); };
    for (const persist::Part& part : parts)
      left.push_back(Unit{hand.question, part, Estimate{share(size.low), share(size.likely), share(size.high)}});
    hand.size = std::nullopt;
    hand.done = 0;
  }

  // Waits for messages for a moment.
  tl::expected<void, Failure> listen() {
    std::vector<pollfd> sockets;
    for (const Hand& hand : workers) sockets.push_back(pollfd{hand.worker->fd(), POLLIN, 0});
    poll(sockets.data(), sockets.size(), Worker::kTick_ms);
    for (std::size_t i = 0; i < workers.size(); ++i) {
      const auto message = workers[i].worker->receive(sockets[i].revents != 0);
      if (!message) return tl::unexpected(worker_gone(message.error()));
      handle(workers[i], *message);
    }
    return {};
  }

  // What the worker said before it ended is the reason.
  Failure worker_gone(const Failure& how) const { return failure() ? *failure() : how; }

  // The part of --max-recoveries that may be used by now.
  void allow(double share) {
    const auto most = static_cast<double>(plan.max_recoveries) * share;
    shared->recoveries_max =
        plan.max_recoveries == 0 ? 0 : std::max<std::uint64_t>(1, static_cast<std::uint64_t>(most));
  }

  bool is_spent(double share) const {
    if (shared->is_enough()) return true;
    return plan.time_limit.count() > 0 && elapsed_s() >= plan.time_limit.count() * share;
  }

  // Of the whole: what is done, and what is likely to be still to do.
  result::Fraction fraction() const {
    double all_done = done;
    Estimate rest{0, 0, 0};
    std::vector<bool> is_known(question_count, false);
    const auto add = [&](const Unit& unit, double unit_done) {
      if (!unit.size) return;
      is_known[unit.question] = true;
      all_done += unit_done;
      rest += Estimate{std::max(0.0, unit.size->low - unit_done), std::max(0.0, unit.size->likely - unit_done),
                       std::max(0.0, unit.size->high - unit_done)};
    };
    for (const Hand& hand : workers) add(Unit{hand.question, {}, hand.size}, hand.done);
    for (const Unit& unit : units) add(unit, 0);
    for (const Unit& unit : left) add(unit, 0);
    // Questions that nobody has begun are taken to be like the others.
    std::vector<bool> is_open(question_count, false);
    for (const Unit& unit : units) is_open[unit.question] = is_open[unit.question] || !unit.size;
    double unknown = 0, known = 0;
    for (std::size_t i = 0; i < question_count; ++i) (is_open[i] && !is_known[i] ? unknown : known) += 1;
    if (unknown > 0) {
      const double scale = known > 0 ? unknown / known : 1;
      rest += Estimate{(all_done + rest.low) * scale, (all_done + rest.likely) * scale, (all_done + rest.high) * scale};
    }
    if (all_done == 0) return {0, 0, rest.likely == 0 && unknown == 0 ? 1.0 : 0.0};
    return {all_done / (all_done + rest.high), all_done / (all_done + rest.likely), all_done / (all_done + rest.low)};
  }

  void show(const Hooks& hooks) const {
    if (!hooks.on_progress) return;
    result::Progress progress;
    progress.seconds = elapsed_s();
    progress.recoveries = shared->recoveries;
    progress.violations = violations();
    progress.fraction = fraction();
    hooks.on_progress(progress);
  }

  // Whether the budget is likely to be enough for the whole tree, if that is as small as it may be.
  bool has_budget_for_all() const {
    const double so_far = static_cast<double>(shared->recoveries), part = fraction().high;
    if (part <= 0 || so_far == 0) return false;
    const double left_over = (done / part - done) / so_far;  // as often as what was done
    const double spent = plan.max_recoveries == 0 ? 0 : so_far / static_cast<double>(plan.max_recoveries);
    const double spent_time = plan.time_limit.count() > 0 ? elapsed_s() / plan.time_limit.count() : 0;
    return std::max(spent, spent_time) * (1 + left_over) < 1.001;
  }

  // Until the workers have nothing left to do, or `is_enough`.
  tl::expected<void, Failure> run_until(const Hooks& hooks, const std::function<bool()>& is_enough) {
    const auto started = Clock::now();
    auto shown = started;
    for (hand_out(); is_busy(); hand_out()) {
      if (auto ok = listen(); !ok) return ok;
      if (!shared->stop && Clock::now() - started >= kAloneFor) {
        if (auto ok = start_others(); !ok) return ok;
      }
      const bool interrupted = hooks.is_interrupted && hooks.is_interrupted();
      if (interrupted) bound = Bound::kInterrupt;
      if (interrupted || failure() || is_enough() || shared->is_enough()) shared->stop = true;
      if (shared->stop) {
        left.insert(left.end(), units.begin(), units.end());
        units.clear();
      }
      if (Clock::now() - shown < kShowEvery) continue;
      shown = Clock::now();
      show(hooks);
    }
    shared->stop = false;
    return {};
  }

  // What is left of the tree, with a share of the budget.
  tl::expected<void, Failure> explore_tree(const Hooks& hooks, double share) {
    double first_violation_s = -1;
    units.insert(units.end(), left.begin(), left.end());
    left.clear();
    allow(share);
    return run_until(hooks, [&] {
      if (plan.ends_at_violation && violations() > 0) {
        bound = Bound::kEnoughFound;
        return true;
      }
      // The first recovery may take more than the share: to stop it would leave nothing to say.
      if (plan.has_budget()) return is_spent(shared->recoveries > 0 ? share : 1);
      if (plan.wants_all) return false;
      if (violations() > 0 && first_violation_s < 0) first_violation_s = elapsed_s();
      const bool is_found = first_violation_s >= 0 &&
                            elapsed_s() > first_violation_s + std::max(kAfterViolation_s, 2 * first_violation_s);
      if (is_found && bound == Bound::kNone) bound = Bound::kEnoughFound;
      return is_found;
    });
  }

  bool goes_on_with_tree() const { return is_cut_short() && !is_lost && bound == Bound::kNone && !failure(); }

  // What the tree did not reach within its share of the budget.
  tl::expected<void, Failure> explore_samples(const Hooks& hooks) {
    if (auto ok = start_others(); !ok) return ok;
    is_sampling = true;
    for (int strategy = 0; strategy < kStrategyCount && bound != Bound::kInterrupt; ++strategy) {
      const double share = kTreeShare + (1 - kTreeShare) * (strategy + 1) / kStrategyCount;
      allow(share);
      for (std::size_t question = 0; question < question_count && !is_spent(share); ++question) {
        std::uint64_t count = 1000;
        if (plan.max_recoveries > 0) {
          const double open = static_cast<double>(shared->recoveries_max) - static_cast<double>(shared->recoveries);
          count = static_cast<std::uint64_t>(std::max(
              1.0, open / static_cast<double>(question_count - question) / static_cast<double>(workers.size())));
        }
        for (std::size_t i = 0; i < workers.size(); ++i) {
          give(workers[i], {.kind = Task::Kind::kSample,
                            .question = question,
                            .strategy = strategy,
                            .seed = plan.seed * 1000 + i,
                            .count = count});
        }
        if (auto ok = run_until(hooks, [&] { return is_spent(share); }); !ok) return ok;
      }
    }
    is_sampling = false;
    return {};
  }

  // One recovery, by a worker that has nothing else to do. Stopped, or not even begun, where there is no time for it.
  tl::expected<NarratedRun, Failure> ask(const Task& task, Clock::time_point deadline) {
    const auto must_end = [&] {
      return Clock::now() >= deadline || (is_interrupted && is_interrupted() && !was_interrupted);
    };
    if (must_end()) {
      NarratedRun stopped;
      stopped.run.ending.kind = Ending::Kind::kStopped;
      return stopped;
    }
    Worker& worker = *workers.front().worker;
    worker.begin(task);
    for (;;) {
      pollfd ready{worker.fd(), POLLIN, 0};
      poll(&ready, 1, Worker::kTick_ms);
      // It ends the recovery, which then says that it was stopped.
      if (must_end()) shared->stop = true;
      auto message = worker.receive(ready.revents != 0);
      if (!message) return tl::unexpected(worker_gone(message.error()));
      if (message->tally.failure) return tl::unexpected(*message->tally.failure);
      if (!message->is_ready) continue;
      shared->stop = false;
      return std::move(*message->narrated_run);
    }
  }

  // Counts as a sample where it still fails; else the tree comes to it in its turn.
  tl::expected<void, Failure> try_known(const Known& known) {
    const auto deadline = plan.time_limit.count() > 0
                              ? begin + std::chrono::duration_cast<Clock::duration>(plan.time_limit)
                              : Clock::time_point::max();
    const auto answer =
        ask({.kind = Task::Kind::kTell, .question = known.question, .path = known.path, .is_brief = true}, deadline);
    if (!answer) return tl::unexpected(answer.error());
    const Run& run = answer->run;
    if (run.diverged || !run.ending.is_violation()) return {};
    samples.add(known.question, run);
    ++shared->recoveries;
    return {};
  }

  Explored explored() const {
    Explored result;
    result.seconds = seconds_before + elapsed_s();
    result.tally = tree;
    if (!is_cut_short()) {  // samples are among what the tree has
      if (plan.keeps_finished) result.rest = Rest{{}, tree, {}, result.seconds, 0, ""};
      return result;
    }
    result.tally.add(samples);
    result.sampled = samples.recoveries;
    result.fraction = fraction();
    const bool has_all_recoveries = plan.max_recoveries > 0 && shared->recoveries >= plan.max_recoveries;
    result.bound = bound != Bound::kNone                                ? bound
                   : is_lost && !tree.not_run.empty()                   ? Bound::kNotRun
                   : is_lost                                            ? Bound::kNotDeterministic
                   : plan.time_limit.count() > 0 && !has_all_recoveries ? Bound::kTime
                                                                        : Bound::kRecoveries;
    if (!is_lost) result.rest = Rest{left, tree, samples, result.seconds, 0, ""};
    return result;
  }
};

Pool::Pool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pool::~Pool() = default;

tl::expected<std::unique_ptr<Pool>, Failure> Pool::start(FrontEnd& front_end, const Plan& plan) {
  auto impl = std::make_unique<Impl>(front_end, plan);
  if (auto ok = impl->start_worker(); !ok) return tl::unexpected(ok.error());
  return std::unique_ptr<Pool>(new Pool(std::move(impl)));
}

tl::expected<Explored, Failure> Pool::explore(const Hooks& hooks, const Rest* before, const std::vector<Known>& known) {
  Impl& impl = *impl_;
  impl.begin = Clock::now();
  impl.is_interrupted = hooks.is_interrupted;
  if (before != nullptr) {
    impl.units.assign(before->units.begin(), before->units.end());
    impl.tree = before->tree;
    impl.samples = before->samples;
    impl.done = impl.done_before = static_cast<double>(before->tree.recoveries);
    impl.seconds_before = before->seconds;
  } else {
    for (std::size_t i = 0; i < impl.question_count; ++i) impl.units.push_back(Unit{i});
  }
  for (const Known& one : known) {
    if (impl.is_spent(kTreeShare)) break;
    if (auto ok = impl.try_known(one); !ok) return tl::unexpected(ok.error());
  }
  const bool may_sample = impl.plan.has_budget() && impl.plan.samples;
  if (auto ok = impl.explore_tree(hooks, may_sample ? kTreeShare : 1); !ok) return tl::unexpected(ok.error());
  if (may_sample && impl.goes_on_with_tree() && !impl.has_budget_for_all()) {
    if (auto ok = impl.explore_samples(hooks); !ok) return tl::unexpected(ok.error());
  }
  impl.allow(1);
  if (may_sample && impl.goes_on_with_tree() && !impl.is_spent(1)) {
    if (auto ok = impl.explore_tree(hooks, 1); !ok) return tl::unexpected(ok.error());
  }
  impl.was_interrupted = impl.bound == Bound::kInterrupt;
  if (impl.failure()) return tl::unexpected(*impl.failure());
  return impl.explored();
}

tl::expected<NarratedRun, Failure> Pool::tell(std::size_t question, const std::vector<std::uint32_t>& path,
                                              Clock::time_point deadline, bool is_brief) {
  return impl_->ask({.kind = Task::Kind::kTell, .question = question, .path = path, .is_brief = is_brief}, deadline);
}

tl::expected<Run, Failure> Pool::run_cut(std::size_t question, const std::vector<std::uint32_t>& events,
                                         std::uint32_t drop, Clock::time_point deadline) {
  auto answer =
      impl_->ask({.kind = Task::Kind::kRunCut, .question = question, .events = events, .drop = drop}, deadline);
  if (!answer) return tl::unexpected(answer.error());
  return std::move(answer->run);
}

}  // namespace crashcut::search
