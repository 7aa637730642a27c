// fxsave, xsave and their kin on persistent memory, and stores of some bytes of their operand (trap.h).
//
// xsave stores what is in use, and leaves the rest of its operand; of the header it changes some bits, so it loads
// that.
#include <cpuid.h>

#include <algorithm>
#include <cstring>

#include "recovery/inprocess/memory/accesses.h"
#include "recovery/inprocess/memory/region_access.h"
#include "recovery/inprocess/memory/trap.h"

namespace crashcut::inprocess {

namespace {

constexpr std::size_t kOldBytes = 512;                    // of fxsave
constexpr std::size_t kHeaderAt = 512, kHeaderBytes = 8;  // what xsave loads
constinit std::size_t g_all_bytes = 0;                    // of xsave, with all that the kernel has enabled

enum class Kind { kNone, kOldSave, kOldRestore, kSave, kSaveWithHeader, kRestore };

Kind kind_of(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_FXSAVE:
    case ZYDIS_MNEMONIC_FXSAVE64:
      return Kind::kOldSave;
    case ZYDIS_MNEMONIC_FXRSTOR:
    case ZYDIS_MNEMONIC_FXRSTOR64:
      return Kind::kOldRestore;
    case ZYDIS_MNEMONIC_XSAVEC:
    case ZYDIS_MNEMONIC_XSAVEC64:
      return Kind::kSave;
    case ZYDIS_MNEMONIC_XSAVE:
    case ZYDIS_MNEMONIC_XSAVE64:
    case ZYDIS_MNEMONIC_XSAVEOPT:
    case ZYDIS_MNEMONIC_XSAVEOPT64:
      return Kind::kSaveWithHeader;
    case ZYDIS_MNEMONIC_XRSTOR:
    case ZYDIS_MNEMONIC_XRSTOR64:
      return Kind::kRestore;
    default:
      return Kind::kNone;
  }
}

// Calls function(room for so many bytes). Another thread may go on meanwhile, which must not find them.
template <class Function>
void with_room(std::size_t bytes, const Function& function) {
  std::byte* room;
  {
    const OwnCode own;
    room = new std::byte[bytes]();
  }
  function(room);
  const OwnCode own;
  delete[] room;
}

}  // namespace

void find_state_bytes() {
  constexpr unsigned kLeaf = 0xd;
  unsigned bytes = 0, other[3];
  if (__get_cpuid_count(kLeaf, 0, &other[0], &bytes, &other[1], &other[2]) != 0) g_all_bytes = bytes;
}

std::size_t state_bytes(const Instruction& i) {
  const Kind kind = kind_of(i.facts.mnemonic);
  if (kind == Kind::kNone || g_all_bytes > kStateMost) return 0;
  return kind == Kind::kOldSave || kind == Kind::kOldRestore ? kOldBytes : g_all_bytes;
}

void load_state(const Instruction& i, std::uint64_t address, std::byte* to) {
  const std::size_t bytes = state_bytes(i);
  const Kind kind = kind_of(i.facts.mnemonic);
  const auto load = [&](std::byte* room, std::size_t at, std::size_t count) {
    Memory::load(reinterpret_cast<const void*>(address + at), room + at, count,
                 reinterpret_cast<const void*>(i.address + i.facts.length));
  };
  with_room(bytes, [&](std::byte* room) {
    if (kind == Kind::kOldRestore) load(room, 0, kOldBytes);
    if (kind == Kind::kSaveWithHeader) load(room, kHeaderAt, kHeaderBytes);
    // Which parts are there, it says itself. They may end before the region does.
    for (std::size_t at = 0; kind == Kind::kRestore && at < bytes && is_in_region(address + at, 8); at += 8)
      load(room, at, std::min<std::size_t>(8, bytes - at));
    std::memcpy(to, room, bytes);
  });
}

void fill_state(std::byte* to, std::size_t bytes, bool keeps_header) {
  std::byte header[kHeaderBytes];
  if (keeps_header) std::memcpy(header, to + kHeaderAt, sizeof header);
  std::memset(to, 0xff, bytes);
  if (keeps_header) std::memcpy(to + kHeaderAt, header, sizeof header);
}

void store_what_is_alike(std::uint64_t address, std::span<const std::byte> over_zeros, const std::byte* over_ones,
                         const void* code) {
  constexpr std::size_t kPieceBytes = 64;
  with_room(2 * over_zeros.size(), [&](std::byte* room) {
    std::byte* is_stored = room + over_zeros.size();
    std::memcpy(room, over_ones, over_zeros.size());
    for (std::size_t i = 0; i < over_zeros.size(); ++i) is_stored[i] = std::byte{over_zeros[i] == over_ones[i]};
    for (std::size_t at = 0; at < over_zeros.size(); at += kPieceBytes) {
      std::uint64_t lanes = 0;
      for (std::size_t i = 0; i < std::min(kPieceBytes, over_zeros.size() - at); ++i)
        lanes |= std::uint64_t{is_stored[at + i] != std::byte{0}} << i;
      Memory::store_lanes(reinterpret_cast<void*>(address + at), room + at, 1, lanes, code);
    }
  });
}

}  // namespace crashcut::inprocess
