// Runtime: what the parts of the injected library share. One per process; forked with it.
//
// Threads: the program's threads enter through the SIGSYS handler; the model and what is marked so here is
//   used under the model's lock only.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fusefs/crash_view.h"
#include "fusefs/filesystem.h"
#include "fusefs/process.h"
#include "fusefs/recorder.h"
#include "inject/end.h"
#include "inject/model.h"
#include "persist/cut.h"
#include "pmem/crash_view.h"
#include "pmem/recorder.h"
#include "recovery/inprocess/memory/heap.h"
#include "recovery/inprocess/memory/places.h"
#include "recovery/inprocess/memory/threaded.h"
#include "recovery/inprocess/op_stacks.h"
#include "recovery/inprocess/protocol.h"
#include "recovery/inprocess/recorded.h"

namespace crashcut::inprocess {

using inject::Call;
using inject::g_phase;
using inject::kernel;
using inject::Phase;
using inject::set_dispatch;
using inject::spend_image;
using inject::tool_error;
using inject::unsupported;
using inject::user_error;

// Memory that shows a modelled file: MAP_SHARED, and not writable.
struct FileMapping {
  std::uint64_t begin, end;
  std::uint64_t offset;  // of `begin` in the file
  long protection;
  bool is_writable;  // the file was opened for writing, too
  fusefs::Process::MappedRead read;
};

// The filesystem and the persistent memory that the program in this process sees. Lives in the active arena.
struct Model {
  std::unique_ptr<fusefs::Recorder> recorder;  // none: what it writes will not be crashed
  std::unique_ptr<pmem::Recorder> memory;      // likewise; none without persistent memory. Shares the log of `recorder`
  std::unique_ptr<ThreadedMemory> threaded;    // where threads are scheduled: how they reach `memory`
  Places places;                               // of what `memory` records
  std::vector<NamedRegion> regions;            // of persistent memory
  PersistentHeap heap;                         // in some of them; empty without --malloc
  std::unique_ptr<fusefs::Filesystem> filesystem;
  std::unique_ptr<fusefs::Process> process;
  std::map<int, std::string> names;  // of descriptors, as they were opened, for the report
  std::vector<FileMapping> mappings;
  OpStacks op_stacks;       // of main()
  bool is_changed = false;  // by the call that is being done; mappings show it
};

// One crash that this recovery looks back on.
struct Crash {
  const Recorded* recorded;
  std::unique_ptr<persist::Cut> cut;
  std::unique_ptr<fusefs::CrashView> view;
  std::unique_ptr<pmem::CrashView> memory;  // none without persistent memory
};

inline constexpr int kFdsMost = 65536;
inline constexpr int kExitTool = 101;  // of a process of ours that stopped itself; the shared memory says why

struct Runtime {
  std::byte* control = nullptr;
  Header* header = nullptr;
  Slot* slot = nullptr;
  int socket = -1;
  int placeholder = -1;  // what a modelled descriptor is to the kernel
  int pid = 0;
  void (*recover)() = nullptr;
  // If there is no recover(): main() runs again.
  inject::Main main = nullptr;
  int argc = 0;
  char** argv = nullptr;
  char** envp = nullptr;
  std::atomic<std::uint32_t> lock{0};
  std::atomic<int> threads{1};
  const Recorded* recorded = nullptr;  // of main(), sealed
  std::atomic<std::uint64_t> modelled_fds[kFdsMost / 64] = {};
  std::atomic<std::uint64_t> mapped_begin = UINT64_MAX, mapped_end = 0;  // Model::mappings lie between
  // Recovery: which of its descriptors are its stdout (1) or stderr (2). Small numbers only.
  std::uint8_t captured[1024] = {};
  Model* model = nullptr;
  bool has_other_real_ids = false;
  bool narrating = false;
  bool has_timer = false;   // the program has set one: a signal may come, and a fork would not get it
  bool restorable = false;  // when this recovery ends, its process can be made a fresh image again (snapshot.h)
  std::string* call_text = nullptr;

