// Instructions that ask the processor for what changes from run to run: the time stamp counter, and which processor it
// is.
#include <cpuid.h>
#include <sys/prctl.h>
#include <ucontext.h>

#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/machine.h"

namespace crashcut::scheduler::runtime {

namespace {

constexpr long kCpuidFault = 0x1012;  // ARCH_CPUID_FAULT of asm/prctl.h
enum : long { kCpuidTraps = 0, kCpuidRuns = 1 };

constexpr unsigned bit(int number) { return 1u << number; }

// What the program must not find: random numbers from the processor, which cannot be trapped; transactions, whose
// aborts come by chance; rdpid and waits for a time stamp, which are not trapped; and the number of the processor.
void hide(unsigned leaf, unsigned subleaf, unsigned (&r)[4]) {
  enum { kEax, kEbx, kEcx, kEdx };
  if (leaf == 1) {
    r[kEbx] &= 0x00ffffff;  // the number of the processor
    r[kEcx] &= ~bit(30);    // rdrand
  }
  if (leaf == 7 && subleaf == 0) {
    r[kEbx] &= ~(bit(4) | bit(11) | bit(18));  // HLE, RTM, rdseed
    r[kEcx] &= ~(bit(5) | bit(22));            // WAITPKG, rdpid
  }
  if (leaf == 0xb || leaf == 0x1f) r[kEdx] = 0;  // the number of the processor
  if (leaf == 0x8000001e) r[kEax] = 0;           // the same, AMD's
}

void emulate_cpuid(greg_t* regs) {
  const auto leaf = static_cast<unsigned>(regs[REG_RAX]), subleaf = static_cast<unsigned>(regs[REG_RCX]);
  unsigned r[4];
  kernel(SYS_arch_prctl, kCpuidFault, kCpuidRuns);
  __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
  kernel(SYS_arch_prctl, kCpuidFault, kCpuidTraps);
  hide(leaf, subleaf, r);
  regs[REG_RAX] = r[0];
  regs[REG_RBX] = r[1];
  regs[REG_RCX] = r[2];
  regs[REG_RDX] = r[3];
}

// One tick of the counter is a nanosecond.
void emulate_rdtsc(greg_t* regs) {
  const std::uint64_t now = now_ns() - kEpoch_ns + kUptime_s * 1'000'000'000;
  regs[REG_RAX] = static_cast<std::uint32_t>(now);
  regs[REG_RDX] = static_cast<std::uint32_t>(now >> 32);
}

}  // namespace

void trap_instructions() {
  kernel(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV);
  kernel(SYS_arch_prctl, kCpuidFault, kCpuidTraps);
}

void run_instructions() {
  kernel(SYS_prctl, PR_SET_TSC, PR_TSC_ENABLE);
  kernel(SYS_arch_prctl, kCpuidFault, kCpuidRuns);
}

bool emulate_instruction(const siginfo_t& info, void* ucontext) {
  // General protection: the instruction was read, so its bytes are there. A page fault has another code.
  if (info.si_code != SI_KERNEL) return false;
  auto* regs = static_cast<ucontext_t*>(ucontext)->uc_mcontext.gregs;
  const auto* code = reinterpret_cast<const unsigned char*>(regs[REG_RIP]);
  if (code[0] != 0x0f) return false;
  if (code[1] == 0x31) {
    emulate_rdtsc(regs);
    regs[REG_RIP] += 2;
  } else if (code[1] == 0xa2) {
    emulate_cpuid(regs);
    regs[REG_RIP] += 2;
  } else if (code[1] == 0x01 && code[2] == 0xf9) {  // rdtscp
    emulate_rdtsc(regs);
    regs[REG_RCX] = 0;  // the processor's number
    regs[REG_RIP] += 3;
  } else {
    return false;
  }
  return true;
}

}  // namespace crashcut::scheduler::runtime
