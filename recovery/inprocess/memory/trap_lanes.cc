// Instructions that access some lanes of memory: gathers, scatters, masked loads, maskmovdqu (trap.h). Vector and mask
// registers are where the kernel saves them; what is changed there, the program has when the handler returns.
#include <cpuid.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "recovery/inprocess/memory/accesses.h"
#include "recovery/inprocess/memory/scatter.h"
#include "recovery/inprocess/memory/trap.h"

namespace crashcut::inprocess {

namespace {

constexpr std::size_t kVectorBytes = 64;
using Vector = std::array<std::byte, kVectorBytes>;

// Parts of what xsave writes, and where each is. 0: the processor has none of it.
enum Part : unsigned { kX87, kLowest, kLow, kMasks = 5, kHigh, kUpperRegisters, kParts };
constinit std::uint32_t g_offsets[kParts] = {};
constinit std::uint32_t g_sizes[kParts] = {};

// The layout that the processor's manual gives to what xsave writes: of registers 0 to 15 the lowest 16 bytes lie
// beside the x87's, the next 16 and the highest 32 in parts of their own; registers 16 to 31 lie together.
class SavedVectors {
 public:
  explicit SavedVectors(ucontext_t& context) : at_(reinterpret_cast<std::byte*>(context.uc_mcontext.fpregs)) {
    constexpr std::size_t kSoftwareAt = 464;  // what the kernel says of the frame
    struct {
      std::uint32_t magic, bytes;
      std::uint64_t parts;
    } frame;
    std::memcpy(&frame, at_ + kSoftwareAt, sizeof frame);
    saved_ = frame.magic == FP_XSTATE_MAGIC1 ? frame.parts : std::uint64_t{1} << kX87 | 1 << kLowest;
  }

  Vector read(unsigned number) {
    Vector value{};
    for_pieces(number, [&](Part part, std::size_t offset, std::size_t from, std::size_t bytes) {
      if (is_used(part)) std::memcpy(value.data() + from, at_ + offset, bytes);
    });
    return value;
  }
  void write(unsigned number, const Vector& value) {
    for_pieces(number, [&](Part part, std::size_t offset, std::size_t from, std::size_t bytes) {
      use(part);
      std::memcpy(at_ + offset, value.data() + from, bytes);
    });
  }
  std::uint64_t read_mask(unsigned number) {
    std::uint64_t mask = 0;
    if (is_used(kMasks)) std::memcpy(&mask, at_ + g_offsets[kMasks] + number * sizeof mask, sizeof mask);
    return mask;
  }
  void clear_mask(unsigned number) {
    if (is_used(kMasks))
      std::memset(at_ + g_offsets[kMasks] + number * sizeof(std::uint64_t), 0, sizeof(std::uint64_t));
  }

