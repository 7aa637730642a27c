#include "recovery/inprocess/memory/threaded.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "pmem/pieces.h"
#include "recovery/inprocess/memory/region_access.h"
#include "scheduler/edges.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/runtime/buffers.h"
#include "scheduler/runtime/files.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/loops.h"
#include "scheduler/runtime/own_world.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::inprocess {

namespace memory = scheduler::memory;
namespace spin = scheduler::spin;
namespace x86 = pmem::x86;
using pmem::Address;
using pmem::ThreadId;
using scheduler::Access;
using scheduler::ObjectId;
using scheduler::Operation;
using scheduler::runtime::Actor;
using scheduler::runtime::current_actor;
using scheduler::runtime::perform;

constinit ThreadedMemory* g_threaded = nullptr;
constinit bool g_watches_all = false;

namespace {

constexpr Address kCopyBytes = 512;              // of a copy, so many are one step: 64 words
constexpr std::uint32_t kFirstNonTemporal = 64;  // the lanes of non-temporal stores

std::byte* memory_at(Address address) { return reinterpret_cast<std::byte*>(address); }
Address granule_of(Address address) { return address & ~(memory::kGranule - 1); }
bool is_in_granule(Address address, std::size_t bytes) {
  return granule_of(address) == granule_of(address + bytes - 1);
}
// A machine's running thread has stored these bytes, or has begun to flush their line: flushes that were added to the
// program there follow (Header::added; their places are offsets in the program's executable).
void heed_added_flushes(ThreadedMemory& memory, Address address, std::size_t bytes, bool is_flush, const void* code) {
  using Kind = pmem::AddedFlush::Kind;
  const auto& control = *scheduler::runtime::g_control;
  if (g.header->added_count == 0 || control.host_count == 0) return;
  const auto place = reinterpret_cast<std::uint64_t>(code) - control.hosts[scheduler::runtime::g_host].program_base;
  for (std::uint32_t i = 0; i < g.header->added_count; ++i) {
    const pmem::AddedFlush& added = g.header->added[i];
    if (place != added.place || is_flush != (added.kind == Kind::kFence)) continue;
    for (Address line = address / pmem::kLineBytes * pmem::kLineBytes; !is_flush && line < address + bytes;
         line += pmem::kLineBytes)
      memory.flush(std::max(line, address), ThreadedMemory::Flush::kClwb, code);
    if (added.kind != Kind::kFlush) memory.sfence(code);
  }
}
// The thread's state before an access of the program. The entry's registers are used up: an access whose entry notes
// none (abi.cc) must not take them for its own.
std::uint64_t take_state(Address address, std::uint64_t operand) {
  const std::uint64_t state = scheduler::runtime::state_at_entry(address, operand);
  scheduler::runtime::crashcut_entry_registers[6] = 0;
  return state;
}
std::uint32_t word_number(Address address) { return static_cast<std::uint32_t>(pmem::word_of(address)) & 0xffffff; }

}  // namespace

// ---- threads

ThreadId ThreadedMemory::thread_of(scheduler::ActorId actor) {
  const std::uint32_t i = index(actor);
  if (i >= threads_.size()) threads_.resize(i + 1, 0);
  if (threads_[i] == 0) threads_[i] = 1 + add_thread(actor);
  return threads_[i] - 1;
}

ThreadedMemory::Buffer& ThreadedMemory::buffer_of(ThreadId thread) {
  if (thread >= buffers_.size()) buffers_.resize(thread + 1);
  Buffer& own = buffers_[thread];
  if (own.object == ObjectId{}) own.object = scheduler::runtime::own_object(x86::primitive(), current_actor().id, 0);
  return own;
}

std::uint8_t ThreadedMemory::thread_number(ThreadId thread) const {
  if (thread > 255) user_error("the program has more than 256 threads, which is too many with --schedules all");
  return static_cast<std::uint8_t>(thread);
}

ObjectId ThreadedMemory::place(Address address) const {
  const Address unit = is_modelled(address) ? pmem::kLineBytes : pmem::kWordBytes;
  return scheduler::runtime::object_at(x86::primitive(), memory_at(address / unit * unit), {});
}

