#include "recovery/inprocess/memory/trap.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "inject/signals.h"
#include "recovery/inprocess/memory/accesses.h"
#include "recovery/inprocess/memory/memory.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kOperandMost = 64;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint8_t kBreakpoint = 0xcc;
constexpr greg_t kZeroFlag = 0x40, kTrapFlag = 0x100;

// Where a copy runs. Below 2 GiB: an address of 32 bits reaches the operand, whatever the instruction.
struct Scratch {
  std::uint8_t code[kLineBytes];
  alignas(kLineBytes) std::byte operand[3 * kLineBytes];  // the operand lies in it as it does in its line
};
constinit Scratch* g_scratch = nullptr;

enum class Stores { kNothing, kPlain, kPlainIfEqual, kLocked, kLockedIfEqual, kNonTemporal };

// The instruction that is being done.
struct Pending {
  enum { kNone, kCopy, kStep } state = kNone;
  std::uint64_t address;  // of the operand
  std::size_t bytes;
  Stores stores;
  std::uint64_t next;  // instruction
  const FenceSite* site;
};
constinit Pending g_pending{};

greg_t& rip(ucontext_t& context) { return context.uc_mcontext.gregs[REG_RIP]; }
void* pointer_to(std::uint64_t address) { return reinterpret_cast<void*>(address); }
// As a call would return to it: what a place is named by.
const void* place_after(const Instruction& i) { return pointer_to(i.address + i.facts.length); }

[[noreturn]] void refuse(const Instruction& instruction, std::string_view why) {
  user_error(fmt::format("crashcut pmem --trap cannot emulate {} at {}, which touches persistent memory: {}",
                         describe(instruction), name_place(instruction.address + 1), why));
}

void check_nothing_is_pending() {
  if (g_pending.state == Pending::kNone) return;
  user_error("a signal handler touched persistent memory while the program did, which crashcut pmem does not model");
}

std::uint64_t value_of(ZydisRegister name, const ucontext_t& context) {
  constexpr int kInOrder[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  if (name < ZYDIS_REGISTER_RAX || name > ZYDIS_REGISTER_R15) return 0;
  return static_cast<std::uint64_t>(context.uc_mcontext.gregs[kInOrder[name - ZYDIS_REGISTER_RAX]]);
}

std::uint64_t address_of(const Instruction& instruction, const ZydisDecodedOperand& operand,
                         const ucontext_t& context) {
  std::uint64_t address = static_cast<std::uint64_t>(operand.mem.disp.value);
  if (operand.mem.base == ZYDIS_REGISTER_RIP) return address + instruction.address + instruction.facts.length;
  address += value_of(operand.mem.base, context) + value_of(operand.mem.index, context) * operand.mem.scale;
  // The stack pointer is that after the pop.
  if (instruction.facts.mnemonic == ZYDIS_MNEMONIC_POP && operand.mem.base == ZYDIS_REGISTER_RSP)
    address += operand.size / 8;
  return address;
}

bool is_locked(const Instruction& i) {
  return (i.facts.attributes & ZYDIS_ATTRIB_HAS_LOCK) != 0 || i.facts.mnemonic == ZYDIS_MNEMONIC_XCHG;
}

bool is_non_temporal(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_MOVNTI:
    case ZYDIS_MNEMONIC_MOVNTQ:
    case ZYDIS_MNEMONIC_MOVNTDQ:
    case ZYDIS_MNEMONIC_MOVNTPS:
    case ZYDIS_MNEMONIC_MOVNTPD:
    case ZYDIS_MNEMONIC_MOVNTSS:
    case ZYDIS_MNEMONIC_MOVNTSD:
    case ZYDIS_MNEMONIC_VMOVNTDQ:
    case ZYDIS_MNEMONIC_VMOVNTPS:
    case ZYDIS_MNEMONIC_VMOVNTPD:
    case ZYDIS_MNEMONIC_MOVDIRI:
      return true;
    default:
      return false;
  }
}

bool is_masked_move(ZydisMnemonic mnemonic) {
  switch (mnemonic) {
    case ZYDIS_MNEMONIC_VMASKMOVPS:
    case ZYDIS_MNEMONIC_VMASKMOVPD:
    case ZYDIS_MNEMONIC_VPMASKMOVD:
    case ZYDIS_MNEMONIC_VPMASKMOVQ:
      return true;
    default:
      return false;
  }
}

