// What world.cc (which actor runs), actors.cc (how threads begin and end) and names.cc (names of actors and objects)
// share.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "scheduler/runtime/world.h"

namespace crashcut::scheduler::runtime {

struct World {
  RunRequest request;
  std::optional<Director> director;
  State state;
  std::vector<Actor*> actors;  // by id; null if the actor is not in this execution
  Rounds rounds;
  std::vector<Pending> pending;
  Actor* chosen = nullptr;  // of hosts: the actor whose host has the turn
  MemoryLog* memory = nullptr;
  Footprint nothing;
  bool is_on = false;
  bool may_wait_for_time = false;  // a thread has slept or waited for a time
  // By object and channel: the virtual time of the threads that released there. Empty while no clock has moved.
  std::unordered_map<std::uint64_t, std::uint64_t> clocks_ns;
  bool has_moved_clock = false;
  bool does_something_alone = false;  // a thread that has slept alone too often
};
extern World* g_world;

// --- world.cc
// Chooses the next actor and lets it run; returns when the calling actor's operation is done.
void schedule();
// The running actor; null before main() has begun on this host.
Actor* current_or_null();

// --- actors.cc
Actor* new_actor(ActorId id);

// --- names.cc
// From now on objects are in the table of all hosts.
void use_common_places();
void declare_object(const ObjectStart& start);
std::uint64_t hash(std::uint64_t x);
ActorId actor_number(ActorId parent, std::uint32_t ordinal);
std::vector<ObjectId> mutexes();  // of this execution
// An execution begins that has no objects yet.
void forget_objects();

}  // namespace crashcut::scheduler::runtime
