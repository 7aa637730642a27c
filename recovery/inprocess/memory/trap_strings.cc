// String instructions on persistent memory. As instrumented inline assembly has them (inject/instrument/strings.inc):
// what rep movs or rep stos writes has no order within a line.
#include <cstring>

#include "recovery/inprocess/memory/accesses.h"
#include "recovery/inprocess/memory/memory.h"
#include "recovery/inprocess/memory/trap.h"

namespace crashcut::inprocess {

namespace {

constexpr std::uint64_t kDirectionFlag = 0x400, kZeroFlag = 0x40;
constexpr std::uint64_t kCompareFlags = 0x8d5;  // OF, SF, ZF, AF, PF, CF

enum class Kind { kMovs, kStos, kLods, kCmps, kScas };

void* pointer_to(std::uint64_t address) { return reinterpret_cast<void*>(address); }

template <class T>
std::uint64_t flags_of_compare(std::uint64_t a, std::uint64_t b) {
  std::uint64_t flags;
  asm("cmp %2, %1\n\tpushfq\n\tpop %0" : "=r"(flags) : "r"(static_cast<T>(a)), "r"(static_cast<T>(b)) : "cc", "memory");
  return flags & kCompareFlags;
}

// One instruction, with the program's registers.
class StringInstruction {
 public:
  StringInstruction(const Instruction& i, Kind kind, ucontext_t& context)
      : kind_(kind),
        bytes_(i.facts.operand_width / 8u),
        regs_(context.uc_mcontext.gregs),
        code_(pointer_to(i.address + i.facts.length)) {
    is_repeated_ = i.has_prefix(0xf3) || i.has_prefix(0xf2);
    ends_if_equal_ = i.has_prefix(0xf2);
  }

  void run() {
    if (is_repeated_ && reg(REG_RCX) == 0) return;
    if (kind_ == Kind::kMovs && copy_at_once()) return;
    if (kind_ == Kind::kStos && fill_at_once()) return;
    do {
      step();
    } while (is_repeated_ && --reg(REG_RCX) != 0 && !is_decided());
  }

 private:
  unsigned long long& reg(int name) { return reinterpret_cast<unsigned long long&>(regs_[name]); }
  bool is_backward() { return (reg(REG_EFL) & kDirectionFlag) != 0; }
  void advance(int name) { reg(name) += is_backward() ? -bytes_ : bytes_; }

  bool is_decided() {
    const bool is_equal = (reg(REG_EFL) & kZeroFlag) != 0;
    return (kind_ == Kind::kCmps || kind_ == Kind::kScas) && is_equal == ends_if_equal_;
  }

  bool copy_at_once() {
    const std::uint64_t bytes = reg(REG_RCX) * bytes_, distance = reg(REG_RDI) - reg(REG_RSI);
    if (!is_repeated_ || is_backward() || (distance < bytes && distance != 0)) return false;
    Memory::memmove(pointer_to(reg(REG_RDI)), pointer_to(reg(REG_RSI)), bytes, code_);
    end_at_once(bytes);
    reg(REG_RSI) += bytes;
    return true;
  }
  bool fill_at_once() {
    if (!is_repeated_ || is_backward() || bytes_ != 1) return false;
    Memory::memset(pointer_to(reg(REG_RDI)), static_cast<int>(reg(REG_RAX) & 0xff), reg(REG_RCX), code_);
    end_at_once(reg(REG_RCX));
    return true;
  }
  void end_at_once(std::uint64_t bytes) {
    reg(REG_RDI) += bytes;
    reg(REG_RCX) = 0;
  }

  std::uint64_t load(int name) {
    std::uint64_t value = 0;
    Memory::load(pointer_to(reg(name)), &value, bytes_, code_);
    return value;
  }
  // An instruction is whole.
  void store(std::uint64_t value) { Memory::store_whole(pointer_to(reg(REG_RDI)), &value, bytes_, code_); }
  void compare(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t flags = bytes_ == 1   ? flags_of_compare<std::uint8_t>(a, b)
                                : bytes_ == 2 ? flags_of_compare<std::uint16_t>(a, b)
                                : bytes_ == 4 ? flags_of_compare<std::uint32_t>(a, b)
                                              : flags_of_compare<std::uint64_t>(a, b);
    reg(REG_EFL) = (reg(REG_EFL) & ~kCompareFlags) | flags;
  }

  void step() {
    switch (kind_) {
      case Kind::kMovs:
        store(load(REG_RSI));
        break;
      case Kind::kStos:
        store(reg(REG_RAX));
        break;
      case Kind::kLods: {
        const std::uint64_t value = load(REG_RSI);
        if (bytes_ == 4) reg(REG_RAX) = 0;  // an operand of 32 bits clears the rest of its register
        std::memcpy(&reg(REG_RAX), &value, bytes_);
        break;
      }
      case Kind::kCmps:
        compare(load(REG_RSI), load(REG_RDI));
        break;
      case Kind::kScas:
        compare(reg(REG_RAX), load(REG_RDI));
        break;
    }
    if (kind_ != Kind::kStos && kind_ != Kind::kScas) advance(REG_RSI);
    if (kind_ != Kind::kLods) advance(REG_RDI);
  }

  Kind kind_;
  std::uint64_t bytes_;
  gregset_t& regs_;
  const void* code_;
  bool is_repeated_, ends_if_equal_;
};

bool find_kind(const Instruction& i, Kind& kind) {
  if (i.facts.meta.category != ZYDIS_CATEGORY_STRINGOP) return false;  // movsd and cmpsd are vector instructions, too
  switch (i.facts.mnemonic) {
    case ZYDIS_MNEMONIC_MOVSB:
    case ZYDIS_MNEMONIC_MOVSW:
    case ZYDIS_MNEMONIC_MOVSD:
    case ZYDIS_MNEMONIC_MOVSQ:
      return kind = Kind::kMovs, true;
    case ZYDIS_MNEMONIC_STOSB:
    case ZYDIS_MNEMONIC_STOSW:
    case ZYDIS_MNEMONIC_STOSD:
    case ZYDIS_MNEMONIC_STOSQ:
      return kind = Kind::kStos, true;
    case ZYDIS_MNEMONIC_LODSB:
    case ZYDIS_MNEMONIC_LODSW:
    case ZYDIS_MNEMONIC_LODSD:
    case ZYDIS_MNEMONIC_LODSQ:
      return kind = Kind::kLods, true;
    case ZYDIS_MNEMONIC_CMPSB:
    case ZYDIS_MNEMONIC_CMPSW:
    case ZYDIS_MNEMONIC_CMPSD:
    case ZYDIS_MNEMONIC_CMPSQ:
      return kind = Kind::kCmps, true;
    case ZYDIS_MNEMONIC_SCASB:
    case ZYDIS_MNEMONIC_SCASW:
    case ZYDIS_MNEMONIC_SCASD:
    case ZYDIS_MNEMONIC_SCASQ:
      return kind = Kind::kScas, true;
    default:
      return false;
  }
}

}  // namespace

bool do_string_instruction(const Instruction& instruction, ucontext_t& context) {
  Kind kind;
  if (!find_kind(instruction, kind)) return false;
  StringInstruction(instruction, kind, context).run();
  context.uc_mcontext.gregs[REG_RIP] += instruction.facts.length;
  return true;
}

}  // namespace crashcut::inprocess
