#include "scheduler/deepening.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <string>
#include <utility>

namespace crashcut::scheduler {

namespace {

constexpr std::uint32_t kShallowest = 4, kDeepest = 4096;
constexpr std::uint64_t kShareExecutions = 10'000, kShareWork = 50'000'000;
constexpr std::uint64_t kShareGrowth = 4;
constexpr std::uint32_t kLevelsExpected = 8;  // so many have to share a bound on time or executions

// 4, 6, 8, 12, 16, 24, ...
std::uint32_t next_depth(std::uint32_t depth) { return std::has_single_bit(depth) ? depth / 2 * 3 : depth / 3 * 4; }

struct Level {
  std::uint32_t depth;
  std::uint64_t share = 1;  // in multiples of the smallest
  bool is_whole = false, is_too_long = false;
  TreeSketch rest{};  // of what was tried so far
};

class Deepener {
 public:
  Deepener(const std::vector<Program*>& workers, const SearchSetup& setup)
      : workers_(workers), setup_(setup), deadline_(setup.bounds.time_most_s, setup.stop) {}

  SearchResult run() {
    if (setup_.rest == nullptr || setup_.rest->depth == 0) {
      total_ = search(workers_, setup_);
      if (!total_.is_too_long) {
        if (total_.fraction.likely == 1) total_.depth_whole = setup_.bounds.depth_most;
        return std::move(total_);
      }
      total_.bound = Bound::kNone;
      go_down({kShallowest});
    } else {
      total_.depth_whole = setup_.rest->depth_whole;
      total_.rest.unstirred_waits = setup_.rest->unstirred_waits;
      total_.rest.hit_timeouts = setup_.rest->hit_timeouts;
      total_.rest.hit_preemptions = setup_.rest->hit_preemptions;
      go_down({.depth = setup_.rest->depth, .rest = *setup_.rest});
    }
    // With bounds of the caller's, what they leave goes to the levels that were left.
    while (!is_over_ && (setup_.bounds.time_most_s > 0 || setup_.bounds.executions_most != 0) && !unfinished_.empty())
      go_on();
    return finished();
  }

 private:
  // This level and deeper ones, each once.
  void go_down(Level level) {
    const std::uint32_t deepest = setup_.bounds.depth_most == 0 ? kDeepest : setup_.bounds.depth_most - 1;
    while (!is_over_ && level.depth <= deepest) {
      explore(level);
      note(level);
      if (level.is_too_long || level.depth == deepest) return;
      const std::uint64_t depth = unfinished_.empty() ? next_depth(level.depth) : std::uint64_t{level.depth} * 4;
      level = {static_cast<std::uint32_t>(std::min<std::uint64_t>(depth, deepest))};
    }
  }
  void go_on() {
    std::vector<Level> levels = std::exchange(unfinished_, {});
    for (Level& level : levels) {
      level.share *= kShareGrowth;
      if (!is_over_) explore(level);
      note(level);
    }
  }
  void note(const Level& level) {
    has_gap_ = has_gap_ || level.is_too_long;
    if (level.is_whole && unfinished_.empty() && !has_gap_)
      total_.depth_whole = std::max(total_.depth_whole, level.depth);
    if (!level.is_whole && !level.is_too_long) unfinished_.push_back(level);
  }

