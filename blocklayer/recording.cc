#include "blocklayer/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace crashcut::blocklayer {

using persist::EventId;
using persist::LocationId;
using persist::Value;

namespace {

std::string quote(std::span<const std::byte> bytes, std::size_t most) {
  std::string text = "\"";
  for (const std::byte byte : bytes.first(std::min(bytes.size(), most))) {
    const auto c = static_cast<unsigned char>(byte);
    if (c == '"' || c == '\\') {
      text += fmt::format("\\{}", static_cast<char>(c));
    } else {
      text += std::isprint(c) ? std::string(1, static_cast<char>(c)) : fmt::format("\\x{:02x}", c);
    }
  }
  return text + (bytes.size() > most ? "\"..." : "\"");
}

template <class Text>
std::string detours_text(const Misdirection& misdirection, const Text& text_of) {
  std::string text;
  for (const Detour& detour : misdirection) text += (text.empty() ? "" : " and ") + text_of(detour);
  return text;
}

}  // namespace

std::string_view DriveRecording::kind_of(EventId event) const {
  switch (event_kinds[event]) {
    case EventKind::kWrite:
      return "write";
    case EventKind::kZero:
      return "zero";
    case EventKind::kDiscard:
      return "discard";
    case EventKind::kAgain:
      return "overtake";
    case EventKind::kFlush:
      return "flush";
    case EventKind::kDurable:
      return "done";
    case EventKind::kMark:
      return "mark";
    case EventKind::kFault:
      return "fault";
    case EventKind::kMisdirect:
      return "misdirect";
  }
  return "";
}

bool DriveRecording::is_sync(EventId event) const {
  const EventKind kind = event_kinds[event];
  return kind == EventKind::kFlush || kind == EventKind::kDurable || kind == EventKind::kMark;
}

std::string DriveRecording::describe_location(LocationId location) const {
  const LocationInfo& info = locations[location];
  switch (info.place) {
    case Place::kSector:
      return fmt::format("sector {}", info.index);
    case Place::kFault:
      return fmt::format("fault of sector {}", info.index);
    case Place::kMark:
      return fmt::format("mark \"{}\"", mark_texts[info.index]);
    case Place::kMisdirection:
      return detours_text(misdirections[info.index], [](const Detour& detour) {
        return fmt::format("the write of sector {}, request {}", detour.from, detour.request);
      });
  }
  return "";
}

std::string DriveRecording::describe_value(LocationId location, Value value) const {
  switch (locations[location].place) {
    case Place::kFault:
      return value == 0                                        ? "none"
             : value == static_cast<Value>(Fault::kUnreadable) ? "it cannot be read"
                                                               : "it reads as something else";
    case Place::kMark:
      return value == 0 ? "still ahead" : "reached";
    case Place::kMisdirection:
      if (value == 0) return "not elsewhere";
      return detours_text(misdirections[locations[location].index],
                          [](const Detour& detour) { return fmt::format("it went to sector {}", detour.to); });
    case Place::kSector:
      break;
  }
  if (value == kFromBelow) return "as before";
  if (value == kZeroes) return "zeroes";
  std::span<const std::byte> content = payloads->bytes(value - 1, options.sector_bytes);
  while (content.size() > 1 && content.back() == std::byte{0}) content = content.first(content.size() - 1);
  return quote(content, 24);
}

std::string DriveRecording::describe_candidate(LocationId location, const persist::Candidate& candidate) const {
  return describe_value(location, candidate.value);
}

std::string DriveRecording::describe_event(EventId event) const {
  switch (event_kinds[event]) {
    case EventKind::kFlush:
      return options.cache == Cache::kLies ? "the flush is done, and did nothing" : "the flush is done";
    case EventKind::kDurable:
      return "the write is done, and durable";
    default:
      break;
  }
  const auto writes = log.writes(event);
  if (writes.empty()) return std::string(kind_of(event));
  std::string text = describe_location(writes.front().location);
  // Behind the sectors of the write are those where it may have gone.
  std::size_t count = 1;
  const auto index_of = [&](std::size_t at) { return locations[writes[at].location].index; };
  while (count < writes.size() && index_of(count) == index_of(count - 1) + 1 &&
         sectors.find(index_of(count)) == writes[count].location)
    ++count;
  if (count > 1) text = fmt::format("sectors {} to {}", index_of(0), index_of(count - 1));
  if (event_kinds[event] == EventKind::kAgain) text += ", overtaken while in flight";
  return fmt::format("{}: {}", text, describe_value(writes.front().location, writes.front().value));
}

std::vector<persist::Mark> DriveRecording::marks() const {
  std::vector<persist::Mark> marks;
  for (const auto& [text, location] : mark_locations) {
    const auto history = log.history(location);
    if (!history.empty()) marks.push_back(persist::Mark{text, history.front().event});
  }
  std::sort(marks.begin(), marks.end(),
            [](const persist::Mark& a, const persist::Mark& b) { return a.event < b.event; });
  return marks;
}

}  // namespace crashcut::blocklayer
