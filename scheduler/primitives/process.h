// The process: it ends, by exit() or by a failure, and nothing runs after that.
#pragma once

#include "scheduler/primitive.h"
#include "scheduler/words.h"

namespace crashcut::scheduler::process {

enum Verb : std::uint8_t { kExit, kFail };
inline constexpr const char* kVerbs[] = {"exit", "fail"};

inline constexpr ObjectId kObject = make_object_id(PrimitiveId::kProcess, 0);
inline Operation exit(std::int64_t code) { return Access{kObject, kExit, code}; }
inline Operation fail(std::int64_t reason) { return Access{kObject, kFail, reason}; }

inline std::int64_t apply(State& state, ActorId, const Operation&, const Access&) {
  state.end();
  return 0;
}

// It meets all, since it disables everything.
inline std::string operation_text(const Narrator&, const Operation& operation) {
  return operation[0].verb == kExit ? "ends the process" : "fail";
}
inline constexpr Words kWords{.operation = operation_text};

inline constexpr Primitive kPrimitive{
    .name = "process", .verbs = kVerbs, .apply = apply, .traits = {.meets_all = ~std::uint32_t{0}}, .words = &kWords};

}  // namespace crashcut::scheduler::process
