// ThreadedMemory: the memory of a program whose threads are scheduled, as instrumented code accesses it.
//
// Three ways, by Header::memory_steps:
//   in order   stores leave their buffers at once. Atomic accesses are steps, so that threads take turns at them; plain
//              accesses are none, but the model is told of them. One schedule is run so, whatever its length.
//   by turns   the same of code that is trapped (trap.h), where schedules are searched: threads take turns before each
//              access and flush of modelled memory, too, and before a fence that has something to wait for. Each
//              execution is one order of these, one at a time.
//   by steps   each access of modelled memory is a step, and so is each access of ordinary memory that is atomic or
//              that threads race for. Each entry of a store buffer leaves by a step of its own (scheduler/runtime/
//              buffers.h). So all schedules are all that x86 allows. Plain accesses of ordinary memory that is not
//              raced for are none: calls that synchronise threads order them, and empty the buffers.
// What the memory does with an access is a model's: persistent memory (pmem_threads.h), memory that machines share
//   (cxl_threads.h). Memory that is the model's is called modelled here: persistent, or shared. All else is ordinary.
// Does not model: words of a store or copy of more than 64 words in every order as other threads see them (their order
// on
//   the medium is exact), and more than 64 non-temporal stores between two fences in every order (may miss bugs).
// Threads: the program's, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

#include "pmem/model.h"
#include "pmem/store_buffer.h"
#include "pmem/x86_primitive.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/runtime/world.h"

namespace crashcut::inprocess {

class ThreadedMemory {
 public:
  enum class Kind { kStore, kAtomicStore, kCopy, kNonTemporal, kNonTemporalWhole };
  // What is stored in place of the bytes that were there; nothing: an empty span.
  using Decide = std::function<std::span<const std::byte>(std::span<const std::byte>)>;

  ThreadedMemory(const pmem::MemoryModel& model, bool has_steps, bool has_turns = false)
      : model_(model), has_steps_(has_steps), has_turns_(has_turns) {}
  virtual ~ThreadedMemory() = default;

  bool has_steps() const { return has_steps_; }

  // ---- accesses of the running thread. Addresses of modelled memory are in regions.
  void load(pmem::Address address, std::span<std::byte> out, bool is_atomic, const void* code);
  void store(pmem::Address address, std::span<const std::byte> bytes, Kind kind, bool is_atomic, const void* code);
  // A masked store: of `bytes`, the lanes of `lane_bytes` each whose bit is set.
  void store_lanes(pmem::Address address, std::span<const std::byte> bytes, std::size_t lane_bytes, std::uint64_t lanes,
                   const void* code);
  // What a locked instruction makes of a value, as far as scheduler/primitives/memory.h knows it.
  struct Change {
    scheduler::memory::Verb verb = scheduler::memory::kModify;
    std::int64_t argument = 0, expected = 0;
  };
  void lock(pmem::Address address, std::size_t bytes, const Change& change, const Decide& decide, const void* code);
  enum class Flush { kClflush, kClflushopt, kClwb };
  void flush(pmem::Address address, Flush how, const void* code);
  void sfence(const void* code);
  void mfence(const void* code);

  // ---- scheduler/runtime/buffers.h
  void empty_buffer(const void* caller);
  void empty_all_buffers(const void* caller);
  virtual void note(const scheduler::Step& step) = 0;
  virtual void observe(scheduler::runtime::Actor&, scheduler::Operation&) {}
  // Of machines: one fails; the running thread's ends; memory that they share is there.
  virtual void fail(std::uint32_t) {}
  virtual std::uint32_t covered_failures() const { return 0; }
  virtual void end_machine(const void* caller) { empty_all_buffers(caller); }
  virtual void add_region(pmem::Address, std::uint64_t, const std::byte*) {}
  // The running thread comes to this memory, by a store or flush or by an object of libc's. False: it is gone, and the
  // thread was told so.
  virtual bool touch(pmem::Address, const void* code) {
    (void)code;
    return true;
  }
  // The same of an object of libc's, which the running thread uses.
  virtual void use_object(pmem::Address address, const void* object) { touch(address, object); }
  void leave(scheduler::runtime::Actor& lane, const scheduler::Operation& done);
  // Eight bytes of modelled memory as all threads see them.
  virtual std::int64_t peek(pmem::Address address) const = 0;

  // The model's number of the running thread.
  pmem::ThreadId own_thread() { return thread_of(scheduler::runtime::current_actor().id); }
  // Whether stores of another thread than the running one wait in a buffer.
  bool has_others_waiting();

 protected:
  pmem::ThreadId thread_of(scheduler::ActorId actor);

