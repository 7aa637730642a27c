#include "recovery/threads/flush_mend.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>

#include "recovery/inprocess/protocol.h"
#include "recovery/result/words.h"
#include "recovery/source/names.h"
#include "recovery/threads/losses.h"
#include "recovery/threads/story.h"

namespace crashcut::recovery {
namespace {

using Kind = pmem::AddedFlush::Kind;
using scheduler::ActorId;

constexpr std::size_t kCandidatesMost = 64;
constexpr double kLeastSearch_s = 5;

struct Candidate {
  Kind kind = Kind::kFence;
  std::string executable;
  pmem::PlaceId place = 0;  // in the executable
  std::string after, flushed;

  bool operator==(const Candidate& other) const {
    return kind == other.kind && executable == other.executable && place == other.place;
  }
};
using Candidates = std::vector<Candidate>;

// What a violation names.
class Evidence {
 public:
  Evidence(const ThreadPlan& plan, const ThreadFinding& finding, const std::function<bool()>& is_late)
      : plan_(plan), finding_(finding), story_(plan, finding, is_late) {
    for (const std::string& text : finding.details.texts) {
      for (const StoreAtStake& store : read_losses(text)) {
        if (store.fate == StoreAtStake::kLost || store.fate == StoreAtStake::kPoisoned) lost_.push_back(store);
        if (store.fate == StoreAtStake::kFlushBegun) flushes_.push_back(store);
      }
    }
  }

  bool has_losses() const { return !lost_.empty(); }

  // The cheapest first; of one kind those of the last stores.
  Candidates candidates() const {
    Candidates all;
    for (auto flush = flushes_.rbegin(); flush != flushes_.rend(); ++flush) {
      if (has_lost(flush->address)) add(Kind::kFence, *flush, all);
    }
    for (const Kind kind : {Kind::kFlush, Kind::kFlushAndFence}) {
      for (auto store = lost_.rbegin(); store != lost_.rend(); ++store) add(kind, *store, all);
    }
    return all;
  }

 private:
  static std::uint64_t line_of(std::uint64_t address) { return address / pmem::kLineBytes; }

  bool has_lost(std::uint64_t line) const {
    return std::any_of(lost_.begin(), lost_.end(), [&](const StoreAtStake& store) {
      return line_of(store.address) <= line_of(line) && line_of(line) <= line_of(store.address + store.bytes - 1);
    });
  }

  void add(Kind kind, const StoreAtStake& at, Candidates& all) const {
    const std::uint32_t machine = machine_of(finding_.actors, at.actor);
    if (at.code == 0 || machine >= finding_.details.bases.size() || machine >= plan_.machines.size()) return;
    const std::uint64_t place = at.code - finding_.details.bases[machine];
    if (place > std::numeric_limits<pmem::PlaceId>::max()) return;  // of a library
    Candidate candidate{kind, plan_.machines[machine].executable, static_cast<pmem::PlaceId>(place), place_text(at),
                        kind == Kind::kFence ? "" : story_.variable_text(at.address)};
    if (std::find(all.begin(), all.end(), candidate) == all.end()) all.push_back(std::move(candidate));
  }

  // "store.c:51 (insert)"
  std::string place_text(const StoreAtStake& at) const {
    scheduler::runtime::Race::Side side{};
    side.actor = static_cast<ActorId>(at.actor);
    side.frames = {at.code};
    const std::vector<result::SourceLine> lines = source::own_frames(story_.stack_of(side));
    if (lines.empty()) return fmt::format("the instruction at {:#x}", at.code);
    const result::SourceLine& line = lines.front();
    return line.file.empty() ? line.function : fmt::format("{} ({})", result::line_text(line), line.function);
  }

  const ThreadPlan& plan_;
  const ThreadFinding& finding_;
  ThreadStory story_;
  std::vector<StoreAtStake> lost_, flushes_;
};

std::string what_text(const Candidate& candidate) {
  if (candidate.kind == Kind::kFence) return "a fence after " + candidate.after;
  const char* fence = candidate.kind == Kind::kFlush ? "" : " and a fence";
  return fmt::format("a flush of {}{} after {}", candidate.flushed, fence, candidate.after);
}

class Mending {
 public:
  Mending(const ThreadPlan& plan, const persist::Deadline& deadline) : plan_(plan), deadline_(deadline) {
    plan_.wants_all = plan_.wants_outcomes = plan_.wants_states = false;
  }

  void find(ThreadFinding& finding) {
    const Evidence evidence(plan_, finding, [this] { return deadline_.is_over(); });
    const Candidates candidates = evidence.candidates();
    if (!evidence.has_losses()) {
      finding.no_mend = "No flush or fence makes this go away: no store was lost.";
      return;
    }
    std::size_t tried = 0;
    for (const Candidate& candidate : candidates) {
      if (tried == kCandidatesMost || deadline_.is_over()) break;
      const auto found = attempt({candidate});
      ++tried;
      if (is_mended(found)) return finding.mends.push_back(mend_of({candidate}, *found));
    }
    if (tried < candidates.size()) {
      finding.no_mend = fmt::format("Whether one flush or fence makes this go away is not known: {} of {} were tried.",
                                    tried, candidates.size());
      return;
    }
    if (auto mend = try_together(candidates)) {
      finding.mends.push_back(std::move(*mend));
    } else if (!deadline_.is_over()) {
      finding.no_mend = "No single flush or fence makes this go away.";
    }
  }