 private:
  // What is not saved is as it is after a reset: zero.
  std::uint64_t& used() const { return *reinterpret_cast<std::uint64_t*>(at_ + 512); }
  bool is_used(Part part) const { return (saved_ & used() & std::uint64_t{1} << part) != 0; }
  void use(Part part) {
    if (!is_used(part)) std::memset(at_ + g_offsets[part], 0, g_sizes[part]);
    used() |= std::uint64_t{1} << part;
  }
  template <class Function>
  void for_pieces(unsigned number, const Function& function) {
    const auto piece = [&](Part part, std::size_t i, std::size_t from, std::size_t bytes) {
      if ((saved_ & std::uint64_t{1} << part) != 0) function(part, g_offsets[part] + i * bytes, from, bytes);
    };
    if (number >= 16) return piece(kUpperRegisters, number - 16, 0, 64);
    piece(kLowest, number, 0, 16);
    piece(kLow, number, 16, 16);
    piece(kHigh, number, 32, 32);
  }
  std::byte* at_;
  std::uint64_t saved_;
};

unsigned register_number(ZydisRegister name) {
  return name >= ZYDIS_REGISTER_ZMM0   ? name - ZYDIS_REGISTER_ZMM0
         : name >= ZYDIS_REGISTER_YMM0 ? name - ZYDIS_REGISTER_YMM0
                                       : name - ZYDIS_REGISTER_XMM0;
}
std::size_t register_bytes(ZydisRegister name) {
  return name >= ZYDIS_REGISTER_ZMM0 ? 64 : name >= ZYDIS_REGISTER_YMM0 ? 32 : 16;
}

struct Indexed {
  bool is_gather;
  std::size_t index_bytes, lane_bytes;
};
bool find_indexed(ZydisMnemonic mnemonic, Indexed& how) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_VGATHERDPS:
    case ZYDIS_MNEMONIC_VPGATHERDD:
      return how = {true, 4, 4}, true;
    case ZYDIS_MNEMONIC_VGATHERDPD:
    case ZYDIS_MNEMONIC_VPGATHERDQ:
      return how = {true, 4, 8}, true;
    case ZYDIS_MNEMONIC_VGATHERQPS:
    case ZYDIS_MNEMONIC_VPGATHERQD:
      return how = {true, 8, 4}, true;
    case ZYDIS_MNEMONIC_VGATHERQPD:
    case ZYDIS_MNEMONIC_VPGATHERQQ:
      return how = {true, 8, 8}, true;
    case ZYDIS_MNEMONIC_VSCATTERDPS:
    case ZYDIS_MNEMONIC_VPSCATTERDD:
      return how = {false, 4, 4}, true;
    case ZYDIS_MNEMONIC_VSCATTERDPD:
    case ZYDIS_MNEMONIC_VPSCATTERDQ:
      return how = {false, 4, 8}, true;
    case ZYDIS_MNEMONIC_VSCATTERQPS:
    case ZYDIS_MNEMONIC_VPSCATTERQD:
      return how = {false, 8, 4}, true;
    case ZYDIS_MNEMONIC_VSCATTERQPD:
    case ZYDIS_MNEMONIC_VPSCATTERQQ:
      return how = {false, 8, 8}, true;
    default:
      return false;
  }
}

// Moves of AVX-512 whose lanes in memory are those of the register.
bool is_move_of_lanes(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_VMOVDQA32:
    case ZYDIS_MNEMONIC_VMOVDQA64:
    case ZYDIS_MNEMONIC_VMOVDQU8:
    case ZYDIS_MNEMONIC_VMOVDQU16:
    case ZYDIS_MNEMONIC_VMOVDQU32:
    case ZYDIS_MNEMONIC_VMOVDQU64:
    case ZYDIS_MNEMONIC_VMOVAPD:
    case ZYDIS_MNEMONIC_VMOVAPS:
    case ZYDIS_MNEMONIC_VMOVUPD:
    case ZYDIS_MNEMONIC_VMOVUPS:
      return true;
    default:
      return false;
  }
}

bool has_mask_register(const Instruction& i) { return i.facts.avx.mask.mode > ZYDIS_MASK_MODE_DISABLED; }
unsigned mask_register(const Instruction& i) { return i.facts.avx.mask.reg - ZYDIS_REGISTER_K0; }

// One bit a lane, from the highest bits of a vector's lanes.
std::uint64_t bits_of(const Vector& mask, std::size_t lane_bytes) {
  std::uint64_t bits = 0;
  for (std::size_t lane = 0; lane < kVectorBytes / lane_bytes; ++lane) {
    if ((mask[(lane + 1) * lane_bytes - 1] & std::byte{0x80}) != std::byte{0}) bits |= std::uint64_t{1} << lane;
  }
  return bits;
}

std::int64_t index_in(const Vector& indices, std::size_t lane, std::size_t bytes) {
  std::int64_t wide = 0;
  std::int32_t narrow = 0;
  if (bytes == sizeof wide) return std::memcpy(&wide, indices.data() + lane * bytes, bytes), wide;
  return std::memcpy(&narrow, indices.data() + lane * bytes, bytes), narrow;
}

const void* place_after(const Instruction& i) { return reinterpret_cast<const void*>(i.address + i.facts.length); }

