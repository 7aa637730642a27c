#include "scheduler/runtime/fiber.h"

#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "inject/process.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/protocol.h"

// rdi: where to keep our stack pointer; rsi: the other's; rdx: the other's FS base.
asm(R"(
  .text
  .globl crashcut_switch
  .hidden crashcut_switch
  .type crashcut_switch, @function
crashcut_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  wrfsbase %rdx
  movq %rsi, %rsp
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");

namespace crashcut::scheduler::runtime {

namespace {

constexpr std::uint64_t kStacksAt = 0x110000000000;
constexpr std::size_t kSlotBytes = std::size_t{64} << 20;  // of address space; the upper part is used
constexpr std::size_t kStackDefault = std::size_t{8} << 20;
constexpr std::size_t kPage = 4096;

// Offsets in libc's thread descriptor, as the ABI has them (tcbhead_t).
struct Tcb {
  void* tcb;
  void* dtv;
  void* self;
  int multiple_threads;
  int gscope_flag;
  std::uintptr_t sysinfo, stack_guard, pointer_guard;
};

void* (*g_allocate_tls)(void*) = nullptr;
void (*g_ctype_init)() = nullptr;
void (*g_call_tls_dtors)() = nullptr;
int g_tid = 0;
std::uint32_t g_slots_used = 0;

Tcb* own_tcb() { return reinterpret_cast<Tcb*>(read_fs_base()); }

}  // namespace

std::uint64_t read_fs_base() {
  std::uint64_t base;
  asm("movq %%fs:0x10, %0" : "=r"(base));
  return base;
}

inject::AddressRange stack_room() { return {kStacksAt, kStacksAt + kSlotBytes * kActorsMost}; }

bool prepare_fibers() {
  if ((getauxval(AT_HWCAP2) & 2) == 0) return false;  // FSGSBASE
  g_allocate_tls = reinterpret_cast<void* (*)(void*)>(dlsym(RTLD_DEFAULT, "_dl_allocate_tls"));
  g_ctype_init = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "__ctype_init"));
  g_call_tls_dtors = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "__call_tls_dtors"));
  g_tid = static_cast<int>(kernel(SYS_gettid));
  return g_allocate_tls != nullptr && g_ctype_init != nullptr && g_call_tls_dtors != nullptr &&
         inject::thread_id_offset() > 0;
}

void adopt_main(Fiber& fiber) { fiber.fs_base = read_fs_base(); }

bool make_fiber(Fiber& fiber, std::uint32_t slot, std::size_t stack_bytes, void (*entry)()) {
  if (stack_bytes == 0) stack_bytes = kStackDefault;
  stack_bytes = (stack_bytes + kPage - 1) / kPage * kPage + 16 * kPage;
  if (slot >= kActorsMost || stack_bytes > kSlotBytes - kPage) return false;
  char* slot_end = reinterpret_cast<char*>(kStacksAt + kSlotBytes * (slot + 1));
  fiber.stack_begin = slot_end - stack_bytes;
  fiber.stack_bytes = stack_bytes;
  // A slot once mapped stays mapped, at its largest.
  const long at = kernel(SYS_mmap, fiber.stack_begin, stack_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at != reinterpret_cast<long>(fiber.stack_begin) && at != -17 /* EEXIST: from an earlier execution */)
    return false;
  g_slots_used = g_slots_used > slot + 1 ? g_slots_used : slot + 1;
  auto* tcb = static_cast<Tcb*>(g_allocate_tls(nullptr));
  if (tcb == nullptr) return false;
  const Tcb* own = own_tcb();
  tcb->tcb = tcb->self = tcb;
  tcb->stack_guard = own->stack_guard;
  tcb->pointer_guard = own->pointer_guard;
  *reinterpret_cast<int*>(reinterpret_cast<char*>(tcb) + inject::thread_id_offset()) = g_tid;
  fiber.fs_base = reinterpret_cast<std::uint64_t>(tcb);
  // As crashcut_switch leaves it: modes, six registers, where to go on; the stack is as after a call.
  auto* top = reinterpret_cast<std::uint64_t*>(slot_end - 64);
  *--top = 0;
  *--top = reinterpret_cast<std::uint64_t>(entry);
  for (int i = 0; i < 6; ++i) *--top = 0;
  --top;
  auto* modes = reinterpret_cast<std::uint32_t*>(top);
  asm("stmxcsr %0" : "=m"(modes[0]));
  asm("fnstcw %0" : "=m"(*reinterpret_cast<std::uint16_t*>(modes + 1)));
  fiber.stack_pointer = top;
  return true;
}

void run_tls_destructors() { g_call_tls_dtors(); }

void init_fiber_locale() { g_ctype_init(); }

// Stacks are used from the top; below some pages that are all zero nothing was touched.
void clear_stacks() {
  for (std::uint32_t slot = 0; slot < g_slots_used; ++slot) {
    char* page = reinterpret_cast<char*>(kStacksAt + kSlotBytes * (slot + 1)) - kPage;
    unsigned char resident[64];
    const std::size_t room = sizeof resident * kPage;
    // Pages that were never touched are not even looked at.
    if (kernel(SYS_mincore, page + kPage - room, room, resident) != 0) continue;
    for (std::size_t i = sizeof resident; i-- > 0; page -= kPage) {
      if ((resident[i] & 1) != 0) std::memset(page, 0, kPage);
    }
  }
}

}  // namespace crashcut::scheduler::runtime
