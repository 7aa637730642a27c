// CrashedDrive: the sectors of a drive after one or several crashes, decided as they are read.
//
// Each crash is a layer with a recording and a cut of its own. A sector shows what the newest layer left that wrote it;
//   at the bottom are zeroes.
// Faults: a sector may be bad, and writes of the first layer may have gone elsewhere, as long as there are no more
//   faults than the options allow. Whether writes went elsewhere is asked when a sector is read that one of them
//   touches.
// Invariant: what is read twice is the same twice.
// Threads: one at a time.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "blocklayer/recording.h"
#include "persist/cut.h"

namespace crashcut::blocklayer {

class CrashedDrive {
 public:
  struct Layer {
    const DriveRecording* recording;
    persist::Cut* cut;
  };
  // From the first crash to the last one, at least one. What they point to outlives the drive.
  CrashedDrive(std::vector<Layer> layers, persist::Chooser& chooser);

  std::uint32_t sector_bytes() const { return layers_.front().recording->options.sector_bytes; }
  // Bytes of one sector from `offset` on: 0, or EIO where the sector cannot be read. What is not asked for is not
  // decided.
  int read(Sector sector, std::size_t offset, std::span<std::byte> out);
  // Whether the program had made the mark when the power failed. A mark that it never made is not reached.
  bool reached(std::string_view mark);
  // Nothing more goes wrong: for a look at what was decided so far.
  void allow_no_more_faults() { has_more_faults_ = false; }

 private:
  bool is_bottom(std::size_t layer, Sector sector) const;
  bool has_room_for(std::size_t faults, std::size_t layer) const;
  Fault fault_of(std::size_t layer, Sector sector);
  // Where a layer holds the sector; kNoLocation if it did not write it.
  persist::LocationId location_of(std::size_t layer, Sector sector) const;
  // Decides whether writes went elsewhere of which one touches the sector.
  void decide_misdirection(Sector sector);
  bool is_misdirected(std::uint32_t index);
  void take_misdirection(std::uint32_t index);

  std::vector<Layer> layers_;
  persist::Chooser& chooser_;
  std::map<std::pair<std::size_t, Sector>, Fault> faults_;  // by layer and sector: those that were asked about
  std::optional<std::uint32_t> misdirection_;               // that happened, in the first layer
  std::size_t fault_count_ = 0;
  bool has_more_faults_ = true;
};

}  // namespace crashcut::blocklayer
