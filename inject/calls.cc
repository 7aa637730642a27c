// System calls that no model does: which of them the kernel forgets, and which are refused.
#include <asm/termbits.h>
#include <sys/ioctl.h>

#include "inject/model.h"

namespace crashcut::inject {

namespace {

// Queries, and waits that end by themselves.
bool is_query(const Call& call) {
  switch (call.number) {
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
    case SYS_sched_getparam:
    case SYS_sched_getscheduler:
    case SYS_sched_get_priority_max:
    case SYS_sched_get_priority_min:
      return true;
    case SYS_brk:
      return call.a[0] == 0;
    case SYS_ioctl:
      return call.a[1] == TCGETS;
    case SYS_prlimit64:
      return call.a[2] == 0;
    case SYS_rt_sigprocmask:
    case SYS_rt_sigaction:
      return call.a[1] == 0;
    default:
      return false;
  }
}

// A signal is for this process: whoever else can be reached from here is crashcut's. Asking whether a process lives is
// free.
bool signals_another(const Call& call) {
  const long signal = call.a[call.number == SYS_tgkill ? 2 : 1];
  return signal != 0 && call.a[0] != kernel(SYS_getpid);
}

struct Refused {
  long number;
  const char* call;
  bool only_scheduled = false;  // where threads are scheduled, as fibers of one thread of the kernel's
  bool (*applies)(const Call& call) = nullptr;
};

constexpr const char* kFork = "fork() (or system(), popen(), posix_spawn())";
constexpr const char* kForkScheduled =
    "fork() (or system(), popen(), posix_spawn(), or what makes libc begin a thread of its own, as timer_create() may)";
constexpr const char* kPoll = "poll(), select() or epoll_wait() outside of main(), or of what was made before main()";
constexpr const char* kWaits = "semop(), msgsnd() or msgrcv(), waits between processes";
constexpr const char* kNotify = "inotify_init() (or fanotify_init()), which tells of changes by other processes";
constexpr const char* kKill = "kill() of another process or of a group";

constexpr Refused kRefused[] = {
    {SYS_clone, kForkScheduled, true},
    {SYS_clone3, kForkScheduled, true},
    {SYS_clone, kFork},
    {SYS_clone3, kFork},
    {SYS_fork, "fork()"},
    {SYS_vfork, "vfork()"},
    {SYS_execve, "exec()"},
    {SYS_execveat, "exec()"},
    {SYS_kill, kKill, false, signals_another},
    {SYS_tgkill, kKill, false, signals_another},
    {SYS_setfsuid, "setfsuid()"},
    {SYS_setfsgid, "setfsgid()"},
    {SYS_capset, "capset()"},
    {SYS_socket, "socket()", true},
    {SYS_socketpair, "socket()", true},
    {SYS_accept, "socket()", true},
    {SYS_accept4, "socket()", true},
    {SYS_connect, "socket()", true},
    {SYS_epoll_wait, kPoll, true},
    {SYS_epoll_pwait, kPoll, true},
    {SYS_epoll_pwait2, kPoll, true},
    {SYS_poll, kPoll, true},
    {SYS_ppoll, kPoll, true},
    {SYS_select, kPoll, true},
    {SYS_pselect6, kPoll, true},
    {SYS_ptrace, "ptrace()", true},
    {SYS_inotify_init, kNotify, true},
    {SYS_inotify_init1, kNotify, true},
    {SYS_fanotify_init, kNotify, true},
    {SYS_perf_event_open, "perf_event_open()", true},
    {SYS_semop, kWaits, true},
    {SYS_semtimedop, kWaits, true},
    {SYS_msgrcv, kWaits, true},
    {SYS_msgsnd, kWaits, true},
    {SYS_mq_open, "mq_open(), a queue between processes", true},
};

}  // namespace

bool is_traceless(const Call& call) {
  if (is_query(call)) return true;
  for (std::size_t i = 0; i < kModelCount; ++i) {
    const Model& model = *kModels[i];
    if (model.undoes != nullptr && model.is_active() && model.undoes(call)) return true;
  }
  return false;
}

const char* refused_call(const Call& call) {
  for (const Refused& refused : kRefused) {
    if (refused.number != call.number || (refused.only_scheduled && !is_scheduled())) continue;
    if (refused.applies == nullptr || refused.applies(call)) return refused.call;
  }
  return nullptr;
}

}  // namespace crashcut::inject
