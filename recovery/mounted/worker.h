// Worker: a sandbox that runs recoveries for a pool: questions and prefixes in, tallies out.
//
// The mount is made once and shows one crash state after the other. Everything of a worker runs on one core: a request
//   to a FUSE server on another core costs five times as much.
#pragma once

#include <atomic>

#include "recovery/mounted/channel.h"
#include "recovery/mounted/explorer.h"
#include "recovery/mounted/plan.h"
#include "recovery/sandbox/sandbox.h"

namespace crashcut::mounted {

// Memory that the pool and its workers share.
struct Shared {
  std::atomic<bool> stop{false};
  std::atomic<std::uint32_t> idle_workers{0};
  std::atomic<std::uint64_t> recoveries{0};
  std::atomic<std::uint64_t> recoveries_max{0};  // of the whole search so far; 0: no bound

  bool is_enough() const { return stop || (recoveries_max > 0 && recoveries >= recoveries_max); }
  std::atomic<std::uint64_t> images{0};
};

struct WorkerSetup {
  const CheckPlan& plan;
  const fusefs::Recording& recording;
  const Histories& histories;
  const std::vector<Question>& questions;
  Shared& shared;
  std::uint32_t index;
};

// The function of the sandbox. Ends when the pool closes the socket.
int work(const sandbox::Inside& inside, const WorkerSetup& setup);

// The messages, all JSON objects.
//   to a worker    {"do": "explore", "question": N, "prefix": [..]}
//                  {"do": "sample", "question": N, "strategy": N, "seed": N, "count": N}
//                  {"do": "tell", "question": N, "path": [..]}
//                  {"do": "cut", "question": N, "events": [..], "drop": N}
//   from a worker  {"tally": ..}                         now and then
//                  {"prefixes": [[..]], "fraction": F}    work given away; F: how much of its own was done by then
//                  {"done": true, ..}                     ready for more; with what "tell" and "cut" gave

}  // namespace crashcut::mounted
