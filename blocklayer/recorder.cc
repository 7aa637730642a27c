#include "blocklayer/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "persist/check.h"

namespace crashcut::blocklayer {
namespace {

constexpr std::uint32_t kFaultOp = 1, kMisdirectOp = 2;

EventKind kind_of_write(RequestKind kind) {
  switch (kind) {
    case RequestKind::kZero:
      return EventKind::kZero;
    case RequestKind::kDiscard:
      return EventKind::kDiscard;
    default:
      return EventKind::kWrite;
  }
}

std::string text_of(const Request& request) {
  const std::string sender = request.sender.empty() ? "" : fmt::format("{}: ", request.sender);
  if (request.kind == RequestKind::kFlush) return sender + (request.is_buffered ? "write_back()" : "flush()");
  const std::string_view name = request.kind == RequestKind::kWrite  ? "write"
                                : request.kind == RequestKind::kZero ? "write_zeroes"
                                                                     : "discard";
  const std::string_view flags = request.is_fua ? ", FUA" : request.is_buffered ? ", buffered" : "";
  if (request.count == 1) return fmt::format("{}{}(sector {}{})", sender, name, request.first, flags);
  return fmt::format("{}{}(sectors {} to {}{})", sender, name, request.first, request.first + request.count - 1, flags);
}

}  // namespace

namespace {

// At most one more than `most`.
std::vector<Detour> detours_of(std::span<const NumberedRequest> requests, std::uint64_t sector_count,
                               bool goes_anywhere, std::size_t most) {
  std::set<Sector> begins;
  for (const NumberedRequest& request : requests) {
    if (request.kind != RequestKind::kFlush) begins.insert(request.first);
  }
  std::vector<Detour> detours;
  for (const NumberedRequest& request : requests) {
    const bool is_write = request.kind == RequestKind::kWrite || request.kind == RequestKind::kZero;
    if (!is_write || request.is_durable) continue;
    const auto add = [&](Sector to) {
      if (to != request.first && to + request.count <= sector_count && detours.size() <= most)
        detours.push_back({request.id, request.first, to, request.count});
    };
    if (goes_anywhere) {
      for (Sector to = 0; to < sector_count && detours.size() <= most; ++to) add(to);
    } else {
      std::for_each(begins.begin(), begins.end(), add);
    }
  }
  return detours;
}

}  // namespace

std::vector<Misdirection> misdirections_of(std::span<const NumberedRequest> requests, std::uint64_t sector_count,
                                           const DriveOptions& options, std::size_t most) {
  if (!options.has_fault(kMisdirected) && !options.has_fault(kMisdirectedAny)) return {};
  const std::vector<Detour> detours = detours_of(requests, sector_count, options.has_fault(kMisdirectedAny), most);
  std::vector<Misdirection> all, last{{}};  // those of one length
  for (std::uint32_t length = 1; length <= options.faults && !last.empty(); ++length) {
    std::vector<Misdirection> next;
    for (const Misdirection& shorter : last) {
      for (const Detour& detour : detours) {
        if (!shorter.empty() && detour.request <= shorter.back().request) continue;
        if (all.size() + next.size() > most) break;
        next.push_back(shorter);
        next.back().push_back(detour);
      }
    }
    all.insert(all.end(), next.begin(), next.end());
    last = std::move(next);
  }
  return all;
}

DriveRecorder::DriveRecorder(const DriveOptions& options, std::shared_ptr<const Payloads> payloads,
                             const FaultPlaces& places)
    : recording_(std::make_shared<DriveRecording>()) {
  CHECK(check_options(options));
  recording_->options = options;
  recording_->payloads = std::move(payloads);
  recording_->ops.push_back("the starting state");
  if (options.faults == 0) return;
  recording_->ops.push_back("sectors go bad");
  if (options.has_fault(kBadAny)) {
    for (Sector sector = 0; sector < places.sector_count; ++sector) add_fault(sector);
  }
  if (places.misdirections.empty()) return;
  recording_->ops.push_back("writes go elsewhere");
  for (const Misdirection& misdirection : places.misdirections) add_misdirections(misdirection);
}

void DriveRecorder::add_misdirections(const Misdirection& misdirection) {
  DriveRecording& recording = *recording_;
  const auto index = static_cast<std::uint32_t>(recording.misdirections.size());
  recording.misdirections.push_back(misdirection);
  recording.misdirection_locations.push_back(recording.log.add_location(0));
  recording.locations.push_back({DriveRecording::Place::kMisdirection, index});
  auto& elsewhere = recording.elsewhere.emplace_back();
  for (const Detour& detour : misdirection) {
    misdirections_of_[detour.request].push_back(index);
    for (const Sector first : {detour.from, detour.to}) {
      for (Sector sector = first; sector < first + detour.count; ++sector) {
        if (elsewhere.contains(sector)) continue;
        elsewhere[sector] = recording.log.add_location(kFromBelow);
        recording.locations.push_back({DriveRecording::Place::kSector, sector});
        recording.misdirections_of[sector].push_back(index);
      }
    }
  }
}

void DriveRecorder::begin_misdirections(RequestId id) {
  const auto found = misdirections_of_.find(id);
  if (found == misdirections_of_.end()) return;
  for (const std::uint32_t index : found->second) {
    if (recording_->misdirections[index].back().request != id) continue;
    const persist::Write write(recording_->misdirection_locations[index], 1);
    recording_->log.add_event(kMisdirectOp, std::span(&write, 1), {});
    recording_->event_kinds.push_back(EventKind::kMisdirect);
  }
}

const Detour* DriveRecorder::detour_of(RequestId request, std::uint32_t misdirection) const {
  for (const Detour& detour : recording_->misdirections[misdirection]) {
    if (detour.request == request) return &detour;
  }
  return nullptr;
}

Sector DriveRecorder::first_of(const InFlight& request, std::uint32_t misdirection) const {
  const Detour* const detour = detour_of(request.id, misdirection);
  return detour == nullptr ? request.first : detour->to;
}

persist::LocationId DriveRecorder::location_of(Sector sector) {
  persist::LocationId& location = recording_->sectors.at(sector);
  if (location == kNoLocation) {
    location = recording_->log.add_location(kFromBelow);
    recording_->locations.push_back({DriveRecording::Place::kSector, sector});
  }
  return location;
}

persist::Value DriveRecorder::value_of(const InFlight& request, Sector sector) const {
  if (request.kind != RequestKind::kWrite) return kZeroes;
  return request.payload + (sector - request.first) * recording_->options.sector_bytes + 1;
}

void DriveRecorder::add_elsewhere(const InFlight& request, Sector sector) {
  const DriveRecording& recording = *recording_;
  const persist::Value value = value_of(request, sector);
  if (const auto stays = recording.misdirections_of.find(sector); stays != recording.misdirections_of.end()) {
    for (const std::uint32_t index : stays->second) {
      if (detour_of(request.id, index) == nullptr) writes_.emplace_back(recording.elsewhere[index].at(sector), value);
    }
  }
  const auto goes = misdirections_of_.find(request.id);
  if (goes == misdirections_of_.end()) return;
  for (const std::uint32_t index : goes->second)
    writes_.emplace_back(recording.elsewhere[index].at(first_of(request, index) + (sector - request.first)), value);
}

// An edge from the last event of a sector is harmless if `span`, which is in with this event, hides all that the edge
// puts in: then the cut with that event and the cut without it read the same.
void DriveRecorder::add_event(const InFlight& request, EventKind kind, Sector first, Sector last, const Span& span) {
  persist::Log& log = recording_->log;
  writes_.clear();
  for (Sector sector = first; sector <= last; ++sector) {
    const persist::LocationId location = location_of(sector);
    writes_.emplace_back(location, value_of(request, sector));
    last_spans_.resize(recording_->locations.size());
    const EventId before = log.last_write(location);
    if (recording_->misdirections.empty() && before != persist::kNoEvent && last_spans_[location].is_within(span) &&
        std::find(after_.begin(), after_.end(), before) == after_.end()) {
      after_.push_back(before);
    }
    last_spans_[location] = span;
  }
  if (!recording_->misdirections.empty() && kind != EventKind::kAgain) {
    for (Sector sector = first; sector <= last; ++sector) add_elsewhere(request, sector);
  }
  log.add_event(request.op, writes_, after_);
  recording_->event_kinds.push_back(kind);
  after_.clear();
}

void DriveRecorder::add_writes(const InFlight& request, EventKind kind) {
  const Tear tear = recording_->options.tear;
  const Sector last = request.first + request.count - 1;
  if (request.is_whole) return add_event(request, kind, request.first, last, request.span_of(last, tear));
  for (Sector sector = request.first; sector <= last; ++sector) {
    if (tear == Tear::kPrefix && sector > request.first) after_.push_back(request.event_of(sector - 1));
    add_event(request, kind, sector, sector, request.span_of(sector, tear));
  }
}

void DriveRecorder::add_overtaking(const InFlight& earlier, const InFlight& later) {
  const Sector first = std::max(earlier.first, later.first);
  const Sector end = std::min(earlier.first + earlier.count, later.first + later.count);
  const Tear tear = recording_->options.tear;
  for (Sector sector = first; sector < end; ++sector) {
    const Span a = earlier.span_of(sector, tear), b = later.span_of(sector, tear);
    after_ = {earlier.event_of(sector), later.event_of(sector)};
    add_event(earlier, EventKind::kAgain, sector, sector, {std::min(a.first, b.first), std::max(a.last, b.last)});
  }
  if (first < end) ++recording_->overlaps;
  // Under a misdirection they may overlap elsewhere, or as here.
  for (std::uint32_t index = 0; index < recording_->misdirections.size(); ++index)
    add_overtaking_elsewhere(earlier, later, index);
}

void DriveRecorder::add_overtaking_elsewhere(const InFlight& earlier, const InFlight& later,
                                             std::uint32_t misdirection) {
  const Sector earlier_first = first_of(earlier, misdirection), later_first = first_of(later, misdirection);
  const Sector end = std::min(earlier_first + earlier.count, later_first + later.count);
  const auto& locations = recording_->elsewhere[misdirection];
  for (Sector sector = std::max(earlier_first, later_first); sector < end; ++sector) {
    const auto location = locations.find(sector);
    if (location == locations.end()) continue;
    const Sector own = sector - earlier_first + earlier.first;
    after_ = {earlier.event_of(own), later.event_of(sector - later_first + later.first)};
    const persist::Write write(location->second, value_of(earlier, own));
    recording_->log.add_event(earlier.op, std::span(&write, 1), after_);
    recording_->event_kinds.push_back(EventKind::kAgain);
    after_.clear();
  }
}

RequestId DriveRecorder::issue(const Request& request) {
  DriveRecording& recording = *recording_;
  const bool is_cacheless = recording.options.cache == Cache::kNone;
  const bool is_write = request.kind == RequestKind::kWrite || request.kind == RequestKind::kZero;
  CHECK((request.kind == RequestKind::kFlush) == (request.count == 0));
  do_added_flushes();
  const bool has_bad = recording.options.has_fault(kBadWritten) || recording.options.has_fault(kBadAny);
  for (Sector sector = request.first; has_bad && sector < request.first + request.count; ++sector) {
    if (!recording.faults.contains(sector)) add_fault(sector);
  }
  begin_misdirections(next_id_);
  recording.ops.push_back(text_of(request));
  InFlight made{.id = next_id_++,
                .kind = request.kind,
                .makes_durable = is_write && !request.is_buffered && (request.is_fua || is_cacheless) &&
                                 recording.options.cache != Cache::kLies,
                .is_whole = is_atomic(recording.options, request.first, request.count),
                .is_buffered = request.is_buffered,
                .first = request.first,
                .count = request.count,
                .first_event = static_cast<EventId>(recording.log.event_count()),
                .payload = request.payload,
                .op = static_cast<std::uint32_t>(recording.ops.size() - 1),
                .covered_count = completed_.size()};
  if (request.kind != RequestKind::kFlush) {
    add_writes(made, kind_of_write(request.kind));
    for (const InFlight& earlier : in_flight_) {
      if (earlier.kind != RequestKind::kFlush) add_overtaking(earlier, made);
    }
  }
  in_flight_.push_back(made);
  return made.id;
}

void DriveRecorder::add_barrier(std::uint32_t op, EventKind kind, std::span<const persist::Write> writes,
                                std::span<const EventId> after) {
  recording_->log.add_barrier(op, writes, after);
  recording_->event_kinds.push_back(kind);
}

// A flush that has completed. `covered_count` are the writes that had completed when it was issued.
void DriveRecorder::add_flush(std::uint32_t op, std::size_t covered_count) {
  std::span<const EventId> after;
  if (recording_->options.cache != Cache::kLies && covered_count > covered_) {
    after = std::span(completed_).subspan(covered_, covered_count - covered_);
    covered_ = covered_count;
  }
  add_barrier(op, EventKind::kFlush, {}, after);
}

void DriveRecorder::add_flushes(std::span<const persist::AddedSync> flushes) {
  added_.assign(flushes.begin(), flushes.end());
  std::stable_sort(added_.begin(), added_.end(), [](const auto& a, const auto& b) { return a.before < b.before; });
}

void DriveRecorder::do_added_flushes() {
  const auto next_op = static_cast<std::uint32_t>(recording_->ops.size());
  for (; next_added_ < added_.size() && added_[next_added_].before <= next_op; ++next_added_)
    add_flush(next_op - 1, completed_.size());
}

void DriveRecorder::complete(RequestId id) {
  const auto found =
      std::find_if(in_flight_.begin(), in_flight_.end(), [&](const InFlight& other) { return other.id == id; });
  CHECK(found != in_flight_.end());
  const InFlight request = *found;
  in_flight_.erase(found);
  if (request.kind == RequestKind::kFlush) {
    // Written back, it is in the drive's cache. If there is none, it is durable.
    if (!request.is_buffered || recording_->options.cache == Cache::kNone) add_flush(request.op, request.covered_count);
    return;
  }
  if (request.kind == RequestKind::kDiscard) return;  // no flush settles it
  const auto event_count = static_cast<EventId>(request.is_whole ? 1 : request.count);
  const std::size_t first = completed_.size();
  for (EventId e = request.first_event; e < request.first_event + event_count; ++e) completed_.push_back(e);
  if (!request.makes_durable) return;
  add_barrier(request.op, EventKind::kDurable, {}, std::span(completed_).subspan(first));
}

void DriveRecorder::mark(const std::string& text) {
  DriveRecording& recording = *recording_;
  do_added_flushes();
  recording.ops.push_back(fmt::format("mark(\"{}\")", text));
  auto found = recording.mark_locations.find(text);
  if (found == recording.mark_locations.end()) {
    found = recording.mark_locations.emplace(text, recording.log.add_location(0)).first;
    recording.locations.push_back({DriveRecording::Place::kMark, recording.mark_texts.size()});
    recording.mark_texts.push_back(text);
  }
  const persist::Write write(found->second, 1);
  add_barrier(static_cast<std::uint32_t>(recording.ops.size() - 1), EventKind::kMark, std::span(&write, 1), {});
}

void DriveRecorder::make_durable() {
  recording_->log.make_durable();
  recording_->event_kinds.push_back(EventKind::kFlush);
  completed_.clear();
  covered_ = 0;
  for (InFlight& request : in_flight_) request.covered_count = 0;
  // Faults are never durable: those so far are forgotten, and may come from now on.
  std::vector<Sector> written;
  for (const auto& [sector, location] : recording_->faults) written.push_back(sector);
  std::sort(written.begin(), written.end());
  for (const Sector sector : written) add_fault(sector);
}

// A fault is an event that waits for nothing but that its sector was written to, or not even for that. How many there
// are at most is up to the reader (blocklayer/crashed_drive.h).
void DriveRecorder::add_fault(Sector sector) {
  DriveRecording& recording = *recording_;
  const persist::LocationId location = recording.log.add_location(static_cast<persist::Value>(Fault::kNone));
  recording.locations.push_back({DriveRecording::Place::kFault, sector});
  recording.faults[sector] = location;
  for (const Fault fault : {Fault::kUnreadable, Fault::kGarbage}) {
    const persist::Write write(location, static_cast<persist::Value>(fault));
    recording.log.add_event(kFaultOp, std::span(&write, 1), {});
    recording.event_kinds.push_back(EventKind::kFault);
  }
}

void DriveRecorder::seal() { recording_->log.seal(); }

}  // namespace crashcut::blocklayer
