#include "scheduler/runtime/added_locks.h"

#include <pthread.h>
#include <unwind.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "scheduler/primitives/mutex.h"
#include "scheduler/runtime/mutex_objects.h"
#include "scheduler/runtime/world_impl.h"

namespace crashcut::scheduler::runtime {

namespace {

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
std::optional<Found> find_section(const std::vector<std::uint64_t>& stack) {
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

std::vector<std::uint64_t> stack_of_caller(const void* caller) {
  struct Walk {
    std::uint64_t caller;
    std::vector<std::uint64_t> frames;
  } walk{reinterpret_cast<std::uint64_t>(caller), {}};
  const auto visit = [](_Unwind_Context* context, void* at) {
    Walk& own = *static_cast<Walk*>(at);
    const std::uint64_t address = _Unwind_GetIP(context);
    if (!own.frames.empty() || address == own.caller) own.frames.push_back(address);
    return own.frames.size() == kFramesMost ? _URC_END_OF_STACK : _URC_NO_REASON;
  };
  // The unwinder's own calls, pthread_once() among them, are no operations of the program.
  const bool was_on = std::exchange(g_world->is_on, false);
  _Unwind_Backtrace(visit, &walk);
  g_world->is_on = was_on;
  if (walk.frames.empty()) walk.frames.push_back(walk.caller);
  return walk.frames;
}

void heed_added_locks(const void* caller, bool is_access) {
  if (g_control->added_lock_count == 0) return;
  Actor& self = current_actor();
  AddedLockView& view = self.added_lock;
  if (view.is_busy) return;
  view.is_busy = true;
  const auto found = find_section(stack_of_caller(caller));
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
  const std::vector<std::uint64_t> stack = stack_of_caller(caller);
  for (std::uint32_t i = 0; i < g_control->added_lock_count; ++i) {
    const AddedLock& lock = g_control->added_locks[i];
    if (!lock.is_early || std::find(stack.begin(), stack.end(), lock.begin) == stack.end()) continue;
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
