// Which system calls a restored image undoes, or never needed to: all others end the life of their process.
#include <asm/termbits.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "recovery/inprocess/call.h"
#include "recovery/inprocess/gate.h"
#include "recovery/inprocess/runtime.h"

namespace crashcut::inprocess {

namespace {

// Queries, and waits that end by themselves.
bool is_query(long number) {
  switch (number) {
    case SYS_getpid:
    case SYS_gettid:
    case SYS_getppid:
    case SYS_getpgrp:
    case SYS_getpgid:
    case SYS_getsid:
    case SYS_getuid:
    case SYS_geteuid:
    case SYS_getgid:
    case SYS_getegid:
    case SYS_getgroups:
    case SYS_getresuid:
    case SYS_getresgid:
    case SYS_getpriority:
    case SYS_getrlimit:
    case SYS_getrusage:
    case SYS_getrandom:
    case SYS_getcpu:
    case SYS_getcwd:
    case SYS_gettimeofday:
    case SYS_clock_gettime:
    case SYS_clock_getres:
    case SYS_clock_nanosleep:
    case SYS_nanosleep:
    case SYS_time:
    case SYS_times:
    case SYS_uname:
    case SYS_sysinfo:
    case SYS_sched_yield:
    case SYS_sched_getaffinity:
    case SYS_stat:
    case SYS_lstat:
    case SYS_fstat:
    case SYS_newfstatat:
    case SYS_statx:
    case SYS_statfs:
    case SYS_fstatfs:
    case SYS_access:
    case SYS_faccessat:
    case SYS_faccessat2:
    case SYS_readlink:
    case SYS_readlinkat:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool is_traceless(const Call& call) {
  if (is_query(call.number)) return true;
  switch (call.number) {
    case SYS_brk:
      return call.a[0] == 0 || static_cast<std::uint64_t>(call.a[0]) >= image_break();
    case SYS_ioctl:
      return call.a[1] == TCGETS;
    case SYS_prlimit64:
      return call.a[2] == 0;
    default:
      break;
  }
  // What a program does with the result of an open that failed.
  const CallEntry& entry = call_entry(call.number);
  return entry.function != nullptr && entry.filter == Filter::kFd && static_cast<int>(call.a[0]) < 0;
}

bool changes_process(const Call& call) {
  switch (call.number) {
    case SYS_rt_sigprocmask:
    case SYS_rt_sigaction:
      return call.a[1] != 0;
    case SYS_rt_sigsuspend:
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_epoll_pwait:
    case SYS_epoll_pwait2:
    case SYS_clone:
    case SYS_clone3:
    case SYS_tgkill:
    case SYS_tkill:
    case SYS_kill:
      return true;
    default:
      return false;
  }
}

}  // namespace crashcut::inprocess
