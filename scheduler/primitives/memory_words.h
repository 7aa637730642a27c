// The words of memory.h.
#pragma once

#include "scheduler/primitives/memory.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::memory {

inline std::string operation_text(const Narrator& narrator, const Operation& operation) {
  const Access& a = operation[0];
  const std::string place = narrator.place_text(a.object, a.offset);
  if (a.verb == kAwait) return "read " + place + " after a loop that waited for it";
  return ((a.order & kPlain) != 0 ? "plainly " : "") + std::string(kVerbs[a.verb]) + " " + place +
         (a.verb == kCompareExchange && a.result == kSame ? " (failed)" : "");
}
inline std::string waiting_text(const Narrator& narrator, const State&, ActorId, const Access& access) {
  if (access.verb != kAwait) return "";
  return "loops: it waits until somebody changes " + narrator.place_text(access.object, access.offset);
}
inline constexpr Words kWords{.operation = operation_text, .waiting = waiting_text};

}  // namespace crashcut::scheduler::memory
