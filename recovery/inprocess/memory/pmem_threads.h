// PmemThreads: threads that share persistent memory (threaded.h), recorded by pmem::Recorder.
//
// Threads of the recorder are made when they are met. What calls that synchronise order (scheduler/edges.h) orders the
//   recorder's threads too. In code that is trapped, plain accesses of ordinary memory are not seen, and so it is not
//   known what a thread has read of others: each comes after all that others did before. That misses nothing where
//   every order of what threads do is tried, and may miss bugs elsewhere.
#pragma once

#include <map>
#include <unordered_map>

#include "pmem/recorder.h"
#include "recovery/inprocess/memory/threaded.h"

namespace crashcut::inprocess {

class PmemThreads final : public ThreadedMemory {
 public:
  PmemThreads(pmem::Recorder& recorder, const pmem::MemoryModel& model, bool has_steps, bool has_turns)
      : ThreadedMemory(model, has_steps, has_turns), recorder_(recorder) {
    recorder_.add_thread();  // that nobody is: the recorder must expect others from the beginning
  }

  void note(const scheduler::Step& step) override;
  std::int64_t peek(pmem::Address address) const override;

 protected:
  bool is_modelled(pmem::Address address) const override { return recorder_.is_persistent(address); }
  pmem::ThreadId add_thread(scheduler::ActorId actor) override;
  const pmem::StoreBuffer& buffer(pmem::ThreadId thread) const override { return recorder_.buffer(thread); }
  pmem::BufferEntry take_out(pmem::ThreadId thread, std::size_t i) override { return recorder_.leave(thread, i); }
  void do_load(pmem::ThreadId thread, pmem::Address address, std::span<std::byte> out, const void* code) override;
  void do_store(pmem::ThreadId thread, pmem::Address address, std::span<const std::byte> bytes, Kind kind,
                const void* code) override;
  void do_store_lanes(pmem::ThreadId thread, pmem::Address address, std::span<const std::byte> bytes,
                      std::size_t lane_bytes, std::uint64_t lanes, const void* code) override;
  void begin_lock(pmem::ThreadId thread, pmem::Address address, std::span<std::byte> old, const Change& change,
                  const void* code) override;
  void end_lock(pmem::ThreadId thread, pmem::Address address, std::span<const std::byte> bytes,
                const void* code) override;
  void do_clflush(pmem::ThreadId thread, pmem::Address address, bool keeps, const void* code) override;
  void do_clflushopt(pmem::ThreadId thread, pmem::Address address, const void* code) override;
  void do_sfence(pmem::ThreadId thread, const void* code) override;
  void do_mfence(pmem::ThreadId thread, const void* code) override;
  bool has_flushes() const override { return model_.persistency == pmem::Persistency::kPx86; }
  void add_store(scheduler::Operation& operation, scheduler::runtime::Actor& by, const pmem::BufferEntry& entry,
                 pmem::ThreadId thread) override;
  void add_clflush(scheduler::Operation& operation, const pmem::BufferEntry& entry, pmem::ThreadId thread) override;
  bool sees_stores() const override;
  // Wider stores than a word change several values at once.
  bool can_await() const override { return has_steps_ && model_.atomic_bytes == 8 && model_.has_tearing; }

 private:
  void use_added_flushes();
  void come_after_others(pmem::ThreadId thread);
  void add_store(scheduler::Operation& operation, scheduler::runtime::Actor& by, pmem::Address address,
                 std::size_t bytes, pmem::ThreadId thread, const Change& change);

  pmem::Recorder& recorder_;
  pmem::ThreadId last_ = 0;  // whose access was the last one
  struct HandedOn {
    persist::FenceSetId past = persist::kNoFences;
    std::map<pmem::ThreadId, std::uint32_t> threads;  // that have, and how many operations there were then
  };
  std::unordered_map<std::uint64_t, HandedOn> handed_on_;  // by object and channel
};

}  // namespace crashcut::inprocess
