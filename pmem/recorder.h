// Recorder: turns what the threads of a program do with x86 memory into events and their persist order.
//
// Models: Px86sim (Raad et al., POPL 2020; Jaaru section 2 and table 1), all crash moments of one recorded execution.
//   Store buffers with forwarding; clflush in order; clflushopt and clwb, which take effect with the next sfence,
//   mfence or locked instruction; non-temporal and direct stores; stores of several words, which tear; eADR and strict
//   persistency (pmem/model.h). Ordinary memory, as far as reads from it order threads.
// Does not model: instruction fetches, page tables, memory types other than write-back, failed lines of the medium, and
//   a store buffer's size. Thread creation and joining count as locked instructions: pthreads executes many.
//   A store with partly forwarded bytes does not wait. (May report what cannot happen: none known. May miss bugs: a
//   clflushopt that only the locked instructions inside of pthread_create complete.)
//
// On crash, the fates of a store:
//   - it waits in a store buffer: lost;
//   - it is in the cache: the line reached the medium before it, or after it. The stores of a line are a chain;
//   - its line was flushed after it and the flush is complete: durable. clflush is complete when it leaves the buffer;
//     clflushopt and clwb are when a later fence of their thread is;
//   - a non-temporal store: each word alone, or durable once a fence of its thread followed.
//
// How the order is kept: the cut must be closed under (1) the chain of each line, (2) "a fence is in: all that it
//   waited for is in", (3) "a store is in: every fence is in that comes before it". The fences before an operation are
//   its *past*. Pasts follow what comes after what while the program runs: each thread's own order by the table of the
//   paper, a read after the store that it reads from, through ordinary memory too, and the order in which stores and
//   flushes of one line took place. A store that another thread merely did earlier is in no past: it need not persist,
//   and a fence is no barrier for threads that have not heard of it. Two flushes of one line are not ordered: neither
//   changes what the other one covers.
// Each thread carries three pasts, because a load does not wait for its own thread's store buffer:
//   executed   of the next load: what loads, locked instructions and mfences before it brought;
//   left       of the next entry that leaves the buffer: what the entries before it brought;
//   fenced     of the next clflushopt and non-temporal store: what was left at the last sfence.
//
// Under eADR and strict persistency each store is a fence itself, so that pasts hold stores.
//
// A fence that waits for nothing new makes no event.
//
// Invariants: (1) a store makes its events when it leaves the buffer, in the order of the cache; (2) the pieces of one
//   wide store have no order among themselves, all come after the line's earlier stores and before its later ones;
//   (3) `left` only grows along a thread, and so does `executed`.
// Cost: an event a store, 20 to 40 ns while lines and log stay in the processor's cache (tests/bench/pmem_bench.cc).
// Threads: the caller serialises.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "pmem/dram.h"
#include "pmem/medium.h"
#include "pmem/recording.h"
#include "pmem/repair.h"
#include "pmem/store_buffer.h"

namespace crashcut::pmem {

struct RecorderOptions {
  MemoryModel model;
  // Off: each store leaves the buffer at once. For a program of one thread that has the same crashes.
  bool has_store_buffers = false;
  // Meetings of threads are kept (Recording::meetings), for notes.
  bool notes_meetings = false;
};

class Recorder {
 public:
  // `ground` is the crashed memory that the program runs on; null: memory that is all zero. `files` is the recording
  // whose log this one shares, null if there is none; the caller makes durable and seals through that one.
  explicit Recorder(const RecorderOptions& options, Medium* ground = nullptr, persist::Recording* files = nullptr);
  ~Recorder();

  // A persistent region, whole lines. Everything else is ordinary memory.
  void add_region(const Region& region, std::string name);
  bool is_persistent(Address address) const { return recording_->lines.contains(address); }

  // Thread 0 runs from the beginning.
  ThreadId start_thread(ThreadId parent);
  void join_thread(ThreadId waiter, ThreadId ended);
  // The same in parts, for a caller that knows which locked instructions of threads meet: a thread that comes after
  // nothing yet; what a thread that has just fenced, its buffer empty, adds to what others handed on; and
  // how a thread comes after that.
  ThreadId add_thread();
  persist::FenceSetId hand_on(persist::FenceSetId earlier, ThreadId thread) {
    return join(earlier, threads_[thread].executed);
  }
  void come_after(ThreadId thread, persist::FenceSetId past) {
    set_all_pasts(threads_[thread], join(threads_[thread].executed, past));
  }
  // The same, for notes: the thread comes after what another one had done when it had made so many operations.
  std::uint32_t op_count() const { return static_cast<std::uint32_t>(recording_->ops.size()); }
  void note_meeting(ThreadId from, std::uint32_t from_op_count, ThreadId to);

