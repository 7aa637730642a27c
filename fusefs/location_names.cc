#include "fusefs/location_names.h"

#include <map>

#include "fusefs/effects.h"
#include "persist/hash.h"

namespace crashcut::fusefs {

namespace {

std::uint64_t key(LocationKind kind, Ino ino, std::uint64_t a = 0, std::uint64_t b = 0) {
  return persist::mix(
      persist::mix(persist::mix(static_cast<std::uint64_t>(kind) + 101, static_cast<std::uint64_t>(ino)), a), b);
}

std::uint64_t hash_meta(const Meta& meta) {
  std::uint64_t hash = persist::mix(3, meta.mode);
  for (const std::uint64_t part :
       {std::uint64_t{meta.uid}, std::uint64_t{meta.gid}, std::uint64_t{meta.nlink}, std::uint64_t{meta.rdev}})
    hash = persist::mix(hash, part);
  for (const timespec& time : {meta.atime, meta.mtime, meta.ctime})
    hash = persist::mix(persist::mix(hash, static_cast<std::uint64_t>(time.tv_sec)),
                        static_cast<std::uint64_t>(time.tv_nsec));
  for (const auto& [name, value] : meta.xattrs)
    hash = persist::mix(persist::mix(hash, persist::hash_of(name)), persist::hash_of(value));
  return persist::mix(hash, persist::hash_of(meta.symlink_target));
}

}  // namespace

std::uint64_t name_of_entry(Ino dir, std::string_view name) {
  return key(LocationKind::kName, dir, persist::hash_of(name));
}
std::uint64_t name_of_listing(Ino dir) { return key(LocationKind::kName, dir, 0, 1); }
std::uint64_t name_of_size(Ino ino) { return key(LocationKind::kSize, ino); }
std::uint64_t name_of_meta(Ino ino) { return key(LocationKind::kMeta, ino); }
std::uint64_t name_of_block_map(Ino ino, std::uint64_t block) { return key(LocationKind::kBlockMap, ino, block); }
std::uint64_t name_of_sector(Ino ino, std::uint64_t block, std::uint64_t generation, std::uint64_t sector) {
  return key(LocationKind::kSector, ino, persist::mix(block, generation), sector);
}
std::uint64_t name_of_place(Ino ino, std::uint64_t block) { return key(LocationKind::kSector, ino, block); }
std::uint64_t name_of_mark(std::string_view text) { return key(LocationKind::kMark, kNoIno, persist::hash_of(text)); }

LocationNames::LocationNames(const Recording& recording) : recording_(recording) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t> counts;
  for (const BlockRecord& block : recording.blocks)
    generations_.push_back(counts[{static_cast<std::uint64_t>(block.ino), block.block}]++);
  names_.resize(recording.locations.size());
  for (std::size_t i = 0; i < recording.locations.size(); ++i) {
    const LocationInfo& info = recording.locations[i];
    switch (info.kind) {
      case LocationKind::kName:
        names_[i] = name_of_entry(info.ino, recording.strings[info.index]);
        break;
      case LocationKind::kSize:
        names_[i] = name_of_size(info.ino);
        break;
      case LocationKind::kMeta:
        names_[i] = name_of_meta(info.ino);
        break;
      case LocationKind::kBlockMap:
        names_[i] = name_of_block_map(info.ino, info.index);
        break;
      case LocationKind::kMark:
        names_[i] = name_of_mark(recording.strings[info.index]);
        break;
      case LocationKind::kSector:  // below: they are named by their blocks
      case LocationKind::kOther:
        break;
    }
  }
  for (std::size_t id = 0; id < recording.blocks.size(); ++id) {
    const BlockRecord& block = recording.blocks[id];
    for (std::size_t s = 0; s < block.sectors.size(); ++s) {
      if (block.sectors[s] != kNoLocation)
        names_[block.sectors[s]] = name_of_sector(block.ino, block.block, generations_[id], s);
    }
  }
}

std::uint64_t LocationNames::listing(persist::LocationId location) const {
  const LocationInfo& info = recording_.locations[location];
  if (info.kind == LocationKind::kName) return name_of_listing(info.ino);
  const std::uint64_t sectors = recording_.options.block_bytes / recording_.options.sector_bytes;
  return info.kind == LocationKind::kSector ? name_of_place(info.ino, info.index / sectors) : 0;
}

std::uint64_t LocationNames::value(persist::LocationId location, persist::Value value) const {
  const LocationInfo& info = recording_.locations[location];
  if (value == kFromBelow || value == 0) return value;
  switch (info.kind) {
    case LocationKind::kName: {
      const auto found = recording_.inodes.find(value);
      return persist::mix(value, found == recording_.inodes.end() ? 0 : found->second.type);
    }
    case LocationKind::kMeta:
      return hash_meta(recording_.metas[value]);
    case LocationKind::kBlockMap: {
      const BlockRecord& block = recording_.blocks[value];
      return name_of_sector(block.ino, block.block, generations_[value], 0);
    }
    case LocationKind::kSector: {
      const auto* bytes = reinterpret_cast<const char*>(recording_.bytes.at(value));
      return persist::mix(4, persist::hash_of({bytes, recording_.options.sector_bytes}));
    }
    default:
      return value;
  }
}

}  // namespace crashcut::fusefs
