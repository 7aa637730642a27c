#include "recovery/inprocess/memory/trap.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "inject/signals.h"
#include "persist/hash.h"
#include "recovery/inprocess/memory/accesses.h"
#include "recovery/inprocess/memory/memory.h"
#include "recovery/inprocess/memory/region_access.h"
#include "recovery/inprocess/runtime.h"
#include "recovery/inprocess/user_memory.h"
#include "scheduler/runtime/loops.h"

namespace crashcut::inprocess {

namespace {

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kOperandMost = 128;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint8_t kBreakpoint = 0xcc;
constexpr greg_t kZeroFlag = 0x40, kTrapFlag = 0x100;

// Where a copy runs. Below 2 GiB: an address of 32 bits reaches the operand, whatever the instruction.
struct Scratch {
  std::uint8_t code[kLineBytes];
  alignas(kLineBytes) std::byte operand[kStateMost + 2 * kLineBytes];  // the operand lies in it as it does in its line
};
constinit Scratch* g_scratch = nullptr;

enum class Stores { kNothing, kPlain, kPlainIfEqual, kNonTemporal, kLanes, kState };

// The instruction that is being done.
struct Pending {
  enum { kNone, kCopy, kStep } state = kNone;
  std::uint64_t address;  // of the operand
  std::size_t bytes;
  Stores stores;
  std::uint64_t next;  // instruction
  bool is_second;      // of the two times that a store of some bytes is done
  bool keeps_header;   // of what xsave stores
  const FenceSite* site;
};
constinit Pending g_pending{};

// Does the copy at crashcut_copied with these registers, which are in the kernel's order, and their flags. It has no
// use for the stack pointer.
extern "C" void crashcut_run_copied(greg_t* registers);
extern "C" {
__attribute__((visibility("hidden"))) const void* crashcut_copied = nullptr;
}
asm(R"(
  .text
  .type crashcut_run_copied, @function
crashcut_run_copied:
  .cfi_startproc
  push %rbx
  push %rbp
  push %r12
  push %r13
  push %r14
  push %r15
  push %rdi
  push 136(%rdi)
  popfq
  mov (%rdi), %r8
  mov 8(%rdi), %r9
  mov 16(%rdi), %r10
  mov 24(%rdi), %r11
  mov 32(%rdi), %r12
  mov 40(%rdi), %r13
  mov 48(%rdi), %r14
  mov 56(%rdi), %r15
  mov 72(%rdi), %rsi
  mov 80(%rdi), %rbp
  mov 88(%rdi), %rbx
  mov 96(%rdi), %rdx
  mov 104(%rdi), %rax
  mov 112(%rdi), %rcx
  mov 64(%rdi), %rdi
  call *crashcut_copied(%rip)
  pushfq
  push %rdi
  mov 16(%rsp), %rdi
  mov %r8, (%rdi)
  mov %r9, 8(%rdi)
  mov %r10, 16(%rdi)
  mov %r11, 24(%rdi)
  mov %r12, 32(%rdi)
  mov %r13, 40(%rdi)
  mov %r14, 48(%rdi)
  mov %r15, 56(%rdi)
  mov %rsi, 72(%rdi)
  mov %rbp, 80(%rdi)
  mov %rbx, 88(%rdi)
  mov %rdx, 96(%rdi)
  mov %rax, 104(%rdi)
  mov %rcx, 112(%rdi)
  pop 64(%rdi)
  pop 136(%rdi)
  pop %rdi
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbp
  pop %rbx
  cld
  ret
  .cfi_endproc
  .size crashcut_run_copied, . - crashcut_run_copied
)");

greg_t& rip(ucontext_t& context) { return context.uc_mcontext.gregs[REG_RIP]; }
std::uint64_t& blocked_by(ucontext_t& context) { return *reinterpret_cast<std::uint64_t*>(&context.uc_sigmask); }
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

ZydisRegister whole_register(ZydisRegister name) {
  const auto from = [&](ZydisRegister first) {
    return static_cast<ZydisRegister>(ZYDIS_REGISTER_RAX + (name - first));
  };
  if (name >= ZYDIS_REGISTER_AX && name <= ZYDIS_REGISTER_R15W) return from(ZYDIS_REGISTER_AX);
  if (name >= ZYDIS_REGISTER_EAX && name <= ZYDIS_REGISTER_R15D) return from(ZYDIS_REGISTER_EAX);
  return name;
}
std::uint64_t value_of(ZydisRegister name, const ucontext_t& context) {
  constexpr int kInOrder[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  if (name < ZYDIS_REGISTER_RAX || name > ZYDIS_REGISTER_R15) return 0;
  return static_cast<std::uint64_t>(context.uc_mcontext.gregs[kInOrder[name - ZYDIS_REGISTER_RAX]]);
}

// bt, bts, btr and btc with a register, which is the number of a bit at any distance from the address.
bool has_bit_string(const Instruction& i) {
  const ZydisMnemonic m = i.facts.mnemonic;
  const bool is_bit_test =
      m == ZYDIS_MNEMONIC_BT || m == ZYDIS_MNEMONIC_BTS || m == ZYDIS_MNEMONIC_BTR || m == ZYDIS_MNEMONIC_BTC;
  return is_bit_test && i.operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER;
}
std::int64_t bit_index(const Instruction& i, const ucontext_t& context) {
  const ZydisDecodedOperand& operand = i.operands[1];
  const auto value = static_cast<std::int64_t>(value_of(whole_register(operand.reg.value), context));
  return operand.size == 16   ? static_cast<std::int16_t>(value)
         : operand.size == 32 ? static_cast<std::int32_t>(value)
                              : value;
}

std::uint64_t address_of(const Instruction& instruction, const ZydisDecodedOperand& operand,
                         const ucontext_t& context) {
  std::uint64_t address = static_cast<std::uint64_t>(operand.mem.disp.value);
  if (operand.mem.base == ZYDIS_REGISTER_RIP) return address + instruction.address + instruction.facts.length;
  address += value_of(operand.mem.base, context) + value_of(operand.mem.index, context) * operand.mem.scale;
  // Of a bit string, the operand is the word with the bit.
  if (has_bit_string(instruction))
    address += static_cast<std::uint64_t>(bit_index(instruction, context) >> 3) & ~(operand.size / 8 - 1);
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

// A sentence's end, or null.
const char* why_not(const Instruction& i, const ZydisDecodedOperand& operand) {
  if (operand.size == 0 || operand.size % 8 != 0 || (operand.size / 8 > kOperandMost && state_bytes(i) == 0))
    return "its operand has too many bytes";
  if (operand.mem.segment == ZYDIS_REGISTER_FS || operand.mem.segment == ZYDIS_REGISTER_GS)
    return "its address is relative to a segment";
  if (i.facts.address_width != 64) return "its address has 32 bits";
  return nullptr;
}

// The instruction with `operand` in place of its memory operand, then `end`.
void write_copy(const Instruction& i, const ucontext_t& context, std::uint64_t operand, std::uint8_t end) {
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
    std::uint8_t reg = raw.modrm.reg;
    if (has_bit_string(i)) {  // with the bit's number in the word instead
      reg = static_cast<std::uint8_t>(code[count - 1] >> 3 & 7);
      code[count - 1] = 0xba;
    }
    // Neither base nor index, so nothing may make the index r12.
    if ((i.facts.attributes & ZYDIS_ATTRIB_HAS_REX) != 0) code[raw.rex.offset] &= static_cast<std::uint8_t>(~2);
    if (i.facts.encoding == ZYDIS_INSTRUCTION_ENCODING_VEX && raw.vex.size == 3) code[raw.vex.offset + 1] |= 0x40;
    if (i.facts.encoding == ZYDIS_INSTRUCTION_ENCODING_EVEX) code[raw.evex.offset + 1] |= 0x40;
    const std::uint8_t modrm_and_sib[] = {static_cast<std::uint8_t>(reg << 3 | 4), 0x25};
    put(modrm_and_sib, sizeof modrm_and_sib);
    const auto displacement = static_cast<std::uint32_t>(operand);
    put(&displacement, sizeof displacement);
    std::size_t rest = raw.modrm.offset + 1u;
    if ((i.facts.attributes & ZYDIS_ATTRIB_HAS_SIB) != 0) ++rest;
    rest += raw.disp.size / 8u;
    put(i.bytes + rest, i.facts.length - rest);
    if (has_bit_string(i)) code[count++] = static_cast<std::uint8_t>(bit_index(i, context) & (i.operands[0].size - 1));
  }
  code[count++] = end;
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

// A store only if the zero flag is set afterwards.
bool is_compare_exchange(const Instruction& i) {
  switch (i.facts.mnemonic) {
    case ZYDIS_MNEMONIC_CMPXCHG:
    case ZYDIS_MNEMONIC_CMPXCHG8B:
    case ZYDIS_MNEMONIC_CMPXCHG16B:
      return true;
    default:
      return false;
  }
}

// A store of some lanes, or of as many as a mask has bits.
bool is_masked(const Instruction& i) {
  const auto mode = i.facts.avx.mask.mode;
  return masked_lane_bytes(i.facts.mnemonic) != 0 ||
         (mode != ZYDIS_MASK_MODE_INVALID && mode != ZYDIS_MASK_MODE_DISABLED);
}

Stores stores_of(const Instruction& i, const ZydisDecodedOperand& operand) {
  if (is_compare_exchange(i)) return Stores::kPlainIfEqual;
  if ((operand.actions & ZYDIS_OPERAND_ACTION_MASK_WRITE) == 0) return Stores::kNothing;
  if (state_bytes(i) != 0) return Stores::kState;
  if (is_masked(i)) return Stores::kLanes;
  return is_non_temporal(i.facts.mnemonic) ? Stores::kNonTemporal : Stores::kPlain;
}

bool uses_stack_pointer(const Instruction& i) {
  return std::any_of(i.operands, i.operands + i.facts.operand_count_visible, [](const ZydisDecodedOperand& o) {
    return o.type == ZYDIS_OPERAND_TYPE_REGISTER &&
           (o.reg.value == ZYDIS_REGISTER_RSP || o.reg.value == ZYDIS_REGISTER_ESP || o.reg.value == ZYDIS_REGISTER_SP);
  });
}

// For loops that wait (scheduler/runtime/loops.h): all registers count, and what is below the stack pointer may be in
// use. The stack pointer stays itself.
void note_registers(const ucontext_t& context) {
  constexpr std::uint64_t kRedZoneBytes = 128;
  const gregset_t& now = context.uc_mcontext.gregs;
  auto& noted = scheduler::runtime::crashcut_entry_registers;
  constexpr int kKept[] = {REG_RBX, REG_RBP, REG_R12, REG_R13, REG_R14, REG_R15};
  for (std::size_t i = 0; i < std::size(kKept); ++i) noted[i] = static_cast<std::uint64_t>(now[kKept[i]]);
  for (const int other : {REG_RAX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_R8, REG_R9, REG_R10, REG_R11, REG_RIP})
    noted[0] = persist::mix(noted[0], static_cast<std::uint64_t>(now[other]));
  for (const auto& vector : context.uc_mcontext.fpregs->_xmm) {
    for (const auto part : vector.element) noted[0] = persist::mix(noted[0], part);
  }
  noted[std::size(kKept)] = static_cast<std::uint64_t>(now[REG_RSP]) - kRedZoneBytes;
}

// A locked instruction, whole: no other thread goes on between its load and its store.
void do_locked(const Instruction& i, const ZydisDecodedOperand& operand, std::uint64_t address, ucontext_t& context) {
  constexpr std::uint8_t kReturn = 0xc3;
  if (const char* why = why_not(i, operand)) refuse(i, why);
  if (uses_stack_pointer(i)) refuse(i, "it stores the stack pointer");
  gregset_t& registers = context.uc_mcontext.gregs;
  const std::size_t bytes = operand.size / 8;
  std::byte* copy = g_scratch->operand + address % kLineBytes;
  const auto decide = [&](std::span<const std::byte> found) {
    std::memcpy(copy, found.data(), bytes);
    write_copy(i, context, reinterpret_cast<std::uint64_t>(copy), kReturn);
    crashcut_copied = g_scratch->code;
    const bool was_own_code = std::exchange(inject::t_is_own_code, true);  // no thread is switched away from here
    crashcut_run_copied(registers);
    inject::t_is_own_code = was_own_code;
    const bool is_stored = !is_compare_exchange(i) || (registers[REG_EFL] & kZeroFlag) != 0;
    return std::span<const std::byte>(copy, is_stored ? bytes : 0);
  };
  Memory::lock(pointer_to(address), bytes, decide, place_after(i));
  rip(context) += i.facts.length;
}

// From here the processor does the instruction; the breakpoint after it calls end_copy(). In between no other thread
// may go on, so crashcut's wish that it does (a SIGSYS) waits.
void begin_copy(const Instruction& i, const ZydisDecodedOperand& operand, std::uint64_t address, ucontext_t& context) {
  if (const char* why = why_not(i, operand)) refuse(i, why);
  const std::size_t state = state_bytes(i), bytes = state != 0 ? state : operand.size / 8;
  std::byte* copy = g_scratch->operand + address % kLineBytes;
  const bool reads = (operand.actions & ZYDIS_OPERAND_ACTION_MASK_READ) != 0;
  if (state != 0) {
    load_state(i, address, copy);
  } else {
    std::byte found[kOperandMost] = {};
    if (reads) load_operand(address, found, bytes, place_after(i));
    std::memcpy(copy, found, bytes);
  }
  write_copy(i, context, reinterpret_cast<std::uint64_t>(copy), kBreakpoint);
  g_pending = {Pending::kCopy, address, bytes,  stores_of(i, operand), i.address + i.facts.length,
               false,          reads,   nullptr};
  rip(context) = reinterpret_cast<greg_t>(g_scratch->code);
  blocked_by(context) |= inject::bit_of(SIGSYS);
}

// A store of some bytes is done twice, over zeros and over ones: what differs then was not stored.
constinit std::byte g_over_zeros[kStateMost];
void do_again(ucontext_t& context) {
  std::byte* copy = g_scratch->operand + g_pending.address % kLineBytes;
  std::memcpy(g_over_zeros, copy, g_pending.bytes);
  if (g_pending.stores == Stores::kState) {
    fill_state(copy, g_pending.bytes, g_pending.keeps_header);
  } else {
    std::memset(copy, 0xff, g_pending.bytes);
  }
  g_pending.is_second = true;
  rip(context) = reinterpret_cast<greg_t>(g_scratch->code);
}

void end_copy(ucontext_t& context) {
  const bool is_partial = g_pending.stores == Stores::kLanes || g_pending.stores == Stores::kState;
  if (is_partial && !g_pending.is_second) return do_again(context);
  const Pending done = g_pending;
  g_pending.state = Pending::kNone;
  blocked_by(context) &= ~inject::bit_of(SIGSYS);
  // Threads that go on in between make system calls.
  constexpr std::uint64_t kSystemCalls = inject::bit_of(SIGSYS);
  if (threaded() != nullptr) kernel(SYS_rt_sigprocmask, SIG_UNBLOCK, &kSystemCalls, nullptr, sizeof kSystemCalls);
  std::byte copy[kOperandMost];
  const std::byte* over_ones = g_scratch->operand + done.address % kLineBytes;
  std::memcpy(copy, over_ones, std::min(done.bytes, sizeof copy));
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
      return Memory::store_whole(at, copy, done.bytes, code);
    case Stores::kLanes:
    case Stores::kState:
      return store_what_is_alike(done.address, {g_over_zeros, done.bytes}, over_ones, code);
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
  const std::uint64_t from = address_of(i, i.operands[1], context), to = value_of(i.operands[0].reg.value, context);
  if (to % sizeof bytes != 0) refuse(i, "its destination is not aligned");
  Memory::load(pointer_to(from), bytes, sizeof bytes, place_after(i));
  Memory::store_nt(pointer_to(to), bytes, sizeof bytes, 1, place_after(i));
  rip(context) += i.facts.length;
}

// The instruction at the program counter, which accesses a region.
void do_instruction(const Instruction& i, ucontext_t& context) {
  if (threaded() != nullptr) note_registers(context);
  if (do_string_instruction(i, context)) return;
  if (i.facts.mnemonic == ZYDIS_MNEMONIC_MOVDIR64B) return do_movdir64b(i, context);
  const ZydisDecodedOperand* operand = i.memory();
  const std::uint64_t address = operand == nullptr ? 0 : address_of(i, *operand, context);
  if (do_lanes(i, address, context)) return;
  if (operand == nullptr) refuse(i, "its operand is implicit");
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
      if (is_locked(i)) return do_locked(i, *operand, address, context);
      return begin_copy(i, *operand, address, context);
  }
  rip(context) += i.facts.length;
}

// ---- breakpoints

// A locked instruction on ordinary memory is done where it is, or is a step of its thread.
void begin_step(const FenceSite& site, ucontext_t& context) {
  set_breakpoint(site, false);
  g_pending = {Pending::kStep, 0, 0, Stores::kNothing, 0, false, false, &site};
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
    if (inject::t_is_own_code) return begin_step(site, context);
    const std::uint64_t address = address_of(i, *operand, context);
    if (is_in_window(address)) return do_instruction(i, context);
    if (threaded() != nullptr && site.is_step && readable_bytes(pointer_to(address), operand->size / 8) > 0)
      return note_registers(context), do_locked(i, *operand, address, context);
    Memory::mfence(place_after(i));
    return begin_step(site, context);
  }
  if (!inject::t_is_own_code)
    i.facts.mnemonic == ZYDIS_MNEMONIC_SFENCE ? Memory::sfence(place_after(i)) : Memory::mfence(place_after(i));
  rip(context) += i.facts.length;
}

void on_trap(int, siginfo_t* info, void* ucontext) {
  if (do_trap(*info, *static_cast<ucontext_t*>(ucontext))) return;
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
  find_saved_vectors();
  find_state_bytes();
  // Open while it runs: what system calls and locked instructions our own code has.
  if (!inject::install_handler(SIGTRAP, on_trap, SA_ONSTACK, ~(inject::bit_of(SIGSYS) | inject::bit_of(SIGTRAP))))
    tool_error("cannot handle breakpoints");
  break_into_fences();
}

bool do_trap(const siginfo_t& info, ucontext_t& context) {
  const auto at = static_cast<std::uint64_t>(rip(context));
  const bool is_in_copy = at - reinterpret_cast<std::uint64_t>(g_scratch) <= sizeof g_scratch->code;
  if (g_pending.state == Pending::kCopy && is_in_copy) return end_copy(context), true;
  if (g_pending.state == Pending::kStep && info.si_code == TRAP_TRACE) return end_step(context), true;
  const FenceSite* site = info.si_code == SI_KERNEL ? find_fence(at - 1) : nullptr;
  if (site == nullptr) return false;
  check_nothing_is_pending();
  do_fence(*site, context);
  return true;
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
