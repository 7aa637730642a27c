// Once: the first to begin runs the routine, others wait for its end.
#pragma once

#include "scheduler/primitive.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::once {

enum Verb : std::uint8_t { kBegin, kEnd, kGiveUp };
inline constexpr const char* kVerbs[] = {"begin", "end", "give up"};
enum Stage : std::int64_t { kNotYet, kRunning, kDone };
enum Begun : std::int64_t { kIsDone, kMustRun };

// What is kept of it.
inline auto& stage(auto& o) { return o.numbers[0]; }

inline Access access(ObjectId once, Verb verb) { return {once, verb}; }

inline bool enabled(const State& state, ActorId, const Operation&, const Access& access) {
  return access.verb != kBegin || stage(state.object(access.object)) != kRunning;
}

inline std::int64_t apply(State& state, ActorId, const Operation&, const Access& access) {
  Object& o = state.object(access.object);
  if (access.verb == kBegin) return stage(o) == kDone ? kIsDone : (stage(o) = kRunning, kMustRun);
  stage(o) = access.verb == kEnd ? kDone : kNotYet;
  return 0;
}

// A thread that finds it done changes nothing.
inline bool dependent(const Access& x, const Access& y) {
  const auto only_looks = [](const Access& a) { return a.verb == kBegin && a.result == kIsDone; };
  return !(only_looks(x) && only_looks(y));
}

// While the routine runs nobody can begin.
inline bool co_enabled(const Access& x, const Access& y) { return (x.verb == kBegin) == (y.verb == kBegin); }

inline void edges(const Access& access, const EdgeVisitor& visit) {
  visit(access.verb == kBegin ? Edge::kAcquire : Edge::kRelease, 0);
}

inline std::string waiting_text(const Narrator& narrator, const State&, ActorId, const Access& access) {
  return "waits for the end of " + narrator.object_text(access.object);
}
inline constexpr Words kWords{.waiting = waiting_text};

inline constexpr Primitive kPrimitive{.name = "once",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .dependent = dependent,
                                      .conflicting = dependent,
                                      .co_enabled = co_enabled,
                                      .edges = edges,
                                      .words = &kWords};

}  // namespace crashcut::scheduler::once
