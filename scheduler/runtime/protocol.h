// Protocol: the memory that crashcut and the runtime inside a threaded program share.
//
// Who is who:
//   crashcut  the command (RealProgram is its end): each worker asks for one execution at a time
//   server    the program's process, stopped just before main(): it forks runners and says how they ended
//   runner    runs main() with all threads as fibers of one kernel thread. It serves requests until an execution
//             changes something that restoring the memory does not undo
// Where several hosts take part in an execution (hosts.h), each is a server with runners of its own.
// Channels: one Control for each worker, one Names for all workers, both memfds; words with futexes.
// Invariants: (1) between request and reply the runner alone writes the reply; (2) steps [0, step_count) are valid at
//   any time, also when the runner has died.
#pragma once

#include <atomic>
#include <cstdint>

#include "inject/call_stack.h"
#include "inject/child.h"
#include "scheduler/execution.h"
#include "scheduler/runtime/added_locks.h"
#include "scheduler/runtime/buffers.h"

namespace crashcut::scheduler::runtime {

inline constexpr std::uint64_t kMagic = 0x63757474687264;

inline constexpr std::uint32_t kActorsMost = 1024;
inline constexpr std::uint32_t kStepsMost = 100'000;
inline constexpr std::uint32_t kObjectsMost = 1 << 16;
inline constexpr std::uint32_t kSleepMost = kActorsMost;
inline constexpr std::uint32_t kPassedOverMost = kStepsMost;
inline constexpr std::uint32_t kTextMost = 4096;
inline constexpr std::uint32_t kTouchesMost = 4 << 20;
inline constexpr std::uint32_t kTextsMost = 64 << 20;
inline constexpr std::uint32_t kRacyMost = 1024;
inline constexpr std::uint32_t kFramesMost = 64;
inline constexpr std::uint32_t kModulesMost = 256;
inline constexpr std::uint32_t kCallsMost = 64;
inline constexpr std::uint32_t kLoadedMost = 512;
inline constexpr std::uint32_t kSitesMost = 1 << 18;
inline constexpr std::uint32_t kPathMost = 1024;
inline constexpr std::uint32_t kHostsMost = 16;
inline constexpr std::uint32_t kRegionsMost = 64;
inline constexpr std::uint32_t kRegionNameMost = 64;
inline constexpr std::uint32_t kRegionRulesMost = 16;
inline constexpr std::uint32_t kOutputMost = 2048;

// Where the parts of a worker's memory lie in its file. The parts after Control are there only if there are hosts:
// their common heap, the memory that their programs share, and how that memory begins.
inline constexpr std::uint64_t kCommonOffset = std::uint64_t{1} << 33;
inline constexpr std::uint64_t kCommonBytes = std::uint64_t{16} << 30;
inline constexpr std::uint64_t kRegionsOffset = kCommonOffset + kCommonBytes;
inline constexpr std::uint64_t kRegionsBytes = std::uint64_t{64} << 30;
inline constexpr std::uint64_t kStartOffset = kRegionsOffset + kRegionsBytes;
inline constexpr std::uint64_t kHostedBytes = kStartOffset + kRegionsBytes;

// Where programs see the memory that they share. The name of a place there is its address; the name of any other place
// has its host and how often that was restarted, above the 47 bits of an address.
inline constexpr std::uint64_t kRegionsAt = 0x140000000000;
inline bool is_in_region(std::uint64_t address) {
  return address >= kRegionsAt && address < kRegionsAt + kRegionsBytes;
}
inline std::uint64_t address_of(std::uint64_t place) { return place & ((std::uint64_t{1} << 47) - 1); }
inline std::uint64_t tag_of(std::uint32_t host, std::uint16_t incarnation) {
  return (std::uint64_t{host} | std::uint64_t{incarnation} << 4) << 47;
}
inline std::uint32_t host_of(std::uint64_t place) { return static_cast<std::uint32_t>(place >> 47 & 15); }

// An instruction by which threads may communicate without a scheduled call (meetings.h).
struct Site {
  enum Kind : std::uint8_t {
    kCounts,  // a locked addition: a counter, or of references
    kTakes,   // another locked instruction: an exchange, bits
    kFence,
    kPause,  // in a loop that waits
    kLooks,  // a plain access to a variable that some locked instruction names by its address
  };
  static constexpr std::uint8_t kNoRegister = 0xff;

