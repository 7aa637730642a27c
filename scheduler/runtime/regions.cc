#include "scheduler/runtime/regions.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "inject/process.h"
#include "scheduler/runtime/buffers.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/world.h"
#include "scheduler/runtime/world_impl.h"

namespace crashcut::scheduler::runtime {

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint64_t kSlotBytes = std::uint64_t{64} << 20;  // regions begin at multiples of it
constexpr std::uint64_t kSlots = kRegionsBytes / kSlotBytes;

// Our own views: of the regions, and of how they begin.
char* g_view = nullptr;
char* g_start = nullptr;

std::uint64_t page_end(std::uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
std::uint64_t slots_of(std::uint64_t bytes) { return (bytes + kSlotBytes - 1) / kSlotBytes; }

bool is_free(std::uint64_t slot, std::uint64_t count) {
  const std::uint64_t begin = slot * kSlotBytes, end = (slot + count) * kSlotBytes;
  if (end > kRegionsBytes) return false;
  return std::none_of(g_names->regions, g_names->regions + g_names->region_count, [&](const Names::Region& r) {
    return begin < r.offset + slots_of(r.room) * kSlotBytes && r.offset < end;
  });
}

// Where a region of that name is put does not depend on which region was asked for first, unless two names meet.
Names::Region* add_region(const char* name, std::uint64_t room) {
  const std::uint64_t count = slots_of(room);
  if (g_names->region_count == kRegionsMost || count > kSlots) return nullptr;
  std::uint64_t first = 1;
  for (const char* c = name; *c != 0; ++c) first = hash(first ^ static_cast<unsigned char>(*c));
  for (std::uint64_t i = 0; i < kSlots; ++i) {
    const std::uint64_t slot = (first + i) % kSlots;
    if (!is_free(slot, count)) continue;
    Names::Region& made = g_names->regions[g_names->region_count];
    inject::copy_text(name, made.name);
    made.offset = slot * kSlotBytes;
    made.room = room;
    ++g_names->region_count;
    return &made;
  }
  return nullptr;
}

// The region of that name, with so many bytes at least; null if it cannot have them.
Names::Region* have_region(const char* name, std::uint64_t bytes, std::uint64_t room) {
  lock_names();
  Names::Region* region = find_region(name);
  if (region == nullptr && bytes > 0 && bytes <= room) region = add_region(name, room);
  if (region != nullptr && bytes > region->room) region = nullptr;
  if (region != nullptr && bytes > region->bytes) region->bytes = bytes;
  unlock_names();
  return region;
}

// Each eight bytes of garbage depend on where they are, and on the seed. None of them is zero.
void fill_garbage(std::uint32_t i) {
  Names::Region& region = g_names->regions[i];
  std::uint64_t& filled = g_control->filled_bytes[i];
  const std::uint64_t end = page_end(region.bytes);
  for (; g_control->garbage != 0 && filled < end; filled += sizeof filled) {
    const std::uint64_t at = region.offset + filled, word = hash(hash(g_control->garbage) ^ at) | 0x0101010101010101;
    std::memcpy(g_view + at, &word, sizeof word);
    std::memcpy(g_start + at, &word, sizeof word);
  }
}

void* make_accessible(Names::Region& region, std::uint64_t begin, std::uint64_t end) {
  fill_garbage(static_cast<std::uint32_t>(&region - g_names->regions));
  char* const at = reinterpret_cast<char*>(kRegionsAt + region.offset + begin);
  if (g_control->has_memory_model != 0) {
    kBufferModel.add_region(kRegionsAt + region.offset, page_end(region.bytes), g_view + region.offset);
    return at;
  }
  const long result = kernel(SYS_mprotect, at, page_end(end - begin), PROT_READ | PROT_WRITE);
  return result == 0 ? at : nullptr;
}

// Pages that nobody has touched hold zeroes, and looking at one would touch it.
template <class Visit>
void for_each_touched_page(const char* view, const Names::Region& region, Visit visit) {
  constexpr std::size_t kChunk = 1024;
  unsigned char resident[kChunk];
  const std::uint64_t pages = page_end(region.bytes) / kPage;
  for (std::uint64_t first = 0; first < pages; first += kChunk) {
    const std::uint64_t count = std::min<std::uint64_t>(kChunk, pages - first);
    const std::uint64_t begin = region.offset + first * kPage;
    if (kernel(SYS_mincore, view + begin, count * kPage, resident) != 0) continue;
    for (std::uint64_t i = 0; i < count; ++i) {
      if ((resident[i] & 1) != 0) visit(begin + i * kPage);
    }
  }
}

char* map_view(void* at, long protection, int fd, std::uint64_t offset) {
  const long flags = MAP_SHARED | MAP_NORESERVE | (at != nullptr ? MAP_FIXED_NOREPLACE : 0);
  const long made = kernel(SYS_mmap, at, kRegionsBytes, protection, flags, fd, offset);
  return made < 0 && made > -4096 ? nullptr : reinterpret_cast<char*>(made);
}

}  // namespace

bool map_regions(int control_fd) {
  void* const at = reinterpret_cast<void*>(kRegionsAt);
  g_view = map_view(reinterpret_cast<void*>(kViewAt), PROT_READ | PROT_WRITE, control_fd, kRegionsOffset);
  g_start = map_view(nullptr, PROT_READ | PROT_WRITE, control_fd, kStartOffset);
  return g_view != nullptr && g_start != nullptr && map_view(at, PROT_NONE, control_fd, kRegionsOffset) == at;
}

Names::Region* find_region(const char* name) {
  for (std::uint32_t i = 0; i < g_names->region_count; ++i) {
    if (std::strcmp(g_names->regions[i].name, name) == 0) return &g_names->regions[i];
  }
  return nullptr;
}

Names::Region* find_region_at(std::uint64_t address) {
  for (std::uint32_t i = 0; i < g_names->region_count; ++i) {
    if (address - kRegionsAt - g_names->regions[i].offset < g_names->regions[i].room) return &g_names->regions[i];
  }
  return nullptr;
}

const Control::RegionRule* find_region_rule(std::uint64_t address) {
  const Names::Region* region = g_control->region_rule_count == 0 ? nullptr : find_region_at(address);
  for (std::uint32_t i = 0; region != nullptr && i < g_control->region_rule_count; ++i) {
    if (std::strcmp(g_control->region_rules[i].name, region->name) == 0) return &g_control->region_rules[i];
  }
  return nullptr;
}

void* open_region(const char* name, std::size_t bytes) {
  Names::Region* region = have_region(name, bytes, bytes);
  return region == nullptr ? nullptr : make_accessible(*region, 0, region->bytes);
}

void* open_growing_region(const char* name, std::uint64_t begin, std::uint64_t end) {
  Names::Region* region = have_region(name, end, kGrowingMost);
  return region == nullptr ? nullptr : make_accessible(*region, begin, end);
}

bool is_in_open_region(std::uint64_t address, std::size_t bytes) {
  const std::uint64_t offset = address - kRegionsAt;
  return std::any_of(g_names->regions, g_names->regions + g_names->region_count, [&](const Names::Region& r) {
    return offset >= r.offset && offset - r.offset < r.bytes && bytes <= r.bytes - (offset - r.offset);
  });
}

void keep_start() {
  const std::uint32_t count = g_names->region_count;
  for (std::uint32_t i = 0; i < count; ++i) {
    for_each_touched_page(g_view, g_names->regions[i],
                          [](std::uint64_t page) { std::memcpy(g_start + page, g_view + page, kPage); });
  }
  g_control->has_start = count;
}

void restore_regions() {
  const std::uint32_t count = g_names->region_count;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Names::Region& region = g_names->regions[i];
    for_each_touched_page(g_view, region, [](std::uint64_t page) { std::memset(g_view + page, 0, kPage); });
    if (i < g_control->has_start || g_control->garbage != 0)
      for_each_touched_page(g_start, region,
                            [](std::uint64_t page) { std::memcpy(g_view + page, g_start + page, kPage); });
  }
}

bool for_each_region(void (*visit)(const char* begin, const char* end)) {
  constexpr std::uint64_t kMost = 16 << 20;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < g_names->region_count; ++i) bytes += g_names->regions[i].bytes;
  if (bytes > kMost) return false;
  for (std::uint32_t i = 0; i < g_names->region_count; ++i) {
    for_each_touched_page(g_view, g_names->regions[i],
                          [&](std::uint64_t page) { visit(g_view + page, g_view + page + kPage); });
  }
  return true;
}

}  // namespace crashcut::scheduler::runtime
