#include "scheduler/state.h"

#include <algorithm>

#include "scheduler/primitive.h"
#include "scheduler/primitives/host.h"
#include "scheduler/primitives/signal.h"

namespace crashcut::scheduler {

void State::declare(const ObjectStart& start) {
  Object& o = object(start.object);
  o = Object{};
  std::copy(start.numbers.begin(), start.numbers.end(), o.numbers.begin());
}

bool State::is_misused(const Access& access) const {
  if (!object(access.object).is_destroyed) return false;
  return (primitive_of(access).destroys.leaving >> access.verb & 1) == 0;
}

// A thread's own object is the last that its operations touch.
std::int64_t State::signal_before(const Operation& operation) const {
  if (operation.size() == 0) return 0;
  const Access& last = operation[operation.size() - 1];
  if (primitive_of(last.object) != PrimitiveId::kSignal || last.verb < signal::kPass || last.verb == signal::kInterrupt)
    return 0;
  return signal::came(object(last.object));
}

bool State::is_enabled(ActorId actor, const Operation& operation) const {
  if (is_over_ || is_gone(operation)) return false;
  if (signal_before(operation) != 0) return true;
  for (const Access& access : operation) {
    if (!is_misused(access) && !primitive_of(access).enabled(*this, actor, operation, access)) return false;
  }
  return true;
}

void State::apply(ActorId actor, Operation& operation) {
  if (const std::int64_t signal = signal_before(operation); signal != 0) {
    operation.set_interrupted(signal);
    signal::came(object(operation[operation.size() - 1].object)) = 0;
    return count_step(actor, operation);
  }
  // In order: a lock looks at its timer before the timer is taken.
  for (Access& access : operation) {
    const Primitive& primitive = primitive_of(access);
    access.is_interruption = false;
    seen_host_ = 0;
    access.result = is_misused(access) ? kUseAfterDestroy : primitive.apply(*this, actor, operation, access);
    access.seen_host = seen_host_;
    if (access.verb == primitive.destroys.verb && access.result == 0) object(access.object).is_destroyed = true;
  }
  count_step(actor, operation);
}

bool State::is_gone(const Place& place) const {
  if (place.host == kNoHost) return false;
  const Object& o = object(place.host);
  return host::incarnation(o) > place.incarnation ||
         (host::incarnation(o) == place.incarnation && host::stage(o) != host::kUp);
}
bool State::is_gone(const Operation& pending) const { return is_gone({pending.host(), pending.incarnation()}); }
bool State::is_gone(ActorId actor) const { return index(actor) < places_.size() && is_gone(places_[index(actor)]); }

bool State::look_if_gone(ActorId actor) {
  if (index(actor) >= places_.size()) return false;
  if (places_[index(actor)].host != kNoHost) note_seen(places_[index(actor)].host);
  return is_gone(actor);
}

bool State::has_failed(ObjectId host) const { return host::has_failed(object(host)) != 0; }
bool State::look_if_failed(ObjectId host) {
  note_seen(host);
  return has_failed(host);
}

void State::note_seen(ObjectId host) {
  const std::uint32_t number = index(host);
  CHECK(number != 0 && number < Access::kAnyHost);
  seen_host_ = seen_host_ == 0 || seen_host_ == number ? static_cast<std::uint16_t>(number) : Access::kAnyHost;
}

void State::count_step(ActorId actor, const Operation& operation) {
  if (operation.host() != kNoHost) {
    if (index(actor) >= places_.size()) places_.resize(index(actor) + 1);
    places_[index(actor)] = {operation.host(), operation.incarnation()};
  }
  if (index(actor) >= own_steps_.size()) own_steps_.resize(index(actor) + 1);
  ++own_steps_[index(actor)];
  ++steps_;
}

// Which locks a call on files finds, and what it does with them, is part of what came of it.
bool Operation::is_same_call(const Operation& other) const {
  if (count_ > 0 && primitive_of(accesses_[0]).traits.has_footprint) {
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