  std::uint64_t address;      // of the file's; in Control, where it was loaded
  std::int64_t displacement;  // fixed: the variable's address, likewise
  std::uint8_t base, index;   // registers as instructions number them: rax 0, rcx 1, ... r15
  std::uint8_t scale;
  std::uint8_t displacement_at;  // fixed: where the instruction holds the distance to the variable
  bool is_fixed;                 // one variable, by its address
  bool is_thread_local;          // relative to the FS base
  bool writes;
  std::uint8_t bytes;   // of the access
  std::uint8_t length;  // of the instruction
  std::uint8_t first;   // its first byte
  Kind kind;
  // Of kCounts: what is added (a register, or else a number); whether it is subtracted; whether the old count is
  // returned.
  std::uint8_t source;
  std::int32_t amount;
  bool is_negative, tells;
};

inline constexpr std::uint32_t kMet = 1, kMayMeet = 2;

// Code that was loaded.
struct Module {
  char path[kPathMost];
  std::uint64_t base;                    // added to the file's addresses
  std::uint64_t end;                     // of its memory
  std::uint64_t copies;                  // of its sites, where they are run instead (meetings.cc)
  std::uint32_t first_site, site_count;  // set by crashcut
};

// Names of actors and objects: dense numbers that mean the same in every execution of a search.
struct Names {
  struct Actor {
    std::uint32_t parent;
    std::uint32_t ordinal;  // its index among the parent's children; for timers and the like, see below
  };
  struct Slot {
    std::atomic<std::uint64_t> key;
    std::atomic<std::uint32_t> number;  // from 1
  };
  // Ordinals of actors that are no threads, from kFirstBeside: spurious wake-ups of the parent, its cancellation,
  // signals to it, lanes of its store buffer (buffers.h), and its timers, counted down.
  static constexpr std::uint32_t kFirstBeside = 0xfffff000, kStirOrdinal = kFirstBeside,
                                 kCancelOrdinal = kFirstBeside + 1, kSignalOrdinal = kFirstBeside + 2,
                                 kFailureOrdinal = kFirstBeside + 16, kLaneOrdinal = kFirstBeside + 64,
                                 kAnswerOrdinal = kLaneOrdinal + kLanesMost, kTimerOrdinal = 0xffffffff;
  static constexpr bool is_thread(std::uint32_t ordinal) { return ordinal < kFirstBeside && !is_cache(ordinal); }
  // What the cache of a host, whose main() is the parent, does by itself to a line of shared memory: two for each line
  // that such memory may have.
  static constexpr std::uint32_t kCacheOrdinal = 0x40000000, kCacheEnd = 0xc0000000;
  static_assert(kCacheOrdinal + 2 * (kRegionsBytes / 64) == kCacheEnd);
  static constexpr bool is_cache(std::uint32_t ordinal) { return ordinal >= kCacheOrdinal && ordinal < kCacheEnd; }
  // Failures of hosts: their parent is the first actor, and the host's number is added.
  static constexpr bool is_failure(std::uint32_t ordinal) {
    return ordinal >= kFailureOrdinal && ordinal < kFailureOrdinal + kHostsMost;
  }
  static constexpr bool is_lane(std::uint32_t ordinal) {
    return ordinal >= kLaneOrdinal && ordinal < kLaneOrdinal + kLanesMost;
  }
  static constexpr bool is_answer(std::uint32_t ordinal) {
    return ordinal >= kAnswerOrdinal && ordinal < kAnswerOrdinal + kAnswersMost;
  }
  // main() of a host, and how often that host was restarted before; but that of host 0, not restarted, is actor 0.
  static constexpr std::uint32_t kIncarnationsMost = 64;
  static constexpr std::uint32_t kMainOrdinal = kFirstBeside - kHostsMost * kIncarnationsMost;
  static constexpr std::uint32_t main_ordinal(std::uint32_t host, std::uint32_t incarnation) {
    return kMainOrdinal + host * kIncarnationsMost + incarnation;
  }
  static constexpr bool is_main(std::uint32_t ordinal) { return ordinal >= kMainOrdinal && ordinal < kFirstBeside; }
  static constexpr std::uint32_t host_of_main(std::uint32_t ordinal) {
    return (ordinal - kMainOrdinal) / kIncarnationsMost;
  }
  static constexpr std::uint32_t incarnation_of_main(std::uint32_t ordinal) {
    return (ordinal - kMainOrdinal) % kIncarnationsMost;
  }
  static constexpr std::uint32_t kSlots = kObjectsMost * 2;

