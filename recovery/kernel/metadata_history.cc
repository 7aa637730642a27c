#include "recovery/kernel/metadata_history.h"

#include <algorithm>
#include <array>

namespace crashcut::kernel {
namespace {

using Bytes = std::span<const std::byte>;
using blocklayer::CrashImages;

bool is_zero(Bytes bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace

Bytes MetadataHistory::base_of(std::uint64_t block) const {
  return base_.subspan(block * run_.block_bytes(), run_.block_bytes());
}

std::map<std::uint64_t, Bytes> MetadataHistory::changed_blocks(const CrashImages::Image& image) const {
  static constexpr std::array<std::byte, blocklayer::kSectorBytesMost> kZeroes{};
  std::map<std::uint64_t, Bytes> blocks;
  for (const CrashImages::Block& block : run_.blocks_of(image))
    blocks[block.offset / run_.block_bytes()] =
        block.bytes.empty() ? Bytes(kZeroes).first(run_.block_bytes()) : block.bytes;
  return blocks;
}

std::optional<MetadataHistory> MetadataHistory::of(const CrashImages& run, Bytes base,
                                                   const std::vector<std::uint64_t>& journal) {
  if (journal.empty() || run.block_bytes() != blocklayer::kSectorBytesMost) return std::nullopt;
  MetadataHistory history(run, base, Journal(journal));
  // The end of the run, with nothing lost.
  const auto end = history.changed_blocks({static_cast<std::uint32_t>(run.moment_count() - 1), {}});
  const auto before = [&](std::uint64_t block) { return history.base_of(block); };
  const auto after = [&](std::uint64_t block) {
    const auto found = end.find(block);
    return found == end.end() ? history.base_of(block) : found->second;
  };
  const auto entries = history.journal_.history(before, after);
  if (!entries) return std::nullopt;
  history.first_ = entries->empty() ? 0 : entries->front().sequence;
  history.last_ = entries->empty() ? 0 : entries->back().sequence;
  for (const Journal::Entry& entry : *entries) {
    if (entry.block != 0) history.entries_[entry.block].push_back(entry);
  }
  return history;
}

bool MetadataHistory::is_of_one_moment(const CrashImages::Image& image) {
  const auto changed = changed_blocks(image);
  const auto read = [&](std::uint64_t block) {
    const auto found = changed.find(block);
    return found == changed.end() ? base_of(block) : found->second;
  };
  const auto replayed = journal_.replay(read);
  if (!replayed) return false;
  // fits[n]: all blocks are what they were after the first n transactions.
  std::vector<bool> fits(last_ - first_ + 2, true);
  for (const auto& [block, entries] : entries_) {
    const auto found = replayed->find(block);
    const Bytes now = found == replayed->end() || found->second.empty() ? read(block) : Bytes(found->second);
    const Bytes base = base_of(block);
    bool fits_now = is_zero(base) || std::ranges::equal(now, base);
    auto next = entries.begin();
    for (std::uint32_t n = 0; n < fits.size(); ++n) {
      for (; next != entries.end() && n > next->sequence - first_; ++next)
        fits_now = !next->bytes || std::ranges::equal(now, *next->bytes);
      if (!fits_now) fits[n] = false;
    }
  }
  return std::find(fits.begin(), fits.end(), true) != fits.end();
}

}  // namespace crashcut::kernel
