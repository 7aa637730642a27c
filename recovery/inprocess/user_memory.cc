#include "recovery/inprocess/user_memory.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>

#include "inject/gate.h"
#include "recovery/inprocess/runtime.h"

// Each touches one byte and returns 0; the handler sends one that faults on to crashcut_touch_failed.
asm(R"(
  .pushsection .text
  .globl crashcut_touch_to_read, crashcut_reads, crashcut_touch_to_write, crashcut_writes, crashcut_touch_failed
  .hidden crashcut_touch_to_read, crashcut_reads, crashcut_touch_to_write, crashcut_writes, crashcut_touch_failed
  .type crashcut_touch_to_read, @function
crashcut_touch_to_read:
  xorl %eax, %eax
crashcut_reads:
  movb (%rdi), %cl
  ret
  .type crashcut_touch_to_write, @function
crashcut_touch_to_write:
  xorl %eax, %eax
crashcut_writes:
  lock orb $0, (%rdi)       # changes nothing, and takes nothing back that another thread writes
  ret
crashcut_touch_failed:
  movl $1, %eax
  ret
  .popsection
)");
extern "C" {
int crashcut_touch_to_read(std::uint64_t address);
int crashcut_touch_to_write(std::uint64_t address);
extern const char crashcut_reads[] __attribute__((visibility("hidden")));
extern const char crashcut_writes[] __attribute__((visibility("hidden")));
extern const char crashcut_touch_failed[] __attribute__((visibility("hidden")));
}

namespace crashcut::inprocess {

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS};
constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kTouchedMost = kPage;  // of a buffer to be filled

enum class Faults { kTrusted, kCaught, kAsked };
constinit Faults g_faults = Faults::kTrusted;
// What of the program's memory the model may write to without having touched it.
constinit std::uint64_t g_lent_begin = 0, g_lent_end = 0;

using inject::bit_of;

// The program's own action for SIGSEGV, where ours stays in front of it: with persistent memory, an access that is not
// instrumented is never the program's to handle.
constinit inject::KernelSigaction g_behind{};
// As the kernel would, but on our stack frame. The handler may leave by siglongjmp().
void call_program(int signal, siginfo_t* info, void* ucontext) {
  const inject::KernelSigaction action = g_behind;
  if ((action.flags & SA_RESETHAND) != 0) g_behind = {};
  std::uint64_t mask = *reinterpret_cast<const std::uint64_t*>(&static_cast<ucontext_t*>(ucontext)->uc_sigmask);
  mask = (mask | action.mask | ((action.flags & SA_NODEFER) != 0 ? 0 : bit_of(signal))) & ~bit_of(SIGSYS);
  kernel(SYS_rt_sigprocmask, SIG_SETMASK, &mask, 0, 8);
  reinterpret_cast<inject::SignalHandler>(action.handler)(signal, info, ucontext);
}

void on_fault(int signal, siginfo_t* info, void* ucontext) {
  if (signal == SIGSEGV && inject::do_fault(*info, ucontext)) return;
  auto& regs = static_cast<ucontext_t*>(ucontext)->uc_mcontext.gregs;
  const bool is_from_elsewhere = info->si_code <= 0;  // sent by kill() and the like
  const greg_t at = regs[REG_RIP];
  if (!is_from_elsewhere &&
      (at == reinterpret_cast<greg_t>(crashcut_reads) || at == reinterpret_cast<greg_t>(crashcut_writes))) {
    regs[REG_RIP] = reinterpret_cast<greg_t>(crashcut_touch_failed);
    return;
  }
  const auto address = reinterpret_cast<std::uint64_t>(info->si_addr);
  const bool is_in_runtime = g.slot != nullptr && g.slot->in_runtime.load(std::memory_order_relaxed) != 0;
  if (is_from_elsewhere && is_in_runtime) {
    // Comes again when the call has been done.
    *reinterpret_cast<std::uint64_t*>(&static_cast<ucontext_t*>(ucontext)->uc_sigmask) |= bit_of(signal);
  } else if (g_behind.handler != nullptr && !is_in_runtime) {
    return call_program(signal, info, ucontext);
  } else {
    // As without us: back there it happens again.
    if (is_in_runtime && address >= g_lent_begin && address < g_lent_end)
      g.slot->in_runtime.store(0, std::memory_order_relaxed);
    const inject::KernelSigaction standard{};
    kernel(SYS_rt_sigaction, signal, &standard, 0, 8);
  }
  if (is_from_elsewhere) kernel(SYS_tgkill, kernel(SYS_getpid), kernel(SYS_gettid), signal);
}

bool install(int signal) {
  return inject::install_handler(signal, on_fault, SA_ONSTACK, ~(bit_of(SIGSYS) | bit_of(SIGTRAP)));
}

bool is_installed(int signal) {
  inject::KernelSigaction now{};
  return kernel(SYS_rt_sigaction, signal, 0, &now, 8) == 0 && now.handler == reinterpret_cast<void*>(on_fault);
}

// A mask that it cannot set, read from there: the kernel says EINVAL to it, and EFAULT before.
bool ask_to_read(std::uint64_t address) {
  return kernel(SYS_rt_sigprocmask, -1, address & ~std::uint64_t{7}, 0, 8) != -EFAULT;
}