void do_indexed(const Instruction& i, const Indexed& how, std::uint64_t base, ucontext_t& context) {
  SavedVectors vectors(context);
  const ZydisDecodedOperand& memory = *i.memory();
  const ZydisRegister data = i.operands[how.is_gather ? 0 : 2].reg.value, by = memory.mem.index;
  const Vector indices = vectors.read(register_number(by)), before = vectors.read(register_number(data));
  const unsigned masked = has_mask_register(i) ? mask_register(i) : register_number(i.operands[2].reg.value);
  const std::uint64_t mask =
      has_mask_register(i) ? vectors.read_mask(masked) : bits_of(vectors.read(masked), how.lane_bytes);
  const std::size_t lanes = std::min(register_bytes(data) / how.lane_bytes, register_bytes(by) / how.index_bytes);
  Vector loaded{};
  std::memcpy(loaded.data(), before.data(), lanes * how.lane_bytes);
  Scatter scatter(place_after(i));
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const std::uint64_t address =
        base + static_cast<std::uint64_t>(index_in(indices, lane, how.index_bytes)) * memory.mem.scale;
    std::byte* bytes = loaded.data() + lane * how.lane_bytes;
    if (how.is_gather) {
      Memory::load(reinterpret_cast<const void*>(address), bytes, how.lane_bytes, place_after(i));
    } else {
      scatter.store(reinterpret_cast<void*>(address), bytes, how.lane_bytes);
    }
  }
  scatter.finish();
  has_mask_register(i) ? vectors.clear_mask(masked) : vectors.write(masked, {});
  if (how.is_gather) vectors.write(register_number(data), loaded);
}

// The other lanes are zero, or stay.
void do_masked_load(const Instruction& i, std::uint64_t address, std::size_t lane_bytes, ucontext_t& context) {
  SavedVectors vectors(context);
  const ZydisRegister to = i.operands[0].reg.value;
  const std::uint64_t mask = has_mask_register(i)
                                 ? vectors.read_mask(mask_register(i))
                                 : bits_of(vectors.read(register_number(i.operands[1].reg.value)), lane_bytes);
  Vector loaded{};
  if (i.facts.avx.mask.mode == ZYDIS_MASK_MODE_MERGING)
    std::memcpy(loaded.data(), vectors.read(register_number(to)).data(), register_bytes(to));
  for (std::size_t lane = 0; lane < register_bytes(to) / lane_bytes; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    Memory::load(reinterpret_cast<const void*>(address + lane * lane_bytes), loaded.data() + lane * lane_bytes,
                 lane_bytes, place_after(i));
  }
  vectors.write(register_number(to), loaded);
}

// A non-temporal store of some bytes, as many of a word at once as lie side by side.
void do_maskmovdqu(const Instruction& i, ucontext_t& context) {
  SavedVectors vectors(context);
  const auto address = static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RDI]);
  const Vector bytes = vectors.read(register_number(i.operands[0].reg.value));
  const std::uint64_t mask = bits_of(vectors.read(register_number(i.operands[1].reg.value)), 1) & 0xffff;
  for (std::size_t at = 0; mask >> at != 0;) {
    std::size_t end = at;
    while ((mask >> end & 1) != 0 && (end == at || (address + end) % 8 != 0)) ++end;
    if (end > at)
      Memory::store_nt(reinterpret_cast<void*>(address + at), bytes.data() + at, end - at, 0, place_after(i));
    at = std::max(end, at + 1);
  }
}

}  // namespace

void find_saved_vectors() {
  constexpr unsigned kLeaf = 0xd;
  g_offsets[kLowest] = 160;
  g_sizes[kLowest] = 256;
  for (const Part part : {kLow, kMasks, kHigh, kUpperRegisters}) {
    unsigned other[2];
    __cpuid_count(kLeaf, part, g_sizes[part], g_offsets[part], other[0], other[1]);
  }
}

bool do_lanes(const Instruction& i, std::uint64_t base, ucontext_t& context) {
  const ZydisMnemonic mnemonic = i.facts.mnemonic;
  const bool loads = i.operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER;
  Indexed how{};
  if (find_indexed(mnemonic, how)) {
    do_indexed(i, how, base, context);
  } else if (const std::size_t lane_bytes = masked_lane_bytes(mnemonic); lane_bytes != 0 && loads) {
    do_masked_load(i, base, lane_bytes, context);
  } else if (has_mask_register(i) && is_move_of_lanes(mnemonic) && loads) {
    do_masked_load(i, base, i.operands[0].element_size / 8, context);
  } else if (mnemonic == ZYDIS_MNEMONIC_MASKMOVDQU || mnemonic == ZYDIS_MNEMONIC_VMASKMOVDQU) {
    do_maskmovdqu(i, context);
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
