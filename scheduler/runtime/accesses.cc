#include "scheduler/runtime/accesses.h"

#include <link.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/runtime/buffers.h"
#include "scheduler/runtime/hosts.h"
#include "scheduler/runtime/loops.h"
#include "scheduler/runtime/world.h"

namespace crashcut::scheduler::runtime {

bool g_is_instrumented = false;

namespace {

struct Range {
  std::uint64_t begin, end;
};
// Of modules that are instrumented. They stay: set before main().
Range g_instrumented[64];
std::uint32_t g_instrumented_count = 0;

}  // namespace

// Of an execution, on all hosts. Places and granules are named by place_of() (hosts.h).
struct MemoryLog {
  // Who touched some of eight bytes, and when.
  struct Record {
    Record* next;
    std::uint32_t actor, epoch, stack;
    std::uint8_t mask;
    bool writes, is_atomic, frees;
    std::uint64_t pc;
    std::uint32_t step;
  };

  // What was freed, and by whom: the record that each of its granules has.
  struct Freed {
    std::uint64_t end;
    Record record;
  };
  struct CallSite {
    std::uint32_t parent;
    std::uint64_t pc;
  };

  HappensBefore happens_before;
  bool is_noting = false;                              // some code is instrumented
  std::unordered_map<std::uint64_t, Record*> touched;  // by granule
  std::map<std::uint64_t, Freed> freed;  // by where it begins; granules that have records have this one too
  Record* free_records = nullptr;
  std::vector<CallSite> call_sites{{0, 0}};
  std::unordered_map<std::uint64_t, std::uint32_t> call_site_numbers;
  std::unordered_set<std::uint64_t> racy;  // portable() granules: accesses to them are operations
};

namespace {

using Record = MemoryLog::Record;
using Freed = MemoryLog::Freed;
using CallSite = MemoryLog::CallSite;

MemoryLog* g_memory = nullptr;

bool is_instrumented(const void* code) {
  const auto at = reinterpret_cast<std::uint64_t>(code);
  return std::any_of(g_instrumented, g_instrumented + g_instrumented_count,
                     [&](const Range& range) { return at >= range.begin && at < range.end; });
}

constexpr std::uint64_t kOnMainsStack = std::uint64_t{1} << 63;
std::uint64_t g_main_stack_top = 0;

// Main's stack begins elsewhere with every environment; a token must find the place again.
std::uint64_t portable(std::uint64_t granule) {
  constexpr std::uint64_t kStackMost = 8 << 20;
  const bool is_on_stack = granule < g_main_stack_top && g_main_stack_top - granule < kStackMost;
  return is_on_stack ? kOnMainsStack | g_host_tag | (g_main_stack_top - granule) : place_of(granule);
}

// Memory that machines share is looked at by others when one fails, whatever locks say: a machine may fail between any
// two of its accesses there.
bool is_operation(std::uint64_t granule) {
  if (is_hosted() && is_in_region(granule)) return true;
  return !g_memory->racy.empty() && g_memory->racy.contains(portable(granule));
}

void remember_racy(std::uint64_t granule) {
  const std::uint64_t name = portable(granule);
  lock_names();
  const std::uint32_t count = g_names->racy_count;
  const bool is_known = std::find(g_names->racy, g_names->racy + count, name) != g_names->racy + count;
  if (!is_known && count < kRacyMost) {
    g_names->racy[count] = name;
    g_names->racy_count = count + 1;
  }
  unlock_names();
}

RaceSide side_of(const Record& record) {
  RaceSide side{};
  side.actor = record.actor;
  side.writes = record.writes;
  side.is_atomic = record.is_atomic;
  side.frees = record.frees;
  side.step = record.step;
  side.frames[side.frame_count++] = record.pc;
  for (std::uint32_t stack = record.stack; stack != 0 && side.frame_count < kFramesMost;
       stack = g_memory->call_sites[stack].parent) {
    side.frames[side.frame_count++] = g_memory->call_sites[stack].pc;
  }
  return side;
}

// An atomic access is noted once its step is done, and belongs to that: what the step publishes has it.
std::uint32_t epoch_of(const MemoryTouch& touch) {
  return g_memory->happens_before.epoch(current_actor().id) - (touch.is_atomic ? 1 : 0);
}

// What the running actor's touch leaves behind.
Record record_of(const MemoryTouch& touch, std::uint8_t mask) {
  const Actor& self = current_actor();
  return {nullptr,
          index(self.id),
          epoch_of(touch),
          self.memory.stack,
          mask,
          touch.writes,
          touch.is_atomic,
          touch.frees,
          reinterpret_cast<std::uint64_t>(touch.pc),
          g_control->step_count};
}

void report_race(const Record& first, const MemoryTouch& second, std::uint64_t granule) {
  remember_racy(granule);
  // A model of memory makes these accesses steps, and reports no race.
  if (g_control->has_race || (second.is_modelled && g_control->racy_count > 0)) return;
  RaceFact& race = g_control->race;
  race.address = place_of(std::max(second.address, granule + static_cast<std::uint64_t>(__builtin_ctz(first.mask))));
  race.sides[0] = side_of(first);
  race.sides[1] = side_of(record_of(second, 0));
  g_control->has_race = true;
  // Who goes on after races goes on with their accesses as operations: not before the search has begun again. But where
  // an execution that went on is run again, so does this one.
  const bool goes_on =
      g_control->goes_on_after_race || (g_control->ends_with_prefix && g_control->step_count < g_control->prefix_count);
  if (g_control->racy_count == 0 && !goes_on) stop_at_race();
}

void drop(Record*& place) {
  Record* gone = place;
  place = gone->next;
  gone->next = g_memory->free_records;
  g_memory->free_records = gone;
}

Record* new_record(const Record& record) {
  Record* made = g_memory->free_records;
  if (made != nullptr) {
    g_memory->free_records = made->next;
  } else {
    made = new Record;
  }
  *made = record;
  return made;
}

// The granule's record where it was freed untouched; null where it was not.
Record* record_of_freed(std::uint64_t place) {
  const auto after = g_memory->freed.upper_bound(place);
  if (after == g_memory->freed.begin()) return nullptr;
  const Freed& block = std::prev(after)->second;
  return place < block.end ? new_record(block.record) : nullptr;
}

void note_in_granule(const MemoryTouch& touch, std::uint64_t granule, std::uint8_t mask) {
  Actor& self = current_actor();
  const std::uint32_t actor = index(self.id), epoch = epoch_of(touch);
  Record*& head = g_memory->touched[place_of(granule)];
  if (head == nullptr && !g_memory->freed.empty()) head = record_of_freed(place_of(granule));
  for (Record** at = &head; *at != nullptr;) {
    Record& r = **at;
    const bool is_own = r.actor == actor;
    if (is_own && !r.frees && r.epoch == epoch && (r.mask & mask) == mask && r.writes == touch.writes &&
        r.is_atomic == touch.is_atomic)
      return;
    const bool is_past = is_own || g_memory->happens_before.is_before(static_cast<ActorId>(r.actor), r.epoch, self.id);
    if (!is_past && (r.mask & mask) != 0 && (r.writes || touch.writes) && !(r.is_atomic && touch.is_atomic))
      report_race(r, touch, granule);
    if (is_past && r.frees) fail(Failure::kMisuse, kUseAfterFree, misuse_text(kUseAfterFree), touch.pc);
    // What races with a touch in the past of this one, and not with this one, there is not: where this one is the
    // stronger.
    const bool is_covered =
        is_past && (r.mask & ~mask) == 0 && (touch.writes || !r.writes) && (!touch.is_atomic || r.is_atomic);
    if (is_covered) {
      drop(*at);
    } else {
      at = &r.next;
    }
  }
  Record* record = new_record(record_of(touch, mask));
  record->next = head;
  head = record;
}

template <class Visit>
void for_each_granule(std::uint64_t address, std::size_t bytes, Visit visit) {
  const std::uint64_t end = address + bytes;
  for (std::uint64_t granule = address & ~(memory::kGranule - 1); granule < end; granule += memory::kGranule) {
    const std::uint64_t from = std::max(granule, address), to = std::min(granule + memory::kGranule, end);
    visit(granule, static_cast<std::uint8_t>(from - granule), static_cast<std::uint8_t>(to - from));
  }
}

// A plain access to what was raced for: an operation.
void perform_plain(const MemoryTouch& touch, std::uint64_t granule, std::uint8_t offset, std::uint8_t bytes) {
  const auto* content = reinterpret_cast<const std::int64_t*>(granule);
  Access access = memory::access(memory_object(granule), touch.writes ? memory::kModify : memory::kLoad, offset, bytes);
  access.order = memory::kPlain;
  current_actor().memory.granules[0] = content;
  Operation operation(access);
  if (touch.writes) {
    perform(operation, touch.pc);
    return;
  }
  const std::uint64_t state = state_at_entry(granule + offset, bytes);
  if (add_awaits(operation, state, granule + offset)) perform(spin::access(loop_object(), spin::kSpin), touch.pc);
  perform(operation, touch.pc);
  note_look({state, granule + offset, bytes, memory::value_in(*content, access)});
}

}  // namespace

MemoryLog* begin_accesses() {
  auto* log = new MemoryLog;
  log->is_noting = g_is_instrumented;
  for (std::uint32_t i = 0; i < g_control->host_count; ++i)
    log->is_noting = log->is_noting || g_control->hosts[i].is_instrumented != 0;
  g_control->is_instrumented = log->is_noting;
  g_control->has_race = false;
  log->racy.insert(g_names->racy, g_names->racy + g_control->racy_count);
  return log;
}
void join_accesses(MemoryLog* log, const void* stack_top) {
  g_memory = log;
  g_main_stack_top = reinterpret_cast<std::uint64_t>(stack_top);
}
void end_accesses() { g_memory = nullptr; }

void note_touch(const MemoryTouch& touch) {
  if (!touch.is_atomic && !touch.is_modelled) note_plain(touch);
  for_each_granule(touch.address, touch.bytes, [&](std::uint64_t granule, std::uint8_t offset, std::uint8_t bytes) {
    if (!touch.is_atomic && !touch.is_modelled && is_operation(granule)) perform_plain(touch, granule, offset, bytes);
    note_in_granule(touch, granule, static_cast<std::uint8_t>(((1u << bytes) - 1) << offset));
  });
}

bool is_raced_for(std::uint64_t address, std::size_t bytes) {
  if (g_memory->racy.empty()) return false;
  bool is = false;
  for_each_granule(address, bytes, [&](std::uint64_t granule, std::uint8_t, std::uint8_t) {
    is = is || g_memory->racy.contains(portable(granule));
  });
  return is;
}

// Those of the block that somebody has touched. It may be large, and so may be what was touched elsewhere.
static std::vector<std::uint64_t> touched_places(std::uint64_t begin, std::uint64_t end) {
  std::vector<std::uint64_t> granules;
  if ((end - begin) / memory::kGranule <= g_memory->touched.size()) {
    for (std::uint64_t granule = begin; granule < end; granule += memory::kGranule) {
      if (g_memory->touched.contains(granule)) granules.push_back(granule);
    }
    return granules;
  }
  for (const auto& [granule, records] : g_memory->touched) {
    if (granule >= begin && granule < end) granules.push_back(granule);
  }
  return granules;
}

// Granules that nobody has touched yet are left to record_of_freed().
void note_freed(std::uint64_t address, std::size_t bytes, const void* pc) {
  if (!is_scheduling() || !is_instrumented(pc)) return;
  const MemoryTouch touch{address, bytes, true, false, pc, true};
  const std::uint64_t begin = place_of(address), end = begin + bytes;
  for (const std::uint64_t place : g_memory->racy) {
    if (place >= begin && place < end) perform_plain(touch, address_of(place), 0, memory::kGranule);
  }
  for (const std::uint64_t place : touched_places(begin, end)) note_in_granule(touch, address_of(place), 0xff);
  g_memory->freed[begin] = {end, record_of(touch, 0xff)};
}

void note_instrumented(const void* code) {
  g_is_instrumented = true;
  if (is_instrumented(code) || g_instrumented_count == std::size(g_instrumented)) return;
  Range found{reinterpret_cast<std::uint64_t>(code), 0};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* at) {
        Range& range = *static_cast<Range*>(at);
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          const std::uint64_t begin = info->dlpi_addr + part.p_vaddr;
          if (part.p_type != PT_LOAD || range.begin < begin || range.begin >= begin + part.p_memsz) continue;
          range = {begin, begin + part.p_memsz};
          return 1;
        }
        return 0;
      },
      &found);
  if (found.end != 0) g_instrumented[g_instrumented_count++] = found;
}