Access ThreadedMemory::place_access(Address address, x86::Verb verb, ThreadId thread) const {
  Access access = x86::access(place(address), verb, thread_number(thread));
  const Address unit = is_modelled(address) ? pmem::kLineBytes : pmem::kWordBytes;
  access.offset = static_cast<std::uint8_t>(address % unit);
  return access;
}

ObjectId ThreadedMemory::fences() const {
  constexpr std::uint64_t kFencesKey = 0xfe9ce5;
  return scheduler::runtime::keyed_object(x86::primitive(), kFencesKey);
}

bool ThreadedMemory::is_step(Address address, std::size_t bytes, bool is_atomic) const {
  return is_atomic || is_modelled(address) || scheduler::runtime::is_raced_for(address, bytes);
}

// Nobody else comes to this memory: what the thread finds there does not depend on when its stores leave.
void ThreadedMemory::forward_own(Address address, std::span<std::byte> out) {
  const pmem::StoreBuffer& own = buffer(own_thread());
  if (own.is_empty()) return;
  for (std::size_t at = 0; at < out.size(); at += pmem::kLineBytes)
    own.forward(address + at, out.subspan(at, std::min<std::size_t>(pmem::kLineBytes, out.size() - at)));
}

bool ThreadedMemory::waits_to_store(Address address, std::size_t bytes) {
  const pmem::StoreBuffer& own = buffer(own_thread());
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (own[i].is_store() && own[i].address < address + bytes && address < own[i].address + own[i].bytes) return true;
  }
  return false;
}

bool ThreadedMemory::has_others_waiting() {
  const ThreadId own = own_thread();
  for (ThreadId t = 0; t < buffers_.size(); ++t) {
    if (t != own && !buffers_[t].waiting.empty()) return true;
  }
  return false;
}

// ---- loads

static scheduler::runtime::MemoryTouch touch_of(Address address, std::size_t bytes, bool writes, bool is_atomic,
                                                const void* code) {
  return {
      .address = address, .bytes = bytes, .writes = writes, .is_atomic = is_atomic, .pc = code, .is_modelled = true};
}

// What all threads see: without what waits in the thread's own buffer.
std::int64_t ThreadedMemory::shared_value(Address address, std::size_t bytes) const {
  std::int64_t content = 0;
  if (is_modelled(address)) {
    content = peek(granule_of(address));
  } else {
    std::memcpy(&content, memory_at(granule_of(address)), sizeof content);
  }
  return memory::low_bits(static_cast<std::int64_t>(static_cast<std::uint64_t>(content) >> (address % 8 * 8)),
                          static_cast<unsigned>(bytes));
}

// Where one schedule is run, others may write without a step.
void ThreadedMemory::await_change(Address address, std::size_t bytes, std::uint64_t state, const void* code) {
  if (!scheduler::runtime::is_round(state)) return;
  if (!sees_stores()) return scheduler::runtime::wait_for_others(code);
  if (can_await() && is_in_granule(address, bytes) && scheduler::runtime::await_change(state, code)) return;
  scheduler::runtime::note_sleep(true);
  perform(spin::access(scheduler::runtime::loop_object(), spin::kSpin), code);
  scheduler::runtime::note_sleep(false);
}

void ThreadedMemory::note_look(Address address, std::size_t bytes, std::uint64_t state) {
  scheduler::runtime::note_look({state, address, static_cast<std::uint8_t>(std::min<std::size_t>(bytes, 8)),
                                 is_in_granule(address, bytes) ? shared_value(address, bytes) : 0});
}

void ThreadedMemory::let_others_run(Address address, const void* code) {
  perform(x86::access(fences(), x86::kTurn, 0), code);
  scheduler::runtime::add_place_to_last_step(address);
}

// A recovery's thread may wait for a variable that is not atomic, and so may a thread in code that is trapped. (Of
// other threads of main(), crashcut says when it is time.)
void ThreadedMemory::let_others_run_at_times(const void* code) {
  constexpr std::uint32_t kPlainLoads = 10'000, kTrappedLoads = 500;  // these cost as much as a step
  const std::size_t steps = scheduler::runtime::steps_so_far().size();
  if (std::exchange(steps_before_, steps) != steps) plain_loads_ = 0;
  if (++plain_loads_ < (sees_stores() ? kPlainLoads : kTrappedLoads)) return;
  plain_loads_ = 0;
  scheduler::runtime::wait_for_others(code);
}

