// CrashView: the disk that a recovery finds, decided while it reads.
//
// A second crash is a view over the first. What the second recording never wrote is read from `below`, and such a read
//   refines the cut of `below`.
// Threads: one view belongs to one thread.
#pragma once

#include "fusefs/location_names.h"
#include "fusefs/medium.h"
#include "fusefs/recording.h"
#include "persist/choices.h"
#include "persist/cut.h"

namespace crashcut::fusefs {

class CrashView final : public Medium {
 public:
  // All outlive the view. `below` is the view that the recorded execution itself ran on, or null.
  CrashView(const Recording& recording, persist::Cut& cut, persist::Chooser& chooser, CrashView* below = nullptr);

  // From now on the observer gets the name of everything that is looked at.
  void set_observer(Observer* observer) { observer_ = observer; }

  Ino lookup(Ino dir, std::string_view name) override;
  std::vector<std::string> possible_names(Ino dir) override;
  mode_t type(Ino ino) override;
  std::uint64_t size(Ino ino) override;
  Meta meta(Ino ino) override;
  Owner owner(Ino ino) override;
  bool is_written(Ino ino, std::uint64_t block) override;
  std::optional<std::vector<std::uint64_t>> possible_blocks(Ino ino) override;
  void read_bytes(Ino ino, std::uint64_t offset, std::span<std::byte> out) override;
  Ino first_free_ino() override;

  // Whether the program had reached the mark when the power failed. A mark that the program never set is not reached.
  bool reached(std::string_view mark);

 private:
  persist::Value read(persist::LocationId location);
  void observe(std::uint64_t name) const {
    if (observer_) observer_->note(name);
  }
  void observe_sector(BlockId id, std::uint64_t sector) const;
  const InodeRecord* find_inode(Ino ino) const;
  // The block that this recording put there, or kNoBlock.
  BlockId find_block(Ino ino, std::uint64_t block);
  bool is_asked_below(Ino ino, std::uint64_t block);
  void read_block(BlockId id, std::uint64_t in_block, std::span<std::byte> out);

  const Recording& recording_;
  persist::Cut& cut_;
  persist::Chooser& chooser_;
  CrashView* below_;
  Observer* observer_ = nullptr;
};

}  // namespace crashcut::fusefs