void forget_touches(std::uint64_t address, std::size_t bytes) {
  if (g_memory == nullptr) return;
  g_memory->freed.erase(place_of(address));
  if (g_memory->touched.empty()) return;
  for_each_granule(address, bytes, [&](std::uint64_t granule, std::uint8_t, std::uint8_t) {
    g_memory->touched.erase(place_of(granule));
  });
}

void note_happened(const Step& step) {
  if (g_is_instrumented || g_memory->is_noting) g_memory->happens_before.note(step);
}
void note_fence(bool acquires, bool releases) {
  g_memory->happens_before.fence(current_actor().id, acquires, releases);
}

void observe_memory(const MemoryView& view, const State& state, Operation& operation) {
  for (std::size_t i = 0; i < operation.size(); ++i) {
    Access& a = operation.begin()[i];
    if (primitive_of(a.object) != PrimitiveId::kMemory) continue;
    const Object& known = state.object(a.object);
    std::int64_t content = 0;
    if (!kBufferModel.is_on() || !kBufferModel.peek(reinterpret_cast<std::uint64_t>(view.granules[i]), content))
      content = *view.granules[i];
    if (memory::is_known(known, a) && memory::value_in(memory::content(known), a) == memory::value_in(content, a))
      continue;
    a.observed = content;
    a.is_observed = true;
  }
}

