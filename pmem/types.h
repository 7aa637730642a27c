// The words of x86 memory: addresses, cache lines, and the bytes of a word.
//
// A word is 8 aligned bytes: the unit that the medium never tears. A line is 64 aligned bytes: the unit that the cache
// writes back.
#pragma once

#include <array>
#include <cstdint>

namespace crashcut::pmem {

using Address = std::uint64_t;
using WordNumber = std::uint64_t;  // an address divided by 8
using ThreadId = std::uint32_t;    // 0 is the first thread; the next ones are 1, 2, ...
using PlaceId = std::uint32_t;     // a place in the program's source; the caller's numbers
using ByteMask = std::uint8_t;     // bytes of a word, the lowest address in the lowest bit

// How a store was written in the program.
enum class StoreForm : std::uint8_t {
  kPlain,   // a compiler may tear it, or invent and merge others
  kWhole,   // atomic, or machine code: it is done as it is written
  kLocked,  // by a locked instruction
  kCopy,    // a piece of memcpy, memset or the like
};

inline constexpr Address kLineBytes = 64;
inline constexpr Address kWordBytes = 8;
inline constexpr unsigned kWordsPerLine = 8;
inline constexpr ByteMask kAllBytes = 0xff;

inline constexpr WordNumber word_of(Address address) { return address / kWordBytes; }
inline constexpr unsigned word_in_line(Address address) { return (address / kWordBytes) % kWordsPerLine; }

// Bytes first to first + count - 1 of a word.
inline constexpr ByteMask mask_of_bytes(unsigned first, unsigned count) {
  return static_cast<ByteMask>(((1u << count) - 1u) << first);
}

namespace internal {
constexpr std::array<std::uint64_t, 256> make_bits_of_mask() {
  std::array<std::uint64_t, 256> bits{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    for (unsigned byte = 0; byte < 8; ++byte) {
      if (mask >> byte & 1) bits[mask] |= std::uint64_t{0xff} << (8 * byte);
    }
  }
  return bits;
}
inline constexpr std::array<std::uint64_t, 256> kBitsOfMask = make_bits_of_mask();
}  // namespace internal

// The bits of a word that belong to the bytes of a mask.
inline constexpr std::uint64_t bits_of(ByteMask mask) { return internal::kBitsOfMask[mask]; }

}  // namespace crashcut::pmem
