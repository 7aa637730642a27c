// Result: all that a search says, the same for every front end. Writers turn it into text, JSON, JUnit and a
// page (text.h, json.h, junit.h, page.h); none of them knows where it came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "persist/progress.h"
#include "persist/recording.h"
#include "recovery/result/story.h"
#include "recovery/result/verdict.h"

namespace crashcut::result {

using persist::Fraction;
using persist::Progress;

// An option or a bound. `name` and `value` are for programs; `text`, if it is not empty, is for people.
struct Setting {
  using Rows = std::vector<std::vector<Setting>>;  // of a table
  using Value = std::variant<std::nullptr_t, bool, std::uint64_t, double, std::string, std::vector<std::string>, Rows>;
  std::string name;
  Value value;
  std::string text{};
};
// 0 is "no bound".
Setting::Value or_none(std::uint64_t bound);
Setting::Value or_none(double bound);
// "" is "nothing to say".
Setting::Value or_none(const std::string& text);

// What is searched: the first line of a report.
struct Head {
  std::string command;               // "check"
  std::vector<std::string> program;  // the program's words, as typed
  bool has_separator = false;        // "--" stands before them
  persist::ModelSpec model;
  std::vector<Setting> settings;  // of the command
  std::vector<Setting> bounds;
  std::uint64_t seed = 0;
};

// One kind of violation.
struct Finding {
  std::string kind;         // "lost", "signal", "deadlock": one of a short list a front end
  std::string subject;      // what failed: a file, "the checker", "recovery", "thread 2"
  std::string text;         // how, a clause: "notes.txt is empty", "recovery aborted (SIGABRT)"
  std::string message{};    // what it said last: an assertion's text, a checker's output
  int code = 0;             // exit status, signal number, or the limit in seconds
  std::uint64_t count = 1;  // how many recoveries, or executions, ended so
  std::string token{};      // of the smallest one; empty if only the worst finding has a token
};

// A change of the program that makes a violation go away. It was tried: nothing fails with it.
struct Mend {
  // What is added: "fsync", "fdatasync", "sync", "flush", "fence", "flush and fence". Of threads: "hold" (a mutex of
  // the program is held), "order" (a mutex is locked before another one), "lock" (one more mutex is held).
  std::string kind;
  std::string target{};          // what it is called on: "notes.tmp", "pool+0x40", "mutex m"; empty: everything
  std::string place{};           // "before the rename (operation 8)", "after tree.cpp:41", "around bank.c:12 (add)"
  std::uint64_t lines = 0;       // of persistent memory: how many cache lines are flushed there, at most
  std::uint64_t recoveries = 0;  // that were run with it
  std::uint64_t executions = 0;  // of threads: that were run with it
  bool is_verified = false;      // these are all
  std::string text{};            // all that in a sentence
};
inline constexpr std::size_t kMendsMost = 3;

// The worst violation, with its story.
struct Counterexample {
  Finding finding;
  std::string label{};            // the kind, if the sentence does not name it: "lost"
  std::string sentence;           // what a crash or a schedule can lead to, and why
  std::optional<Finding> then{};  // a data race's execution then failed in this way
  Story story;
  std::string path{};           // the choices that lead there; "/" stands for another crash
  std::uint64_t execution = 0;  // the number of the execution, from 1; 0 if there is only one
  bool is_smallest = false;     // no event of its cut can be dropped
  bool was_run_again = true;    // false: there was no time to
  bool replays = true;          // it failed in the same way when it was run again
  std::vector<Mend> mends{};    // the cheapest at run time first, at most kMendsMost
  std::string no_mend{};        // of persistent memory: why there is none, a sentence
};

struct Outcome {
  std::string output;  // what the recovery printed, or what was found, in words
  std::uint64_t recoveries = 0;
  std::uint64_t violations = 0;  // how many of these recoveries failed
};

// What may be a mistake in the use of persistent memory, and may be meant.
struct MemoryNote {
  std::string kind;         // "redundant flush", "overwrite", ...: docs/pmem.md has all
  std::string place{};      // "tree.cpp:41"
  std::uint64_t count = 0;  // how often it was met there
  std::string text{};       // all that in a sentence
};

// Recoveries that could not be run, for one reason.
struct NotRun {
  std::string sentence;
  std::uint64_t recoveries = 0;
};

// One place that recoveries read, and what was found there in any of the states.
struct HeldLocation {
  std::string text;
  std::vector<std::string> values;
};
// A state that was explored.
struct State {
  std::size_t subject = 0;                 // what was asked of it: an index into Result::subjects
  std::uint64_t earliest = 0, latest = 0;  // operations at which a crash can leave it (persist/moments.h)
  std::uint32_t crashes = 1;               // in a row; all else is about the first
  std::string outcome;                     // as in Result::outcomes
  bool is_violation = false;
  std::string text{};       // of a violation: how it failed
  bool is_example = false;  // it is the counterexample
  // What the recovery found: indices into States::locations and into the values of that.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> held{};
  std::uint64_t held_left_out = 0;
  // What of each operation persisted, in runs: "y3n2" is three that did and two that did not; "p": in part, "-": there
  // is nothing to persist.
  std::string kept{};
};
// Explored states, at most search::KeptPaths::kEntriesMost of them.
struct States {
  std::vector<HeldLocation> locations;
  std::vector<State> list;
  std::uint64_t left_out = 0;           // states beyond these
  std::vector<Operation> operations{};  // of the program, if there is no counterexample
  Names names{};
};

// What was done. 0 if a front end does not count it.
struct Counts {
  std::uint64_t executions = 0;  // schedules that were run
  std::uint64_t steps = 0;       // of all of them
  std::uint64_t foreseen = 0;    // not run: known to be like one that was run
  std::uint64_t asleep = 0;      // cut short as redundant
  std::uint64_t random_executions = 0;
  std::uint64_t assumed_away_executions = 0;
  std::uint64_t crashed_executions = 0;  // whose recoveries were run
  std::uint64_t merged_executions = 0;   // whose recoveries would have been the same
  std::uint64_t restored_images = 0, processes = 0;
  std::uint64_t recoveries = 0;
  std::uint64_t sampled = 0;  // of the recoveries
  std::uint64_t assumed_away = 0;
  std::uint64_t not_run = 0;
  std::uint64_t violations = 0;  // recoveries or executions that failed
  std::uint64_t operations = 0, events = 0;
};

struct Result {
  Head head;
  std::vector<Setting> execution;  // facts on the recorded run
  Verdict verdict = Verdict::kVerified;
  Bound bound = Bound::kNone;
  std::string scope{};            // what "verified" is about, if that is not the whole program
  Fraction explored_fraction{1};  // less than 1 if a bound was hit
  std::string coverage{};         // what was covered, in words; empty: the estimate says it
  double seconds = 0;
  Counts counts{};
  bool counts_images = false;  // its recoveries are crash images that the kernel mounted
  bool has_recoveries = true;  // the program can be crashed: outcomes and counts of recoveries mean something
  std::vector<Outcome> outcomes{};
  bool outcomes_cut = false;            // there were more
  std::vector<std::string> subjects{};  // what was asked about, each a test case
  std::vector<Finding> findings{};
  std::size_t findings_left_out = 0;
  std::vector<NotRun> not_run{};
  std::optional<Counterexample> counterexample{};
  std::optional<States> states{};          // none: a front end cannot tell them, or nobody asked
  std::string unexplained{};               // why there is a violation and no counterexample
  std::vector<std::string> not_covered{};  // what the verdict is not about, a sentence each
  std::vector<std::string> notes{};        // what may be a mistake and may be meant, a sentence each
  std::vector<MemoryNote> memory_notes{};
  std::uint64_t memory_notes_left_out = 0;
  std::vector<Setting> facts{};  // for programs only: what else a front end knows
  std::string token{};           // of the counterexample
  std::string replay_options{};  // options that crashcut replay needs, each with a blank after it
  std::string debug{};           // a command that opens a debugger at it
  std::string resume{};          // a command that continues this search
};

// The same program under several models.
Verdict worst_of(const std::vector<Result>& rows, std::size_t expected_count);

}  // namespace crashcut::result