  std::atomic<std::uint32_t> lock;
  std::atomic<std::uint32_t> actor_count;  // actor 0 is main
  Actor actors[kActorsMost];
  std::atomic<std::uint32_t> object_count;
  Slot slots[kSlots];
  // Memory that hosts share (regions.h): the names. Under the lock; they are added, never removed.
  struct Region {
    char name[kRegionNameMost];
    std::uint64_t offset, room;        // how large it can become
    std::atomic<std::uint64_t> bytes;  // the most that was asked for
    std::uint64_t file_bytes;          // as ftruncate() or shmget() said; 0: not yet
  };
  std::atomic<std::uint32_t> region_count;
  Region regions[kRegionsMost];
  // Granules with data races. In an execution, accesses to the first Control::racy_count of them are operations.
  std::atomic<std::uint32_t> racy_count;
  std::uint64_t racy[kRacyMost];
  // Files of /proc and the like, as the first execution found them (outside.cc). Under the lock.
  struct KeptFile {
    std::uint64_t key;
    std::uint32_t at, bytes;
  };
  static constexpr std::uint32_t kKeptMost = 256;
  std::uint32_t kept_count, kept_used;
  KeptFile kept[kKeptMost];
  char kept_bytes[1 << 20];
  // Files of the real system that hosts have opened: by which hosts, and to write by which. Under the lock.
  struct UsedFile {
    char path[128];
    std::uint32_t users, writers;
  };
  static constexpr std::uint32_t kUsedMost = 64;
  std::uint32_t used_count;
  UsedFile used[kUsedMost];
  std::int64_t began_s;              // when the search began, real time
  std::atomic<std::uint32_t> alone;  // the process whose execution changes files outside of the model; 0: none
  // Threads were seen to communicate without a call, or are no longer watched: the instruction, an address in that
  // file.
  std::atomic<std::uint32_t> has_met;  // kMet or kMayMeet
  std::uint64_t met_at;
  char met_in[kPathMost];
};

// A call on a file that is not modelled. Reading it may give something else each time.
inline constexpr std::uint32_t kOutsideMost = 16;
struct OutsideCall {
  std::uint32_t actor, step;
  char text[248];
};

// An object: how it begins, and its address, with the host it is on (hosts.h).
struct ObjectFact {
  ObjectStart start;
  std::uint64_t address;
};

// Where the touches of a step lie.
struct FootprintFact {
  std::uint32_t first, count;
  bool is_known;
};

// The calls that led somewhere, innermost first: where each returns to, and what is on the stack of the function.
struct CallStack {
  std::uint32_t count;
  std::uint64_t calls[kCallsMost];
  inject::StackFrame frames[kCallsMost];
};
// A file that code was loaded from.
struct LoadedFile {
  char path[kPathMost];
  std::uint64_t base;  // added to the file's addresses
  std::uint64_t end;   // of its memory
  std::uint32_t host;
};

struct StepFact {
  std::uint64_t caller;  // the address that the call returns to
  FootprintFact footprint;
  std::uint32_t text_at, text_bytes;
};

struct ActorFact {
  std::uint64_t routine;  // where it starts; 0 for main and timers
};

// One of the two accesses of a data race.
struct RaceSide {
  std::uint32_t actor;
  bool writes, is_atomic, frees;
  std::uint32_t step;  // how many steps had been taken
  std::uint32_t frame_count;
  std::uint64_t frames[kFramesMost];  // the access, then the calls that led there, innermost first
};

struct RaceFact {
  std::uint64_t address;
  RaceSide sides[2];
};

enum class Failure : std::uint32_t {
  kNone,
  kSignal,       // number
  kAssertion,    // text
  kMisuse,       // number: the primitive's result
  kExitCode,     // number
  kThreadsLeft,  // number: how many threads still ran when the process ended
  kRace,         // Control::race
  kUnsupported,  // text: crashcut cannot go on; no finding
  kToolError,    // text: a sentence; crashcut failed
  kUserError,    // text: a sentence; crashcut cannot go on, and the user can help
};

// What a program wrote to its standard output, or to its standard error, since main() began: the first bytes.
struct Printed {
  std::uint32_t bytes;
  char text[kOutputMost];
};

// A host's part of the protocol; where there are no hosts, the program's.
struct HostPart {
  inject::ChildState runner;
  std::atomic<std::uint32_t> is_leaving;  // the runner has replied and ends: no fault of its own
  std::uint64_t program_base;             // where the executable was loaded; set by the server, as is
  std::uint64_t main_at;                  // where main() is
  Printed printed[2];                     // to descriptors 1 and 2
  // Of hosts only.
  std::atomic<std::uint32_t> is_ready;  // the server stands before main()
  std::atomic<std::uint32_t> turn;      // a request and a Turn (hosts.h)
  std::atomic<std::uint32_t> joined;    // the request whose execution the runner takes part in; 0: none
  std::atomic<std::uint32_t> done;      // the last request that the runner is done with
  std::uint32_t is_instrumented;
};

struct Control {
  std::uint64_t magic;

