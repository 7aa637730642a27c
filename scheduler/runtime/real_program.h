// RealProgram: crashcut's end of the protocol (protocol.h): runs an executable with the runtime inside under given
// schedules.
//
// The caller starts the process (Setup::launch) and ends it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/execution.h"
#include "scheduler/primitive.h"
#include "scheduler/runtime/added_locks.h"

namespace crashcut::scheduler::runtime {

struct Control;
struct HostPart;
struct Names;
struct Site;
enum class Failure : std::uint32_t;

// What went wrong in one execution of the program.
enum class FindingKind {
  kNone,
  kDeadlock,
  kLivelock,    // nothing can go on, and a thread that is left spins
  kNoProgress,  // a thread ran without an operation for longer than the limit
  kSignal,
  kAssertion,
  kMisuse,
  kExitCode,
  kThreadsLeft,
  kRace,
};

struct ActorName {
  std::uint32_t parent, ordinal;
};

// A data race: two accesses of two threads, at least one of them a write, that nothing orders.
struct Race {
  struct Side {
    ActorId actor;
    bool writes, is_atomic, frees;
    std::uint32_t step;                 // how many steps had been taken
    std::vector<std::uint64_t> frames;  // the access, then the calls that led there
  };
  std::uint64_t address;
  Side first, second;
};

// What the report needs and the search does not. It is the note of executions in which something was found, and of all
// executions if Setup::has_details is set.
struct Details : ExecutionNote {
  FindingKind kind = FindingKind::kNone;
  std::int64_t number = 0;
  ActorId actor{};
  std::string text;
  std::vector<std::uint64_t> callers;          // a step
  std::vector<std::uint64_t> pending_callers;  // a pending operation
  // The calls that led to each step, and to each pending operation, innermost first; empty where they were not told.
  std::vector<std::vector<std::uint64_t>> stacks, pending_stacks;
  // A function that made a call, and what was its on the stack then; of all these stacks.
  struct Frame {
    ActorId actor;
    std::uint64_t call;        // where it returns to
    std::uint64_t begin, end;  // on the stack
    auto operator<=>(const Frame&) const = default;
  };
  std::vector<Frame> frames;
  // Files that code was loaded from, the latest last; empty likewise.
  struct LoadedFile {
    std::string path;
    std::uint64_t base, end;
    std::uint32_t host;
  };
  std::vector<LoadedFile> loaded;
  bool is_added_lock_unclear = false;  // where an added lock begins or ends could not be told
  std::vector<std::pair<ObjectId, std::uint64_t>> addresses;
  std::vector<std::uint64_t> routines;  // an actor
  std::vector<std::string> texts;       // a step: a call on files in words, empty for others
  std::uint64_t program_base = 0;       // where the executable was loaded
  std::vector<std::uint64_t> bases;     // of each host's; empty if there are no hosts
  // Memory that hosts share.
  struct Region {
    std::string name;
    std::uint64_t address, bytes;
  };
  std::vector<Region> regions;
  struct Outside {
    ActorId actor;
    std::uint32_t step;  // how many steps had been taken
    std::string text;    // "opened /etc/passwd"
  };
  std::vector<Outside> outside;                 // the last calls on files that are not the model's
  std::uint64_t main_at = 0;                    // where main() is
  bool is_result = false;                       // the exit code is what main() returned
  std::optional<Race> race;                     // the first of the execution
  std::string output, errors;                   // what the program printed, the first bytes; empty if there are hosts
  bool output_cut = false, errors_cut = false;  // there may have been more
  std::optional<std::string> outcome;           // what the program, or the hosts that did not fail, printed
};

inline constexpr const char* kKilledSentence =
    "A process in which crashcut runs the program was killed, from outside or because there was too little memory.";
struct ToolError {
  bool is_users_fault;
  std::string sentence;
};
// Setup::is_late said yes, and there is nothing to show.
struct OutOfTime : ToolError {
  OutOfTime() : ToolError{true, "There was no time left to run the program."} {}
};

// What all workers of a search share.
class NameTable {
 public:
  NameTable();
  ~NameTable();
  NameTable(const NameTable&) = delete;
  int fd() const { return fd_; }
  std::vector<ActorName> actors() const;
  void set_actors(const std::vector<ActorName>& actors);
  // Places that were raced for so far; see accesses.h.
  std::vector<std::uint64_t> racy() const;
  void set_racy(const std::vector<std::uint64_t>& racy);
  // Threads were seen to communicate without a call (meetings.h), or there was too much to watch: the file, and the
  // instruction in it.
  struct Meeting {
    std::string file;
    std::uint64_t address;
    bool is_certain;
  };
  std::optional<Meeting> meeting() const;
  std::vector<Details::Region> regions() const;
  // Files of the real system that several hosts use, and at least one of them to write: "/tmp/x by machine 0, machine
  // 1".
  std::vector<std::string> shared_files() const;

