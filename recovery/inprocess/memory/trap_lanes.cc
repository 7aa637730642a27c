// Loads of some lanes of a vector: gathers and masked moves of AVX2 (trap.h). Vector registers are where the kernel
// saves them; what is changed there, the program has when the handler returns.
#include <algorithm>
#include <array>
#include <cstring>

#include "recovery/inprocess/memory/accesses.h"
#include "recovery/inprocess/memory/trap.h"

namespace crashcut::inprocess {

namespace {

constexpr std::size_t kHalf = 16;
using Vector = std::array<std::byte, 2 * kHalf>;

// The layout that the processor's manual gives to what xsave writes.
struct SavedVectors {
  explicit SavedVectors(ucontext_t& context) : at(reinterpret_cast<std::byte*>(context.uc_mcontext.fpregs)) {}

  Vector read(unsigned number) const {
    Vector value{};
    std::memcpy(value.data(), low(number), kHalf);
    if ((parts() & kUpperHalves) != 0) std::memcpy(value.data() + kHalf, high(number), kHalf);
    return value;
  }
  void write(unsigned number, const Vector& value) {
    if ((parts() & kUpperHalves) == 0) std::memset(high(0), 0, kHalf * 16);
    std::memcpy(low(number), value.data(), kHalf);
    std::memcpy(high(number), value.data() + kHalf, kHalf);
    parts() |= kUpperHalves | kLowerHalves;
  }

 private:
  static constexpr std::uint64_t kLowerHalves = 2, kUpperHalves = 4;
  std::uint64_t& parts() const { return *reinterpret_cast<std::uint64_t*>(at + 512); }
  std::byte* low(unsigned number) const { return at + 160 + number * kHalf; }
  std::byte* high(unsigned number) const { return at + 576 + number * kHalf; }
  std::byte* at;
};

unsigned register_number(ZydisRegister name) {
  return name >= ZYDIS_REGISTER_YMM0 ? name - ZYDIS_REGISTER_YMM0 : name - ZYDIS_REGISTER_XMM0;
}
std::size_t register_bytes(ZydisRegister name) { return name >= ZYDIS_REGISTER_YMM0 ? 2 * kHalf : kHalf; }

struct Gather {
  std::size_t index_bytes, lane_bytes;
};
bool find_gather(ZydisMnemonic mnemonic, Gather& gather) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_VGATHERDPS:
    case ZYDIS_MNEMONIC_VPGATHERDD:
      return gather = {4, 4}, true;
    case ZYDIS_MNEMONIC_VGATHERDPD:
    case ZYDIS_MNEMONIC_VPGATHERDQ:
      return gather = {4, 8}, true;
    case ZYDIS_MNEMONIC_VGATHERQPS:
    case ZYDIS_MNEMONIC_VPGATHERQD:
      return gather = {8, 4}, true;
    case ZYDIS_MNEMONIC_VGATHERQPD:
    case ZYDIS_MNEMONIC_VPGATHERQQ:
      return gather = {8, 8}, true;
    default:
      return false;
  }
}

bool is_active(const Vector& mask, std::size_t lane, std::size_t lane_bytes) {
  return (mask[(lane + 1) * lane_bytes - 1] & std::byte{0x80}) != std::byte{0};
}

std::int64_t index_in(const Vector& indices, std::size_t lane, std::size_t bytes) {
  std::int64_t wide = 0;
  std::int32_t narrow = 0;
  if (bytes == sizeof wide) return std::memcpy(&wide, indices.data() + lane * bytes, bytes), wide;
  return std::memcpy(&narrow, indices.data() + lane * bytes, bytes), narrow;
}

void do_gather(const Instruction& i, const Gather& how, std::uint64_t base, ucontext_t& context) {
  SavedVectors vectors(context);
  const ZydisRegister to = i.operands[0].reg.value, by = i.operands[1].mem.index, masked = i.operands[2].reg.value;
  const Vector indices = vectors.read(register_number(by)), mask = vectors.read(register_number(masked));
  const std::size_t lanes = std::min(register_bytes(to) / how.lane_bytes, register_bytes(by) / how.index_bytes);
  const Vector before = vectors.read(register_number(to));
  Vector loaded{};
  std::memcpy(loaded.data(), before.data(), lanes * how.lane_bytes);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if (!is_active(mask, lane, how.lane_bytes)) continue;
    const auto distance =
        static_cast<std::uint64_t>(index_in(indices, lane, how.index_bytes)) * i.operands[1].mem.scale;
    Memory::load(reinterpret_cast<const void*>(base + distance), loaded.data() + lane * how.lane_bytes, how.lane_bytes,
                 reinterpret_cast<const void*>(i.address + i.facts.length));
  }
  vectors.write(register_number(masked), {});
  vectors.write(register_number(to), loaded);
}

void do_masked_load(const Instruction& i, std::uint64_t address, std::size_t lane_bytes, ucontext_t& context) {
  SavedVectors vectors(context);
  const ZydisRegister to = i.operands[0].reg.value;
  const Vector mask = vectors.read(register_number(i.operands[1].reg.value));
  Vector loaded{};
  for (std::size_t lane = 0; lane < register_bytes(to) / lane_bytes; ++lane) {
    if (!is_active(mask, lane, lane_bytes)) continue;
    Memory::load(reinterpret_cast<const void*>(address + lane * lane_bytes), loaded.data() + lane * lane_bytes,
                 lane_bytes, reinterpret_cast<const void*>(i.address + i.facts.length));
  }
  vectors.write(register_number(to), loaded);
}

}  // namespace

bool do_load_of_lanes(const Instruction& i, std::uint64_t base, ucontext_t& context) {
  if (i.facts.encoding != ZYDIS_INSTRUCTION_ENCODING_VEX) return false;
  Gather gather{};
  if (find_gather(i.facts.mnemonic, gather)) {
    do_gather(i, gather, base, context);
  } else if (const std::size_t lane_bytes = masked_lane_bytes(i.facts.mnemonic);
             lane_bytes != 0 && i.operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER) {
    do_masked_load(i, base, lane_bytes, context);
  } else {
    return false;
  }
  context.uc_mcontext.gregs[REG_RIP] += i.facts.length;
  return true;
}

std::size_t masked_lane_bytes(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_VMASKMOVPS:
    case ZYDIS_MNEMONIC_VPMASKMOVD:
      return 4;
    case ZYDIS_MNEMONIC_VMASKMOVPD:
    case ZYDIS_MNEMONIC_VPMASKMOVQ:
      return 8;
    default:
      return 0;
  }
}

}  // namespace crashcut::inprocess
