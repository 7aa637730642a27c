// Mend: the smallest change of a program that makes a violation go away, found by trying it.
//
// A change is a set of syncs (persist/added_sync.h). It is tried by recording the program with them and exploring that,
//   under the same bounds and with the same recoveries, up to the first that fails. Single changes are tried in the
//   order in which the model names them: by their cost at run time. If none helps, changes of two places are tried,
//   then of three: the second place is a candidate for a crash that fails with the first.
// What was not explored to its end, or to --max-recoveries, is not told.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <tl/expected.hpp>
#include <vector>

#include "persist/added_sync.h"
#include "recovery/search/front_end.h"
#include "recovery/search/plan.h"

namespace crashcut::search {

// What became of all recoveries with a change.
struct Trial {
  enum class End {
    kHelps,
    kFails,
    kStopped,  // there was no time to find out
  };
  End end = End::kStopped;
  std::uint64_t recoveries = 0;
  bool is_complete = false;                    // these are all
  std::vector<persist::SyncCandidate> next{};  // against one of the crashes that fail
};

// Explores the recording of a changed program. `candidates_of` is asked about a recovery that fails.
using CandidatesOf = std::function<std::vector<persist::SyncCandidate>(const NarratedRun&)>;
tl::expected<Trial, Failure> explore_changed(FrontEnd& front_end, Plan plan, const std::function<bool()>& is_over,
                                             const CandidatesOf& candidates_of);

struct MendSearch {
  std::vector<persist::SyncCandidate> candidates;  // against the violation
  std::function<tl::expected<Trial, Failure>(std::span<const persist::AddedSync>)> attempt;
  std::function<bool()> is_over;  // there is no time left
};
struct Mends {
  std::vector<result::Mend> mends;
  std::string none;  // a sentence, where all that the model names was tried, and nothing helps
};
Mends find_mends(const MendSearch& search);

// Until when a mend may be looked for: as long as the search took, and a little in any case, within --time.
struct MendBounds {
  const Plan& plan;  // of the search
  const Hooks& hooks;
  std::chrono::steady_clock::time_point begin;  // of the search
};
std::function<bool()> mend_deadline(const MendBounds& bounds, double search_seconds);

// Whether a mend is looked for: a crash of a recovery is none of the program, and what does not come out the same again
// cannot be tried.
bool can_mend(const result::Result& result);

// The events of the program that the crash left.
std::function<bool(persist::EventId)> persisted_events(const result::Story& story);

// For a front end whose recording is in this process. `find_candidates` is the model's, `change` makes the front end of
// the changed program.
template <class ChangedFrontEnd, class FindCandidates, class Change>
void add_mends(const ChangedFrontEnd& front_end, const MendBounds& bounds, const FindCandidates& find_candidates,
               const Change& change, result::Result& result) {
  if (!can_mend(result)) return;
  result::Counterexample& example = *result.counterexample;
  const auto is_over = mend_deadline(bounds, result.seconds);
  const auto attempt = [&](std::span<const persist::AddedSync> syncs) -> tl::expected<Trial, Failure> {
    auto changed = change(syncs);
    if (!changed) return tl::unexpected(changed.error());
    return explore_changed(**changed, bounds.plan, is_over, [&](const NarratedRun& told) {
      return find_candidates((*changed)->recording(), persisted_events(told.story));
    });
  };
  Mends found = find_mends({find_candidates(front_end.recording(), persisted_events(example.story)), attempt, is_over});
  example.mends = std::move(found.mends);
  example.no_mend = std::move(found.none);
}

}  // namespace crashcut::search