 private:
  // None: it could not be run.
  std::optional<ThreadResult> attempt(const Candidates& added) const {
    ThreadPlan changed = plan_;
    for (const Candidate& candidate : added) {
      for (std::uint32_t m = 0; m < plan_.machines.size(); ++m) {
        if (plan_.machines[m].executable == candidate.executable)
          changed.added_flushes.push_back({m, {candidate.kind, candidate.place}});
      }
    }
    auto found = check_threads(changed, {{}, &deadline_});
    if (!found) return std::nullopt;
    return std::move(*found);
  }

  static bool is_mended(const std::optional<ThreadResult>& found) {
    if (!found || found->finding || found->violations > 0 || found->search.executions == 0) return false;
    return found->not_repeatable.empty() &&
           (found->verdict == result::Verdict::kVerified || found->search.bound == result::Bound::kExecutions);
  }

  // Each is against a violation that those before it leave, as strong as can be.
  std::optional<result::Mend> try_together(Candidates candidates) const {
    Candidates added;
    while (added.size() < inprocess::kAddedMost && !deadline_.is_over()) {
      const auto is_new = [&](const Candidate& candidate) {
        return candidate.kind != Kind::kFlush &&
               std::none_of(added.begin(), added.end(), [&](const Candidate& a) { return a == candidate; });
      };
      const auto next = std::find_if(candidates.rbegin(), candidates.rend(), is_new);
      if (next == candidates.rend()) return std::nullopt;
      added.push_back(*next);
      const auto found = attempt(added);
      if (is_mended(found)) return mend_of_least(std::move(added), *found);
      if (!found || !found->finding || !found->finding->replays) return std::nullopt;
      candidates = Evidence(plan_, *found->finding, [this] { return deadline_.is_over(); }).candidates();
    }
    return std::nullopt;
  }

  // Leaves out what is not needed. `found` is what became of all of them.
  result::Mend mend_of_least(Candidates added, const ThreadResult& found) const {
    std::optional<ThreadResult> least;
    for (std::size_t i = added.size(); i-- > 0 && added.size() > 1 && !deadline_.is_over();) {
      Candidates fewer = added;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      auto again = attempt(fewer);
      if (!is_mended(again)) continue;
      added = std::move(fewer);
      least = std::move(again);
    }
    return mend_of(added, least ? *least : found);
  }

  // ", under this schedule"
  std::string scope_text() const {
    if (plan_.schedules != ThreadPlan::Schedules::kOne) return "";
    return plan_.seeds_most == 1 ? ", under this schedule" : fmt::format(", under {} schedules", plan_.seeds_most);
  }

  result::Mend mend_of(const Candidates& added, const ThreadResult& found) const {
    static constexpr const char* kKinds[] = {"fence", "flush", "flush and fence"};
    const Candidate& first = added.front();
    result::Mend mend{kKinds[static_cast<std::size_t>(first.kind)], first.flushed};
    std::string what;
    for (const Candidate& candidate : added) {
      mend.place += (mend.place.empty() ? "after " : ", ") + candidate.after;
      what += (what.empty() ? "" : "; ") + what_text(candidate);
    }
    mend.lines = first.kind == Kind::kFence ? 0 : 1;
    mend.executions = found.search.executions;
    mend.is_verified = found.verdict == result::Verdict::kVerified;
    const std::string executions = result::count_text(mend.executions, "execution", "executions");
    const std::string end = mend.is_verified
                                ? fmt::format("{}{}, none failed", mend.executions == 1 ? "" : "all ", executions)
                                : fmt::format("{}, none failed; there are more", executions);
    const char* how = mend.is_verified ? "verified with" : "tried with";
    what[0] = 'A';
    mend.text =
        added.size() == 1
            ? fmt::format("{} makes this go away ({} it{}: {}).", what, how, scope_text(), end)
            : fmt::format("No single flush or fence makes this go away, but these do together ({} them{}: {}): {}.",
                          how, scope_text(), end, what);
    return mend;
  }

  ThreadPlan plan_;
  const persist::Deadline& deadline_;
};

}  // namespace

void add_flush_mends(const ThreadPlan& plan, const persist::Deadline& deadline, ThreadResult& result) {
  const bool is_looked_for =
      plan.wants_mends && result.finding && plan.caches && result.finding->replays && !deadline.is_over();
  if (!is_looked_for) return;
  double limit_s = std::max(result.search.seconds, kLeastSearch_s);
  if (deadline.seconds_left() > 0) limit_s = std::min(limit_s, deadline.seconds_left());
  const persist::Deadline end(limit_s, deadline.stop());
  Mending(plan, end).find(*result.finding);
}

}  // namespace crashcut::recovery
