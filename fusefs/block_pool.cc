#include "fusefs/block_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace crashcut::fusefs {

// Inside a program under test the heap is the program's: the model's memory comes from where all of it does.
#ifdef CRASHCUT_INJECTED
static std::byte* allocate_zeroed(std::size_t bytes) {
  auto* piece = static_cast<std::byte*>(::operator new(bytes));
  std::memset(piece, 0, bytes);
  return piece;
}
void BlockPool::Free::operator()(std::byte* piece) const { ::operator delete(piece); }
#else
static std::byte* allocate_zeroed(std::size_t bytes) { return static_cast<std::byte*>(std::calloc(1, bytes)); }
void BlockPool::Free::operator()(std::byte* piece) const { std::free(piece); }
#endif

BlockPool::Block BlockPool::take() {
  const bool is_used = !free_.empty();
  Block block = take_unclean();
  if (is_used) std::memset(block.data(), 0, block_bytes_);
  return block;
}

BlockPool::Block BlockPool::take_unclean() {
  if (!free_.empty()) {
    std::byte* const block = free_.back();
    free_.pop_back();
    return Block(*this, block);
  }
  if (left_ == 0) {
    // Small at first: most filesystems that recover from a crash hold a few blocks.
    constexpr std::size_t kPieceBytesMax = std::size_t{4} << 20;
    constexpr std::size_t kHugePage = std::size_t{2} << 20;
    const std::size_t most = std::max<std::size_t>(1, kPieceBytesMax / block_bytes_);
    piece_blocks_ = std::min(most, piece_blocks_ * 2);
    const std::size_t bytes = piece_blocks_ * block_bytes_;
    auto* const piece = allocate_zeroed(bytes);
    if (!piece) throw std::bad_alloc();
    if (bytes >= 2 * kHugePage) {
      const auto begin = (reinterpret_cast<std::uintptr_t>(piece) + kHugePage - 1) / kHugePage * kHugePage;
      const auto end = (reinterpret_cast<std::uintptr_t>(piece) + bytes) / kHugePage * kHugePage;
      madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // one page fault for many blocks
    }
    pieces_.emplace_back(piece);
    next_ = piece;
    left_ = piece_blocks_;
  }
  --left_;
  return Block(*this, std::exchange(next_, next_ + block_bytes_));
}

}  // namespace crashcut::fusefs