void ThreadedMemory::load(Address address, std::span<std::byte> out, bool is_atomic, const void* code) {
  const bool is_ordinary = !is_modelled(address);
  if (has_steps_ && is_ordinary) scheduler::runtime::note_touch(touch_of(address, out.size(), false, is_atomic, code));
  if (!(has_steps_ ? is_step(address, out.size(), is_atomic) : is_turn(address, is_atomic))) {
    if (is_ordinary) std::memcpy(out.data(), memory_at(address), out.size());
    if (has_steps_ && is_ordinary) forward_own(address, out);
    // Calls that synchronise order what is no step. Where nothing is one, the model must know what was read.
    if (!has_steps_ || !is_ordinary) do_load(own_thread(), address, out, code);
    if (scheduler::runtime::has_own_world() || !sees_stores()) let_others_run_at_times(code);
    if (!sees_stores()) return;
    return scheduler::runtime::note_plain(
        {.address = address, .bytes = out.size(), .writes = false, .is_atomic = false, .pc = code});
  }
  while (!out.empty()) {
    const Address left =
        is_ordinary ? 2 * pmem::kWordBytes - address % pmem::kWordBytes : pmem::kLineBytes - address % pmem::kLineBytes;
    const std::size_t bytes = std::min<std::size_t>(out.size(), left);
    load_piece(address, out.first(bytes), code);
    address += bytes;
    out = out.subspan(bytes);
  }
}

void ThreadedMemory::load_piece(Address address, std::span<std::byte> out, const void* code) {
  const std::uint64_t state = take_state(address, out.size());
  await_change(address, out.size(), state, code);
  if (!has_steps_) {
    let_others_run(address, code);
    if (!is_modelled(address)) std::memcpy(out.data(), memory_at(address), out.size());
  }
  do_load(own_thread(), address, out, code);
  note_look(address, out.size(), state);
}

// ---- stores

Address ThreadedMemory::unit_of(Address address, std::size_t bytes, Kind kind) const {
  if (kind == Kind::kStore || kind == Kind::kAtomicStore) return pmem::unit_of_store(model_, address, bytes);
  return model_.has_tearing && kind != Kind::kNonTemporalWhole ? pmem::kWordBytes : pmem::kLineBytes;
}

void ThreadedMemory::store(Address address, std::span<const std::byte> bytes, Kind kind, bool is_atomic,
                           const void* code) {
  if (is_atomic && kind == Kind::kStore) kind = Kind::kAtomicStore;
  const bool is_ordinary = !is_modelled(address);
  if (!has_steps_) {
    if (is_turn(address, is_atomic)) let_others_run(address, code);
    if (is_ordinary) std::memcpy(memory_at(address), bytes.data(), bytes.size());
    if (kind == Kind::kNonTemporal || kind == Kind::kNonTemporalWhole) note_awaited(true);
    do_store(own_thread(), address, bytes, kind, code);
    if (!is_ordinary) heed_added_flushes(*this, address, bytes.size(), false, code);
    return scheduler::runtime::note_change();
  }
  if (is_ordinary) scheduler::runtime::note_touch(touch_of(address, bytes.size(), true, is_atomic, code));
  if (!is_step(address, bytes.size(), is_atomic) && !waits_to_store(address, bytes.size())) {
    std::memmove(memory_at(address), bytes.data(), bytes.size());
    return scheduler::runtime::note_plain(
        {.address = address, .bytes = bytes.size(), .writes = true, .is_atomic = false, .pc = code});
  }
  const Address begin = address;
  const std::size_t whole = bytes.size();
  while (!bytes.empty()) {
    const std::size_t count = std::min<std::size_t>(bytes.size(), kCopyBytes - address % pmem::kLineBytes);
    push_store(address, bytes.first(count), kind, code);
    address += count;
    bytes = bytes.subspan(count);
  }
  if (!is_ordinary) heed_added_flushes(*this, begin, whole, false, code);
  scheduler::runtime::note_change();
}