 private:
  int fd_;
  Names* names_;
};

class RealProgram : public Program {
 public:
  struct Setup {
    std::uint32_t spurious_most = 0;
    std::uint32_t timeouts_most = 2;
    std::vector<std::pair<PrimitiveId, std::int64_t>> policies;
    std::chrono::nanoseconds step_limit = std::chrono::seconds(10);  // without an operation
    // After so long without an operation a thread lets others go on: it may wait for a variable that is not seen. At
    // most step_limit.
    std::chrono::nanoseconds hurry_limit = std::chrono::nanoseconds::max();
    bool is_restoring = true;
    bool is_opaque = false;        // no two operations commute
    std::uint32_t racy_count = 0;  // of NameTable::racy(): accesses there are operations
    bool has_details = false;
    bool is_reduced = true;          // an execution stands for all of its class
    bool is_strict_exit = false;     // threads that are left when the process ends are a failure
    bool ignores_result = false;     // what main() returns is not judged
    std::uint32_t stop_at_step = 0;  // for a debugger: wait after this step, from 1
    std::function<bool()> is_late;   // once it says yes, what runs is ended; empty: never
    // In place of step_limit, once all steps of the prefix were taken, where it is known that a thread hangs there: it
    // is killed without a further question. 0: no other limit.
    std::chrono::nanoseconds hang_limit{0};
    // Hosts that take part in an execution (hosts.h). 0: the program is no host. `failing` has a bit for each host that
    // may fail. All hosts run on that processor.
    std::uint32_t host_count = 0;
    std::uint32_t failures_most = 0, failing = 0, processor = 0;
    std::uint32_t cache_steps_most = 1;  // that caches take by themselves, where single schedules are searched
    bool has_memory_model = false;       // what hosts share has caches (buffers.h)
    // Paths that are memory that hosts share; not 0: fresh memory is filled with what this number gives (regions.h).
    std::vector<std::string> devices;
    // What is special about the memory of a name. Its home is a host, or a memory device, which is a host without a
    // program: their numbers are behind the hosts'.
    struct RegionRule {
      std::string name;
      std::optional<std::uint32_t> home;
      bool is_incoherent = false;
    };
    std::vector<RegionRule> region_rules;
    std::uint32_t device_count = 0;
    std::vector<AddedLock> added_locks;
    bool has_outcomes = false;  // what is printed is Details::outcome, of executions that come to an end
    std::uint64_t garbage = 0;
    // Starts the program with these descriptors named in its environment (inject::kThreadsVariable); once for each
    // host, and once if there are no hosts. Throws ToolError.
    std::function<void(std::uint32_t host, int control_fd, int names_fd)> launch;
    std::function<void()> check_alive;  // of what was so started; throws ToolError
    // The instructions of a file by which threads may communicate without a call; empty: that is not looked for.
    std::function<const std::vector<Site>&(const std::string& file)> find_sites;
  };
  // Throws ToolError.
  RealProgram(const Setup& setup, NameTable& names);
  ~RealProgram() override;
  RealProgram(const RealProgram&) = delete;

  // Throws ToolError.
  Execution run(const RunRequest& request) override;
  // Runs up to Setup::stop_at_step and returns the process that waits there for a debugger; 0 if the execution ends
  // before that. Throws ToolError.
  int run_held(const RunRequest& request);
  // How many executions began in restored memory, and how many in a new process.
  std::uint64_t restored_count() const;
  std::uint64_t forked_count() const;
  // Whether the program's memory accesses are seen. Known after the first run.
  bool is_instrumented() const;
  // Whether there is a host whose program's memory accesses are not seen; of those that have come to main().
  bool has_unseen_host() const;
  // Whether main() was seen to return no value.
  bool has_no_result() const;

 private:
  std::shared_ptr<const Details> details() const;
  std::string outcome_of(const Execution& execution) const;
  std::uint32_t ask(const RunRequest& request);
  void wait_for_reply(std::uint32_t request);
  void check_runner_end();
  HostPart& running_part() const;
  std::uint32_t part_count() const;
  void check_server();
  void tell_sites();
  void answer_server();
  void put_sleep(const RunRequest& request);

  bool is_late() const { return setup_.is_late && setup_.is_late(); }

  Setup setup_;
  NameTable* names_;
  int control_fd_ = -1;
  Control* control_ = nullptr;
  std::uint32_t site_count_ = 0;
};

}  // namespace crashcut::scheduler::runtime
