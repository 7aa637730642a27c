#include "fusefs/crash_view.h"

#include <algorithm>
#include <cstring>

#include "fusefs/places.h"
#include "persist/check.h"

namespace crashcut::fusefs {

using persist::LocationId;
using persist::Value;

CrashView::CrashView(const Recording& recording, persist::Cut& cut, persist::Chooser& chooser, CrashView* below)
    : recording_(recording), cut_(cut), chooser_(chooser), below_(below) {}

Value CrashView::read(LocationId location) { return cut_.read(location, chooser_); }

const InodeRecord* CrashView::find_inode(Ino ino) const {
  const auto found = recording_.inodes.find(static_cast<std::uint64_t>(ino));
  return found == recording_.inodes.end() ? nullptr : &found->second;
}

Ino CrashView::lookup(Ino dir, std::string_view name) {
  if (observer_) observe(name_of_entry(dir, name));
  if (const InodeRecord* record = find_inode(dir)) {
    if (const auto found = record->names.find(name); found != record->names.end()) {
      const Value value = read(found->second);
      if (value != kFromBelow) return Ino{value};
    }
    if (record->is_new) return kNoIno;
  }
  return below_ ? below_->lookup(dir, name) : kNoIno;
}

std::vector<std::string> CrashView::possible_names(Ino dir) {
  observe(name_of_listing(dir));
  std::vector<std::string> names = below_ ? below_->possible_names(dir) : std::vector<std::string>{};
  if (const InodeRecord* record = find_inode(dir)) {
    for (const auto& [name, location] : record->names) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

mode_t CrashView::type(Ino ino) {
  if (const InodeRecord* record = find_inode(ino)) return record->type;
  if (below_) return below_->type(ino);
  CHECK(ino == kRootIno);
  return S_IFDIR;
}

std::uint64_t CrashView::size(Ino ino) {
  observe(name_of_size(ino));
  if (const InodeRecord* record = find_inode(ino)) {
    const Value value = read(record->size);
    if (value != kFromBelow) return value;
  }
  return below_ ? below_->size(ino) : 0;
}

Meta CrashView::meta(Ino ino) {
  observe(name_of_meta(ino));
  if (const InodeRecord* record = find_inode(ino)) {
    const Value value = read(record->meta);
    if (value != kFromBelow && value != 0) return recording_.metas[value];
  }
  if (below_) return below_->meta(ino);
  return recording_.metas[0];
}

namespace {

// Versions of an inode's attributes that permit the same.
class SameOwner final : public persist::SameToReader {
 public:
  explicit SameOwner(const Recording& recording) : recording_(recording) {}
  bool is_same(Value a, Value b) const override {
    if (a == b) return true;
    const bool both_here = a != kFromBelow && b != kFromBelow && a != 0 && b != 0;
    return both_here && owner_of(recording_.metas[a]) == owner_of(recording_.metas[b]);
  }

 private:
  const Recording& recording_;
};

}  // namespace

Owner CrashView::owner(Ino ino) {
  observe(name_of_meta(ino));
  if (const InodeRecord* record = find_inode(ino)) {
    const Value value = cut_.read(record->meta, chooser_, SameOwner(recording_));
    if (value != kFromBelow && value != 0) return owner_of(recording_.metas[value]);
  }
  return below_ ? below_->owner(ino) : Owner{kRootMode, 0, 0};
}

BlockId CrashView::find_block(Ino ino, std::uint64_t block) {
  observe(name_of_block_map(ino, block));
  const InodeRecord* record = find_inode(ino);
  if (!record) return kNoBlock;
  if (const auto found = record->block_map.find(block); found != record->block_map.end()) {
    const Value value = read(found->second);
    if (value != kFromBelow) return static_cast<BlockId>(value);
  }
  const auto home = record->home_blocks.find(block);
  if (home == record->home_blocks.end()) observe(name_of_place(ino, block));
  return home == record->home_blocks.end() ? kNoBlock : home->second;
}

bool CrashView::is_asked_below(Ino ino, std::uint64_t block) {
  if (!below_) return false;
  const InodeRecord* record = find_inode(ino);
  if (!record) return true;
  if (record->is_new) return false;
  const auto found = record->block_map.find(block);
  return found == record->block_map.end() || read(found->second) == kFromBelow;
}

bool CrashView::is_written(Ino ino, std::uint64_t block) {
  if (find_block(ino, block) != kNoBlock) return true;
  return is_asked_below(ino, block) && below_->is_written(ino, block);
}

std::optional<std::vector<std::uint64_t>> CrashView::possible_blocks(Ino ino) {
  // An observer is to hear of every block that is looked at, also where nothing was written.
  if (observer_) return std::nullopt;
  const InodeRecord* record = find_inode(ino);
  std::vector<std::uint64_t> blocks;
  if (below_ && (!record || !record->is_new)) {
    auto from_below = below_->possible_blocks(ino);
    if (!from_below) return std::nullopt;
    blocks = std::move(*from_below);
  }
  if (!record) return blocks;
  for (const auto& [block, location] : record->block_map) blocks.push_back(block);
  for (const auto& [block, home] : record->home_blocks) blocks.push_back(block);
  return blocks;
}

void CrashView::read_bytes(Ino ino, std::uint64_t offset, std::span<std::byte> out) {
  const std::uint64_t block = offset / recording_.options.block_bytes;
  const BlockId id = find_block(ino, block);
  if (id != kNoBlock) {
    read_block(id, offset % recording_.options.block_bytes, out);
  } else if (is_asked_below(ino, block)) {
    below_->read_bytes(ino, offset, out);
  } else {
    std::fill(out.begin(), out.end(), std::byte{0});
  }
}

namespace {

// Versions of a sector that agree in the bytes asked for.
class SameBytes final : public persist::SameToReader {
 public:
  SameBytes(const Recording& recording, std::size_t skip, std::size_t length)
      : recording_(recording), skip_(skip), length_(length) {}
  bool is_same(Value a, Value b) const override {
    if (a == b) return true;
    if (a == kFromBelow || b == kFromBelow) return false;
    if (a == 0 || b == 0) return is_nul(a == 0 ? b : a);
    return std::memcmp(at(a), at(b), length_) == 0;
  }

 private:
  const std::byte* at(Value v) const { return recording_.bytes.at(v) + skip_; }
  bool is_nul(Value v) const {
    return std::all_of(at(v), at(v) + length_, [](std::byte b) { return b == std::byte{0}; });
  }
  const Recording& recording_;
  std::size_t skip_;
  std::size_t length_;
};

}  // namespace

void CrashView::observe_sector(BlockId id, std::uint64_t sector) const {
  const BlockRecord& block = recording_.blocks[id];
  std::uint64_t generation = 0;
  for (BlockId other = 0; other < id; ++other) {
    generation += recording_.blocks[other].ino == block.ino && recording_.blocks[other].block == block.block;
  }
  observe(name_of_sector(block.ino, block.block, generation, sector));
}

void CrashView::read_block(BlockId id, std::uint64_t in_block, std::span<std::byte> out) {
  const BlockRecord& block = recording_.blocks[id];
  const std::uint32_t sector_bytes = recording_.options.sector_bytes;
  if (observer_) observe_sector(id, in_block / sector_bytes);
  const std::uint64_t skip = in_block % sector_bytes;
  CHECK(skip + out.size() <= sector_bytes);
  const LocationId location = block.sectors[in_block / sector_bytes];
  const SameBytes same(recording_, skip, out.size());
  const auto sector = static_cast<std::uint32_t>(in_block / sector_bytes);
  const Value value = location == kNoLocation    ? (block.from_below ? kFromBelow : 0)
                      : recording_.freed.empty() ? cut_.read(location, chooser_, same)
                                                 : Places(recording_, cut_, chooser_).read(id, sector, same);
  if (value == kFromBelow) {
    below_->read_bytes(block.ino, block.block * recording_.options.block_bytes + in_block, out);
  } else if (value == 0) {
    std::fill(out.begin(), out.end(), std::byte{0});
  } else {
    std::memcpy(out.data(), recording_.bytes.at(value) + skip, out.size());
  }
}

Ino CrashView::first_free_ino() { return recording_.next_ino; }

bool CrashView::reached(std::string_view mark) {
  if (observer_) observe(name_of_mark(mark));
  const auto found = recording_.mark_locations.find(mark);
  if (found != recording_.mark_locations.end() && read(found->second) == 1) return true;
  return below_ && below_->reached(mark);
}

}  // namespace crashcut::fusefs