bool has_bit_string(const Instruction& i) {
  const ZydisMnemonic m = i.facts.mnemonic;
  const bool is_bit_test =
      m == ZYDIS_MNEMONIC_BT || m == ZYDIS_MNEMONIC_BTS || m == ZYDIS_MNEMONIC_BTR || m == ZYDIS_MNEMONIC_BTC;
  return is_bit_test && i.operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER;
}

// A sentence's end, or null.
const char* why_not(const Instruction& i, const ZydisDecodedOperand& operand) {
  const bool writes = (operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) != 0;
  const auto mask = i.facts.avx.mask.mode;
  if (operand.mem.type == ZYDIS_MEMOP_TYPE_VSIB) return "it gathers or scatters";
  if (is_masked_move(i.facts.mnemonic) ||
      (writes && mask != ZYDIS_MASK_MODE_INVALID && mask != ZYDIS_MASK_MODE_DISABLED))
    return "it accesses some lanes of a vector only";
  if (operand.size == 0 || operand.size % 8 != 0 || operand.size / 8 > kOperandMost)
    return "its operand is not one of 1 to 64 bytes";
  if (operand.mem.segment == ZYDIS_REGISTER_FS || operand.mem.segment == ZYDIS_REGISTER_GS)
    return "its address is relative to a segment";
  if (has_bit_string(i)) return "a register says which word it accesses";
  if (i.facts.address_width != 64) return "its address has 32 bits";
  return nullptr;
}

// The instruction with `operand` in place of its memory operand, then a breakpoint.
void write_copy(const Instruction& i, std::uint64_t operand) {
  std::uint8_t code[kLineBytes];
  std::size_t count = 0;
  const auto put = [&](const void* from, std::size_t bytes) {
    std::memcpy(code + count, from, bytes);
    count += bytes;
  };
  const auto& raw = i.facts.raw;
  if ((i.facts.attributes & ZYDIS_ATTRIB_HAS_MODRM) == 0) {  // mov between rax and an address in the instruction
    put(i.bytes, i.facts.length);
    std::memcpy(code + raw.disp.offset, &operand, sizeof operand);
  } else {
    put(i.bytes, raw.modrm.offset);
    // Neither base nor index, so nothing may make the index r12.
    if ((i.facts.attributes & ZYDIS_ATTRIB_HAS_REX) != 0) code[raw.rex.offset] &= static_cast<std::uint8_t>(~2);
    if (i.facts.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX && raw.vex.size == 3) code[raw.vex.offset + 1] |= 0x40;
    if (i.facts.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX) code[raw.evex.offset + 1] |= 0x40;
    const std::uint8_t modrm_and_sib[] = {static_cast<std::uint8_t>(raw.modrm.reg << 3 | 4), 0x25};
    put(modrm_and_sib, sizeof modrm_and_sib);
    const auto displacement = static_cast<std::uint32_t>(operand);
    put(&displacement, sizeof displacement);
    std::size_t rest = raw.modrm.offset + 1u;
    if ((i.facts.attributes & ZYDIS_ATTRIB_HAS_SIB) != 0) ++rest;
    rest += raw.disp.size / 8u;
    put(i.bytes + rest, i.facts.length - rest);
  }
  code[count++] = kBreakpoint;
  std::memcpy(g_scratch->code, code, count);
}

// A load beyond the region's end, which in memory without us would be in its last page, finds zeros there: string
// functions load whole vectors.
void load_operand(std::uint64_t address, std::byte* to, std::size_t bytes, const void* code) {
  std::size_t there = bytes;
  while (there > 0 && !is_in_region(address, there)) --there;
  if ((address + bytes - 1) / kPage != (address + there - 1) / kPage) there = bytes;  // dies as without us
  std::memset(to, 0, bytes);
  Memory::load(pointer_to(address), to, there, code);
}

