#include "recovery/inprocess/memory/heap.h"

#include <algorithm>

namespace crashcut::inprocess {

namespace {

constexpr std::uint64_t kFirstRegionBytes = std::uint64_t{1} << 20;

std::uint64_t align(std::uint64_t address, std::uint64_t alignment) {
  return (address + alignment - 1) / alignment * alignment;
}

}  // namespace

PersistentHeap::PersistentHeap(const PersistentHeap* before) : before_(before) {
  next_ = before->next_;
  end_ = before->end_;
  regions_ = before->regions_;
}

std::uint64_t PersistentHeap::next_region_bytes(std::uint64_t least) const {
  const std::uint64_t doubled = kFirstRegionBytes << std::min<std::uint64_t>(regions_, 10);
  return std::max(doubled, align(least, 4096));
}

void PersistentHeap::begin_region(std::uint64_t begin, std::uint64_t bytes) {
  next_ = begin;
  end_ = begin + bytes;
  ++regions_;
}

bool PersistentHeap::has_room(std::uint64_t size, std::uint64_t alignment) const {
  const std::uint64_t begin = align(next_, alignment);
  return begin <= end_ && size <= end_ - begin;
}

std::uint64_t PersistentHeap::take_free(std::uint64_t size, std::uint64_t alignment) {
  const auto same = freed_.find(size);
  if (same == freed_.end() || same->second.empty() || same->second.back() % alignment != 0) return 0;
  const std::uint64_t block = same->second.back();
  same->second.pop_back();
  blocks_.at(block).is_free = false;
  return block;
}

std::uint64_t PersistentHeap::take_fresh(std::uint64_t size, std::uint64_t alignment) {
  const std::uint64_t block = align(next_, alignment);
  next_ = block + size;
  blocks_.emplace(block, Block{size, false});
  return block;
}

PersistentHeap::Freed PersistentHeap::free(std::uint64_t block) {
  const auto found = blocks_.find(block);
  if (found == blocks_.end()) return bytes_of(block) == 0 ? Freed::kUnknown : Freed::kYes;
  if (found->second.is_free) return Freed::kTwice;
  found->second.is_free = true;
  freed_[found->second.bytes].push_back(block);
  return Freed::kYes;
}

std::uint64_t PersistentHeap::bytes_of(std::uint64_t block) const {
  const auto found = blocks_.find(block);
  if (found != blocks_.end()) return found->second.bytes;
  return before_ == nullptr ? 0 : before_->bytes_of(block);
}

}  // namespace crashcut::inprocess
