#include "recovery/search/mend.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "recovery/result/words.h"
#include "recovery/search/pool.h"

namespace crashcut::search {
namespace {

using persist::AddedSync;
using persist::SyncCandidate;
using Changes = std::vector<SyncCandidate>;

constexpr std::size_t kPlacesMost = 3;      // of one mend
constexpr std::size_t kAttemptsMost = 120;  // of one search
constexpr std::chrono::seconds kLeastSearch{5};

std::vector<AddedSync> syncs_of(const Changes& changes) {
  std::vector<AddedSync> syncs;
  for (const SyncCandidate& change : changes) syncs.insert(syncs.end(), change.syncs.begin(), change.syncs.end());
  return syncs;
}

// Whether everything that `less` does is done by `more` too.
bool is_covered(const AddedSync& less, const AddedSync& more) {
  return less.before == more.before &&
         (more.kind == AddedSync::Kind::kSync || (less.file == more.file && less.kind <= more.kind));
}
bool is_covered(const SyncCandidate& less, const SyncCandidate& more) {
  return std::all_of(less.syncs.begin(), less.syncs.end(), [&](const AddedSync& one) {
    return std::any_of(more.syncs.begin(), more.syncs.end(),
                       [&](const AddedSync& other) { return is_covered(one, other); });
  });
}
bool has_covered(const Changes& known, const SyncCandidate& candidate) {
  return std::any_of(known.begin(), known.end(), [&](const SyncCandidate& one) { return is_covered(one, candidate); });
}

std::string change_text(const SyncCandidate& change) {
  const bool is_directory =
      !change.syncs.empty() && change.syncs.front().kind == AddedSync::Kind::kDirectoryFsync && !change.target.empty();
  return fmt::format("{}{}{} {}", change.kind,
                     is_directory            ? " the directory "
                     : change.target.empty() ? ""
                                             : " ",
                     change.target, change.place);
}

// "fsync notes.tmp before the rename (operation 8): then none of the 5 recoveries fails."
result::Mend mend_of(const Changes& changes, const Trial& trial) {
  result::Mend mend{changes.front().kind, changes.front().target};
  std::string what;
  for (const SyncCandidate& change : changes) {
    const bool is_last = &change == &changes.back();
    mend.place += (mend.place.empty() ? "" : ", ") + change.place;
    what += (what.empty() ? "" : is_last ? ", and " : ", ") + change_text(change);
  }
  mend.recoveries = trial.recoveries;
  mend.is_verified = trial.is_complete;
  const std::string then =
      !trial.is_complete      ? fmt::format("then none of {} fails; there are more",
                                            result::count_text(trial.recoveries, "recovery", "recoveries"))
      : trial.recoveries == 1 ? "then the only recovery does not fail"
                              : fmt::format("then none of the {} recoveries fails", trial.recoveries);
  mend.text = fmt::format("{}{}: {}.",
                          changes.size() == 1 ? "" : "no single change helps, but these do together: ", what, then);
  return mend;
}

class Mending {
 public:
  explicit Mending(const MendSearch& search) : search_(search) {}

  Mends find() {
    std::vector<Changes> fails = try_single();
    for (std::size_t places = 2; places <= kPlacesMost && mends_.empty() && !is_over(); ++places)
      fails = try_more(fails);
    std::string none;
    if (search_.candidates.empty()) {
      none =
          "No sync is known that would make this crash impossible: the program has to make other calls, or its "
          "recovery "
          "has to expect this.";
    } else if (mends_.empty() && attempts_ > 0 && !is_over()) {
      none = fmt::format("No {} mends this: {} tried.", search_.candidates.front().kind == "flush" ? "flush" : "sync",
                         result::count_text(attempts_, "change of the program was", "changes of the program were"));
    }
    return {std::move(mends_), std::move(none)};
  }

 private:
  bool is_over() const { return is_over_ || attempts_ >= kAttemptsMost || search_.is_over(); }

  // None: it was not found out, and nothing else will be.
  std::optional<Trial> attempt(const Changes& changes) {
    if (is_over()) return std::nullopt;
    ++attempts_;
    auto trial = search_.attempt(syncs_of(changes));
    is_over_ = !trial || trial->end == Trial::End::kStopped;
    if (is_over_) return std::nullopt;
    return std::move(*trial);
  }

  // Whether it is of use beside the mends that were found: a sync of all files is not, nor one of the same file
  // elsewhere, which may have another name there.
  bool is_alternative(const SyncCandidate& candidate) const {
    const auto is_mended = [&](const AddedSync& sync) {
      return sync.kind == AddedSync::Kind::kSync || mended_.contains(sync.file);
    };
    return mends_.empty() || std::none_of(candidate.syncs.begin(), candidate.syncs.end(), is_mended);
  }