Stores stores_of(const Instruction& i, const ZydisDecodedOperand& operand) {
  switch (i.facts.mnemonic) {
    case ZYDIS_MNEMONIC_CMPXCHG:
    case ZYDIS_MNEMONIC_CMPXCHG8B:
    case ZYDIS_MNEMONIC_CMPXCHG16B:
      return is_locked(i) ? Stores::kLockedIfEqual : Stores::kPlainIfEqual;
    default:
      break;
  }
  if ((operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) == 0) return Stores::kNothing;
  if (is_locked(i)) return Stores::kLocked;
  return is_non_temporal(i.facts.mnemonic) ? Stores::kNonTemporal : Stores::kPlain;
}

// From here the processor does the instruction; the breakpoint after it calls end_copy().
void begin_copy(const Instruction& i, const ZydisDecodedOperand& operand, std::uint64_t address, ucontext_t& context) {
  if (const char* why = why_not(i, operand)) refuse(i, why);
  const std::size_t bytes = operand.size / 8;
  std::byte* copy = g_scratch->operand + address % kLineBytes;
  if (is_locked(i)) {
    Memory::begin_locked(pointer_to(address), copy, bytes, place_after(i));
  } else if ((operand.actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0) {
    load_operand(address, copy, bytes, place_after(i));
  }
  write_copy(i, reinterpret_cast<std::uint64_t>(copy));
  g_pending = {Pending::kCopy, address, bytes, stores_of(i, operand), i.address + i.facts.length, nullptr};
  rip(context) = reinterpret_cast<greg_t>(g_scratch->code);
}

void end_copy(ucontext_t& context) {
  const Pending done = g_pending;
  g_pending.state = Pending::kNone;
  const std::byte* copy = g_scratch->operand + done.address % kLineBytes;
  void* at = pointer_to(done.address);
  const void* code = pointer_to(done.next);
  rip(context) = static_cast<greg_t>(done.next);
  const bool is_equal = (context.uc_mcontext.gregs[REG_EFL] & kZeroFlag) != 0;  // of a cmpxchg
  switch (done.stores) {
    case Stores::kNothing:
      return;
    case Stores::kPlainIfEqual:
      if (!is_equal) return;
      [[fallthrough]];
    case Stores::kPlain:
      return Memory::atomic_store(at, copy, done.bytes, __ATOMIC_RELAXED, code);
    case Stores::kLockedIfEqual:
      if (!is_equal) return;
      [[fallthrough]];
    case Stores::kLocked:
      return Memory::store_locked(at, copy, done.bytes, code);
    case Stores::kNonTemporal:
      return Memory::store_nt(at, copy, done.bytes, 0, code);
  }
}

void go_to_target(const Instruction& i, std::uint64_t address, ucontext_t& context) {
  const std::uint64_t target = Memory::load8(pointer_to(address), place_after(i));
  if (i.facts.mnemonic == ZYDIS_MNEMONIC_CALL) {
    greg_t& stack = context.uc_mcontext.gregs[REG_RSP];
    stack -= sizeof target;
    const std::uint64_t back = i.address + i.facts.length;
    std::memcpy(pointer_to(static_cast<std::uint64_t>(stack)), &back, sizeof back);
  }
  rip(context) = static_cast<greg_t>(target);
}

void do_movdir64b(const Instruction& i, ucontext_t& context) {
  std::byte bytes[64];
  const std::uint64_t from = address_of(i, i.operands[1], context), to = address_of(i, i.operands[0], context);
  if (to % sizeof bytes != 0) refuse(i, "its destination is not aligned");
  Memory::load(pointer_to(from), bytes, sizeof bytes, place_after(i));
  Memory::store_nt(pointer_to(to), bytes, sizeof bytes, 1, place_after(i));
  rip(context) += i.facts.length;
}

// The instruction at the program counter, which accesses a region.
void do_instruction(const Instruction& i, ucontext_t& context) {
  if (do_string_instruction(i, context)) return;
  const ZydisDecodedOperand* operand = i.memory();
  if (operand == nullptr) refuse(i, "its operand is implicit");
  if (i.facts.mnemonic == ZYDIS_MNEMONIC_MOVDIR64B) return do_movdir64b(i, context);
  const std::uint64_t address = address_of(i, *operand, context);
  if (!is_in_window(address)) refuse(i, "its operand is elsewhere");
  switch (i.facts.mnemonic) {
    case ZYDIS_MNEMONIC_CLFLUSH:
      Memory::clflush(pointer_to(address), place_after(i));
      break;
    case ZYDIS_MNEMONIC_CLFLUSHOPT:
    case ZYDIS_MNEMONIC_CLWB:
      Memory::clwb(pointer_to(address), place_after(i));
      break;
    case ZYDIS_MNEMONIC_CALL:
    case ZYDIS_MNEMONIC_JMP:
      return go_to_target(i, address, context);
    default:
      return begin_copy(i, *operand, address, context);
  }
  rip(context) += i.facts.length;
}

// ---- breakpoints

// A locked instruction on ordinary memory is done where it is.
void begin_step(const FenceSite& site, ucontext_t& context) {
  set_breakpoint(site, false);
  g_pending = {Pending::kStep, 0, 0, Stores::kNothing, 0, &site};
  rip(context) = static_cast<greg_t>(site.address);
  context.uc_mcontext.gregs[REG_EFL] |= kTrapFlag;
}

void end_step(ucontext_t& context) {
  set_breakpoint(*g_pending.site, true);
  g_pending.state = Pending::kNone;
  context.uc_mcontext.gregs[REG_EFL] &= ~kTrapFlag;
}

// Our own code calls libc, too; then it is no fence of the program.
void do_fence(const FenceSite& site, ucontext_t& context) {
  Instruction i;
  if (!decode(site.address, site.first, i)) tool_error("an instruction changed while the program ran");
  rip(context) = static_cast<greg_t>(site.address);
  if (const ZydisDecodedOperand* operand = i.memory(); operand != nullptr) {
    if (!inject::t_is_own_code) {
      if (is_in_window(address_of(i, *operand, context))) return do_instruction(i, context);
      Memory::mfence(place_after(i));
    }
    return begin_step(site, context);
  }
  if (!inject::t_is_own_code)
    i.facts.mnemonic == ZYDIS_MNEMONIC_SFENCE ? Memory::sfence(place_after(i)) : Memory::mfence(place_after(i));
  rip(context) += i.facts.length;
}

void on_trap(int, siginfo_t* info, void* ucontext) {
  auto& context = *static_cast<ucontext_t*>(ucontext);
  const auto at = static_cast<std::uint64_t>(rip(context));
  const bool is_in_copy = at - reinterpret_cast<std::uint64_t>(g_scratch) <= sizeof g_scratch->code;
  if (g_pending.state == Pending::kCopy && is_in_copy) return end_copy(context);
  if (g_pending.state == Pending::kStep && info->si_code == TRAP_TRACE) return end_step(context);
  if (const FenceSite* site = find_fence(at - 1); site != nullptr && info->si_code == SI_KERNEL) {
    check_nothing_is_pending();
    return do_fence(*site, context);
  }
  // The program's own breakpoint kills it, as without us.
  const inject::KernelSigaction standard{};
  kernel(SYS_rt_sigaction, SIGTRAP, &standard, 0, 8);
  kernel(SYS_tgkill, kernel(SYS_getpid), kernel(SYS_gettid), SIGTRAP);
}

}  // namespace

