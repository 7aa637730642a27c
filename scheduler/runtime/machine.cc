#include "scheduler/runtime/machine.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <time.h>

#include <algorithm>

#include "inject/environment.h"
#include "scheduler/runtime/calls.h"
#include "scheduler/runtime/gate.h"
#include "scheduler/runtime/models.h"

namespace crashcut::scheduler::runtime {

namespace {

constexpr std::uint64_t kTicksPerSecond = 100;  // sysconf(_SC_CLK_TCK)

using inject::pointer;

// Bad addresses are the kernel's to refuse: it is asked first, and its answer is written over.
template <class T, class Fill>
long answer_over(long number, const long* a, int argument, Fill&& fill) {
  const long result = inject::crashcut_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (result >= 0 && a[argument] != 0) fill(*pointer<T>(a[argument]));
  return result;
}

timeval to_timeval(std::uint64_t ns) {
  return {static_cast<time_t>(ns / 1'000'000'000), static_cast<suseconds_t>(ns % 1'000'000'000 / 1000)};
}

long answer_sysinfo(const long* a) {
  return answer_over<struct sysinfo>(SYS_sysinfo, a, 0, [](struct sysinfo& info) {
    info = {};
    info.uptime = static_cast<long>(kUptime_s + used_ns() / 1'000'000'000);
    info.totalram = kMemoryBytes;
    info.freeram = kMemoryBytes / 2;
    info.procs = 1;
    info.mem_unit = 1;
  });
}

long answer_uname(const long* a) {
  return answer_over<utsname>(SYS_uname, a, 0, [](utsname& name) {
    memset(name.nodename, 0, sizeof name.nodename);
    strcpy(name.nodename, kHostName);
    memset(name.domainname, 0, sizeof name.domainname);
    strcpy(name.domainname, "(none)");
  });
}

std::uint64_t all_processors() { return (std::uint64_t{1} << kProcessors) - 1; }

// Every thread may run on all processors until it says otherwise. The answer for another thread is the asking one's.
std::uint64_t& own_processors() {
  static std::uint64_t outside = 0;
  std::uint64_t& mask = is_scheduling() ? current_actor().processors : outside;
  if (mask == 0) mask = all_processors();
  return mask;
}

long answer_getaffinity(const long* a) {
  const auto bytes = static_cast<std::size_t>(a[1]);
  if (bytes < sizeof(std::uint64_t) || bytes % sizeof(std::uint64_t) != 0) return -EINVAL;
  const long kernels = inject::crashcut_syscall(SYS_sched_getaffinity, 0, a[1], a[2], 0, 0, 0);
  if (kernels < 0 && kernels != -EINVAL) return kernels;
  memset(pointer<void>(a[2]), 0, sizeof(std::uint64_t));
  *pointer<std::uint64_t>(a[2]) = own_processors();
  return sizeof(std::uint64_t);
}

long answer_setaffinity(const long* a) {
  std::uint64_t wanted = 0;
  if (a[2] == 0) return -EFAULT;
  memcpy(&wanted, pointer<void>(a[2]), std::min<std::size_t>(static_cast<std::size_t>(a[1]), sizeof wanted));
  wanted &= all_processors();
  if (wanted == 0) return -EINVAL;
  own_processors() = wanted;
  return 0;
}

long answer_rusage(const long* a) {
  return answer_over<rusage>(SYS_getrusage, a, 1, [&](rusage& usage) {
    constexpr long kResident_kb = 16 * 1024;
    usage = {};
    if (a[0] == RUSAGE_CHILDREN) return;
    usage.ru_utime = to_timeval(used_ns());
    usage.ru_maxrss = kResident_kb;
  });
}

long answer_times(const long* a) {
  const auto ticks = static_cast<clock_t>(used_ns() / (1'000'000'000 / kTicksPerSecond));
  const long result = answer_over<tms>(SYS_times, a, 0, [&](tms& t) { t = {ticks, 0, 0, 0}; });
  return result < 0 ? result : static_cast<long>(kUptime_s * kTicksPerSecond) + ticks;
}

long answer_getcpu(const long* a) {
  for (const int argument : {0, 1}) {
    if (a[argument] != 0) *pointer<unsigned>(a[argument]) = 0;
  }
  return 0;
}

// nanosleep() and clock_nanosleep() as system calls: libc's functions are interposed.
long sleep_by_call(long number, const long* a, const void* caller) {
  const bool is_absolute = number == SYS_clock_nanosleep && (a[1] & TIMER_ABSTIME) != 0;
  const auto* given = pointer<const timespec>(number == SYS_nanosleep ? a[0] : a[2]);
  if (given == nullptr) return -EFAULT;
  const auto ns =
      static_cast<std::uint64_t>(given->tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(given->tv_nsec);
  const std::uint64_t now = is_absolute ? now_ns() : 0;
  sleep_for(ns > now ? ns - now : 0, caller);
  return 0;
}

// Before main() there are no files to ask.
long answer_getcwd(const long* a) {
  const std::size_t bytes = strlen(inject::kModelRoot) + 1;
  if (static_cast<std::size_t>(a[1]) < bytes) return -ERANGE;
  memcpy(pointer<void>(a[0]), inject::kModelRoot, bytes);
  return static_cast<long>(bytes);
}

void start(char**) {
  if (!inject::schedules_threads()) return;
  unregister_rseq();
  trap_instructions();
}

inject::Fate do_call(inject::Call& call, ucontext_t&) {
  const bool is_done = do_machine_call(call);
  // In a runner what leaves a trace is noted where it is done.
  if (is_done && g_control == nullptr && !inject::is_traceless(call)) inject::spend_image();
  return is_done ? inject::Fate::kDone : inject::Fate::kNotMine;
}

}  // namespace

const inject::Model kMachineModel{
    .name = "machine",
    .start = start,
    .is_active = inject::schedules_threads,
    .do_call = do_call,
    .do_fault = emulate_instruction,
    .leave_faults = run_instructions,
};

bool do_machine_call(inject::Call& call) {
  const bool is_constructing = inject::g_phase == inject::Phase::kConstructing;
  if (is_constructing && call.number == SYS_getcwd) return call.result = answer_getcwd(call.a), true;
  // A recovery has the kernel's numbers.
  if ((is_constructing || g_control != nullptr) && answer_number(call.number, call.result)) return true;
  return answer_query(call.number, call.a, call.caller, call.result) ||
         do_outside_call(call.number, call.a, call.result);
}

bool answer_number(long number, long& result) {
  switch (number) {
    case SYS_getpid:
      result = kProgramPid;
      return true;
    case SYS_getppid:
      result = kProgramPid - 1;
      return true;
    case SYS_gettid:
      result = kProgramPid + (is_scheduling() ? static_cast<long>(index(current_actor().id)) : 0);
      return true;
    default:
      return false;
  }
}

bool answer_query(long number, const long* a, const void* caller, long& result) {
  switch (number) {
    case SYS_clock_gettime:
      result = answer_over<timespec>(number, a, 1, [](timespec& t) { t = to_timespec(now_ns()); });
      return true;
    case SYS_gettimeofday:
      result = answer_over<timeval>(number, a, 0, [](timeval& t) { t = to_timeval(now_ns()); });
      return true;
    case SYS_time: {
      const auto now = static_cast<time_t>(now_ns() / 1'000'000'000);
      result = answer_over<time_t>(number, a, 0, [&](time_t& t) { t = now; });
      if (result >= 0) result = now;
      return true;
    }
    case SYS_getrandom:
      // Bad addresses and flags are refused by the kernel. Its own numbers are written over.
      result = inject::crashcut_syscall(number, a[0], a[1], a[2], 0, 0, 0);
      if (result > 0) fill_random(pointer<void>(a[0]), static_cast<std::size_t>(result));
      return true;
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
      result = sleep_by_call(number, a, caller);
      return true;
    case SYS_sysinfo:
      result = answer_sysinfo(a);
      return true;
    case SYS_uname:
      result = answer_uname(a);
      return true;
    case SYS_getrusage:
      result = answer_rusage(a);
      return true;
    case SYS_times:
      result = answer_times(a);
      return true;
    case SYS_getcpu:
      result = answer_getcpu(a);
      return true;
    case SYS_sched_getaffinity:
      result = answer_getaffinity(a);
      return true;
    case SYS_sched_setaffinity:
      result = answer_setaffinity(a);
      return true;
    default:
      return false;
  }
}

}  // namespace crashcut::scheduler::runtime