  // ---- the model. Threads have its numbers; `code` is where the program's instruction is.
  virtual bool is_modelled(pmem::Address address) const = 0;
  virtual pmem::ThreadId add_thread(scheduler::ActorId actor) = 0;
  virtual const pmem::StoreBuffer& buffer(pmem::ThreadId thread) const = 0;
  virtual pmem::BufferEntry take_out(pmem::ThreadId thread, std::size_t i) = 0;
  // The steps of a load, and the load. Ordinary memory was copied to `out` where there are no steps.
  virtual void do_load(pmem::ThreadId thread, pmem::Address address, std::span<std::byte> out, const void* code) = 0;
  virtual void do_store(pmem::ThreadId thread, pmem::Address address, std::span<const std::byte> bytes, Kind kind,
                        const void* code) = 0;
  // Of modelled memory, where there are no steps. The stored bytes of one word are one store.
  virtual void do_store_lanes(pmem::ThreadId thread, pmem::Address address, std::span<const std::byte> bytes,
                              std::size_t lane_bytes, std::uint64_t lanes, const void* code);
  // The steps of a locked instruction, and what it finds; what it stores follows.
  virtual void begin_lock(pmem::ThreadId thread, pmem::Address address, std::span<std::byte> old, const Change& change,
                          const void* code) = 0;
  virtual void end_lock(pmem::ThreadId thread, pmem::Address address, std::span<const std::byte> bytes,
                        const void* code) = 0;
  // `keeps`: it is a clwb, of memory where that waits in the buffer.
  virtual void do_clflush(pmem::ThreadId thread, pmem::Address address, bool keeps, const void* code) = 0;
  virtual void do_clflushopt(pmem::ThreadId thread, pmem::Address address, const void* code) = 0;
  virtual void do_sfence(pmem::ThreadId thread, const void* code) = 0;
  virtual void do_mfence(pmem::ThreadId thread, const void* code) = 0;
  // Whether clflushopt and clwb of the line wait in the buffer as clflush does.
  virtual bool is_flushed_in_order(pmem::Address) const { return false; }
  // Whether flushes do anything.
  virtual bool has_flushes() const { return true; }
  // Adds to the step of an entry what the store does for others: to its line or word, to fences, to the value there.
  virtual void add_store(scheduler::Operation& operation, scheduler::runtime::Actor& by, const pmem::BufferEntry& entry,
                         pmem::ThreadId thread) = 0;
  virtual void add_clflush(scheduler::Operation& operation, const pmem::BufferEntry& entry, pmem::ThreadId thread) = 0;
  // Whether all that a loop writes is known. If not, it may end though it seems to wait.
  virtual bool sees_stores() const { return true; }
  // A loop that waits for a value can wait for a step that changes it.
  virtual bool can_await() const { return has_steps_; }

  std::uint8_t thread_number(pmem::ThreadId thread) const;
  // A line of modelled memory, a word of ordinary memory; and an access of it.
  scheduler::ObjectId place(pmem::Address address) const;
  scheduler::Access place_access(pmem::Address address, pmem::x86::Verb verb, pmem::ThreadId thread) const;
  scheduler::ObjectId fences() const;
  scheduler::ObjectId buffer_object(pmem::ThreadId thread) { return buffer_of(thread).object; }
  // Adds what becomes of the value, for those who wait for it.
  void add_change(scheduler::Operation& operation, scheduler::runtime::Actor& by, pmem::Address address,
                  std::size_t bytes, const Change& change) const;
  void let_others_run(pmem::Address address, const void* code);
  // Into units of so many bytes a store is torn.
  pmem::Address unit_of(pmem::Address address, std::size_t bytes, Kind kind) const;
  // The buffer is empty from here on.
  void note_empty(pmem::ThreadId thread) { buffer_of(thread).is_used = false; }

  pmem::MemoryModel model_;
  bool has_steps_;
  bool has_turns_;

 private:
  struct Waiting {
    std::int64_t number;
    pmem::x86::Entry entry;
  };
  // What is an actor of a thread's buffer: all but clflushopts.
  struct Buffer {
    scheduler::ObjectId object{};
    std::int64_t pushed = 0;
    bool is_used = false;       // since it was last empty
    bool awaits_fence = false;  // by turns: flushes or non-temporal stores since the last fence
    std::uint8_t group = 0;
    std::uint32_t non_temporal = 0;
    std::vector<Waiting> waiting;                   // oldest first
    std::vector<std::deque<std::int64_t>> lanes{};  // numbers
  };

  Buffer& buffer_of(pmem::ThreadId thread);
  bool is_step(pmem::Address address, std::size_t bytes, bool is_atomic) const;
  bool is_turn(pmem::Address address, bool is_atomic) const {
    return is_atomic || (has_turns_ && is_modelled(address));
  }
  void note_awaited(bool is_awaited);
  void take_turn_at_fence(const void* code);
  // Own stores that were steps and wait, where a plain access is none: a load finds them, a store comes after them.
  void forward_own(pmem::Address address, std::span<std::byte> out);
  bool waits_to_store(pmem::Address address, std::size_t bytes);
  void load_piece(pmem::Address address, std::span<std::byte> out, const void* code);
  void await_change(pmem::Address address, std::size_t bytes, std::uint64_t state, const void* code);
  void note_look(pmem::Address address, std::size_t bytes, std::uint64_t state);
  void let_others_run_at_times(const void* code);
  std::int64_t shared_value(pmem::Address address, std::size_t bytes) const;
  void push(pmem::x86::Entry entry, std::uint8_t pieces, const void* code, const std::function<void()>& record);
  void push_store(pmem::Address address, std::span<const std::byte> bytes, Kind kind, const void* code);
  std::uint32_t lane_for(Buffer& buffer, const pmem::x86::Entry& entry, std::uint32_t piece);
  void set_next(scheduler::runtime::Actor& lane, pmem::ThreadId thread, std::int64_t number);
  std::size_t position(pmem::ThreadId thread, std::size_t i) const;

  std::vector<std::uint32_t> threads_;  // an actor's thread, + 1
  std::vector<Buffer> buffers_;         // a thread's
  // How many plain loads there were since the last step, and how many steps there had been.
  std::uint32_t plain_loads_ = 0;
  std::size_t steps_before_ = 0;
};

// ---- cxl_incoherent.cc: the caches of machines, as scheduler/runtime/buffers.h has them
void begin_caches(std::uint32_t machine);
void act_by_itself(const scheduler::runtime::Actor& cache, const scheduler::Operation& done);

// The memory of the execution under way; null if there is none, or no threads are scheduled.
extern ThreadedMemory* g_threaded;
// Plain accesses of ordinary memory are looked at, too.
extern bool g_watches_all;

}  // namespace crashcut::inprocess
