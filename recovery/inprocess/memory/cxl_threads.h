// CxlThreads: threads of machines that share memory (threaded.h), on cxl::Machines.
//
// The shared memory and the machines' store buffers lie in the heap that all machines have in common
//   (scheduler/runtime/hosts.h); this object is a machine's own.
// Without steps, an access is a step where a machine's failure just before it may make a difference (cxl/
//   failure_points.h), or where a load has to choose what a failed machine left; all others are done at once.
// Memory that no hardware keeps coherent (cxl/incoherent_memory.h): each access is a step. What a cache does by itself
// is
//   a step of an actor of its own; without steps there is a budget for these (scheduler/runtime/buffers.h).
// A load that has to choose asks: the answer is a step of an actor of its own (scheduler/primitives/answer.h).
#pragma once

#include <set>

#include "cxl/failure_points.h"
#include "cxl/machines.h"
#include "recovery/inprocess/memory/threaded.h"

namespace crashcut::inprocess {

// What a program sees that loads from a poisoned line.
enum class PoisonShows : std::uint32_t { kSignal, kValue };

class CxlThreads final : public ThreadedMemory {
 public:
  CxlThreads(PoisonShows poison, bool has_steps);

  void note(const scheduler::Step& step) override;
  std::uint32_t covered_failures() const override;
  void observe(scheduler::runtime::Actor& actor, scheduler::Operation& operation) override;
  void fail(std::uint32_t machine) override;
  void add_region(pmem::Address begin, std::uint64_t bytes, const std::byte* ground) override;
  void end_machine(const void* caller) override;
  bool touch(pmem::Address address, const void* code) override;
  void use_object(pmem::Address address, const void* object) override;
  std::int64_t peek(pmem::Address address) const override;

 protected:
  bool is_modelled(pmem::Address address) const override;
  pmem::ThreadId add_thread(scheduler::ActorId actor) override;
  const pmem::StoreBuffer& buffer(pmem::ThreadId thread) const override { return machines().buffer(thread); }
  pmem::BufferEntry take_out(pmem::ThreadId thread, std::size_t i) override { return machines().leave(thread, i); }
  void do_load(pmem::ThreadId thread, pmem::Address address, std::span<std::byte> out, const void* code) override;
  void do_store(pmem::ThreadId thread, pmem::Address address, std::span<const std::byte> bytes, Kind kind,
                const void* code) override;
  void begin_lock(pmem::ThreadId thread, pmem::Address address, std::span<std::byte> old, const Change& change,
                  const void* code) override;
  void end_lock(pmem::ThreadId thread, pmem::Address address, std::span<const std::byte> bytes,
                const void* code) override;
  void do_clflush(pmem::ThreadId thread, pmem::Address address, bool keeps, const void* code) override;
  void do_clflushopt(pmem::ThreadId thread, pmem::Address address, const void* code) override;
  void do_sfence(pmem::ThreadId thread, const void* code) override;
  void do_mfence(pmem::ThreadId thread, const void* code) override;
  void add_store(scheduler::Operation& operation, scheduler::runtime::Actor& by, const pmem::BufferEntry& entry,
                 pmem::ThreadId thread) override;
  void add_clflush(scheduler::Operation& operation, const pmem::BufferEntry& entry, pmem::ThreadId thread) override;
  bool is_flushed_in_order(pmem::Address address) const override { return machines().is_incoherent(address); }
  bool can_await() const override { return false; }

 private:
  // For a load that has nothing to choose.
  class NoChoice final : public persist::Chooser {
   public:
    std::uint32_t choose(const persist::Choice&) override { CHECK(false); }
  };
  // A store instruction, for the report.
  struct Origin {
    scheduler::ActorId actor;
    const void* code;
  };
  // A clflushopt or clwb, likewise.
  struct BegunFlush {
    cxl::MachineId machine;
    pmem::Address line;
    std::uint32_t op;  // its origin's number
  };
  struct Shared {
    cxl::SharedMemory memory;
    cxl::IncoherentMemory incoherent;
    cxl::Machines machines;
    cxl::LastFailurePoint last_point;
    std::vector<pmem::Region> regions;
    std::set<pmem::Address> lines_of_caches;  // lines whose caches have actors
    // Only if a report is wanted: origins by their numbers, from 1; what was said of each store at stake.
    std::vector<Origin> origins;
    std::vector<cxl::StoreFate> told;
    std::vector<BegunFlush> flushes;  // each place and line once
    explicit Shared(const cxl::SharedModel& model) : memory(model), machines(memory, {}, &incoherent) {}
  };
  friend void begin_caches(std::uint32_t machine);
  friend void act_by_itself(const scheduler::runtime::Actor& cache, const scheduler::Operation& done);
  static Shared* shared();
  static void make_shared();  // if it is not there yet
  static cxl::Machines& machines() { return shared()->machines; }

  // What the next step of a thread does, for observe().
  struct Next {
    cxl::NextStep step;
    std::size_t bytes = 0;  // that a load would look at; 0: no load
  };
  std::uint16_t failure_points(const cxl::NextStep& step) const;
  std::uint32_t note_origin(const void* code) const;  // its number; 0: no report is wanted
  void note_fates();                                  // after a load that decided something
  void note_flush(pmem::Address address, const void* code);
  void tell_store(std::size_t i, cxl::StoreFate fate);
  void tell_flushes(std::span<const cxl::StoreAtStake> stores) const;  // that were begun of their lines
  void tell_fate(int fate, std::uint64_t bytes, pmem::Address address, std::uint32_t op) const;
  scheduler::Access line_access(pmem::Address address, std::uint8_t verb, pmem::ThreadId thread) const;
  // The same of an instruction that is executed: it looks whether memory is there.
  scheduler::Access executed(pmem::Address address, std::uint8_t verb, pmem::ThreadId thread) const;
  // Takes a step if the model wants one there; make() gives its operation. Returns true if it asked: then the answer
  // was given, and the access begins anew.
  template <class Make>
  bool take_step_if_needed(const Next& next, Make&& make, const void* code);
  bool take_step(const Next& next, scheduler::Operation operation, const void* code);
  // ---- memory without coherence
  scheduler::Access incoherent_access(pmem::Address address, std::uint8_t verb, pmem::ThreadId thread) const;
  void add_caches(pmem::Address address);  // actors for the caches of all machines, if there are none for this line
  void load_incoherently(pmem::ThreadId thread, pmem::Address address, std::span<std::byte> out, const void* code);
  void store_incoherently(pmem::ThreadId thread, pmem::Address address, std::span<const std::byte> bytes, Kind kind,
                          const void* code);
  void tell_lost_copies(std::uint32_t machine);

  void push_store(pmem::ThreadId thread, pmem::Address address, std::span<const std::byte> bytes, Kind kind,
                  std::uint32_t op);
  scheduler::Operation leave_fence(pmem::ThreadId thread) const;
  void load_line(pmem::ThreadId thread, pmem::Address address, std::span<std::byte> out, const void* code);
  void finish_load(cxl::Loaded loaded, pmem::Address address, std::span<std::byte> out);
  // Whether memory is there. Else the thread gets SIGBUS.
  bool is_there(pmem::Address address) const;
  void leave_all(pmem::ThreadId thread);
  PoisonShows poison_;
  std::vector<Next> next_;  // a thread's
};

}  // namespace crashcut::inprocess
