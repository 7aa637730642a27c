#include "pmem/recording.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace crashcut::pmem {

using persist::Candidate;
using persist::EventId;
using persist::LocationId;

static constexpr std::array kPersistencyNames = {"px86", "eadr", "strict"};

std::optional<Persistency> parse_persistency(std::string_view name) {
  const auto found = std::find(kPersistencyNames.begin(), kPersistencyNames.end(), name);
  if (found == kPersistencyNames.end()) return std::nullopt;
  return static_cast<Persistency>(found - kPersistencyNames.begin());
}

std::optional<MemoryModel> take_model(persist::ModelSpec& spec) {
  const auto take = [&](std::string_view name, auto& value) {
    for (auto setting = spec.settings.begin(); setting != spec.settings.end(); ++setting) {
      const auto* found = std::get_if<std::decay_t<decltype(value)>>(&setting->second);
      if (setting->first != name || found == nullptr) continue;
      value = *found;
      spec.settings.erase(setting);
      return true;
    }
    return false;
  };
  std::string persistency;
  std::uint64_t atomic_bytes = 0;
  MemoryModel model;
  if (!take("persistency", persistency) || !take("atomic_bytes", atomic_bytes) || !take("tearing", model.has_tearing) ||
      !take("persistent_heap", model.has_heap))
    return std::nullopt;
  const auto parsed = parse_persistency(persistency);
  if (!parsed || (atomic_bytes != 8 && atomic_bytes != 16 && atomic_bytes != 64)) return std::nullopt;
  model.persistency = *parsed;
  model.atomic_bytes = static_cast<unsigned>(atomic_bytes);
  return model;
}

persist::ModelSpec MemoryModel::spec() const {
  const std::string name = kPersistencyNames[static_cast<std::size_t>(persistency)];
  return {"x86 " + name + " atomic=" + std::to_string(atomic_bytes) + (has_tearing ? "" : " tearing=off") +
              (has_heap ? " malloc=persistent" : ""),
          {{"persistency", name},
           {"atomic_bytes", std::uint64_t{atomic_bytes}},
           {"tearing", has_tearing},
           {"persistent_heap", has_heap}}};
}

static std::string to_hex(std::uint64_t number) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

std::string_view Recording::kind_of(EventId event) const {
  switch (events[event].kind) {
    case EventKind::kStore:
      return "store";
    case EventKind::kNonTemporalStore:
      return "non-temporal store";
    case EventKind::kClflush:
      return "clflush";
    case EventKind::kFence:
      return "fence";
    case EventKind::kMark:
      return "mark";
    case EventKind::kMoment:
    case EventKind::kOther:
      return "";
  }
  return "";
}

bool Recording::is_sync(EventId event) const {
  const EventKind kind = events[event].kind;
  return kind != EventKind::kStore && kind != EventKind::kNonTemporalStore;
}

std::string Recording::describe_address(Address address) const {
  for (std::size_t i = 0; i < regions.size(); ++i) {
    if (address - regions[i].begin >= regions[i].bytes) continue;
    return region_names[i] + "+" + to_hex(address - regions[i].begin);
  }
  return to_hex(address);
}

std::string Recording::describe_place(PlaceId place) const {
  const std::string_view name = name_of_place(place);
  return name.empty() ? "" : " at " + std::string(name);
}

std::string Recording::describe_flush(const FlushInfo& flush) const {
  constexpr std::string_view kNames[] = {"clflush", "flush", "fence", "fence"};
  const bool has_line = flush.kind == FlushKind::kClflush || flush.kind == FlushKind::kClwb;
  return std::string(kNames[static_cast<unsigned>(flush.kind)]) +
         (has_line ? " of " + describe_address(flush.address) : "") + describe_place(flush.place);
}

std::string Recording::describe_event(EventId event) const {
  const EventInfo& info = events[event];
  std::string text(kind_of(event));
  switch (info.kind) {
    case EventKind::kStore:
    case EventKind::kNonTemporalStore:
      text += " of " + std::to_string(info.bytes) + (info.bytes == 1 ? " byte" : " bytes") + " to " +
              describe_address(info.address);
      break;
    case EventKind::kClflush:
      text += " of " + describe_address(info.address);
      break;
    case EventKind::kMark:
      text += "(\"" + mark_texts[info.address] + "\")";
      break;
    case EventKind::kFence:
    case EventKind::kMoment:
    case EventKind::kOther:
      break;
  }
  return text + describe_place(info.place);
}

