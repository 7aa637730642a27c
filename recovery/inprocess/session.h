// Session: crashcut's end of the protocol: one program under test, executed once, then asked for recoveries.
//
// Starts the program with the runtime preloaded, in a session of its own and in an unlinked working directory. Nothing
//   survives it: the destructor kills the coordinator, whose death kills all below it (PR_SET_PDEATHSIG), as does the
//   death of this process.
// One request at a time: begin it, then call advance() until that says that it has ended. advance() is the watchdog,
//   too: call it whenever fd() is readable, and at least every 20 ms. explore(), replay(), run_cut() and describe() do
//   all that.
// Threads: one thread, except stop(), which is also safe in a signal handler.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "fusefs/profile.h"
#include "persist/added_sync.h"
#include "persist/estimate.h"
#include "recovery/inprocess/protocol.h"
#include "recovery/result/result.h"
#include "recovery/search/sampling.h"

namespace crashcut::inprocess {

using result::Failure;

struct Execution {
  ExecutionKind kind;
  int exit_code = 0;
  int signal = 0;
  std::string sentence;  // of a tool error
  Blame blame = Blame::kTool;
  std::uint64_t op_count = 0;
  std::uint64_t event_count = 0;
  std::uint64_t fingerprint = 0;
  std::uint32_t threads_begun = 0;    // beside the first
  std::uint32_t instrumentation = 0;  // Instrumentation bits
  std::uint32_t region_count = 0;     // of persistent memory
  bool wants_threads = false;         // it was not run to its end: its threads are to be scheduled
};

struct Recovery {
  RecordKind kind{};
  std::vector<std::uint32_t> path{};    // kCrashAgain between layers
  std::vector<std::uint32_t> counts{};  // of the answers of each choice
  std::string_view output;              // what it printed; valid during the callback
  std::string_view errors;
  std::string_view text;       // of a tool error
  Blame blame = Blame::kTool;  // of a tool error
  int exit_code = 0;
  int signal = 0;
  std::chrono::seconds limit{0};  // of one that hung; 0: it was not waited for, as it never ends
  std::uint32_t events_in = 0;
  std::uint32_t layer = 1;
  bool output_cut = false;
  std::uint32_t output_rest = 0;  // a hash of what was cut off
  std::uint32_t marks_reached = 0;
  bool errors_cut = false;
};

// What a single run gives: strings of the Recovery are kept here.
struct SingleRun {
  Recovery recovery;
  std::string output, errors, text;
  std::string trace;        // JSON lines, see Reply
  bool diverged = false;    // a replay that did not meet the choices of its path
  bool is_stopped = false;  // before its end: there is nothing else
};

class Session {
 public:
  struct Setup {
    std::string program;                 // an absolute path, or one relative to the working directory
    std::vector<std::string> arguments;  // argv[1] on
    std::string runtime;                 // path of libcrashcut_runtime.so
    fusefs::ModelOptions model;
    std::optional<pmem::MemoryModel> memory;  // there is persistent memory
    bool recovers_by_main = false;            // Header::recovers_by_main
    bool memory_steps = false;                // Header::memory_steps
    struct SharedMemory {
      bool has_global_flush, has_poison, poison_is_value;
    };
    std::optional<SharedMemory> shared_memory;    // Header::has_shared_memory
    bool traps = false;                           // Header::traps
    bool counts_marks = false;                    // Recovery::marks_reached
    std::uint32_t notes = 0;                      // pmem::NoteKind bits: what find_notes() tells
    std::vector<persist::AddedSync> added_syncs;  // that main() does besides its own, at most kAddedSyncsMost
    std::string from_directory;
    std::uint32_t depth = 1;
    std::uint32_t jobs = 1;
    std::uint64_t seed = 0;
    std::chrono::duration<double> time_limit{0};  // of all that start() does; 0: none
    std::chrono::nanoseconds main_limit = std::chrono::seconds(60);
    std::chrono::nanoseconds recovery_limit = std::chrono::seconds(10);
    FreshImages fresh_images = FreshImages::kRestored;
    std::chrono::nanoseconds stand_after = std::chrono::microseconds(150);  // Header::stand_after_ns
    std::uint64_t memory_bytes_most = std::uint64_t{4} << 30;               // of the model and its recording
    int stdin_fd = -1;                                                      // of main(); -1: /dev/null
    int stdout_fd = -1;  // of main() and of what runs before it; -1: ours. Recoveries' output is captured
    int stderr_fd = -1;
    // If threads are scheduled, the scheduler owns these descriptors and runs main(), not this Session.
    int threads_control_fd = -1;
    int threads_names_fd = -1;
    int threads_host = -1;  // the number of the host that the program is; -1: it is none
    // For a debugger (Header::hold_operation, hold_answer). on_held gets the process once it waits; after that the
    // session is of no use any more.
    std::uint32_t hold_operation = 0, hold_answer = 0;
    std::function<void(int process)> on_held;
    // Asked now and then while an answer is waited for. Once it says yes the session gives up, and is of no use any
    // more; empty: never.
    std::function<bool()> is_late;
  };