// Calls function(where, bytes) with the stored bytes of each word that lie side by side.
template <class Function>
static void for_stored(Address address, std::span<const std::byte> bytes, std::size_t lane_bytes, std::uint64_t lanes,
                       const Function& function) {
  const auto is_stored = [&](std::size_t at) { return at < bytes.size() && (lanes >> (at / lane_bytes) & 1) != 0; };
  for (std::size_t at = 0; at < bytes.size();) {
    std::size_t end = at;
    while (is_stored(end) && pmem::word_of(address + end) == pmem::word_of(address + at)) ++end;
    if (end > at) function(address + at, bytes.subspan(at, end - at));
    at = std::max(end, at + 1);
  }
}

void ThreadedMemory::store_lanes(Address address, std::span<const std::byte> bytes, std::size_t lane_bytes,
                                 std::uint64_t lanes, const void* code) {
  if (has_steps_) {
    return for_stored(address, bytes, lane_bytes, lanes, [&](Address at, std::span<const std::byte> stored) {
      store(at, stored, Kind::kStore, false, code);
    });
  }
  if (is_turn(address, false)) let_others_run(address, code);
  do_store_lanes(own_thread(), address, bytes, lane_bytes, lanes, code);
  scheduler::runtime::note_change();
}

void ThreadedMemory::do_store_lanes(ThreadId thread, Address address, std::span<const std::byte> bytes,
                                    std::size_t lane_bytes, std::uint64_t lanes, const void* code) {
  for_stored(address, bytes, lane_bytes, lanes,
             [&](Address at, std::span<const std::byte> stored) { do_store(thread, at, stored, Kind::kStore, code); });
}

void ThreadedMemory::push_store(Address address, std::span<const std::byte> bytes, Kind kind, const void* code) {
  if (!touch(address, code)) return;
  const Address unit = unit_of(address, bytes.size(), kind);
  const auto pieces = static_cast<std::uint8_t>((address + bytes.size() - 1) / unit - address / unit + 1);
  const bool is_non_temporal = kind == Kind::kNonTemporal || kind == Kind::kNonTemporalWhole;
  Buffer& own = buffer_of(own_thread());
  x86::Entry entry{is_non_temporal ? x86::Entry::kNonTemporal : x86::Entry::kStore, 0, word_number(address),
                   word_number(address + bytes.size() - 1)};
  if (pieces > 1) entry.group = own.group = static_cast<std::uint8_t>(own.group % 255 + 1);
  push(entry, pieces, code, [&] { do_store(own_thread(), address, bytes, kind, code); });
}

// `record` makes the entries in the recorder's buffer.
void ThreadedMemory::push(x86::Entry entry, std::uint8_t pieces, const void* code,
                          const std::function<void()>& record) {
  const ThreadId thread = own_thread();
  const std::uint8_t number = thread_number(thread);
  perform(x86::push(buffer_of(thread).object, number, buffer_of(thread).pushed, entry, pieces), code);
  const std::size_t before = buffer(thread).size();
  record();
  Buffer& own = buffer_of(thread);
  CHECK(buffer(thread).size() - before == pieces);
  own.is_used = true;
  for (std::uint8_t i = 0; i < pieces; ++i) {
    x86::Entry piece = entry;
    if (pieces > 1) piece.first_word = piece.last_word = entry.first_word + i;
    const std::uint32_t lane = lane_for(own, piece, i);
    if (lane >= own.lanes.size()) own.lanes.resize(lane + 1);
    own.waiting.push_back({own.pushed, piece});
    own.lanes[lane].push_back(own.pushed++);
    Actor& actor = scheduler::runtime::lane_of_current(lane);
    if (!actor.has_pending) set_next(actor, thread, own.lanes[lane].front());
  }
}

std::uint32_t ThreadedMemory::lane_for(Buffer& buffer, const x86::Entry& entry, std::uint32_t piece) {
  if (entry.kind == x86::Entry::kNonTemporal)
    return kFirstNonTemporal + buffer.non_temporal++ % (scheduler::runtime::kLanesMost - kFirstNonTemporal);
  return piece % kFirstNonTemporal;
}

