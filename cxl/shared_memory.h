// SharedMemory: CXL memory that several machines share: what they see of it, and what is left of it when one fails.
//
// Models: cache coherence taken at its word. A line has at most one machine that has it dirty. An access of any byte of
//   the line by another machine, load or store, first writes the whole line back to the device. A flush writes back
//   what the executing machine has of the line and says nothing of another machine's cache. Global persistent flush and
//   poison are options.
// Does not model: store buffers (cxl/machines.h has them); memory without coherence (cxl/incoherent_memory.h).
// Source: CXLMC sections 2 and 4, and the rules of coherence where its algorithms differ: they refine only the machine
//   that was read from and do not write back when another machine stores.
//
// On failure of a machine, of each line that it had dirty the device keeps a prefix of the stores that were pending,
//   each line for itself. The pieces of one wide store have no order among themselves, and a non-temporal store has
//   none but with stores to its own word. What was kept is decided while survivors load. With global persistent flush
//   all that had reached the cache is kept. With poison a line of which stores were lost is an error to a thread that
//   loads from it, until all its bytes were written anew.
// Memory that goes away: a region may have a home, which is the machine that shares it with the others, or the memory
//   device that it lies on. A device is a machine without threads: it only fails. When the home fails, the region is
//   gone for good: nothing of its lines is left, in no cache. From then on each load, store, locked instruction and
//   flush of it that is executed is an error to the thread, on every machine; what still waits in store buffers
//   vanishes when it leaves. A home that is restarted does not bring its region back.
//
// How it is kept: each failure seals a log of the stores that were pending then, and becomes a layer of a CutStack. A
//   location is a byte. So a store of a part of a word needs nothing special, and a byte that no store of the layer
//   reached the device for shows what the layer below has. A load decides the bytes that it looks at and no others.
//
// Invariants: (1) what machines see is the device's bytes with the pending stores of the owner over them; (2) a byte is
//   open, that is, depends on a failure, only in the device; (3) pending stores are those of the owner.
// Cost: a store and a load of closed bytes are a lookup and a copy; a failure costs what the machine had dirty.
// Threads: the caller serialises.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "persist/cut_stack.h"
#include "pmem/line_table.h"
#include "pmem/store_buffer.h"

namespace crashcut::cxl {

using pmem::Address;
using MachineId = std::uint32_t;
inline constexpr MachineId kNoMachine = ~MachineId{0};

struct SharedModel {
  bool has_global_flush = false;
  bool has_poison = false;
};

enum class Loaded : std::uint8_t { kBytes, kPoison, kGone };

// A store, or a piece of one, that was pending when its machine failed.
struct StoreAtStake {
  MachineId machine;
  Address address;
  std::uint32_t bytes;
  std::uint32_t op;  // pmem::BufferEntry::op
  persist::LayerId layer;
  persist::EventId event;
};
// What the survivors' loads have decided of it so far. Of a poisoned line nobody can tell which stores were lost.
enum class StoreFate : std::uint8_t { kOpen, kKept, kLost, kPoisoned };

class SharedMemory {
 public:
  explicit SharedMemory(const SharedModel& model = {}) : model_(model) {}

  const SharedModel& model() const { return model_; }
  // Whole lines, which begin as `ground` holds them; null: all zero. Everything else is the machines' own memory. The
  // region is gone when its home fails.
  void add_region(const pmem::Region& region, const std::byte* ground = nullptr, MachineId home = kNoMachine) {
    lines_.add(region);
    if (ground != nullptr) grounds_.push_back({region, ground});
    if (home != kNoMachine) homes_.push_back({region, home});
  }
  bool is_shared(Address address) const { return lines_.contains(address); }
  // kNoMachine: the region has none, or the address is in no region.
  MachineId home_of(Address address) const;
  // A load gives kGone, and nothing else has an effect.
  bool is_gone(Address address) const;

  // A store, or a piece of one, leaves the store buffer for the machine's cache. It lies within one line.
  void store(MachineId machine, const pmem::BufferEntry& entry);
  // Any number of bytes within one line.
  [[nodiscard]] Loaded load(MachineId machine, Address address, std::span<std::byte> out, persist::Chooser& chooser);
  // A load that has nothing to choose and takes no line from another machine's cache. False: it is not one of those,
  // and nothing was done.
  [[nodiscard]] bool load_at_once(MachineId machine, Address address, std::span<std::byte> out) const;
  // How many answers a load of these bytes would have to choose from first; 1: none. Decides nothing, and is no access.
  std::size_t count_answers(Address address, std::size_t bytes);
  // Gives this answer to that choice, of count_answers() many. Further ones may follow.
  void decide(Address address, std::size_t bytes, std::uint32_t answer);
  // What the machines see of the line; bytes that are still open as they last were.
  std::array<std::byte, pmem::kLineBytes> look_at(Address address) const;

