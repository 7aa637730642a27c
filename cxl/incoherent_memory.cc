#include "cxl/incoherent_memory.h"

#include <algorithm>
#include <utility>

#include "persist/check.h"

namespace crashcut::cxl {

using pmem::kLineBytes;

void IncoherentMemory::add_region(const pmem::Region& region, const std::byte* ground) {
  lines_.add(region);
  if (ground != nullptr) grounds_.push_back({region, ground});
  for (const auto& [machine, address] : std::exchange(fetched_early_, {})) fetch(machine, address);
}

IncoherentMemory::LineBytes IncoherentMemory::ground_of(Address begin) const {
  LineBytes bytes{};
  for (const Ground& ground : grounds_) {
    if (begin - ground.region.begin < ground.region.bytes)
      std::copy_n(ground.bytes + (begin - ground.region.begin), kLineBytes, bytes.begin());
  }
  return bytes;
}

IncoherentMemory::Line& IncoherentMemory::line_at(Address address) {
  std::uint32_t* number = lines_.find(address);
  CHECK(number != nullptr);
  if (*number == 0) {
    Line& line = used_.emplace_back();
    line.address = address / kLineBytes * kLineBytes;
    line.device = ground_of(line.address);
    *number = static_cast<std::uint32_t>(used_.size());
  }
  return used_[*number - 1];
}

IncoherentMemory::Copy& IncoherentMemory::copy_of(Line& line, MachineId machine) {
  if (machine >= line.copies.size()) line.copies.resize(machine + 1);
  return line.copies[machine];
}

IncoherentMemory::Copy& IncoherentMemory::have_copy(Line& line, MachineId machine) {
  Copy& copy = copy_of(line, machine);
  if (!copy.is_there) take(line, copy);
  return copy;
}

void IncoherentMemory::take(const Line& line, Copy& copy) {
  copy.bytes = line.device;
  copy.is_there = true;
}

void IncoherentMemory::drop(Copy& copy) {
  copy.bytes = {};
  copy.is_there = copy.is_dirty = false;
}

void IncoherentMemory::write_back(Line& line, Copy& copy) {
  if (copy.is_dirty) line.device = copy.bytes;
  copy.is_dirty = false;
}

void IncoherentMemory::load(MachineId machine, Address address, std::span<std::byte> out) {
  const Copy& copy = have_copy(line_at(address), machine);
  std::copy_n(copy.bytes.begin() + static_cast<std::ptrdiff_t>(address % kLineBytes), out.size(), out.begin());
}

void IncoherentMemory::store(MachineId machine, const pmem::BufferEntry& entry) {
  Line& line = line_at(entry.address);
  const bool is_cached = entry.kind == pmem::EntryKind::kStore;
  if (!is_cached) flush(machine, entry.address, false);
  LineBytes& bytes = is_cached ? have_copy(line, machine).bytes : line.device;
  std::copy_n(entry.data.begin(), entry.bytes, bytes.begin() + static_cast<std::ptrdiff_t>(entry.address % kLineBytes));
  if (!is_cached) return;
  Copy& copy = copy_of(line, machine);
  copy.is_dirty = copy.was_stored_to = true;
  copy.last_op = entry.op;
}

void IncoherentMemory::flush(MachineId machine, Address address, bool keeps) {
  Line& line = line_at(address);
  Copy& copy = copy_of(line, machine);
  write_back(line, copy);
  if (!keeps) drop(copy);
}

void IncoherentMemory::fetch(MachineId machine, Address address) {
  if (!contains(address)) {
    fetched_early_.emplace_back(machine, address);
    return;
  }
  Line& line = line_at(address);
  Copy& copy = copy_of(line, machine);
  CHECK(!copy.is_dirty);
  take(line, copy);
}

std::array<std::byte, kLineBytes> IncoherentMemory::look_at(MachineId machine, Address address) const {
  const Line* line = find(address);
  if (line == nullptr) return ground_of(address / kLineBytes * kLineBytes);
  const bool has_copy = machine < line->copies.size() && line->copies[machine].is_there;
  return has_copy ? line->copies[machine].bytes : line->device;
}

std::vector<std::pair<Address, std::uint32_t>> IncoherentMemory::stored_lines(MachineId machine) const {
  std::vector<std::pair<Address, std::uint32_t>> lines;
  for (const Line& line : used_) {
    if (machine < line.copies.size() && line.copies[machine].was_stored_to)
      lines.emplace_back(line.address, line.copies[machine].last_op);
  }
  return lines;
}

void IncoherentMemory::forget(MachineId machine) {
  for (Line& line : used_) copy_of(line, machine) = {};
  std::erase_if(fetched_early_, [&](const auto& early) { return early.first == machine; });
}

}  // namespace crashcut::cxl