void ThreadedMemory::add_change(Operation& operation, Actor& by, Address address, std::size_t bytes,
                                const Change& change) const {
  if (!is_in_granule(address, bytes)) return;
  Access access = memory::access(scheduler::runtime::memory_object(address), change.verb,
                                 static_cast<std::uint8_t>(address % memory::kGranule),
                                 static_cast<std::uint8_t>(bytes), change.argument, change.expected);
  access.order = memory::kPlain;
  by.memory.granules[operation.size()] = reinterpret_cast<const std::int64_t*>(granule_of(address));
  operation.add(access);
}

// The place of the i-th entry that is an actor in the recorder's buffer.
std::size_t ThreadedMemory::position(ThreadId thread, std::size_t i) const {
  const pmem::StoreBuffer& all = buffer(thread);
  std::size_t at = 0;
  while (all[at].kind == pmem::EntryKind::kClflushopt || i-- > 0) ++at;
  return at;
}

void ThreadedMemory::set_next(Actor& lane, ThreadId thread, std::int64_t number) {
  Buffer& own = buffers_[thread];
  const auto found =
      std::find_if(own.waiting.begin(), own.waiting.end(), [&](const Waiting& w) { return w.number == number; });
  const pmem::BufferEntry& entry =
      buffer(thread)[position(thread, static_cast<std::size_t>(found - own.waiting.begin()))];
  Operation operation(x86::leave(own.object, thread_number(thread), number, found->entry));
  if (entry.is_store()) add_store(operation, lane, entry, thread);
  if (entry.kind == pmem::EntryKind::kClflush) add_clflush(operation, entry, thread);
  if (entry.kind == pmem::EntryKind::kSfence)
    operation.add(x86::access(fences(), x86::kLeaveFence, thread_number(thread)));
  lane.pending = operation;
  lane.has_pending = true;
}

void ThreadedMemory::leave(Actor& lane, const Operation& done) {
  const ThreadId thread = thread_of(lane.lane_of->id);
  Buffer& own = buffers_[thread];
  const std::int64_t number = done[0].argument;
  const auto found =
      std::find_if(own.waiting.begin(), own.waiting.end(), [&](const Waiting& w) { return w.number == number; });
  const pmem::BufferEntry entry =
      take_out(thread, position(thread, static_cast<std::size_t>(found - own.waiting.begin())));
  own.waiting.erase(found);
  if (entry.is_store() && !is_modelled(entry.address))
    std::memcpy(memory_at(entry.address), entry.data.data(), entry.bytes);
  const auto queue = std::find_if(own.lanes.begin(), own.lanes.end(),
                                  [&](const auto& numbers) { return !numbers.empty() && numbers.front() == number; });
  queue->pop_front();
  lane.has_pending = !queue->empty();
  if (lane.has_pending) set_next(lane, thread, queue->front());
}

// ---- locked instructions, flushes, fences

void ThreadedMemory::note_awaited(bool is_awaited) {
  if (has_turns_) buffer_of(own_thread()).awaits_fence = is_awaited;
}

// What others do before it is not ordered by it.
void ThreadedMemory::take_turn_at_fence(const void* code) {
  if (!has_turns_ || !buffer_of(own_thread()).awaits_fence) return;
  perform(x86::access(fences(), x86::kTurn, 0), code);
  note_awaited(false);
}

void ThreadedMemory::empty_buffer(const void* caller) {
  if (!has_steps_) return;
  const ThreadId thread = own_thread();
  // Whether something still waits is the schedule's; whether there was anything is the thread's own.
  if (!buffer_of(thread).is_used) return;
  perform(x86::access(buffer_of(thread).object, x86::kAwaitEmpty, thread_number(thread)), caller);
  buffer_of(thread).is_used = false;
}

// Whatever thread they are of.
void ThreadedMemory::empty_all_buffers(const void* caller) {
  mfence(caller);
  if (!has_steps_) return;
  for (ThreadId t = 0; t < buffers_.size(); ++t) {
    if (buffers_[t].object == ObjectId{}) continue;
    perform(x86::access(buffers_[t].object, x86::kAwaitEmpty, thread_number(t)), caller);
  }
}

