// CrashedDrive: the sectors of a drive after one or several crashes, decided as they are read.
//
// Each crash is a layer with a recording and a cut of its own. A sector shows what the newest layer left that wrote it;
//   at the bottom are zeroes.
// Faults: a sector that a layer wrote may be bad, as long as fewer sectors are than the options allow.
// Invariant: what is read twice is the same twice.
// Threads: one at a time.
#pragma once

#include <map>
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

 private:
  bool is_bottom(std::size_t layer, Sector sector) const;
  Fault fault_of(std::size_t layer, Sector sector);

  std::vector<Layer> layers_;
  persist::Chooser& chooser_;
  std::map<std::pair<std::size_t, Sector>, Fault> faults_;  // by layer and sector: those that were asked about
  std::uint32_t fault_count_ = 0;
};

}  // namespace crashcut::blocklayer
