#include "scheduler/runtime/loops.h"

#include <algorithm>

#include "persist/hash.h"
#include "scheduler/primitives/memory.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/runtime/image.h"
#include "scheduler/runtime/world.h"

extern "C" {
std::uint64_t crashcut_entry_registers[7];
}

namespace crashcut::scheduler::runtime {

namespace {

constexpr std::size_t kLooksMost = 4096;
// So many plain reads, without a write or an operation, and the thread's state is looked at.
constexpr std::uint32_t kManyReads = 4096;

using persist::mix;

bool is_own_stack(const MemoryView& view, std::uint64_t address) {
  return address >= reinterpret_cast<std::uint64_t>(__builtin_frame_address(0)) && address < view.stack_top;
}

bool is_same_place(const Look& a, const Look& b) { return a.address == b.address && a.bytes == b.bytes; }

// The places that the last round looked at, each once; empty where one held different values during it.
std::vector<Look> places_of(const std::vector<Look>& looks, std::size_t begin) {
  std::vector<Look> places;
  for (std::size_t i = begin; i < looks.size(); ++i) {
    if (looks[i].bytes == 0) continue;  // a plain read's
    const auto it =
        std::find_if(places.begin(), places.end(), [&](const Look& l) { return is_same_place(l, looks[i]); });
    if (it == places.end()) {
      places.push_back(looks[i]);
    } else if (it->value != looks[i].value) {
      return {};
    }
  }
  return places;
}

// The running thread's last look in that state, plus one; 0: there is none.
std::size_t end_of_round(std::uint64_t state) {
  const std::vector<Look>& looks = current_actor().memory.looks;
  std::size_t end = looks.size();
  while (end > 0 && looks[end - 1].state != state) --end;
  return end;
}

void add_await(MemoryView& view, Operation& operation, const Look& place, std::uint8_t order) {
  const std::uint64_t granule = place.address & ~(memory::kGranule - 1);
  view.granules[operation.size()] = reinterpret_cast<const std::int64_t*>(granule);
  Access await = memory::access(memory_object(granule), memory::kAwait,
                                static_cast<std::uint8_t>(place.address - granule), place.bytes, place.value);
  await.order = order;
  operation.add(await);
}

}  // namespace

void rest_if_round(const Operation& operation, const void* caller) {
  // A call that came by another way has no registers noted.
  const std::uint64_t entry = crashcut_entry_registers[6];
  if (!is_own_stack(current_actor().memory, entry) || *reinterpret_cast<const void* const*>(entry) != caller) return;
  const std::uint64_t local = state_at_entry(static_cast<std::uint64_t>(operation[0].object), operation[0].verb);
  switch (stand(local)) {
    case Rounds::Standing::kNew:
      return;
    case Rounds::Standing::kSeen:
      current_actor().is_watched = true;
      return;
    case Rounds::Standing::kAgain:
      return rest(caller);
  }
}

void end_segment() {
  const Actor& self = current_actor();
  const bool is_clean = self.is_watched && self.memory_before != 0 && hash_memory() == self.memory_before;
  if (!is_clean) note_written();
}

void note_written() {
  ++current_actor().written;
  current_actor().is_watched = false;
}

void begin_segment() {
  Actor& self = current_actor();
  if (self.is_watched) self.memory_before = hash_memory();
}

std::uint64_t state_at_entry(std::uint64_t address, std::uint64_t operand) {
  static std::uint64_t unknown_states = 0;
  std::uint64_t hash = mix(address, operand);
  if (!is_own_stack(current_actor().memory, crashcut_entry_registers[6])) return mix(hash, ++unknown_states);
  for (const std::uint64_t value : crashcut_entry_registers) hash = mix(hash, value);
  const auto* at = reinterpret_cast<const std::uint64_t*>(crashcut_entry_registers[6]);
  const auto* const end = reinterpret_cast<const std::uint64_t*>(current_actor().memory.stack_top);
  // A stack may have hundreds of words. Four hashes side by side do not wait for one another.
  std::uint64_t side[4] = {hash, 1, 2, 3};
  for (; end - at >= 4; at += 4) {
    for (int i = 0; i < 4; ++i) side[i] = mix(side[i], at[i]);
  }
  for (; at < end; ++at) side[0] = mix(side[0], *at);
  return mix(mix(mix(side[0], side[1]), side[2]), side[3]);
}

bool is_round(std::uint64_t state) { return end_of_round(state) != 0; }

bool await_change(std::uint64_t state, const void* caller) {
  MemoryView& view = current_actor().memory;
  const std::vector<Look> places = places_of(view.looks, end_of_round(state) - 1);
  if (places.empty() || places.size() > Operation::kOwnMost) return false;
  Operation operation;
  for (const Look& place : places) add_await(view, operation, place, memory::kPlain);
  perform(operation, caller);
  return true;
}

bool add_awaits(Operation& operation, std::uint64_t state, std::uint64_t address) {
  MemoryView& view = current_actor().memory;
  const std::size_t begin = end_of_round(state);
  if (begin == 0) return false;
  std::vector<Look> places = places_of(view.looks, begin - 1);
  if (places.empty()) return false;
  const bool is_load = operation[0].verb == memory::kLoad;
  if (places.size() + (is_load ? 0 : 1) > Operation::kOwnMost) return true;
  // Its own place first: that is where it stands.
  std::stable_partition(places.begin(), places.end(), [&](const Look& l) { return l.address == address; });
  const Access own = operation[0];
  if (is_load) operation = Operation();
  for (const Look& place : places)
    add_await(view, operation, place, is_load && operation.size() == 0 ? own.order : std::uint8_t{memory::kPlain});
  return false;
}

void note_look(const Look& look) {
  std::vector<Look>& looks = current_actor().memory.looks;
  if (looks.size() == kLooksMost) looks.erase(looks.begin(), looks.begin() + kLooksMost / 2);
  looks.push_back(look);
  current_actor().memory.plain_reads_in_a_row = 0;
}

void note_change() {
  MemoryView& view = current_actor().memory;
  view.looks.clear();
  view.plain_reads_in_a_row = 0;
}

// A loop of plain reads has no operation in which to wait: it waits until another has taken a step.
void note_plain(const MemoryTouch& touch) {
  MemoryView& view = current_actor().memory;
  if (touch.writes) {
    if (!is_own_stack(view, touch.address)) note_change();
    return;
  }
  if (++view.plain_reads_in_a_row <= kManyReads) return;
  const std::uint64_t state = state_at_entry(touch.address, 0);
  const bool is_round =
      std::any_of(view.looks.begin(), view.looks.end(), [&](const Look& l) { return l.state == state; });
  if (is_round) {
    perform(spin::access(loop_object(), spin::kSpin), touch.pc);
    view.looks.clear();
  } else if (view.looks.size() < kLooksMost) {
    view.looks.push_back({state, 0, 0, 0});
  }
}

}  // namespace crashcut::scheduler::runtime
