#include "blocklayer/repair.h"

#include <set>

namespace crashcut::blocklayer {

using persist::AddedSync;
using persist::EventId;
using persist::SyncCandidate;
using persist::SyncPlace;

std::vector<SyncCandidate> find_missing_flushes(const DriveRecording& recording,
                                                const std::function<bool(EventId)>& is_in) {
  constexpr std::size_t kTimesMost = 200;
  std::set<std::uint32_t> lost, kept;
  for (EventId e = 0; e < recording.event_kinds.size(); ++e) {
    const EventKind kind = recording.event_kinds[e];
    const bool is_write = kind == EventKind::kWrite || kind == EventKind::kZero || kind == EventKind::kDiscard;
    if (recording.log.cover(e) <= recording.log.durable_barrier()) continue;
    if (is_in(e) && (is_write || kind == EventKind::kMark)) kept.insert(recording.log.op(e));
    if (!is_in(e) && is_write && kind != EventKind::kDiscard) lost.insert(recording.log.op(e));
  }
  std::vector<SyncCandidate> single, each;
  const auto at = [](std::uint32_t before) { return AddedSync{AddedSync::Kind::kSync, 0, before}; };
  for (const SyncPlace place : persist::sync_moments(lost, kept))
    single.push_back({{at(place.before())}, "flush", "the device", persist::text_of(place, recording.ops)});
  for (const SyncPlace place : persist::sync_places(lost, kept)) {
    const std::vector<std::uint32_t> executions = persist::executions_of(place, recording.ops);
    if (executions.size() < 2 || executions.size() > kTimesMost) continue;
    each.push_back({{}, "flush", "the device", persist::text_of(place, executions, recording.ops)});
    for (const std::uint32_t i : executions) each.back().syncs.push_back(at(SyncPlace{i, place.is_after}.before()));
  }
  single.insert(single.end(), each.begin(), each.end());
  return single;
}

}  // namespace crashcut::blocklayer
