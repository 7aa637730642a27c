// Where main() or a recovery waits for a debugger (crashcut gdb).
//
// Persistent memory is not at its address: the model has its bytes. So that the debugger finds them there, they are
// written into the window before the program waits. The window stays without access rights, which a debugger does not
// need. After a crash, bytes that the recovery has not loaded yet are not decided, and are left zero.
#include "scheduler/runtime/hold.h"

#include <sys/mman.h>

#include <cstring>

#include "recovery/inprocess/explorer.h"
#include "recovery/inprocess/memory/memory.h"
#include "recovery/inprocess/memory/region_access.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

constinit bool g_is_held = false;

namespace {

constexpr std::uint64_t kPage = 4096;

void show_line(std::uint64_t address, std::span<const std::byte, pmem::kLineBytes> bytes) {
  const std::uint64_t page = address / kPage * kPage;
  if (kernel(SYS_mprotect, page, kPage, PROT_READ | PROT_WRITE) != 0) return;
  std::memcpy(reinterpret_cast<void*>(address), bytes.data(), bytes.size());
  kernel(SYS_mprotect, page, kPage, PROT_NONE);
}

void show_memory() {
  if (g_phase == Phase::kExecuting && is_recording()) {
    std::vector<std::uint64_t> used;
    recorder().recording().lines.for_each([&](std::uint64_t line, const auto&) { used.push_back(line); });
    for (const std::uint64_t line : used) {
      std::byte bytes[pmem::kLineBytes];
      recorder().load(0, line, bytes);
      show_line(line, bytes);
    }
  } else if (g_phase == Phase::kRecovering && g_explorer->memory() != nullptr) {
    g_explorer->memory()->for_each_decided_line(show_line);
  }
}

// On the program's stack, if it is the program that called.
void hold() {
  scheduler::runtime::wait_for_debugger([] { g.header->held_pid = static_cast<std::int32_t>(kernel(SYS_getpid)); });
}

}  // namespace

void hold_after_operation() {
  const bool is_there = g_phase == Phase::kExecuting && g.model != nullptr && g.model->recorder != nullptr &&
                        g.model->recorder->recording().ops.size() > g.header->hold_operation;
  if (!is_there) return;
  g_is_held = false;
  in_model([] { show_memory(); });
  hold();
}

void hold_after_answers(std::uint32_t count) {
  if (g.header->hold_answer != kHoldsAtBegin + count || !g.narrating) return;
  in_model([] { show_memory(); });
  hold();
}

}  // namespace crashcut::inprocess