  void explore(Level& level) {
    SearchSetup setup = setup_;
    bool is_stopped = false;
    setup.on_execution = [&](const Execution& execution) {
      is_stopped = setup_.on_execution && !setup_.on_execution(execution);
      return !is_stopped;
    };
    setup.turn_most = kTurn;
    setup.bounds.depth_most = level.depth;
    setup.bounds.executions_most = share_of_executions(level);
    setup.bounds.time_most_s = share_of_time(level);
    setup.bounds.work_most = level.share * kShareWork;
    setup.rest = level.rest.nodes.empty() ? nullptr : &level.rest;
    if (setup_.on_progress) {
      setup.on_progress = [&](Progress p) {
        p.executions += total_.executions;
        p.seconds = deadline_.seconds();
        p.part = "the schedules of at most " + std::to_string(level.depth) + " steps a thread";
        setup_.on_progress(p);
      };
    }
    SearchResult result = search(workers_, setup);
    add(result);
    total_.depth_tried = std::max(total_.depth_tried, level.depth);
    level.is_too_long = result.is_too_long;
    static constexpr Bound kWhole[] = {Bound::kNone, Bound::kSteps, Bound::kPreemptions, Bound::kTimeouts};
    level.is_whole =
        std::count(std::begin(kWhole), std::end(kWhole), result.bound) > 0 && !level.is_too_long && !result.diverged;
    level.rest = std::move(result.rest);
    if (is_stopped) end(Bound::kEnoughFound);
    if (result.diverged || result.bound == Bound::kCutShort) end(result.bound);
    if (setup_.bounds.executions_most != 0 && total_.executions >= setup_.bounds.executions_most)
      end(Bound::kExecutions);
    if (const Bound late = deadline_.hit(); late != Bound::kNone) end(late);
  }
  void end(Bound bound) {
    if (!is_over_) total_.bound = bound;
    is_over_ = true;
  }

  std::uint64_t share_of_executions(const Level& level) const {
    const std::uint64_t most = setup_.bounds.executions_most, own = level.share * kShareExecutions;
    if (most == 0) return own;
    return std::min({own, std::max<std::uint64_t>(level.share * (most / kLevelsExpected), 1),
                     std::max<std::uint64_t>(most - std::min(most, total_.executions), 1)});
  }
  double share_of_time(const Level& level) const {
    const double most = setup_.bounds.time_most_s;
    if (most <= 0) return 0;
    return std::max(std::min(static_cast<double>(level.share) * most / kLevelsExpected, deadline_.seconds_left()),
                    0.001);
  }

  void add(SearchResult& result) {
    total_ += result;
    total_.gave_up_foresight = total_.gave_up_foresight || result.gave_up_foresight;
    total_.rest.unstirred_waits = std::max(total_.rest.unstirred_waits, result.rest.unstirred_waits);
    total_.rest.hit_timeouts = total_.rest.hit_timeouts || result.rest.hit_timeouts;
    total_.rest.hit_preemptions = total_.rest.hit_preemptions || result.rest.hit_preemptions;
    if (!result.diverged) return;
    total_.diverged = true;
    total_.divergence = std::move(result.divergence);
    total_.diverged_at = result.diverged_at;
    total_.expected = result.expected;
  }

  SearchResult finished() {
    const bool hit_timeouts = total_.rest.hit_timeouts, hit_preemptions = total_.rest.hit_preemptions;
    const std::uint64_t unstirred_waits = total_.rest.unstirred_waits;
    if (!unfinished_.empty()) {
      total_.rest = std::move(unfinished_.front().rest);
      total_.rest.depth = unfinished_.front().depth;
    }
    total_.rest.depth_whole = total_.depth_whole;
    total_.rest.unstirred_waits = unstirred_waits;
    total_.rest.hit_depth = total_.is_too_long = true;
    total_.rest.hit_timeouts = hit_timeouts;
    total_.rest.hit_preemptions = hit_preemptions;
    total_.seconds = deadline_.seconds();
    total_.fraction = 0;
    if (total_.bound == Bound::kNone) total_.bound = bound_of(total_.rest);
    return std::move(total_);
  }

  const std::vector<Program*>& workers_;
  const SearchSetup& setup_;
  persist::Deadline deadline_;
  SearchResult total_;
  std::vector<Level> unfinished_;  // the shallow ones first
  bool has_gap_ = false;           // a level cannot be whole
  bool is_over_ = false;
};

}  // namespace

SearchResult search_deepening(const std::vector<Program*>& workers, const SearchSetup& setup) {
  return Deepener(workers, setup).run();
}

}  // namespace crashcut::scheduler
