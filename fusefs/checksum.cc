#include "fusefs/checksum.h"

#include <bit>
#include <cstring>

namespace crashcut::fusefs {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie in memory");

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr std::uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr std::uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr std::uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr std::uint64_t kPrime5 = 0x27D4EB2F165667C5;

template <class Word>
Word take(const char*& at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  at += sizeof word;
  return word;
}

std::uint64_t add_lane(std::uint64_t lane, std::uint64_t word) {
  return std::rotl(lane + word * kPrime2, 31) * kPrime1;
}

std::uint64_t merge_lane(std::uint64_t sum, std::uint64_t lane) {
  return (sum ^ add_lane(0, lane)) * kPrime1 + kPrime4;
}

std::uint64_t sum_stripes(const char*& at, const char* end, std::uint64_t seed) {
  std::uint64_t a = seed + kPrime1 + kPrime2;
  std::uint64_t b = seed + kPrime2;
  std::uint64_t c = seed;
  std::uint64_t d = seed - kPrime1;
  while (end - at >= 32) {
    a = add_lane(a, take<std::uint64_t>(at));
    b = add_lane(b, take<std::uint64_t>(at));
    c = add_lane(c, take<std::uint64_t>(at));
    d = add_lane(d, take<std::uint64_t>(at));
  }
  std::uint64_t sum = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
  for (std::uint64_t lane : {a, b, c, d}) sum = merge_lane(sum, lane);
  return sum;
}

}  // namespace

std::uint64_t xxh64(std::string_view bytes, std::uint64_t seed) {
  const char* at = bytes.data();
  const char* end = at + bytes.size();
  std::uint64_t sum = bytes.size() >= 32 ? sum_stripes(at, end, seed) : seed + kPrime5;
  sum += bytes.size();
  while (end - at >= 8) sum = std::rotl(sum ^ add_lane(0, take<std::uint64_t>(at)), 27) * kPrime1 + kPrime4;
  if (end - at >= 4) sum = std::rotl(sum ^ (take<std::uint32_t>(at) * kPrime1), 23) * kPrime2 + kPrime3;
  while (at < end) sum = std::rotl(sum ^ (static_cast<unsigned char>(*at++) * kPrime5), 11) * kPrime1;
  sum = (sum ^ (sum >> 33)) * kPrime2;
  sum = (sum ^ (sum >> 29)) * kPrime3;
  return sum ^ (sum >> 32);
}

}  // namespace crashcut::fusefs
