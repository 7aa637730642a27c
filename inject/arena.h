// Arena: the runtime's own heap, apart from the program's.
//
// When the runtime needs memory, the program's heap may be locked, corrupt or of another allocator. So operator new and
//   delete of the runtime (hidden symbols) allocate here. While main() runs the arena is shared memory: the coordinator
//   and all recoveries read the recording in it. Recoveries allocate from a private one.
// Small blocks have a free list for each size. Large blocks are pages. When they are released they go back to the
//   system, and their addresses are not used again; or they are kept for other large blocks (keep_released()).
// Threads: the model's lock.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "inject/mappings.h"

namespace crashcut::inject {

// Blocks of a heap have one of these sizes: four to a power of two.
struct SizeClass {
  int index;
  std::size_t bytes;
};
inline constexpr int kSizeClasses = 48;
inline constexpr SizeClass size_class_of(std::size_t bytes) {
  if (bytes <= 64) return {static_cast<int>((bytes + 15) / 16), (bytes + 15) / 16 * 16};
  const int power = std::bit_width(bytes - 1) - 1;  // 2^power < bytes <= 2^(power + 1)
  const std::size_t step = std::size_t{1} << (power - 2);
  const std::size_t steps = (bytes - (std::size_t{1} << power) + step - 1) / step;
  return {(power - 6) * 4 + 4 + static_cast<int>(steps), (std::size_t{1} << power) + steps * step};
}

class Arena {
 public:
  // At most `bytes_most` of the range are in use at a time. `advice` gives pages back (madvise).
  void set_range(void* begin, std::size_t range_bytes, std::size_t bytes_most, int advice);
  // Before anything is allocated.
  void set_bytes_most(std::size_t bytes_most) { left_ = bytes_most; }
  // From now on large blocks that are released are kept, until give_back(). A recording grows a dozen arrays by copying
  // each to a block of twice the size, and fresh pages cost more than the copies.
  void keep_released() { advice_ = kKept; }
  // Gives back the pages of blocks that were kept. `advice` as in set_range().
  void give_back(int advice);
  // Null when nothing is left.
  void* allocate(std::size_t bytes);
  void release(void* block, std::size_t bytes);
  bool contains(const void* p) const { return p >= begin_ && p < end_; }
  char* begin() const { return begin_; }
  char* end() const { return end_; }
  std::size_t used_bytes() const { return static_cast<std::size_t>(top_ - begin_); }

 private:
  static constexpr int kKept = -1;  // instead of an advice

  void* take_kept(std::size_t bytes);

  char* begin_ = nullptr;
  char* top_ = nullptr;
  char* end_ = nullptr;
  std::size_t left_ = 0;
  int advice_ = 0;
  void* free_[kSizeClasses] = {};  // the last one: large blocks that were kept
};

// A page before each of our mappings that nobody may touch: a buffer overrun of the program does not reach the mapping.
inline constexpr std::size_t kGuardBytes = 4096;

// Memory of our own; null where the system refuses. A file is mapped shared, with a guard before it, and closed.
std::byte* map_private(std::size_t bytes);
std::byte* map_shared(std::size_t bytes);  // with children
std::byte* map_file(int fd, std::size_t bytes);

// The stack that models run on, where it is not the program's.
struct Stack {
  std::byte* begin;
  std::byte* top;
};
extern Stack g_model_stack;

// Maps both arenas, and the stack; false where the system refuses. The shared arena is active.
bool map_arenas();
// How much each may hold at a time.
void limit_arenas(std::size_t bytes_most);
Arena& private_arena();
Arena& shared_arena();
// For an execution that records much: from now on the shared arena is private memory in this process, at the same
// addresses, in huge pages where the system has them. Shared memory costs a page fault for each 4 KiB, several times
// what it costs to record into them. publish_arena() puts all of it into the shared memory; nothing may be allocated
// afterwards.
void record_privately();
void publish_arena();
// What is no part of the program's image. Whole pages.
AddressRange unused_private_arena();
AddressRange whole_private_arena();
AddressRange model_stack();
// From now on new blocks are of that arena. Blocks of others are not taken back.
void use_arena(Arena& arena);
// From now on: private memory, and the shared arena is read-only.
void use_private_arena();

}  // namespace crashcut::inject
