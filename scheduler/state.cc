#include "scheduler/state.h"

#include "scheduler/primitive.h"

namespace crashcut::scheduler {

void State::declare(const ObjectStart& start) {
  Object& o = object(start.object);
  o = Object{};
  o.a = start.a;
  o.b = start.b;
  o.c = start.c;
}

bool State::is_misused(const Access& access) const {
  if (!object(access.object).is_destroyed) return false;
  return (primitive_of(access).destroys.leaving >> access.verb & 1) == 0;
}

bool State::is_enabled(ActorId actor, const Operation& operation) const {
  if (is_over_) return false;
  for (const Access& access : operation) {
    if (!is_misused(access) && !primitive_of(access).enabled(*this, actor, operation, access)) return false;
  }
  return true;
}

void State::apply(ActorId actor, Operation& operation) {
  // In order: a lock looks at its timer before the timer is taken.
  for (Access& access : operation) {
    const Primitive& primitive = primitive_of(access);
    access.result = is_misused(access) ? kUseAfterDestroy : primitive.apply(*this, actor, operation, access);
    if (access.verb == primitive.destroys.verb && access.result == 0) object(access.object).is_destroyed = true;
  }
  if (index(actor) >= own_steps_.size()) own_steps_.resize(index(actor) + 1);
  ++own_steps_[index(actor)];
  ++steps_;
}

// Which locks a call on files finds, and what it does with them, is part of what came of it.
bool Operation::is_same_call(const Operation& other) const {
  const bool is_file = count_ > 0 && primitive_of(accesses_[0].object) == PrimitiveId::kFile;
  if (is_file) {
    const Access& x = accesses_[0];
    const Access& y = other.accesses_[0];
    return other.count_ > 0 && x.object == y.object && x.verb == y.verb && x.argument == y.argument;
  }
  if (count_ != other.count_) return false;
  for (std::size_t i = 0; i < count_; ++i) {
    const Access& x = accesses_[i];
    const Access& y = other.accesses_[i];
    if (x.object != y.object || x.verb != y.verb || x.argument != y.argument) return false;
    if (x.expected != y.expected || x.offset != y.offset || x.bytes != y.bytes) return false;
  }
  return true;
}

std::string to_text(const Operation& operation) {
  std::string text;
  for (const Access& access : operation) {
    const Primitive& primitive = primitive_of(access);
    if (!text.empty()) text += ", ";
    text +=
        std::string(primitive.name) + " " + std::to_string(index(access.object)) + " " + primitive.verbs[access.verb];
  }
  return text;
}

}  // namespace crashcut::scheduler
