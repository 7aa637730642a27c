#include "scheduler/runtime/image.h"

#include <link.h>

#include "inject/arena.h"
#include "inject/snapshot.h"
#include "persist/hash.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/regions.h"
#include "scheduler/runtime/world.h"

namespace crashcut::scheduler::runtime {

namespace {

using inject::AddressRange;

constexpr std::size_t kRangesMost = 256;
constexpr std::size_t kPage = 4096;

inject::Snapshot* g_snapshot = nullptr;
AddressRange g_left_out[5];
std::uint64_t g_stack_pointer = 0;  // of main()'s caller

// What hash_memory() looks at.
AddressRange g_ranges[kRangesMost];
std::size_t g_range_count = 0;
char g_maps[128 * 1024];

// Writes the addresses of our own library to `out`.
int find_own_library(dl_phdr_info* info, std::size_t, void* out) {
  const auto here = reinterpret_cast<std::uint64_t>(&find_own_library);
  AddressRange own{~std::uint64_t{0}, 0};
  bool is_ours = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info->dlpi_phdr[i];
    if (p.p_type != PT_LOAD) continue;
    const std::uint64_t begin = info->dlpi_addr + p.p_vaddr, end = begin + p.p_memsz;
    own.begin = own.begin < begin ? own.begin : begin / kPage * kPage;
    own.end = own.end > end ? own.end : (end + kPage - 1) / kPage * kPage;
    is_ours = is_ours || (here >= begin && here < end);
  }
  if (is_ours) *static_cast<AddressRange*>(out) = own;
  return is_ours ? 1 : 0;
}

bool add_range(const inject::Mapping& m) {
  if (g_range_count == kRangesMost) return false;
  g_ranges[g_range_count++] = {m.is_stack ? g_stack_pointer / 16 * 16 : m.begin, m.end};
  return true;
}

bool list_ranges() {
  g_range_count = 0;
  return inject::for_each_mapping(g_maps, g_left_out, [](const inject::Mapping& m) { return add_range(m); });
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

void prepare_image() {
  dl_iterate_phdr(find_own_library, &g_left_out[0]);
  g_left_out[1] = heap_room();
  g_left_out[2] = stack_room();
  g_left_out[3] = inject::whole_private_arena();
  g_left_out[4] = inject::model_stack();
  g_snapshot = reinterpret_cast<inject::Snapshot*>(inject::map_shared(sizeof(inject::Snapshot)));
}

bool save_image(bool is_restoring) {
  // From our caller's frame up.
  g_stack_pointer = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  if (!list_ranges()) g_range_count = 0;
  if (!is_restoring || g_snapshot == nullptr || !g_snapshot->take(g_left_out)) return false;
  save_heap();
  return true;
}

std::uint64_t hash_memory() {
  constexpr std::size_t kHeapMost = 64 << 20;
  // The program may have mapped memory since the list was made only if it spent its image.
  if (g_range_count == 0 || (g_is_spent && !list_ranges()) || for_each_heap(nullptr) > kHeapMost) return 0;
  g_hash = {{1, 2, 3, 4}};
  for (std::size_t i = 0; i < g_range_count; ++i)
    add(reinterpret_cast<const char*>(g_ranges[i].begin), reinterpret_cast<const char*>(g_ranges[i].end));
  for_each_heap(add);
  if (is_hosted() && !for_each_region(add)) return 0;
  for_each_actor([](const Actor& actor) {
    if (actor.is_helper() || actor.is_over || &actor == &current_actor()) return;
    add(static_cast<const char*>(actor.fiber.stack_pointer), reinterpret_cast<const char*>(actor.memory.stack_top));
  });
  std::uint64_t hash = 0;
  for (const std::uint64_t lane : g_hash.lanes) hash = persist::mix(hash, lane);
  return hash | 1;
}

void restore_image() {
  g_snapshot->restore();
  clear_stacks();
  restore_heap();
}

}  // namespace crashcut::scheduler::runtime
