// PersistentHeap: which bytes of persistent memory malloc() has given to the program (crashcut pmem --malloc).
//
// What is allocated where is kept outside of persistent memory, and no crash loses it: the heap of a recovery knows
//   every block that the executions before it ever had, freed or not, and how long it is. All of these stay as they
//   are: a recovery gets memory that nobody had before, all zero. It may free or grow a block from before the crash;
//   that memory is not used again. (May miss bugs: a block that main() freed, and that recovery finds still in use,
//   would be given out again by an allocator that remembers.)
// Within one execution freed blocks are used again, for the same size, the last one first.
// Blocks lie one behind the other on boundaries of 16 bytes, without anything in between, so small ones share cache
//   lines. The heap is one region, "heap"; when it is full another one is added, "heap 2", twice as large.
// Threads: the model's lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace crashcut::inprocess {

class PersistentHeap {
 public:
  PersistentHeap() = default;
  // After a crash. `before` outlives this.
  explicit PersistentHeap(const PersistentHeap* before);

  // `alignment` is a power of two. add_region(name, bytes) makes a region and returns where it is.
  template <class AddRegion>
  std::uint64_t allocate(std::uint64_t bytes, std::uint64_t alignment, const AddRegion& add_region) {
    const std::uint64_t size = size_of_block(bytes);
    if (const std::uint64_t again = take_free(size, alignment); again != 0) return again;
    if (!has_room(size, alignment)) {
      const std::uint64_t region_bytes = next_region_bytes(size + alignment);
      const std::string name = regions_ == 0 ? "heap" : "heap " + std::to_string(regions_ + 1);
      begin_region(add_region(name, region_bytes), region_bytes);
    }
    return take_fresh(size, alignment);
  }
  enum class Freed { kYes, kTwice, kUnknown };
  Freed free(std::uint64_t block);
  // 0: there is no such block.
  std::uint64_t bytes_of(std::uint64_t block) const;

 private:
  struct Block {
    std::uint64_t bytes;
    bool is_free;
  };
  static std::uint64_t size_of_block(std::uint64_t bytes) { return bytes < 16 ? 16 : (bytes + 15) / 16 * 16; }
  std::uint64_t next_region_bytes(std::uint64_t least) const;
  void begin_region(std::uint64_t begin, std::uint64_t bytes);
  bool has_room(std::uint64_t size, std::uint64_t alignment) const;
  std::uint64_t take_free(std::uint64_t size, std::uint64_t alignment);
  std::uint64_t take_fresh(std::uint64_t size, std::uint64_t alignment);

  const PersistentHeap* before_ = nullptr;
  std::uint64_t next_ = 0, end_ = 0;  // what is left of the last region
  std::uint64_t regions_ = 0;
  std::map<std::uint64_t, Block> blocks_;                      // of this execution, by address
  std::map<std::uint64_t, std::vector<std::uint64_t>> freed_;  // by size
};

}  // namespace crashcut::inprocess
