// DriveRecording: a persist::Log of what a drive was asked to do, and what its locations and values mean.
//
// Locations: a sector, holding the place of its bytes in the payloads; a mark, holding 1 once the program made it; the
//   fault of a sector, where faults are asked for; a misdirection, holding 1 if exactly its writes went elsewhere; a
//   sector under a misdirection, holding what the sector holds then.
// Values of a sector: 0 is zeroes, kFromBelow is what the drive held before this recording, any other is one more than
//   the place of its bytes.
// Payloads: where the bytes of writes are. They are written once, when they arrive, and referred to from then on.
// Threads: written by one DriveRecorder; read-only once the log is sealed.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "blocklayer/drive.h"
#include "persist/recording.h"

namespace crashcut::blocklayer {

// The bytes of all writes, by their place.
class Payloads {
 public:
  virtual ~Payloads() = default;
  virtual std::span<const std::byte> bytes(std::uint64_t at, std::size_t count) const = 0;
};

// Payloads in memory.
class MemoryPayloads final : public Payloads {
 public:
  // Returns their place.
  std::uint64_t add(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return bytes_.size() - bytes.size();
  }
  std::span<const std::byte> bytes(std::uint64_t at, std::size_t count) const override {
    return std::span(bytes_).subspan(at, count);
  }

 private:
  std::vector<std::byte> bytes_;
};

inline constexpr persist::Value kZeroes = 0;
inline constexpr persist::Value kFromBelow = ~persist::Value{0};
inline constexpr persist::LocationId kNoLocation = ~persist::LocationId{0};

// What is wrong with a sector: the values of its fault.
enum class Fault : std::uint8_t { kNone, kUnreadable, kGarbage };

// A write that goes elsewhere (drive.h: misdirected).
struct Detour {
  std::uint64_t request;  // its number
  Sector from, to;
  std::uint64_t count;
};
// Writes that may go elsewhere together, in the order of their requests. Each is a fault.
using Misdirection = std::vector<Detour>;

// Sector -> location, in pages: sectors that are written together lie together.
class SectorTable {
 public:
  // kNoLocation where there is none.
  persist::LocationId find(Sector sector) const {
    const auto page = pages_.find(sector / kPageSectors);
    return page == pages_.end() ? kNoLocation : (*page->second)[sector % kPageSectors];
  }
  persist::LocationId& at(Sector sector) {
    auto& page = pages_[sector / kPageSectors];
    if (!page) {
      page = std::make_unique<Page>();
      page->fill(kNoLocation);
    }
    return (*page)[sector % kPageSectors];
  }

 private:
  static constexpr Sector kPageSectors = 256;
  using Page = std::array<persist::LocationId, kPageSectors>;
  std::unordered_map<Sector, std::unique_ptr<Page>> pages_;
};

enum class EventKind : std::uint8_t { kWrite, kZero, kDiscard, kAgain, kFlush, kDurable, kMark, kFault, kMisdirect };

struct DriveRecording final : persist::Recording {
  // What a location is.
  enum class Place : std::uint8_t { kSector, kFault, kMark, kMisdirection };
  struct LocationInfo {
    Place place;
    std::uint64_t index;  // the sector; into mark_texts for kMark; into misdirections
  };

  DriveOptions options;
  std::shared_ptr<const Payloads> payloads;
  SectorTable sectors;
  std::unordered_map<Sector, persist::LocationId> faults;  // empty where no faults are asked for
  std::vector<LocationInfo> locations;                     // of each location
  std::vector<EventKind> event_kinds;                      // of each event
  std::vector<std::string> mark_texts;
  std::map<std::string, persist::LocationId, std::less<>> mark_locations;
  std::vector<Misdirection> misdirections;
  std::vector<persist::LocationId> misdirection_locations;                  // of each, whether it happened
  std::vector<std::unordered_map<Sector, persist::LocationId>> elsewhere;   // of each, the sectors that it touches
  std::unordered_map<Sector, std::vector<std::uint32_t>> misdirections_of;  // a sector, ascending
  std::uint64_t overlaps = 0;  // writes of sectors that another write in flight wrote too

  persist::ModelSpec model() const override { return spec_of(options); }
  std::string_view kind_of(persist::EventId event) const override;
  bool is_sync(persist::EventId event) const override;
  std::string describe_event(persist::EventId event) const override;
  std::string describe_location(persist::LocationId location) const override;
  std::string describe_value(persist::LocationId location, persist::Value value) const;
  std::string describe_candidate(persist::LocationId location, const persist::Candidate& candidate) const override;
  std::vector<persist::Mark> marks() const override;
  bool is_mark(persist::LocationId location) const override { return locations[location].place == Place::kMark; }
  // Recordings of drives are not compared.
  std::unique_ptr<persist::StableNames> stable_names() const override { return nullptr; }
};

}  // namespace crashcut::blocklayer
