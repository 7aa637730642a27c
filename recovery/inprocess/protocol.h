// Protocol: the memory that crashcut and the runtime inside the program under test share.
//
// Who is who:
//   crashcut  the command (Session is its end). It makes the control file, starts the program with the runtime
//             preloaded, watches time limits, reads records and sends requests.
//   C         the coordinator: the program's process, stopped just before main() as a warm image. It forks
//             everything else and serves requests. It never runs main() or crashcut_recover() itself.
//   E         the execution: main() on the model, once.
//   R         a recovery: crashcut_recover() on the crashed disk. It forks at every choice.
//
// Channels: the control file (a memfd, mapped shared by all; layout below) and one SOCK_SEQPACKET socket with
//   Request going in and Reply coming out, one at a time. Both reach the program as descriptors named by the
//   environment variable inject::kControlVariable, which the library removes.
//
// Who writes what: `Header` parameters: crashcut, before the start; counters and results: the runtime. Records
//   are written by the process that waits for a recovery, so a recovery that dies in any way still has one; or by the
//   recovery's own process, if that lives to run the next.
// Invariants: (1) records [0, record_count) are reserved in order and valid once `committed`; (2) a record's
//   payload never moves; (3) a tool failure is never a violation, nor the reverse.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "fusefs/profile.h"
#include "inject/child.h"
#include "inject/environment.h"
#include "persist/added_sync.h"
#include "persist/choices.h"
#include "pmem/model.h"
#include "pmem/notes.h"
#include "pmem/repair.h"
#include "recovery/result/failure.h"
#include "recovery/result/path.h"

namespace crashcut::inprocess {

inline constexpr std::uint64_t kMagic = 0x637261736863757a;
inline constexpr std::uint32_t kVersion = 11;
using inject::kModelRoot;

inline constexpr std::size_t kTextMost = 4096;
inline constexpr std::size_t kOutputMost = 64 * 1024;  // of each of stdout and stderr; more is cut off and marked
inline constexpr std::uint32_t kSlotCount = 4096;      // live processes of an exploration
inline constexpr std::size_t kSlotBytes = std::size_t{8} << 20;  // half a million choices of a recovery
inline constexpr std::size_t kSlotQuestionsOffset = kSlotBytes / 2;
inline constexpr std::uint32_t kInlineChoices = 32;
inline constexpr std::uint32_t kJobsMost = 256;
inline constexpr std::uint32_t kAddedMost = 4;
// Syncs that can be added to main().
inline constexpr std::uint32_t kAddedSyncsMost = 600;

using result::kCrashAgain;

// The regions of the control file, sparse.
inline constexpr std::uint64_t kHeaderOffset = 0;
inline constexpr std::uint64_t kSlotsOffset = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kDigestOffset = std::uint64_t{33} << 30;  // of the last recording, see digest.h
inline constexpr std::uint64_t kDigestBytes = std::uint64_t{512} << 20;
inline constexpr std::uint64_t kObservedOffset =
    kDigestOffset + kDigestBytes;  // what recoveries looked at: a hash table of names
inline constexpr std::uint64_t kObservedSlots = std::uint64_t{1} << 16;
// What recoveries loaded, as far as it is noted (NotedLoad).
inline constexpr std::uint64_t kNotedLoadsOffset = kObservedOffset + kObservedSlots * sizeof(std::uint64_t);
inline constexpr std::uint64_t kNotedLoadsMost = std::uint64_t{1} << 13;
inline constexpr std::uint64_t kRequestOffset = std::uint64_t{34} << 30;  // payload of a request
inline constexpr std::uint64_t kRequestBytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kReplyOffset = std::uint64_t{35} << 30;  // payload of a reply
inline constexpr std::uint64_t kReplyBytes = std::uint64_t{3} << 30;
inline constexpr std::uint64_t kRecordsOffset = std::uint64_t{38} << 30;  // Record array
inline constexpr std::uint64_t kRecordsBytes = std::uint64_t{24} << 30;
inline constexpr std::uint64_t kHeapOffset = std::uint64_t{62} << 30;  // payload of records
inline constexpr std::uint64_t kHeapBytes = std::uint64_t{194} << 30;
inline constexpr std::uint64_t kControlBytes = std::uint64_t{256} << 30;
static_assert(kSlotsOffset + kSlotCount * kSlotBytes <= kDigestOffset);
static_assert(kNotedLoadsOffset < kRequestOffset && kReplyOffset + kReplyBytes <= kRecordsOffset);
static_assert(kRecordsOffset + kRecordsBytes <= kHeapOffset && kHeapOffset + kHeapBytes <= kControlBytes);

using result::Blame;

// How main() ended.
enum class ExecutionKind : std::uint32_t {
  kRunning,
  kEnded,        // exit_code
  kKilled,       // signal
  kHung,         // exceeded the limit of main()
  kOutOfTime,    // the session's time was up
  kOutOfMemory,  // the recording takes more than Header::memory_bytes_most
  kToolError,    // sentence in execution_text: crashcut could not run it (unsupported call, no recovery function, ...)
};

// How each recovery gets a fresh image of the program. What is found is the same.
enum class FreshImages : std::uint32_t {
  kRestored,  // where possible: the memory of the last recovery's process is put back
  kForked,
};

// How modules of the program were instrumented (inject/instrument/abi.h).
enum Instrumentation : std::uint32_t {
  kInstrumentedEarly = 1,
  kInstrumentedLate = 2,
  kTrapped = 4,
  kCalledBack = 8,  // by -fsanitize=thread (memory/callbacks.cc)
};

// A load of a recovery, for a note. In a table of kNotedLoadsMost, by the hash of all that follows.
struct NotedLoad {
  std::atomic<std::uint64_t> key;  // 0: free
  std::uint64_t code;              // that loaded; 0: a mark was asked for
  std::uint32_t kind;              // pmem::NoteKind
  persist::EventId store, newer;
};

// Header::hold_answer: before the first answer; the number of an answer, from 0, is added to it for the others.
inline constexpr std::uint32_t kHoldsAtBegin = 1;

struct Header {
  std::uint64_t magic;
  std::uint32_t version;

