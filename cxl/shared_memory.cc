#include "cxl/shared_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace crashcut::cxl {

using persist::EventId;
using persist::LocationId;
using persist::LowerLocation;
using pmem::kLineBytes;

namespace {

std::uint64_t mask_of(Address address, std::size_t bytes) {
  return (~std::uint64_t{0} >> (kLineBytes - bytes)) << (address % kLineBytes);
}

// The words of a line that the bytes are in, bit i is word i.
std::uint64_t words_of(std::uint64_t mask) {
  std::uint64_t words = 0;
  for (unsigned word = 0; word < pmem::kWordsPerLine; ++word) {
    if ((mask >> (8 * word) & 0xff) != 0) words |= std::uint64_t{1} << word;
  }
  return words;
}

template <class Visit>
void for_each_bit(std::uint64_t mask, Visit&& visit) {
  for (; mask != 0; mask &= mask - 1) visit(static_cast<unsigned>(std::countr_zero(mask)));
}

}  // namespace

SharedMemory::Line& SharedMemory::find_or_add(Address address) {
  std::uint32_t* number = lines_.find(address);
  CHECK(number != nullptr);
  if (*number == 0) {
    used_.emplace_back();
    used_.back().address = address / kLineBytes * kLineBytes;
    used_.back().seen = used_.back().device = ground_of(address);
    *number = static_cast<std::uint32_t>(used_.size());
  }
  return used_[*number - 1];
}

SharedMemory::LineBytes SharedMemory::ground_of(Address address) const {
  LineBytes bytes{};
  const Address line = address / kLineBytes * kLineBytes;
  for (const Ground& ground : grounds_) {
    if (line - ground.region.begin < ground.region.bytes)
      std::copy_n(ground.bytes + (line - ground.region.begin), kLineBytes, bytes.begin());
  }
  return bytes;
}

SharedMemory::LineBytes SharedMemory::look_at(Address address) const {
  const Line* line = find(address);
  return line == nullptr ? ground_of(address) : line->seen;
}

const SharedMemory::Home* SharedMemory::find_home(Address address) const {
  for (const Home& home : homes_) {
    if (address - home.region.begin < home.region.bytes) return &home;
  }
  return nullptr;
}
MachineId SharedMemory::home_of(Address address) const {
  const Home* home = find_home(address);
  return home == nullptr ? kNoMachine : home->machine;
}
bool SharedMemory::is_gone(Address address) const {
  const Home* home = find_home(address);
  return home != nullptr && home->has_failed;
}

void SharedMemory::lose_regions_of(MachineId machine) {
  for (Home& home : homes_) {
    if (home.machine != machine) continue;
    home.has_failed = true;
    for (Address at = home.region.begin; at < home.region.begin + home.region.bytes; at += kLineBytes) {
      if (Line* line = find(at)) line->pending.clear();
    }
  }
}

// Whether the device holds the earlier store of a line if it holds the later one.
bool SharedMemory::is_below(const Store& earlier, const Store& later) {
  if ((words_of(earlier.mask) & words_of(later.mask)) != 0) return true;
  if (earlier.is_weak || later.is_weak) return false;
  return earlier.group == 0 || earlier.group != later.group;
}

void SharedMemory::keep(Line& line, const Store& store) {
  for_each_bit(store.mask, [&](unsigned i) { line.device[i] = store.bytes[i]; });
  line.device_open &= ~store.mask;
}

void SharedMemory::write_back_all(Line& line) {
  for (const Store& store : line.pending) keep(line, store);
  line.pending.clear();
}

// The wanted stores, and those that the device must hold before them.
template <class IsWanted>
void SharedMemory::write_back_if(Line& line, IsWanted&& is_wanted) {
  if (std::all_of(line.pending.begin(), line.pending.end(), is_wanted)) return write_back_all(line);
  const std::size_t count = line.pending.size();
  std::vector<bool> goes(count);
  for (std::size_t i = count; i-- > 0;) {
    if (!goes[i] && !is_wanted(line.pending[i])) continue;
    goes[i] = true;
    for (std::size_t j = 0; j < i; ++j) goes[j] = goes[j] || is_below(line.pending[j], line.pending[i]);
  }
  std::size_t left = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (goes[i]) {
      keep(line, line.pending[i]);
    } else {
      line.pending[left++] = line.pending[i];
    }
  }
  line.pending.resize(left);
}

// Coherence: the line comes to this machine.
void SharedMemory::access(Line& line, MachineId machine) {
  if (line.owner != machine) write_back_all(line);
}

