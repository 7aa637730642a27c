#include "persist/moments.h"

#include <algorithm>

namespace crashcut::persist {

Moments moments_of(const Recording& recording, const Cut& cut) {
  const Log& log = cut.log();
  std::uint32_t earliest = 0;
  std::uint32_t end = static_cast<std::uint32_t>(recording.ops.size());  // one past the latest
  for (EventId e = 0; e < log.event_count(); ++e) {
    if (cut.is_in(e)) earliest = std::max(earliest, log.op(e));
    if (cut.is_out(e) && recording.is_sync(e)) end = std::min(end, log.op(e));
  }
  // A sync of several events can be done in part: then the crash comes while it runs.
  return {earliest, std::max(earliest, end == 0 ? 0 : end - 1)};
}

}  // namespace crashcut::persist