  // How many stores there were, of all machines.
  std::uint64_t store_count() const { return store_count_; }
  // How many stores the line has had, of all machines: a place in its history.
  std::uint64_t count_stores(Address address) const;
  // Writes back the ordinary stores of the line before that place, if the machine has it dirty.
  void write_back(MachineId machine, Address address, std::uint64_t before);
  // Writes back this store.
  void write_back_store(MachineId machine, Address address, std::uint64_t number);

  // What its store buffers hold is the caller's to throw away. `tried`: all that is left if none of the stores after so
  // many is kept has been tried; where they are one chain, the first of them is kept.
  void fail(MachineId machine, std::optional<std::uint64_t> tried = std::nullopt);
  // Whether a failure of the machine now could lose something of the line.
  bool has_pending(MachineId machine, Address address) const { return pending_owner(address) == machine; }
  // The machine of which that is so; kNoMachine: none, or the memory is not shared.
  MachineId pending_owner(Address address) const {
    const Line* line = find(address);
    return line == nullptr || line->pending.empty() ? kNoMachine : line->owner;
  }
  // All stores that failures could lose, oldest failure first.
  const std::vector<StoreAtStake>& at_stake() const { return at_stake_; }
  StoreFate fate_of(const StoreAtStake& store) const;
  // The failures so far, a layer each, and their cuts.
  const persist::CutStack& failures() const { return failures_; }

 private:
  struct Store {
    std::uint64_t number;  // in the line's history
    std::uint64_t count;   // of stores to all lines, with it
    std::uint64_t mask;    // the bytes of the line, bit i is byte i
    std::uint32_t group;   // of a store of several pieces; 0: alone
    std::uint32_t op;      // the caller's number
    bool is_weak;          // non-temporal
    std::array<std::byte, pmem::kLineBytes> bytes;
  };
  using LineBytes = std::array<std::byte, pmem::kLineBytes>;
  // A failure that may have poisoned the line.
  struct Poison {
    persist::LowerLocation whole;    // tells whether all stores of the failed machine were kept
    std::uint64_t written_anew = 0;  // the bytes, since then
    bool is_certain = false;
  };
  struct Line {
    Address address = 0;
    LineBytes seen{}, device{};
    std::uint64_t open = 0, device_open = 0;  // bit i: byte i is still to be decided
    MachineId owner = kNoMachine;
    std::uint64_t store_count = 0;
    std::vector<Store> pending;  // oldest first
    // Of open bytes.
    std::unique_ptr<std::array<persist::LowerLocation, pmem::kLineBytes>> below;
    std::vector<Poison> poison;
  };

  Line* find(Address address) const {
    const std::uint32_t* number = lines_.find(address);
    return number == nullptr || *number == 0 ? nullptr : const_cast<Line*>(&used_[*number - 1]);
  }
  Line& find_or_add(Address address);
  LineBytes ground_of(Address address) const;
  // The first location with several candidates that a load of these bytes would read; none: there is nothing to decide.
  std::optional<persist::LowerLocation> first_open(const Line& line, std::uint64_t wanted);
  static bool is_below(const Store& earlier, const Store& later);
  void access(Line& line, MachineId machine);
  void keep(Line& line, const Store& store);
  void write_back_all(Line& line);
  template <class IsWanted>
  void write_back_if(Line& line, IsWanted&& is_wanted);
  void lose(Line& line, persist::Log& log, persist::LayerId layer);
  void add_at_stake(const Line& line, const Store& store, persist::LayerId layer, persist::EventId event);
  static bool is_poisoned(const Line& line);

  struct Ground {
    pmem::Region region;
    const std::byte* bytes;
  };
  struct Home {
    pmem::Region region;
    MachineId machine;
    bool has_failed = false;
  };
  const Home* find_home(Address address) const;
  void lose_regions_of(MachineId machine);

  SharedModel model_;
  std::uint64_t store_count_ = 0;
  std::vector<Ground> grounds_;
  std::vector<Home> homes_;
  pmem::LineTable<std::uint32_t> lines_;  // numbers in used_, + 1
  std::deque<Line> used_;
  std::vector<std::unique_ptr<persist::Log>> logs_;
  persist::CutStack failures_;
  std::vector<StoreAtStake> at_stake_;
};

}  // namespace crashcut::cxl
