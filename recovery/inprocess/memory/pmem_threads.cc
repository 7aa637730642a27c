#include "recovery/inprocess/memory/pmem_threads.h"

#include <cstring>

#include "recovery/inprocess/memory/region_access.h"
#include "recovery/inprocess/memory/trap.h"
#include "scheduler/edges.h"

namespace crashcut::inprocess {

namespace x86 = pmem::x86;
using pmem::Address;
using pmem::ThreadId;
using scheduler::Access;
using scheduler::ObjectId;
using scheduler::Operation;
using scheduler::runtime::perform;

// The first actor is the recorder's first thread.
ThreadId PmemThreads::add_thread(scheduler::ActorId actor) { return index(actor) == 0 ? 0 : recorder_.add_thread(); }

void PmemThreads::note(const scheduler::Step& step) {
  for (const Access& access : step.operation) {
    scheduler::for_each_edge(access, [&](scheduler::Edge edge, std::uint32_t part) {
      const std::uint64_t channel = std::uint64_t{static_cast<std::uint32_t>(access.object)} << 32 | part;
      const ThreadId thread = thread_of(step.actor);
      HandedOn& handed_on = handed_on_[channel];
      if (edge == scheduler::Edge::kAcquire) {
        recorder_.come_after(thread, handed_on.past);
        for (const auto& [from, op_count] : handed_on.threads) recorder_.note_meeting(from, op_count, thread);
      } else {
        handed_on.past = recorder_.hand_on(handed_on.past, thread);
        handed_on.threads[thread] = recorder_.op_count();
      }
    });
  }
}

// Flushes that are tried (missing_flush.h). Executions share an image that has the recorder, so it is told each time.
void PmemThreads::use_added_flushes() {
  if (g_phase == Phase::kExecuting) recorder_.add_flushes({g.header->added, g.header->added_count});
}

bool PmemThreads::sees_stores() const { return !is_trapping(); }

// In code that is trapped.
void PmemThreads::come_after_others(ThreadId thread) {
  if (thread == last_ || !is_trapping()) return;
  const persist::FenceSetId own = recorder_.past_of_call(thread), others = recorder_.past_of_call(last_);
  recorder_.come_after(thread, recorder_.recording().log.join(own, others));
  recorder_.note_meeting(last_, recorder_.op_count(), thread);
  last_ = thread;
}

std::int64_t PmemThreads::peek(Address address) const {
  const pmem::Line* line = recorder_.recording().lines.find(address);
  const std::uint32_t location = line == nullptr ? 0 : line->location[pmem::word_in_line(address)];
  return location == 0 ? 0 : static_cast<std::int64_t>(recorder_.recording().log.current(location - 1));
}

void PmemThreads::do_load(ThreadId thread, Address address, std::span<std::byte> out, const void* code) {
  if (has_steps_) {
    Operation operation(place_access(address, x86::kLoad, thread));
    const ObjectId last = place(address + out.size() - 1);
    if (last != operation[0].object) operation.add(place_access(address + out.size() - 1, x86::kLoad, thread));
    perform(operation, code);
    if (!is_modelled(address)) std::memcpy(out.data(), reinterpret_cast<const void*>(address), out.size());
  }
  const OwnCode own;
  come_after_others(thread);
  use_added_flushes();
  g_load_code = code;
  recorder_.load(thread, address, out, place_of(code));
  if (g.narrating && g_phase == Phase::kRecovering && is_modelled(address)) narrate_load(address, out, code);
}

void PmemThreads::do_store(ThreadId thread, Address address, std::span<const std::byte> bytes, Kind kind,
                           const void* code) {
  const OwnCode own;
  const pmem::PlaceId place = place_of(code);
  come_after_others(thread);
  use_added_flushes();
  switch (kind) {
    case Kind::kStore:
      return recorder_.store(thread, address, bytes, place);
    case Kind::kAtomicStore:
      return recorder_.store(thread, address, bytes, place, pmem::StoreForm::kWhole);
    case Kind::kCopy:
      return recorder_.copy(thread, address, bytes, place);
    case Kind::kNonTemporal:
    case Kind::kNonTemporalWhole:
      return recorder_.store_non_temporal(thread, address, bytes, place, kind == Kind::kNonTemporalWhole);
  }
}

void PmemThreads::do_store_lanes(ThreadId thread, Address address, std::span<const std::byte> bytes,
                                 std::size_t lane_bytes, std::uint64_t lanes, const void* code) {
  const OwnCode own;
  come_after_others(thread);
  use_added_flushes();
  recorder_.store_lanes(thread, address, bytes, lane_bytes, lanes, place_of(code));
}

void PmemThreads::add_store(Operation& operation, scheduler::runtime::Actor& by, const pmem::BufferEntry& entry,
                            ThreadId thread) {
  Change change{scheduler::memory::kStore};
  if (entry.bytes <= sizeof change.argument) std::memcpy(&change.argument, entry.data.data(), entry.bytes);
  add_store(operation, by, entry.address, entry.bytes, thread, change);
}

void PmemThreads::add_store(Operation& operation, scheduler::runtime::Actor& by, Address address, std::size_t bytes,
                            ThreadId thread, const Change& change) {
  operation.add(place_access(address, x86::kStore, thread));
  if (is_modelled(address)) operation.add(x86::access(fences(), x86::kStoreAnywhere, thread_number(thread)));
  add_change(operation, by, address, bytes, change);
}

void PmemThreads::add_clflush(Operation& operation, const pmem::BufferEntry& entry, ThreadId thread) {
  operation.add(place_access(entry.address, x86::kFlush, thread));
}

void PmemThreads::begin_lock(ThreadId thread, Address address, std::span<std::byte> old, const Change& change,
                             const void* code) {
  if (has_steps_) {
    Operation operation(x86::access(buffer_object(thread), x86::kAwaitEmpty, thread_number(thread)));
    add_store(operation, scheduler::runtime::current_actor(), address, old.size(), thread, change);
    // An operand in two words, or across two lines.
    const ObjectId last = place(address + old.size() - 1);
    if (last != operation[1].object && operation.size() < Operation::kOwnMost)
      operation.add(x86::access(last, x86::kStore, thread_number(thread)));
    perform(operation, code);
  }
  if (!is_modelled(address)) std::memcpy(old.data(), reinterpret_cast<const void*>(address), old.size());
  const OwnCode own;
  come_after_others(thread);
  use_added_flushes();
  g_load_code = code;
  recorder_.begin_locked(thread, address, old, place_of(code));
  if (g.narrating && g_phase == Phase::kRecovering && is_modelled(address)) narrate_load(address, old, code);
}

void PmemThreads::end_lock(ThreadId thread, Address address, std::span<const std::byte> bytes, const void* code) {
  const OwnCode own;
  use_added_flushes();
  recorder_.store_locked(thread, address, bytes, place_of(code));
}

void PmemThreads::do_clflush(ThreadId thread, Address address, bool, const void* code) {
  const OwnCode own;
  come_after_others(thread);
  recorder_.clflush(thread, address, place_of(code));
}

void PmemThreads::do_clflushopt(ThreadId thread, Address address, const void* code) {
  if (has_steps_) perform(place_access(address, x86::kFlush, thread), code);
  const OwnCode own;
  come_after_others(thread);
  use_added_flushes();
  recorder_.clflushopt(thread, address, place_of(code));
}

void PmemThreads::do_sfence(ThreadId thread, const void* code) {
  const OwnCode own;
  come_after_others(thread);
  recorder_.sfence(thread, place_of(code));
}
void PmemThreads::do_mfence(ThreadId thread, const void* code) {
  const OwnCode own;
  come_after_others(thread);
  recorder_.mfence(thread, place_of(code));
}

}  // namespace crashcut::inprocess
