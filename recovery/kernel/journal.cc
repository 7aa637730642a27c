#include "recovery/kernel/journal.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace crashcut::kernel {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kBlockBytes = 4096;
constexpr std::uint32_t kMagic = 0xc03b3998;
enum BlockType : std::uint32_t { kDescriptor = 1, kCommit = 2, kSuperblock = 4, kRevoke = 5 };
enum Feature : std::uint32_t { kRevokes = 1, k64Bit = 2, kSums3 = 0x10 };
enum TagFlag : std::uint32_t { kEscaped = 1, kSameUuid = 2, kDeleted = 4, kLastTag = 8 };
constexpr std::size_t kHeaderBytes = 12, kUuidBytes = 16, kTailBytes = 4;
// Of the journal's superblock.
constexpr std::size_t kAtLength = 0x10, kAtFirst = 0x14, kAtSequence = 0x18, kAtStart = 0x1c, kAtError = 0x20;
constexpr std::size_t kAtIncompatible = 0x28, kAtUuid = 0x30, kAtHead = 0x58;
// Of ext4's: in the first block, behind 1024 bytes.
constexpr std::size_t kAtNeedsRecovery = 1024 + 0x60;
constexpr std::byte kNeedsRecovery{0x04};

std::uint32_t number_at(Bytes bytes, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(bytes[at + i]); };
  return byte(0) << 24 | byte(1) << 16 | byte(2) << 8 | byte(3);
}

constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ ((value & 1) != 0 ? 0x82f63b78u : 0u);
    table[i] = value;
  }
  return table;
}();

// CRC-32C without the final inversion, as the kernel's crc32c().
std::uint32_t crc32c(std::uint32_t sum, Bytes bytes) {
  for (const std::byte byte : bytes) sum = sum >> 8 ^ kCrcTable[(sum ^ static_cast<std::uint32_t>(byte)) & 0xff];
  return sum;
}

// Of a block whose sum stands at `at` and counts as zeroes.
std::uint32_t sum_around(std::uint32_t seed, Bytes block, std::size_t at) {
  constexpr std::array<std::byte, 4> kZeroes{};
  return crc32c(crc32c(crc32c(seed, block.first(at)), kZeroes), block.subspan(at + 4));
}

}  // namespace

// One walk over the log.
struct Journal::Scan {
  Journal& journal;
  const Reader& read;
  std::uint32_t features = 0, seed = 0, first = 0, length = 0;
  std::uint32_t at = 0, sequence = 0;  // the next block, and the transaction that it must belong to
  bool is_understood = true;
  struct Write {
    std::uint64_t block;
    Bytes bytes;
    std::uint32_t sequence;
    bool is_escaped;
  };
  std::vector<Write> writes{}, open{};  // of committed transactions, and of the one that is being read
  std::unordered_map<std::uint64_t, std::uint32_t> revoked{}, open_revoked{};
  std::vector<std::pair<std::uint64_t, std::uint32_t>> all_revoked{};  // of committed transactions

  bool has(Feature feature) const { return (features & feature) != 0; }

  Bytes next() {
    const Bytes bytes = read(journal.blocks_[at]);
    if (++at >= length) at = first;
    return bytes;
  }

  void run() {
    // A log that fills the journal ends after one round.
    for (std::uint32_t count = 0; count < length && is_understood; ++count) {
      const Bytes block = next();
      if (number_at(block, 0) != kMagic || number_at(block, 8) != sequence) return;
      switch (number_at(block, 4)) {
        case kDescriptor:
          read_descriptor(block);
          break;
        case kRevoke:
          read_revoke(block);
          break;
        case kCommit:
          read_commit(block);
          break;
        default:
          return;
      }
    }
  }

