// BlockRanges: a set of block numbers, kept as ranges.
//
// fallocate() takes a gibibyte in one call. As ranges it costs one entry, as single blocks 262,144.
// Invariant: ranges are not empty, do not overlap and do not touch.
// (boost::icl::interval_set does the same and costs each file that includes it 1.3 s of compiling.)
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>

namespace crashcut::fusefs {

class BlockRanges {
 public:
  bool contains(std::uint64_t block) const { return count(block, block + 1) == 1; }

  // How many blocks of [first, end) are in the set.
  std::uint64_t count(std::uint64_t first, std::uint64_t end) const {
    std::uint64_t found = 0;
    for (auto at = first_ending_after(first); at != ends_.end() && at->first < end; ++at) {
      found += std::min(end, at->second) - std::max(first, at->first);
    }
    return found;
  }
  std::uint64_t size() const { return count(0, ~std::uint64_t{0}); }

  void add(std::uint64_t first, std::uint64_t end) {
    if (first >= end) return;
    auto at = first_ending_after(first == 0 ? 0 : first - 1);  // a range that only touches is merged as well
    while (at != ends_.end() && at->first <= end) {
      first = std::min(first, at->first);
      end = std::max(end, at->second);
      at = ends_.erase(at);
    }
    ends_.emplace(first, end);
  }

  void add(const BlockRanges& other) {
    for (const auto& [first, end] : other.ends_) add(first, end);
  }

  void remove(std::uint64_t first, std::uint64_t end) {
    for (auto at = first_ending_after(first); at != ends_.end() && at->first < end;) {
      const auto [begin, stop] = *at;
      at = ends_.erase(at);
      if (begin < first) ends_.emplace(begin, first);
      if (stop > end) ends_.emplace(end, stop);
    }
  }

  // Moves the blocks from `first` on. With a negative shift the blocks that they move over are not in the set.
  void shift(std::uint64_t first, std::int64_t shift) {
    BlockRanges moved;
    for (auto at = first_ending_after(first); at != ends_.end(); ++at) {
      moved.ends_.emplace(std::max(first, at->first) + shift, at->second + shift);
    }
    remove(first, ~std::uint64_t{0});
    add(moved);
  }

 private:
  std::map<std::uint64_t, std::uint64_t>::const_iterator first_ending_after(std::uint64_t block) const {
    auto at = ends_.upper_bound(block);
    return at != ends_.begin() && std::prev(at)->second > block ? std::prev(at) : at;
  }

  std::map<std::uint64_t, std::uint64_t> ends_;  // by their first block
};

}  // namespace crashcut::fusefs
