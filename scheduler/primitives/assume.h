// A thread whose assumption does not hold (crashcut_assume): it waits for ever. The execution counts for nothing,
// except for what goes wrong in other threads before they have to wait for this one.
#pragma once

#include "scheduler/primitive.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::assume {

enum Verb : std::uint8_t { kWait };
inline constexpr const char* kVerbs[] = {"wait"};

inline constexpr ObjectId kObject = make_object_id(PrimitiveId::kAssume, 0);
inline Operation wait() { return Access{kObject, kWait}; }

inline bool enabled(const State&, ActorId, const Operation&, const Access&) { return false; }
inline std::int64_t apply(State&, ActorId, const Operation&, const Access&) { return 0; }
// It is never done, so there is nothing that it could be swapped with.
inline bool never(const Access&, const Access&) { return false; }

inline std::string operation_text(const Narrator&, const Operation&) { return "assume what does not hold"; }
inline std::string waiting_text(const Narrator&, const State&, ActorId, const Access&) {
  return "waits for good: what it assumed does not hold";
}
inline constexpr Words kWords{.operation = operation_text, .waiting = waiting_text};

inline constexpr Primitive kPrimitive{.name = "assumption",
                                      .verbs = kVerbs,
                                      .enabled = enabled,
                                      .apply = apply,
                                      .dependent = never,
                                      .conflicting = never,
                                      .co_enabled = never,
                                      .traits = {.is_assumption = true},
                                      .words = &kWords};

}  // namespace crashcut::scheduler::assume
