#include "blocklayer/crashed_drive.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "persist/check.h"

namespace crashcut::blocklayer {
namespace {

// Two writes are the same to a reader who reads the same bytes of either.
class SameBytes final : public persist::SameToReader {
 public:
  // `is_bottom`: no layer below has written the sector, so zeroes are there.
  SameBytes(const DriveRecording& recording, std::size_t offset, std::size_t count, bool is_bottom)
      : recording_(recording), offset_(offset), count_(count), is_bottom_(is_bottom) {}

  bool is_same(persist::Value a, persist::Value b) const override {
    if (is_bottom_ && a == kFromBelow) a = kZeroes;
    if (is_bottom_ && b == kFromBelow) b = kZeroes;
    if (a == b) return true;
    if (a == kFromBelow || b == kFromBelow) return false;
    if (a != kZeroes && b != kZeroes) return std::memcmp(bytes(a), bytes(b), count_) == 0;
    static constexpr std::array<std::byte, kSectorBytesMost> kNoBytes{};
    return std::memcmp(bytes(a == kZeroes ? b : a), kNoBytes.data(), count_) == 0;
  }

 private:
  const std::byte* bytes(persist::Value value) const {
    return recording_.payloads->bytes(value - 1 + offset_, count_).data();
  }

  const DriveRecording& recording_;
  std::size_t offset_, count_;
  bool is_bottom_;
};

// Takes the oldest: the fault that did not happen.
class TakesOldest final : public persist::Chooser {
 public:
  std::uint32_t choose(const persist::Choice& choice) override {
    return static_cast<std::uint32_t>(choice.candidates.size() - 1);
  }
};

// Bytes that no program has written, the same each time.
std::byte garbage_at(Sector sector, std::size_t at) {
  std::uint64_t x = sector * 0x9e3779b97f4a7c15u + at * 0xbf58476d1ce4e5b9u + 0x94d049bb133111ebu;
  x ^= x >> 31;
  x *= 0xd6e8feb86659fd93u;
  return static_cast<std::byte>(x >> 56);
}

}  // namespace

CrashedDrive::CrashedDrive(std::vector<Layer> layers, persist::Chooser& chooser)
    : layers_(std::move(layers)), chooser_(chooser) {
  CHECK(!layers_.empty());
  // An earlier recovery may have met it.
  const DriveRecording& recording = *layers_.front().recording;
  for (std::uint32_t index = 0; layers_.size() > 1 && index < recording.misdirections.size(); ++index) {
    const auto candidates = layers_.front().cut->candidates(recording.misdirection_locations[index]);
    if (candidates.size() == 1 && candidates.front().value != 0) take_misdirection(index);
  }
}

bool CrashedDrive::has_room_for(std::size_t faults, std::size_t layer) const {
  return has_more_faults_ && fault_count_ + faults <= layers_[layer].recording->options.faults;
}

void CrashedDrive::take_misdirection(std::uint32_t index) {
  misdirection_ = index;
  fault_count_ += layers_.front().recording->misdirections[index].size();
}

// A choice that is not there to be made is made against the fault: a later recovery must not find it either.
bool CrashedDrive::is_misdirected(std::uint32_t index) {
  const Layer& first = layers_.front();
  const persist::LocationId location = first.recording->misdirection_locations[index];
  TakesOldest no_fault;
  const bool has_room = has_room_for(first.recording->misdirections[index].size(), 0);
  return first.cut->read(location, has_room ? chooser_ : no_fault) != 0;
}

void CrashedDrive::decide_misdirection(Sector sector) {
  if (misdirection_) return;
  const auto& all = layers_.front().recording->misdirections_of;
  const auto found = all.find(sector);
  if (found == all.end()) return;
  for (const std::uint32_t index : found->second) {
    if (is_misdirected(index)) return take_misdirection(index);
  }
}

persist::LocationId CrashedDrive::location_of(std::size_t layer, Sector sector) const {
  const DriveRecording& recording = *layers_[layer].recording;
  if (layer == 0 && misdirection_) {
    const auto& elsewhere = recording.elsewhere[*misdirection_];
    if (const auto found = elsewhere.find(sector); found != elsewhere.end()) return found->second;
  }
  return recording.sectors.find(sector);
}

// A fault that an earlier recovery has met is there whatever the number of others.
Fault CrashedDrive::fault_of(std::size_t layer, Sector sector) {
  const DriveRecording& recording = *layers_[layer].recording;
  const auto location = recording.faults.find(sector);
  if (location == recording.faults.end()) return Fault::kNone;
  const auto [known, is_new] = faults_.try_emplace({layer, sector}, Fault::kNone);
  if (!is_new) return known->second;
  persist::Cut& cut = *layers_[layer].cut;
  const bool is_decided = cut.candidates(location->second).size() == 1;
  if (is_decided || has_room_for(1, layer)) known->second = static_cast<Fault>(cut.read(location->second, chooser_));
  if (known->second != Fault::kNone) ++fault_count_;
  return known->second;
}

bool CrashedDrive::is_bottom(std::size_t layer, Sector sector) const {
  // A layer that may have been written by a write that went elsewhere counts as written.
  if (layer > 0 && layers_.front().recording->misdirections_of.contains(sector)) return false;
  for (std::size_t below = 0; below < layer; ++below) {
    if (location_of(below, sector) != kNoLocation) return false;
  }
  return true;
}

int CrashedDrive::read(Sector sector, std::size_t offset, std::span<std::byte> out) {
  for (std::size_t layer = layers_.size(); layer-- > 0;) {
    const DriveRecording& recording = *layers_[layer].recording;
    if (location_of(layer, sector) == kNoLocation && layer > 0) continue;
    const Fault fault = fault_of(layer, sector);
    if (fault == Fault::kUnreadable) return EIO;
    if (fault == Fault::kGarbage) {
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = garbage_at(sector, offset + i);
      return 0;
    }
    if (layer == 0) decide_misdirection(sector);
    const persist::LocationId location = location_of(layer, sector);
    if (location == kNoLocation) continue;
    const SameBytes same(recording, offset, out.size(), is_bottom(layer, sector));
    const persist::Value value = layers_[layer].cut->read(location, chooser_, same);
    if (value == kFromBelow) continue;
    if (value == kZeroes) break;
    const auto bytes = recording.payloads->bytes(value - 1 + offset, out.size());
    std::copy(bytes.begin(), bytes.end(), out.begin());
    return 0;
  }
  std::fill(out.begin(), out.end(), std::byte{0});
  return 0;
}

bool CrashedDrive::reached(std::string_view mark) {
  const Layer& first = layers_.front();
  const auto found = first.recording->mark_locations.find(mark);
  return found != first.recording->mark_locations.end() && first.cut->read(found->second, chooser_) != 0;
}

}  // namespace crashcut::blocklayer
