// The syncs that main() may lack, for a crash that a single run has decided.
#include <fmt/format.h>

#include "fusefs/repair.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

void describe_missing_syncs() {
  const auto is_in = [](persist::EventId e) { return decided_in_last_run(e) == Decided::kIn; };
  for (const persist::SyncCandidate& candidate : fusefs::find_missing_syncs(*g.recorded->files, is_in)) {
    std::string syncs;
    for (const persist::AddedSync& sync : candidate.syncs)
      syncs += fmt::format("{}[{},{},{}]", syncs.empty() ? "" : ",", static_cast<std::uint32_t>(sync.kind), sync.file,
                           sync.before);
    append_line(fmt::format("{{\"kind\":{},\"target\":{},\"place\":{},\"syncs\":[{}]}}", json_string(candidate.kind),
                            json_string(candidate.target), json_string(candidate.place), syncs));
  }
}

}  // namespace crashcut::inprocess
