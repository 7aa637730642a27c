#include "fusefs/recording.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "fusefs/location_names.h"

namespace crashcut::fusefs {

using persist::EventId;
using persist::LocationId;
using persist::Value;

namespace {

std::string quote(std::span<const std::byte> bytes, std::size_t most) {
  std::string text = "\"";
  for (std::size_t i = 0; i < std::min(bytes.size(), most); ++i) {
    const auto c = static_cast<unsigned char>(bytes[i]);
    if (c == '"' || c == '\\') {
      text += fmt::format("\\{}", static_cast<char>(c));
    } else if (c == '\n') {
      text += "\\n";
    } else if (c == 0) {
      text += "\\0";
    } else {
      text += std::isprint(c) ? std::string(1, static_cast<char>(c)) : fmt::format("\\x{:02x}", c);
    }
  }
  return text + (bytes.size() > most ? "\"..." : "\"");
}

}  // namespace

// An event may be of several kinds, a rename with its attributes; the first that fits names it.
std::string_view Recording::kind_of(EventId event) const {
  struct Name {
    Kinds kinds;
    std::string_view text;
  };
  static constexpr Name kNames[] = {{kCreate, "create"},
                                    {kName, "name"},
                                    {kTruncate, "truncate"},
                                    {kZeroGrow, "zero-grow"},
                                    {kAllocate, "allocate"},
                                    {kGrow | kGrowInside, "grow"},
                                    {kMap, "map"},
                                    {kData | kZeroOut, "data"},
                                    {kMeta, "meta"},
                                    {kFsync | kDirectoryFsync | kRangeFsync, "fsync"},
                                    {kFdatasync | kRangeFdatasync, "fdatasync"},
                                    {kSync, "sync"},
                                    {kMark, "mark"}};
  if (event_kinds[event] == kFree) return "";
  for (const Name& name : kNames) {
    if ((event_kinds[event] & name.kinds) != 0) return name.text;
  }
  return "other";
}

std::vector<persist::Mark> Recording::marks() const {
  std::vector<persist::Mark> marks;
  for (const auto& [text, location] : mark_locations) {
    const auto history = log.history(location);
    if (!history.empty()) marks.push_back(persist::Mark{text, history.front().event});
  }
  std::sort(marks.begin(), marks.end(),
            [](const persist::Mark& a, const persist::Mark& b) { return a.event < b.event; });
  return marks;
}

// Blocks that share a place on the disk make recordings differ in more than the locations that a recovery reads.
std::unique_ptr<persist::StableNames> Recording::stable_names() const {
  return freed.empty() ? std::make_unique<LocationNames>(*this) : nullptr;
}

std::string Recording::path_of(Ino ino) const {
  if (ino == kRootIno) return ".";
  const auto found = last_names.find(static_cast<std::uint64_t>(ino));
  if (found == last_names.end()) return fmt::format("inode {}", static_cast<std::uint64_t>(ino));
  const auto& [dir, name] = found->second;
  return dir == kRootIno ? name : path_of(dir) + "/" + name;
}

std::string Recording::describe_location(LocationId location) const {
  const LocationInfo& info = locations[location];
  switch (info.kind) {
    case LocationKind::kName: {
      const std::string& name = strings[info.index];
      return fmt::format("name {}", info.ino == kRootIno ? name : path_of(info.ino) + "/" + name);
    }
    case LocationKind::kSize:
      return fmt::format("size of {}", path_of(info.ino));
    case LocationKind::kMeta:
      return fmt::format("attributes of {}", path_of(info.ino));
    case LocationKind::kBlockMap:
      return fmt::format("block {} of {}", info.index, path_of(info.ino));
    case LocationKind::kSector:
      return fmt::format("bytes {}-{} of {}", info.index * options.sector_bytes,
                         (info.index + 1) * options.sector_bytes - 1, path_of(info.ino));
    case LocationKind::kMark:
      return fmt::format("mark \"{}\"", strings[info.index]);
    case LocationKind::kOther:
      break;
  }
  return "";
}

std::string Recording::describe_value(LocationId location, Value value) const {
  if (value == kFromBelow) return "as before";
  const LocationInfo& info = locations[location];
  switch (info.kind) {
    case LocationKind::kName: {
      if (value == 0) return "absent";
      const auto first = first_names.find(value);
      return first == first_names.end() ? fmt::format("inode {}", value)
                                        : fmt::format("inode {}, made as {}", value, first->second);
    }
    case LocationKind::kSize:
      return fmt::format("{}", value);
    case LocationKind::kMeta:
      return value == 0 ? "initial" : fmt::format("mode {:o}", metas[value].mode & 07777);
    case LocationKind::kBlockMap:
      return value == 0 ? "NULs" : "its data";
    case LocationKind::kSector: {
      if (value == 0) return "NULs";
      std::span<const std::byte> content(bytes.at(value), options.sector_bytes);
      while (content.size() > 1 && content.back() == std::byte{0}) content = content.first(content.size() - 1);
      return quote(content, 24);
    }
    case LocationKind::kMark:
      return value == 0 ? "still ahead" : "reached";
    case LocationKind::kOther:
      break;
  }
  return "";
}

std::string Recording::describe_candidate(LocationId location, const persist::Candidate& candidate) const {
  const std::string value = describe_value(location, candidate.value);
  const std::string owner = path_of(locations[candidate.location].ino);
  switch (candidate.origin) {
    case persist::Origin::kHere:
      return value;
    case persist::Origin::kLater:
      return fmt::format("{}, data later written to {}, which reuses the freed block", value, owner);
    case persist::Origin::kEarlier:
      return fmt::format("{}, data left behind by {}, whose freed block is reused", value, owner);
  }
  return value;
}

std::size_t Recording::memory_bytes() const {
  // A block has a sector's location each, a node in the block map of its inode, and a node in what its recorder knows.
  const std::size_t block_bytes =
      sizeof(BlockRecord) + options.block_bytes / options.sector_bytes * sizeof(LocationId) + 128;
  constexpr std::size_t kOpBytes = sizeof(std::string) + 64;
  return log.memory_bytes() + bytes.memory_bytes() + event_kinds.capacity() * sizeof(Kind) +
         locations.capacity() * sizeof(LocationInfo) + blocks.size() * block_bytes + metas.capacity() * sizeof(Meta) +
         ops.size() * kOpBytes + inodes.size() * sizeof(InodeRecord);
}

std::string Recording::describe_event(EventId event) const {
  std::string text;
  for (const persist::Write& write : log.writes(event)) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", describe_location(write.location),
                        describe_value(write.location, write.value));
  }
  return text.empty() ? "all that it waited for is durable" : text;
}

}  // namespace crashcut::fusefs
