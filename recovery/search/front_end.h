// FrontEnd: what the search asks of a way to run programs: a recording, and recoveries on the states that a crash can
// leave of it.
//
// A front end brings two classes. The FrontEnd lives in crashcut: it knows the recording and starts workers. The
//   Recoverer lives in a worker, a process of its own, and runs one recovery at a time. By that alone it has all of the
//   search: several cores, crashes in a row, budgets, seeds, samples, estimates, resuming, the smallest counterexample,
//   tokens and reports. A front end that has a faster way to run many recoveries brings a Worker (worker.h) instead of
//   a Recoverer.
// Invariant: a recovery is a function of the answers that its chooser gave. The search notices a recovery that is not,
//   and says so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "persist/cut.h"
#include "persist/recording.h"
#include "recovery/result/failure.h"
#include "recovery/result/result.h"
#include "recovery/result/token.h"

namespace crashcut::search {

using result::Failure;

// A crash that is decided as far as recoveries have read.
struct Crash {
  const persist::Recording* recording;
  persist::Cut* cut;
};

// What a recovery came to.
struct Ending {
  enum class Kind {
    kFine,
    kAssumedAway,  // the user does not ask about this state
    kViolation,
    kNotRun,   // it could not be run, others can: failure
    kFailed,   // nor can any other: failure
    kStopped,  // before it was done: it counts as not begun
  };
  Kind kind = Kind::kFine;
  std::string outcome{};      // what it is called: recoveries of equal outcome are counted together
  result::Finding finding{};  // of a violation; its subject and count are filled in
  int rank = 0;               // of a violation: of several kinds the lowest is told
  bool is_slow = false;       // it ran into a limit: it is not run again to be sure
  Failure failure{result::Blame::kTool, ""};
  std::string output{}, errors{};  // what it printed
  bool output_cut = false, errors_cut = false;
  std::vector<std::string> facts{};  // counted for the front end, by its own names
  std::string own{};                 // what the front end needs to explain it

  bool is_violation() const { return kind == Kind::kViolation; }
};

// One recovery, and how it was reached.
struct Run {
  Ending ending;
  std::vector<std::uint32_t> path;  // result::kCrashAgain between crashes
  std::uint32_t events_in = 0;      // of the first crash
  std::uint32_t layer = 1;          // crashes before it
  bool diverged = false;            // it did not meet the choices that its path has
  bool has_path = true;             // false: `path` was left out, as Tally::keeps_path() said
};

// One recovery, with all that it did and saw.
struct NarratedRun {
  Run run;
  result::Story story;
};

class Recoverer {
 public:
  virtual ~Recoverer() = default;

  // Runs the recovery that answers `question` on the state that the crashes left, the last of them the newest. What it
  // reads is decided by the chooser. Where `next` is not null, what it writes is recorded, as another crash may come.
  virtual Ending recover(std::size_t question, std::span<const Crash> crashes, persist::Chooser& chooser,
                         std::shared_ptr<const persist::Recording>* next) = 0;
  // Whether it runs code of the user's: that can be crashed in turn, and may not do the same twice.
  virtual bool runs_code(std::size_t question) const = 0;
  // The files that the question is about, as a crash left them; none where it is not about files. For a story.
  virtual std::vector<result::FileView> files(std::size_t, std::span<const Crash>) { return {}; }
  // After each recovery that counts: to keep the state that it was run on. An error ends the search.
  virtual tl::expected<void, Failure> on_counted(const Run&, std::span<const Crash>) { return {}; }
};

struct Shared;
class Worker;

// What a worker needs to know when it starts.
struct WorkerSetup {
  std::uint32_t index = 0;  // of the worker
  std::uint32_t depth = 1;
  std::uint64_t seed = 0;
  Shared& shared;  // with the pool, and all other workers
};

// What the search needs to know of a recording, wherever that lives.
struct RecordingFacts {
  std::uint64_t fingerprint = 0;  // a path through a recording with another one means nothing
  std::uint64_t operations = 0, events = 0;
};

class FrontEnd {
 public:
  virtual ~FrontEnd() = default;

  virtual RecordingFacts facts() const = 0;
  // What is asked of every state, in words: "notes.txt", "recovery". Each is explored by itself.
  virtual std::vector<std::string> subjects() const = 0;
  // Whether another worker can run beside those that there are.
  virtual bool has_room(std::uint32_t worker_count) const { return worker_count < 256; }
  virtual tl::expected<std::unique_ptr<Worker>, Failure> start_worker(const WorkerSetup& setup) = 0;
  // How the program and its recovery are called in reports.
  virtual result::Names names(std::size_t) const { return {}; }
  // The violation in a sentence: what a crash can lead to, and why.
  virtual std::string explain(std::size_t question, const NarratedRun& narrated) const = 0;
  // Whether the sentence names the kind of violation. If not, the kind is printed before it.
  virtual bool names_kind() const { return false; }
  // Fills in by what the recording is found again: command, program, arguments, own.
  virtual result::Token token(std::size_t question) const = 0;
};

// The facts of a recording in this process. The fingerprint is of operations, events and their order.
RecordingFacts facts_of(const persist::Recording& recording);

}  // namespace crashcut::search