  // Parameters, set by crashcut before the start.
  fusefs::ModelOptions model;
  std::uint32_t has_memory;  // there is persistent memory: crashcut_pmem()
  pmem::MemoryModel memory;
  std::uint32_t has_shared_memory;  // the program is a machine, and its shared memory has caches (memory/cxl_threads.h)
  std::uint32_t shared_has_global_flush, shared_has_poison, poison_is_value;
  std::uint32_t recovers_by_main;  // without crashcut_recover(), main() runs again after a crash
  std::uint32_t memory_steps;      // where threads are scheduled, accesses are steps (memory/threaded.h)
  std::uint32_t traps;             // accesses of code that is not instrumented are trapped, and not refused
  std::uint32_t counts_marks;      // each recovery decides, at its end, how many marks were reached
  std::uint32_t depth;             // crashes in a row, at least 1
  std::uint32_t jobs;              // recoveries at a time, at least 1
  std::uint64_t seed;              // of the order in which answers are tried (persist::AnswerOrder)
  FreshImages fresh_images;
  std::uint64_t stand_after_ns;     // how long a recovery runs before its process may stand (server.cc)
  std::uint64_t memory_bytes_most;  // of the model and its recording
  // For a debugger: main() waits for it once it has done this operation, or the recovery of a single run does after
  // this answer of its path, kHoldsAtBegin: before it begins. 0: nothing waits.
  std::uint32_t hold_operation, hold_answer;
  // Syncs that main() does besides its own.
  std::uint32_t added_sync_count;
  persist::AddedSync added_syncs[kAddedSyncsMost];
  char from_directory[kTextMost];  // copied into the model as the starting state; empty: an empty disk
  char runtime_path[kTextMost];

  // The execution, valid once the first Reply (kExecuted) came.
  ExecutionKind execution;
  std::int32_t exit_code;
  std::int32_t signal;
  std::uint64_t op_count;
  std::uint64_t event_count;
  std::uint64_t fingerprint;                 // of operations and events: a replay of another one diverges
  std::atomic<std::uint32_t> threads_begun;  // by main(), and by these
  char execution_text[kTextMost];
  Blame execution_blame;               // of a tool error
  std::uint64_t recording_address;     // in the program's memory; for the runtime
  std::int32_t threads_pid;            // the process that runs main(), if threads are scheduled
  std::uint32_t has_recover;           // there may be no crashcut_recover() then
  std::uint32_t instrumentation;       // Instrumentation bits, of all modules
  std::uint32_t region_count;          // of persistent memory, in main()
  std::uint32_t wants_threads;         // a thread was started while there was persistent memory: schedule the threads
  std::atomic<std::int32_t> held_pid;  // the process that waits for a debugger; 0: none does
  std::uint32_t is_observing;          // what recoveries look at is noted
  std::atomic<std::uint64_t> observed_count;
  std::uint64_t digest_bytes;  // 0: there is none, or it is too long

