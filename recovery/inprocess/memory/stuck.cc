#include "recovery/inprocess/memory/stuck.h"

#include <sys/prctl.h>

#include <cstring>
#include <utility>

#include "inject/arena.h"
#include "inject/gate.h"
#include "inject/memory_hash.h"
#include "inject/model.h"
#include "recovery/inprocess/explorer.h"
#include "recovery/inprocess/memory/trap.h"
#include "scheduler/runtime/loops.h"

namespace crashcut::inprocess {

constinit std::int64_t g_loads_to_look = INT64_MAX;
constinit bool g_is_looking = false;

namespace {

using inject::MemoryHash;
using scheduler::runtime::crashcut_entry_registers;

constexpr std::int64_t kFirstLoads = 1 << 16;
constexpr std::int64_t kLoadsOfACall = 1 << 10;  // a call that waits is worth so many
constexpr std::uint64_t kBytesMost = 64 << 20;
constexpr std::uint32_t kHashesMost = 16;  // in one window of loads

struct Registers {
  std::uint64_t general[7];
  std::uint64_t address, operands;
  std::uint32_t vector_control;
  std::uint16_t control;
  bool operator==(const Registers&) const = default;
};
struct State {
  Registers registers;
  MemoryHash stack, memory;
  std::uint64_t changes;  // of persistent memory, so far
};

constinit State g_state{};                      // that the recovery may come back to
constinit std::int64_t g_window = kFirstLoads;  // so many loads until it is looked for, and then until it is given up
constinit std::int64_t g_window_left = 0;
constinit std::uint32_t g_hashes_left = 0;
constinit bool g_has_state = false;
char g_maps[128 * 1024];

// All private memory that the program can write, the stack from there up. False: it is too much.
bool hash_memory(std::uint64_t stack_pointer, MemoryHash& hash) {
  const inject::AddressRange left_out[] = {inject::own_library(), inject::whole_private_arena(), inject::model_stack()};
  std::uint64_t bytes = 0;
  hash = {};
  return inject::for_each_mapping(g_maps, left_out, [&](const inject::Mapping& m) {
    const std::uint64_t begin = m.is_stack ? stack_pointer : m.begin;
    bytes += m.end - begin;
    if (bytes > kBytesMost) return false;
    hash.add(begin, m.end);
    return true;
  });
}

bool is_on_main_stack(std::uint64_t address) {
  const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  return address >= here && address < reinterpret_cast<std::uint64_t>(g.envp) && address % 8 == 0;
}

// All but what main() was given. Tells most rounds that are none without a look at all memory.
MemoryHash hash_stack(std::uint64_t stack_pointer) {
  MemoryHash hash;
  hash.add(stack_pointer, reinterpret_cast<std::uint64_t>(g.envp));
  return hash;
}

std::uint64_t count_changes() {
  std::uint64_t changes = g_explorer->memory()->change_count();
  if (g.model->memory != nullptr) changes += g.model->memory->recording().log.event_count();
  return changes;
}

bool set_clock_faults(bool on) { return kernel(SYS_prctl, PR_SET_TSC, on ? PR_TSC_SIGSEGV : PR_TSC_ENABLE) == 0; }

void keep_state(const Registers& registers) {
  g_state.registers = registers;
  g_state.changes = count_changes();
  g_state.stack = hash_stack(registers.general[6]);
  if (!hash_memory(registers.general[6], g_state.memory) || !set_clock_faults(true)) return stop_watching();
  g_has_state = true;
  g_window_left = std::exchange(g_window, 2 * g_window);
  g_hashes_left = kHashesMost;
}

// The round has come to where it began, with the same registers.
bool is_same_state() {
  if (count_changes() != g_state.changes) return false;
  if (!(hash_stack(g_state.registers.general[6]) == g_state.stack)) return false;
  --g_hashes_left;
  MemoryHash memory;
  return hash_memory(g_state.registers.general[6], memory) && memory == g_state.memory;
}

[[noreturn]] void end_stuck_recovery() {
  stop_watching();
  in_model([] { finish_recovery(Outcome::kStuck, 0); });
  __builtin_unreachable();
}

}  // namespace

void watch_for_rounds() {
  if (g.header->has_memory == 0 || is_trapping()) return;
  g_loads_to_look = g_window = kFirstLoads;
}

void look_for_round(std::uint64_t address, std::uint64_t operands, const void* code) {
  if (inject::has_own_handlers() || g.threads != 1) return stop_watching();
  g_loads_to_look = 1;  // every load is looked at
  const std::uint64_t entry = std::exchange(crashcut_entry_registers[6], 0);
  if (!std::exchange(g_is_looking, true)) return;  // the registers of this load were not noted
  if (g_has_state && --g_window_left < 0) return end_round();
  // A load that came by another way has no registers noted.
  if (!is_on_main_stack(entry) || *reinterpret_cast<const void* const*>(entry) != code) return;
  Registers registers{{}, address, operands, 0, 0};
  std::memcpy(registers.general, crashcut_entry_registers, sizeof registers.general);
  registers.general[6] = entry;
  asm("stmxcsr %0" : "=m"(registers.vector_control));
  asm("fnstcw %0" : "=m"(registers.control));
  if (!g_has_state) return keep_state(registers);
  if (!(registers == g_state.registers)) return;
  if (is_same_state()) end_stuck_recovery();
  if (g_hashes_left == 0) end_round();
}

void forget_registers() { crashcut_entry_registers[6] = 0; }

void note_call_in_round(long number) {
  if (number != SYS_sched_yield && number != SYS_nanosleep && number != SYS_clock_nanosleep) return end_round();
  if (!g_is_looking) g_loads_to_look -= kLoadsOfACall;
}

void end_round() {
  if (g_has_state) set_clock_faults(false);
  if (g_is_looking) g_loads_to_look = g_window;
  g_has_state = g_is_looking = false;
}

void stop_watching() {
  end_round();
  g_loads_to_look = INT64_MAX;
}

bool is_clock_fault(const siginfo_t& info) {
  if (!g_has_state || info.si_code != SI_KERNEL || info.si_addr != nullptr) return false;
  stop_watching();
  return true;
}

}  // namespace crashcut::inprocess
