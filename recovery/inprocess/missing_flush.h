// MissingFlush: the flush or fence that makes a violation go away, found by trying it on the recording.
//
// The program itself names candidates (pmem/repair.h) for the crash that led to the violation. Each is tried by
//   exploring all recoveries with it, up to the first that fails. Of these the first without a failure is told. What a
//   stronger order leaves is a part of what was explored before, so that costs no more than the search did.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>

#include "recovery/inprocess/prefixes.h"
#include "recovery/inprocess/session.h"
#include "recovery/result/result.h"

namespace crashcut::inprocess {

struct FlushSearch {
  Session& session;
  const Prefixes* prefixes;             // what recoveries may print; null if that is not asked
  std::span<const std::uint32_t> path;  // of the violation
  bool is_slow = false;                 // the violation hung; it was the last single run of the session
  std::uint64_t max_recoveries = 0;     // with each candidate; 0: no bound
  std::function<bool()> is_over;        // there is no time left
  // Where there are several threads: runs main() again by the same schedule, with the flushes that were added to the
  // session. Empty: what main() recorded is enough.
  std::function<tl::expected<void, Failure>()> record_again{};
};

struct FoundFlush {
  std::optional<result::Mend> mend{};
  std::string why_none{};  // a sentence, if there is none
};
// Its texts have places as pmem/recording.h has them: "{/path/of/file+0x1234}".
tl::expected<FoundFlush, Failure> find_missing_flush(const FlushSearch& search);

}  // namespace crashcut::inprocess
