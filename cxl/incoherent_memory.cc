#include "cxl/incoherent_memory.h"

#include <algorithm>

#include "persist/check.h"

namespace crashcut::cxl {

using pmem::kLineBytes;

void IncoherentMemory::add_region(const pmem::Region& region, const std::byte* ground) {
  lines_.add(region);
  if (ground != nullptr) grounds_.push_back({region, ground});
}

IncoherentMemory::Line& IncoherentMemory::line_at(Address address) {
  std::uint32_t* number = lines_.find(address);
  CHECK(number != nullptr);
  if (*number == 0) {
    Line& line = used_.emplace_back();
    const Address begin = address / kLineBytes * kLineBytes;
    for (const Ground& ground : grounds_) {
      if (begin - ground.region.begin < ground.region.bytes)
        std::copy_n(ground.bytes + (begin - ground.region.begin), kLineBytes, line.device.begin());
    }
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
  if (!copy.is_there) copy = {line.device, true, false};
  return copy;
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
  if (is_cached) copy_of(line, machine).is_dirty = true;
}

void IncoherentMemory::flush(MachineId machine, Address address, bool keeps) {
  Line& line = line_at(address);
  Copy& copy = copy_of(line, machine);
  write_back(line, copy);
  if (!keeps) copy = {};
}

void IncoherentMemory::fetch(MachineId machine, Address address) {
  Line& line = line_at(address);
  Copy& copy = copy_of(line, machine);
  CHECK(!copy.is_dirty);
  copy = {line.device, true, false};
}

void IncoherentMemory::end(MachineId machine) {
  for (Line& line : used_) {
    Copy& copy = copy_of(line, machine);
    write_back(line, copy);
    copy = {};
  }
}

void IncoherentMemory::fail(MachineId machine) {
  for (Line& line : used_) copy_of(line, machine) = {};
}

}  // namespace crashcut::cxl
