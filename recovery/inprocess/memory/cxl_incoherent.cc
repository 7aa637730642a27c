// CxlThreads: memory that no hardware keeps coherent.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cxl/incoherent_primitive.h"
#include "recovery/inprocess/memory/cxl_threads.h"
#include "recovery/inprocess/memory/region_access.h"
#include "scheduler/primitives/semaphore.h"
#include "scheduler/runtime/buffers.h"
#include "scheduler/runtime/hosts.h"

namespace crashcut::inprocess {

namespace incoherent = cxl::incoherent;
namespace runtime = scheduler::runtime;
using cxl::NextStep;
using pmem::Address;
using pmem::ThreadId;
using scheduler::Access;
using scheduler::ObjectId;
using scheduler::Operation;
using scheduler::runtime::perform;

namespace {

constexpr std::uint8_t kNoThread = 255;
// Each has two actors a machine, and there are 1024 actors.
constexpr std::size_t kActorsOfCachesMost = 800;

Address line_of(Address address) { return address / pmem::kLineBytes * pmem::kLineBytes; }

ObjectId line_object(Address address) {
  return runtime::object_at(incoherent::primitive(), reinterpret_cast<const void*>(line_of(address)), {});
}

}  // namespace

Access CxlThreads::incoherent_access(Address address, std::uint8_t verb, ThreadId thread) const {
  return incoherent::access(line_object(address), static_cast<incoherent::Verb>(verb),
                            static_cast<std::uint8_t>(runtime::g_host), thread_number(thread));
}

// ---- what caches do by themselves

static void add_cache(std::uint32_t machine, Address line) {
  const incoherent::Verb verbs[] = {incoherent::kWriteBack, incoherent::kFetch};
  for (std::uint32_t number = 0; number < std::size(verbs); ++number) {
    runtime::Actor* const actor = runtime::cache_actor(machine, line, number);
    if (actor == nullptr) return;
    actor->pending =
        incoherent::access(line_object(line), verbs[number], static_cast<std::uint8_t>(machine), kNoThread);
    if (g.header->memory_steps == 0)
      actor->pending.add(scheduler::semaphore::access(runtime::cache_budget(), scheduler::semaphore::kWait));
  }
}

void CxlThreads::add_caches(Address address) {
  auto& lines = shared()->lines_of_caches;
  if (!lines.insert(line_of(address)).second) return;
  const std::uint32_t machines = runtime::g_control->host_count;
  if (2 * lines.size() * machines > kActorsOfCachesMost)
    user_error(
        fmt::format("machines have stored to more than {} lines of memory without coherence (--incoherent), "
                    "which is more than crashcut cxl follows: run the program with less data",
                    kActorsOfCachesMost / 2 / machines));
  for (std::uint32_t machine = 0; machine < machines; ++machine) add_cache(machine, line_of(address));
}

// Searches that turn steps round must find the actors of all lines at once: no step of the program makes them.
void begin_caches(std::uint32_t machine) {
  const std::vector<std::uint64_t> lines = runtime::known_lines_of_caches();
  if (lines.empty() && runtime::common_heap().memory == nullptr) return;
  CxlThreads::make_shared();
  CxlThreads::shared()->incoherent.forget(machine);
  for (const Address line : lines) add_cache(machine, line);
}

void act_by_itself(const runtime::Actor& cache, const Operation& done) {
  const Address line = runtime::line_of_cache(cache);
  CxlThreads::shared()->last_point.forget();
  cxl::IncoherentMemory& memory = CxlThreads::shared()->incoherent;
  done[0].verb == incoherent::kWriteBack ? memory.flush(cache.host, line, true) : memory.fetch(cache.host, line);
}

// Its cache writes back what it holds. Other threads of the machine may store meanwhile.
void CxlThreads::end_machine(const void* caller) {
  empty_all_buffers(caller);
  const ThreadId thread = own_thread();
  std::set<Address> done;
  while (true) {
    const auto stored = shared()->incoherent.stored_lines(runtime::g_host);
    const auto next =
        std::find_if(stored.begin(), stored.end(), [&](const auto& s) { return !done.contains(s.first); });
    if (next == stored.end()) return;
    done.insert(next->first);
    take_step({{.kind = NextStep::kClflush, .thread = thread, .address = next->first}},
              incoherent_access(next->first, incoherent::kFlush, thread), caller);
    shared()->incoherent.flush(runtime::g_host, next->first, false);
  }
}

void CxlThreads::tell_lost_copies(std::uint32_t machine) {
  for (const auto& [line, op] : shared()->incoherent.stored_lines(machine)) {
    if (shared()->incoherent.is_dirty(machine, line))
      tell_fate(static_cast<int>(cxl::StoreFate::kLost), pmem::kLineBytes, line, op);
  }
}

// ---- accesses

void CxlThreads::load_incoherently(ThreadId thread, Address address, std::span<std::byte> out, const void* code) {
  perform(incoherent_access(address, incoherent::kLoad, thread), code);
  NoChoice none;
  (void)machines().load(thread, address, out, none);
}

// Without steps the words of a copy leave in order; a write-back may come between any two.
void CxlThreads::store_incoherently(ThreadId thread, Address address, std::span<const std::byte> bytes, Kind kind,
                                    const void* code) {
  const std::uint32_t op = note_origin(code);
  const bool is_weak = kind == Kind::kNonTemporal || kind == Kind::kNonTemporalWhole;
  const Address unit = has_steps_ ? pmem::kLineBytes : unit_of(address, bytes.size(), kind);
  if (has_steps_) push_store(thread, address, bytes, kind, op);
  while (!bytes.empty()) {
    const std::size_t count = std::min<std::size_t>(bytes.size(), unit - address % unit);
    add_caches(address);
    if (!has_steps_) {
      take_step({{.kind = NextStep::kStore, .thread = thread, .address = address, .is_weak = is_weak}},
                incoherent_access(address, is_weak ? incoherent::kStoreWeakly : incoherent::kStore, thread), code);
      push_store(thread, address, bytes.first(count), kind, op);
      leave_all(thread);
    }
    address += count;
    bytes = bytes.subspan(count);
  }
}

void CxlThreads::use_object(Address address, const void* object) {
  if (machines().is_incoherent(address))
    user_error(
        "a mutex or another object of libc lies in memory that no hardware keeps coherent (--incoherent): it would not "
        "work there across machines. Put it into other memory of crashcut_cxl()");
  touch(address, object);
}

}  // namespace crashcut::inprocess