bool is_trapping() { return g.header != nullptr && g.header->traps != 0; }

void start_traps() {
  if (!load_decoder()) tool_error("crashcut pmem --trap needs Zydis (libZydis.so.4.0), which was not found");
  const long at = kernel(SYS_mmap, 0, sizeof(Scratch), PROT_READ | PROT_WRITE | PROT_EXEC,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (at < 0 && at > -4096) tool_error("cannot map memory for instructions that are trapped");
  g_scratch = reinterpret_cast<Scratch*>(at);
  // Open while it runs: what system calls and locked instructions our own code has.
  if (!inject::install_handler(SIGTRAP, on_trap, SA_ONSTACK, ~(inject::bit_of(SIGSYS) | inject::bit_of(SIGTRAP))))
    tool_error("cannot handle breakpoints");
  break_into_fences();
}

void do_trapped_access(ucontext_t& context) {
  check_nothing_is_pending();
  Instruction i;
  const auto at = static_cast<std::uint64_t>(rip(context));
  if (!decode(at, *reinterpret_cast<const std::uint8_t*>(at), i))
    user_error(fmt::format("crashcut pmem --trap cannot decode the instruction at {}, which touches persistent memory",
                           name_place(at + 1)));
  do_instruction(i, context);
}

}  // namespace crashcut::inprocess
