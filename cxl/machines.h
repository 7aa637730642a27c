// Machines: the threads of several machines that share memory, each with its store buffer.
//
// Models: Px86sim's order of one thread (pmem/store_buffer.h), and CXL's shared memory behind it (cxl/shared_memory.h).
//   A clflushopt or clwb takes its place as early as the order of its thread lets it, and writes back what its machine
//   had of the line at that place once a later fence of its thread is complete. Later places are covered: a line is
//   written back at any time. Locked instructions and mfence empty the buffer and are fences.
// Does not model: what a machine's own memory holds. Stores to it wait in the buffer with the others; the code that
// takes an
//   entry out of the buffer carries it out.
// On failure of a machine its store buffers are gone with its threads; the rest is SharedMemory's.
// Threads: the caller serialises.
#pragma once

#include <optional>
#include <vector>

#include "cxl/incoherent_memory.h"
#include "cxl/shared_memory.h"
#include "pmem/model.h"

namespace crashcut::cxl {

using pmem::ThreadId;

// Of a flush of memory without coherence that waits in a buffer: the machine keeps its copy.
inline constexpr std::uint32_t kKeepsCopy = 1;
inline bool keeps_copy(const pmem::BufferEntry& flush) { return flush.op == kKeepsCopy; }

class Machines {
 public:
  // Of the model, what tears counts. `incoherent`: what no hardware keeps coherent; null: nothing.
  Machines(SharedMemory& memory, const pmem::MemoryModel& model, IncoherentMemory* incoherent = nullptr)
      : memory_(memory), incoherent_(incoherent), model_(model) {}

  ThreadId start_thread(MachineId machine);
  MachineId machine_of(ThreadId thread) const { return threads_[thread].machine; }

  // ---- instructions, when they are executed. Loads and locked instructions are within one line.

  // Where memory is gone, an instruction on it is not executed; a load says so.
  bool is_gone(Address address) const { return memory_.is_gone(address); }
  // In a machine's own memory the caller has filled `out` with what memory holds; the bytes that wait in the thread's
  // own buffer replace that.
  [[nodiscard]] Loaded load(ThreadId thread, Address address, std::span<std::byte> out, persist::Chooser& chooser);
  // SharedMemory::load_at_once(), if nothing waits in the thread's own buffer.
  [[nodiscard]] bool load_at_once(ThreadId thread, Address address, std::span<std::byte> out) const {
    const Thread& t = threads_[thread];
    return t.buffer.is_empty() && memory_.load_at_once(t.machine, address, out);
  }
  // How many answers the load would have to choose from first; 1: none. Bytes that wait in the thread's own buffer are
  // not looked up.
  std::size_t count_answers(ThreadId thread, Address address, std::size_t bytes);
  void decide(Address address, std::size_t bytes, std::uint32_t answer) { memory_.decide(address, bytes, answer); }
  // `op` is the caller's number of the instruction (StoreAtStake::op).
  void store(ThreadId thread, Address address, std::span<const std::byte> bytes, std::uint32_t op = 0);
  void copy(ThreadId thread, Address address, std::span<const std::byte> bytes, std::uint32_t op = 0);
  void store_non_temporal(ThreadId thread, Address address, std::span<const std::byte> bytes, bool is_whole = false,
                          std::uint32_t op = 0);
  // The buffer is empty. If the instruction writes, store_locked() follows before anything else happens.
  [[nodiscard]] Loaded begin_locked(ThreadId thread, Address address, std::span<std::byte> old,
                                    persist::Chooser& chooser);
  void store_locked(ThreadId thread, Address address, std::span<const std::byte> bytes, std::uint32_t op = 0);
  void mfence(ThreadId thread);  // the buffer is empty
  void sfence(ThreadId thread);
  void clflush(ThreadId thread, Address address);
  void clflushopt(ThreadId thread, Address address);
  void clwb(ThreadId thread, Address address);

  // ---- store buffers

  const pmem::StoreBuffer& buffer(ThreadId thread) const { return threads_[thread].buffer; }
  // Entry `i` leaves; it may. clflushopts leave by themselves.
  pmem::BufferEntry leave(ThreadId thread, std::size_t i);

  // Whether a fence of the thread would write something back now.
  bool awaits_write_back(ThreadId thread) const;

  // Whether a flush of the line by the thread would change what the device holds of memory without coherence.
  bool has_dirty_copy(ThreadId thread, Address address) const {
    return incoherent_ != nullptr && incoherent_->is_dirty(threads_[thread].machine, address);
  }
  bool is_incoherent(Address address) const { return incoherent_ != nullptr && incoherent_->contains(address); }

  // Its threads take no further step, and what their buffers hold never leaves. A memory device fails, too.
  void fail(MachineId machine, std::optional<std::uint64_t> tried = std::nullopt) {
    memory_.fail(machine, tried);
    if (incoherent_ != nullptr) incoherent_->forget(machine);
  }

 private:
  // What the thread's next fence waits for.
  struct Awaited {
    Address line;
    std::uint64_t place;  // in the history of the line
    bool is_store;        // the non-temporal store of that number; otherwise all before it
  };
  struct Thread {
    MachineId machine;
    pmem::StoreBuffer buffer;
    std::vector<Awaited> awaited;
  };

  void push(ThreadId thread, const pmem::BufferEntry& entry);
  void push_pieces(ThreadId thread, Address address, std::span<const std::byte> bytes, pmem::BufferEntry entry,
                   Address unit);
  void let_clflushopts_leave(Thread& thread);
  void complete(Thread& thread);

  SharedMemory& memory_;
  IncoherentMemory* incoherent_;
  pmem::MemoryModel model_;
  std::vector<Thread> threads_;
  std::uint32_t group_count_ = 0;
};

}  // namespace crashcut::cxl
