#include "recovery/inprocess/memory/cxl_threads.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cstring>

#include "cxl/incoherent_primitive.h"
#include "recovery/inprocess/memory/region_access.h"
#include "scheduler/primitives/answer.h"
#include "scheduler/runtime/buffers.h"
#include "scheduler/runtime/hosts.h"

namespace crashcut::inprocess {

namespace answer = scheduler::answer;
namespace incoherent = cxl::incoherent;
namespace line = cxl::line;
namespace x86 = pmem::x86;
using cxl::NextStep;
using pmem::Address;
using pmem::ThreadId;
using scheduler::Access;
using scheduler::ObjectId;
using scheduler::Operation;
using scheduler::runtime::current_actor;
using scheduler::runtime::g_control;
using scheduler::runtime::perform;

namespace {

// In place of a fate: a flush of the store's line that was begun, which may have lacked a fence.
constexpr int kFlushBegun = 4;

// Calls visit(address, bytes) for the part of each line.
template <class Visit>
void for_each_line(Address address, std::size_t bytes, Visit&& visit) {
  while (bytes > 0) {
    const std::size_t part = std::min<std::size_t>(bytes, pmem::kLineBytes - address % pmem::kLineBytes);
    visit(address, part);
    address += part;
    bytes -= part;
  }
}

// As the kernel does it: the handler sees the address.
void raise_bus_error(Address address, int code) {
  siginfo_t info{};
  info.si_signo = SIGBUS;
  info.si_code = code;
  info.si_addr = reinterpret_cast<void*>(address);
  kernel(SYS_rt_tgsigqueueinfo, kernel(SYS_getpid), kernel(SYS_gettid), SIGBUS, &info);
}

}  // namespace

CxlThreads::CxlThreads(PoisonShows poison, bool has_steps) : ThreadedMemory({}, has_steps), poison_(poison) {
  make_shared();
}

void CxlThreads::make_shared() {
  void*& memory = scheduler::runtime::common_heap().memory;
  if (memory != nullptr) return;
  memory = new Shared(
      {.has_global_flush = g.header->shared_has_global_flush != 0, .has_poison = g.header->shared_has_poison != 0});
}

CxlThreads::Shared* CxlThreads::shared() { return static_cast<Shared*>(scheduler::runtime::common_heap().memory); }

// It may grow.
void CxlThreads::add_region(Address begin, std::uint64_t bytes, const std::byte* ground) {
  auto& regions = shared()->regions;
  auto region = std::find_if(regions.begin(), regions.end(), [&](const pmem::Region& r) { return r.begin == begin; });
  if (region == regions.end()) region = regions.insert(region, {begin, 0});
  if (bytes <= region->bytes) return;
  const auto* rule = scheduler::runtime::find_region_rule(begin);
  const pmem::Region added{begin + region->bytes, bytes - region->bytes};
  const std::byte* const held = ground + region->bytes;
  region->bytes = bytes;
  if (rule != nullptr && rule->is_incoherent != 0) return shared()->incoherent.add_region(added, held);
  const cxl::MachineId home = rule == nullptr || rule->home == 0 ? cxl::kNoMachine : rule->home - 1;
  shared()->memory.add_region(added, held, home);
}

bool CxlThreads::is_modelled(Address address) const { return scheduler::runtime::is_in_region(address); }

ThreadId CxlThreads::add_thread(scheduler::ActorId) { return machines().start_thread(scheduler::runtime::g_host); }

std::int64_t CxlThreads::peek(Address address) const {
  const auto bytes = machines().is_incoherent(address)
                         ? shared()->incoherent.look_at(scheduler::runtime::g_host, address)
                         : shared()->memory.look_at(address);
  std::int64_t content;
  std::memcpy(&content, bytes.data() + address % pmem::kLineBytes / 8 * 8, sizeof content);
  return content;
}

// ---- the report

std::uint32_t CxlThreads::note_origin(const void* code) const {
  if (g_control->has_texts == 0) return 0;
  shared()->origins.push_back({current_actor().id, code});
  return static_cast<std::uint32_t>(shared()->origins.size());
}

void CxlThreads::fail(std::uint32_t machine) {
  const auto tried = has_steps_ ? std::nullopt : shared()->last_point.stores_at(machine);
  shared()->last_point.forget();
  if (g_control->has_texts != 0) tell_lost_copies(machine);
  machines().fail(machine, tried);
  if (g_control->has_texts == 0) return;
  auto& told = shared()->told;
  const std::size_t before = told.size();
  while (told.size() < shared()->memory.at_stake().size()) {
    told.push_back(cxl::StoreFate::kOpen);
    tell_store(told.size() - 1, cxl::StoreFate::kOpen);
  }
  tell_flushes(std::span(shared()->memory.at_stake()).subspan(before));
}

void CxlThreads::note_fates() {
  if (g_control->has_texts == 0) return;
  const auto& at_stake = shared()->memory.at_stake();
  auto& told = shared()->told;
  for (std::size_t i = 0; i < at_stake.size(); ++i) {
    const cxl::StoreFate fate = shared()->memory.fate_of(at_stake[i]);
    if (told[i] == cxl::StoreFate::kOpen && fate != told[i]) tell_store(i, told[i] = fate);
  }
}

// A line of what the report says of the last step, which ThreadStory reads: the fate, how many bytes, where, who stored
// them, and which instruction.
void CxlThreads::tell_store(std::size_t i, cxl::StoreFate fate) {
  const cxl::StoreAtStake& store = shared()->memory.at_stake()[i];
  tell_fate(static_cast<int>(fate), store.bytes, store.address, store.op);
}

void CxlThreads::note_flush(Address address, const void* code) {
  if (g_control->has_texts == 0) return;
  const Address line = address / pmem::kLineBytes * pmem::kLineBytes;
  const auto& origins = shared()->origins;
  auto& flushes = shared()->flushes;
  const auto is_known = [&](const BegunFlush& f) {
    return f.machine == scheduler::runtime::g_host && f.line == line && origins[f.op - 1].code == code;
  };
  if (std::none_of(flushes.begin(), flushes.end(), is_known))
    flushes.push_back({scheduler::runtime::g_host, line, note_origin(code)});
}

void CxlThreads::tell_flushes(std::span<const cxl::StoreAtStake> stores) const {
  for (const BegunFlush& flush : shared()->flushes) {
    const auto is_of_line = [&](const cxl::StoreAtStake& store) {
      return flush.machine == store.machine && flush.line == store.address / pmem::kLineBytes * pmem::kLineBytes;
    };
    if (std::any_of(stores.begin(), stores.end(), is_of_line)) tell_fate(kFlushBegun, 0, flush.line, flush.op);
  }
}

void CxlThreads::tell_fate(int fate, std::uint64_t bytes, Address address, std::uint32_t op) const {
  const Origin origin = op == 0 ? Origin{} : shared()->origins[op - 1];
  scheduler::runtime::add_to_last_step(fmt::format("{} {} {} {} {}\n", fate, bytes, address, index(origin.actor),
                                                   reinterpret_cast<std::uint64_t>(origin.code)));
}

// ---- steps

std::uint16_t CxlThreads::failure_points(const NextStep& step) const {
  return static_cast<std::uint16_t>(cxl::taken_from(step, machines(), shared()->memory) & g_control->failing);
}

void CxlThreads::note(const scheduler::Step& step) {
  if (has_steps_) return;
  const Operation& done = step.operation;
  bool is_simple = scheduler::primitive_of(done[0]).traits.is_memory;
  for (const Access& access : done) {
    const scheduler::PrimitiveId primitive = primitive_of(access.object);
    is_simple =
        is_simple && primitive != incoherent::primitive() && !(primitive == line::primitive() && access.observed > 1);
  }
  shared()->last_point.note_step(scheduler::runtime::g_host, done.failure_points(), is_simple,
                                 shared()->memory.store_count());
}

std::uint32_t CxlThreads::covered_failures() const {
  return has_steps_ ? 0 : shared()->last_point.covered(shared()->memory.store_count());
}

void CxlThreads::observe(scheduler::runtime::Actor& actor, Operation& operation) {
  const ThreadId thread = thread_of(actor.id);
  if (thread >= next_.size() || next_[thread].step.kind == NextStep::kNothing) return;
  const Next& next = next_[thread];
  for (Access& access : operation) {
    if (primitive_of(access.object) != line::primitive() || next.bytes == 0) continue;
    access.observed = static_cast<std::int64_t>(machines().count_answers(thread, next.step.address, next.bytes));
    if (access.observed > 1) scheduler::runtime::offer_answers(actor, access.observed);
  }
  if (!has_steps_) operation.set_failure_points(failure_points(next.step));
}

Access CxlThreads::executed(Address address, std::uint8_t verb, ThreadId thread) const {
  const Access access = line_access(address, verb, thread);
  const cxl::MachineId home = shared()->memory.home_of(address);
  return home == cxl::kNoMachine ? access : line::look_at_home(access, scheduler::runtime::host_object(home));
}

Access CxlThreads::line_access(Address address, std::uint8_t verb, ThreadId thread) const {
  const auto* begin = reinterpret_cast<const void*>(address / pmem::kLineBytes * pmem::kLineBytes);
  return line::access(scheduler::runtime::object_at(line::primitive(), begin, {}), static_cast<line::Verb>(verb),
                      static_cast<std::uint8_t>(scheduler::runtime::g_host), thread_number(thread),
                      shared()->memory.model().has_poison);
}

// Most accesses are no steps: their operations are not made.
template <class Make>
bool CxlThreads::take_step_if_needed(const Next& next, Make&& make, const void* code) {
  const std::size_t answers =
      next.bytes == 0 ? 1 : machines().count_answers(next.step.thread, next.step.address, next.bytes);
  if (!has_steps_ && answers == 1 && failure_points(next.step) == 0) return false;
  return take_step(next, make(), code);
}

bool CxlThreads::take_step(const Next& next, Operation operation, const void* code) {
  const ObjectId answers_object = scheduler::runtime::answers_of_current();
  if (next.bytes != 0) operation.add(answer::ask(answers_object));
  const ThreadId thread = next.step.thread;
  if (thread >= next_.size()) next_.resize(thread + 1);
  next_[thread] = next;
  perform(operation, code);
  next_[thread] = {};
  const Operation& done = current_actor().done;
  const auto asked = std::find_if(done.begin(), done.end(), [](const Access& a) {
    return primitive_of(a.object) == line::primitive() && a.observed > 1;
  });
  if (asked == done.end()) return false;
  if (asked->observed > scheduler::runtime::kAnswersMost)
    user_error(
        "a load of shared memory has more than 48 possible values after a failure, which is more than crashcut cxl "
        "follows");
  Operation take(answer::take(answers_object));
  take.add(executed(next.step.address, line::kDecide, next.step.thread));
  const std::int64_t given = perform(take, code);
  if (machines().is_gone(next.step.address)) return true;
  machines().decide(next.step.address, next.bytes, static_cast<std::uint32_t>(given));
  note_fates();
  return true;
}

// Without steps, what was executed reaches the cache at once.
void CxlThreads::leave_all(ThreadId thread) {
  if (has_steps_) return;
  while (!machines().buffer(thread).is_empty()) machines().leave(thread, 0);
}

// ---- accesses

void CxlThreads::finish_load(cxl::Loaded loaded, Address address, std::span<std::byte> out) {
  if (loaded == cxl::Loaded::kBytes) return;
  note_fates();
  constexpr std::byte kPoison{0xbd};
  std::fill(out.begin(), out.end(), kPoison);
  if (loaded == cxl::Loaded::kGone || poison_ == PoisonShows::kSignal)
    raise_bus_error(address, loaded == cxl::Loaded::kGone ? BUS_ADRERR : BUS_MCEERR_AR);
}

bool CxlThreads::is_there(Address address) const {
  if (!machines().is_gone(address)) return true;
  raise_bus_error(address, BUS_ADRERR);
  return false;
}

bool CxlThreads::touch(Address address, const void* code) {
  if (!is_modelled(address) || shared()->memory.home_of(address) == cxl::kNoMachine) return true;
  const ThreadId thread = own_thread();
  const Operation operation(executed(address, line::kTouch, thread));
  if (has_steps_) {
    perform(operation, code);
  } else {
    take_step({{.kind = NextStep::kTouch, .thread = thread, .address = address}}, operation, code);
  }
  return is_there(address);
}

void CxlThreads::do_load(ThreadId thread, Address address, std::span<std::byte> out, const void* code) {
  if (is_modelled(address)) {
    std::size_t at = 0;
    return for_each_line(address, out.size(), [&](Address part, std::size_t bytes) {
      load_line(thread, part, out.subspan(at, bytes), code);
      at += bytes;
    });
  }
  NoChoice none;
  if (has_steps_) {
    Operation operation(place_access(address, x86::kLoad, thread));
    const ObjectId last = place(address + out.size() - 1);
    if (last != operation[0].object) operation.add(place_access(address + out.size() - 1, x86::kLoad, thread));
    perform(operation, code);
    std::memcpy(out.data(), reinterpret_cast<const void*>(address), out.size());
  }
  (void)machines().load(thread, address, out, none);
}

void CxlThreads::load_line(ThreadId thread, Address address, std::span<std::byte> out, const void* code) {
  if (machines().is_incoherent(address)) return load_incoherently(thread, address, out, code);
  if (!has_steps_ && machines().load_at_once(thread, address, out)) return;
  const Next next{{.kind = NextStep::kLoad, .thread = thread, .address = address}, out.size()};
  const auto load = [&] { return Operation(executed(address, line::kLoad, thread)); };
  while (take_step_if_needed(next, load, code)) {
  }
  NoChoice none;
  finish_load(machines().load(thread, address, out, none), address, out);
}

void CxlThreads::push_store(ThreadId thread, Address address, std::span<const std::byte> bytes, Kind kind,
                            std::uint32_t op) {
  switch (kind) {
    case Kind::kStore:
    case Kind::kAtomicStore:
      return machines().store(thread, address, bytes, op);
    case Kind::kCopy:
      return machines().copy(thread, address, bytes, op);
    case Kind::kNonTemporal:
    case Kind::kNonTemporalWhole:
      return machines().store_non_temporal(thread, address, bytes, kind == Kind::kNonTemporalWhole, op);
  }
}

void CxlThreads::do_store(ThreadId thread, Address address, std::span<const std::byte> bytes, Kind kind,
                          const void* code) {
  if (machines().is_incoherent(address)) return store_incoherently(thread, address, bytes, kind, code);
  const std::uint32_t op = is_modelled(address) ? note_origin(code) : 0;
  if (has_steps_ || !is_modelled(address)) {
    push_store(thread, address, bytes, kind, op);
    return leave_all(thread);
  }
  // Lines are independent, and so are the words of a copy.
  std::size_t at = 0;
  for_each_line(address, bytes.size(), [&](Address part, std::size_t count) {
    const auto verb = kind != Kind::kNonTemporal && kind != Kind::kNonTemporalWhole ? line::kStore : line::kStoreWeakly;
    take_step_if_needed(
        {{.kind = NextStep::kStore, .thread = thread, .address = part}},
        [&] { return Operation(executed(part, verb, thread)); }, code);
    if (!is_there(part)) return;
    push_store(thread, part, bytes.subspan(at, count), kind, op);
    leave_all(thread);
    at += count;
  });
}

void CxlThreads::begin_lock(ThreadId thread, Address address, std::span<std::byte> old, const Change&,
                            const void* code) {
  NoChoice none;
  const Access empty = x86::access(buffer_object(thread), x86::kAwaitEmpty, thread_number(thread));
  if (machines().is_incoherent(address)) {
    add_caches(address);
    take_step({{.kind = NextStep::kStore, .thread = thread, .address = address, .is_locked = true}},
              Operation(incoherent_access(address, incoherent::kStore, thread)).add(empty), code);
    (void)machines().begin_locked(thread, address, old, none);
    return;
  }
  if (is_modelled(address)) {
    const Next next{{.kind = NextStep::kStore, .thread = thread, .address = address, .is_locked = true}, old.size()};
    const auto store = [&] {
      Operation operation(executed(address, line::kStore, thread));
      return operation.add(empty).add(x86::access(fences(), x86::kStoreAnywhere, thread_number(thread)));
    };
    while (take_step_if_needed(next, store, code)) {
    }
    if (machines().is_gone(address)) return finish_load(cxl::Loaded::kGone, address, old);
    return finish_load(machines().begin_locked(thread, address, old, none), address, old);
  }
  if (has_steps_) {
    Operation operation(empty);
    operation.add(place_access(address, x86::kStore, thread));
    const ObjectId last = place(address + old.size() - 1);
    if (last != operation[1].object) operation.add(x86::access(last, x86::kStore, thread_number(thread)));
    perform(operation, code);
  } else {
    take_step_if_needed(
        {{.kind = NextStep::kFence, .thread = thread}}, [&] { return Operation(empty); }, code);
  }
  std::memcpy(old.data(), reinterpret_cast<const void*>(address), old.size());
  (void)machines().begin_locked(thread, address, old, none);
}

void CxlThreads::end_lock(ThreadId thread, Address address, std::span<const std::byte> bytes, const void* code) {
  machines().store_locked(thread, address, bytes, is_modelled(address) ? note_origin(code) : 0);
}

void CxlThreads::do_clflush(ThreadId thread, Address address, bool keeps, const void* code) {
  if (machines().is_incoherent(address)) {
    const auto verb = keeps ? incoherent::kClean : incoherent::kFlush;
    if (!has_steps_)
      take_step({{.kind = NextStep::kClflush, .thread = thread, .address = address}},
                incoherent_access(address, verb, thread), code);
    keeps ? machines().clwb(thread, address) : machines().clflush(thread, address);
    return leave_all(thread);
  }
  if (!has_steps_)
    take_step_if_needed(
        {{.kind = NextStep::kClflush, .thread = thread, .address = address}},
        [&] { return Operation(executed(address, line::kClflush, thread)); }, code);
  if (!has_steps_ && !is_there(address)) return;
  machines().clflush(thread, address);
  leave_all(thread);
}

void CxlThreads::do_clflushopt(ThreadId thread, Address address, const void* code) {
  if (has_steps_) {
    perform(executed(address, line::kClflushopt, thread), code);
    if (!is_there(address)) return;
  } else if (!touch(address, code)) {
    return;
  }
  machines().clflushopt(thread, address);
  note_flush(address, code);
}

Operation CxlThreads::leave_fence(ThreadId thread) const {
  return Operation(x86::access(fences(), x86::kLeaveFence, thread_number(thread)));
}

void CxlThreads::do_sfence(ThreadId thread, const void* code) {
  if (!has_steps_)
    take_step_if_needed(
        {{.kind = NextStep::kFence, .thread = thread}}, [&] { return leave_fence(thread); }, code);
  machines().sfence(thread);
  leave_all(thread);
}

void CxlThreads::do_mfence(ThreadId thread, const void* code) {
  if (!has_steps_)
    take_step_if_needed(
        {{.kind = NextStep::kFence, .thread = thread}}, [&] { return leave_fence(thread); }, code);
  machines().mfence(thread);
}

void CxlThreads::add_store(Operation& operation, scheduler::runtime::Actor&, const pmem::BufferEntry& entry,
                           ThreadId thread) {
  if (!is_modelled(entry.address)) {
    operation.add(place_access(entry.address, x86::kStore, thread));
    return;
  }
  const bool is_weak = entry.kind != pmem::EntryKind::kStore;
  if (machines().is_incoherent(entry.address)) {
    const auto verb = is_weak ? incoherent::kStoreWeakly : incoherent::kStore;
    operation.add(incoherent_access(entry.address, verb, thread));
    return;
  }
  operation.add(line_access(entry.address, is_weak ? line::kStoreWeakly : line::kStore, thread))
      .add(x86::access(fences(), x86::kStoreAnywhere, thread_number(thread)));
}

void CxlThreads::add_clflush(Operation& operation, const pmem::BufferEntry& entry, ThreadId thread) {
  if (machines().is_incoherent(entry.address)) {
    const auto verb = cxl::keeps_copy(entry) ? incoherent::kClean : incoherent::kFlush;
    operation.add(incoherent_access(entry.address, verb, thread));
    return;
  }
  operation.add(line_access(entry.address, line::kClflush, thread));
}

}  // namespace crashcut::inprocess