  // Parameters, set before the start.
  std::uint32_t spurious_most;  // wake-ups without a signal, for each thread
  std::uint32_t timeouts_most;  // early timeouts, for each thread
  std::uint32_t policy[16];     // of each primitive; of reader-writer locks, the preference
  std::uint32_t is_restoring;   // runners may serve several requests
  std::uint32_t is_opaque;      // threads communicate by memory that crashcut does not see: no two operations commute
  std::uint32_t stop_at_step;   // hold.h: wait after this step; 0: never
  std::atomic<std::uint32_t> is_held;  // by the process of this host, + 1; 0: not yet
  std::uint32_t has_texts;             // each call on files is described in words, and each step has its stack
  std::uint32_t is_reduced;            // an execution stands for all of its class
  std::uint32_t is_strict_exit;        // threads that are left when the process ends are a failure
  std::uint32_t ignores_result;        // what main() returns is not judged

  std::uint32_t added_lock_count;
  AddedLock added_locks[kAddedLocksMost];

  std::uint32_t is_watching;  // whether threads that communicate without a call are looked for

  std::uint32_t racy_count;       // of Names::racy, in use
  std::uint32_t is_instrumented;  // set by the runner

  // Hosts. `failing` has a bit for each host that may fail; `processor`: all hosts of an execution run there.
  std::uint32_t host_count;  // 0: the program is no host
  std::uint32_t failures_most, failing, processor;
  std::uint32_t cache_steps_most;            // that caches take by themselves, where single schedules are searched
  std::uint32_t has_memory_model;            // the memory that hosts share has caches (buffers.h)
  std::atomic<std::uint32_t> running_host;   // whose turn it is
  std::atomic<std::uint32_t> is_set_up;      // some host has run crashcut_setup()
  std::uint32_t has_start;                   // of how many regions there is a start
  std::uint64_t garbage;                     // not 0: fresh shared memory is filled with what this number gives
  std::uint64_t filled_bytes[kRegionsMost];  // how far each region has been filled
  std::uint8_t set_up_files[kRegionsMost];   // crashcut_setup() made it as a file or segment: 1; and gave it a size: 3
  char devices[kPathMost];                   // paths that are shared memory, each with an end of line
  // What is special about the memory of a name. Its home is the host that takes it away by failing, + 1; 0: none.
  struct RegionRule {
    char name[kRegionNameMost];
    std::uint32_t home;
    std::uint32_t is_incoherent;  // no hardware keeps it coherent
  };
  std::uint32_t region_rule_count;
  RegionRule region_rules[kRegionRulesMost];
  std::uint32_t device_count;  // memory devices that may fail: hosts without programs, behind host_count
  HostPart hosts[kHostsMost];

