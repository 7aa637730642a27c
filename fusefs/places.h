// Places: which blocks share a place on the disk, decided while recovery reads.
//
// In data=writeback a freed block is free at once: before the journal has committed that it was freed, its place may be
//   given to another block and hold that block's data (fusefs/profile.cc, kReuseRules). So a place holds the data of
//   several blocks one after the other. A read finds the newest data that has persisted there:
//     a block whose freeing has not persisted shows what was later written to a block that took its place;
//     a block whose data has not persisted shows what the blocks before it left in its place (possible only where
//     metadata does not wait for the data: dioread_lock, nodelalloc, barrier=0).
// Which blocks share a place is a choice like any other. What follows from it:
//   (1) a block is in one place, and a place has one block at a time: a taker is allocated after the giver is freed;
//   (2) the journal has no allocation of a taker unless it has the freeing before it, so of the blocks of a place at
//       most one shows;
//   (3) the freeing has happened, if not persisted: the crash came after all marks and syncs before it;
//   (4) each sector shows the newest data in its place, so what is read from one block keeps newer blocks of the place
//       from having persisted there.
// How many candidates a read has: of each block written between the freeing and the first sync that commits it, as many
//   as its sector has versions; blocks that look alike (Recording::look_alikes) count once.
// Does not model: what lay in blocks that were free before the recording began (NULs), what metadata left in a place.
// Threads: one belongs to one thread.
#pragma once

#include <span>
#include <unordered_set>
#include <vector>

#include "fusefs/recording.h"
#include "persist/cut.h"

namespace crashcut::fusefs {

class Places {
 public:
  Places(const Recording& recording, persist::Cut& cut, persist::Chooser& chooser)
      : recording_(recording), cut_(cut), chooser_(chooser) {}

  // What a sector of a block that shows holds; the sector has a location.
  persist::Value read(BlockId id, std::uint32_t sector, const persist::SameToReader& same);

 private:
  // A choice, with what it means for the cut and the place.
  struct Option {
    persist::Candidate candidate;
    BlockId source;
    std::size_t insert_at = ~std::size_t{0};  // where the source joins the place; unused if it is a member already
    std::vector<persist::EventId> in;
    std::vector<persist::EventId> out;
  };
  struct Reading {
    BlockId id;
    std::uint32_t sector;
    const persist::SameToReader& same;
    const persist::SharedPlace& place;
    std::size_t at;                         // of `id` among the members
    std::unordered_set<BlockId> elsewhere;  // blocks whose place is known
  };

  const BlockRecord& block(BlockId id) const { return recording_.blocks[id]; }
  std::span<const persist::LocationWrite> history(BlockId id, std::uint32_t sector) const;
  bool is_possible(const Option& option) const;
  bool is_freed_before(BlockId giver, BlockId taker) const { return block(giver).freed_at < block(taker).placed_at; }
  bool is_settled(BlockId id) const;
  bool is_written(BlockId id, std::uint32_t sector) const;
  void add_member_options(const Reading& reading, std::size_t member, std::vector<Option>& options) const;
  void add_initial_option(const Reading& reading, std::vector<Option>& options) const;
  void add_runs(const Reading& reading, Option option, std::vector<Option>& options) const;
  void add_takers(const Reading& reading, std::size_t insert_at, std::vector<Option>& options) const;
  void add_givers(const Reading& reading, std::size_t insert_at, std::vector<Option>& options) const;
  void add_newcomer(const Reading& reading, BlockId id, std::size_t insert_at, std::vector<Option>& options) const;
  std::unordered_set<BlockId> placed_blocks() const;
  void take(const Reading& reading, const Option& option);

  const Recording& recording_;
  persist::Cut& cut_;
  persist::Chooser& chooser_;
};

}  // namespace crashcut::fusefs
