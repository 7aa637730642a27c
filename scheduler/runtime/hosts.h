// Hosts: several processes that take part in one execution, each with an address space of its own (primitives/host.h).
//
// One host runs at a time: it has the turn. What the runtime allocates during the execution lies in one heap, which all
//   hosts map at one address, so the host that has the turn can choose the next step. If that is a step of an actor of
//   another host, the turn goes to that host, which takes the step.
// The first host begins the execution. Every other host joins it when its main() is chosen for the first time. When the
//   execution ends, each host that has joined leaves the common heap, one after the other; the last one replies.
// A host that fails is not killed: none of its actors is chosen any more. Its memory is put back when the execution
//   ends or when the host is restarted.
// Names: an object in memory that hosts share (regions.h) is named by its address, which is the same on all hosts. All
//   other memory is a host's own, and what lies there is named by host, incarnation and address.
// Not modelled: what the kernel does when a process dies, as closing its files. Hosts share nothing but regions.
// Threads: none. The servers and runners of different hosts run at the same time between executions only.
#pragma once

#include <cstdint>

#include "inject/arena.h"
#include "scheduler/operation.h"
#include "scheduler/runtime/buffers.h"
#include "scheduler/runtime/protocol.h"

namespace crashcut::scheduler::runtime {

struct Actor;
struct World;

inline constexpr std::uint64_t kHeapAt = 0x130000000000;
inline constexpr std::uint64_t kPlacesAt = kHeapAt + 4096, kPlacesBytes = 1 << 20;  // names.cc

// This process's number, and how often the host was restarted. 0 and 0 if there are no hosts.
extern std::uint32_t g_host;
extern std::uint16_t g_incarnation;
extern std::uint64_t g_host_tag;  // of the two
bool is_hosted();

// The name of a place in this process's memory. Addresses have 47 bits.
inline std::uint64_t place_of(std::uint64_t address) { return is_in_region(address) ? address : address | g_host_tag; }

// What lies at the start of the common heap.
struct CommonHeap {
  inject::Arena arena;
  World* world;
  void* memory;  // what the model of memory keeps for all hosts; null: nothing yet (buffers.h)
};
inline CommonHeap& common_heap() { return *reinterpret_cast<CommonHeap*>(kHeapAt); }

// --- for the runner
// The descriptor is that of the worker's memory. False if the system refuses.
bool map_hosts(int control_fd, std::uint32_t host);
// Returns when the turn has come for the first time in an execution.
void wait_for_first_turn();
// From now on the runtime allocates in the common heap, until leave_common_heap(). `is_first`: it is begun anew.
void enter_common_heap(bool is_first);
void leave_common_heap();
// This host is done with the request: the next one that has joined is told to leave, or else crashcut gets the reply.
// The server does it for a runner that has died.
void pass_end_on(void (*reply)());
// Whether the execution cannot go on without this host's runner.
bool has_turn_or_joined();

// --- for the world
// The hosts of a new execution: their objects, their main actors, and the actors of failures.
void begin_hosts();
bool runs_here(const Actor& actor);
// Gives the turn to the actor's host. Returns when the turn is back, with the actor that was chosen; does not return if
// the execution has ended or this host was restarted meanwhile.
Actor& pass_turn_to(Actor& actor);
// Adds to the actor's pending operation the hosts whose failure may make a difference before it: its own, if the
// operation can tell other hosts something; the one that holds the mutex, or is waited for.
void note_failure_points(Actor& actor);
// The host was restarted: a new main actor of it.
void add_incarnation(std::uint32_t host);

// --- calls_hosts.cc
// A call of crashcut.h about machines. False if it is none.
bool do_host_call(const long* a, const void* caller, long& result);

}  // namespace crashcut::scheduler::runtime
