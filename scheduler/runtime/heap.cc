// The heap of the program under test: malloc and its kin, one region an actor.
//
// Addresses depend on what an actor itself allocated and freed, not on the schedule, so that objects in the heap have
//   the same names in all executions. What another actor frees is not used again. Fresh memory is zero.
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cstring>

#include "inject/arena.h"
#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/meetings.h"

namespace crashcut::scheduler::runtime {

namespace {

constexpr std::uint64_t kHeapsAt = 0x120000000000;
constexpr std::size_t kHeapBytes = std::size_t{4} << 30;
constexpr std::size_t kHeaderBytes = 16;
constexpr std::size_t kPage = 4096;

struct Block {
  std::uint64_t bytes;  // that the program may use
  std::uint32_t owner;
  std::uint16_t size_class;  // kNever: not used again
  std::uint16_t mark;
};
constexpr std::uint16_t kNever = 0xffff;
enum Mark : std::uint16_t { kInUse = 0xa110, kFreed = 0xf7ee };

struct Heap {
  char* top = nullptr;
  void* free[inject::kSizeClasses] = {};
};
Heap g_heaps[kActorsMost];
std::uint32_t g_actor = 0;
std::uint32_t g_heaps_used = 0;
bool g_is_mapped[kActorsMost];

// What restore_heap() goes back to: the server's own allocations, all of actor 0.
Heap g_saved;
char* g_saved_bytes = nullptr;

char* begin_of(std::uint32_t actor) { return reinterpret_cast<char*>(kHeapsAt + kHeapBytes * actor); }

bool map_heap(std::uint32_t actor) {
  const long at = kernel(SYS_mmap, begin_of(actor), kHeapBytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at != reinterpret_cast<long>(begin_of(actor))) return false;
  g_is_mapped[actor] = true;
  if (actor >= g_heaps_used) g_heaps_used = actor + 1;
  return true;
}

Block* header_of(void* p) { return reinterpret_cast<Block*>(static_cast<char*>(p) - kHeaderBytes); }

void* allocate(std::size_t bytes, std::size_t alignment) {
  const std::uint32_t actor = g_actor;
  Heap& heap = g_heaps[actor];
  if (!g_is_mapped[actor] && !map_heap(actor)) return nullptr;
  if (heap.top == nullptr) heap.top = begin_of(actor);
  const auto [index, rounded] = inject::size_class_of(bytes == 0 ? 1 : bytes);
  const bool is_reused = index < inject::kSizeClasses && alignment <= 16;
  const std::uint16_t size_class = is_reused ? static_cast<std::uint16_t>(index) : kNever;
  if (size_class != kNever && heap.free[size_class] != nullptr) {
    void* block = heap.free[size_class];
    heap.free[size_class] = *static_cast<void**>(block);
    header_of(block)->mark = kInUse;
    forget_touches(reinterpret_cast<std::uint64_t>(block), rounded);
    return block;
  }
  auto at = reinterpret_cast<std::uint64_t>(heap.top) + kHeaderBytes;
  at = (at + alignment - 1) / alignment * alignment;
  if (rounded > kHeapBytes || at + rounded > kHeapsAt + kHeapBytes * (actor + 1)) return nullptr;
  heap.top = reinterpret_cast<char*>(at + rounded);
  auto* header = reinterpret_cast<Block*>(at - kHeaderBytes);
  *header = {rounded, actor, size_class, kInUse};
  return reinterpret_cast<void*>(at);
}

[[noreturn]] void fail_to_free(std::int64_t misuse, const void* caller) {
  if (!is_executing()) abort();
  fail(Failure::kMisuse, misuse, misuse_text(misuse), caller);
}

// What may be given back: malloc() gave it, so its mark is in front of it.
Block* block_in_use(void* p, const void* caller) {
  const auto address = reinterpret_cast<std::uint64_t>(p);
  if (!is_heap_room(address) || address % 16 != 0) fail_to_free(kFreeOfOther, caller);
  const Heap& heap = g_heaps[(address - kHeapsAt) / kHeapBytes];
  if (heap.top == nullptr || p >= heap.top) fail_to_free(kFreeOfOther, caller);
  Block* header = header_of(p);
  if (header->mark == kFreed) fail_to_free(kFreeTwice, caller);
  if (header->mark != kInUse) fail_to_free(kFreeOfOther, caller);
  return header;
}

void release(void* p, const void* caller) {
  if (p == nullptr) return;
  note_freed(reinterpret_cast<std::uint64_t>(p), block_in_use(p, caller)->bytes, caller);
  Block* header = block_in_use(p, caller);  // others may have run meanwhile
  note_end_of_memory(reinterpret_cast<std::uint64_t>(p), header->bytes);
  header->mark = kFreed;
  if (header->size_class == kNever || header->owner != g_actor) return;
  Heap& heap = g_heaps[g_actor];
  *static_cast<void**>(p) = heap.free[header->size_class];
  heap.free[header->size_class] = p;
}

}  // namespace

inject::AddressRange heap_room() { return {kHeapsAt, kHeapsAt + kHeapBytes * kActorsMost}; }

bool is_heap_room(std::uint64_t address) { return address >= heap_room().begin && address < heap_room().end; }

std::size_t for_each_heap(void (*visit)(const char* begin, const char* end)) {
  std::size_t bytes = 0;
  for (std::uint32_t actor = 0; actor < g_heaps_used; ++actor) {
    if (g_heaps[actor].top == nullptr) continue;
    bytes += static_cast<std::size_t>(g_heaps[actor].top - begin_of(actor));
    if (visit != nullptr) visit(begin_of(actor), g_heaps[actor].top);
  }
  return bytes;
}

void set_heap_actor(std::uint32_t actor) { g_actor = actor; }

void save_heap() {
  g_saved = g_heaps[0];
  if (g_saved.top == nullptr) return;
  const auto bytes = static_cast<std::size_t>(g_saved.top - begin_of(0));
  g_saved_bytes = reinterpret_cast<char*>(inject::map_private(bytes + 1));
  if (g_saved_bytes == nullptr) return;
  std::memcpy(g_saved_bytes, begin_of(0), bytes);
}

void restore_heap() {
  constexpr std::size_t kMuch = 1 << 18;
  for (std::uint32_t actor = 0; actor < g_heaps_used; ++actor) {
    Heap& heap = g_heaps[actor];
    if (heap.top == nullptr) continue;
    char* keep = actor == 0 && g_saved.top != nullptr ? g_saved.top : begin_of(actor);
    const auto used = static_cast<std::size_t>(heap.top - keep);
    if (used > kMuch) {
      char* page = reinterpret_cast<char*>((reinterpret_cast<std::uint64_t>(keep) + kPage - 1) / kPage * kPage);
      std::memset(keep, 0, static_cast<std::size_t>(page - keep));
      kernel(SYS_madvise, page, static_cast<std::size_t>(heap.top - page) + kPage, MADV_DONTNEED);
    } else {
      std::memset(keep, 0, used);
    }
    heap = actor == 0 ? g_saved : Heap{};
  }
  if (g_saved_bytes != nullptr)
    std::memcpy(begin_of(0), g_saved_bytes, static_cast<std::size_t>(g_saved.top - begin_of(0)));
  g_actor = 0;
}

}  // namespace crashcut::scheduler::runtime

