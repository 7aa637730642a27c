// The flushes that main() may lack, for a crash that a single run has decided.
#include <fmt/format.h>

#include "pmem/repair.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

namespace {

// The last thing that main() did to files before a store that is there, if the crash lost it. Empty: nothing.
std::string lost_file_operation(const Recorded& recorded, const pmem::DecidedEvents& decided) {
  const persist::Log& log = recorded.whole->log;
  auto e = static_cast<persist::EventId>(log.event_count());
  while (e > 0 && !(recorded.memory->is_own(e - 1) && decided.is_in(e - 1))) --e;
  while (e-- > 0) {
    const bool is_change = !recorded.memory->is_own(e) && !recorded.files->kind_of(e).empty() &&
                           !recorded.files->is_sync(e) && !log.writes(e).empty();
    if (is_change && decided.is_out(e)) return std::string(recorded.whole->ops[log.op(e)]);
  }
  return {};
}

}  // namespace

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
  append_line(fmt::format("{{\"lost_earlier\":{},\"lost_of_files\":{}}}", pmem::has_lost_earlier(recording, decided),
                          json_string(lost_file_operation(*g.recorded, decided))));
}

}  // namespace crashcut::inprocess
