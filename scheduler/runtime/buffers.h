// Buffers: what the scheduler's runtime asks of a model of memory with store buffers (recovery/inprocess/memory/).
//
// The model's accesses are operations of the program's threads, by perform(). What waits in a thread's store buffer
//   leaves by steps of *lanes*: actors without code beside the thread. The entries of one lane leave in order; those of
//   different lanes in any order that their operations allow.
// A call that synchronises threads executes locked instructions: the calling thread's buffer is empty before it, and
//   what the call orders (edges.h) orders the thread's memory too.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "scheduler/operation.h"

namespace crashcut::scheduler::runtime {

struct Actor;

struct BufferModel {
  // Whether this execution has such a memory.
  bool (*is_on)();
  // The running thread comes to a call that synchronises; to a call of the system, which completes no flushes.
  void (*synchronise)(const void* caller);
  void (*enter_system)(const void* caller);
  // A thread is about to take this step: fills in what it finds (Access::observed). It was taken.
  void (*observe)(Actor& actor, Operation& operation);
  void (*note)(const Actor& actor, const Step& step);
  // The lane has taken its step. Its next operation is set, if it has one.
  void (*leave)(Actor& lane, const Operation& done);
  // A host has failed. The running thread's host ends: its stores have left all buffers.
  void (*fail)(std::uint32_t host);
  void (*end_host)(const void* caller);
  // The hosts, a bit each, of which an earlier failure left all that one could leave now. One schedule is searched.
  std::uint32_t (*covered_failures)();
  // The caches of hosts (cache_actor()): what they do to lines that earlier executions used is there from the
  // beginning, or from a restart on; one of them has taken a step by itself.
  void (*begin_caches)(std::uint32_t host);
  void (*act_by_itself)(const Actor& cache, const Operation& done);
  // Memory that hosts share is there from now on, and begins as `ground` holds it.
  void (*add_region)(std::uint64_t begin, std::uint64_t bytes, const void* ground);
  // The running thread comes to an object of libc's, a mutex or the like, that lies in memory that hosts share.
  void (*use_object)(const void* object);
  // What eight bytes of the model's memory hold, for all threads to see. False: they are not the model's.
  bool (*peek)(std::uint64_t address, std::int64_t& content);
};
extern const BufferModel kBufferModel;

// A lane of the running thread, which is made if there is none of that number. It has nothing to do yet.
inline constexpr std::uint32_t kLanesMost = 128;
Actor& lane_of_current(std::uint32_t number);

// An actor of what the cache of a host, as it runs now, does by itself to a line of memory that hosts share. `number`
// is 0 or 1. It is made if there is none; then what it stands before is to be set, and stays. Null: the host is down.
Actor* cache_actor(std::uint32_t host, std::uint64_t line, std::uint32_t number);
// The line of such an actor; and the lines of all such actors that any execution had.
std::uint64_t line_of_cache(const Actor& cache);
std::vector<std::uint64_t> known_lines_of_caches();
// The object of a host; a semaphore that bounds what caches do by themselves, if it is asked for.
ObjectId host_object(std::uint32_t host);
ObjectId cache_budget();

// The answers to what the running thread asks (primitives/answer.h), which are steps of lanes; and lanes for so many.
inline constexpr std::int64_t kAnswersMost = 48;
ObjectId answers_of_current();
void offer_answers(Actor& actor, std::int64_t count);

// Adds to the text of the step that was taken last (StepFact), for the report; or says which place it is about, as
// "@" and the place's number (hosts.h).
void add_to_last_step(std::string_view text);
void add_place_to_last_step(std::uint64_t address);

// Whether an access touches bytes that threads were seen to race for (accesses.h): then it must be a step.
bool is_raced_for(std::uint64_t address, std::size_t bytes);

}  // namespace crashcut::scheduler::runtime
