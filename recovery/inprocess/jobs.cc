#include <sched.h>

#include <cstring>

#include "inject/gate.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

namespace {
// The cores that we may use, beginning with the one that this process was on.
constinit std::uint16_t g_cores[kJobsMost] = {};
constinit std::uint32_t g_core_count = 0;
}  // namespace

// A child on another core than its parent costs half as much again to start (cold caches, a wake-up across
// cores), so a job and all that it forks stay on one core.
void set_up_jobs() {
  std::uint64_t allowed[128] = {};
  const long bytes = kernel(SYS_sched_getaffinity, 0, sizeof allowed, allowed);
  unsigned current = 0;
  kernel(SYS_getcpu, &current, 0, 0);
  g_core_count = 0;
  if (bytes <= 0) return;
  const unsigned count = static_cast<unsigned>(bytes) * 8;
  for (unsigned i = 0; i < count && g_core_count < kJobsMost; ++i) {
    const unsigned core = (current + i) % count;
    if ((allowed[core / 64] >> (core % 64) & 1) != 0) g_cores[g_core_count++] = static_cast<std::uint16_t>(core);
  }
}

void pin_to_job(std::uint32_t job) {
  if (g_core_count == 0) return;
  const unsigned core = g_cores[job % g_core_count];
  std::uint64_t mask[128] = {};
  mask[core / 64] = std::uint64_t{1} << (core % 64);
  kernel(SYS_sched_setaffinity, 0, sizeof mask, mask);
}

}  // namespace crashcut::inprocess