bool Recording::is_mark(LocationId location) const {
  const auto found = log.history(location);
  return !found.empty() && events[found.front().event].kind == EventKind::kMark;
}

std::string Recording::describe_location(LocationId location) const {
  const Address address = address_of_location[location];
  return is_mark(location) ? "mark \"" + mark_texts[address] + "\"" : "8 bytes at " + describe_address(address);
}

std::string Recording::describe_candidate(LocationId location, const Candidate& candidate) const {
  if (candidate.first < 0) return is_mark(location) ? "not reached" : "what was there before";
  const EventId event = log.history(location)[static_cast<std::size_t>(candidate.first)].event;
  if (is_mark(location)) return "reached";
  const PartialWord word = word_of_value(location, candidate.value);
  const std::string place = describe_place(events[event].place);
  return to_hex(word.bytes) + (place.empty() ? " by the " + describe_event(event) : ", stored" + place);
}

std::vector<persist::Mark> Recording::marks() const {
  std::vector<persist::Mark> found;
  for (EventId e = 0; e < events.size(); ++e) {
    if (events[e].kind == EventKind::kMark) found.push_back({mark_texts[events[e].address], e});
  }
  return found;
}

// The pieces of one instruction have one number. They may stand apart: another thread's stores can leave its buffer in
// between.
std::vector<std::string> Recording::operations() const {
  struct Operation {
    EventId first = persist::kNoEvent;
    unsigned pieces = 0, bytes = 0;
  };
  std::vector<Operation> operations;
  for (EventId e = 0; e < events.size(); ++e) {
    if (!is_own(e)) continue;
    if (operations.size() <= log.op(e)) operations.resize(log.op(e) + 1);
    Operation& operation = operations[log.op(e)];
    if (operation.first == persist::kNoEvent || events[operation.first].kind == EventKind::kMoment) operation.first = e;
    if (events[e].kind == EventKind::kMoment) continue;
    ++operation.pieces;
    operation.bytes += events[e].bytes;
  }
  std::vector<std::string> texts(ops.begin(), ops.end());
  texts.resize(std::max(ops.size(), operations.size()));
  for (const FlushInfo& flush : flushes) {
    if (flush.op != kNoOp) texts[flush.op] = describe_flush(flush);
  }
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    if (operation.first == persist::kNoEvent || !texts[i].empty()) continue;
    const EventInfo& info = events[operation.first];
    texts[i] = operation.pieces <= 1
                   ? describe_event(operation.first)
                   : std::string(kind_of(operation.first)) + " of " + std::to_string(operation.bytes) + " bytes from " +
                         describe_address(info.address) + " on" + describe_place(info.place);
  }
  return texts;
}

LocationId Recording::add_location(Address address) {
  const LocationId location = log.add_location(0);
  address_of_location.resize(location + 1, kNoAddress);
  address_of_location[location] = address;
  return location;
}

namespace {

// An address is the same in every execution, and so is what a word holds. Values of partial words are told apart by
// their known bytes.
class WordNames final : public persist::StableNames {
 public:
  explicit WordNames(const Recording& recording) : recording_(recording) {}
  std::uint64_t location(LocationId location) const override {
    if (!recording_.is_mark(location)) return recording_.address_of_location[location] | 1;
    std::uint64_t name = 0xcbf29ce484222325;
    for (const char c : recording_.mark_texts[recording_.address_of_location[location]]) {
      name = (name ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    }
    return name & ~std::uint64_t{1};
  }
  std::uint64_t listing(LocationId) const override { return 0; }
  std::uint64_t value(LocationId location, persist::Value value) const override {
    const PartialWord word = recording_.word_of_value(location, value);
    return word.known == kAllBytes ? word.bytes : (word.bytes * 0x9e3779b97f4a7c15) ^ (word.known + 1u);
  }

 private:
  const Recording& recording_;
};

}  // namespace

std::unique_ptr<persist::StableNames> Recording::stable_names() const { return std::make_unique<WordNames>(*this); }

std::size_t Recording::memory_bytes() const {
  std::size_t used_lines = 0;
  lines.for_each([&](Address, const Line& line) { used_lines += line.last_end != 0; });
  return log.memory_bytes() + events.capacity() * sizeof(EventInfo) + flushes.capacity() * sizeof(FlushInfo) +
         used_lines * sizeof(Line) + address_of_location.capacity() * sizeof(Address) +
         partial_words.capacity() * sizeof(PartialWord);
}

}  // namespace crashcut::pmem
