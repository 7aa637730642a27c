#include "inject/process.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "inject/child.h"
#include "inject/gate.h"

namespace crashcut::inject {

// libc has the kernel clear the id of the main thread when that ends: the kernel knows where it is.
static long find_thread_id() {
  int* address = nullptr;
  char* self;
  asm("movq %%fs:0x10, %0" : "=r"(self));
  const long own = kernel(SYS_gettid);
  constexpr int kGetTidAddress = 40;  // PR_GET_TID_ADDRESS
  if (kernel(SYS_prctl, kGetTidAddress, &address) == 0 && address != nullptr && *address == own)
    return reinterpret_cast<char*>(address) - self;
  for (long offset = 64; offset < 2048; offset += 4) {
    if (*reinterpret_cast<int*>(self + offset) == own) return offset;
  }
  return -1;
}

long thread_id_offset() {
  static const long offset = find_thread_id();
  return offset;
}

static int* own_thread_id() {
  if (thread_id_offset() < 0) return nullptr;
  char* self;
  asm("movq %%fs:0x10, %0" : "=r"(self));
  return reinterpret_cast<int*>(self + thread_id_offset());
}

long fork_child(ChildState& child, long own_pid, bool has_own_thread_id) {
  // abort() and mutexes of libc need the thread's id.
  int* thread_id = has_own_thread_id ? own_thread_id() : nullptr;
  // No signal when it ends: the program may ignore or handle SIGCHLD as it likes.
  const long flags = CLONE_PARENT_SETTID | (thread_id != nullptr ? CLONE_CHILD_SETTID : 0);
  const long pid = kernel(SYS_clone, flags, 0, &child.pid, thread_id, 0);
  if (pid != 0) return pid;
  kernel(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  if (kernel(SYS_getppid) != own_pid) kernel(SYS_exit_group, 0);  // the parent died before that
  return 0;
}

int wait_for_child(ChildState& child, long pid, std::uint64_t* cpu_ns) {
  int status = 0;
  rusage used{};
  while (kernel(SYS_wait4, pid, &status, __WALL, &used) == -EINTR) {
  }
  if (cpu_ns != nullptr) {
    const long us =
        (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
    *cpu_ns = static_cast<std::uint64_t>(us) * 1000;
  }
  child.began_ns.store(0, std::memory_order_relaxed);
  return status;
}

}  // namespace crashcut::inject
