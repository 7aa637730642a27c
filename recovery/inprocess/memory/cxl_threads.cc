#include "recovery/inprocess/memory/cxl_threads.h"

#include <signal.h>

#include <algorithm>
#include <cstring>

#include "cxl/line_primitive.h"
#include "recovery/inprocess/memory/region_access.h"
#include "scheduler/primitives/answer.h"
#include "scheduler/runtime/buffers.h"
#include "scheduler/runtime/hosts.h"

namespace crashcut::inprocess {

namespace answer = scheduler::answer;
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

// For a load that has nothing to choose.
class NoChoice final : public persist::Chooser {
 public:
  std::uint32_t choose(const persist::Choice&) override { CHECK(false); }
};

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

}  // namespace

CxlThreads::CxlThreads(const cxl::SharedModel& model, PoisonShows poison, bool has_steps)
    : ThreadedMemory({}, has_steps), poison_(poison) {
  void*& memory = scheduler::runtime::common_heap().memory;
  if (memory == nullptr) memory = new Shared(model);
}

CxlThreads::Shared* CxlThreads::shared() { return static_cast<Shared*>(scheduler::runtime::common_heap().memory); }

// It may grow.
void CxlThreads::add_region(Address begin, std::uint64_t bytes, const std::byte* ground) {
  auto& regions = shared()->regions;
  auto region = std::find_if(regions.begin(), regions.end(), [&](const pmem::Region& r) { return r.begin == begin; });
  if (region == regions.end()) region = regions.insert(region, {begin, 0});
  if (bytes <= region->bytes) return;
  shared()->memory.add_region({begin + region->bytes, bytes - region->bytes}, ground + region->bytes);
  region->bytes = bytes;
}

bool CxlThreads::is_modelled(Address address) const { return scheduler::runtime::is_in_region(address); }

ThreadId CxlThreads::add_thread(scheduler::ActorId) { return machines().start_thread(scheduler::runtime::g_host); }

std::int64_t CxlThreads::peek(Address address) const {
  const auto bytes = shared()->memory.look_at(address);
  std::int64_t content;
  std::memcpy(&content, bytes.data() + address % pmem::kLineBytes / 8 * 8, sizeof content);
  return content;
}

// ---- steps

