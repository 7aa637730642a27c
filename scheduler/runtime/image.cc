#include "scheduler/runtime/image.h"

#include <link.h>
#include <sys/mman.h>

#include <cstring>

#include "inject/arena.h"
#include "inject/mappings.h"
#include "persist/hash.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/world.h"

namespace crashcut::scheduler::runtime {

namespace {

struct Range {
  std::uint64_t begin, end;
  char* copy;
};
constexpr std::size_t kRangesMost = 128;
constexpr std::size_t kBytesMost = 8 << 20;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kStackBelow = 64 * kPage;  // of main's stack, cleared

Range g_ranges[kRangesMost];
std::size_t g_range_count = 0;
std::uint64_t g_stack_pointer = 0;
char g_maps[128 * 1024];

// Our own module's mappings: what the runtime remembers is not to be forgotten.
struct Own {
  std::uint64_t begin = ~std::uint64_t{0}, end = 0;
};
int find_own(dl_phdr_info* info, std::size_t, void* out) {
  const auto here = reinterpret_cast<std::uint64_t>(&find_own);
  Own own;
  bool is_ours = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info->dlpi_phdr[i];
    if (p.p_type != PT_LOAD) continue;
    const std::uint64_t begin = info->dlpi_addr + p.p_vaddr, end = begin + p.p_memsz;
    own.begin = own.begin < begin ? own.begin : begin / kPage * kPage;
    own.end = own.end > end ? own.end : (end + kPage - 1) / kPage * kPage;
    is_ours = is_ours || (here >= begin && here < end);
  }
  if (is_ours) *static_cast<Own*>(out) = own;
  return is_ours ? 1 : 0;
}

bool add_range(std::uint64_t begin, std::uint64_t end) {
  if (g_range_count == kRangesMost) return false;
  g_ranges[g_range_count++] = {begin, end, nullptr};
  return true;
}

bool add_mapping(const inject::Mapping& m, const Own& own) {
  const std::uint64_t begin = m.begin, end = m.end;
  if (is_heap_room(begin) || is_stack_room(begin) || inject::is_own_memory(reinterpret_cast<void*>(begin))) return true;
  if (begin < own.end && end > own.begin) {
    // The runtime's data may share a mapping with nobody but itself.
    return (begin >= own.begin || add_range(begin, own.begin)) && (end <= own.end || add_range(own.end, end));
  }
  if (m.is_stack) return add_range(g_stack_pointer / 16 * 16, end);
  return add_range(begin, end);
}

bool copy_ranges() {
  std::size_t total = 0;
  for (std::size_t i = 0; i < g_range_count; ++i) total += g_ranges[i].end - g_ranges[i].begin;
  if (total > kBytesMost) return false;
  auto* to = reinterpret_cast<char*>(inject::map_private(total));
  if (to == nullptr) return false;
  for (std::size_t i = 0; i < g_range_count; ++i) {
    Range& r = g_ranges[i];
    r.copy = to;
    std::memcpy(to, reinterpret_cast<void*>(r.begin), r.end - r.begin);
    to += r.end - r.begin;
  }
  return true;
}

bool list_ranges() {
  Own own;
  dl_iterate_phdr(find_own, &own);
  if (own.end == 0) return false;
  g_range_count = 0;
  return inject::for_each_mapping(g_maps, [&](const inject::Mapping& m) { return add_mapping(m, own); });
}

struct Hash {
  std::uint64_t lanes[4];
};
Hash g_hash;

void add(const char* begin, const char* end) {
  Hash hash = g_hash;  // in registers
  const auto* at = reinterpret_cast<const std::uint64_t*>(begin);
  const auto* last = reinterpret_cast<const std::uint64_t*>(end);
  for (; at + 4 <= last; at += 4) {
    for (int i = 0; i < 4; ++i) hash.lanes[i] = persist::mix(hash.lanes[i], at[i]);
  }
  for (; at < last; ++at) hash.lanes[0] = persist::mix(hash.lanes[0], *at);
  g_hash = hash;
}

}  // namespace

bool save_image() {
  // From our caller's frame up.
  g_stack_pointer = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  if (!list_ranges() || !copy_ranges()) return false;
  save_heap();
  return true;
}

std::uint64_t hash_memory() {
  constexpr std::size_t kHeapMost = 64 << 20;
  // What was mapped since is found in a list made anew; then this process does not go back to its image.
  if (g_range_count == 0 || (g_is_spent && !list_ranges()) || for_each_heap(nullptr) > kHeapMost) return 0;
  g_hash = {{1, 2, 3, 4}};
  for (std::size_t i = 0; i < g_range_count; ++i)
    add(reinterpret_cast<const char*>(g_ranges[i].begin), reinterpret_cast<const char*>(g_ranges[i].end));
  for_each_heap(add);
  for_each_actor([](const Actor& actor) {
    if (actor.is_helper() || actor.is_over || &actor == &current_actor()) return;
    add(static_cast<const char*>(actor.fiber.stack_pointer), reinterpret_cast<const char*>(actor.memory.stack_top));
  });
  std::uint64_t hash = 0;
  for (const std::uint64_t lane : g_hash.lanes) hash = persist::mix(hash, lane);
  return hash | 1;
}

void restore_image() {
  for (std::size_t i = 0; i < g_range_count; ++i) {
    const Range& r = g_ranges[i];
    std::memcpy(reinterpret_cast<void*>(r.begin), r.copy, r.end - r.begin);
  }
  // What main left below: an uninitialised variable must not see it.
  const std::uint64_t top = g_stack_pointer / kPage * kPage;
  unsigned char resident[kStackBelow / kPage];
  if (kernel(SYS_mincore, top - kStackBelow, kStackBelow, resident) == 0) {
    for (std::size_t i = 0; i < sizeof resident; ++i) {
      if ((resident[i] & 1) != 0) std::memset(reinterpret_cast<void*>(top - kStackBelow + i * kPage), 0, kPage);
    }
  }
  std::memset(reinterpret_cast<void*>(top), 0, g_stack_pointer / 16 * 16 - top);
  clear_stacks();
  restore_heap();
}

}  // namespace crashcut::scheduler::runtime
