// Ends, time, random numbers, yields.
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "inject/model.h"
#include "scheduler/primitives/spin.h"
#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/loops.h"
#include "scheduler/runtime/machine.h"
#include "scheduler/runtime/meetings.h"
#include "scheduler/runtime/own_world.h"
#include "scheduler/runtime/signal_calls.h"

namespace crashcut::scheduler::runtime {

namespace {

constexpr std::uint64_t kTick_ns = 1000;

// False: a signal's handler has run meanwhile.
bool yield(const void* caller, OnSignal on_signal = OnSignal::kGoOn) {
  if (!is_scheduling()) return true;
  Actor& self = current_actor();
  if (self.failed_tries > kPolite) return true;  // its next try waits for others
  const ObjectId loop = loop_object();
  const bool spins = ++self.yields_in_a_row > kPolite;
  if (spins && !self.is_sleeping && !g_is_instrumented) note_waiting();
  return perform(spin::access(loop, spins ? spin::kSpin : spin::kYield), caller, on_signal) != kInterrupted;
}

// A loop that reads the clock, or asks for a random number, does not come back to where it was.
void note_asked() {
  if (!is_scheduling()) return;
  note_written();
  if (g_is_instrumented) note_change();
}

std::uint64_t to_ns(const timespec& t) {
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

std::uint64_t next_random() {
  static std::uint64_t outside = 88172645463325252;
  note_asked();
  std::uint64_t& x = is_scheduling() ? current_actor().random : outside;
  x ^= x << 13;
  x ^= x >> 7;
  return x ^= x << 17;
}

void set_clock(std::uint64_t ns) {
  std::uint64_t& clock = own_clock_ns();
  clock = std::max(clock, ns);
}

[[noreturn]] void leave(int code, bool runs_handlers, const void* caller) {
  if (is_scheduling()) end_process(code & 0xff, runs_handlers, caller);
  if (g_control != nullptr) {
    // Outside of what is scheduled.
    if ((code & 0xff) != 0 && g_control->failure == Failure::kNone) {
      g_control->failure = Failure::kExitCode;
      g_control->failure_number = code & 0xff;
      g_control->failure_actor = 0;
    }
    end_execution();
  }
  kernel(SYS_exit_group, code);
  __builtin_unreachable();
}

}  // namespace

std::uint64_t now_ns() {
  static std::uint64_t outside = 0;
  note_asked();
  std::uint64_t& clock = is_scheduling() ? own_clock_ns() : outside;
  return kEpoch_ns + (clock += kTick_ns);
}

void fill_random(void* out, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i)
    static_cast<unsigned char*>(out)[i] = static_cast<unsigned char>(next_random() >> 24);
}

// Who sleeps in a loop waits for somebody.
bool sleep_for(std::uint64_t ns, const void* caller) {
  if (!is_scheduling()) return true;
  heed_cancellation(caller);
  own_clock_ns() += ns;
  enter_call(caller);
  note_sleep(true);
  const bool is_whole = yield(caller, OnSignal::kFail);
  note_sleep(false);
  return is_whole;
}

std::int64_t timed_out_at(const timespec* until, std::int64_t result) {
  if (result == ETIMEDOUT && until != nullptr && to_ns(*until) > kEpoch_ns) set_clock(to_ns(*until) - kEpoch_ns);
  return result;
}
std::int64_t timed_out_after(const timespec* how_long, std::int64_t result) {
  if (result == ETIMEDOUT && how_long != nullptr) own_clock_ns() += to_ns(*how_long);
  return result;
}

}  // namespace crashcut::scheduler::runtime

using namespace crashcut::scheduler;
using namespace crashcut::scheduler::runtime;

// Outside of executions exit() is libc's: it runs the handlers, and comes back by _exit().
EXPORT(void, exit)(int code) {
  if (is_scheduling()) end_process(code & 0xff, true, CALLER);
  reinterpret_cast<void (*)(int)>(crashcut::inject::find_real("exit"))(code);
  __builtin_unreachable();
}
EXPORT(void, _exit)(int code) { leave(code, false, CALLER); }
EXPORT(void, _Exit)(int code) { leave(code, false, CALLER); }
EXPORT(void, quick_exit)(int code) { leave(code, false, CALLER); }
EXPORT(void, abort)() {
  if (g_control == nullptr) kernel(SYS_kill, kernel(SYS_getpid), SIGABRT);
  if (const char* name = name_openmp(nullptr, CALLER)) refuse(name);  // it does not find its way here, and gives up
  if (has_own_handler(SIGABRT)) kernel(SYS_tgkill, kernel(SYS_getpid), kernel(SYS_gettid), SIGABRT);
  fail(Failure::kSignal, SIGABRT, "", CALLER);
}
EXPORT(void, __assert_fail)(const char* assertion, const char* file, unsigned line, const char* function) {
  using Real = void (*)(const char*, const char*, unsigned, const char*);
  if (g_control == nullptr)
    reinterpret_cast<Real>(crashcut::inject::find_real("__assert_fail"))(assertion, file, line, function);
  if (has_own_world()) {
    // As libc says it.
    fprintf(stderr, "%s: %s:%u: %s%sAssertion `%s' failed.\n", program_invocation_short_name, file, line,
            function == nullptr ? "" : function, function == nullptr ? "" : ": ", assertion);
    fail(Failure::kSignal, SIGABRT, "", CALLER);
  }
  char text[512];
  const int length = snprintf(text, sizeof text, "%s:%u: %s: assertion `%s' failed", file, line,
                              function == nullptr ? "?" : function, assertion);
  fail(Failure::kAssertion, SIGABRT, {text, std::min(static_cast<std::size_t>(length), sizeof text - 1)}, CALLER);
}

