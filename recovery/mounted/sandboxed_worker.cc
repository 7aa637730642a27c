#include "recovery/mounted/sandboxed_worker.h"

#include <sched.h>

namespace crashcut::mounted {

std::optional<int> stay_on_core(std::uint32_t worker_index) {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) != 0 || CPU_COUNT(&cores) == 0) return std::nullopt;
  std::uint32_t skip = worker_index % static_cast<std::uint32_t>(CPU_COUNT(&cores));
  int at = 0;
  while (!CPU_ISSET(at, &cores) || skip-- > 0) ++at;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(at, &one);
  sched_setaffinity(0, sizeof one, &one);
  return at;
}

}  // namespace crashcut::mounted
