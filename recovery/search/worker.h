// Worker: runs recoveries for a pool: questions and prefixes in, tallies out. It is a process of its own.
#pragma once

#include <atomic>
#include <cstdint>

#include "recovery/search/front_end.h"

namespace crashcut::search {

// Memory that the pool and its workers share.
struct Shared {
  std::atomic<bool> stop{false};  // also kills the recovery that is running
  std::atomic<std::uint32_t> idle_workers{0};
  std::atomic<std::uint64_t> recoveries{0};
  std::atomic<std::uint64_t> recoveries_max{0};  // of the whole search so far; 0: no bound

  bool is_enough() const { return stop || (recoveries_max > 0 && recoveries >= recoveries_max); }
};

// Answers the pool until that closes the socket.
void serve(int socket, const WorkerTask& task, Recoverer& recoverer);
// For a worker that cannot do anything.
void report_failure(int socket, const Failure& failure);

// The messages, all JSON objects.
//   to a worker    {"do": "explore", "question": N, "prefix": [..]}
//                  {"do": "sample", "question": N, "strategy": N, "seed": N, "count": N}
//                  {"do": "tell", "question": N, "path": [..]}
//                  {"do": "cut", "question": N, "events": [..], "drop": N}
//   from a worker  {"tally": .., "done": N, "estimate": [low, likely, high]}  now and then; of its unit, the last two
//                  {"given": [[..]], "each": [..]}                            work given away, and how large each part
//                  is
//                  {"ready": true, ..}  wants more; with what is "left" of the unit, whether that "is_broken" or
//                  "is_too_much"; or
//                                       with what "tell" and "cut" gave

}  // namespace crashcut::search