  // Those that do not help, and what would help against a crash that still fails.
  std::vector<Changes> try_single() {
    std::vector<Changes> fails;
    for (const SyncCandidate& candidate : search_.candidates) {
      if (mends_.size() == result::kMendsMost) break;
      if (!is_alternative(candidate)) continue;
      const auto trial = attempt({candidate});
      if (!trial) break;
      if (trial->end == Trial::End::kHelps) {
        mends_.push_back(mend_of({candidate}, *trial));
        for (const AddedSync& sync : candidate.syncs) mended_.insert(sync.file);
      } else {
        note_next({candidate}, *trial, fails);
      }
    }
    return fails;
  }

  // The same with one more place. The first that helps is enough.
  std::vector<Changes> try_more(const std::vector<Changes>& from) {
    std::vector<Changes> fails;
    for (const Changes& changes : from) {
      const auto trial = attempt(changes);
      if (!trial) break;
      if (trial->end == Trial::End::kHelps) {
        mends_.push_back(mend_of(changes, *trial));
        break;
      }
      note_next(changes, *trial, fails);
    }
    return fails;
  }

  static void note_next(const Changes& changes, const Trial& trial, std::vector<Changes>& fails) {
    for (const SyncCandidate& next : trial.next) {
      if (has_covered(changes, next)) continue;
      fails.push_back(changes);
      fails.back().push_back(next);
    }
  }

  const MendSearch& search_;
  std::vector<result::Mend> mends_;
  std::set<std::uint64_t> mended_;  // the files that they sync
  std::size_t attempts_ = 0;
  bool is_over_ = false;
};

}  // namespace

tl::expected<Trial, Failure> explore_changed(FrontEnd& front_end, Plan plan, const std::function<bool()>& is_over,
                                             const CandidatesOf& candidates_of) {
  plan.time_limit = {};
  plan.known.clear();
  plan.keeps_finished = plan.samples = false;
  plan.ends_at_violation = true;
  auto pool = Pool::start(front_end, plan);
  if (!pool) return tl::unexpected(pool.error());
  const auto explored = (*pool)->explore({{}, is_over}, nullptr, {});
  if (!explored) return tl::unexpected(explored.error());
  const Tally& tally = explored->tally;
  Trial trial;
  trial.recoveries = tally.recoveries;
  trial.is_complete = explored->bound == Bound::kNone;
  const bool is_broken = !tally.not_run.empty() || !tally.not_deterministic.empty() || tally.recoveries == 0;
  if (tally.violations == 0 && !is_broken) {
    const bool is_done = trial.is_complete || explored->bound == Bound::kRecoveries;
    trial.end = is_done ? Trial::End::kHelps : Trial::End::kStopped;
    return trial;
  }
  trial.end = Trial::End::kFails;
  if (tally.violations == 0) return trial;
  const auto& [key, smallest] = *tally.classes.begin();
  // A crash of a recovery is none of the program; and one that hangs would be waited for again.
  if (smallest.layer > 1 || smallest.is_slow) return trial;
  const auto told = (*pool)->tell(key.question, smallest.path, Pool::Clock::time_point::max(), true);
  if (told && told->run.ending.is_violation() && !told->run.diverged) trial.next = candidates_of(*told);
  return trial;
}

Mends find_mends(const MendSearch& search) { return Mending(search).find(); }

bool can_mend(const result::Result& result) {
  const auto& example = result.counterexample;
  return example && example->replays && example->story.crashes.size() == 1;
}

std::function<bool(persist::EventId)> persisted_events(const result::Story& story) {
  const auto& persisted = story.crashes.front().persisted;
  std::set<persist::EventId> events(persisted.begin(), persisted.end());
  return [events = std::move(events)](persist::EventId e) { return events.contains(e); };
}

std::function<bool()> mend_deadline(const MendBounds& bounds, double search_seconds) {
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  const auto share = std::max<Seconds>(Seconds(search_seconds), kLeastSearch);
  auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(share);
  if (bounds.plan.time_limit.count() > 0)
    end = std::min(end, bounds.begin + std::chrono::duration_cast<Clock::duration>(bounds.plan.time_limit));
  return [end, is_interrupted = bounds.hooks.is_interrupted] {
    return Clock::now() >= end || (is_interrupted && is_interrupted());
  };
}

}  // namespace crashcut::search