  void read_descriptor(Bytes block) {
    if (has(kSums3) && !journal.is_sum_right(seed, block, kBlockBytes - kTailBytes)) is_understood = false;
    const std::size_t tag_bytes = has(kSums3) ? 16 : has(k64Bit) ? 12 : 8;
    const std::size_t end = kBlockBytes - (has(kSums3) ? kTailBytes : 0);
    for (std::size_t tag = kHeaderBytes; is_understood && tag + tag_bytes <= end;) {
      const std::uint32_t flags = has(kSums3) ? number_at(block, tag + 4) : number_at(block, tag + 4) & 0xffff;
      std::uint64_t number = number_at(block, tag);
      if (has(k64Bit)) number |= std::uint64_t{number_at(block, tag + 8)} << 32;
      const Bytes bytes = next();
      if (has(kSums3) && !is_tag_right(bytes, number_at(block, tag + 12))) is_understood = false;
      if ((flags & kDeleted) != 0) is_understood = false;
      open.push_back({number, bytes, sequence, (flags & kEscaped) != 0});
      tag += tag_bytes + ((flags & kSameUuid) != 0 ? 0 : kUuidBytes);
      if ((flags & kLastTag) != 0) return;
    }
  }

  bool is_tag_right(Bytes bytes, std::uint32_t sum) {
    const std::array<std::byte, 4> id{static_cast<std::byte>(sequence >> 24), static_cast<std::byte>(sequence >> 16),
                                      static_cast<std::byte>(sequence >> 8), static_cast<std::byte>(sequence)};
    return journal.sum_of(crc32c(seed, id), bytes) == sum;
  }

  void read_revoke(Bytes block) {
    if (has(kSums3) && !journal.is_sum_right(seed, block, kBlockBytes - kTailBytes)) is_understood = false;
    const std::size_t bytes = has(k64Bit) ? 8 : 4;
    const std::size_t end = std::min<std::size_t>(number_at(block, kHeaderBytes), kBlockBytes);
    for (std::size_t record = kHeaderBytes + 4; record + bytes <= end; record += bytes) {
      std::uint64_t number = number_at(block, record);
      if (has(k64Bit)) number = number << 32 | number_at(block, record + 4);
      open_revoked[number] = sequence;
    }
  }

  void read_commit(Bytes block) {
    constexpr std::size_t kAtSum = 16;
    if (has(kSums3) && !journal.is_sum_right(seed, block, kAtSum)) is_understood = false;
    writes.insert(writes.end(), open.begin(), open.end());
    for (const auto& [number, when] : open_revoked) revoked[number] = when;
    all_revoked.insert(all_revoked.end(), open_revoked.begin(), open_revoked.end());
    open.clear();
    open_revoked.clear();
    ++sequence;
  }

  static std::vector<std::byte> bytes_of(const Write& write) {
    std::vector<std::byte> bytes(write.bytes.begin(), write.bytes.end());
    constexpr unsigned char kMagicBytes[] = {0xc0, 0x3b, 0x39, 0x98};
    if (write.is_escaped) std::memcpy(bytes.data(), kMagicBytes, sizeof kMagicBytes);
    return bytes;
  }

  // A revoked block is not written by the transaction that revokes it, nor by those before.
  void apply_to(Blocks& blocks) const {
    for (const Write& write : writes) {
      const auto found = revoked.find(write.block);
      if (found != revoked.end() && static_cast<std::int32_t>(write.sequence - found->second) <= 0) continue;
      blocks[write.block] = bytes_of(write);
    }
  }
};

std::uint32_t Journal::sum_of(std::uint32_t start, std::span<const std::byte> bytes) {
  const auto [found, is_new] = known_sums_.try_emplace(bytes.data());
  if (is_new || found->second.first != start) found->second = {start, crc32c(start, bytes)};
  return found->second.second;
}

bool Journal::is_sum_right(std::uint32_t seed, std::span<const std::byte> block, std::size_t at) {
  const auto [found, is_new] = known_own_sums_.try_emplace(block.data());
  if (is_new || found->second.first != seed) found->second = {seed, sum_around(seed, block, at)};
  return found->second.second == number_at(block, at);
}

