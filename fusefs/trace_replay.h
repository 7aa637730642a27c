// Replay: the operations of a trace, done again on a fresh Filesystem under a model.
//
// The same trace gives the same Recording each time, and the one that a Recorder beside the traced filesystem would
//   have made; times too. An operation that does not come out as the trace says makes the trace inconsistent.
// The geometry is that of `options`, not of the trace: a program may be recorded once and crashed on other sectors.
//   FALLOC_FL_COLLAPSE_RANGE and INSERT_RANGE want whole blocks, so a larger block can make a trace inconsistent.
// Threads: replays of one reader may run in several threads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tl/expected.hpp>

#include "fusefs/filesystem.h"
#include "fusefs/recorder.h"
#include "fusefs/trace.h"

namespace crashcut::fusefs {

// What a trace may cost: a record of a few bytes can ask for a file of terabytes.
struct ReplayLimits {
  std::uint64_t capacity_bytes = std::uint64_t{1} << 34;  // of the filesystem, at most
  std::uint64_t gap_units = std::uint64_t{1} << 24;       // blocks that are moved; `paper`: sectors of holes too
  // What the recording may take. Where it takes more, it ends there, as if the program had been stopped; 0: no limit.
  std::uint64_t memory_bytes = 0;
  std::function<bool()> should_stop{};  // asked now and then; the replay ends when it says so. None: never.
};

// Both refer to the trace's bytes and keep them mapped.
struct Replayed {
  std::unique_ptr<Recorder> recorder;      // sealed
  std::unique_ptr<Filesystem> filesystem;  // as it was at the end; to look at only: what is sealed takes no events
  std::optional<TraceCut> cut{};           // where the limit of memory ended it
};

// Names for marks: one that is made again is another one. "saved", "saved (2)".
class MarkNames {
 public:
  std::string next(const std::string& text);

 private:
  std::map<std::string, std::uint64_t> counts_;
};

// A sentence that names the operation, counted from 1.
struct ReplayError {
  std::string sentence;
  bool is_limit = false;     // of the replay; otherwise the trace says what cannot be
  bool was_stopped = false;  // by ReplayLimits::should_stop
};

// `added` are syncs that the program did not do.
tl::expected<Replayed, ReplayError> replay(const TraceReader& trace, const ModelOptions& options,
                                           const ReplayLimits& limits = {},
                                           std::span<const persist::AddedSync> added = {});

// The same without a model: the files alone. `geometry` is what replay() is called with. The hooks may look at the
// files, and change nothing.
struct ReplayHooks {
  std::function<void(const TraceOp& op, const std::string& text, Filesystem& filesystem)>
      on_op;  // after each, in words
  std::function<void(Filesystem& filesystem)> on_end;
};
tl::expected<void, ReplayError> replay_files(const TraceReader& trace, const ModelOptions& geometry,
                                             const ReplayHooks& hooks, const ReplayLimits& limits = {});

}  // namespace crashcut::fusefs
