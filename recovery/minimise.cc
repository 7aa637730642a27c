#include "recovery/minimise.h"

#include <set>

#include "recovery/read_story.h"

namespace crashcut::recovery {
namespace {

using inprocess::Session;
using inprocess::SingleRun;
using result::Failure;

// The part of a run that minimising looks at.
struct Candidate {
  std::vector<std::uint32_t> path;
  std::vector<std::uint32_t> events;
};

bool same_failure(const FailureKind& a, const FailureKind& b) { return a.kind == b.kind && a.code == b.code; }

bool is_out_of_time(const MinimiseLimit& limit) {
  return std::chrono::steady_clock::now() >= limit.deadline || (limit.is_interrupted && limit.is_interrupted());
}

Failure as_failure(const std::string& sentence) { return Failure{result::Blame::kTool, sentence}; }

tl::expected<Candidate, Failure> read_candidate(const SingleRun& run) {
  auto story = read_story("", run.trace);
  if (!story) return tl::unexpected(as_failure(story.error()));
  return Candidate{run.recovery.path, std::move(story->crashes[0].persisted)};
}

tl::expected<std::set<std::uint32_t>, Failure> read_durable_events(std::string_view description) {
  const auto story = read_story(description, "");
  if (!story) return tl::unexpected(as_failure(story.error()));
  std::set<std::uint32_t> durable;
  for (const result::Operation& operation : story->crashes[0].operations) {
    for (const result::Event& event : operation.events) {
      if (event.durable) durable.insert(event.id);
    }
  }
  return durable;
}

// Drops one event after the other, newest first, for as long as the failure stays. After a success what was tried
// in vain is tried again: it failed with more events in.
tl::expected<Minimised, Failure> shrink(Session& session, Candidate current, const FailureKind& failure,
                                        const std::set<std::uint32_t>& durable, const MinimiseLimit& limit) {
  for (std::size_t left = current.events.size(); left > 0;) {
    const std::uint32_t event = current.events[--left];
    if (durable.contains(event)) continue;
    if (is_out_of_time(limit)) return Minimised{current.path, false};
    const auto run = session.run_cut(current.events, event);
    if (!run) return tl::unexpected(run.error());
    if (!same_failure(failure_of(run->recovery), failure)) continue;
    auto smaller = read_candidate(*run);
    if (!smaller) return tl::unexpected(smaller.error());
    if (smaller->events.size() >= current.events.size()) continue;
    current = std::move(*smaller);
    left = current.events.size();
  }
  return Minimised{current.path, true};
}

}  // namespace

tl::expected<Minimised, Failure> minimise(Session& session, const Survey::Violation& violation,
                                          std::string_view description, const MinimiseLimit& limit) {
  const Minimised unchanged{violation.path, false};
  if (violation.layer != 1) return unchanged;
  const auto durable = read_durable_events(description);
  if (!durable) return tl::unexpected(durable.error());
  const auto run = session.replay(violation.path);
  if (!run) return tl::unexpected(run.error());
  if (run->diverged) return unchanged;
  auto start = read_candidate(*run);
  if (!start) return tl::unexpected(start.error());
  return shrink(session, std::move(*start), violation.failure, *durable, limit);
}

}  // namespace crashcut::recovery
