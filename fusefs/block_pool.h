// BlockPool: memory for blocks, in large pieces that the system zeroes.
//
// A write to a file takes a block each time. If each block came from the heap by itself, it would be zeroed here, and
//   the heap of a thread would grow by a page fault and a system call a block. That was a tenth of the time of a write.
// Invariant: a block that take() returns holds zeros.
// Threads: none of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace crashcut::fusefs {

class BlockPool {
 public:
  explicit BlockPool(std::size_t block_bytes) : block_bytes_(block_bytes) {}

  // A block that goes back to its pool, which outlives it.
  class Block {
   public:
    Block() = default;
    Block(BlockPool& pool, std::byte* data) : pool_(&pool), data_(data) {}
    ~Block() { give_back(); }
    Block(Block&& other) noexcept : pool_(other.pool_), data_(std::exchange(other.data_, nullptr)) {}
    Block& operator=(Block&& other) noexcept {
      if (this != &other) {
        give_back();
        pool_ = other.pool_;
        data_ = std::exchange(other.data_, nullptr);
      }
      return *this;
    }
    std::byte* data() const { return data_; }
    std::size_t size() const { return data_ ? pool_->block_bytes_ : 0; }

   private:
    void give_back() {
      if (data_) pool_->free_.push_back(data_);
      data_ = nullptr;
    }
    BlockPool* pool_ = nullptr;
    std::byte* data_ = nullptr;
  };

  Block take();
  // The bytes of the block may be anything: the caller writes all of them.
  Block take_unclean();

 private:
  struct Free {
    void operator()(std::byte* piece) const;
  };

  std::size_t block_bytes_;
  std::vector<std::unique_ptr<std::byte[], Free>> pieces_;
  std::byte* next_ = nullptr;  // in the last piece
  std::size_t left_ = 0;       // blocks there
  std::size_t piece_blocks_ = 1;
  std::vector<std::byte*> free_;
};

}  // namespace crashcut::fusefs
