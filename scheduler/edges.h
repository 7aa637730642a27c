// Edges: how what one thread did comes to another, by the rules of POSIX: who acquires at a channel of an object has
// before it all that was released there. Memory is not among these: see HappensBefore.
// Each primitive says which (Primitive::edges).
//
// Invariant: of two accesses that commute (dependence.h) none acquires what the other
// releases.
#pragma once

#include "scheduler/primitive.h"

namespace crashcut::scheduler {

// visit(edge, channel) for each edge of an executed access. A condition variable orders by its mutex, a futex by the
// memory that it waits for; timers and yields order nothing.
template <class Visit>
void for_each_edge(const Access& access, Visit&& visit) {
  const Primitive& primitive = primitive_of(access);
  if (access.result != kNotDone && primitive.edges != nullptr) primitive.edges(access, EdgeVisitor(visit));
}

}  // namespace crashcut::scheduler