// What the superblock says. None: not understood.
std::optional<Journal::Scan> Journal::begin_scan(const Reader& read) {
  const Bytes superblock = read(blocks_.front());
  if (number_at(superblock, 0) != kMagic || number_at(superblock, 4) != kSuperblock) return std::nullopt;
  Scan scan{.journal = *this, .read = read};
  scan.features = number_at(superblock, kAtIncompatible);
  scan.length = number_at(superblock, kAtLength);
  scan.first = number_at(superblock, kAtFirst);
  scan.at = number_at(superblock, kAtStart);
  scan.sequence = number_at(superblock, kAtSequence);
  if ((scan.features & ~(kRevokes | k64Bit | kSums3)) != 0 || number_at(superblock, kAtError) != 0) return std::nullopt;
  if (scan.length > blocks_.size() || scan.first == 0 || scan.first >= scan.length || scan.at >= scan.length)
    return std::nullopt;
  scan.seed = crc32c(~0u, superblock.subspan(kAtUuid, kUuidBytes));
  return scan;
}

std::optional<Journal::Blocks> Journal::replay(const Reader& read) {
  auto scan = begin_scan(read);
  if (!scan) return std::nullopt;
  const bool is_needed = (read(0)[kAtNeedsRecovery] & kNeedsRecovery) != std::byte{0};
  Blocks blocks{{blocks_.front(), {}}};
  if (!is_needed || scan->at == 0) return blocks;
  // The superblock's own sum covers its 1024 bytes.
  constexpr std::size_t kAtSum = 0xfc;
  if (scan->has(kSums3) && !is_sum_right(~0u, read(blocks_.front()).first(1024), kAtSum)) return std::nullopt;
  scan->run();
  if (!scan->is_understood) return std::nullopt;
  scan->apply_to(blocks);
  return blocks;
}

// jbd2_journal_recover(), journal_reset(): an empty journal goes on where it ended, one transaction later.
std::optional<std::vector<Journal::Entry>> Journal::history(const Reader& before, const Reader& after) {
  auto scan = begin_scan(after);
  const auto begin = begin_scan(before);
  if (!scan || !begin || begin->at != 0) return std::nullopt;
  const std::uint32_t head = number_at(before(blocks_.front()), kAtHead);
  scan->sequence = begin->sequence + 1;
  const auto begins_at = [&](std::uint32_t at) {
    return at >= scan->first && at < scan->length && number_at(after(blocks_[at]), 0) == kMagic &&
           number_at(after(blocks_[at]), 8) == scan->sequence;
  };
  const std::uint32_t start = begins_at(head) ? head : scan->first;
  scan->at = start;
  scan->run();
  const bool is_empty = scan->sequence == begin->sequence + 1;
  if (!scan->is_understood || is_empty || scan->at < start) return std::nullopt;
  std::vector<Entry> entries;
  auto revoked = scan->all_revoked.begin();
  const auto add_revoked = [&](std::uint64_t before_sequence) {
    for (; revoked != scan->all_revoked.end() && revoked->second < before_sequence; ++revoked)
      entries.push_back({revoked->first, revoked->second, std::nullopt});
  };
  for (const Scan::Write& write : scan->writes) {
    add_revoked(write.sequence);
    entries.push_back({write.block, write.sequence, Scan::bytes_of(write)});
  }
  add_revoked(~std::uint64_t{0});
  return entries;
}

decltype(blocklayer::ImageBase::replay) replay_of(const std::vector<std::uint64_t>& journal,
                                                  std::uint32_t block_bytes) {
  if (journal.empty() || block_bytes != kBlockBytes) return {};
  return
      [replayed = std::make_shared<Journal>(journal)](const Journal::Reader& read) { return replayed->replay(read); };
}

}  // namespace crashcut::kernel
