// RecoveryThreads: threads of a recovery that share persistent memory (threaded.h), which a crash has left.
//
// Loads decide what survived, stores overwrite it. Stores reach memory at once, so flushes and fences do nothing. A
//   recovery that may be crashed itself is recorded: its threads are PmemThreads.
// Plain loads are no steps. A thread that has made many of them without a step lets others go on: it may wait for a
//   variable that is not atomic. How many is a number, not a time, so that a recovery does the same each time.
#pragma once

#include "recovery/inprocess/memory/threaded.h"

namespace crashcut::inprocess {

class RecoveryThreads final : public ThreadedMemory {
 public:
  explicit RecoveryThreads(const pmem::MemoryModel& model) : ThreadedMemory(model, false) {}

  void note(const scheduler::Step&) override {}
  // Where accesses are no steps, no thread waits for a value.
  std::int64_t peek(pmem::Address) const override { return 0; }

 protected:
  bool is_modelled(pmem::Address address) const override;
  pmem::ThreadId add_thread(scheduler::ActorId) override { return thread_count_++; }
  const pmem::StoreBuffer& buffer(pmem::ThreadId) const override { return nothing_; }
  pmem::BufferEntry take_out(pmem::ThreadId, std::size_t) override;
  void do_load(pmem::ThreadId thread, pmem::Address address, std::span<std::byte> out, const void* code) override;
  void do_store(pmem::ThreadId thread, pmem::Address address, std::span<const std::byte> bytes, Kind kind,
                const void* code) override;
  void begin_lock(pmem::ThreadId thread, pmem::Address address, std::span<std::byte> old, const Change& change,
                  const void* code) override;
  void end_lock(pmem::ThreadId thread, pmem::Address address, std::span<const std::byte> bytes,
                const void* code) override;
  void do_clflush(pmem::ThreadId, pmem::Address, bool, const void*) override {}
  void do_clflushopt(pmem::ThreadId, pmem::Address, const void*) override {}
  void do_sfence(pmem::ThreadId, const void*) override {}
  void do_mfence(pmem::ThreadId, const void*) override {}
  bool has_flushes() const override { return false; }
  void add_store(scheduler::Operation&, scheduler::runtime::Actor&, const pmem::BufferEntry&, pmem::ThreadId) override {
  }
  void add_clflush(scheduler::Operation&, const pmem::BufferEntry&, pmem::ThreadId) override {}

 private:
  pmem::StoreBuffer nothing_;
  pmem::ThreadId thread_count_ = 0;
};

// In the process of a recovery, before it begins: its threads are scheduled.
void schedule_recovery(const void* stack_top);
// A recovery needs threads, and none are scheduled: it ends, and is run again with its threads scheduled.
void need_threads_in_recovery();

}  // namespace crashcut::inprocess
