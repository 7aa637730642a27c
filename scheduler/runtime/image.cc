#include "scheduler/runtime/image.h"

#include "inject/arena.h"
#include "inject/memory_hash.h"
#include "inject/snapshot.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/regions.h"
#include "scheduler/runtime/world.h"

namespace crashcut::scheduler::runtime {

namespace {

using inject::AddressRange;

constexpr std::size_t kRangesMost = 256;

inject::Snapshot* g_snapshot = nullptr;
AddressRange g_left_out[5];
std::uint64_t g_stack_pointer = 0;  // of main()'s caller

// What hash_memory() looks at.
AddressRange g_ranges[kRangesMost];
std::size_t g_range_count = 0;
char g_maps[128 * 1024];

bool add_range(const inject::Mapping& m) {
  if (g_range_count == kRangesMost) return false;
  g_ranges[g_range_count++] = {m.is_stack ? g_stack_pointer / 16 * 16 : m.begin, m.end};
  return true;
}

bool list_ranges() {
  g_range_count = 0;
  return inject::for_each_mapping(g_maps, g_left_out, [](const inject::Mapping& m) { return add_range(m); });
}

inject::MemoryHash g_hash;

void add(const char* begin, const char* end) {
  g_hash.add(reinterpret_cast<std::uint64_t>(begin), reinterpret_cast<std::uint64_t>(end));
}

}  // namespace

void prepare_image() {
  g_left_out[0] = inject::own_library();
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
  g_hash = {};
  for (std::size_t i = 0; i < g_range_count; ++i) g_hash.add(g_ranges[i].begin, g_ranges[i].end);
  for_each_heap(add);
  if (is_hosted() && !for_each_region(add)) return 0;
  for_each_actor([](const Actor& actor) {
    if (actor.is_helper() || actor.is_over || &actor == &current_actor()) return;
    add(static_cast<const char*>(actor.fiber.stack_pointer), reinterpret_cast<const char*>(actor.memory.stack_top));
  });
  return g_hash.number() | 1;
}

void restore_image() {
  g_snapshot->restore();
  clear_stacks();
  restore_heap();
}

}  // namespace crashcut::scheduler::runtime
