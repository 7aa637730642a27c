// What the interposed functions have in common.
#pragma once

#include <time.h>

#include "inject/interpose.h"
#include "scheduler/runtime/world.h"

namespace crashcut::scheduler::runtime {
// --- calls_process.cc
// Passes on the result of a timed wait. If its time has run out, the actor's clock moves on to that time.
std::int64_t timed_out_at(const timespec* until, std::int64_t result);
std::int64_t timed_out_after(const timespec* how_long, std::int64_t result);
// Whether it is a valid time, as POSIX has it: less than a second of nanoseconds. Null is valid.
inline bool is_time(const timespec* until) {
  return until == nullptr || (until->tv_nsec >= 0 && until->tv_nsec < 1'000'000'000);
}
// The running actor's virtual time, since 1970. Each call takes a moment of virtual time.
inline constexpr std::uint64_t kEpoch_ns = 1'577'836'800'000'000'000;  // 2020-01-01: when executions begin
std::uint64_t now_ns();
// Processor time: all threads run all the time.
inline std::uint64_t used_ns() { return now_ns() - kEpoch_ns; }
inline timespec to_timespec(std::uint64_t ns) {
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
}
// Numbers that are the actor's own, and the same in every execution.
void fill_random(void* out, std::size_t bytes);
}  // namespace crashcut::scheduler::runtime