  // The exploration. crashcut may set `stop` at any time, and max_recoveries before a request; the rest is the
  // runtime's.
  std::atomic<std::uint32_t> stop;
  std::uint64_t max_recoveries;               // stop when `recoveries` gets there; 0: no limit
  std::uint32_t notes;                        // pmem::NoteKind bits: what recoveries note of their loads
  std::atomic<std::uint32_t> notes_left_out;  // there was no room for them
  // Set before a request: flushes that recoveries find in what main() recorded, as if main() had had them.
  std::uint32_t added_count;
  pmem::AddedFlush added[kAddedMost];
  std::atomic<std::uint32_t> is_lost;     // something was not explored, and is not in the queue of work either
  std::atomic<std::uint64_t> recoveries;  // counted, all kinds
  std::atomic<std::uint64_t> record_count;
  std::atomic<std::uint64_t> heap_used;
  std::atomic<std::uint64_t> trace_bytes;  // of the single run in progress, at kReplyOffset
  std::atomic<std::uint32_t> diverged;     // a recovery did not meet the choices that it was to repeat
  // Where threads are scheduled: those of recoveries are, too; how many recoveries began threads.
  std::atomic<std::uint32_t> schedules_recoveries, threaded_recoveries;
  std::atomic<std::uint64_t> stood_count;  // processes of recoveries that became servers (server.cc); statistics
};

// One live process, for the watchdog and for the process that waits for it. Slot 0 is E.
enum class SlotState : std::uint32_t { kFree, kTaken };
enum class Outcome : std::uint32_t {
  kNone,  // nothing yet; a process that dies with it died by a signal
  kOk,
  kAssumedAway,
  kExited,  // non-zero exit
  kStuck,   // it never ends (memory/stuck.h)
  kToolError,
  kAbandoned,  // stopped before its end, or there was no room to count it: not recorded, and still to come
  kInner,      // others have recorded it, or its children did: not recorded
};
using inject::kAbandoned;
using inject::kByItself;
using inject::Killed;
using inject::kKilled;
using inject::kNotKilled;
using inject::kNotToBeKilled;
struct Slot : inject::ChildState {
  std::atomic<SlotState> state;
  Outcome outcome;
  std::int32_t exit_code;
  std::uint32_t events_in;
  std::uint32_t layer;  // 1 for the recovery after the first crash
  std::uint32_t path_length;
  std::uint32_t output_bytes;  // stdout
  std::uint32_t error_bytes;   // stderr
  std::uint32_t stream_used;
  std::uint32_t last_entry;                     // where the last entry of the stream begins
  std::uint32_t job;                            // the core that it runs on
  std::uint32_t choice_count;                   // of this layer
  persist::Question questions[kInlineChoices];  // of each; the rest at kSlotQuestionsOffset
  std::uint32_t text_bytes;                     // of a tool error
  Blame blame;                                  // of a tool error
  std::uint32_t is_counted;                     // among Header::recoveries already
  std::uint32_t output_cut;                     // bit 0: stdout, bit 1: stderr
  std::uint32_t output_rest;                    // a hash of what of stdout was cut off
  std::uint32_t marks_reached;                  // if they are counted
  // Entries {u32 type, u32 length, bytes padded to 4}: NotedAnswers, output and text in the order they came.
  std::byte stream[];
};
enum StreamType : std::uint32_t {
  kStreamAnswer,
  kStreamOutput,
  kStreamError,
  kStreamText,
  kStreamPrefix,  // u32 answers: the path that it is to follow, as far as it is given
};

// How the recoveries of an item of work are run.
enum class WorkMode : std::uint32_t {
  // All below a path, each from the beginning, in an image of one process that stays as it is: cheapest for short ones.
  kAgain,
  kBranch,  // all below a path, forked at each choice: what came before it is not run again
  kRest,    // as kAgain, what is left of a tree
};

// What is still to be explored, shared by all processes of an exploration (work.h). It lies in
// the upper half of the request's region. After an exploration that was stopped it holds what is left.
struct WorkQueue {
  std::atomic<std::uint32_t> lock;
  std::atomic<std::uint32_t> owed;     // queued or taken, not done
  std::atomic<std::uint32_t> waiting;  // processes
  std::atomic<std::uint32_t> queued;
  std::uint64_t used;  // bytes
  // {numbers, u32 how many, u32 WorkMode}: the last one is taken first. The numbers are the answers of a path; of
  // kRest: ChoiceTree::to_numbers().
  std::byte bytes[];
};
inline constexpr std::uint64_t kWorkOffset = kRequestOffset + kRequestBytes / 2;
inline constexpr std::uint64_t kWorkBytes = kRequestBytes / 2 - sizeof(WorkQueue);

enum class RecordKind : std::uint32_t {
  kOk,
  kAssumedAway,  // crashcut_assume(0)
  kExited,       // violation: exit_code
  kSignalled,    // violation: signal. An assert, abort or uncaught exception is SIGABRT
  kHung,         // violation: exceeded the limit of a recovery, by a signal; or never ends, without one
  kToolError,    // text, blame
};
inline constexpr bool is_violation(RecordKind k) {
  return k == RecordKind::kExited || k == RecordKind::kSignalled || k == RecordKind::kHung;
}

// An answer of a path, and how many answers the choice had. kCrashAgain: 1.
struct NotedAnswer {
  std::uint32_t answer;
  std::uint32_t count;
};

// One recovery. The payload is path_length NotedAnswers, then stdout, stderr and text, without padding between.
struct Record {
  std::atomic<std::uint32_t> committed;
  RecordKind kind;
  std::uint64_t payload;  // offset in the control file
  std::uint32_t path_length;
  std::uint32_t output_bytes;
  std::uint32_t error_bytes;
  std::uint32_t text_bytes;
  std::int32_t exit_code;
  std::int32_t signal;
  std::uint32_t events_in;  // certainly persisted, all layers together
  std::uint32_t layer;
  std::uint32_t output_cut : 2;  // bit 0: stdout was longer, bit 1: stderr was
  std::uint32_t output_rest : 30;
  Blame blame;  // of a tool error
  std::uint32_t marks_reached;
};
static_assert(sizeof(Record) == 64);

enum class RequestKind : std::uint32_t {
  kExplore,      // each of the parts (persist::Part); records are appended; Reply when done
  kSample,       // `count` recoveries by `strategy` (recovery/search/sampling.h); likewise
  kReplay,       // exactly the path; one record, and the trace as reply text
  kRunCut,       // one recovery on the cut `events` less `drop` and all above it; one record and the trace
  kDescribe,     // the recording as reply text
  kFindNotes,    // pmem::NoteKinds of Header::notes, as reply text
  kFindFlushes,  // the flushes that make the crash of the last single run impossible, as reply text
  kFindSyncs,    // the syncs of files that do, as reply text
  kQuit,
};
// Payload at kRequestOffset: `length` numbers: the path of kReplay, the events of kRunCut; of kExplore, for each part
// its length and its numbers.
struct Request {
  RequestKind kind;
  std::uint32_t length = 0;
  std::uint32_t drop = 0xffffffff;  // kRunCut: an event to leave out with all that persists after it; kDropNothing
  std::uint32_t strategy = 0;
  std::uint64_t seed = 0;  // of samples
  std::uint64_t count = 0;
};
inline constexpr std::uint32_t kDropNothing = 0xffffffff;

enum class ReplyKind : std::uint32_t {
  kExecuted,  // once, unasked: main() ended, see Header::execution
  kDone,
  kFailed,  // crashcut's own failure; text says why
};
// Text at kReplyOffset: JSON, one object a line.
//   Describe: {"op":0,"text":"open(\"foo\", ...)"} ... then
//     {"event":0,"op":0,"kind":"name","sync":false,"text":"...","after":[...],"durable":false}   after: direct
//     predecessors, the barrier it follows among them
//   Replay, RunCut, in order as they happened:
//     {"call":"read(3 foo, 10) = 2","layer":1}
//     {"choice":0,"layer":1,"location":"size of foo","candidates":["4","0"],"taken":1}
//     {"wait":"it loads ..."}: what it waits for from now on; empty: it does not
//     and last {"layer":1,"earliest":2,"latest":5,"in":[...],"out":[...]} for each crash. The events of a crash beyond
//     the first are those of the recovery before it: {"layer":2,"op":0,"text":"..."}, {"layer":2,"event":0,...}.
//   FindNotes: {"note":"overwrite","place":"{file+0x12}","count":3,"text":"..."} and, if there were more,
//     {"left_out":7}
//   FindFlushes, the smallest change first: {"kind":0,"place":3,"after":"{file+0x12}","flushed":"pool+0x40","lines":1}
//     and last {"lost_earlier":true}: main() stored something that was lost before something that was not.
struct Reply {
  ReplyKind kind;
  std::uint32_t diverged;  // kReplay: it did not meet the choices of the path
  std::uint64_t record;    // index of the record of a single run
  std::uint64_t text_bytes;
};

}  // namespace crashcut::inprocess
