// IncoherentMemory: memory that several machines share and that no hardware keeps coherent between them.
//
// Models: each machine has its own copy of a line in its cache, or none. A load or store of a line that the machine has
//   no copy of fetches the line from the device first. Loads give what the copy holds, whatever other machines did
//   since it was fetched. Stores and locked instructions change the copy alone, and make it dirty: a locked instruction
//   is atomic among the threads of its machine, and not beyond. clflush and clflushopt write the copy back if it is
//   dirty, and drop it; clwb writes it back and keeps it. A write-back writes the whole line: what other machines have
//   written to other bytes of it meanwhile is overwritten. A non-temporal store drops the copy as clflush does, and
//   writes its bytes to the device. By themselves, at any time and as often as they like, caches write a dirty copy
//   back and keep it, and fetch a line anew that they have no copy of, or a clean copy of. So a line may be seen
//   earlier, and later, than the program asked for. A machine that ends in good order writes its dirty copies back and
//   drops all.
// Does not model: clflushopt and clwb in another order than clflush: here they wait in the store buffer as clflush does
//   (may miss bugs: a fence that is missing between them and a later store). Caches that keep a line in parts.
// On failure of a machine its copies are gone. The device keeps what was written back.
//
// Invariants: a copy that is not dirty was fetched from the device, or written back to it, in one piece.
// Threads: the caller serialises.
#pragma once

#include <array>
#include <deque>
#include <span>
#include <vector>

#include "pmem/line_table.h"
#include "pmem/store_buffer.h"

namespace crashcut::cxl {

using pmem::Address;
using MachineId = std::uint32_t;

class IncoherentMemory {
 public:
  // Whole lines, which begin as `ground` holds them; null: all zero.
  void add_region(const pmem::Region& region, const std::byte* ground = nullptr);
  bool contains(Address address) const { return lines_.contains(address); }

  // Any number of bytes within one line.
  void load(MachineId machine, Address address, std::span<std::byte> out);
  // A store, or a piece of one, leaves the store buffer. A non-temporal one goes to the device.
  void store(MachineId machine, const pmem::BufferEntry& entry);
  // Writes a dirty copy back; drops the copy, or keeps it.
  void flush(MachineId machine, Address address, bool keeps);
  // The cache does it by itself: the copy is not dirty, or there is none. The region may be added later.
  void fetch(MachineId machine, Address address);

  // Whether a write-back of the line would change what the device holds.
  bool is_dirty(MachineId machine, Address address) const {
    const Line* line = find(address);
    return line != nullptr && machine < line->copies.size() && line->copies[machine].is_dirty;
  }
  // What a load of the machine would see now.
  std::array<std::byte, pmem::kLineBytes> look_at(MachineId machine, Address address) const;
  // The lines that the machine has stored to since it began, in the order in which lines were used first; and by which
  // entry last (pmem::BufferEntry::op).
  std::vector<std::pair<Address, std::uint32_t>> stored_lines(MachineId machine) const;

  // The machine has failed, or ended after its dirty copies were written back: its copies are gone.
  void forget(MachineId machine);

 private:
  using LineBytes = std::array<std::byte, pmem::kLineBytes>;
  struct Copy {
    LineBytes bytes{};
    bool is_there = false, is_dirty = false;
    bool was_stored_to = false;  // since the machine began
    std::uint32_t last_op = 0;   // of these stores
  };
  struct Line {
    Address address = 0;
    LineBytes device{};
    std::vector<Copy> copies;  // a machine's
  };
  struct Ground {
    pmem::Region region;
    const std::byte* bytes;
  };
  const Line* find(Address address) const {
    const std::uint32_t* number = lines_.find(address);
    return number == nullptr || *number == 0 ? nullptr : &used_[*number - 1];
  }
  LineBytes ground_of(Address begin) const;
  Line& line_at(Address address);
  static Copy& copy_of(Line& line, MachineId machine);
  // Fetched if there is none.
  static Copy& have_copy(Line& line, MachineId machine);
  static void take(const Line& line, Copy& copy);  // what the device holds
  static void drop(Copy& copy);
  static void write_back(Line& line, Copy& copy);

  std::vector<Ground> grounds_;
  std::vector<std::pair<MachineId, Address>> fetched_early_;  // of regions that are not there yet
  pmem::LineTable<std::uint32_t> lines_;                      // numbers in used_, + 1
  std::deque<Line> used_;
};

}  // namespace crashcut::cxl