  bool models_fd(long fd) const {
    return fd >= 0 && fd < kFdsMost && (modelled_fds[fd / 64].load(std::memory_order_relaxed) >> (fd % 64) & 1) != 0;
  }
};
extern Runtime g;

std::uint64_t now_ns();

// --- file_calls.cc
// Whether the model does the call, unless it says kForward.
bool is_model_call(const Call& call);
// A call of crashcut.h.
long own_call(Call& call);
// Runs `function` on the model's stack, under its lock.
void run_in_model(void (*function)(void*), void* argument);
template <class F>
void in_model(F&& function) {
  run_in_model([](void* f) { (*static_cast<std::remove_reference_t<F>*>(f))(); }, &function);
}

// --- calls_memory.cc
// Whether memory may hold a mapping of a modelled file.
bool is_mapped(long address, long length);
// Files may have changed: mappings show them as they are. Call in the model.
void refresh_mappings();

// --- model.cc
void start_execution_model();
// Ends the recording of what the program of this model did. The model stays where it is.
const Recorded* seal(Model& model);
// Ends the recording of main() and publishes it.
void publish_recording(int exit_code);
// The same, and ends the process.
[[noreturn]] void end_execution(int exit_code);
// Fills the model from a real directory.
void copy_tree_in(const char* directory);
// Who the program is to the kernel, by its effective ids (notes whether the real ones are others); by its real ones.
fusefs::Credentials own_credentials();
fusefs::Credentials real_credentials();
fusefs::Process::Setup process_setup(fusefs::Filesystem& filesystem);
fusefs::Filesystem::Setup filesystem_setup(fusefs::Recorder* recorder, fusefs::Medium* medium);

// --- scheduled_calls.cc: main() where its threads are scheduled
// Where the effects of calls go; null where threads are not scheduled.
fusefs::Effects* effects_of_calls();
void prepare_filesystem(fusefs::Filesystem::Setup& setup);
// Where to look for a free number.
int lowest_fd(int lowest);

// --- slots.cc: live processes, and what becomes of them
struct Child {
  long pid;
  Slot* slot;
};
Slot& slot_at(std::uint32_t index);
// A slot that starts as this process's own stands: same path, same output. Null where all are taken.
Slot* take_slot();
// Forks. In the child pid is 0 and the slot is its own; dispatch is off in it.
Child fork_child(Slot* slot);
// Waits for the child; the status of wait(), and the processor time that it used.
int wait_for(const Child& child, std::uint64_t* cpu_ns = nullptr);
// How a child of that status ended. A signal that was sent is the program's, whatever code it came to.
inject::ChildEnd end_of(const Slot& slot, int status);
// Records how the child ended and frees its slot. False where it is still to come: it was stopped before its end, or
// there was no room to count it.
bool settle(const Child& child, int status);
// Waits for a child that follows a path of its own; where it is still to come, that is left as work.
void reap(const Child& child);
// Records how the recovery of a process that goes on ended; its slot starts anew, as `like` stands.
enum class Renewed {
  kRecorded,
  kToCome,       // there was no room to count it
  kBeingKilled,  // by the watchdog: nothing is recorded, and the slot is as it was
};
Renewed settle_and_renew(Slot& slot, const Slot& like);
// Counts a recovery that ended well before its record is made. False where there is no room.
bool count_ahead(Slot& slot);
// From here on the watchdog does not kill this process; where it is about to, this does not return.
void hold_off_watchdog();
// The time of this process's recovery begins anew.
void let_watchdog_go();
// The answers of a process so far; where it still follows a path, that path. Returns how many there are; where `to` is
// null it only counts.
std::uint32_t copy_path(const Slot& slot, std::uint32_t* to);
std::vector<std::uint32_t> path_of(const Slot& slot);
// Where the number of candidates of a choice is kept. Null beyond what a slot holds.
persist::Question* question_at(Slot& slot, std::uint32_t index);
// Adds to what a recovery did. False where the slot is full.
bool append_stream(Slot& slot, StreamType type, const void* bytes, std::size_t count);

// --- jobs.cc: each job runs on its core
void set_up_jobs();
void pin_to_job(std::uint32_t job);

// --- explorer.cc
// What the root of an exploration, or a single run, is to do.
struct RunRequest {
  RequestKind kind;
  std::vector<std::uint32_t> path;  // empty where work.h has the paths
  std::vector<std::uint32_t> events;
  std::uint32_t drop = kDropNothing;
};
// In R: builds the crashed disk. Call in the model.
void begin_recovery(RunRequest request);
[[noreturn]] void finish_recovery(Outcome outcome, int exit_code);
// The recovery's own output.
void capture_output(int stream, const void* bytes, std::size_t count);
// Whenever the cut may have changed: how much of it is certain, should the recovery die before it comes back.
// With persistent memory, counting them costs as much as there are events: see note_events_at_end().
void note_events_in();
// The recovery is about to fail: the same, whatever it costs.
void note_events_at_end();
// Whether the mark was reached; decides it.
bool reached(std::string_view mark);
// --- server.cc: explores what work.h holds; ends the process
[[noreturn]] void serve_recoveries();
// The same for samples.
[[noreturn]] void serve_samples(const Request& request);
// The recovery of this process has ended: runs the next one in its place, in a fresh image. Returns if there is none,
// or if the server must record this one. Call in the model.
void go_on_with_next();
// Whether the process of this recovery can become a server that stands at its next choice. Call on the program's stack.
bool can_stand();
// Becomes that server. Returns in each process that goes on from the choice, as another recovery; the server itself
// explores all of them and ends.
void stand_at_choice();
// Where the heap of the image ends, for calls that move it.
std::uint64_t image_break();

// --- layers.cc: recoveries that crash too
void start_zygotes();
void stop_zygotes();
// Runs the recoveries of the next crash in a fresh image and waits for them. Returns what becomes of the recovery that
// ended here.
Outcome explore_next_layer();

// --- narrate.cc: single runs and descriptions as JSON lines
void narrate_call(long result);
void narrate_text(const std::string& text);
void narrate_choice(std::uint32_t layer, const persist::Recording& recording, const persist::Choice& choice,
                    std::uint32_t taken);
// What the cuts hold now, for the coordinator, which reads it after this process has died.
void note_cuts(const std::vector<Crash>& crashes);
void describe_recording(std::uint32_t layer, const Recorded& recorded);
// In C, after a single run: the last lines. Allocates nothing.
void finish_trace();
// How the first crash of the last single run decided an event.
enum class Decided : std::uint8_t { kOpen, kIn, kOut };
Decided decided_in_last_run(persist::EventId event);
void append_line(std::string_view json);
// Length of the UTF-8 character at the beginning; 0 if it is none.
std::size_t utf8_length(std::string_view text);
std::string json_string(std::string_view text);
// --- memory/notes.cc
// The code of the load that is being done; null outside of loads.
extern const void* g_load_code;
// A load of main()'s stores is about to take a candidate.
void note_choice(const persist::Choice& choice, const Crash& crash, std::uint32_t taken, pmem::CrashMoment& moment);
// The reply to RequestKind::kFindNotes.
void describe_notes();
// The reply to RequestKind::kFindFlushes. (memory/missing_flushes.cc)
void describe_missing_flushes();
// The reply to RequestKind::kFindSyncs. (missing_syncs.cc)
void describe_missing_syncs();

// --- hold.cc: a debugger looks at the program (crashcut gdb)
extern bool g_is_held;  // main() is to wait after an operation
// After an access or call of main() that is done.
void hold_after_operation();
// In a recovery: before it begins; after a load or call that had answers.
void hold_after_answers(std::uint32_t count);

// --- coordinator.cc
int coordinate(int argc, char** argv, char** envp, inject::Main real_main);
// In a fresh image: descriptors and output as recoveries have them.
void prepare_recoveries();
// In a fresh image: runs crashcut_recover() on the model that stands, and ends the process.
[[noreturn]] void run_recovery();

}  // namespace crashcut::inprocess