EXPORT(int, sched_yield)() { return yield(CALLER), 0; }
EXPORT(void, thrd_yield)() { yield(CALLER); }
EXPORT(int, usleep)(useconds_t us) { return sleep_for(std::uint64_t{us} * 1000, CALLER) ? 0 : (errno = EINTR, -1); }
// Who is interrupted has slept for no time that it could know of.
EXPORT(unsigned, sleep)(unsigned s) { return sleep_for(std::uint64_t{s} * 1'000'000'000, CALLER) ? 0 : s; }
static int sleep_or_tell(std::uint64_t ns, const timespec* t, timespec* left, const void* caller) {
  if (sleep_for(ns, caller)) return 0;
  if (left != nullptr) *left = *t;
  return EINTR;
}
EXPORT(int, nanosleep)(const struct timespec* t, struct timespec* left) {
  const int error = sleep_or_tell(to_ns(*t), t, left, CALLER);
  return error == 0 ? 0 : (errno = error, -1);
}
EXPORT(int, clock_nanosleep)(clockid_t, int flags, const struct timespec* t, struct timespec* left) {
  if (!is_scheduling()) return 0;
  const std::uint64_t now = kEpoch_ns + current_actor().clock_ns;
  const bool is_absolute = (flags & TIMER_ABSTIME) != 0;
  return sleep_or_tell(is_absolute ? (to_ns(*t) > now ? to_ns(*t) - now : 0) : to_ns(*t), t,
                       is_absolute ? nullptr : left, CALLER);
}
EXPORT(int, thrd_sleep)(const struct timespec* t, struct timespec* left) {
  return sleep_or_tell(to_ns(*t), t, left, CALLER) == 0 ? 0 : -1;
}

EXPORT(int, clock_gettime)(clockid_t, struct timespec* t) { return *t = to_timespec(now_ns()), 0; }
EXPORT(int, timespec_get)(struct timespec* t, int base) { return *t = to_timespec(now_ns()), base; }
EXPORT(int, gettimeofday)(struct timeval* t, void*) {
  const std::uint64_t ns = now_ns();
  *t = {static_cast<time_t>(ns / 1'000'000'000), static_cast<suseconds_t>(ns % 1'000'000'000 / 1000)};
  return 0;
}
EXPORT(time_t, time)(time_t* out) {
  const auto now = static_cast<time_t>(now_ns() / 1'000'000'000);
  if (out != nullptr) *out = now;
  return now;
}
EXPORT(clock_t, clock)() { return static_cast<clock_t>((now_ns() - kEpoch_ns) / 1000); }

EXPORT(ssize_t, getrandom)(void* out, std::size_t bytes, unsigned) {
  fill_random(out, bytes);
  return static_cast<ssize_t>(bytes);
}
EXPORT(int, getentropy)(void* out, std::size_t bytes) { return fill_random(out, bytes), 0; }
// Before main() too. A recovery has the real ones.
static bool has_real_pid() {
  return g_control == nullptr && crashcut::inject::g_phase != crashcut::inject::Phase::kConstructing;
}
EXPORT(pid_t, getpid)() { return static_cast<pid_t>(has_real_pid() ? kernel(SYS_getpid) : kProgramPid); }
EXPORT(pid_t, getppid)() { return static_cast<pid_t>(has_real_pid() ? kernel(SYS_getppid) : kProgramPid - 1); }
EXPORT(pid_t, gettid)() { return getpid() + (is_scheduling() ? static_cast<pid_t>(index(current_actor().id)) : 0); }
// std::random_device of libstdc++, which would ask the processor.
EXPORT(unsigned, _ZNSt13random_device9_M_getvalEv)(void*) { return static_cast<unsigned>(next_random() >> 16); }
EXPORT(std::uint32_t, arc4random)() { return static_cast<std::uint32_t>(next_random() >> 16); }