void enter_function(const void* call_site) {
  std::uint32_t& stack = current_actor().memory.stack;
  const auto pc = reinterpret_cast<std::uint64_t>(call_site);
  const auto [it, is_new] =
      g_memory->call_site_numbers.try_emplace(std::uint64_t{stack} << 48 ^ std::uint64_t{stack} >> 16 ^ pc,
                                              static_cast<std::uint32_t>(g_memory->call_sites.size()));
  const CallSite& found = g_memory->call_sites[is_new ? 0 : it->second];
  // Two call sites of one key are rare: the second is not remembered by it.
  if (is_new || found.parent != stack || found.pc != pc) {
    g_memory->call_sites.push_back({stack, pc});
    stack = static_cast<std::uint32_t>(g_memory->call_sites.size() - 1);
  } else {
    stack = it->second;
  }
}
void leave_function() {
  std::uint32_t& stack = current_actor().memory.stack;
  stack = g_memory->call_sites[stack].parent;
}

ObjectId memory_object(std::uint64_t address) {
  const std::uint64_t granule = address & ~(memory::kGranule - 1);
  const auto* content = reinterpret_cast<const std::int64_t*>(granule);
  std::int64_t start = 0;
  if (!kBufferModel.is_on() || !kBufferModel.peek(granule, start)) start = *content;
  return object_at(PrimitiveId::kMemory, content, {{}, start});
}

}  // namespace crashcut::scheduler::runtime