  // ---- instructions, when they are executed ----

  // Fills `out` with what the thread sees. In ordinary memory the caller has filled it with what memory holds; the
  // bytes that wait in the thread's own buffer replace that.
  void load(ThreadId thread, Address address, std::span<std::byte> out, PlaceId place = 0);
  // One store instruction, of any width.
  void store(ThreadId thread, Address address, std::span<const std::byte> bytes, PlaceId place = 0,
             StoreForm form = StoreForm::kPlain);
  // A masked store: of `bytes`, the lanes of `lane_bytes` each whose bit is set. Its words leave in any order. (May
  // miss bugs: lanes of one word with a gap between them persist in order.)
  void store_lanes(ThreadId thread, Address address, std::span<const std::byte> bytes, std::size_t lane_bytes,
                   std::uint64_t lanes, PlaceId place = 0);
  // A piece of memcpy, memset or `rep movs`: its words leave in any order.
  void copy(ThreadId thread, Address address, std::span<const std::byte> bytes, PlaceId place = 0);
  // movnt*, movdiri; `is_whole`: movdir64b, which does not tear.
  void store_non_temporal(ThreadId thread, Address address, std::span<const std::byte> bytes, PlaceId place = 0,
                          bool is_whole = false);
  // A locked instruction: empties the buffer, fences, and fills `old` as load() does. If it writes, which a failed
  // compare-and-exchange does not, store_locked() follows before anything else happens. If the operand is in ordinary
  // memory and `old` matters, the caller empties the buffer with leave() first and fills `old` then.
  void begin_locked(ThreadId thread, Address address, std::span<std::byte> old, PlaceId place = 0);
  void store_locked(ThreadId thread, Address address, std::span<const std::byte> bytes, PlaceId place = 0);
  void mfence(ThreadId thread, PlaceId place = 0);
  void sfence(ThreadId thread, PlaceId place = 0);
  void clflush(ThreadId thread, Address address, PlaceId place = 0);
  void clflushopt(ThreadId thread, Address address, PlaceId place = 0);  // and clwb
  // The program promises something. Comes after what has left the buffer, and not after an unfenced clwb.
  void mark(ThreadId thread, std::string_view text, PlaceId place = 0);
  // Everything so far is durable. Empties all buffers.
  void make_durable();
  // The same in two steps, where the log is shared: the other model makes it durable in between.
  void begin_durable();
  void end_durable() { durable_end_ = static_cast<persist::EventId>(recording_->log.event_count()); }
  // The fences that come before a system call of the thread: those that come before a mark. (The kernel executes locked
  // instructions too. They are not counted on.)
  persist::FenceSetId past_of_call(ThreadId thread) {
    close_group(thread);
    return join(threads_[thread].left, threads_[thread].executed);
  }

  // From now on the program has these flushes, too: each is done when the store, or flush, of its place has left the
  // buffer, before anything else does; or right after the load of its place, of what was loaded. (repair.h adds them to
  // a recording of one thread that there is.)
  void add_flushes(std::span<const AddedFlush> flushes) { added_.assign(flushes.begin(), flushes.end()); }

  // ---- store buffers ----

  const StoreBuffer& buffer(ThreadId thread) const { return threads_[thread].buffer; }
  // Entry `i` leaves; it may. Returns it: a store to ordinary memory is the caller's to carry out.
  BufferEntry leave(ThreadId thread, std::size_t i);
  // Everything leaves, oldest first. Stores to ordinary memory must have left before.
  void empty_buffer(ThreadId thread);

  const Recording& recording() const { return *recording_; }
  Recording& recording() { return *recording_; }
  // Ends the recording. What still waits in a buffer is lost in every crash.
  std::shared_ptr<const Recording> seal();

 private:
  // What a thread's next fence waits for.
  struct Awaited {
    persist::EventId event;
    Line* line;  // null: a non-temporal store
  };
  struct Thread {
    persist::FenceSetId executed = persist::kNoFences;
    persist::FenceSetId left = persist::kNoFences;
    persist::FenceSetId fenced = persist::kNoFences;
    std::vector<Awaited> awaited;
    // Under eADR: the pieces of a wide store whose other pieces may still come, and its number.
    std::vector<persist::EventId> open_pieces;
    std::uint32_t open_group = 0;
    StoreBuffer buffer;
  };
  // The newest stores of a line that have no order among themselves, and what they come after.
  struct Group {
    persist::EventId below;
    std::vector<persist::EventId> newest;
  };