// Adds no bit to the word there, in one step, for nobody who waits.
bool ask_to_write(std::uint64_t address) {
  std::uint32_t own = 0;
  constexpr long kAddNoBit = FUTEX_OP_OR << 28 | FUTEX_OP_CMP_LT << 24;
  return kernel(SYS_futex, &own, FUTEX_WAKE_OP_PRIVATE, 0, 0, address & ~std::uint64_t{3}, kAddNoBit) != -EFAULT;
}

template <bool kWrites>
bool is_good(std::uint64_t address) {
  if (g_faults == Faults::kAsked) return kWrites ? ask_to_write(address) : ask_to_read(address);
  return (kWrites ? crashcut_touch_to_write(address) : crashcut_touch_to_read(address)) == 0;
}

template <bool kWrites>
std::size_t good_bytes(std::uint64_t begin, std::size_t count) {
  if (count == 0 || g_faults == Faults::kTrusted) return count;
  if (begin + count < begin) return 0;
  for (std::uint64_t at = begin; at < begin + count; at = (at / kPage + 1) * kPage) {
    if (!is_good<kWrites>(at)) return at - begin;
  }
  return count;
}

}  // namespace

std::size_t readable_bytes(const void* from, std::size_t count) {
  return good_bytes<false>(reinterpret_cast<std::uint64_t>(from), count);
}

std::size_t writable_bytes(void* to, std::size_t count) {
  const auto begin = reinterpret_cast<std::uint64_t>(to);
  const std::size_t touched = std::min(count, kTouchedMost);
  const std::size_t good = good_bytes<true>(begin, touched);
  if (good < touched || count == touched) return good;
  g_lent_begin = begin;
  g_lent_end = begin + count;
  return count;
}

long check_path(const char* path) {
  if (path == nullptr) return -EFAULT;
  if (g_faults == Faults::kTrusted) return 0;
  const auto begin = reinterpret_cast<std::uint64_t>(path);
  for (std::uint64_t at = begin; at < begin + PATH_MAX;) {
    if (!is_good<false>(at)) return -EFAULT;
    const std::uint64_t end = std::min((at / kPage + 1) * kPage, begin + PATH_MAX);
    if (std::memchr(reinterpret_cast<const void*>(at), 0, end - at) != nullptr) return 0;
    at = end;
  }
  return -ENAMETOOLONG;
}

long take(void* to, long from, std::size_t count) {
  const auto* memory = reinterpret_cast<const void*>(from);
  if (memory == nullptr || readable_bytes(memory, count) != count) return -EFAULT;
  std::memcpy(to, memory, count);
  return 0;
}

long give(long to, const void* from, std::size_t count) {
  auto* memory = reinterpret_cast<void*>(to);
  if (count == 0) return 0;
  if (memory == nullptr || writable_bytes(memory, count) != count) return -EFAULT;
  std::memcpy(memory, from, count);
  return 0;
}

void end_loans() { g_lent_end = 0; }

void catch_faults() {
  g_faults = Faults::kCaught;
  for (const int signal : kSignals) {
    inject::KernelSigaction now{};
    const bool is_default = kernel(SYS_rt_sigaction, signal, 0, &now, 8) == 0 && now.handler == nullptr;
    if (!is_default || !install(signal)) g_faults = Faults::kAsked;
  }
}

bool catches_faults() { return g_faults == Faults::kCaught; }

bool is_fault_signal(long signal) { return signal == SIGSEGV || signal == SIGBUS; }

long change_fault_action(long signal, const inject::KernelSigaction* wanted, inject::KernelSigaction* old) {
  inject::KernelSigaction before{};
  kernel(SYS_rt_sigaction, signal, 0, &before, 8);
  if (before.handler == reinterpret_cast<void*>(on_fault)) before = inject::KernelSigaction{};
  if (signal == SIGSEGV && g.header->has_memory != 0 && is_installed(SIGSEGV)) {
    if (old != nullptr) *old = g_behind;
    // SIG_IGN: the kernel does not let a fault be ignored.
    if (wanted != nullptr)
      g_behind = wanted->handler == reinterpret_cast<void*>(SIG_IGN) ? inject::KernelSigaction{} : *wanted;
    return 0;
  }
  if (wanted != nullptr) {
    const bool is_default = wanted->handler == nullptr;
    if (!is_default && signal == SIGSEGV) inject::tell_models(&inject::Model::leave_faults);
    if (is_default) install(static_cast<int>(signal));
    const long result = is_default ? 0 : kernel(SYS_rt_sigaction, signal, wanted, 0, 8);
    if (result != 0) return result;
  }
  if (old != nullptr) *old = before;
  g_faults = is_installed(SIGSEGV) && is_installed(SIGBUS) ? Faults::kCaught : Faults::kAsked;
  return 0;
}

void trust_program() {
  g_faults = Faults::kTrusted;
  const inject::KernelSigaction standard{};
  for (const int signal : kSignals) {
    if (is_installed(signal)) kernel(SYS_rt_sigaction, signal, &standard, 0, 8);
  }
}

}  // namespace crashcut::inprocess
