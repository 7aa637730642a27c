// Edges: how one thread gets to know what another did, by the rules of POSIX: a thread that acquires at a channel of an
// object knows of everything before the releases there. Each primitive lists its edges (Primitive::edges). Memory has
// rules of its own: see HappensBefore.
//
// Invariant: if two accesses commute (dependence.h), neither acquires what the other releases.
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