std::uint16_t CxlThreads::failure_points(const NextStep& step) const {
  std::uint16_t points = 0;
  for (std::uint32_t machine = 0; machine < g_control->host_count; ++machine) {
    const bool may_fail = (g_control->failing >> machine & 1) != 0;
    if (may_fail && cxl::takes_from(machine, step, machines(), shared()->memory))
      points = static_cast<std::uint16_t>(points | 1u << machine);
  }
  return points;
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

Access CxlThreads::line_access(Address address, std::uint8_t verb, ThreadId thread) const {
  const auto* begin = reinterpret_cast<const void*>(address / pmem::kLineBytes * pmem::kLineBytes);
  return line::access(scheduler::runtime::object_at(line::primitive(), begin, {}), static_cast<line::Verb>(verb),
                      static_cast<std::uint8_t>(scheduler::runtime::g_host), thread_number(thread),
                      shared()->memory.model().has_poison);
}

bool CxlThreads::take_step(const Next& next, Operation operation, const void* code) {
  const std::size_t answers =
      next.bytes == 0 ? 1 : machines().count_answers(next.step.thread, next.step.address, next.bytes);
  if (!has_steps_ && answers == 1 && failure_points(next.step) == 0) return false;
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
  take.add(line_access(next.step.address, line::kDecide, next.step.thread));
  const std::int64_t given = perform(take, code);
  machines().decide(next.step.address, next.bytes, static_cast<std::uint32_t>(given));
  return true;
}

// Without steps, what was executed reaches the cache at once.
void CxlThreads::leave_all(ThreadId thread) {
  if (has_steps_) return;
  while (!machines().buffer(thread).is_empty()) machines().leave(thread, 0);
}

// ---- accesses

void CxlThreads::finish_load(cxl::Loaded loaded, Address, std::span<std::byte> out) {
  if (loaded == cxl::Loaded::kBytes) return;
  constexpr std::byte kPoison{0xbd};
  std::fill(out.begin(), out.end(), kPoison);
  if (poison_ == PoisonShows::kSignal) kernel(SYS_tgkill, kernel(SYS_getpid), kernel(SYS_gettid), SIGBUS);
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
  const Next next{{.kind = NextStep::kLoad, .thread = thread, .address = address}, out.size()};
  while (take_step(next, Operation(line_access(address, line::kLoad, thread)), code)) {
  }
  NoChoice none;
  finish_load(machines().load(thread, address, out, none), address, out);
}

void CxlThreads::do_store(ThreadId thread, Address address, std::span<const std::byte> bytes, Kind kind,
                          const void* code) {
  const auto store = [&](Address to, std::span<const std::byte> part) {
    switch (kind) {
      case Kind::kStore:
        return machines().store(thread, to, part);
      case Kind::kCopy:
        return machines().copy(thread, to, part);
      case Kind::kNonTemporal:
      case Kind::kNonTemporalWhole:
        return machines().store_non_temporal(thread, to, part, kind == Kind::kNonTemporalWhole);
    }
  };
  if (has_steps_ || !is_modelled(address)) {
    store(address, bytes);
    return leave_all(thread);
  }
  // Lines are independent, and so are the words of a copy.
  std::size_t at = 0;
  for_each_line(address, bytes.size(), [&](Address part, std::size_t count) {
    const auto verb = kind == Kind::kStore || kind == Kind::kCopy ? line::kStore : line::kStoreWeakly;
    take_step({{.kind = NextStep::kStore, .thread = thread, .address = part}},
              Operation(line_access(part, verb, thread)), code);
    store(part, bytes.subspan(at, count));
    leave_all(thread);
    at += count;
  });
}

void CxlThreads::begin_lock(ThreadId thread, Address address, std::span<std::byte> old, const Change&,
                            const void* code) {
  NoChoice none;
  const Access empty = x86::access(buffer_object(thread), x86::kAwaitEmpty, thread_number(thread));
  if (is_modelled(address)) {
    const Next next{{.kind = NextStep::kStore, .thread = thread, .address = address, .is_locked = true}, old.size()};
    Operation operation(line_access(address, line::kStore, thread));
    operation.add(empty).add(x86::access(fences(), x86::kStoreAnywhere, thread_number(thread)));
    while (take_step(next, operation, code)) {
    }
    return finish_load(machines().begin_locked(thread, address, old, none), address, old);
  }
  if (has_steps_) {
    Operation operation(empty);
    operation.add(place_access(address, x86::kStore, thread));
    const ObjectId last = place(address + old.size() - 1);
    if (last != operation[1].object) operation.add(x86::access(last, x86::kStore, thread_number(thread)));
    perform(operation, code);
  } else {
    take_step({{.kind = NextStep::kFence, .thread = thread}}, Operation(empty), code);
  }
  std::memcpy(old.data(), reinterpret_cast<const void*>(address), old.size());
  (void)machines().begin_locked(thread, address, old, none);
}

void CxlThreads::end_lock(ThreadId thread, Address address, std::span<const std::byte> bytes, const void*) {
  machines().store_locked(thread, address, bytes);
}

void CxlThreads::do_clflush(ThreadId thread, Address address, const void* code) {
  if (!has_steps_)
    take_step({{.kind = NextStep::kClflush, .thread = thread, .address = address}},
              Operation(line_access(address, line::kClflush, thread)), code);
  machines().clflush(thread, address);
  leave_all(thread);
}

void CxlThreads::do_clflushopt(ThreadId thread, Address address, const void* code) {
  if (has_steps_) perform(line_access(address, line::kClflushopt, thread), code);
  machines().clflushopt(thread, address);
}

void CxlThreads::do_sfence(ThreadId thread, const void* code) {
  if (!has_steps_)
    take_step({{.kind = NextStep::kFence, .thread = thread}},
              Operation(x86::access(fences(), x86::kLeaveFence, thread_number(thread))), code);
  machines().sfence(thread);
  leave_all(thread);
}

void CxlThreads::do_mfence(ThreadId thread, const void* code) {
  if (!has_steps_)
    take_step({{.kind = NextStep::kFence, .thread = thread}},
              Operation(x86::access(fences(), x86::kLeaveFence, thread_number(thread))), code);
  machines().mfence(thread);
}

void CxlThreads::add_store(Operation& operation, scheduler::runtime::Actor&, const pmem::BufferEntry& entry,
                           ThreadId thread) {
  if (!is_modelled(entry.address)) {
    operation.add(place_access(entry.address, x86::kStore, thread));
    return;
  }
  const auto verb = entry.kind == pmem::EntryKind::kStore ? line::kStore : line::kStoreWeakly;
  operation.add(line_access(entry.address, verb, thread))
      .add(x86::access(fences(), x86::kStoreAnywhere, thread_number(thread)));
}

void CxlThreads::add_clflush(Operation& operation, Address address, ThreadId thread) {
  operation.add(line_access(address, line::kClflush, thread));
}

}  // namespace crashcut::inprocess