  // Request.
  std::atomic<std::uint32_t> requests;  // how many were made
  std::uint32_t depth_most;
  std::uint32_t turn_most;
  bool ends_with_prefix;
  bool goes_on_after_race;
  bool is_one_schedule;
  std::uint32_t prefix_count;
  std::uint32_t sleep_count;
  std::uint32_t sleep_from;
  std::uint64_t seed;

  // Reply. `replies` follows `requests`.
  std::atomic<std::uint32_t> replies;
  std::atomic<inject::ChildEnd> runner_end;  // not kNone: it died before it replied, and the server replied for it
  std::atomic<std::uint32_t> is_quitting;    // set by crashcut: no more runners
  std::int32_t runner_status;
  Ending ending;
  bool hit_depth;
  Failure failure;
  std::int64_t failure_number;
  std::uint32_t failure_actor;
  std::uint64_t restored_count;  // statistics
  std::uint64_t forked_count;
  std::atomic<std::uint32_t> step_count;
  std::atomic<std::uint32_t> object_count;
  std::uint32_t pending_count;
  std::uint32_t passed_over_count;
  std::uint32_t running_actor;            // whose code is running
  std::atomic<std::uint32_t> is_waiting;  // for another worker's execution: no fault of the program
  std::uint32_t outside_count;            // the last of these calls are in `outside`, which is a ring
  OutsideCall outside[kOutsideMost];
  std::uint32_t left_running;  // Execution's
  bool has_no_result;          // main() returned, and no value
  bool is_result;              // main() returned: its value is the exit code
  char text[kTextMost];
  std::uint32_t touch_count;
  std::uint32_t text_bytes;
  bool has_race;
  RaceFact race;
  bool is_added_lock_unclear;  // where an added lock begins or ends cannot be told

  // What the program has loaded, and the sites that crashcut finds in it. Modules are added, never removed.
  std::atomic<std::uint32_t> module_questions, module_answers;  // how many there were
  std::uint32_t module_count, answered_count;
  std::uint32_t is_blind;  // some code is not watched that should be
  Module modules[kModulesMost];
  Site sites[kSitesMost];

  ActorId prefix[kStepsMost];
  Step sleep[kSleepMost];
  FootprintFact sleep_footprints[kSleepMost];
  Pending pending[kActorsMost];
  std::uint64_t pending_callers[kActorsMost];
  // Where has_texts is set.
  std::uint32_t loaded_count;
  LoadedFile loaded[kLoadedMost];
  CallStack pending_stacks[kActorsMost];
  CallStack step_stacks[kStepsMost];
  PassedOver passed_over[kPassedOverMost];
  ActorFact actors[kActorsMost];
  ObjectFact objects[kObjectsMost];
  Step steps[kStepsMost];
  StepFact step_facts[kStepsMost];
  Touch touches[kTouchesMost];
  Touch sleep_touches[kTouchesMost];
  char texts[kTextsMost];
};

}  // namespace crashcut::scheduler::runtime
