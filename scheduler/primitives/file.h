// Calls on files, done by a model of files, and the two locks that a call of several steps holds meanwhile: that of the
// inode (writes) and that of the open file description (calls that use the offset). PerSeVerE 2.3: writes to one file
// are atomic to each other, reads take no lock of the inode, and both go block by block.
//
// An operation is the call itself, then the locks that it needs. Two calls commute if their footprints do not meet; a
//   call's footprint is known once it is done.
#pragma once

#include "scheduler/primitive.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::file {

enum Verb : std::uint8_t {
  kCall,     // the argument tells calls of a thread apart
  kGoOn,     // the next block of a call
  kPass,     // a lock: it is taken and given back in the same step
  kAcquire,  // it is held when the step ends
  kRelease,
  kTry,  // it was not free: the call will wait
};
inline constexpr const char* kVerbs[] = {"call", "go on with", "pass", "acquire", "release", "try"};

inline constexpr ObjectId kCalls = make_object_id(PrimitiveId::kFile, 0);

// What is kept of it.
// Of a lock: the number of its holder plus one, or 0. The object kCalls has nothing.
inline auto& holder(auto& o) { return o.numbers[0]; }

inline bool enabled(const State& state, ActorId, const Operation&, const Access& access) {
  return (access.verb != kPass && access.verb != kAcquire) || holder(state.object(access.object)) == 0;
}

inline std::int64_t apply(State& state, ActorId actor, const Operation&, const Access& access) {
  if (access.verb == kAcquire) holder(state.object(access.object)) = std::int64_t{index(actor)} + 1;
  if (access.verb == kRelease) holder(state.object(access.object)) = 0;
  return access.observed;  // what came of the call
}

inline bool dependent(const Access& x, const Access& y) {
  // The footprints say.
  if (x.object == kCalls) return false;
  // A step that takes a lock and gives it back leaves it as it was; a step that finds it taken changes nothing.
  const auto leaves_it = [](const Access& a) { return a.verb == kPass || a.verb == kTry; };
  return !(leaves_it(x) && leaves_it(y));
}

// Passing needs a lock that is free, giving back one that is held.
inline bool co_enabled(const Access& x, const Access& y) {
  const auto needs_free = [](const Access& a) { return a.verb == kPass || a.verb == kAcquire; };
  return !(needs_free(x) && y.verb == kRelease) && !(needs_free(y) && x.verb == kRelease);
}

// Of the two locks that a call needs, two others may each hold one.
inline bool holds(const State& state, ActorId actor, const Access& access) {
  return (access.verb == kPass || access.verb == kAcquire) &&
         holder(state.object(access.object)) == std::int64_t{index(actor)} + 1;
}

// How far a step takes the call: `call` is the call as it was made.
inline std::string step_text(const std::string& call, const Operation& operation) {
  const bool waits = operation.size() > 1 && operation[operation.size() - 1].verb == kTry;
  return call + (operation[0].verb == kGoOn ? ", the next block" : waits ? ", and has to wait" : "");
}
inline std::string operation_text(const Narrator&, const Operation&) { return "a call on files"; }
inline std::string waiting_text(const Narrator& narrator, const State& state, ActorId, const Access& access) {
  const std::int64_t number = holder(state.object(access.object));
  return number == 0 ? "" : "waits for a call on files by " + narrator.actor_text(static_cast<ActorId>(number - 1));
}
inline constexpr Words kWords{.operation = operation_text, .waiting = waiting_text};

inline constexpr Primitive kPrimitive{.name = "file",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .dependent = dependent,
                                      .conflicting = dependent,
                                      .co_enabled = co_enabled,
                                      .holds = holds,
                                      .traits = {.has_footprint = true},
                                      .words = &kWords};

}  // namespace crashcut::scheduler::file
