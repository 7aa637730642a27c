#include "scheduler/runtime/added_locks.h"

#include <pthread.h>

#include <algorithm>
#include <optional>
#include <span>

#include "scheduler/primitives/mutex.h"
#include "scheduler/runtime/call_stacks.h"
#include "scheduler/runtime/mutex_objects.h"
#include "scheduler/runtime/world_impl.h"

namespace crashcut::scheduler::runtime {

namespace {

std::span<const std::uint64_t> calls_of(const CallStack& stack) { return {stack.calls, stack.count}; }

// The mutex that the program does not have.
int g_added_mutex = 0;

struct Found {
  const AddedLock* lock;
  std::uint64_t at;
  bool is_innermost;
};

ObjectId mutex_of(const AddedLock& lock) {
  if (lock.mutex == 0) return object_at(PrimitiveId::kMutex, &g_added_mutex, {{}, mutex::kNormal});
  return mutex_object(reinterpret_cast<const pthread_mutex_t*>(lock.mutex));
}

// The section that the outermost call is in.
std::optional<Found> find_section(std::span<const std::uint64_t> stack) {
  for (std::size_t i = stack.size(); i-- > 0;) {
    for (std::uint32_t range = 0; range < g_control->added_lock_count; ++range) {
      const AddedLock& lock = g_control->added_locks[range];
      if (!lock.is_early && stack[i] >= lock.begin && stack[i] < lock.end) return Found{&lock, stack[i], i == 0};
    }
  }
  return std::nullopt;
}

// Whether the actor is still in the section that it was in.
bool stays(const AddedLockView& view, const Found& found, bool is_access) {
  if (view.section != found.lock->section || found.at > view.last) return view.section == found.lock->section;
  const bool is_same_call = found.at == view.last && !(is_access && found.is_innermost);
  if (!is_same_call && found.at != view.first) g_control->is_added_lock_unclear = true;
  return is_same_call;
}

void enter(Actor& self, const Found& found, const void* caller) {
  AddedLockView& view = self.added_lock;
  view.section = found.lock->section;
  view.first = found.at;
  view.mutex = mutex_of(*found.lock);
  view.holds = !mutex::is_held_by(object_of(view.mutex), self.id);
  if (view.holds) wait_for_mutex(view.mutex, caller);
}

void leave(AddedLockView& view, const void* caller) {
  view.section = AddedLockView::kNone;
  if (view.holds) perform(mutex::access(view.mutex, mutex::kUnlock), caller);
  view.holds = false;
}

}  // namespace

void heed_added_locks(const void* caller, bool is_access) {
  if (g_control->added_lock_count == 0) return;
  Actor& self = current_actor();
  AddedLockView& view = self.added_lock;
  if (view.is_busy) return;
  view.is_busy = true;
  const CallStack stack = call_stack();
  const auto found = find_section(calls_of(stack));
  const bool is_in = found && view.section != AddedLockView::kNone && stays(view, *found, is_access);
  if (view.section != AddedLockView::kNone && !is_in) leave(view, caller);
  if (found && !is_in) enter(self, *found, caller);
  if (found) view.last = found->at;
  view.is_busy = false;
}

bool takes_early(ObjectId mutex, const void* caller) {
  if (g_control->added_lock_count == 0) return false;
  Actor& self = current_actor();
  std::vector<ObjectId>& early = self.added_lock.early;
  if (const auto at = std::find(early.begin(), early.end(), mutex); at != early.end()) {
    early.erase(at);
    return true;
  }
  const CallStack stack = call_stack();
  const std::span<const std::uint64_t> calls = calls_of(stack);
  for (std::uint32_t i = 0; i < g_control->added_lock_count; ++i) {
    const AddedLock& lock = g_control->added_locks[i];
    if (!lock.is_early || std::find(calls.begin(), calls.end(), lock.begin) == calls.end()) continue;
    const ObjectId first = mutex_of(lock);
    if (mutex::is_held_by(object_of(first), self.id)) continue;
    wait_for_mutex(first, caller);
    early.push_back(first);
  }
  return false;
}

void note_early_unlock(ObjectId mutex) {
  if (g_control->added_lock_count == 0) return;
  const std::vector<ObjectId>& early = current_actor().added_lock.early;
  if (std::find(early.begin(), early.end(), mutex) != early.end()) g_control->is_added_lock_unclear = true;
}

}  // namespace crashcut::scheduler::runtime
