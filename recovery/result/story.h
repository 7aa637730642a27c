// Story: one violation as a person follows it: the schedule of the threads, what the program did, what of it survived
// the crash, and what recovery then saw.
//
// A story has one crash for each power failure: the first is a crash of the program, each other one a crash of the
// recovery before it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace crashcut::result {

enum class Fate { kPersisted, kPartly, kLost };

struct Event {
  std::uint32_t id = 0;
  std::string kind;
  std::string text;
  bool is_sync = false;  // it waits for other events, and changes nothing itself
  bool durable = false;  // part of the starting state
  bool persisted = false;
};

// Events of an operation that are counted and not told.
struct EventCounts {
  std::uint64_t all = 0;
  std::uint64_t persisted = 0;  // or durable
  std::uint64_t durable = 0;
  std::uint64_t sync = 0;
};

// A place in the source of the program: what debug information says of an address in its code.
struct SourceLine {
  std::string function;
  std::string file;  // without directories; empty without debug information
  std::uint64_t line = 0;
  bool is_library = false;  // code of the system or the compiler, not of the program

  friend auto operator<=>(const SourceLine&, const SourceLine&) = default;
};
// "tree.cc:41"
std::string line_text(const SourceLine& line);
// "insert tree.cc:41", "insert" without debug information; of a stack the innermost; empty for an empty one.
std::string place_text(const SourceLine& line);
std::string place_text(const std::vector<SourceLine>& stack);

struct Operation {
  std::string text;
  std::vector<Event> events;
  EventCounts left_out{};
  std::vector<SourceLine> stack{};  // the calls that led to it, innermost first; empty if they are not known
  std::string code{};               // the same as addresses, until they have names (recovery/source/places.h)

  bool has_events() const { return !events.empty() || left_out.all > 0; }

  // Whether all, some or none of its events persisted; kLost for an operation without events.
  Fate fate() const;
  bool is_durable() const;  // it has events, and none of them can be lost
  bool is_sync() const;     // all of its events are syncs
};

// What recovery found in one place, and what it might have found instead.
struct Observation {
  std::string location;
  std::vector<std::string> candidates;  // the first ones, newest first, and the one that was found
  std::uint32_t taken = 0;              // which of these was found
  std::uint32_t crash = 1;              // whose cut it decided; a second recovery also reads what the first crash left
  std::uint64_t candidates_left_out = 0;
};

struct Call {
  std::string text;                       // empty if the calls of recovery are not seen
  std::vector<Observation> observations;  // what the call found
  std::vector<SourceLine> stack{};        // as of operations
  std::string code{};
};

struct Crash {
  std::vector<Operation> operations;  // of what crashed; the first is the starting state
  std::vector<Call> calls;            // of the recovery that followed, the first kCallsMost
  std::uint64_t calls_left_out = 0;
  std::vector<std::uint32_t> persisted;  // events
  // Operations at which the power can have failed (persist/moments.h).
  std::uint64_t earliest = 0, latest = 0;
};

// What a file held at one time.
struct FileContent {
  std::string type;        // "file", "directory", "symbolic link", "other"; "missing": there is none
  std::uint64_t size = 0;  // of a file
  std::string bytes{};     // the first kFileBytesMost of a file; a link's target
};
// A file that the checker asks about.
struct FileView {
  std::string path;
  FileContent before;    // in the starting state
  FileContent expected;  // when everything has persisted
  FileContent after;     // the crash; what the recovery did not read is as new as can be
};

// One step of a schedule.
struct ScheduleStep {
  std::string thread;
  std::string text;
  std::vector<SourceLine> stack{};         // the calls that led to it, innermost first; empty if they are not known
  std::uint32_t machine = 0;               // Story::machines > 0: where it was
  bool is_failure = false;                 // the machine fails
  std::vector<std::string> died_before{};  // then: what its threads stood before
};
// A thread that was still waiting when the execution ended.
struct WaitingThread {
  std::string thread;
  std::vector<std::string> holds;
  std::string text;
  std::vector<SourceLine> stack{};  // the calls that led to where it waits
};
struct RaceAccess {
  std::string thread, text;
  bool writes = false, frees = false, is_atomic = false;
  std::uint64_t step = 0;         // how many steps came before it
  std::vector<SourceLine> stack;  // innermost first
};
struct Race {
  std::string variable;
  std::vector<RaceAccess> accesses;  // two
};

// What the parts of the program are called in reports.
struct Names {
  std::string program = "main()";
  std::string recovery = "recovery";
  std::string medium = "the disk";  // what a crash leaves
};

struct Story {
  std::vector<ScheduleStep> schedule;  // empty if threads are not scheduled
  std::uint32_t machines = 0;          // 0: the program is no machine
  std::vector<WaitingThread> waiting;
  std::optional<Race> race;
  bool is_one_of_class = false;  // other orders of the calls lead to the same crash; this is one of them
  std::vector<Crash> crashes;
  std::vector<FileView> files{};
  Names names;
  std::string wait{};          // what a recovery that did not end waits for, a clause; empty: that is not known
  std::string output, errors;  // of the recovery
  bool output_cut = false, errors_cut = false;
};

// A recording may have millions of events. What is told, and written to reports, is bounded:
inline constexpr std::size_t kOperationsMost = 2000;        // operations that a report lists
inline constexpr std::size_t kPageOperationsMost = 10'000;  // and a page
inline constexpr std::size_t kEventsOfOperationMost = 64;   // events that are told of one operation, the first ones
inline constexpr std::size_t kEventsMost = 5000;            // and of all operations together
inline constexpr std::size_t kCallsMost = 1000;
inline constexpr std::size_t kFileBytesMost = 4096;  // bytes of a file
inline constexpr std::size_t kFilesMost = 8;
inline constexpr std::size_t kCandidatesMost = 100;    // of one observation
inline constexpr std::size_t kPersistedMost = 10'000;  // events that a report lists as persisted

// The candidates that are told, by index: the first kCandidatesMost, the last of them replaced by `taken` where that is
// beyond.
std::vector<std::uint32_t> shown_candidates(std::size_t count, std::uint32_t taken);

// The operations that a report lists, by index: all of them, or the first ones and those around the last operation that
// left something on the disk, as the power can have gone right after it.
std::vector<std::size_t> shown_operations(const std::vector<Operation>& operations, std::size_t most = kOperationsMost);

}  // namespace crashcut::result
