#include "recovery/inprocess/missing_sync.h"

#include <fcntl.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "recovery/inprocess/front_end.h"
#include "recovery/sandbox/fd.h"

namespace crashcut::inprocess {
namespace {

using persist::AddedSync;
using persist::SyncCandidate;

std::vector<SyncCandidate> read_sync_candidates(std::string_view text) try {
  std::vector<SyncCandidate> candidates;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const nlohmann::json line = nlohmann::json::parse(text.substr(0, end));
    SyncCandidate candidate{{}, line.at("kind"), line.at("target"), line.at("place")};
    for (const auto& sync : line.at("syncs"))
      candidate.syncs.push_back({sync.at(0).get<AddedSync::Kind>(), sync.at(1), sync.at(2)});
    candidates.push_back(std::move(candidate));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return candidates;
} catch (const nlohmann::json::exception&) {
  return {};  // the reply was cut off: a story of that size has no mend
}

// For the crash of the session's last single run.
std::vector<SyncCandidate> sync_candidates(Session& session) {
  const auto text = session.find_syncs();
  return text ? read_sync_candidates(*text) : std::vector<SyncCandidate>{};
}

// Whether main() did as many operations as before: these keep their numbers.
bool is_same_program(const Execution& changed, const Execution& original) {
  return changed.kind == ExecutionKind::kEnded && changed.exit_code == original.exit_code &&
         changed.op_count == original.op_count && changed.threads_begun == original.threads_begun;
}

}  // namespace

search::Mends find_missing_syncs(const SyncSearch& search) {
  // Threads that are not scheduled need not do the same again.
  if (search.session.execution().threads_begun > 0) return {};
  if (!search.is_slow && !search.session.replay(search.path)) return {};
  const sandbox::Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  Session::Setup setup = search.setup;
  setup.stdout_fd = setup.stderr_fd = null.get();
  setup.is_late = search.is_over;
  const auto again = Session::start(setup);
  if (!again || (*again)->execution().fingerprint != search.session.execution().fingerprint) return {};
  const auto attempt = [&](std::span<const AddedSync> syncs) -> tl::expected<search::Trial, Failure> {
    setup.added_syncs.assign(syncs.begin(), syncs.end());
    auto changed = Session::start(setup);
    if (!changed) return tl::unexpected(changed.error());
    if (!is_same_program((*changed)->execution(), search.session.execution()))
      return tl::unexpected(result::users_failure("main() did something else when it was run again"));
    ProgramFrontEnd front_end(**changed, {}, search.prefixes);
    return search::explore_changed(front_end, search.plan, search.is_over,
                                   [&](const search::NarratedRun&) { return sync_candidates(**changed); });
  };
  return search::find_mends({sync_candidates(search.session), attempt, search.is_over});
}

}  // namespace crashcut::inprocess