void ThreadedMemory::lock(Address address, std::size_t bytes, const Change& change, const Decide& decide,
                          const void* code) {
  const std::uint64_t state = take_state(
      address, static_cast<std::uint64_t>(change.argument) * 31 + static_cast<std::uint64_t>(change.expected));
  await_change(address, bytes, state, code);
  const ThreadId thread = own_thread();
  if (!has_steps_) let_others_run(address, code);
  std::byte old[16], before[16];
  begin_lock(thread, address, {old, bytes}, change, code);
  note_empty(thread);
  note_awaited(false);
  std::memcpy(before, old, bytes);
  const std::span<const std::byte> stored = decide({old, bytes});
  if (!stored.empty()) {
    end_lock(thread, address, stored, code);
    if (!is_modelled(address)) std::memcpy(memory_at(address), stored.data(), stored.size());
    if (is_modelled(address)) heed_added_flushes(*this, address, stored.size(), false, code);
  }
  if (has_steps_ && !is_modelled(address)) scheduler::runtime::note_touch(touch_of(address, bytes, true, true, code));
  if (!stored.empty() && std::memcmp(stored.data(), before, bytes) != 0) {
    scheduler::runtime::note_change();
  } else {
    note_look(address, bytes, state);
  }
}

void ThreadedMemory::flush(Address address, Flush how, const void* code) {
  if (!is_modelled(address) || !has_flushes()) return;
  const ThreadId thread = own_thread();
  if (has_turns_) let_others_run(address, code);
  if (how != Flush::kClflush && !is_flushed_in_order(address)) {
    note_awaited(true);
    do_clflushopt(thread, address, code);
    return heed_added_flushes(*this, address, 1, true, code);
  }
  const bool keeps = how == Flush::kClwb;
  if (!has_steps_) return do_clflush(thread, address, keeps, code);
  if (!touch(address, code)) return;
  push({x86::Entry::kFlushOrMark, 0, 0, 0}, 1, code, [&] { do_clflush(thread, address, keeps, code); });
}

void ThreadedMemory::sfence(const void* code) {
  const ThreadId thread = own_thread();
  take_turn_at_fence(code);
  if (!has_steps_) return do_sfence(thread, code);
  push({x86::Entry::kSfence, 0, 0, 0}, 1, code, [&] { do_sfence(thread, code); });
}

void ThreadedMemory::mfence(const void* code) {
  empty_buffer(code);
  take_turn_at_fence(code);
  do_mfence(own_thread(), code);
}

}  // namespace crashcut::inprocess

namespace crashcut::scheduler::runtime {

using inprocess::g_threaded;

const BufferModel kBufferModel{
    .is_on = [] { return g_threaded != nullptr && is_scheduling(); },
    .synchronise = [](const void* caller) { g_threaded->mfence(caller); },
    .enter_system = [](const void* caller) { g_threaded->empty_buffer(caller); },
    .observe = [](Actor& actor, Operation& operation) { g_threaded->observe(actor, operation); },
    .note = [](const Actor&, const Step& step) { g_threaded->note(step); },
    .leave = [](Actor& lane, const Operation& done) { g_threaded->leave(lane, done); },
    .fail =
        [](std::uint32_t host) {
          if (g_threaded != nullptr) g_threaded->fail(host);
        },
    .end_host = [](const void* caller) { g_threaded->end_machine(caller); },
    .covered_failures = [] { return g_threaded->covered_failures(); },
    .begin_caches = inprocess::begin_caches,
    .act_by_itself = inprocess::act_by_itself,
    .add_region =
        [](std::uint64_t begin, std::uint64_t bytes, const void* ground) {
          if (g_threaded != nullptr) g_threaded->add_region(begin, bytes, static_cast<const std::byte*>(ground));
        },
    .use_object = [](const void* object) { g_threaded->use_object(reinterpret_cast<std::uint64_t>(object), object); },
    .peek =
        [](std::uint64_t address, std::int64_t& content) {
          if (!inprocess::is_in_window(address)) return false;
          content = g_threaded->peek(address);
          return true;
        },
};

}  // namespace crashcut::scheduler::runtime