void SharedMemory::store(MachineId machine, const pmem::BufferEntry& entry) {
  ++store_count_;
  if (is_gone(entry.address)) return;
  Line& line = find_or_add(entry.address);
  access(line, machine);
  line.owner = machine;
  Store store{line.store_count++,
              store_count_,
              mask_of(entry.address, entry.bytes),
              entry.group,
              entry.op,
              entry.kind == pmem::EntryKind::kNonTemporalStore,
              {}};
  const std::size_t first = entry.address % kLineBytes;
  std::copy_n(entry.data.begin(), entry.bytes, store.bytes.begin() + static_cast<std::ptrdiff_t>(first));
  for_each_bit(store.mask, [&](unsigned i) { line.seen[i] = store.bytes[i]; });
  line.open &= ~store.mask;
  line.pending.push_back(store);
  for (Poison& poison : line.poison) poison.written_anew |= store.mask;
  std::erase_if(line.poison, [](const Poison& poison) { return poison.written_anew == ~std::uint64_t{0}; });
}

bool SharedMemory::is_poisoned(const Line& line) {
  return std::any_of(line.poison.begin(), line.poison.end(), [](const Poison& poison) { return poison.is_certain; });
}

Loaded SharedMemory::load(MachineId machine, Address address, std::span<std::byte> out, persist::Chooser& chooser) {
  if (is_gone(address)) return Loaded::kGone;
  Line* line = find(address);
  if (line == nullptr) {
    CHECK(is_shared(address));
    const LineBytes ground = ground_of(address);
    std::copy_n(ground.begin() + static_cast<std::ptrdiff_t>(address % kLineBytes), out.size(), out.begin());
    return Loaded::kBytes;
  }
  access(*line, machine);
  while (!is_poisoned(*line) && !line->poison.empty()) {
    const LowerLocation whole = line->poison.back().whole;
    if (failures_.read(whole.layer, whole.location, chooser) == 0) {
      line->poison.back().is_certain = true;
    } else {
      line->poison.pop_back();
    }
  }
  if (!line->poison.empty()) return Loaded::kPoison;
  const std::uint64_t wanted = mask_of(address, out.size());
  for_each_bit(line->open & wanted, [&](unsigned i) {
    const LowerLocation& below = (*line->below)[i];
    line->seen[i] = line->device[i] = static_cast<std::byte>(failures_.read(below.layer, below.location, chooser));
    line->open &= ~(std::uint64_t{1} << i);
    line->device_open &= ~(std::uint64_t{1} << i);
  });
  const std::size_t first = address % kLineBytes;
  std::copy_n(line->seen.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
  return Loaded::kBytes;
}

bool SharedMemory::load_at_once(MachineId machine, Address address, std::span<std::byte> out) const {
  if (find_home(address) != nullptr) return false;  // it may go away
  const Line* line = find(address);
  if (line == nullptr || (line->owner != machine && !line->pending.empty()) || !line->poison.empty()) return false;
  if ((line->open & mask_of(address, out.size())) != 0) return false;
  std::memcpy(out.data(), line->seen.data() + address % kLineBytes, out.size());
  return true;
}

std::size_t SharedMemory::count_answers(Address address, std::size_t bytes) {
  if (is_gone(address)) return 1;
  const Line* line = find(address);
  const auto open = line == nullptr ? std::nullopt : first_open(*line, mask_of(address, bytes));
  return open ? failures_.candidates(open->layer, open->location).size() : 1;
}

std::optional<LowerLocation> SharedMemory::first_open(const Line& line, std::uint64_t wanted) {
  if (is_poisoned(line)) return std::nullopt;
  for (std::size_t i = line.poison.size(); i-- > 0;) {
    const LowerLocation whole = line.poison[i].whole;
    const auto candidates = failures_.candidates(whole.layer, whole.location);
    if (candidates.size() > 1) return whole;
    if (candidates[0].value == 0) return std::nullopt;  // poisoned for certain
  }
  for (std::uint64_t open = line.open & wanted; open != 0; open &= open - 1) {
    const LowerLocation& below = (*line.below)[static_cast<unsigned>(std::countr_zero(open))];
    if (failures_.candidates(below.layer, below.location).size() > 1) return below;
  }
  return std::nullopt;
}

void SharedMemory::decide(Address address, std::size_t bytes, std::uint32_t answer) {
  class Given final : public persist::Chooser {
   public:
    explicit Given(std::uint32_t answer) : answer_(answer) {}
    std::uint32_t choose(const persist::Choice&) override { return answer_; }

   private:
    std::uint32_t answer_;
  };
  const Line* line = find(address);
  const auto open = line == nullptr ? std::nullopt : first_open(*line, mask_of(address, bytes));
  CHECK(open.has_value());
  Given given(answer);
  failures_.read(open->layer, open->location, given);
}

std::uint64_t SharedMemory::count_stores(Address address) const {
  const Line* line = find(address);
  return line == nullptr ? 0 : line->store_count;
}

void SharedMemory::write_back(MachineId machine, Address address, std::uint64_t before) {
  Line* line = find(address);
  if (line == nullptr || line->owner != machine) return;
  write_back_if(*line, [&](const Store& store) { return !store.is_weak && store.number < before; });
}

void SharedMemory::write_back_store(MachineId machine, Address address, std::uint64_t number) {
  Line* line = find(address);
  if (line == nullptr || line->owner != machine) return;
  write_back_if(*line, [&](const Store& store) { return store.number == number; });
}

void SharedMemory::fail(MachineId machine, std::optional<std::uint64_t> tried) {
  lose_regions_of(machine);
  std::unique_ptr<persist::Log> log;
  const auto layer = static_cast<persist::LayerId>(failures_.layer_count());
  std::vector<EventId> kept;  // the first store of each line after those that were tried; kNoEvent: there is none such
  for (Line& line : used_) {
    if (line.owner != machine) continue;
    if (model_.has_global_flush) write_back_all(line);
    if (!line.pending.empty()) {
      if (log == nullptr) log = std::make_unique<persist::Log>();
      const auto is_untried = [&](const Store& store) { return tried && store.count > *tried; };
      const auto first = std::find_if(line.pending.begin(), line.pending.end(), is_untried);
      const bool is_chain =
          std::all_of(first, line.pending.end(), [&](const Store& s) { return &s == &*first || is_below(*first, s); });
      const auto place = static_cast<std::size_t>(first - line.pending.begin());
      const bool is_there = first != line.pending.end();
      const std::size_t before = at_stake_.size();
      lose(line, *log, layer);
      if (is_there) kept.push_back(is_chain ? at_stake_[before + place].event : persist::kNoEvent);
    }
    line.owner = kNoMachine;
  }
  if (log == nullptr) return;
  log->seal();
  failures_.push(*log);
  logs_.push_back(std::move(log));
  // That a store was lost shows with poison: losing it is not as if it had not been executed.
  if (kept.size() == 1 && kept[0] != persist::kNoEvent && !model_.has_poison) failures_.cut(layer).include(kept[0]);
}

// The bytes of a store are neighbours.
void SharedMemory::add_at_stake(const Line& line, const Store& store, persist::LayerId layer, EventId event) {
  const auto first = static_cast<unsigned>(std::countr_zero(store.mask));
  at_stake_.push_back({line.owner, line.address + first, static_cast<std::uint32_t>(std::popcount(store.mask)),
                       store.op, layer, event});
}

StoreFate SharedMemory::fate_of(const StoreAtStake& store) const {
  const persist::Cut& cut = failures_.cut(store.layer);
  if (cut.is_in(store.event)) return StoreFate::kKept;
  if (cut.is_out(store.event)) return StoreFate::kLost;
  const Line* line = find(store.address);
  return line != nullptr && is_poisoned(*line) ? StoreFate::kPoisoned : StoreFate::kOpen;
}

// The pending stores of a line become events of the log; what they wrote is open.
void SharedMemory::lose(Line& line, persist::Log& log, persist::LayerId layer) {
  std::uint64_t written = 0;
  for (const Store& store : line.pending) written |= store.mask;
  if (line.below == nullptr) line.below = std::make_unique<std::array<LowerLocation, kLineBytes>>();
  std::array<LocationId, kLineBytes> locations{};
  for_each_bit(written, [&](unsigned i) {
    const bool is_open = (line.device_open >> i & 1) != 0;
    locations[i] = is_open ? log.add_location_over((*line.below)[i])
                           : log.add_location(static_cast<persist::Value>(line.device[i]));
    (*line.below)[i] = {layer, locations[i]};
  });
  const bool has_weak = std::any_of(line.pending.begin(), line.pending.end(), [](const Store& s) { return s.is_weak; });
  std::vector<EventId> events, after;
  std::vector<persist::Write> writes;
  for (std::size_t i = 0; i < line.pending.size(); ++i) {
    const Store& store = line.pending[i];
    after.clear();
    std::uint32_t group = 0;  // the newest one below
    for (std::size_t j = i; j-- > 0;) {
      if (!is_below(line.pending[j], store)) continue;
      // Ordinary stores of a line are a chain of groups: what is below the newest group is below the store.
      if (!has_weak && !after.empty() && (group == 0 || line.pending[j].group != group)) break;
      group = line.pending[j].group;
      after.push_back(events[j]);
    }
    writes.clear();
    for_each_bit(store.mask,
                 [&](unsigned b) { writes.emplace_back(locations[b], static_cast<persist::Value>(store.bytes[b])); });
    events.push_back(log.add_event(static_cast<std::uint32_t>(store.number), writes, after));
    add_at_stake(line, store, layer, events.back());
  }
  if (model_.has_poison) {
    const LocationId whole = log.add_location(0);
    writes.assign(1, persist::Write(whole, 1));
    log.add_event(static_cast<std::uint32_t>(line.store_count), writes, events);
    line.poison.push_back({.whole = {layer, whole}});
  }
  line.device_open |= written;
  line.open = line.device_open;
  line.seen = line.device;
  line.pending.clear();
}

}  // namespace crashcut::cxl