using namespace crashcut::scheduler::runtime;

EXPORT(void*, malloc)(std::size_t bytes) {
  void* p = allocate(bytes, 16);
  if (p == nullptr) errno = ENOMEM;
  return p;
}
EXPORT(void, free)(void* p) { release(p, CALLER); }
EXPORT(void*, calloc)(std::size_t count, std::size_t bytes) {
  std::size_t total = 0;
  if (__builtin_mul_overflow(count, bytes, &total)) return errno = ENOMEM, nullptr;
  void* p = malloc(total);
  if (p != nullptr) std::memset(p, 0, total);
  return p;
}
EXPORT(void*, realloc)(void* p, std::size_t bytes) {
  if (p == nullptr) return malloc(bytes);
  if (bytes == 0) return release(p, CALLER), nullptr;
  const std::size_t old = block_in_use(p, CALLER)->bytes;
  if (bytes <= old) return p;
  void* grown = malloc(bytes);
  if (grown == nullptr) return nullptr;
  std::memcpy(grown, p, old);
  release(p, CALLER);
  return grown;
}
static void* allocate_aligned(std::size_t alignment, std::size_t bytes) {
  return allocate(bytes, alignment < 16 ? 16 : alignment);
}
EXPORT(void*, memalign)(std::size_t alignment, std::size_t bytes) { return allocate_aligned(alignment, bytes); }
EXPORT(void*, aligned_alloc)(std::size_t alignment, std::size_t bytes) { return allocate_aligned(alignment, bytes); }
EXPORT(int, posix_memalign)(void** out, std::size_t alignment, std::size_t bytes) {
  if (alignment < sizeof(void*) || (alignment & (alignment - 1)) != 0) return EINVAL;
  *out = allocate_aligned(alignment, bytes);
  return *out == nullptr ? ENOMEM : 0;
}
EXPORT(void*, valloc)(std::size_t bytes) { return allocate_aligned(4096, bytes); }
EXPORT(void*, pvalloc)(std::size_t bytes) { return allocate_aligned(4096, (bytes + 4095) / 4096 * 4096); }
EXPORT(std::size_t, malloc_usable_size)(void* p) { return p == nullptr ? 0 : header_of(p)->bytes; }
EXPORT(void, cfree)(void* p) { release(p, CALLER); }