  // Runs main(). A program that failed is a success here: see execution().
  static tl::expected<std::unique_ptr<Session>, Failure> start(const Setup& setup);
  ~Session();

  // Where threads are scheduled: of the last execution.
  const Execution& execution() const;
  void read_execution();
  bool has_recover() const;
  // Whether a recovery failed since it began a thread: its threads are to be scheduled.
  bool wants_threads() const;
  // How many recoveries became servers that stand at a choice (server.cc).
  std::uint64_t stood_count() const;
  // Whether recoveries began threads, which were scheduled.
  bool has_threaded_recoveries() const;
  // Whether main() came to where it was to wait for a debugger.
  bool was_held() const;
  // Runs the recovery of the path up to where it waits. False: it did not come there.
  tl::expected<bool, Failure> hold(std::span<const std::uint32_t> path);
  // Whether the process that runs main() still lives.
  bool is_alive() const;
  // Where threads are scheduled: another execution is explored from now on, and what was counted is forgotten.
  void begin_again();
  // The digest of the last execution (recovery/inprocess/digest.h); empty where it is too long.
  std::span<const std::uint64_t> digest() const;
  // From now on what recoveries look at is noted; what was noted since the last time, sorted. Nothing where it is too
  // much.
  void observe();
  std::optional<std::vector<std::uint64_t>> take_observed();

  using OnRecovery = std::function<void(const Recovery&)>;

  // All recoveries of the parts; none: all that there are. It stops after max_recoveries; 0: no limit.
  void begin_explore(std::span<const persist::Part> parts, std::uint64_t max_recoveries = 0);
  // Samples, by recovery/search/sampling.h: there may be equal ones among them.
  void begin_sample(search::Strategy strategy, std::uint64_t seed, std::uint64_t count);
  void begin_replay(std::span<const std::uint32_t> path);
  // One recovery on the cut that holds exactly `events` (of the first crash), less `drop` and all above it.
  void begin_run_cut(std::span<const std::uint32_t> events, std::uint32_t drop = kDropNothing);
  void begin_describe();
  // The flushes that make the crash of the last single run impossible; description() has them.
  void begin_find_flushes();
  // The syncs of files that do; likewise.
  void begin_find_syncs();
  // What pmem/notes.h finds in the recording and found in the loads of recoveries so far; likewise.
  void begin_find_notes();
  // From now on recoveries find what main() would have left with these flushes; none: as it was. What was counted is
  // forgotten.
  void add_flushes(std::span<const pmem::AddedFlush> flushes);
  // Ends what was begun early. Safe in a signal handler.
  void stop();
  int fd() const;
  // Whether it has ended. `on_recovery` gets each recovery of an exploration, or sample, once, in no order.
  tl::expected<bool, Failure> advance(bool is_readable, const OnRecovery& on_recovery = {});

  // After an exploration: the parts that were not explored, as it was stopped; whether there is more that was
  // not explored.
  std::vector<persist::Part> left() const;
  bool is_lost() const;
  // How many recoveries all explorations of this recording had so far, and how many there may be in all.
  double explored_count() const;
  persist::Estimate explored_estimate() const;
  // After a single run.
  tl::expected<SingleRun, Failure> single_run();
  // After begin_describe() and begin_find_flushes(): JSON lines, see Reply. Empty where it was stopped.
  tl::expected<std::string, Failure> description();

  // The same, and waits for it.
  tl::expected<void, Failure> explore(std::span<const persist::Part> parts, const OnRecovery& on_recovery,
                                      std::uint64_t max_recoveries = 0);
  tl::expected<SingleRun, Failure> replay(std::span<const std::uint32_t> path);
  tl::expected<SingleRun, Failure> run_cut(std::span<const std::uint32_t> events, std::uint32_t drop = kDropNothing);
  tl::expected<std::string, Failure> describe();
  tl::expected<std::string, Failure> find_flushes();
  tl::expected<std::string, Failure> find_syncs();
  tl::expected<std::string, Failure> find_notes();

 private:
  struct Impl;
  tl::expected<std::string, Failure> description_of(void (Session::*begin)());
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace crashcut::inprocess
