// The flushes that main() may lack, for a crash that a single run has decided.
#include <fmt/format.h>

#include "pmem/repair.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

void describe_missing_flushes() {
  if (g.recorded->memory == nullptr) return;
  const pmem::Recording& recording = *g.recorded->memory;
  const pmem::DecidedEvents decided{
      [](persist::EventId e) { return decided_in_last_run(e) == Decided::kIn; },
      [](persist::EventId e) { return decided_in_last_run(e) == Decided::kOut; },
  };
  for (const pmem::FlushCandidate& candidate : pmem::find_missing_flushes(recording, decided)) {
    append_line(fmt::format("{{\"kind\":{},\"place\":{},\"after\":{},\"flushed\":{},\"lines\":{}}}",
                            static_cast<std::uint32_t>(candidate.flush.kind), candidate.flush.place,
                            json_string(recording.name_of_place(candidate.flush.place)),
                            json_string(recording.describe_address(candidate.address)), candidate.lines));
  }
  append_line(fmt::format("{{\"lost_earlier\":{}}}", pmem::has_lost_earlier(recording, decided)));
}

}  // namespace crashcut::inprocess