  std::uint32_t next_op();
  bool is_eager() const { return options_.model.persistency != Persistency::kPx86; }
  bool is_concurrent() const { return threads_.size() > 1; }
  persist::FenceSetId join(persist::FenceSetId a, persist::FenceSetId b) {
    return a == b || b == persist::kNoFences ? a : a == persist::kNoFences ? b : recording_->log.join(a, b);
  }
  persist::EventId note(persist::EventId event, const EventInfo& info);
  void set_all_pasts(Thread& thread, persist::FenceSetId past) { thread.executed = thread.left = thread.fenced = past; }

  // recorder_store.cc
  void store_pieces(ThreadId thread, Address address, std::span<const std::byte> bytes, BufferEntry& entry,
                    Address unit);
  void execute(ThreadId thread, const BufferEntry& entry);
  void leave_now(ThreadId thread, const BufferEntry& entry);
  void leave_store(ThreadId thread, const BufferEntry& entry);
  void leave_dram_store(ThreadId thread, const BufferEntry& entry);
  void leave_ordinary(ThreadId thread, Line& line, const BufferEntry& entry);
  void leave_non_temporal(ThreadId thread, Line& line, const BufferEntry& entry);
  void collect_writes(Line& line, const BufferEntry& entry);
  persist::Value merge_value(Line& line, WordNumber word, ByteMask bytes, std::uint64_t data);
  persist::LocationId add_word(WordNumber word, ByteMask bytes);
  void begin_group(Line& line, const BufferEntry& entry, ThreadId thread);
  void collect_stores_below(Line& line, const BufferEntry& entry, ThreadId thread);
  std::span<const persist::EventId> newest_stores(const Line& line);
  persist::EventId add_store(ThreadId thread, const BufferEntry& entry, persist::FenceSetId past);
  void close_group(ThreadId thread);

  // recorder_flush.cc
  void leave_clflush(ThreadId thread, const BufferEntry& entry);
  void take_place(ThreadId thread, const BufferEntry& clflushopt);
  void leave_mark(ThreadId thread, const BufferEntry& entry);
  void add_flushes_after(ThreadId thread, const BufferEntry& entry);
  void add_flushes_after_load(ThreadId thread, Address address, std::size_t bytes);
  void add_flush(ThreadId thread, AddedFlush::Kind kind, const BufferEntry& entry);
  bool has_unflushed(Address line) const;
  bool is_covered(const Line& line, persist::FenceSetId past) const;
  void note_flush(ThreadId thread, FlushKind kind, Address address, PlaceId place, bool is_redundant);
  persist::FenceSetId fence(ThreadId thread, persist::FenceSetId past, PlaceId place, FlushKind kind);

  // recorder.cc
  void let_clflushopts_leave(ThreadId thread);
  std::uint64_t load_line(ThreadId thread, Address address, std::span<std::byte> out);
  void load_word(Line& line, Address address, std::span<std::byte> out);
  void read_from(ThreadId thread, const Line* line, Address address, std::size_t bytes, std::uint64_t forwarded);
  void come_after_store(ThreadId reader, persist::EventId last, ByteMask bytes);
  void note_read(ThreadId reader, persist::EventId store);
  void note_dram_store(const BufferEntry& entry, ThreadId thread, WordNumber word, ByteMask bytes);
  void note_dram_read(ThreadId reader, WordNumber word, ByteMask bytes);

  RecorderOptions options_;
  Medium* ground_;
  std::shared_ptr<Recording> recording_;
  std::vector<Thread> threads_;
  DramPasts dram_;
  struct DramStore {
    ByteMask bytes;  // of the word, that no later store has overwritten
    ThreadId thread;
    std::uint32_t op;
  };
  std::unordered_set<persist::EventId> pieces_;  // of stores of several words, if meetings are noted
  std::unordered_map<WordNumber, std::vector<DramStore>> dram_stores_;  // the last ones, if meetings are noted
  PlaceId load_place_ = 0;                                              // of the load that is being done
  std::vector<AddedFlush> added_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> free_groups_;
  std::uint32_t group_count_ = 0;
  persist::EventId durable_end_ = 0;  // the events before this one are durable
  std::vector<persist::Write> writes_;
  std::vector<persist::EventId> after_;
};

}  // namespace crashcut::pmem
